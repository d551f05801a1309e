"""Write files completely or not at all, and lock them so that one run at a time uses them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from dspy_judges.errors import ExistsError
from dspy_judges.files import claim_file


class InUseError(OSError):
    """Raised if another run, in this or another process, has locked the file or folder."""


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Lock a file or folder within this context; raises InUseError if another run uses it.

    The lock is a file: `.NAME.lock` next to a file NAME, or `.lock` in a folder. If the process
    ends, the operating system releases the lock.
    """
    from filelock import FileLock, Timeout  # slow to import, since it loads asyncio

    lock_path = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    lock = FileLock(claim_file(lock_path))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InUseError(f"{path} is in use by another run: wait until that run ends") from None
    try:
        yield
    finally:
        # The lock file is deleted before the release, since another run may lock it afterwards.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write the content to a temporary file in the same folder, then rename the file to `path`.

    Raises ExistsError if `path` exists, unless `overwrite` is true.
    """
    temporary_path = path.with_name(f".{path.name}.{token_hex(4)}")
    if path.exists() and not overwrite:
        raise ExistsError(f"{path} exists already; name another file")
    try:
        with temporary_path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # so that the content is on the disk, not only in a cache
        temporary_path.replace(path)
    except OSError as error:
        # The error names `path`, since the user does not know the name of the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary_path.unlink(missing_ok=True)
