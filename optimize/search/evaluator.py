"""Scores candidates on items: each is asked for once, and counted against the budget."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dspy_judges.errors import JudgesError
from judges.client import CHARACTERS_PER_TOKEN, Price
from judges.judgement import Judgement, Verdict
from judges.prompt import Prompt
from judges.scoring import reply_tokens
from optimize.items import Item, Items, Vector
from optimize.search.candidates import Candidate

FREE = Price(per_token_in=0, per_token_out=0)
# After so many items a candidate's cost is what they took, and no estimate.
ITEMS_MEASURED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScore:
    """A judge's score or margin for one item (NaN: failed), and what it wrote beside it.

    `tokens_in` and `tokens_out` are what judging it took, whoever paid for it.
    """

    score: float
    comment: str = ""
    failure: str | None = None
    judgement: Judgement | Verdict | None = None
    tokens_in: int = 0
    tokens_out: int = 0


# Judges the items with the prompt, in order.
JudgeItems = Callable[[Prompt, Sequence[Item]], Iterable[ItemScore]]


Unit = Literal["calls", "dollars", "tokens"]


class SearchBudgetSpentError(JudgesError):
    """The search may not spend what it would need next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What judging an item costs: its tokens, and `per_call` for each call.

    `tokens_in` and `tokens_out` are the untuned judge's for one item, over all of its `calls` and
    `replies`.
    """

    price: Price = FREE
    per_call: float = 0
    tokens_in: float = 0
    tokens_out: float = 0
    calls: int = 1
    replies: int = 1

    @property
    def of_seed(self) -> float:
        return self.cost(self.tokens_in, self.tokens_out)

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        return self.price.cost(tokens_in, tokens_out) + self.per_call * self.calls

    def extra(self, prompt: Prompt, seed: Prompt) -> float:
        """What an item costs more under the prompt than untuned, by their lengths."""
        characters = (_static_characters(prompt) - _static_characters(seed)) * self.calls
        tokens = (reply_tokens(prompt) - reply_tokens(seed)) * self.replies
        return self.price.cost(characters / CHARACTERS_PER_TOKEN, tokens)


def _static_characters(prompt: Prompt) -> int:
    """The characters of what a prompt says of every item: all but the texts."""
    demos = sum(len(str(value)) for demo in prompt.demos for value in demo.values())
    return len(prompt.instruction) + demos + sum(len(field.description) for field in prompt.fields)


class SearchBudget:
    """What a search may spend, in `unit`: calls of a free model, else as in `Pricing`.

    Replies of an earlier start count too, so that a run which goes on stops where another would.
    `set_aside` keeps so much of what the models' own budget really has left for what comes after.
    `slack` is by how much more may be spent, since what a call will cost is an estimate; `proposal`
    is what having an instruction proposed may cost, and `proposal_price` what its tokens
    do (None: it counts 1); `calls` counts the calls of both models.
    """

    def __init__(
        self,
        limit: float,
        set_aside: Callable[[float], None] = lambda cost: None,
        *,
        unit: Unit = "calls",
        slack: float = 0,
        proposal: float = 1,
        proposal_price: Price | None = None,
    ) -> None:
        self.limit = limit
        self.unit: Unit = unit
        self.slack = slack
        self.spent: float = 0
        self.calls = 0
        self.set_aside = set_aside
        self.proposal, self.proposal_price = proposal, proposal_price
        self._proposals: list[float] = []

    @property
    def left(self) -> float:
        return self.limit - self.spent

    def check(self, cost: float) -> None:
        """Raise SearchBudgetSpentError where so much is not left."""
        if cost > self.left + self.slack:
            raise SearchBudgetSpentError(
                f"{cost:.4g} {self.unit} are needed and {max(0, self.left):.4g} left"
            )

    def spend(self, cost: float, calls: int = 0) -> None:
        self.check(cost)
        self.spent += cost
        self.calls += calls

    def charge_proposal(self, tokens_in: int, tokens_out: int) -> None:
        """Count a request to a proposer that was answered: it is paid, whatever was left."""
        price = self.proposal_price
        cost = 1.0 if price is None else price.cost(tokens_in, tokens_out)
        self.spent += min(max(0, self.left), cost)
        self.calls += 1
        self._proposals.append(cost)
        # Some proposers think for longer than was expected of them.
        self.proposal = max(self.proposal, sum(self._proposals) / len(self._proposals))

    def renewed(self, limit: float) -> "SearchBudget":
        """Another budget in the same units, of which nothing is spent."""
        return SearchBudget(
            limit,
            unit=self.unit,
            slack=self.slack,
            proposal=self.proposal,
            proposal_price=self.proposal_price,
        )

    @contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Keep so much for what comes after."""
        self.limit -= cost
        self.set_aside(cost)
        try:
            yield
        finally:
            self.limit += cost
            self.set_aside(0)


@dataclass(slots=True)
class TokenCount:
    """What judging so many items with a candidate took."""

    items: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Evaluator:
    """Where candidates meet items. Without `pricing` a call costs 1, whatever it shows."""

    def __init__(
        self,
        *,
        seed: Prompt,
        judge: JudgeItems,
        budget: SearchBudget,
        pricing: Pricing | None = None,
    ) -> None:
        self.seed = seed
        self.budget = budget
        self.pricing = pricing or Pricing(per_call=1)
        self._judge = judge
        self._scores: dict[str, dict[str, ItemScore]] = {}
        self._tokens: dict[str, TokenCount] = {}

    def item_cost(self, candidate: Candidate) -> float:
        """What an item costs with the candidate: as measured, else by the prompt's length."""
        count = self._tokens.get(candidate.id, TokenCount())
        if count.items >= ITEMS_MEASURED:
            n = count.items
            return self.pricing.cost(count.tokens_in / n, count.tokens_out / n)
        return max(
            self.pricing.of_seed / 2,
            self.pricing.of_seed + self.pricing.extra(candidate.prompt(self.seed), self.seed),
        )

    def cost(self, candidate: Candidate, items: Items) -> float:
        """What scoring these items would cost; those that have been scored are free."""
        known = self._known(candidate)
        n_fresh = sum(item.id not in known for item in items.items)
        return n_fresh * self.item_cost(candidate) if n_fresh else 0

    def scores(self, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order; raises SearchBudgetSpentError where they cannot be paid."""
        known = self._scores.setdefault(candidate.id, {})
        fresh = [item for item in items.items if item.id not in known]
        if fresh:
            cost = self.cost(candidate, items)
            self.budget.spend(cost, self.pricing.calls * len(fresh))
            judged = self._judge(candidate.prompt(self.seed), fresh)
            for item, item_score in zip(fresh, judged, strict=True):
                known[item.id] = item_score
            fresh_scores = [known[item.id] for item in fresh]
            self.budget.spent += self._count(candidate, fresh_scores) - cost
        return np.array([known[item.id].score for item in items.items], float)

    def _count(self, candidate: Candidate, judged: Sequence[ItemScore]) -> float:
        """What these items have cost."""
        tokens_in = sum(item_score.tokens_in for item_score in judged)
        tokens_out = sum(item_score.tokens_out for item_score in judged)
        count = self._tokens.setdefault(candidate.id, TokenCount())
        count.items += len(judged)
        count.tokens_in += tokens_in
        count.tokens_out += tokens_out
        calls = self.pricing.per_call * self.pricing.calls * len(judged)
        return self.pricing.price.cost(tokens_in, tokens_out) + calls

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
