"""Log warnings that many requests have in common, once in a process."""

import logging
from functools import lru_cache

# Python prints a logged warning to stderr, even if logging is not configured.
warn_once = lru_cache(logging.getLogger(__name__).warning)
