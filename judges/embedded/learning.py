"""Learn the weights of features from a prompt's demonstrations by Bayesian regression."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judges.embedded.facets import FloatArray

# Sums are rounded to this number of decimals. Processors add numbers in different orders, and the
# last decimals of the sums must not decide between texts with equal scores.
SCORE_DECIMALS = 9

# A rating's position on its scale, from 0 to 1, is a logistic function of the latent score.
# RATING_CENTRE is the position at the latent score 0. It is above the middle, since most outputs of
# today's systems are fair. RATING_STEEPNESS is the slope of the position's logit.
RATING_CENTRE, RATING_STEEPNESS = 0.6, 1.1
# The SD of one rating, in steps of the scale: on a five-step scale, people differ by about a step.
MIN_RATING_SD, RATING_SD_PER_STEP, MAX_RATING_SD = 0.45, 0.16, 4.0
# The logit of preferring A is this slope times the difference of the two latent scores.
CHOICE_SLOPE = 2.2
# The difference of the latent scores that is assumed for the two outputs of a demonstration.
CHOICE_MARGIN = 0.8

# The SDs of the prior distributions, as multiples of the residual SD of a latent score.
# A weight may differ from its prior mean by this fraction of the mean, plus a constant.
PRIOR_FRACTION, PRIOR_CONSTANT = 0.8, 0.07
# The scores of all examples may be multiplied by a common factor, and have a common offset.
PRIOR_GAIN, PRIOR_OFFSET = 1.0, 0.8
# The examples with the same source may have another common offset, since documents differ.
PRIOR_SOURCE_OFFSET = 0.6
# The smallest factor by which the prior weights are multiplied. A text unlike all examples is
# judged by these weights alone.
MIN_GAIN = 0.7
# A local correction applies to a text in proportion to its similarity to an example. It is an
# offset of the score and a shift of the weights, which have these SDs (of a shift, in prior SDs).
# The result is a mean over all pairs of SDs, weighted by their cross-validated likelihood.
OFFSET_SDS, SHIFT_SDS = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
# Larger SDs of local corrections have less weight: these multiples of the squared SDs are
# subtracted from the log-likelihood.
OFFSET_PENALTY, SHIFT_PENALTY = 3.0, 1.0
# The fraction of a local offset that applies to new texts; the remaining offset is attributed to
# the system that wrote the example.
NEW_TEXT_FRACTION = 0.4
# The prior mean of the residual SD, and the number of examples that the prior counts as.
RESIDUAL_SD, RESIDUAL_SD_EXAMPLES = 0.9, 8
# Features are clipped at this number of standard deviations of the examples.
MAX_SDS = 3.0


class ExampleSimilarity:
    """Computes how similar texts are to examples, by the features that vary among the examples."""

    def __init__(self, examples: FloatArray) -> None:
        self._varying_indices = np.flatnonzero(examples.std(axis=0) > 1e-9)
        varying_features = examples[:, self._varying_indices]
        self._mean, self._sd = varying_features.mean(axis=0), varying_features.std(axis=0)
        self._examples = self._standardise(examples)

    def _standardise(self, features: FloatArray) -> FloatArray:
        varying_features = features[..., self._varying_indices]
        z_scores: FloatArray = (varying_features - self._mean) / self._sd
        return z_scores.clip(-MAX_SDS, MAX_SDS)

    def compute(self, features: FloatArray) -> FloatArray:
        """Return the similarity (0 to 1) of texts to each example, a Gaussian kernel."""
        texts = self._standardise(features)
        squares = (texts**2).sum(axis=-1)[..., None] + (self._examples**2).sum(axis=1)
        squared_distances = np.maximum(0.0, squares - 2 * texts @ self._examples.T)
        n_features = max(1, len(self._varying_indices))
        return np.asarray(np.exp(-0.5 * squared_distances / n_features))


@dataclass(frozen=True, slots=True)
class LocalCorrections:
    """The offset of the score and the shift of the weights (n, features) near each of n examples.

    Each correction is multiplied by a text's similarity to its example.
    """

    similarity: ExampleSimilarity
    offsets: FloatArray
    shifts: FloatArray


@dataclass(frozen=True, slots=True)
class Regression:
    """A linear model of latent scores: feature weights, an intercept, and local corrections."""

    weights: FloatArray
    intercept: float = 0.0
    local: LocalCorrections | None = None

    def predict(self, features: FloatArray) -> tuple[float, FloatArray]:
        """Return the latent score for the features, and each feature's contribution."""
        contributions, intercept = self.weights * features, self.intercept
        if self.local is not None:
            similarity = self.local.similarity.compute(features)
            contributions = contributions + similarity @ self.local.shifts * features
            intercept += float(similarity @ self.local.offsets)
        return round(intercept + math.fsum(contributions), SCORE_DECIMALS), contributions


