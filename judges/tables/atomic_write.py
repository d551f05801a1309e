"""Writes files completely or not at all, and locks them for one run at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from dspy_judges.files import claim_file


class InUseError(OSError):
    """Raised if another run, in this process or another one, is using the file."""


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Lock a file or folder for this run; raises InUseError if another run has locked it.

    The lock is itself a file: `.NAME.lock` next to a file NAME, or `.lock` in a folder. The
    operating system releases it when the process ends.
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
        # The file is deleted before the lock is released: no other run can lock a deleted file.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a temporary file in the same folder, then rename it to `path`.

    Raises FileExistsError if `path` exists, unless `overwrite`.
    """
    partial = path.with_name(f".{path.name}.{token_hex(4)}")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; name another file")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # to the disk itself, not only to its cache
        partial.replace(path)
    except OSError as error:
        # The original error names the temporary file, which the user does not know.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
