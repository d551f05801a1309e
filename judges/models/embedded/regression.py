"""Update the emphases by worked examples: Bayesian linear regression towards what was asked."""

import numpy as np

from judges.models.embedded.facets import Vector

# Before any example: how far an emphasis may be from what the words ask (weights are about .1 to
# .6 in size, facets about 1), and how far people's ratings stray from any such sum (one unit is
# half the scale). With these a handful of examples nudges, and dozens decide.
SPREAD = 0.12
NOISE = 0.6
LEVEL_SPREAD = 0.5


def update(
    prior: Vector, facets: Vector, ratings: Vector, *, level: float | None
) -> tuple[Vector, float]:
    """The most probable weights and level given examples.

    `facets` is (n, facets), `ratings` (n,) in latent units; `level` is the level expected before
    any example, or None where there is none, as between two sides. Returns weights and level.
    """
    if not len(ratings):
        return prior, level or 0.0
    columns, spreads, middle = facets, np.full(len(prior), SPREAD), prior
    if level is not None:
        columns = np.column_stack([facets, np.ones(len(ratings))])
        spreads = np.append(spreads, LEVEL_SPREAD)
        middle = np.append(prior, level)
    # The posterior through the examples' covariance: n is small.
    scaled = columns * spreads**2
    covariance = scaled @ columns.T + NOISE**2 * np.eye(len(ratings))
    gain = np.linalg.solve(covariance, ratings - columns @ middle)
    posterior = middle + scaled.T @ gain
    if level is None:
        return posterior, 0.0
    return posterior[:-1], float(posterior[-1])
