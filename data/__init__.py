"""Human labels: all names of `judges.labels`, importable as `data` too."""

from judges.labels import *  # noqa: F403
