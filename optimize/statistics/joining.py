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
    """Return non-negative weights whose sum of answers follows people's labels.

    This is least squares with a ridge: weights are drawn to the prior, scaled as its own sum of
    answers fits the labels best. Weights that are learned freely from seen systems are lost on new
    ones.

    Args:
        answers: A matrix (outputs, answers). Each column has a mean of 0 over whatever is ranked
            together, and a mean square of about 1.
        human: People's labels of these outputs, with a mean of 0 likewise.
        prior: The share of each answer where labels tell nothing; at least 0, with a sum of 1.
        shrinkage: How many outputs the prior counts as much as, 0 or more.

    Returns:
        A weight for each answer, at least 0, with a sum of 1: the prior itself where its sum of
        answers goes against the labels.
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
