"""The budget of a search, in dollars or calls, and the prices of judgements and proposals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from dspy_judges.errors import JudgesError
from judges.client import CHARACTERS_PER_TOKEN, BudgetSpentError, Price
from judges.client.prices import FREE
from judges.prompt import Prompt
from judges.scoring import estimate_reply_tokens


class SearchBudgetSpentError(JudgesError):
    """Raised if the next step of the search costs more than is left of the search's budget."""


Tokens = tuple[float, float]  # the numbers of input and output tokens
# The errors that end a search: its budget is spent, or the budget of the model clients is spent.
BUDGET_ERRORS = SearchBudgetSpentError, BudgetSpentError


class Unit(NamedTuple):
    """The unit in which costs and limits are counted: dollars or calls."""

    limit_setting: str  # the name of the setting for a user's limit in this unit
    amount_format: str
    n_decimals: int  # of a limit in messages
    # The share of a user's limit that is not planned for. It pays for repeating calls whose replies
    # could not be read, and for prompts that are longer than estimated.
    spare_share: float
    excess_share: float  # of the limit, by which a step may exceed its estimated cost
    max_reserved_share: float  # of the limit, for the final measurement

    def cost(self, n_calls: float, price: float) -> float:
        """Return the cost, in this unit, of this many calls with this total price."""
        return price if self == DOLLARS else n_calls


CALLS = Unit("max_calls", "{:,.0f} calls", 0, 0.05, excess_share=0.0, max_reserved_share=1.0)
# The tuned judge seldom costs as much as is reserved for it, so a search may have half of a limit.
DOLLARS = Unit("max_cost", "${:.4f}", 2, 0.06, excess_share=0.02, max_reserved_share=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The prices of a search, and the unit in which its costs are counted.

    Judging one item takes `calls_per_item` calls, which return `replies_per_item` replies in total.
    The untuned judge takes `untuned_tokens` for an item. A call to a free model has the price 1. A
    proposal is expected to cost `proposal_cost`.
    """

    unit: Unit = CALLS
    judge_price: Price = FREE
    untuned_tokens: Tokens = (0, 0)
    calls_per_item: int = 1
    replies_per_item: int = 1
    proposal_price: Price = FREE
    proposal_cost: float = 1

    @property
    def is_free(self) -> bool:
        return self.judge_price.is_free

    @property
    def untuned_price(self) -> float:
        return self.price_of_tokens(self.untuned_tokens)

    @property
    def untuned_cost(self) -> float:
        """The cost of judging one item with the untuned judge."""
        return self.item_cost(self.untuned_price)

    def item_cost(self, price: float) -> float:
        """Return the cost of judging one item at this price."""
        return self.unit.cost(self.calls_per_item, price)

    def price_of_tokens(self, tokens: Tokens) -> float:
        """Return the price of judging one item with this many tokens."""
        return self.calls_per_item if self.is_free else self.judge_price.cost(*tokens)

    def estimate_price(self, prompt: Prompt, untuned_prompt: Prompt) -> float:
        """Estimate the price of judging one item, but never below half of `untuned_price`."""
        n_extra_characters = _n_static_characters(prompt) - _n_static_characters(untuned_prompt)
        extra_tokens_in = n_extra_characters * self.calls_per_item / CHARACTERS_PER_TOKEN
        extra_reply_tokens = estimate_reply_tokens(prompt) - estimate_reply_tokens(untuned_prompt)
        extra_tokens_out = extra_reply_tokens * self.replies_per_item
        extra_price = self.judge_price.cost(extra_tokens_in, extra_tokens_out)
        return max(self.untuned_price / 2, self.untuned_price + extra_price)


def _n_static_characters(prompt: Prompt) -> int:
    """Return the number of characters in the part of a prompt that is the same for every item."""
    demo_values = chain.from_iterable(demo.values() for demo in prompt.demos)
    descriptions = (field.description for field in prompt.fields)
    return sum(len(str(text)) for text in chain([prompt.instruction], demo_values, descriptions))


@dataclass(slots=True)
class SearchBudget:
    """The budget of a search: what it may cost, and what it has cost so far.

    Attributes:
        limit: Upper bound on the total cost, without the amounts that are reserved for later.
        allowed_excess: A step may begin if it costs at most this much more than what remains.
        on_reserve: Called with each new `reserved_cost`, so that model clients reserve it, too.
        total_cost: The cost so far, including the cost from before a run was resumed.
        proposal_cost: The expected cost of asking the proposer for one instruction.
        has_refused: Whether `check_cost` has refused any step.
    """

    limit: float
    pricing: Pricing = Pricing()
    allowed_excess: float = 0
    on_reserve: Callable[[float], None] = lambda cost: None
    reserved_cost: float = 0
    total_cost: float = 0
    n_calls: int = 0
    proposal_cost: float = field(init=False)
    has_refused: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.proposal_cost = self.pricing.proposal_cost

    @property
    def remaining(self) -> float:
        return self.limit - self.total_cost

    def check_cost(self, cost: float) -> None:
        """Raise SearchBudgetSpentError if a step with this cost exceeds what remains."""
        if cost <= self.remaining + self.allowed_excess:
            return
        self.has_refused = True
        amount = self.pricing.unit.amount_format
        message = f"the next step of the search costs {amount}, but only {amount} are left"
        raise SearchBudgetSpentError(message.format(cost, max(0, self.remaining)))

    def charge_judgement(self, price: float) -> None:
        self.total_cost += self.pricing.item_cost(price)
        self.n_calls += self.pricing.calls_per_item

    def charge_proposal(self, tokens_in: int, tokens_out: int) -> None:
        """Add the cost of one request to the proposer, but no more than the budget still has."""
        price = self.pricing.proposal_price.cost(tokens_in, tokens_out)
        cost = self.pricing.unit.cost(1, price)
        self.total_cost += min(max(0, self.remaining), cost)
        self.n_calls += 1
        # Other proposals may cost as much: some models write more reasoning than was estimated.
        self.proposal_cost = max(self.proposal_cost, cost)

    @contextmanager
    def limited_to(self, limit: float, *, reserve: float = 0) -> Iterator[None]:
        """Set another limit inside a `with` block, whose steps leave `reserve` of it."""
        outer_limit, outer_reserved_cost = self.limit, self.reserved_cost
        self.limit, self.reserved_cost = limit - reserve, outer_reserved_cost + reserve
        self.on_reserve(self.reserved_cost)
        try:
            yield
        finally:
            self.limit, self.reserved_cost = outer_limit, outer_reserved_cost
            self.on_reserve(self.reserved_cost)
