"""Compare column names without regard to case, spaces, hyphens and underscores."""

import re

_SEPARATORS = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """The key of a name, the same for `worker_id`, `Worker ID` and `WorkerId`."""
    return _SEPARATORS.sub("", column.casefold())
