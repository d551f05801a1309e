"""The evaluator of a search: it judges items with candidates, and pays from the search's budget.

The evaluator keeps all judgements, so a candidate never judges the same item twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import AnyJudgement
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.budget import SearchBudget
from optimize.search.candidates import Candidate
from optimize.statistics.intervals import Vector

# The cost of an item is measured, not estimated, once a candidate has judged this many items.
ITEMS_FOR_MEAN_COST = 12


@dataclass(frozen=True, slots=True)
class ItemJudgement:
    """The judgement of an item, and the tokens of its requests and replies, even if cached."""

    judgement: AnyJudgement
    tokens_in: int = 0
    tokens_out: int = 0


# A function that judges items with a prompt and returns the judgements in the items' order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemJudgement]]


@dataclass(kw_only=True)
class Evaluator:
    """The evaluator judges items with candidates, charges the budget, and keeps the judgements."""

    untuned_prompt: Prompt
    judge_items: JudgeItems
    budget: SearchBudget
    _judgements: defaultdict[str, dict[str, ItemJudgement]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def item_cost(self, candidate: Candidate) -> float:
        """Return the cost of judging one item with the candidate, in the unit of the budget."""
        pricing = self.budget.pricing
        return (
            pricing.calls_per_item if pricing.budget_unit == "calls" else self.item_price(candidate)
        )

    def item_price(self, candidate: Candidate) -> float:
        """Return the price of judging one item: measured if possible, else estimated.

        If the price without the candidate's questions was measured, only the price of the questions
        is estimated.
        """
        judgements = self._judgements[candidate.id].values()
        if len(judgements) >= ITEMS_FOR_MEAN_COST:
            return sum(map(self._price_of, judgements)) / len(judgements)
        estimate = self._estimate_price(candidate)
        base = replace(candidate, questions=None, weights=None)
        if not candidate.questions or len(self._judgements[base.id]) < ITEMS_FOR_MEAN_COST:
            return estimate
        return self.item_price(base) + max(0.0, estimate - self._estimate_price(base))

    def _estimate_price(self, candidate: Candidate) -> float:
        return self.budget.pricing.estimate_price(
            candidate.prompt(self.untuned_prompt), self.untuned_prompt
        )

    def _price_of(self, judgement: ItemJudgement) -> float:
        return self.budget.pricing.price_of_tokens(judgement.tokens_in, judgement.tokens_out)

    def cost(self, candidate: Candidate, items: Items) -> float:
        """Return the cost of scoring these items; those that are scored already cost nothing."""
        n_unscored = len(items) - len(self.scored_items(candidate, items))
        return n_unscored * self.item_cost(candidate) if n_unscored else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Return the scores of the candidate's judgements; NaN if the judge failed."""
        return np.array([judgement.score for judgement in self.judgements(candidate, items)], float)

    def scored_items(self, candidate: Candidate, items: Items) -> Items:
        """Select the items that the candidate has already been scored on."""
        return items.of_ids(self._judgements[candidate.id])

    def judgements(self, candidate: Candidate, items: Items) -> tuple[AnyJudgement, ...]:
        """Judge the items that the candidate has not judged yet, and return the items' judgements.

        Raises SearchBudgetSpentError if judging costs more than is left of the budget.
        """
        item_judgements = self._judgements[candidate.id]
        unjudged = [item for item in items if item.id not in item_judgements]
        if unjudged:
            self.budget.check(len(unjudged) * self.item_cost(candidate))
            new_judgements = self.judge_items(candidate.prompt(self.untuned_prompt), unjudged)
            for item, judgement in zip(unjudged, new_judgements, strict=True):
                item_judgements[item.id] = judgement
                self.budget.charge_judgement(self._price_of(judgement))
        judgements = tuple(item_judgements[item.id].judgement for item in items)
        if candidate.weights is None:
            return judgements
        choices = candidate.prompt(self.untuned_prompt).choice_fields
        return tuple(judgement.rescored(choices, candidate.weights) for judgement in judgements)
