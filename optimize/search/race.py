"""Race candidates on growing sets of train documents, so that poor ones cost little.

A field is halved again and again, and what is left meets about twice as many documents each time
(successive halving, arXiv:1502.07943). The first set is as large as the calls allow: where they
suffice for everybody on all documents, everybody is judged on all of them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimize.items import Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.search.gate import MOST_FAILED
from optimize.search.objective import Level, contrast, objective

# A candidate that stands this many standard errors below the leader, or the untuned judge, is out.
ELIMINATION_ERRORS = 1.5
# On fewer documents than these, chance decides.
FEWEST_DOCUMENTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """A candidate's objective, and its mean gain on the untuned judge over its documents."""

    candidate: Candidate
    value: float
    gain: float
    error: float
    n_documents: int
    # Whether it fails on no more outputs than a judge may that ships.
    reliable: bool = True

    @property
    def lower_gain(self) -> float:
        """The gain less a standard error: what ranks candidates that met different documents."""
        return self.gain - self.error


@dataclass(frozen=True, kw_only=True)
class Race:
    """Where candidates meet the untuned judge: train items, and the order of their documents."""

    evaluator: Evaluator
    items: Items
    order: tuple[str, ...]
    level: Level
    seed: Candidate
    # On fewer documents than these nobody is judged worse than another.
    fewest: int = FEWEST_DOCUMENTS

    @cached_property
    def by_document(self) -> dict[str, Items]:
        """The items of each document."""
        return {name: self.items.of_documents([name]) for name in self.order}

    def documents(self, candidate: Candidate, size: int) -> tuple[str, ...]:
        """The first documents of the order that the candidate did not learn from."""
        demo_documents = candidate.documents
        return tuple(name for name in self.order if name not in demo_documents)[:size]

    def compare_with_seed(self, candidate: Candidate, size: int) -> RaceResult:
        """Score candidate and untuned judge on the first documents that it does not demonstrate."""
        items = self.items.of_documents(self.documents(candidate, size))
        scores = self.evaluator.scores(candidate, items)
        seed_scores = self.evaluator.scores(self.seed, items)
        difference = contrast(scores, seed_scores, items, self.level)
        failed, seed_failed = (
            np.isnan(side).mean() if len(side) else 0.0 for side in (scores, seed_scores)
        )
        return RaceResult(
            candidate=candidate,
            value=objective(scores, items, self.level),
            gain=difference.value if difference.documents else 0.0,
            error=difference.error,
            n_documents=len(items.documents),
            reliable=bool(failed <= max(MOST_FAILED, seed_failed)),
        )

    def affordable_documents(self, limit: float) -> int:
        """How many documents the untuned judge alone can be scored on for so much."""
        costs = RaceCosts(self, [])
        return max((n for n in range(len(self.order) + 1) if costs.seed(n) <= limit), default=0)

    def run(
        self,
        candidates: Sequence[Candidate],
        limit: float,
        on_result: Callable[[int, RaceResult], None] = lambda rung, result: None,
    ) -> list[RaceResult]:
        """Spend at most so much; best first, those that went furthest before all others.

        Where not even the fewest documents can be paid for all, the first entrants run.
        """
        budget = self.evaluator.budget
        spent_at_end = budget.spent + limit
        remaining = list(candidates)
        latest: dict[str, tuple[int, RaceResult]] = {}
        rung, n_documents = 0, 0
        fewest = min(self.fewest, len(self.order))
        while remaining:
            costs, left = RaceCosts(self, remaining), spent_at_end - budget.spent
            if rung == 0:
                while len(remaining) > 1 and costs.cost_of_first(len(remaining), fewest) > left:
                    remaining.pop()
            size = _largest_affordable_size(costs, len(remaining), len(self.order), left)
            if rung == 0 and size < fewest and costs.cost_of_first(len(remaining), fewest) <= left:
                # The better half will not go far; but all of them have run.
                size = fewest
            if size <= n_documents:
                break
            results = [self.compare_with_seed(candidate, size) for candidate in remaining]
            for result in results:
                on_result(rung, result)
                latest[result.candidate.id] = (rung, result)
            results.sort(key=lambda result: (-result.gain, result.candidate.id))
            remaining = [result.candidate for result in _survivors(results)]
            rung, n_documents = rung + 1, size
        ranked = sorted(latest.values(), key=lambda pair: (-pair[0], -pair[1].lower_gain))
        return [result for _, result in ranked]


class RaceCosts:
    """What it would cost to score each of some candidates, and the untuned judge too."""

    def __init__(self, race: Race, candidates: Sequence[Candidate]) -> None:
        evaluator = race.evaluator
        self._seed = {
            name: evaluator.cost(race.seed, race.by_document[name]) for name in race.order
        }
        self._documents = [race.documents(candidate, len(race.order)) for candidate in candidates]
        # A candidate's cost of its first 0, 1, 2 ... documents.
        self._cumulative = [
            [
                0,
                *itertools.accumulate(
                    evaluator.cost(candidate, race.by_document[name]) for name in documents
                ),
            ]
            for candidate, documents in zip(candidates, self._documents, strict=True)
        ]

    def seed(self, size: int) -> float:
        """The cost of the untuned judge alone on the first `size` documents."""
        return sum(itertools.islice(self._seed.values(), size))

    def cost_of_first(self, number: int, size: int) -> float:
        """The cost of the first so many candidates on their first `size` documents."""
        cost = sum(costs[min(size, len(costs) - 1)] for costs in self._cumulative[:number])
        shared = {name for documents in self._documents[:number] for name in documents[:size]}
        return cost + sum(self._seed[name] for name in shared)

    def cost_of_race(self, number: int, size: int) -> float:
        """The cost of all of a race of the first so many whose next set has `size` documents.

        Which half goes on is not known yet; the first stand for it.
        """
        cost, already_paid, longest = 0.0, 0.0, len(self._seed)
        while True:
            cost += self.cost_of_first(number, size) - already_paid
            if number == 1 or size == longest:
                return cost
            number = math.ceil(number / 2)
            already_paid = self.cost_of_first(number, size)
            size = min(2 * size, longest)


def _largest_affordable_size(costs: RaceCosts, number: int, longest: int, limit: float) -> int:
    """The most documents the field can meet so that its better half can meet twice as many, ...

    0 where a single document is too dear.
    """
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if costs.cost_of_race(number, middle) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _survivors(results: Sequence[RaceResult]) -> list[RaceResult]:
    """The better half, less those that fail too often or stand clearly below leader or seed."""
    survivors = [result for result in results[: math.ceil(len(results) / 2)] if result.reliable]
    best = max((result.lower_gain for result in survivors), default=0.0)
    return [
        result
        for result in survivors
        if result.gain + ELIMINATION_ERRORS * result.error >= max(0.0, best)
    ]
