"""Teach the embedded model, a small statistical judge, from demonstrations by Bayesian regression.

A text gets a latent score, which `choice_probabilities` turns into probabilities of the ratings.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from judges.embedded.facets import FloatArray

# Scores are rounded to this number of decimals, since processors add numbers in different orders.
SCORE_DECIMALS = 9

# A rating's position on its scale, from 0 to 1, is a logistic function of the latent score.
# RATING_CENTRE is the position for the latent score 0. It is above the middle, since most outputs
# of today's systems are fair. RATING_STEEPNESS is the slope of the position's logit.
RATING_CENTRE, RATING_STEEPNESS = 0.6, 1.1
# The SD of one rating, in steps of the scale: on a five-step scale, people differ by about a step.
MIN_RATING_SD, RATING_SD_PER_STEP, MAX_RATING_SD = 0.45, 0.16, 4.0
# The logit of P(A is preferred) is this slope times the difference of the two latent scores.
PREFERENCE_SLOPE = 2.2
# The difference of the latent scores that is assumed for the two outputs of a demonstration.
PREFERENCE_MARGIN = 0.8

# The next constants are standard deviations (SDs) of the prior distributions, in units of the
# residual SD of a latent score. The prior SD of a feature's weight: a fraction of the weight's
# prior mean, plus a constant.
WEIGHT_SD_FRACTION, WEIGHT_SD_CONSTANT = 0.8, 0.07
# The prior SDs of a factor of all weights, and of an offset that is added to all scores.
FACTOR_SD, COMMON_OFFSET_SD = 1.0, 0.8
# The prior SD of a further offset, which is added to all examples with the same source.
SOURCE_OFFSET_SD = 0.6
# The smallest factor by which the prior weights are multiplied.
MIN_WEIGHT_FACTOR = 0.7
# Each example corrects the scores of the texts that are similar to it: by an offset of the score,
# and by a shift of the features' weights. OFFSET_SDS are tried for the offsets, and SHIFT_SDS, in
# prior SDs of the weights, for the shifts. The results for all pairs of the two SDs are averaged,
# weighted by their cross-validated likelihood.
OFFSET_SDS, SHIFT_SDS = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
# Penalties for large SDs: multiples of the squared SDs, subtracted from the log-likelihood.
OFFSET_PENALTY, SHIFT_PENALTY = 3.0, 1.0
# New texts get this fraction of an example's offset; the rest is due to the example's system.
NEW_TEXT_FRACTION = 0.4
# The prior mean of the residual SD, and how many examples this prior counts as.
PRIOR_RESIDUAL_SD, PRIOR_EXAMPLES = 0.9, 8
# Features are clipped at this number of standard deviations of the examples.
MAX_Z_SCORE = 3.0
NO_EXAMPLES = np.zeros(0)


class ExampleSimilarity:
    """Computes how similar texts are to examples, by the features that vary among the examples."""

    def __init__(self, examples: FloatArray) -> None:
        sd = examples.std(axis=0)
        self._n_varying = max(1, np.count_nonzero(sd > 1e-9))
        # A feature that is equal in all examples gets the z-score 0 in every text.
        self._mean, self._sd = examples.mean(axis=0), np.where(sd > 1e-9, sd, math.inf)
        self._example_z_scores = self._standardise(examples)

    def _standardise(self, features: FloatArray) -> FloatArray:
        z_scores: FloatArray = (features - self._mean) / self._sd
        return z_scores.clip(-MAX_Z_SCORE, MAX_Z_SCORE)

    def compute_similarities(self, features: FloatArray) -> FloatArray:
        """Return the similarity (0 to 1) of texts to each example, a Gaussian kernel."""
        x, y = self._standardise(features), self._example_z_scores
        squares = (x**2).sum(axis=-1)[..., None] + (y**2).sum(axis=1)
        squared_distances = np.maximum(0.0, squares - 2 * x @ y.T)
        return np.asarray(np.exp(-0.5 * squared_distances / self._n_varying))


class Regression(NamedTuple):
    """A linear model of latent scores: the weights of features, and an intercept.

    If `similarity` is given, each example corrects the scores of similar texts: the example's entry
    of `offsets` is added to the score, and its row of `shifts` to the weights. The entry and the
    row are multiplied by the text's similarity to the example.
    """

    weights: FloatArray
    intercept: float = 0.0
    similarity: ExampleSimilarity | None = None
    offsets: FloatArray = NO_EXAMPLES
    shifts: FloatArray = NO_EXAMPLES

    def predict(self, features: FloatArray) -> tuple[float, FloatArray]:
        """Return the latent score for the features, and each feature's contribution."""
        contributions, intercept = self.weights * features, self.intercept
        if self.similarity is not None:
            similarities = self.similarity.compute_similarities(features)
            contributions = contributions + similarities @ self.shifts * features
            intercept += float(similarities @ self.offsets)
        return round(intercept + math.fsum(contributions), SCORE_DECIMALS), contributions


