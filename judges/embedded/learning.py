"""Learn the weights of the facets' parts from a prompt's demonstrations (Bayesian regression)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
# Decimals of sums, so that the order in which a processor adds does not break ties.
DECIMALS = 9

# The place of a latent 0 on the scale, since most outputs of today's systems are fair.
CENTRE, STEEPNESS = 0.6, 1.1
# The SD of a single rating, in steps of the scale: people differ by about one of five.
MIN_RATING_SD, RATING_SD_PER_STEP, MAX_RATING_SD = 0.45, 0.16, 4.0
# Slope of the probability of a choice in the latent difference, and the latent difference of the
# two outputs of a demonstration.
SURENESS, CHOICE_MARGIN = 2.2, 0.8

# The prior, in spreads of a rating's latent score around the best prediction of it. A weight may be
# off by a part of itself and a little besides, and all of them together by a common gain; documents
# differ, so examples that share their source share what people give its every text.
PRIOR_PART, PRIOR_MIN, PRIOR_GAIN, PRIOR_LEVEL, PRIOR_SOURCE = 0.8, 0.07, 1.0, 0.8, 0.6
# The least weight of the prior, which alone decides on texts unlike all examples.
MIN_GAIN = 0.7
# Scales of what examples may change: the offset that similar texts share beyond all weights, and
# the shift of weights, in prior SDs, that similar texts share. The result is the mean over all
# scales, weighted by their cross-validated likelihood over documents, and less for larger scales.
OFFSETS, SHIFTS = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
CAUTION_OFFSETS, CAUTION_SHIFTS = 3.0, 1.0
# The part of a shared offset that new texts are given; the rest is due to the texts' author.
TEXTS_SHARE = 0.4
# Prior for the residual SD, and the number of examples that it counts for.
NOISE, NOISE_EXAMPLES = 0.9, 8
# Clipped at three standard deviations of the examples.
FARTHEST = 3.0


class Similarity:
    """The similarity of texts to the examples, (n, parts), by the distance between their parts.

    Parts in which all examples agree are ignored.
    """

    def __init__(self, examples: Vector) -> None:
        self._varied = np.flatnonzero(examples.std(axis=0) > 1e-9)
        varied = examples[:, self._varied]
        self._mean, self._sd = varied.mean(axis=0), varied.std(axis=0)
        self._examples = self._points(examples)

    def _points(self, parts: Vector) -> Vector:
        spreads: Vector = (parts[..., self._varied] - self._mean) / self._sd
        return spreads.clip(-FARTHEST, FARTHEST)

    def to(self, parts: Vector) -> Vector:
        """The similarity of texts to each example: a normal density of the distance."""
        points = self._points(parts)
        squares = (points**2).sum(axis=-1)[..., None] + (self._examples**2).sum(axis=1)
        distances = squares - 2 * points @ self._examples.T
        return np.asarray(np.exp(-0.5 * np.maximum(0.0, distances) / max(1, len(self._varied))))


@dataclass(frozen=True, slots=True)
class Local:
    """Corrections near n examples, each times a new text's similarity to the example.

    `offsets` (n,) are added to the score, and `shifts` (n, parts) to the weights.
    """

    similarity: Similarity
    offsets: Vector
    shifts: Vector


@dataclass(frozen=True, slots=True)
class Regression:
    """Weights of the parts, a level, and local corrections."""

    weights: Vector
    level: float = 0.0
    local: Local | None = None

    def judge(self, parts: Vector) -> tuple[float, Vector]:
        """The latent score, or difference of two scores, and the share of each part in it.

        `parts` are those of a text, or the first's less the second's.
        """
        shares, level = self.weights * parts, self.level
        if self.local is not None:
            similarity = self.local.similarity.to(parts)
            shares = shares + similarity @ self.local.shifts * parts
            level += float(similarity @ self.local.offsets)
        return round(level + math.fsum(shares), DECIMALS), shares


def learn(
    prior: Vector, parts: Vector, latents: Vector, sources: Sequence[object], *, compares: bool
) -> Regression:
    """The posterior mean of the weights, the level and the local corrections.

    `prior` is (parts,), and `parts` of n examples (n, parts), of pairs the first's less the
    second's; `latents` are their scores, (n,), and equal `sources`, (n,), mark a shared source.
    """
    variances = (PRIOR_PART * np.abs(prior) + PRIOR_MIN) ** 2
    common = parts @ prior
    residuals = latents - common
    blocks = _indices_by_source(sources)
    # The posterior is computed through the covariance of the examples, which are few.
    fixed = np.eye(len(parts)) + PRIOR_GAIN**2 * np.outer(common, common)
    by_shifts = (parts * variances) @ parts.T
    # A pair teaches no local corrections, since it has to be judged the same when turned round.
    similarity = None if compares else Similarity(parts)
    by_offsets = np.zeros_like(fixed)
    if similarity is not None:
        by_offsets = similarity.to(parts)
        by_shifts *= by_offsets
        fixed += PRIOR_LEVEL**2
        for block in blocks:
            fixed[np.ix_(block, block)] += PRIOR_SOURCE**2
    scales = list(product((0.0,) if compares else OFFSETS, SHIFTS))
    solutions, evidence = [], []
    for offset, shift in scales:
        covariance = fixed + offset**2 * by_offsets + shift**2 * by_shifts
        precision: Vector = np.asarray(np.linalg.inv(covariance))
        solutions.append(precision @ residuals)
        caution = CAUTION_OFFSETS * offset**2 + CAUTION_SHIFTS * shift**2
        evidence.append(_held_out_likelihood(precision, solutions[-1], blocks) - caution)
    trust = np.exp(np.array(evidence) - max(evidence))
    trust /= trust.sum()
    stack = np.array(solutions)
    gain = trust @ np.clip(PRIOR_GAIN**2 * (stack @ common), MIN_GAIN - 1, 0.0)
    offsets, shifts = np.square(scales).T * trust @ stack
    if similarity is None:
        return Regression((1 + gain) * prior + variances * (shifts @ parts))
    level = PRIOR_LEVEL**2 * float((trust @ stack).sum())
    local = Local(similarity, TEXTS_SHARE * offsets, shifts[:, None] * parts * variances)
    return Regression((1 + gain) * prior, level, local)


def _indices_by_source(sources: Sequence[object]) -> list[NDArray[np.intp]]:
    blocks: dict[object, list[int]] = {}
    for index, source in enumerate(sources):
        blocks.setdefault(source, []).append(index)
    return [np.array(block) for block in blocks.values()]


def _held_out_likelihood(
    precision: Vector, solution: Vector, blocks: Sequence[NDArray[np.intp]]
) -> float:
    """The cross-validated log-likelihood of the blocks' ratings, up to a constant.

    Where all examples share a source, each example is a block.
    """
    if len(blocks) == 1:
        errors = solution / np.diag(precision)
    else:
        errors = np.concatenate(
            [np.linalg.solve(precision[np.ix_(rows, rows)], solution[rows]) for rows in blocks]
        )
    n = len(solution)
    variance = (errors @ errors + NOISE_EXAMPLES * NOISE**2) / (n + NOISE_EXAMPLES)
    return -n / 2 * float(np.log(variance))


def latent_of(choice: int, n: int, *, compares: bool) -> float:
    """The latent score of a choice among n, a little inside the ends of the scale."""
    if compares:
        return -CHOICE_MARGIN if choice else CHOICE_MARGIN
    return (_logit((choice + 0.5) / n) - _logit(CENTRE)) / STEEPNESS


def probabilities(latent: float, n: int, *, compares: bool) -> tuple[float, ...]:
    """The probability of each of n ratings, worst first: a normal cut into steps; or of A and B."""
    if compares:
        first = _logistic(SURENESS * latent)
        return first, 1 - first
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
