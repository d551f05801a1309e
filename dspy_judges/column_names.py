"""Compare column names without regard to case, spaces, hyphens and underscores."""

import re

_SEPARATORS = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """Return a column name for comparisons: `workerid` for `Worker ID` and `worker_id`."""
    return _SEPARATORS.sub("", column.casefold())
