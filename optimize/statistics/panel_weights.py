"""Learn from human labels how much each answer of a judge counts in its score, a weighted sum."""

import numpy as np

from optimize.statistics.intervals import Codes, Matrix, Vector

# The prior has as much influence as this many labelled outputs. On panels of recorded judges, 100
# and 300 differed little, and a tenth of the number of outputs was worse if there were few outputs.
SHRINKAGE_OUTPUTS = 100.0


def fit_joining_weights(
    answers: Matrix, human: Vector, prior: Vector, shrinkage: float = SHRINKAGE_OUTPUTS
) -> Vector:
    """Fit non-negative weights, which sum to 1, so that the weighted answers predict the labels.

    The fit is a ridge regression that shrinks the weights towards `prior`, which counts as much as
    `shrinkage` labelled outputs. Weights that were fitted without a prior to some systems do not
    suit new systems. `prior` is returned if the answers, weighted by it, do not correlate
    positively with the labels.

    `answers`, of shape (outputs, answers), and `human` have a mean of 0 within each group of
    outputs that are ranked together (see `group_means`). The columns of `answers` have a mean
    square of about 1.
    """
    from scipy.optimize import nnls

    prior_sum = answers @ prior
    prior_slope = float(prior_sum @ human) / max(float(prior_sum @ prior_sum), np.finfo(float).tiny)
    if prior_slope <= 0:
        return prior
    ridge_factor = np.sqrt(shrinkage)
    design = np.vstack([answers, ridge_factor * np.eye(len(prior))])
    weights: Vector = nnls(design, np.concatenate([human, ridge_factor * prior_slope * prior]))[0]
    return weights / weights.sum() if weights.any() else prior


def group_means(values: Matrix, group_codes: Codes) -> Matrix:
    """Return for each value the mean of its column over the rows of the same group."""
    group_sizes = np.maximum(np.bincount(group_codes), 1)
    means = [np.bincount(group_codes, column) / group_sizes for column in values.T]
    return np.asarray(np.column_stack(means)[group_codes])
