"""Judge what shows all labels by versions of it, none of which has learned from what it judges.

The documents are dealt into a few parts, the systems too where there are enough. A document is
judged by the version that shows all other parts' documents, by all systems but one part's: so every
label but test's both teaches and tells how well such teaching does, also on systems never shown.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from judges.prompt import Prompt
from optimize.search.bench import Bench
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.chance import stream
from optimize.search.entrants import ALL, Plan, whole_set
from optimize.search.items import Items, Vector

PARTS = 4
# With fewer systems, those never shown would cost more than it is worth to know of them.
SYSTEMS_FOR_HOLDING_OUT = 7


class Crossing:
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

    def scores(self, bench: Bench, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises OutOfCallsError before asking what cannot be paid."""
        bench.budget.check(self.cost(bench, candidate, items))
        scores = np.empty(len(items))
        for one, rows in self._asked(candidate, items):
            scores[rows] = bench.scores(one, Items(tuple(items.items[row] for row in rows)))
        return scores

    def cost(self, bench: Bench, candidate: Candidate, items: Items) -> int:
        """Calls that scoring these items would take, dear ones counted as several."""
        return sum(
            bench.cost(one, Items(tuple(items.items[row] for row in rows)))
            for one, rows in self._asked(candidate, items)
        )

    def known(self, bench: Bench, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = [
            item.id
            for one, rows in self._asked(candidate, items)
            for item in bench.known(one, Items(tuple(items.items[row] for row in rows))).items
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
