"""Files that are written under names that no user chose, for `data` and `judges` alike."""

from errno import EINVAL
from pathlib import Path


def claim_file(path: Path, *, anew: bool = False, permissions: int = 0o666) -> Path:
    """Return `path`, a regular file to write to, which is created where there is none.

    In a stranger's folder the name may be a link, which would choose what is written, or a pipe,
    which would wait for ever: OSError. With `anew` whatever has the name is removed first.
    """
    if anew:
        path.unlink(missing_ok=True)
    try:
        path.touch(permissions, exist_ok=False)
    except FileExistsError:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(EINVAL, "is a link or no regular file: delete it", str(path)) from None
    return path
