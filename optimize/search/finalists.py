"""Score the finalists on dev, cross-fitted where demos show all labels, and let the gate choose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from judges.prompt import Prompt
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.evaluator import Evaluator
from optimize.search.gate import Choice, ComparedCandidate, choose
from optimize.search.generator import ALL, Plan, whole_set
from optimize.search.objective import Level, contrast, objective, placement_terms, tells
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Contrast, contrast_terms

PARTS = 4
# With fewer systems, those never shown would cost more than it is worth to know of them.
SYSTEMS_FOR_HOLDING_OUT = 7


class CrossFit:
    """What shows everything, and the versions of it that stand in for it where it may not judge."""

    def __init__(self, everything: Items, seed: Prompt, plan: Plan) -> None:
        self._everything, self._seed, self._plan = everything, seed, plan
        self._part_of = dict(_dealt(everything.documents, plan.seed, "documents"))
        systems = everything.systems
        self._systems: list[frozenset[str]] = [frozenset()] * PARTS
        if len(systems) >= SYSTEMS_FOR_HOLDING_OUT:
            dealt = _dealt(systems, plan.seed, "systems")
            self._systems = [
                frozenset(name for name, part in dealt if part == number) for number in range(PARTS)
            ]

    @cached_property
    def whole(self) -> DemoSet:
        """Everything that can be shown, or the largest set where that is too much."""
        return whole_set(self._everything, self._seed, self._plan)

    @cached_property
    def possible(self) -> bool:
        """Whether everything can be shown, and each version shows something."""
        if self.whole.how != ALL or len(self._everything.documents) < 2 * PARTS:
            return False
        return all(one.demos for one in self._versions)

    @cached_property
    def _versions(self) -> list[DemoSet]:
        made = []
        for part, unshown in enumerate(self._systems):
            others = self._everything.of_documents(
                [name for name, dealt in self._part_of.items() if dealt != part]
            )
            made.append(whole_set(others.without_systems(unshown), self._seed, self._plan))
        return made

    def stand_ins(self, candidate: Candidate) -> str | None:
        """Who judges train and dev for the candidate, in a sentence; None where it does itself."""
        if candidate.shown.how != ALL or not self.possible:
            return None
        without = (
            "show neither the document nor a quarter of the systems"
            if any(self._systems)
            else "do not show the document"
        )
        return f"on dev, versions of the tuned judge that {without} stand in for it"

    def unshown(self, candidate: Candidate, document: str) -> frozenset[str]:
        """The systems not shown by the version that judges the document; none by the whole."""
        part = self._part(candidate, document)
        return frozenset() if part is None else self._systems[part]

    def scores(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        evaluator.budget.check(self.cost(evaluator, candidate, items))
        scores = np.empty(len(items))
        for one, rows in self._asked(candidate, items):
            scores[rows] = evaluator.scores(one, Items(tuple(items.items[row] for row in rows)))
        return scores

    def cost(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> int:
        """Calls that scoring these items would take, dear ones counted as several."""
        return sum(
            evaluator.cost(one, Items(tuple(items.items[row] for row in rows)))
            for one, rows in self._asked(candidate, items)
        )

    def known(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = [
            item.id
            for one, rows in self._asked(candidate, items)
            for item in evaluator.known(one, Items(tuple(items.items[row] for row in rows))).items
        ]
        wanted = set(known)
        return Items(tuple(item for item in items.items if item.id in wanted))

    def _part(self, candidate: Candidate, document: str) -> int | None:
        """Which version judges the document; None where the candidate itself may."""
        if candidate.shown.how != ALL or not self.possible:
            return None
        return self._part_of.get(document)

    def _asked(self, candidate: Candidate, items: Items) -> list[tuple[Candidate, list[int]]]:
        """Who judges which rows."""
        rows: dict[int | None, list[int]] = {}
        for row, item in enumerate(items.items):
            rows.setdefault(self._part(candidate, item.document_id), []).append(row)
        return [(self._version(candidate, part), found) for part, found in rows.items()]

    def _version(self, candidate: Candidate, part: int | None) -> Candidate:
        return candidate if part is None else replace(candidate, shown=self._versions[part])


def _dealt(names: Sequence[str], seed: int, what: str) -> list[tuple[str, int]]:
    """Each name with the part it is dealt to."""
    order = stream(seed, "parts", what).permutation(len(names))
    return [(names[index], place % PARTS) for place, index in enumerate(order)]


def affordable(
    evaluator: Evaluator, cross_fit: CrossFit, judges: Sequence[Candidate], dev: Items, level: Level
) -> Items:
    """The dev documents that all these judges can be scored on within the budget.

    Those that can tell judges apart come first.
    """
    left = evaluator.budget.left
    kept: list[str] = []
    telling = tells(dev, level)
    for document in (*telling, *(name for name in dev.documents if name not in set(telling))):
        part = dev.of_documents([document])
        left -= sum(cross_fit.cost(evaluator, one, part) for one in judges)
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
    evaluator: Evaluator,
    cross_fit: CrossFit,
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
    part = affordable(evaluator, cross_fit, [seed, *candidates], items, level)
    base = evaluator.scores(seed, part) if len(part) else np.empty(0)
    scored = []
    for candidate in candidates:
        left_out = {name: cross_fit.unshown(candidate, name) for name in part.documents}
        scores = cross_fit.scores(evaluator, candidate, part) if len(part) else np.empty(0)
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
            ComparedCandidate(
                gain=whole.contrast(level),
                own=dev.contrast(level),
                unseen=contrast_terms(whole.placed, whole.items.documents) if known else None,
                fewer_failed=contrast_terms(np.array(fewer), whole.items.documents),
                failed=float(failed[1].mean()) if len(failed[1]) else 0.0,
                seed_failed=float(failed[0].mean()) if len(failed[0]) else 0.0,
            )
        )
    return choose(finalists, n_tried, rng)
