"""Update a judge by worked examples: Bayesian regression towards what was asked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judges.models.embedded.facets import Vector

# Before any example: an emphasis may be off by a part of itself and a little besides, and all of
# them together by a common gain, which changes no order. One unit of a rating's latent score is
# about half the scale; people stray from any such sum by most of that.
# Documents differ, too: examples that share their source share what people give its every text.
# Beyond all facets, texts alike in their traits are rated alike, by so much.
# Chosen on half of SummEval's documents, on the starter set's constructed ratings and on half of
# Topical-Chat's, teaching by some documents and systems, measuring on others.
PART, BESIDES, GAIN, LEVEL, SOURCE = 0.5, 0.07, 0.5, 0.7, 0.5
ALIKE = 0.8
NOISE = 0.9


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
    if not len(ratings):
        return Lesson(prior, level or 0.0, np.zeros(0))
    spreads = (PART * np.abs(prior) + BESIDES) ** 2
    common = facets @ prior
    # The posterior through the examples' covariance, since they are few.
    covariance = (facets * spreads) @ facets.T + GAIN**2 * np.outer(common, common)
    free = 0.0 if level is None else LEVEL**2
    covariance += free + NOISE**2 * np.eye(len(ratings))
    if alike is not None:
        covariance += ALIKE**2 * alike
    if sources:
        known = {source: code for code, source in enumerate(dict.fromkeys(sources))}
        codes = np.array([known[source] for source in sources])
        covariance += SOURCE**2 * (codes[:, None] == codes)
    told: Vector = np.asarray(
        np.linalg.solve(covariance, ratings - common - (level or 0.0)), dtype=np.float64
    )
    # The gain is left where it was: it changes no order, and few examples can get its sign wrong.
    weights = prior + spreads * (facets.T @ told)
    beyond = 0.0 if alike is None else ALIKE**2
    return Lesson(weights, (level or 0.0) + free * float(told.sum()), beyond * told)
