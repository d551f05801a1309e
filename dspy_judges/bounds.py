"""Upper bounds on files.

Within these a file is read or refused in about ten seconds and 500 MB.
"""

# Bytes of a table in memory, of a line, of a JSON file, and of an unpacked file.
MAX_BYTES = 128 * 2**20
# Bytes of a value in memory beside its text.
VALUE_BYTES = 64
# Cells of a table in memory: 100,000 rows of ten columns.
MAX_CELLS = 2**20
# Commas and brackets of a JSON text: three bytes may take seventy in memory.
MAX_MARKS = 3_000_000
# Columns of a table, and names in a cell, which are compared with each other.
MAX_COLUMNS = 1000
# Problems of a file that are collected.
MAX_PROBLEMS = 100_000
# Depth of nested lists and objects, which are read recursively.
MAX_DEPTH = 100
# XML elements of a workbook's formats, each of which takes openpyxl 30 microseconds.
MAX_FORMATS = 100_000
# Bytes of a YAML file, which may have no aliases, since these can expand to gigabytes.
MAX_YAML_BYTES = 200_000
# Bytes and brackets of a frozen judge, where twenty bytes may take a thousand in memory.
MAX_JUDGE_BYTES, MAX_JUDGE_BRACKETS = 20_000_000, 500_000


def memory_of(value: object, depth: int = 0) -> int:
    """About how many bytes a value takes in memory; ValueError if it is nested too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError(f"is nested too deeply (more than {MAX_DEPTH})")
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return VALUE_BYTES + sum(memory_of(part, depth + 1) for part in parts)
    return VALUE_BYTES + (len(value) if isinstance(value, str | bytes) else 0)
