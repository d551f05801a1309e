"""Files that land whole or not at all, and never on top of another unless asked."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write beside `path`, then move there; FileExistsError names a file that is in the way."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        # It names the file beside, which nobody asked for.
        raise OSError(error.errno, error.strerror, str(path)) from None
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o666 & ~_umask())
        land(partial, path, overwrite=overwrite)
    finally:
        partial.unlink(missing_ok=True)


def land(partial: Path, path: Path, *, overwrite: bool = False) -> None:
    """Move a finished file to its name in one step."""
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
