"""Compare names of columns without case, blanks and underscores."""

import re

_BETWEEN = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """The key of a name, the same for `worker_id`, `Worker ID` and `WorkerId`."""
    return _BETWEEN.sub("", column.casefold())
