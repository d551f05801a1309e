"""Bring the finalists to dev: score them and the seed there, and let the gate choose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate
from optimize.search.gate import Choice, Matrix, choose
from optimize.search.items import Items
from optimize.search.objective import Level, document_terms, placement_terms, tells


def affordable(bench: Bench, judges: Sequence[Candidate], dev: Items, level: Level) -> Items:
    """The dev documents that all these judges can be scored on within the budget.

    Those that can tell judges apart come first.
    """
    left = bench.budget.left
    kept: list[str] = []
    telling = tells(dev, level)
    for document in (*telling, *(name for name in dev.documents if name not in set(telling))):
        part = dev.of_documents([document])
        left -= sum(bench.cost(one, part) for one in judges)
        if left < 0:
            break
        kept.append(document)
    return dev.of_documents(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Candidates less the seed, one row each, a column a document they had not learned from.

    `unseen` is the same over the outputs of systems that nothing was learned from; None if none.
    """

    differences: Matrix
    unseen: Matrix | None


def compare(
    *,
    bench: Bench,
    seed: Candidate,
    candidates: Sequence[Candidate],
    dev: Items,
    level: Level,
    unshown: frozenset[str],
    seen: Callable[[Candidate, float, float, int], None],
) -> Compared:
    """Score candidates and seed on dev; `seen` hears of each (value, gain, documents).

    `unshown` are systems that no demonstration and no mistake came from: whether the gain reaches
    their outputs too says more about new systems than the seen ones do.
    """
    if not candidates:
        return Compared(differences=np.empty((0, 0)), unseen=None)
    part = affordable(bench, [seed, *candidates], dev, level)
    if not len(part):
        return Compared(differences=np.empty((len(candidates), 0)), unseen=None)
    own = bench.scores(seed, part)
    base = document_terms(own, part, level)
    placed = placement_terms(own, part, unshown, level)
    rows, beyond = [], []
    for candidate in candidates:
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
    known = bool(unshown) and bool(np.isfinite(beyond).any())
    return Compared(differences=np.array(rows), unseen=np.array(beyond) if known else None)


def decide(
    found: Compared,
    twin: Compared | None,
    whose: int,
    n_tried: int,
    rng: np.random.Generator,
) -> Choice:
    """The gate's choice among the candidates.

    `twin` is one row: what candidate `whose` gains when dev teaches and train compares.
    """
    if twin is None or not len(found.differences):
        return choose(found.differences, found.unseen, n_tried, rng)
    unseen = found.unseen
    if unseen is not None and twin.unseen is not None:
        unseen = _beside(unseen, twin.unseen, whose)
    return choose(
        _beside(found.differences, twin.differences, whose),
        unseen,
        n_tried,
        rng,
        n_own=found.differences.shape[1],
    )


def _beside(rows: Matrix, twin: Matrix, whose: int) -> Matrix:
    """The rows with the twin's columns, which are NaN for all others."""
    more = np.full((len(rows), twin.shape[1]), np.nan)
    more[whose] = twin[0]
    return np.hstack([rows, more])
