"""Files that are written whole or not at all, and used by one run at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from dspy_judges.files import claim_file


class InUseError(OSError):
    """Another process, or another run in this one, works with the file."""


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Lock a file or folder for this run; InUseError where another run has it already.

    The system releases the lock when a process dies. It is a file: `.NAME.lock` beside a file,
    `.lock` in a folder.
    """
    from filelock import FileLock, Timeout  # which loads asyncio

    name = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    lock = FileLock(claim_file(name))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InUseError(f"{path} is in use by another run: wait for its end") from None
    try:
        yield
    finally:
        # While it is held, so that nobody holds a file that has lost its name.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write to a file beside `path`, then rename it; FileExistsError where `path` is taken."""
    partial = path.with_name(f".{path.name}.{token_hex(4)}")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; name another file")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # to the disk itself, not to its cache alone
        partial.replace(path)
    except OSError as error:
        # It names the partial file, which the user does not know.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