def fit_regression(
    prior_weights: FloatArray,
    features: FloatArray,
    latent_scores: FloatArray,
    sources: Sequence[object],
    *,
    is_pairwise: bool,
) -> Regression:
    """Return the posterior mean of the weights, the intercept and the local corrections.

    `features` has a row for each example; a pair's row has the differences, first minus second.
    """
    variances = (PRIOR_FRACTION * np.abs(prior_weights) + PRIOR_CONSTANT) ** 2
    prior_scores = features @ prior_weights
    residuals = latent_scores - prior_scores
    groups = _indices_by_source(sources)
    # The posterior is computed from the covariance matrix of the examples' scores (n by n), since
    # there are few examples. The matrix is the sum of `fixed_covariance`, of `offset_covariance`
    # times the offsets' variance, and of `shift_covariance` times the shifts' variance.
    fixed_covariance = np.eye(len(features)) + PRIOR_GAIN**2 * np.outer(prior_scores, prior_scores)
    shift_covariance = (features * variances) @ features.T
    # Pairs have no local corrections, so that a pair gets the same result if its texts are swapped.
    similarity = None if is_pairwise else ExampleSimilarity(features)
    offset_covariance = np.zeros_like(fixed_covariance)
    if similarity is not None:
        offset_covariance = similarity.compute(features)
        shift_covariance *= offset_covariance
        fixed_covariance += PRIOR_OFFSET**2
        for group in groups:
            fixed_covariance[np.ix_(group, group)] += PRIOR_SOURCE_OFFSET**2
    sd_pairs = list(product((0.0,) if is_pairwise else OFFSET_SDS, SHIFT_SDS))
    solutions, log_evidence = [], []
    for offset_sd, shift_sd in sd_pairs:
        covariance = (
            fixed_covariance + offset_sd**2 * offset_covariance + shift_sd**2 * shift_covariance
        )
        precision: FloatArray = np.asarray(np.linalg.inv(covariance))
        solutions.append(precision @ residuals)
        penalty = OFFSET_PENALTY * offset_sd**2 + SHIFT_PENALTY * shift_sd**2
        log_evidence.append(_held_out_log_likelihood(precision, solutions[-1], groups) - penalty)
    model_weights = np.exp(np.array(log_evidence) - max(log_evidence))
    model_weights /= model_weights.sum()
    solution_rows = np.array(solutions)
    gain = model_weights @ np.clip(
        PRIOR_GAIN**2 * (solution_rows @ prior_scores), MIN_GAIN - 1, 0.0
    )
    offsets, shifts = np.square(sd_pairs).T * model_weights @ solution_rows
    if similarity is None:
        return Regression((1 + gain) * prior_weights + variances * (shifts @ features))
    intercept = PRIOR_OFFSET**2 * float((model_weights @ solution_rows).sum())
    local = LocalCorrections(
        similarity, NEW_TEXT_FRACTION * offsets, shifts[:, None] * features * variances
    )
    return Regression((1 + gain) * prior_weights, intercept, local)


def _indices_by_source(sources: Sequence[object]) -> list[NDArray[np.intp]]:
    groups: dict[object, list[int]] = {}
    for index, source in enumerate(sources):
        groups.setdefault(source, []).append(index)
    return [np.array(group) for group in groups.values()]


def _held_out_log_likelihood(
    precision: FloatArray, solution: FloatArray, groups: Sequence[NDArray[np.intp]]
) -> float:
    """Return the log-likelihood of the examples, each group given all others, up to a constant."""
    if len(groups) == 1:
        errors = solution / np.diag(precision)
    else:
        errors = np.concatenate(
            [np.linalg.solve(precision[np.ix_(group, group)], solution[group]) for group in groups]
        )
    n_examples = len(solution)
    prior_squares = RESIDUAL_SD_EXAMPLES * RESIDUAL_SD**2
    variance = (errors @ errors + prior_squares) / (n_examples + RESIDUAL_SD_EXAMPLES)
    return -n_examples / 2 * float(np.log(variance))


def latent_score(choice: int, n_choices: int, *, is_pairwise: bool) -> float:
    """Return the latent score that a choice stands for; `choice` is its index among the choices."""
    if is_pairwise:
        return -CHOICE_MARGIN if choice else CHOICE_MARGIN
    return (_logit((choice + 0.5) / n_choices) - _logit(RATING_CENTRE)) / RATING_STEEPNESS


def choice_probabilities(latent: float, n_choices: int, *, is_pairwise: bool) -> tuple[float, ...]:
    """Return the choices' probabilities, given a latent score; for ratings they are bell-shaped."""
    if is_pairwise:
        p_first = _logistic(CHOICE_SLOPE * latent)
        return p_first, 1 - p_first
    mean = _logistic(_logit(RATING_CENTRE) + RATING_STEEPNESS * latent) * n_choices - 0.5
    sd = max(MIN_RATING_SD, min(MAX_RATING_SD, RATING_SD_PER_STEP * n_choices))
    log_densities = [-0.5 * ((step - mean) / sd) ** 2 for step in range(n_choices)]
    largest = max(log_densities)
    weights = [math.exp(max(-60.0, log_density - largest)) for log_density in log_densities]
    total = math.fsum(weights)
    return tuple([weight / total for weight in weights])


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))
