"""Compare column names without regard to case, spaces, hyphens and underscores."""

import re

_SEPARATORS = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """The key by which names are compared; it is equal for `worker_id`, `Worker ID`, `WorkerId`."""
    return _SEPARATORS.sub("", column.casefold())
