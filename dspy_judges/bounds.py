"""Upper bounds on the size of the files that commands and functions read.

With these bounds, any file is read or refused within about ten seconds and 500 MB of memory.
"""

MAX_BYTES = 128 * 2**20  # of a table in memory, one line, a JSON file or an unpacked file
BYTES_PER_VALUE = 64  # approximate memory of a value, without the value's text
MAX_CELLS = 2**20  # of a sheet in a workbook: 100,000 rows of ten columns
# The most commas and brackets in a JSON text; each may stand for a value of 70 bytes in memory.
MAX_JSON_PUNCTUATION = 3_000_000
# The most columns of a table, and the most keys in a cell: each name is compared with all others.
MAX_COLUMNS = 1000
MAX_PROBLEMS = 100_000  # problems that are reported for one file
MAX_NESTING = 100  # depth of nested lists and objects, which are read recursively
# The most XML tags in a workbook's styles; openpyxl reads each tag in 30 microseconds.
MAX_STYLE_TAGS = 100_000
# The most bytes of a YAML file. Aliases are refused, since they can expand to gigabytes.
MAX_YAML_BYTES = 200_000
# The most bytes and brackets in a frozen judge's file: each bracket may take 1,000 bytes in memory.
MAX_JUDGE_BYTES, MAX_JUDGE_BRACKETS = 20_000_000, 500_000


def estimate_memory(value: object, depth: int = 0) -> int:
    """Return a value's approximate memory in bytes; raise ValueError if it is nested too deeply."""
    if depth > MAX_NESTING:
        raise ValueError(f"is nested too deeply (more than {MAX_NESTING} levels)")
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return BYTES_PER_VALUE + sum(estimate_memory(child, depth + 1) for child in children)
    return BYTES_PER_VALUE + (len(value) if isinstance(value, str | bytes) else 0)
