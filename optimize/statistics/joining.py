"""How much each of several answers counts in their sum: weights that labels teach."""

import numpy as np

from optimize.statistics.correlations import Codes
from optimize.statistics.intervals import Matrix, Vector

# The prior counts as much as so many outputs. 100 and 300 differ little; a tenth of all outputs is
# worse where these are few (benchmarks/panels.py, on which this was chosen).
SHRINKAGE = 100.0


def joining_weights(
    answers: Matrix, human: Vector, prior: Vector, shrinkage: float = SHRINKAGE
) -> Vector:
    """A weight for each answer, at least 0, with a sum of 1, so that the sum follows the labels.

    This is least squares with a ridge: weights are drawn to the prior (which has a sum of 1), since
    weights that are learned freely from known systems do not hold on new ones. They are the prior
    itself where its sum of answers goes against the labels. Columns of `answers` (outputs, answers)
    and labels have a mean of 0 over whatever is ranked together, and columns a mean square of about
    1. The prior counts as much as `shrinkage` outputs.
    """
    from scipy.optimize import nnls

    expected = answers @ prior
    fit = float(expected @ human) / max(float(expected @ expected), np.finfo(float).tiny)
    if fit <= 0:
        return prior
    strength = np.sqrt(shrinkage)
    rows = np.vstack([answers, strength * np.eye(len(prior))])
    weights: Vector = nnls(rows, np.concatenate([human, strength * fit * prior]))[0]
    return weights / weights.sum() if weights.any() else prior


def centred(values: Matrix, group: Codes) -> Matrix:
    """Each column of the values (rows, columns) less the mean of its row's group, from 0 on."""
    sizes = np.maximum(np.bincount(group), 1)
    means = [np.bincount(group, column) / sizes for column in values.T]
    result: Matrix = values - np.column_stack(means)[group]
    return result
