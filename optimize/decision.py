"""Bring the finalists to dev: score them and the seed there, and let the gate choose."""

from collections.abc import Callable, Sequence

import numpy as np

from optimize.bench import Bench
from optimize.candidates import Candidate
from optimize.gate import Choice, choose
from optimize.items import Items
from optimize.objective import Level, document_terms, placement_terms


def affordable(bench: Bench, seed: Candidate, dev: Items, judges: int) -> Items:
    """The dev documents, in a fixed order, that so many judges can be scored on in the budget."""
    each = max(1, bench.cost(seed, dev)) // max(1, len(dev))
    room = bench.budget.left // max(1, judges) // max(1, each)
    kept: list[str] = []
    for document, rows in dev.places.items():
        if len(rows) > room:
            break
        room -= len(rows)
        kept.append(document)
    return dev.of_documents(kept)


def decide(
    *,
    bench: Bench,
    seed: Candidate,
    finalists: Sequence[Candidate],
    dev: Items,
    level: Level,
    unshown: frozenset[str],
    n_tried: int,
    rng: np.random.Generator,
    seen: Callable[[Candidate, float, float, int], None],
) -> Choice:
    """The gate's choice among the finalists; `seen` hears of each (value, gain, documents) on dev.

    `unshown` are systems that no demonstration and no mistake came from: whether the gain reaches
    their outputs too says more about new systems than the seen ones do.
    """
    part = affordable(bench, seed, dev, 1 + len(finalists)) if finalists else dev
    if not finalists:
        return choose(np.empty((0, 0)), None, n_tried, rng)
    own = bench.scores(seed, part)
    base = document_terms(own, part, level)
    placed = placement_terms(own, part, unshown, level)
    rows, beyond = [], []
    for candidate in finalists:
        scores = bench.scores(candidate, part)
        terms = document_terms(scores, part, level)
        rows.append(terms - base)
        beyond.append(placement_terms(scores, part, unshown, level) - placed)
        there = np.isfinite(rows[-1])
        value, gain = (
            (float(terms[there].mean()), float(rows[-1][there].mean()))
            if there.any()
            else (float("nan"), float("nan"))
        )
        seen(candidate, value, gain, len(part.documents))
    unseen = np.array(beyond) if unshown and np.isfinite(beyond).any() else None
    return choose(np.array(rows), unseen, n_tried, rng)
