"""Bring the finalists to dev: score them and the seed there, and let the gate choose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate
from optimize.search.crossing import Crossing
from optimize.search.gate import Choice, Matrix, choose
from optimize.search.items import Items, Vector
from optimize.search.objective import Level, document_terms, placement_terms, tells


def affordable(
    bench: Bench, crossing: Crossing, judges: Sequence[Candidate], dev: Items, level: Level
) -> Items:
    """The dev documents that all these judges can be scored on within the budget.

    Those that can tell judges apart come first.
    """
    left = bench.budget.left
    kept: list[str] = []
    telling = tells(dev, level)
    for document in (*telling, *(name for name in dev.documents if name not in set(telling))):
        part = dev.of_documents([document])
        left -= sum(crossing.cost(bench, one, part) for one in judges)
        if left < 0:
            break
        kept.append(document)
    return dev.of_documents(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Candidates less the seed, one row each, a column a document they had not learned from.

    `unseen` is the same of how the outputs of systems that nothing was learned from are placed
    among all; None if there are none.
    """

    differences: Matrix
    unseen: Matrix | None


def compare(
    *,
    bench: Bench,
    crossing: Crossing,
    seed: Candidate,
    candidates: Sequence[Candidate],
    items: Items,
    level: Level,
    unshown: frozenset[str],
    seen: Callable[[Candidate, float, float, int], None],
) -> Compared:
    """Score candidates and seed on the items; `seen` hears of each (value, gain, documents).

    `unshown` are systems that no demonstration and no mistake came from: whether the gain reaches
    their outputs too says more about new systems than the seen ones do. A candidate that others
    stand in for is compared on the outputs of the systems they show, and of those they do not.
    """
    if not candidates:
        return Compared(differences=np.empty((0, 0)), unseen=None)
    part = affordable(bench, crossing, [seed, *candidates], items, level)
    if not len(part):
        return Compared(differences=np.empty((len(candidates), 0)), unseen=None)
    own = bench.scores(seed, part)
    rows, beyond = [], []
    for candidate in candidates:
        left_out = {name: crossing.unshown(candidate, name) for name in part.documents}
        kept = [item.system not in left_out[item.document_id] for item in part.items]
        scores = crossing.scores(bench, candidate, part)
        terms = _terms(scores, part, kept, level)
        rows.append(terms - _terms(own, part, kept, level))
        others = {name: systems or unshown for name, systems in left_out.items()}
        beyond.append(
            placement_terms(scores, part, others, level) - placement_terms(own, part, others, level)
        )
        there = np.isfinite(rows[-1])
        value, gain = (
            (float(terms[there].mean()), float(rows[-1][there].mean()))
            if there.any()
            else (float("nan"), float("nan"))
        )
        seen(candidate, value, gain, len(part.documents))
    known = bool(np.isfinite(beyond).any())
    return Compared(differences=np.array(rows), unseen=np.array(beyond) if known else None)


def _terms(scores: Vector, items: Items, kept: Sequence[bool], level: Level) -> Vector:
    """The documents' terms over the outputs that are kept; NaN for a document without any."""
    those = Items(tuple(item for item, keep in zip(items.items, kept, strict=True) if keep))
    found = dict(zip(those.documents, document_terms(scores[kept], those, level), strict=True))
    return np.array([found.get(name, np.nan) for name in items.documents])


def decide(
    found: Compared,
    on_train: Compared | None,
    whose: int,
    n_tried: int,
    rng: np.random.Generator,
) -> Choice:
    """The gate's choice among the candidates.

    `on_train` is one row: what candidate `whose` gains there, where nothing was chosen by train.
    """
    if on_train is None or not len(found.differences):
        return choose(found.differences, found.unseen, n_tried, rng)
    unseen = found.unseen
    if unseen is not None and on_train.unseen is not None:
        unseen = _beside(unseen, on_train.unseen, whose)
    return choose(
        _beside(found.differences, on_train.differences, whose),
        unseen,
        n_tried,
        rng,
        n_own=found.differences.shape[1],
    )


def _beside(rows: Matrix, more: Matrix, whose: int) -> Matrix:
    """The rows with further columns of one, which are NaN for all others."""
    columns = np.full((len(rows), more.shape[1]), np.nan)
    columns[whose] = more[0]
    return np.hstack([rows, columns])
