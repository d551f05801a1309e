"""What the parts of a run may spend: the search, trying sampling plans, and the final table.

The table gets its share first. Under --max-cost the unit is what one call of the seed costs, and a
call that shows demonstrations counts as many as its length makes it cost. So a search plans its way
to the end of its money, and does not run into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from judges.judge import Judge
from judges.models.prices import CHARACTERS_PER_TOKEN, Price, estimate_tokens, find_price
from judges.prompt import MAX_DEMOS, Prompt
from judges.protocol import is_embedded
from judges.scoring import SamplingPlan
from optimize.run.labels import Labels
from optimize.run.models import RunModels
from optimize.run.settings import Settings, SettingsError
from optimize.search import proposals
from optimize.search.candidates import Candidate
from optimize.search.evaluator import SearchBudget
from optimize.search.problem import SearchOptions

# A search that costs nothing may go on for longer, and show as much as a frozen judge can hold.
FREE_CALLS, FREE_SIZES, FREE_LENGTH = 20_000, (16, 64, MAX_DEMOS), 3_000_000
DEFAULT_CALLS = 8_000
# Replies that cannot be read are asked for again, and prompts are longer than estimated.
SPARE_CALLS, SPARE_DOLLARS = 0.05, 0.10
# What a judge writes: a rating or letter by itself, and a field of words beside it.
CHOICE_TOKENS, WORDS_TOKENS = 5, 60
ITEMS_LOOKED_AT = 20
# Of the search's calls, where sampling plans are to be tried; and of all, for the final table.
PLANS_SHARE, MOST_FOR_TABLE = 0.2, 0.5
# Of the dollars, what measuring the dearest candidate on dev and in the final table may take: it
# says how much a candidate may show. With less room than for so many examples none is shown.
DEAREST_SHARE, FEWEST_DEMOS = 0.2, 2
AUTO = "auto"
SAMPLES = (5, 20)
# Tokens written cost about so many times those read, where no price says how many.
WRITTEN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """What one judgement takes under a sampling plan; `cost` in those of a single reply."""

    plan: SamplingPlan
    calls: int
    replies: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The search's budget, and what is kept for what comes after it.

    `plan_calls` more may go to trying the sampling plans `plan_costs`; under those that are not
    `affordable_plans` the final table could not be paid. The table takes `table_calls` and
    `table_dollars`; a call of the search's budget is worth `dollars_per_call`.
    """

    search: SearchBudget
    options: SearchOptions
    plan_calls: int = 0
    plan_costs: Sequence[PlanCost] = ()
    affordable_plans: Sequence[PlanCost] = ()
    table_calls: int = 0
    table_dollars: float = 0.0
    dollars_per_call: float = 0.0

    def to_hold(self, calls: int) -> tuple[int, float]:
        """Calls and dollars to keep for the final table, and for so many calls before it."""
        return self.table_calls + calls, self.table_dollars + calls * self.dollars_per_call


def search_options(settings: Settings) -> SearchOptions:
    if not is_embedded(settings.lm):
        return SearchOptions(seed=settings.seed)
    return SearchOptions(seed=settings.seed, demo_sizes=FREE_SIZES, longest_demos=FREE_LENGTH)


def plan_costs_of(
    settings: Settings, judge: Judge, models: RunModels, labels: Labels
) -> list[PlanCost]:
    """The sampling plans to try, cheapest first; none where the settings name one."""
    if settings.plan != AUTO:
        return []
    temperature = 1.0 if settings.temperature is None else settings.temperature
    samples = SAMPLES if settings.samples is None else (settings.samples,)
    plans = [SamplingPlan(kind="one"), SamplingPlan(kind="weighted")]
    plans += [SamplingPlan(kind="mean", samples=n, temperature=temperature) for n in samples]
    price = find_price(settings.lm)
    ratio = price.per_token_out / price.per_token_in if price and price.per_token_in else WRITTEN
    # The first texts stand for all, to tell how long a prompt is beside a reply.
    read = float(estimate_tokens(judge.messages(labels.train.items[0].texts)))
    written = reply_tokens(judge.prompt) * ratio
    orders = 2 if judge.kind == "pairwise" else 1
    costs = []
    for plan in plans:
        calls = replace(models, plan=plan).calls_per_item(judge)
        replies = plan.samples * orders
        cost = (read * calls + written * replies) / ((read + written) * orders)
        costs.append(PlanCost(plan=plan, calls=calls, replies=replies, cost=round(cost, 3)))
    return sorted(costs, key=lambda plan_cost: (plan_cost.cost, plan_cost.plan.kind))


