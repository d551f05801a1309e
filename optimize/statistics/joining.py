"""Weights for a sum of several answers, learned from labels."""

import numpy as np

from optimize.statistics.correlations import Codes
from optimize.statistics.intervals import Matrix, Vector

# The number of outputs that the prior counts as. Chosen on benchmarks/panels.py: 100 and 300 differ
# little, and a tenth of all outputs is worse if there are few outputs.
SHRINKAGE = 100.0


def joining_weights(
    answers: Matrix, human: Vector, prior: Vector, shrinkage: float = SHRINKAGE
) -> Vector:
    """Weights for the answers so that their weighted sum fits the labels.

    Weights are at least 0 and sum to 1. They are fitted by ridge regression that shrinks them
    towards the prior, because weights that are fitted freely to known systems do not fit new ones.

    Args:
        answers: (outputs, answers), each column with a mean of 0 over outputs that are ranked
            together, and a mean square of about 1.
        human: (outputs,) people's labels, with a mean of 0 in the same way.
        prior: The weights to shrink towards, which sum to 1.
        shrinkage: As how many outputs the prior counts.

    Returns:
        The weights; the prior itself if its weighted sum goes against the labels.
    """
    from scipy.optimize import nnls

    prior_sum = answers @ prior
    fit = float(prior_sum @ human) / max(float(prior_sum @ prior_sum), np.finfo(float).tiny)
    if fit <= 0:
        return prior
    strength = np.sqrt(shrinkage)
    rows = np.vstack([answers, strength * np.eye(len(prior))])
    weights: Vector = nnls(rows, np.concatenate([human, strength * fit * prior]))[0]
    return weights / weights.sum() if weights.any() else prior


def centred(values: Matrix, group: Codes) -> Matrix:
    """The values (rows, columns) less the column's mean in the row's group; groups count from 0."""
    sizes = np.maximum(np.bincount(group), 1)
    means = [np.bincount(group, column) / sizes for column in values.T]
    result: Matrix = values - np.column_stack(means)[group]
    return result
