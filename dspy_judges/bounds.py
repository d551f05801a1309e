"""How much of a file or an answer is read: every bound in one table.

Within them a file is read or refused in about ten seconds and 500 MB.
"""

import errno
from pathlib import Path
from typing import BinaryIO

# Bytes of a table in memory, of one line, of a JSON file, and of what a packed file unpacks to.
MAX_BYTES = 128 * 2**20
# Bytes that a cell or a value of JSON takes beside its text; so many values fill a table.
VALUE_BYTES = 128
MAX_VALUES = MAX_BYTES // VALUE_BYTES
# Columns of a table: to tell what they hold, each is compared with all others.
MAX_COLUMNS = 1000
# Keys inside objects in cells that are looked at without being named by --map.
MAX_NESTED_NAMES = 200
# Lists and objects inside each other: what reads and writes them is recursive.
MAX_DEPTH = 100
# XML elements of a workbook's part that holds no cells: openpyxl takes 30 microseconds for each.
MAX_XML_ELEMENTS = 100_000
# Bytes of a YAML file. It may have no aliases, by which a few bytes stand for gigabytes.
MAX_YAML_BYTES = 200_000
# Bytes of a frozen judge; of its demonstrations, beside which an instruction and a provenance fit.
MAX_JUDGE_BYTES, MAX_DEMO_BYTES = 20_000_000, 16_000_000
# Of a frozen judge, which is checked as a whole: twenty bytes may take a thousand in memory.
MAX_JUDGE_BRACKETS = 500_000
# Bytes of an endpoint's answer: several times what replies and their alternatives take.
MAX_ANSWER_BYTES = 8 * 2**20
# Bytes of what the label page sends.
MAX_BODY_BYTES = 2**20


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb")


def read_bytes(path: Path, most: int) -> bytes:
    """What a regular file of at most so many bytes holds; raises OSError, or ValueError."""
    # One byte more than allowed is read, since a file may grow after its size was asked.
    with open_regular(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"more than {most:,} bytes")
    return raw
