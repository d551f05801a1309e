"""Scores candidates on items: each is asked for once, and counted against the budget."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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


class SearchBudget:
    """Calls a search may make, in units of what one call of the seed costs.

    Replies found in the journal count too, so that a resumed run stops where another would.
    `set_aside` keeps so many of what the models' own budget really has left for what comes after.
    `weight` says how many calls one call of a candidate counts as (`max_weight` at most), and
    `proposal` how many a proposal does.
    """

    def __init__(
        self,
        max_calls: int,
        set_aside: Callable[[int], None] = lambda calls: None,
        *,
        weight: Callable[[Candidate], float] | None = None,
        max_weight: float = 1.0,
        proposal: int = 1,
    ) -> None:
        self.max_calls = max_calls
        self.spent = 0
        self.set_aside = set_aside
        self.weight, self.max_weight = weight, max_weight
        self.proposal = proposal

    @property
    def is_priced(self) -> bool:
        """Whether calls cost by what they show, and not all the same."""
        return self.weight is not None

    @property
    def left(self) -> int:
        return self.max_calls - self.spent

    def cost(self, candidate: Candidate, calls: int) -> int:
        """What so many calls of the candidate count as."""
        return calls if self.weight is None else math.ceil(calls * self.weight(candidate))

    def check(self, calls: int) -> None:
        """Raise SearchBudgetSpentError where so many calls are not left."""
        if calls > self.left:
            raise SearchBudgetSpentError(f"{calls} calls are needed and {self.left} left")

    def spend(self, calls: int) -> None:
        self.check(calls)
        self.spent += calls

    def renewed(self, max_calls: int) -> "SearchBudget":
        """Another budget in the same units, of which nothing is spent."""
        return SearchBudget(
            max_calls, weight=self.weight, max_weight=self.max_weight, proposal=self.proposal
        )

    @contextmanager
    def reserving(self, calls: int) -> Iterator[None]:
        """Keep so many calls for what comes after."""
        self.max_calls -= calls
        self.set_aside(calls)
        try:
            yield
        finally:
            self.max_calls += calls
            self.set_aside(0)


class Evaluator:
    """Where candidates meet items."""

    def __init__(
        self, *, seed: Prompt, judge: JudgeItems, calls_per_item: int, budget: SearchBudget
    ) -> None:
        self.seed = seed
        self.budget = budget
        self._judge = judge
        self._calls_per_item = calls_per_item
        self._scores: dict[str, dict[str, ItemScore]] = {}

    def price(self, items: Items) -> int:
        """Calls that scoring these items takes with a prompt of which nothing is known yet."""
        return self._calls_per_item * len(items)

    def cost(self, candidate: Candidate, items: Items) -> int:
        """What scoring these items would count as; those that have been scored are free."""
        known = self._known(candidate)
        calls = self._calls_per_item * sum(item.id not in known for item in items.items)
        return self.budget.cost(candidate, calls)

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        self.budget.spend(self.cost(candidate, items))
        known = self._scores.setdefault(candidate.id, {})
        fresh = [item for item in items.items if item.id not in known]
        if fresh:
            judged = self._judge(candidate.prompt(self.seed), fresh)
            for item, item_score in zip(fresh, judged, strict=True):
                known[item.id] = item_score
        return np.array([known[item.id].score for item in items.items], float)

    def known(self, candidate: Candidate, items: Items) -> Items:
        """Those of the items that the candidate has been scored on."""
        known = self._known(candidate)
        return Items(tuple(item for item in items.items if item.id in known))

    def known_scores(self, candidate: Candidate, items: Items) -> Vector:
        """The scores so far, NaN where there is none; asks nothing."""
        known, unscored = self._known(candidate), ItemScore(score=math.nan)
        return np.array([known.get(item.id, unscored).score for item in items.items], float)

    def comments(self, candidate: Candidate) -> dict[str, str]:
        """What the candidate wrote beside its scores, by item id."""
        known = self._known(candidate)
        return {
            name: item_score.comment for name, item_score in known.items() if item_score.comment
        }

    def judgements(self, candidate: Candidate, items: Items) -> tuple[Judgement | Verdict, ...]:
        """The judgements behind the scores, in the items' order; all have been scored."""
        known = self._scores[candidate.id]
        return tuple(
            score.judgement
            or Judgement(score=score.score, rationale=score.comment or None, failure=score.failure)
            for score in (known[item.id] for item in items.items)
        )

    def _known(self, candidate: Candidate) -> dict[str, ItemScore]:
        return self._scores.get(candidate.id, {})
