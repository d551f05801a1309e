"""What the parts of a run may spend: the search and the final table.

The table gets its share first. A free model's calls are counted; those of one that costs money are
weighed by their tokens, in dollars or, where no price is known, in tokens read. So a search plans
its way to the end of its money, and does not run into it.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from judges.client import CHARACTERS_PER_TOKEN, Price, estimate_tokens, is_embedded, is_reasoning
from judges.judge import Judge
from judges.prompt import MAX_DEMOS
from judges.scoring import reply_tokens
from optimize.items import Items
from optimize.run.labels import Labels
from optimize.run.settings import Settings, SettingsError
from optimize.search.evaluator import (
    ITEMS_MEASURED,
    JudgeItems,
    Pricing,
    SearchBudget,
    SearchOptions,
    Unit,
)
from optimize.search.lessons import expected_characters
from optimize.search.proposer import REPLY_TOKENS

# A search that costs nothing may go on for longer, and show as much as a frozen judge can hold;
# the more so the more labels there are to go by.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
FREE_SIZES, FREE_LENGTH = (16, 64, MAX_DEMOS), 3_000_000
# As many as a search that costs money may show, as far as its money goes.
PAID_SIZES, PAID_LENGTH = (4, 8, 16, 32, 64), 120_000
# Without a limit a search may cost what judging so many outputs of train with the untuned judge
# does, so many times.
DEFAULT_SEARCH, OUTPUTS_RACED = 24, 300
# The least that can teach anything: dev and test for two judges, and so much of a first round.
FINALISTS_AT_LEAST, LEAST_SEARCH = 1.5, 3
# Replies that cannot be read are asked for again, and prompts are longer than estimated.
SPARE_CALLS, SPARE_DOLLARS = 0.05, 0.06
ITEMS_LOOKED_AT = 20
# What a proposer reads beside a lesson's texts.
PROPOSER_CHARACTERS = 10_000
# By so much of the limit a step may cost more than was estimated for it.
SLACK = 0.02
# Hidden thoughts before a reply and before a proposal, of models that think.
THOUGHT_TOKENS, PROPOSAL_THOUGHT_TOKENS = 400, 1500
# Of the money, what measuring the dearest candidate on dev and in the final table may take: it
# says how much a candidate may show. With less room than for so many examples none is shown.
DEAREST_SHARE, FEWEST_DEMOS = 0.2, 4
# A candidate may cost so many times the untuned judge under any limit: reasoning in words does.
DEAREST_FACTOR = 4.0
# What has proved so many times as dear as was expected is worth a line.
DEARER = 1.5
# Tokens written cost about so many times those read, where no price says how many.
WRITTEN = 4.0
TOKENS = Price(per_token_in=1.0, per_token_out=WRITTEN)


class CallTokens(NamedTuple):
    """What judging one output takes on average, over all of its calls, or one proposal."""

    tokens_in: float
    tokens_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The search's budget, and what is kept for what comes after it.

    Everything is in the unit of `search`; `pricing` is None for a model that costs nothing. `limit`
    is what the run may spend in all, `table` what of it is kept for the final table. `n_dev` and
    `n_measured` are the outputs to choose on and to measure on.
    """

    search: SearchBudget
    options: SearchOptions
    limit: float
    table: float
    table_calls: int
    n_dev: int
    n_measured: int
    pricing: Pricing | None = None

    @property
    def in_dollars(self) -> bool:
        return self.search.unit == "dollars"

    def to_hold(self, cost: float) -> tuple[float, float]:
        """Calls and dollars to keep for the final table, and for so much before it."""
        if self.pricing is None:
            return self.table_calls + cost, 0.0
        calls = self.table_calls + cost / self.pricing.of_seed * self.pricing.calls
        return calls, self.table + cost if self.in_dollars else 0.0


def search_options(settings: Settings) -> SearchOptions:
    """What a search may try; --max-demos bounds how much of it judges may show."""
    options = SearchOptions(seed=settings.seed, risk=settings.risk)
    if not is_embedded(settings.lm):
        options = replace(
            options,
            demo_sizes=PAID_SIZES,
            longest_demos=PAID_LENGTH,
            reasoning=settings.reasoning_to_try,
        )
    else:
        options = replace(options, demo_sizes=FREE_SIZES, longest_demos=FREE_LENGTH)
    if settings.max_demos is None:
        return options
    sizes = tuple(size for size in options.demo_sizes if size <= settings.max_demos)
    return replace(
        options,
        demo_sizes=sizes or (settings.max_demos,),
        demo_sets=options.demo_sets if settings.max_demos else 0,
    )


