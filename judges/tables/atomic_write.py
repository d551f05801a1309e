"""Write files whole or not at all, and lock them for one run at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from dspy_judges.files import claim_file


class InUseError(OSError):
    """Another run, in this process or another, is using the file."""


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Lock a file or folder for this run; InUseError if another run has locked it.

    The lock is a file, `.NAME.lock` beside a file or `.lock` in a folder, and the system releases
    it when the process dies.
    """
    from filelock import FileLock, Timeout  # slow to import, since it loads asyncio

    name = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    lock = FileLock(claim_file(name))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InUseError(f"{path} is in use by another run: wait for its end") from None
    try:
        yield
    finally:
        # Deleted before its release, so that nobody locks a deleted file.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a file beside `path`, then rename it; FileExistsError if `path` exists."""
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
        # The error names the partial file, which the user does not know.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
