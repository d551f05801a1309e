"""The evaluator of a search: it judges items with candidates, and pays from the search's budget.

The evaluator keeps all judgements, so no candidate judges an item twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import AnyJudgement
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.budget import SearchBudget, Tokens
from optimize.search.candidates import Candidate
from optimize.statistics.intervals import Vector

ITEMS_FOR_MEAN_COST = 12  # judged by a candidate, so that its price is measured, not estimated


@dataclass(frozen=True, slots=True)
class ItemJudgement:
    """The judgement of an item, and the tokens of its requests and replies, also cached ones."""

    judgement: AnyJudgement
    tokens_in: int = 0
    tokens_out: int = 0


# A function that judges items with a prompt and returns the judgements in the items' order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemJudgement]]


@dataclass(kw_only=True)
class Evaluator:
    """Judges items with candidates, charges the budget for it, and keeps the judgements."""

    untuned_prompt: Prompt
    judge_items: JudgeItems
    budget: SearchBudget
    # The judgements by the candidate's id and then by the item's id.
    _judgements: defaultdict[str, dict[str, ItemJudgement]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def item_cost(self, candidate: Candidate) -> float:
        """Return the cost of judging one item with the candidate, in the unit of the budget."""
        return self.budget.pricing.item_cost(self.item_price(candidate))

    def item_price(self, candidate: Candidate) -> float:
        """Return the price of judging one item with the candidate, measured or estimated.

        If only the same candidate without questions was measured, the estimated price of the
        questions is added to the measured price.
        """
        judgements = self._judgements[candidate.id].values()
        if len(judgements) >= ITEMS_FOR_MEAN_COST:
            return sum(map(self._price_of, judgements)) / len(judgements)
        estimated_price = self._estimate_price(candidate)
        without_questions = replace(candidate, questions=None, weights=None)
        is_measured = len(self._judgements[without_questions.id]) >= ITEMS_FOR_MEAN_COST
        if not (candidate.questions and is_measured):
            return estimated_price
        questions_price = estimated_price - self._estimate_price(without_questions)
        return self.item_price(without_questions) + max(0.0, questions_price)

    def _estimate_price(self, candidate: Candidate) -> float:
        prompt = candidate.prompt(self.untuned_prompt)
        return self.budget.pricing.estimate_price(prompt, self.untuned_prompt)

    def _price_of(self, judgement: ItemJudgement) -> float:
        return self.budget.pricing.price_of_tokens((judgement.tokens_in, judgement.tokens_out))

    def mean_tokens(self, candidate: Candidate, items: Items) -> Tokens:
        """Judge the items, and return an item's mean input and output tokens, at least 1 each."""
        self.judgements(candidate, items)
        judgements = [self._judgements[candidate.id][item.id] for item in items]
        tokens = np.array([(one.tokens_in, one.tokens_out) for one in judgements])
        # An endpoint may report no token counts.
        tokens_in, tokens_out = np.maximum(1.0, tokens.mean(axis=0)).tolist()
        return tokens_in, tokens_out

    def cost(self, candidate: Candidate, items: Items) -> float:
        """Return the cost of scoring the items; items that are already scored cost nothing."""
        n_unscored = len(items) - len(self.scored_items(candidate, items))
        return n_unscored * self.item_cost(candidate) if n_unscored else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Return the scores of the candidate's judgements; NaN for a failed judgement."""
        return np.array([judgement.score for judgement in self.judgements(candidate, items)], float)

    def scored_items(self, candidate: Candidate, items: Items) -> Items:
        """Select the items that the candidate has already been scored on."""
        return items.of_ids(self._judgements[candidate.id])

    def judgements(self, candidate: Candidate, items: Items) -> tuple[AnyJudgement, ...]:
        """Return the candidate's judgements of the items, judging those that it has not judged yet.

        Raises SearchBudgetSpentError if judging costs more than is left of the budget.
        """
        judgement_by_id = self._judgements[candidate.id]
        unjudged_items = [item for item in items if item.id not in judgement_by_id]
        if unjudged_items:
            self.budget.check_cost(len(unjudged_items) * self.item_cost(candidate))
            prompt = candidate.prompt(self.untuned_prompt)
            new_judgements = self.judge_items(prompt, unjudged_items)
            for item, judgement in zip(unjudged_items, new_judgements, strict=True):
                judgement_by_id[item.id] = judgement
                self.budget.charge_judgement(self._price_of(judgement))
        judgements = tuple(judgement_by_id[item.id].judgement for item in items)
        if candidate.weights is None:
            return judgements
        choices = candidate.prompt(self.untuned_prompt).choices
        return tuple(judgement.rescored(choices, candidate.weights) for judgement in judgements)
