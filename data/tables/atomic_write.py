"""Files that land whole or not at all, never on top of another unless asked, for one at a time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no advisory locks: nothing is held there.
    fcntl = None  # type: ignore[assignment]


class InUseError(OSError):
    """Another process, or another run in this one, works with the file; the message says who."""


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Keep a file or folder to this run; InUseError names the process that has it already.

    The system lets go of it when a process dies, however it dies. The lock is a file beside a file,
    `.NAME.lock`, and inside a folder, `.lock`.
    """
    lock = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    handle = _hold(path, lock)
    try:
        yield
    finally:
        # While it is held, so that nobody holds a file that has lost its name.
        lock.unlink(missing_ok=True)
        os.close(handle)


def _hold(path: Path, lock: Path) -> int:
    """The open and locked handle of the lock file; InUseError where another run has it."""
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            # It names the file beside, which nobody asked for.
            raise OSError(error.errno, error.strerror, str(path)) from None
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
        except BlockingIOError:
            holder = os.read(handle, 20).decode("ascii", "replace").strip() or "another process"
            os.close(handle)
            who = "this very process" if holder == str(os.getpid()) else f"process {holder}"
            raise InUseError(f"{path} is in use by {who}: wait for its end") from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder has just taken the file away


def write_atomically(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write beside `path`, then move there; FileExistsError names a file that is in the way."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        # It names the file beside, which nobody asked for.
        raise OSError(error.errno, error.strerror, str(path)) from None
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _write_out(file, content, path)
        partial.chmod(0o666 & ~_umask())
        move_into_place(partial, path, overwrite=overwrite)
    finally:
        partial.unlink(missing_ok=True)


def _write_out(file: IO[bytes], content: bytes, path: Path) -> None:
    """Write to the disk itself, not to its cache alone; an OSError names `path`."""
    try:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            file.close()
        raise OSError(error.errno, error.strerror, str(path)) from error


def move_into_place(partial: Path, path: Path, *, overwrite: bool = False) -> None:
    """Move a finished file to its name in one step; without `overwrite` never over another.

    Raises FileExistsError where the name is taken.
    """
    if overwrite:
        partial.replace(path)
        return
    try:
        # A link fails where the name is taken, in one step; a rename would replace.
        path.hardlink_to(partial)
    except FileExistsError as error:
        raise FileExistsError(f"{path} exists already") from error
    except OSError:
        # A file system without links.
        if path.exists():
            raise FileExistsError(f"{path} exists already") from None
        partial.replace(path)
        return
    with suppress(FileNotFoundError):
        partial.unlink()


def _umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
