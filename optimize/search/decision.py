"""Bring the finalists to dev: score them and the seed there, and let the gate choose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate
from optimize.search.crossing import Crossing
from optimize.search.gate import Choice, Compared, choose
from optimize.search.items import Items, Vector
from optimize.search.objective import Level, contrast, objective, placement_terms, tells
from optimize.statistics.difference import Contrast, contrast_terms


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
class Scored:
    """A candidate's and the seed's scores for the items that taught the candidate nothing.

    `left_out` are the systems of each document's outputs on which a version that stands in for the
    candidate is not compared, since it has not seen them while the candidate has; `placed` says how
    much better than by the seed the outputs of systems that taught nothing are placed, by document.
    """

    items: Items
    candidate: Vector
    seed: Vector
    left_out: Mapping[str, frozenset[str]]
    placed: Vector

    def contrast(self, level: Level) -> Contrast:
        return contrast(self._compared(), self.seed, self.items, level)

    def value(self, level: Level) -> float:
        """The candidate's own objective there."""
        return objective(self._compared(), self.items, level)

    def _compared(self) -> Vector:
        """The candidate's scores on the outputs that it is compared on, else NaN."""
        compared = [item.system not in self.left_out[item.document_id] for item in self.items.items]
        return np.where(compared, self.candidate, np.nan)

    def beside(self, more: "Scored") -> "Scored":
        """Both together."""
        return Scored(
            items=Items((*self.items.items, *more.items.items)),
            candidate=np.concatenate([self.candidate, more.candidate]),
            seed=np.concatenate([self.seed, more.seed]),
            left_out={**self.left_out, **more.left_out},
            placed=np.concatenate([self.placed, more.placed]),
        )


def score_both(
    *,
    bench: Bench,
    crossing: Crossing,
    seed: Candidate,
    candidates: Sequence[Candidate],
    items: Items,
    level: Level,
    unshown: frozenset[str],
    seen: Callable[[Candidate, float, float, int], None],
) -> list[Scored]:
    """Score candidates and seed on the items; `seen` hears of each (value, gain, documents).

    `unshown` are systems that no demonstration and no mistake came from: whether the gain reaches
    their outputs too says more about new systems than the seen ones do.
    """
    if not candidates:
        return []
    part = affordable(bench, crossing, [seed, *candidates], items, level)
    base = bench.scores(seed, part) if len(part) else np.empty(0)
    scored = []
    for candidate in candidates:
        left_out = {name: crossing.unshown(candidate, name) for name in part.documents}
        scores = crossing.scores(bench, candidate, part) if len(part) else np.empty(0)
        others = {name: systems or unshown for name, systems in left_out.items()}
        placed = [placement_terms(side, part, others, level) for side in (scores, base)]
        one = Scored(
            items=part,
            candidate=scores,
            seed=base,
            left_out=left_out,
            placed=placed[0] - placed[1],
        )
        scored.append(one)
        seen(candidate, one.value(level), one.contrast(level).value, len(part.documents))
    return scored


def decide(
    on_dev: Sequence[Scored],
    on_train: Mapping[int, Scored],
    level: Level,
    n_tried: int,
    rng: np.random.Generator,
) -> Choice:
    """The gate's choice among the candidates.

    `on_train` holds, by index, those that train has not chosen, which may judge there, too.
    """
    finalists = []
    for index, dev in enumerate(on_dev):
        whole = dev.beside(on_train[index]) if index in on_train else dev
        known = bool(np.isfinite(whole.placed).any())
        failed = [np.isnan(side) for side in (whole.seed, whole.candidate)]
        fewer = [
            float((failed[0][rows] * 1.0 - failed[1][rows]).mean())
            for rows in whole.items.places.values()
        ]
        finalists.append(
            Compared(
                gain=whole.contrast(level),
                own=dev.contrast(level),
                unseen=contrast_terms(whole.placed, whole.items.documents) if known else None,
                fewer_failed=contrast_terms(np.array(fewer), whole.items.documents),
                failed=float(failed[1].mean()) if len(failed[1]) else 0.0,
                seed_failed=float(failed[0].mean()) if len(failed[0]) else 0.0,
            )
        )
    return choose(finalists, n_tried, rng)
