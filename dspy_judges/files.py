"""Open files safely: only regular files are read, and nothing is written through a link."""

from errno import EINVAL
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; pipes and devices, which may never end, raise OSError."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "not a regular file", str(path))
    return path.open("rb")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return a regular file's bytes; raises ValueError if there are more than `max_bytes`."""
    # Read one byte more than is allowed, since a file may grow after its size is checked.
    with open_regular(path) as file:
        file_bytes = file.read(max_bytes + 1)
    if len(file_bytes) > max_bytes:
        raise ValueError(f"more than {max_bytes:,} bytes")
    return file_bytes


def claim_file(path: Path, *, replace: bool = False, permissions: int = 0o666) -> Path:
    """Create the file `path` if it does not exist, and return its path for writing.

    Use this function if the program chooses the file's name. In a stranger's folder, a file of that
    name may be a link to another file, or a pipe that blocks; both raise OSError. If `replace` is
    true, an existing file of that name is deleted first.
    """
    if replace:
        path.unlink(missing_ok=True)
    try:
        path.touch(permissions, exist_ok=False)
    except FileExistsError:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(EINVAL, "is a link or not a regular file: delete it", str(path)) from None
    return path