def divide_budget(
    settings: Settings,
    labels: Labels,
    judge: Judge,
    calls_per_item: int,
    replies_per_item: int | None = None,
    measured: CallTokens | None = None,
) -> RunBudget:
    """Raises SettingsError where the limit is too small to learn anything, with one that is not.

    `calls_per_item` and `replies_per_item` are a judgement's; `measured` replaces the estimate of
    what a judgement takes; where it is dearer, the error says so.
    """
    price = settings.prices[0]
    if price is not None and price.is_free:
        return _divide_calls(settings, labels, calls_per_item)
    replies = replies_per_item or calls_per_item
    expected = estimated_tokens(settings, judge, labels, calls_per_item, replies)
    tokens = measured or expected
    pricing = Pricing(
        price=price or TOKENS,
        tokens_in=tokens.tokens_in,
        tokens_out=tokens.tokens_out,
        calls=calls_per_item,
        replies=replies,
    )
    unit: Unit = "tokens" if price is None else "dollars"
    try:
        return _divide_money(settings, labels, pricing, unit)
    except SettingsError as error:
        if measured is None or not (note := dearer_note(pricing, expected, unit)):
            raise
        raise SettingsError(f"{error} ({note})") from None


def dearer_note(measured: Pricing, expected: CallTokens, unit: Unit) -> str:
    """How much dearer judging an output has proved than was expected; empty where not by much."""
    cost, expected_cost = measured.of_seed, measured.cost(*expected)
    if cost < DEARER * expected_cost:
        return ""
    amounts = [
        f"${value:.2g}" if unit == "dollars" else f"{value:,.0f} tokens"
        for value in (cost, expected_cost)
    ]
    return (
        f"judging an output has taken {amounts[0]}, {cost / expected_cost:.1f} times the "
        f"{amounts[1]} expected by its length: {measured.tokens_in:,.0f} tokens read and "
        f"{measured.tokens_out:,.0f} written, hidden thoughts among them; a lower "
        "--reasoning-effort, a smaller --max-tokens or another --lm costs less"
    )


def _divide_calls(settings: Settings, labels: Labels, calls_per_item: int) -> RunBudget:
    """The budget of a run that costs nothing, in calls."""
    n_measured = len(labels.test) + len(labels.unseen or ())
    seed_calls = calls_per_item * n_measured
    limit = max(FREE_CALLS, FREE_CALLS_PER_OUTPUT * calls_per_item * len(labels.everything))
    calls, table_calls = limit, 0
    if settings.max_calls is not None:
        limit = settings.max_calls
        if limit < seed_calls:
            raise SettingsError(
                f"--max-calls {limit}: measuring the untuned judge on test takes {seed_calls}; "
                "give more, or leave the limit out"
            )
        table_calls = min(2 * seed_calls, limit)
        calls = max(0, int(limit * (1 - SPARE_CALLS)) - table_calls)
    return RunBudget(
        search=SearchBudget(calls),
        options=search_options(settings),
        limit=limit,
        table=table_calls,
        table_calls=table_calls,
        n_dev=len(labels.dev),
        n_measured=n_measured,
    )


def _divide_money(
    settings: Settings,
    labels: Labels,
    pricing: Pricing,
    unit: Unit,
) -> RunBudget:
    """The budget of a run that costs money, in dollars or, without a price, in tokens read."""
    n_measured = len(labels.test) + len(labels.unseen or ())
    item_cost, n_dev = pricing.of_seed, len(labels.dev)
    proposer_price = (settings.prices[1] or pricing.price) if unit == "dollars" else TOKENS
    proposal = proposer_price.cost(*proposal_tokens(settings.proposer[0], labels))
    first_round = LEAST_SEARCH * min(len(labels.train), OUTPUTS_RACED) * item_cost
    least = (1 + FINALISTS_AT_LEAST) * (n_dev + n_measured) * item_cost + first_round + 4 * proposal
    default = least + DEFAULT_SEARCH * min(len(labels.train), OUTPUTS_RACED) * item_cost
    limits = {}
    if settings.max_cost is not None and unit == "dollars":
        limits["--max-cost"] = settings.max_cost * (1 - SPARE_DOLLARS)
    if settings.max_calls is not None:
        calls = settings.max_calls * (1 - SPARE_CALLS)
        limits["--max-calls"] = calls / pricing.calls * item_cost
    flag = min(limits, key=lambda name: limits[name]) if limits else None
    limit = default if flag is None else limits[flag]
    if flag is not None and limit < least:
        enough = _smallest_limit(flag, least, pricing)
        raise SettingsError(
            f"{flag} {settings.max_cost if flag == '--max-cost' else settings.max_calls:g}: too "
            f"little to learn anything from {len(labels.everything)} labels, of which "
            f"{n_dev + n_measured} choose and measure; the smallest that can is {flag} {enough}"
        )
    # The dearest candidate to be tried, by its share of the money.
    affordable_cost = DEAREST_SHARE * limit / (n_dev + n_measured)
    options = _limit_demos(search_options(settings), labels, pricing, affordable_cost)
    dearest = DEAREST_FACTOR * item_cost
    if options.demo_sets:
        dearest = max(dearest, affordable_cost)
    options = replace(options, max_item_cost=dearest)
    table = min(n_measured * (item_cost + dearest), limit / 2)
    return RunBudget(
        search=SearchBudget(
            limit - table,
            unit=unit,
            slack=SLACK * limit,
            proposal=proposal,
            proposal_price=proposer_price,
        ),
        options=options,
        limit=limit,
        table=table,
        table_calls=2 * n_measured * pricing.calls,
        n_dev=n_dev,
        n_measured=n_measured,
        pricing=pricing,
    )


