"""What a search may spend: calls that the final table leaves, with dollars told in calls.

Under --max-cost the unit is what one call of the seed costs, and a call that shows demonstrations
counts as many as its length makes it cost. So a search plans its way to the end of its money,
and does not run into it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from judges.judge import Judge
from judges.models.prices import Price, estimate_tokens, find_price
from judges.prompt import MOST_DEMOS, Prompt
from judges.protocol import is_embedded
from judges.scoring import SamplingPlan
from optimize.run.labels import Labels
from optimize.run.settings import Settings, SettingsError
from optimize.search import proposals
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Budget
from optimize.search.problem import SearchOptions

# A search that costs nothing may go on for longer, and show as much as a frozen judge can hold.
FREE_CALLS, FREE_SIZES, FREE_LENGTH = 20_000, (16, 64, MOST_DEMOS), 3_000_000
DEFAULT_CALLS = 8_000
# Replies that cannot be read are asked for again, and prompts are longer than estimated.
SPARE_CALLS, SPARE_DOLLARS = 0.05, 0.20
REPLY_TOKENS = 60
ITEMS_LOOKED_AT = 20
# Of the search's calls, where sampling plans are to be tried; and of all, for the final table.
PLANS_SHARE, MOST_FOR_TABLE = 0.2, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """What one judgement takes under a sampling plan; `cost` in those of a single reply."""

    plan: SamplingPlan
    calls: int
    replies: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudget:
    """The search's budget, and what is kept for what comes after it.

    `plans` more calls may go to trying sampling plans; `plan_costs` are those that the final
    table could be paid under. The table takes `table_calls` and `table_dollars`; a call of the
    budget is worth `per_call` dollars.
    """

    budget: Budget
    plans: int = 0
    plan_costs: tuple[PlanCost, ...] = ()
    table_calls: int = 0
    table_dollars: float = 0.0
    per_call: float = 0.0

    def held(self, calls: int) -> tuple[int, float]:
        """Calls and dollars to keep for the final table, and for so many calls before it."""
        return self.table_calls + calls, self.table_dollars + calls * self.per_call


def is_free(settings: Settings) -> bool:
    return is_embedded(settings.lm)


def search_options(settings: Settings) -> SearchOptions:
    if not is_free(settings):
        return SearchOptions(seed=settings.seed)
    return SearchOptions(seed=settings.seed, demo_sizes=FREE_SIZES, longest_demos=FREE_LENGTH)


def allow(
    settings: Settings,
    labels: Labels,
    judge: Judge,
    calls_per_item: int,
    plan_costs: Sequence[PlanCost] = (),
) -> SearchBudget:
    """Raises SettingsError where not even the seed can be measured on test.

    `calls_per_item` are a judgement's under the search's plan; `plan_costs` those of the plans to
    try.
    """
    items = len(labels.test) + len(labels.unseen or ())
    seed_calls = calls_per_item * items
    calls, table = FREE_CALLS if is_free(settings) else DEFAULT_CALLS, 0
    if settings.max_calls is not None:
        if settings.max_calls < seed_calls:
            raise SettingsError(
                f"--max-calls {settings.max_calls}: measuring the seed on test alone takes "
                f"{seed_calls}"
            )
        table_limit = MOST_FOR_TABLE * settings.max_calls
        plan_costs = [
            plan_cost for plan_cost in plan_costs if 2 * plan_cost.calls * items <= table_limit
        ]
        most_calls = max((plan_cost.calls for plan_cost in plan_costs), default=calls_per_item)
        table = min(2 * most_calls * items, settings.max_calls)
        calls = max(0, int(settings.max_calls * (1 - SPARE_CALLS)) - table)
    price = find_price(settings.lm)
    if settings.max_cost is None or price is None or not price.per_token_in:
        return replace(_setting_aside(calls, plan_costs), table_calls=table)
    search_budget = _in_dollars(settings, labels, judge, price, seed_calls, calls, plan_costs)
    return replace(search_budget, table_calls=table)


def _setting_aside(
    calls: int,
    plan_costs: Sequence[PlanCost],
    weight: Callable[[Candidate], float] | None = None,
    proposal: int = 1,
) -> SearchBudget:
    plans = int(PLANS_SHARE * calls) if plan_costs else 0
    return SearchBudget(
        budget=Budget(calls - plans, weight=weight, proposal=proposal),
        plans=plans,
        plan_costs=tuple(plan_costs),
    )


def _in_dollars(
    settings: Settings,
    labels: Labels,
    judge: Judge,
    price: Price,
    seed_calls: int,
    calls: int,
    plan_costs: Sequence[PlanCost],
) -> SearchBudget:
    step = max(1, len(labels.train) // ITEMS_LOOKED_AT)
    texts = [item.texts for item in labels.train.items[::step]]
    per_call = sum(_call(judge.prompt, item_texts, price) for item_texts in texts) / len(texts)

    def weight(candidate: Candidate) -> float:
        demo_characters = sum(
            len(str(value)) for demo in candidate.demo_set.demos for value in demo.values()
        )
        return 1.0 + demo_characters / 4 * price.per_token_in / per_call

    longest = search_options(settings).longest_demos / 4 * price.per_token_in
    dollars = (settings.max_cost or 0.0) * (1 - SPARE_DOLLARS)
    items = len(labels.test) + len(labels.unseen or ())
    plan_costs = [
        plan_cost
        for plan_cost in plan_costs
        if 2 * plan_cost.cost * items * per_call <= MOST_FOR_TABLE * dollars
    ]
    # The tuned judge may show much: half of what it may show at most is set aside.
    table = max([seed_calls, *(plan_cost.cost * items for plan_cost in plan_costs)]) * (
        2 * per_call + longest / 2
    )
    if dollars < seed_calls * per_call:
        raise SettingsError(
            f"--max-cost {settings.max_cost:g}: measuring the seed on test alone may take "
            f"${seed_calls * per_call / (1 - SPARE_DOLLARS):.2f}"
        )
    table = min(table, dollars / 2)
    affordable_calls = int(max(0.0, dollars - table) / per_call)
    dearer = find_price(settings.proposer_lm or settings.lm) or price
    lengths = proposals.MISTAKES_SHOWN * proposals.TEXT_SHOWN / 4
    proposal = lengths * dearer.per_token_in + proposals.PROPOSAL_TOKENS * dearer.per_token_out
    proposal = max(1, round(proposal / per_call))
    search_budget = _setting_aside(min(calls, affordable_calls), plan_costs, weight, proposal)
    return replace(search_budget, table_dollars=table, per_call=per_call)


def _call(prompt: Prompt, texts: Mapping[str, str], price: Price) -> float:
    return price.cost(estimate_tokens(prompt.messages(texts)), REPLY_TOKENS)


def left_for_probes(settings: Settings, spent: int) -> int | None:
    if settings.max_calls is None:
        return None
    return int(settings.max_calls * (1 - SPARE_CALLS)) - spent
