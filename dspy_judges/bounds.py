"""How much of a file is read: every bound in one table.

Within them a file is read or refused in about ten seconds and 500 MB.
"""

# Bytes of a table in memory, of one line, of a JSON file, and of what a packed file unpacks to.
MAX_BYTES = 128 * 2**20
# Bytes that a value takes in memory beside its text.
VALUE_BYTES = 64
# Cells of a table in memory: 100,000 rows of ten columns.
MAX_CELLS = 2**20
# Commas and brackets of a JSON text: three bytes may take seventy in memory.
MAX_MARKS = 3_000_000
# Columns of a table, and names in a cell: each is compared with the others to tell what it holds.
MAX_COLUMNS = 1000
# Problems of a file that are collected: a check prints some of each sort.
MAX_PROBLEMS = 100_000
# Lists and objects inside each other: what reads and writes them is recursive.
MAX_DEPTH = 100
# XML elements of a workbook's formats: openpyxl takes 30 microseconds for each.
MAX_FORMATS = 100_000
# Bytes of a YAML file. It may have no aliases, by which a few bytes stand for gigabytes.
MAX_YAML_BYTES = 200_000
# Of a frozen judge, which is checked as a whole: twenty bytes may take a thousand in memory.
MAX_JUDGE_BYTES, MAX_JUDGE_BRACKETS = 20_000_000, 500_000


def memory_of(value: object, depth: int = 0) -> int:
    """About how many bytes a value takes; ValueError where lists and objects nest too deeply."""
    if depth > MAX_DEPTH:
        raise ValueError(f"is nested too deeply (more than {MAX_DEPTH})")
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return VALUE_BYTES + sum(memory_of(part, depth + 1) for part in parts)
    return VALUE_BYTES + (len(value) if isinstance(value, str | bytes) else 0)
