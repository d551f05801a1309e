"""Learn the weights of the facets' parts from a prompt's demonstrations by Bayesian regression."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# Sums are rounded to so many decimals, since processors add in different orders, which must not
# break ties.
DECIMALS = 9

# The place on the scale, from 0 to 1, of the latent score 0 (most outputs of today's systems are
# fair), and the slope of the logit of the place in the latent score.
CENTRE, STEEPNESS = 0.6, 1.1
# The SD of a single rating, in steps of the scale: people differ by about one step of five.
MIN_RATING_SD, RATING_SD_PER_STEP, MAX_RATING_SD = 0.45, 0.16, 4.0
# The slope of the logit of a choice in the difference of two latent scores, and the difference that
# is assumed for the two outputs of a demonstration.
CHOICE_SLOPE, CHOICE_MARGIN = 2.2, 0.8

# The SDs of the prior, relative to the SD of a rating's latent score around its best prediction.
# Each weight may differ from its prior by a part of itself (PRIOR_PART) and a little more
# (PRIOR_MIN). All scores may share a factor (PRIOR_GAIN) and an offset (PRIOR_LEVEL), and the
# examples with the same source another offset (PRIOR_SOURCE), since documents differ.
PRIOR_PART, PRIOR_MIN, PRIOR_GAIN, PRIOR_LEVEL, PRIOR_SOURCE = 0.8, 0.07, 1.0, 0.8, 0.6
# The smallest factor of the prior weights, which alone decide on texts unlike all examples.
MIN_GAIN = 0.7
# The SDs of local corrections, which texts share as far as they are similar: an offset of the
# score, and a shift of the weights (in prior SDs). The result is the mean over all pairs of SDs,
# weighted by their cross-validated likelihood over documents. Larger SDs weigh less, by CAUTION.
OFFSETS, SHIFTS = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
CAUTION_OFFSETS, CAUTION_SHIFTS = 3.0, 1.0
# The part of a local offset that applies to new texts; the rest is due to the examples' author.
NEW_TEXT_PART = 0.4
# The prior of the residual SD, and the number of examples that it counts for.
NOISE, NOISE_EXAMPLES = 0.9, 8
# Parts are clipped at so many standard deviations of the examples.
MAX_SDS = 3.0


class Similarity:
    """Computes how similar texts are to examples, by the distance between their parts.

    `examples` has the shape (n, parts). Parts that are equal in all examples are ignored.
    """

    def __init__(self, examples: Vector) -> None:
        self._varied = np.flatnonzero(examples.std(axis=0) > 1e-9)
        varied = examples[:, self._varied]
        self._mean, self._sd = varied.mean(axis=0), varied.std(axis=0)
        self._examples = self._standardise(examples)

    def _standardise(self, parts: Vector) -> Vector:
        standardised: Vector = (parts[..., self._varied] - self._mean) / self._sd
        return standardised.clip(-MAX_SDS, MAX_SDS)

    def compute(self, parts: Vector) -> Vector:
        """The similarity of texts to each example: the normal density of their distance."""
        points = self._standardise(parts)
        squares = (points**2).sum(axis=-1)[..., None] + (self._examples**2).sum(axis=1)
        distances = squares - 2 * points @ self._examples.T
        return np.asarray(np.exp(-0.5 * np.maximum(0.0, distances) / max(1, len(self._varied))))


@dataclass(frozen=True, slots=True)
class LocalCorrections:
    """Corrections by n examples; each is multiplied by a text's similarity to the example.

    `offsets`, of the shape (n,), are added to the score, and `shifts`, (n, parts), to the weights.
    """

    similarity: Similarity
    offsets: Vector
    shifts: Vector


@dataclass(frozen=True, slots=True)
class Regression:
    """A linear model of latent scores: weights of parts, an intercept, and local corrections."""

    weights: Vector
    intercept: float = 0.0
    local: LocalCorrections | None = None

    def judge(self, parts: Vector) -> tuple[float, Vector]:
        """The latent score of a text, and the contribution of each part to it.

        `parts` are the parts of the text. For two texts they are the differences, first minus
        second, and the score is the difference of the two latent scores.
        """
        contributions, intercept = self.weights * parts, self.intercept
        if self.local is not None:
            similarity = self.local.similarity.compute(parts)
            contributions = contributions + similarity @ self.local.shifts * parts
            intercept += float(similarity @ self.local.offsets)
        return round(intercept + math.fsum(contributions), DECIMALS), contributions


def learn(
    prior: Vector, parts: Vector, latents: Vector, sources: Sequence[object], *, compares: bool
) -> Regression:
    """The posterior mean of the weights, the intercept and the local corrections.

    Args:
        prior: The prior weights, of the shape (parts,).
        parts: The parts of n examples, (n, parts); for pairs, the differences, first minus second.
        latents: The latent scores of the examples, (n,).
        sources: The sources of the examples, (n,); equal values mean the same source.
        compares: Whether the examples are pairs.
    """
    variances = (PRIOR_PART * np.abs(prior) + PRIOR_MIN) ** 2
    prior_scores = parts @ prior
    residuals = latents - prior_scores
    blocks = _indices_by_source(sources)
    # The posterior is computed from the covariance of the examples, since these are few. Its terms
    # are the fixed part, and those that are multiplied by the variances of offsets and shifts.
    fixed_covariance = np.eye(len(parts)) + PRIOR_GAIN**2 * np.outer(prior_scores, prior_scores)
    shift_covariance = (parts * variances) @ parts.T
    # Pairs have no local corrections, since a pair must get the same result in the other order.
    similarity = None if compares else Similarity(parts)
    offset_covariance = np.zeros_like(fixed_covariance)
    if similarity is not None:
        offset_covariance = similarity.compute(parts)
        shift_covariance *= offset_covariance
        fixed_covariance += PRIOR_LEVEL**2
        for block in blocks:
            fixed_covariance[np.ix_(block, block)] += PRIOR_SOURCE**2
    sd_pairs = list(product((0.0,) if compares else OFFSETS, SHIFTS))
    solutions, evidence = [], []
    for offset_sd, shift_sd in sd_pairs:
        covariance = (
            fixed_covariance + offset_sd**2 * offset_covariance + shift_sd**2 * shift_covariance
        )
        precision: Vector = np.asarray(np.linalg.inv(covariance))
        solutions.append(precision @ residuals)
        caution = CAUTION_OFFSETS * offset_sd**2 + CAUTION_SHIFTS * shift_sd**2
        evidence.append(_held_out_likelihood(precision, solutions[-1], blocks) - caution)
    model_weights = np.exp(np.array(evidence) - max(evidence))
    model_weights /= model_weights.sum()
    solution_rows = np.array(solutions)
    gain = model_weights @ np.clip(
        PRIOR_GAIN**2 * (solution_rows @ prior_scores), MIN_GAIN - 1, 0.0
    )
    offsets, shifts = np.square(sd_pairs).T * model_weights @ solution_rows
    if similarity is None:
        return Regression((1 + gain) * prior + variances * (shifts @ parts))
    intercept = PRIOR_LEVEL**2 * float((model_weights @ solution_rows).sum())
    local = LocalCorrections(
        similarity, NEW_TEXT_PART * offsets, shifts[:, None] * parts * variances
    )
    return Regression((1 + gain) * prior, intercept, local)


def _indices_by_source(sources: Sequence[object]) -> list[NDArray[np.intp]]:
    blocks: dict[object, list[int]] = {}
    for index, source in enumerate(sources):
        blocks.setdefault(source, []).append(index)
    return [np.array(block) for block in blocks.values()]


def _held_out_likelihood(
    precision: Vector, solution: Vector, blocks: Sequence[NDArray[np.intp]]
) -> float:
    """The log-likelihood of each block's ratings by the other blocks, up to a constant.

    A block has the examples of one source. If all examples share a source, each is a block.
    """
    if len(blocks) == 1:
        errors = solution / np.diag(precision)
    else:
        errors = np.concatenate(
            [np.linalg.solve(precision[np.ix_(block, block)], solution[block]) for block in blocks]
        )
    n = len(solution)
    variance = (errors @ errors + NOISE_EXAMPLES * NOISE**2) / (n + NOISE_EXAMPLES)
    return -n / 2 * float(np.log(variance))


def latent_of(choice: int, n: int, *, compares: bool) -> float:
    """The latent score of the choice with an index among n; the ends of the scale are finite."""
    if compares:
        return -CHOICE_MARGIN if choice else CHOICE_MARGIN
    return (_logit((choice + 0.5) / n) - _logit(CENTRE)) / STEEPNESS


def probabilities(latent: float, n: int, *, compares: bool) -> tuple[float, ...]:
    """The probabilities of n ratings, worst first, by a normal distribution; or of A and B."""
    if compares:
        p_first = _logistic(CHOICE_SLOPE * latent)
        return p_first, 1 - p_first
    mean = _logistic(_logit(CENTRE) + STEEPNESS * latent) * n - 0.5
    sd = max(MIN_RATING_SD, min(MAX_RATING_SD, RATING_SD_PER_STEP * n))
    logs = [-0.5 * ((step - mean) / sd) ** 2 for step in range(n)]
    largest = max(logs)
    weights = [math.exp(max(-60.0, log - largest)) for log in logs]
    total = math.fsum(weights)
    return tuple([weight / total for weight in weights])


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))
