"""Open files: only regular ones are read, and nothing is written through a link."""

from errno import EINVAL
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "not a regular file", str(path))
    return path.open("rb")


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a regular file; raises OSError, or ValueError for more than `most`."""
    # Read one byte more, since a file may grow after its size is checked.
    with open_regular(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"more than {most:,} bytes")
    return raw


def claim_file(path: Path, *, anew: bool = False, permissions: int = 0o666) -> Path:
    """Return `path`, a regular file to write to, which is created if it does not exist.

    This is for names that the user did not choose. In a stranger's folder such a name may be a link
    to another file, or a pipe that blocks, which raises OSError. With `anew` the name is removed
    first.
    """
    if anew:
        path.unlink(missing_ok=True)
    try:
        path.touch(permissions, exist_ok=False)
    except FileExistsError:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(EINVAL, "is a link or not a regular file: delete it", str(path)) from None
    return path
