"""Update a judge by worked examples: Bayesian regression towards what was asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judges.models.embedded.facets import Vector

# An example is one text, or a first less a second.
SIGNS = np.array([1.0, -1.0])

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
# and by how many of their spreads emphases may be off, most alike where texts are. What is learned
# is the mean over all these, each weighing as it would have foretold every document's ratings from
# the others', and less the farther it leads.
# Chosen on half of SummEval's documents, half of Topical-Chat's and the starter set, teaching by
# some documents and systems and measuring on others; nothing hangs on the exact figures.
ALIKE, MOVED = (0.0, 0.4, 0.8, 1.2), (0.0, 0.5, 1.1)
CAUTION_ALIKE, CAUTION_MOVED = 3.0, 1.0
# Of what texts alike have in common beyond all facets, so much is taken to be theirs. The rest is
# the hand that wrote them, which new texts need not share: chosen likewise, by systems never shown.
THEIRS = 0.4
# What remains is expected to be about so much, as sure as so many examples would make it.
NOISE, SURE = 0.9, 8


@dataclass(frozen=True, slots=True)
class Lesson:
    """What examples taught: weights of the facets, a level, and how each text tells on its like.

    `told` (texts,) and `moves` (texts, facets) are the examples' texts' own, in their order: a new
    text's likeness to them, times `told`, is added to its score, and times `moves` to its weights.
    """

    weights: Vector
    level: float
    told: Vector
    moves: Vector


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

    `facets` is (n, texts of an example, facets), one text each or two that are compared; `ratings`
    (n,) is in latent units; `level` is the level expected before any example, or None where there
    is none, as between two texts; `sources` tells which examples share a source (none do where it
    is empty); `alike`, square, how alike the examples' texts are in their traits: without it they
    all are.
    """
    n, expected = len(ratings), level or 0.0
    if not n:
        return Lesson(prior, expected, np.zeros(0), np.zeros((0, len(prior))))
    signs = SIGNS[: facets.shape[1]]
    apart = signs @ facets
    spreads = (PART * np.abs(prior) + BESIDES) ** 2
    common = apart @ prior
    rest = ratings - common - expected
    free = 0.0 if level is None else LEVEL**2
    blocks = _blocks(sources, n)
    # The posterior through the examples' covariance, since they are few.
    fixed = np.eye(n) + free + GAIN**2 * np.outer(common, common)
    for block in blocks if sources else ():
        fixed[np.ix_(block, block)] += SOURCE**2
    texts = facets.reshape(-1, len(prior))
    near = alike if alike is not None else np.ones((len(texts), len(texts)))
    moves = _between((texts * spreads) @ texts.T * near, signs)
    likenesses = _between(near, signs)
    trusts = list(product(ALIKE if alike is not None else (0.0,), MOVED))
    solved, worths = [], []
    for likeness, moved in trusts:
        covariance = fixed + likeness**2 * likenesses + moved**2 * moves
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
    return Lesson(
        np.asarray((1 + gain) * prior),
        expected + free * float(told.sum()),
        THEIRS * np.outer(beyond, signs).ravel(),
        np.outer(moved_by, signs).reshape(-1, 1) * texts * spreads,
    )


def _between(texts: Vector, signs: Vector) -> Vector:
    """The examples' covariance from their texts': of pairs, their differences'."""
    n = len(texts) // len(signs)
    rows = texts.reshape(n, len(signs), n, len(signs))
    return np.asarray(np.einsum("isjt,s,t->ij", rows, signs, signs))


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
