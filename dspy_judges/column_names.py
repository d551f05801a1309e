"""Compare column names without regard to case, spaces, hyphens and underscores."""

import re

_SEPARATORS = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """The form of a column name that is compared: `workerid` for `Worker ID` and `worker_id`."""
    return _SEPARATORS.sub("", column.casefold())
