"""Scores candidates on items: each is asked for once, and counted against the budget."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from judges.errors import JudgesError
from judges.judgement import Judgement, Verdict
from judges.prompt import Prompt
from optimize.items import Item, Items, Vector
from optimize.search.candidates import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScore:
    """A judge's score or margin for one item (NaN: failed), and what it wrote beside it."""

    score: float
    comment: str = ""
    failure: str | None = None
    judgement: Judgement | Verdict | None = None


# Judges the items with the prompt, in order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemScore]]


class SearchBudgetSpentError(JudgesError):
    """The search may not make the calls it would need next."""


class Budget:
    """Calls a search may make.

    Replies found in the journal count too, so that a resumed run stops where another would. `hold`
    keeps so many of what the models' own budget really has left for what comes after.
    """

    def __init__(self, max_calls: int, hold: Callable[[int], None] = lambda calls: None) -> None:
        self.max_calls = max_calls
        self.spent = 0
        self.hold = hold

    @property
    def left(self) -> int:
        return self.max_calls - self.spent

    def check(self, calls: int) -> None:
        """Raise SearchBudgetSpentError where so many calls are not left."""
        if calls > self.left:
            raise SearchBudgetSpentError(f"{calls} calls are needed and {self.left} left")

    def spend(self, calls: int) -> None:
        self.check(calls)
        self.spent += calls


class Evaluator:
    """Where candidates meet items."""

    def __init__(
        self,
        *,
        seed: Prompt,
        judge: JudgeItems,
        calls_per_item: int,
        budget: Budget,
        weight: Callable[[Candidate], float] | None = None,
        proposal: int = 1,
    ) -> None:
        self.seed = seed
        self.proposal = proposal
        self._weight = weight
        self.budget = budget
        self._judge = judge
        self._calls_per_item = calls_per_item
        self._scored: dict[str, dict[str, ItemScore]] = {}

    def cost(self, candidate: Candidate, items: Items) -> int:
        """Calls that scoring these items would take, dear ones counted as several."""
        known = self._scored.get(candidate.id, {})
        calls = self._calls_per_item * sum(item.id not in known for item in items.items)
        return calls if self._weight is None else math.ceil(calls * self._weight(candidate))

    def price(self, items: Items) -> int:
        """Calls that scoring these items takes with a prompt of which nothing is known yet."""
        return self._calls_per_item * len(items)

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        self.budget.spend(self.cost(candidate, items))
        known = self._scored.setdefault(candidate.id, {})
        fresh = [item for item in items.items if item.id not in known]
        if fresh:
            judged = self._judge(candidate.prompt(self.seed), fresh)
            for item, scored in zip(fresh, judged, strict=True):
                known[item.id] = scored
        return np.array([known[item.id].score for item in items.items], float)

    def known_scores(self, candidate: Candidate, items: Items) -> Vector:
        """The scores given so far, NaN where none has been; asks nothing."""
        known = self._scored.get(candidate.id, {})
        nothing = ItemScore(score=math.nan)
        return np.array([known.get(item.id, nothing).score for item in items.items], float)

    def comments(self, candidate: Candidate) -> dict[str, str]:
        known = self._scored.get(candidate.id, {})
        return {name: scored.comment for name, scored in known.items() if scored.comment}

    def failures(self, candidate: Candidate) -> dict[str, str]:
        known = self._scored.get(candidate.id, {})
        return {name: scored.failure for name, scored in known.items() if scored.failure}

    def judgements(self, candidate: Candidate, items: Items) -> tuple[Judgement | Verdict, ...]:
        """The judgements behind the scores, in the items' order; all have been scored."""
        known = self._scored[candidate.id]
        return tuple(
            score.judgement
            or Judgement(score=score.score, rationale=score.comment or None, failure=score.failure)
            for score in (known[item.id] for item in items.items)
        )

    def known(self, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = self._scored.get(candidate.id, {})
        return Items(tuple(item for item in items.items if item.id in known))