def _smallest_limit(flag: str, least: float, pricing: Pricing) -> str:
    """The smallest useful value of a flag, rounded up."""
    if flag == "--max-cost":
        return f"{math.ceil(least / (1 - SPARE_DOLLARS) * 100) / 100:g}"
    return str(math.ceil(least / pricing.of_seed * pricing.calls / (1 - SPARE_CALLS)))


def _limit_demos(
    options: SearchOptions, labels: Labels, pricing: Pricing, item_cost: float
) -> SearchOptions:
    """The options with no more characters of demonstrations than so much an item pays for.

    None are drawn where fewer than FEWEST_DEMOS of average length fit.
    """
    per_character = pricing.price.per_token_in * pricing.calls / CHARACTERS_PER_TOKEN
    longest = options.longest_demos
    if per_character:
        longest = min(longest, int(max(0.0, item_cost - pricing.of_seed) / per_character))
    items = labels.train.items
    lengths = [sum(map(len, item.texts.values())) for item in items]
    enough = min(FEWEST_DEMOS, max(options.demo_sizes)) * sum(lengths) / len(lengths)
    return replace(
        options,
        longest_demos=longest,
        demo_sets=options.demo_sets if longest >= enough else 0,
    )


def estimated_tokens(
    settings: Settings, judge: Judge, labels: Labels, calls_per_item: int, replies_per_item: int
) -> CallTokens:
    """What judging an output with the untuned judge takes, by the lengths of the texts."""
    step = max(1, len(labels.train) // ITEMS_LOOKED_AT)
    lengths = [estimate_tokens(judge.messages(item.texts)) for item in labels.train.items[::step]]
    written = reply_tokens(judge.prompt) + thought_tokens(settings.lm)
    return CallTokens(sum(lengths) / len(lengths) * calls_per_item, written * replies_per_item)


def measured_tokens(scorer: JudgeItems, judge: Judge, train: Items) -> CallTokens:
    """What judging an output with the untuned judge has taken, over a few of train."""
    step = max(1, len(train) // ITEMS_MEASURED)
    scores = list(scorer(judge.prompt, train.items[::step][:ITEMS_MEASURED]))
    # A judgement takes a token at least, also at an endpoint that does not count them.
    return CallTokens(
        max(1.0, sum(score.tokens_in for score in scores) / len(scores)),
        max(1.0, sum(score.tokens_out for score in scores) / len(scores)),
    )


def thought_tokens(lm: str) -> int:
    """About how many tokens a model thinks before it answers a judge's prompt."""
    return THOUGHT_TOKENS if is_reasoning(lm.rpartition("/")[2]) else 0


def proposal_tokens(lm: str, labels: Labels) -> CallTokens:
    """What having an instruction proposed takes; of a reply's limit few use more than half."""
    if is_embedded(lm):  # which writes none
        return CallTokens(0, 0)
    characters = PROPOSER_CHARACTERS + expected_characters(labels.train)
    written = REPLY_TOKENS / 2
    if is_reasoning(lm.rpartition("/")[2]):
        written += PROPOSAL_THOUGHT_TOKENS
    return CallTokens(characters / CHARACTERS_PER_TOKEN, written)


def left_for_probes(settings: Settings, spent: int) -> int | None:
    """The calls that the probes may make; None: as many as they need."""
    if settings.max_calls is None:
        return None
    return int(settings.max_calls * (1 - SPARE_CALLS)) - spent
