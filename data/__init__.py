"""Human labels: what `judges.labels` offers, under the name of the folder of the starter set."""

from judges.labels import *  # noqa: F403
