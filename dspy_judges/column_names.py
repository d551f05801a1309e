"""When two names are of one column: case and what stands between words apart."""

import re

_BETWEEN = re.compile(r"[\s_-]+")


def name_key(column: str) -> str:
    """The same for `worker_id`, `Worker ID` and `WorkerId`."""
    return _BETWEEN.sub("", column.casefold())
