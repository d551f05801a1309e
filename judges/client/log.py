"""Log a warning only once in a process, even if many requests cause it."""

import logging
from functools import lru_cache

# Python prints a logged warning to stderr, even if logging is not configured.
warn_once = lru_cache(logging.getLogger(__name__).warning)
