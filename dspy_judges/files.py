"""How files are opened: only regular ones are read, and nothing is written through a link."""

from errno import EINVAL
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "not a regular file", str(path))
    return path.open("rb")


def read_bytes(path: Path, most: int) -> bytes:
    """What a regular file of at most so many bytes holds; raises OSError, or ValueError."""
    # One byte more than allowed is read, since a file may grow after its size was asked.
    with open_regular(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"more than {most:,} bytes")
    return raw


def claim_file(path: Path, *, anew: bool = False, permissions: int = 0o666) -> Path:
    """Return `path`, a regular file to write to, which is created where there is none.

    It is for names that no user chose. In a stranger's folder one may be a link, which would choose
    what is written, or a pipe, which would wait for ever: OSError. With `anew` whatever has the
    name is removed first.
    """
    if anew:
        path.unlink(missing_ok=True)
    try:
        path.touch(permissions, exist_ok=False)
    except FileExistsError:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(EINVAL, "is a link or no regular file: delete it", str(path)) from None
    return path
