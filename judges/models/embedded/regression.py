"""Update a judge by worked examples: Bayesian regression towards what was asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judges.models.embedded.facets import Vector

# All in spreads of what remains between a rating's latent score and the best that could be told.
# Before any example: an emphasis may be off by a part of itself and a little besides, and all of
# them together by a common gain; documents differ, so examples that share their source share what
# people give its every text.
PART, BESIDES, GAIN, LEVEL, SOURCE = 0.8, 0.07, 1.0, 0.8, 0.6
# What was asked for keeps at least so much of its weight, whatever examples say: on texts unlike
# any shown it is all there is. Choices between two do not tell by how much, so of them it may keep
# less.
LEAST, LEAST_OF_CHOICES = 0.7, 0.3
# How far examples may lead: how much texts alike in their traits are rated alike beyond all facets,
# and by how many of their spreads emphases may be off. What is learned is the mean over all these,
# each weighing as it would have foretold every document's ratings from the others', and less the
# farther it leads.
# Chosen on half of SummEval's documents, half of Topical-Chat's and the starter set, teaching by
# some documents and systems and measuring on others; nothing hangs on the exact figures.
ALIKE, MOVED = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
CAUTION_ALIKE, CAUTION_MOVED = 3.0, 1.0
# What remains is expected to be about so much, as sure as so many examples would make it.
NOISE, SURE = 0.9, 8


@dataclass(frozen=True, slots=True)
class Lesson:
    """What examples taught: weights of the facets, a level, and how each tells on texts like it."""

    weights: Vector
    level: float
    told: Vector


def update(
    prior: Vector,
    facets: Vector,
    ratings: Vector,
    *,
    level: float | None,
    sources: Sequence[object] = (),
    alike: Vector | None = None,
) -> Lesson:
    """The most probable weights and level given examples, and what goes beyond them.

    `facets` is (n, facets), `ratings` (n,) in latent units; `level` is the level expected before
    any example, or None where there is none, as between two sides; `sources` tells which examples
    share a source (none do where it is empty); `alike` (n, n) how alike the examples are in their
    traits. A new text's likeness to the examples, times `told`, is to be added to its score.
    """
    n, expected = len(ratings), level or 0.0
    if not n:
        return Lesson(prior, expected, np.zeros(0))
    spreads = (PART * np.abs(prior) + BESIDES) ** 2
    common = facets @ prior
    rest = ratings - common - expected
    free = 0.0 if level is None else LEVEL**2
    blocks = _blocks(sources, n)
    # The posterior through the examples' covariance, since they are few.
    fixed = np.eye(n) + free + GAIN**2 * np.outer(common, common)
    for block in blocks if sources else ():
        fixed[np.ix_(block, block)] += SOURCE**2
    moves = (facets * spreads) @ facets.T
    trusts = list(product(ALIKE if alike is not None else (0.0,), MOVED))
    solved, worths = [], []
    for likeness, moved in trusts:
        covariance = fixed + moved**2 * moves
        if alike is not None:
            covariance += likeness**2 * alike
        precision: Vector = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        solved.append(precision @ rest)
        caution = CAUTION_ALIKE * likeness**2 + CAUTION_MOVED * moved**2
        worths.append(_foretold(precision, solved[-1], blocks) - caution)
    shares = np.exp(np.array(worths) - max(worths))
    shares /= shares.sum()
    told = shares @ np.array(solved)
    least = LEAST_OF_CHOICES if level is None else LEAST
    gain = shares @ np.clip(GAIN**2 * (np.array(solved) @ common), least - 1, 0.0)
    beyond, moved_by = np.square(trusts).T * shares @ np.array(solved)
    weights = (1 + gain) * prior + spreads * (facets.T @ moved_by)
    return Lesson(np.asarray(weights), expected + free * float(told.sum()), beyond)


def _blocks(sources: Sequence[object], n: int) -> list[NDArray[np.intp]]:
    """The places of the examples of each source."""
    places: dict[object, list[int]] = {}
    for place in range(n):
        places.setdefault(sources[place] if sources else place, []).append(place)
    return [np.array(block) for block in places.values()]


def _foretold(precision: Vector, solved: Vector, blocks: Sequence[NDArray[np.intp]]) -> float:
    """The log-likelihood of each block's ratings given the others', but for a constant.

    Where all examples share a source, each is foretold from the rest.
    """
    n = len(solved)
    if len(blocks) == 1:
        errors = solved / np.diag(precision)
    else:
        errors = np.concatenate(
            [np.linalg.solve(precision[np.ix_(one, one)], solved[one]) for one in blocks]
        )
    return -n / 2 * float(np.log((errors @ errors + SURE * NOISE**2) / (n + SURE)))