def divide_budget(
    settings: Settings,
    labels: Labels,
    judge: Judge,
    calls_per_item: int,
    plan_costs: Sequence[PlanCost] = (),
) -> RunBudget:
    """Raises SettingsError where not even the seed can be measured on test.

    `calls_per_item` are a judgement's under the search's plan; `plan_costs` those of the plans to
    try.
    """
    n_measured = len(labels.test) + len(labels.unseen or ())
    seed_calls = calls_per_item * n_measured
    calls = FREE_CALLS if is_embedded(settings.lm) else DEFAULT_CALLS
    affordable, table_calls = list(plan_costs), 0
    if settings.max_calls is not None:
        if settings.max_calls < seed_calls:
            raise SettingsError(
                f"--max-calls {settings.max_calls}: measuring the seed on test alone takes "
                f"{seed_calls}"
            )
        most = MOST_FOR_TABLE * settings.max_calls
        affordable = [plan for plan in affordable if 2 * plan.calls * n_measured <= most]
        dearest = max((plan.calls for plan in affordable), default=calls_per_item)
        table_calls = min(2 * dearest * n_measured, settings.max_calls)
        calls = max(0, int(settings.max_calls * (1 - SPARE_CALLS)) - table_calls)
    options = search_options(settings)
    weight, max_weight, proposal, table_dollars, per_call = None, 1.0, 1, 0.0, 0.0
    price = find_price(settings.lm)
    if settings.max_cost is not None and price is not None and price.per_token_in:
        per_call = _dollars_per_call(judge.prompt, labels, price)
        dollars = settings.max_cost * (1 - SPARE_DOLLARS)
        if dollars < seed_calls * per_call:
            raise SettingsError(
                f"--max-cost {settings.max_cost:g}: measuring the seed on test alone may take "
                f"${seed_calls * per_call / (1 - SPARE_DOLLARS):.2f}"
            )
        most = MOST_FOR_TABLE * dollars
        affordable = [plan for plan in affordable if 2 * plan.cost * n_measured * per_call <= most]
        scored_calls = calls_per_item * (len(labels.dev) + n_measured)
        max_weight = max(1.0, DEAREST_SHARE * dollars / (scored_calls * per_call))
        options = _limit_demos_by_cost(options, labels, (max_weight - 1) * per_call, price)
        if not options.demo_sets:
            max_weight = 1.0
        dearest_calls = max([seed_calls, *(plan.cost * n_measured for plan in affordable)])
        table_dollars = min(dearest_calls * per_call * (1 + max_weight), dollars / 2)
        calls = min(calls, int(max(0.0, dollars - table_dollars) / per_call))
        weight = partial(_weight, len(judge.prompt.instruction), price.per_token_in / per_call)
        proposer_price = find_price(settings.proposer_lm or settings.lm) or price
        proposal = max(1, round(_dollars_per_proposal(proposer_price) / per_call))
    plan_calls = int(PLANS_SHARE * calls) if affordable else 0
    return RunBudget(
        search=SearchBudget(
            calls - plan_calls, weight=weight, max_weight=max_weight, proposal=proposal
        ),
        options=options,
        plan_calls=plan_calls,
        plan_costs=plan_costs,
        affordable_plans=affordable,
        table_calls=table_calls,
        table_dollars=table_dollars,
        dollars_per_call=per_call,
    )


def _limit_demos_by_cost(
    options: SearchOptions, labels: Labels, demo_dollars_per_call: float, price: Price
) -> SearchOptions:
    """The options with no more characters of demonstrations than these dollars a call pay for.

    None are drawn where fewer than FEWEST_DEMOS of average length fit. That everything is shown is
    no finalist then: it has to race, as all that is paid for with every row.
    """
    longest = min(
        options.longest_demos,
        int(demo_dollars_per_call / price.per_token_in * CHARACTERS_PER_TOKEN),
    )
    items = labels.train.items
    mean_demo_characters = sum(len(text) for item in items for text in item.texts.values()) / len(
        items
    )
    n_demo_sets = options.demo_sets if longest >= FEWEST_DEMOS * mean_demo_characters else 0
    return replace(options, longest_demos=longest, demo_sets=n_demo_sets, show_all=False)


def _weight(seed_characters: int, calls_per_token: float, candidate: Candidate) -> float:
    """How many calls of the seed a candidate's call costs as much as."""
    demo_characters = sum(
        len(str(value)) for demo in candidate.demo_set.demos for value in demo.values()
    )
    characters = demo_characters + max(0, len(candidate.instruction) - seed_characters)
    return 1.0 + characters / CHARACTERS_PER_TOKEN * calls_per_token


def _dollars_per_call(prompt: Prompt, labels: Labels, price: Price) -> float:
    """What a call of the seed costs on average."""
    step = max(1, len(labels.train) // ITEMS_LOOKED_AT)
    costs = [
        price.cost(estimate_tokens(prompt.messages(item.texts)), reply_tokens(prompt))
        for item in labels.train.items[::step]
    ]
    return sum(costs) / len(costs)


def reply_tokens(prompt: Prompt) -> int:
    """About how many tokens a reply has that no thoughts precede."""
    words = [field for field in prompt.outputs if not field.choices]
    return CHOICE_TOKENS + WORDS_TOKENS * len(words)


def _dollars_per_proposal(price: Price) -> float:
    tokens = proposals.MISTAKES_SHOWN * proposals.TEXT_SHOWN / 4
    return tokens * price.per_token_in + proposals.PROPOSAL_TOKENS * price.per_token_out


def left_for_probes(settings: Settings, spent: int) -> int | None:
    """The calls that the probes may make; None: as many as they need."""
    if settings.max_calls is None:
        return None
    return int(settings.max_calls * (1 - SPARE_CALLS)) - spent
