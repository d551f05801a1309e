"""From a latent score to probabilities over a scale, and from a rating back to the latent score."""

import math
from collections.abc import Sequence

# A latent 0 stands this far up the scale, since most outputs of today's systems are fair.
CENTRE = 0.6
STEEPNESS = 1.1
# The spread of a single rating, in steps of the scale: people differ by about one of five.
LEAST_SPREAD, PART_OF_SCALE, MOST_SPREAD = 0.45, 0.16, 4.0


def place(latent: float) -> float:
    """Where on the scale a latent score stands, in (0, 1)."""
    return 1 / (1 + math.exp(-_logit(CENTRE) - STEEPNESS * latent))


def latent_of(rating: float, scale: Sequence[int]) -> float:
    """The latent score that a rating on the scale tells of; the ends are drawn in a little."""
    n = len(scale)
    step = min(range(n), key=lambda i: abs(scale[i] - rating))
    return (_logit((step + 0.5) / n) - _logit(CENTRE)) / STEEPNESS


def probabilities(latent: float, n: int) -> list[float]:
    """The probability of each of n ratings, worst first: a normal cut into steps."""
    middle = place(latent) * n - 0.5
    spread = max(LEAST_SPREAD, min(MOST_SPREAD, PART_OF_SCALE * n))
    logs = [-0.5 * ((step - middle) / spread) ** 2 for step in range(n)]
    most = max(logs)
    weights = [math.exp(max(-60.0, log - most)) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