def fit_regression(
    prior_weights: FloatArray,
    features: FloatArray,
    latent_scores: FloatArray,
    source_indices: Sequence[Sequence[int]],
    *,
    is_pairwise: bool,
) -> Regression:
    """Return the posterior mean of the weights, the intercept and the examples' corrections.

    `features` has a row for each example; a pair's row has the differences, A minus B. Each element
    of `source_indices` has the indices of the examples of one source.
    """
    weight_variances = (WEIGHT_SD_FRACTION * np.abs(prior_weights) + WEIGHT_SD_CONSTANT) ** 2
    prior_scores = features @ prior_weights
    residuals = latent_scores - prior_scores
    # The posterior is computed from the covariance matrix of the examples' scores (n by n), since
    # there are few examples. The matrix is the sum of `fixed_covariance`, of `similarities` times
    # the offsets' variance, and of `shift_covariance` times the shifts' variance.
    fixed_covariance = np.eye(len(features)) + FACTOR_SD**2 * np.outer(prior_scores, prior_scores)
    # For pairs, there are no corrections, so that a swapped pair gets the same result.
    example_similarity = None if is_pairwise else ExampleSimilarity(features)
    similarities = np.ones_like(fixed_covariance)
    if example_similarity is not None:
        similarities = example_similarity.compute_similarities(features)
        fixed_covariance += COMMON_OFFSET_SD**2
        for indices in source_indices:
            fixed_covariance[np.ix_(indices, indices)] += SOURCE_OFFSET_SD**2
    shift_covariance = (features * weight_variances) @ features.T * similarities
    sd_pairs = list(product((0.0,) if is_pairwise else OFFSET_SDS, SHIFT_SDS))
    scaled_residuals, log_evidences = [], []
    for offset_sd, shift_sd in sd_pairs:
        covariance = fixed_covariance + offset_sd**2 * similarities + shift_sd**2 * shift_covariance
        precision: FloatArray = np.asarray(np.linalg.inv(covariance))
        scaled_residuals.append(precision @ residuals)
        log_likelihood = _held_out_log_likelihood(precision, scaled_residuals[-1], source_indices)
        penalty = OFFSET_PENALTY * offset_sd**2 + SHIFT_PENALTY * shift_sd**2
        log_evidences.append(log_likelihood - penalty)
    sd_pair_weights = np.exp(np.array(log_evidences) - max(log_evidences))
    sd_pair_weights /= sd_pair_weights.sum()
    residual_rows = np.array(scaled_residuals)
    factor_changes = FACTOR_SD**2 * (residual_rows @ prior_scores)
    factor_changes = factor_changes.clip(MIN_WEIGHT_FACTOR - 1, 0.0)
    weight_factor = 1 + sd_pair_weights @ factor_changes
    offsets, shifts = np.square(sd_pairs).T * sd_pair_weights @ residual_rows
    if example_similarity is None:
        return Regression(weight_factor * prior_weights + weight_variances * (shifts @ features))
    intercept = COMMON_OFFSET_SD**2 * float((sd_pair_weights @ residual_rows).sum())
    offsets, shifts = NEW_TEXT_FRACTION * offsets, shifts[:, None] * features * weight_variances
    weights = weight_factor * prior_weights
    return Regression(weights, intercept, example_similarity, offsets, shifts)


def _held_out_log_likelihood(
    precision: FloatArray, scaled_residuals: FloatArray, source_indices: Sequence[Sequence[int]]
) -> float:
    """Return the log-likelihood of each source's examples, given all other examples."""
    if len(source_indices) == 1:
        prediction_errors = scaled_residuals / np.diag(precision)
    else:
        source_blocks = [(precision[np.ix_(i, i)], scaled_residuals[i]) for i in source_indices]
        prediction_errors = np.concatenate([np.linalg.solve(*block) for block in source_blocks])
    n_examples = len(scaled_residuals)
    prior_squares = PRIOR_EXAMPLES * PRIOR_RESIDUAL_SD**2
    residual_variance = (prediction_errors @ prediction_errors + prior_squares) / (
        n_examples + PRIOR_EXAMPLES
    )
    return -n_examples / 2 * float(np.log(residual_variance))


def latent_score(choice_index: int, n_choices: int, *, is_pairwise: bool) -> float:
    """Return the latent score that the answer of a demonstration stands for."""
    if is_pairwise:
        return -PREFERENCE_MARGIN if choice_index else PREFERENCE_MARGIN
    return (_logit((choice_index + 0.5) / n_choices) - _logit(RATING_CENTRE)) / RATING_STEEPNESS


def choice_probabilities(score: float, n_choices: int, *, is_pairwise: bool) -> tuple[float, ...]:
    """Return the choices' probabilities, given a latent score; for ratings they are bell-shaped."""
    if is_pairwise:
        probability_a = _logistic(PREFERENCE_SLOPE * score)
        return probability_a, 1 - probability_a
    mean_index = _logistic(_logit(RATING_CENTRE) + RATING_STEEPNESS * score) * n_choices - 0.5
    index_sd = max(MIN_RATING_SD, min(MAX_RATING_SD, RATING_SD_PER_STEP * n_choices))
    log_densities = [-0.5 * ((index - mean_index) / index_sd) ** 2 for index in range(n_choices)]
    max_log_density = max(log_densities)
    densities = [math.exp(max(-60.0, d - max_log_density)) for d in log_densities]
    total_density = math.fsum(densities)
    return tuple([density / total_density for density in densities])


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))
