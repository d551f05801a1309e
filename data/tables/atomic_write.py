"""Files that land whole or not at all, never on top of another unless asked, for one at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

from filelock import FileLock, Timeout


class InUseError(OSError):
    """Another process, or another run in this one, works with the file."""


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Keep a file or folder to this run; InUseError where another run has it already.

    The system lets go of it when a process dies, however it dies. The lock is a file beside a file,
    `.NAME.lock`, and inside a folder, `.lock`.
    """
    lock = FileLock(path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InUseError(f"{path} is in use by another run: wait for its end") from None
    except OSError as error:
        # It names the file beside, which nobody asked for.
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield
    finally:
        # While it is held, so that nobody holds a file that has lost its name.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write beside `path`, then move there; FileExistsError names a file that is in the way."""
    partial = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with partial.open("xb") as file:
            _write_out(file, content, path)
        move_into_place(partial, path, overwrite=overwrite)
    except OSError as error:
        if error.filename == str(partial):
            # It names the file beside, which nobody asked for.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        partial.unlink(missing_ok=True)


def _write_out(file: IO[bytes], content: bytes, path: Path) -> None:
    """Write to the disk itself, not to its cache alone; an OSError names `path`."""
    try:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def move_into_place(partial: Path, path: Path, *, overwrite: bool = False) -> None:
    """Move a finished file to its name in one step; FileExistsError where the name is taken."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already")
    partial.replace(path)
