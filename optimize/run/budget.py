"""What a run may spend and on what: what a judgement costs times the judgements of each purpose.

The unit is dollars, tokens where no price is known, or calls of a model that costs nothing. What
measures comes first, then what chooses; the search spends the rest. A judgement costs what its
length tells before a run, and what the first rows have taken in it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from judges.client import (
    CHARACTERS_PER_TOKEN,
    Account,
    Price,
    Spending,
    estimate_tokens,
    gives_n_replies,
    is_embedded,
    is_reasoning,
)
from judges.prompt import MAX_DEMOS, Prompt
from judges.scoring import reply_tokens
from judges.terminal import dollars_text
from optimize.figures import DIGITS
from optimize.injection import ATTACKS, OUTPUTS_PROBED
from optimize.items import Items
from optimize.run.labels import Labels, PreparedRun
from optimize.run.models import DEV, PROBES, PROPOSALS, PURPOSES, SEARCH, TEST, check_prices
from optimize.run.settings import Settings, SettingsError
from optimize.search.evaluator import (
    ITEMS_MEASURED,
    JudgeItems,
    Pricing,
    SearchBudget,
    Unit,
)
from optimize.search.gate import fewest_documents
from optimize.search.problem import SearchOptions

# A search that costs nothing may show as much as a frozen judge can hold.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
FREE_SIZES, FREE_LENGTH = (16, 64, MAX_DEMOS), 3_000_000
# As many as a search that costs money may show, as far as its money goes.
PAID_SIZES, PAID_LENGTH = (4, 8, 16, 32, 64), 120_000
# Without a limit a search may cost what judging so many outputs of train with the untuned judge
# does, so many times.
DEFAULT_SEARCH, OUTPUTS_RACED = 24, 300
# The least that can teach anything: dev and test for two judges, and so much of a first round.
FINALISTS_AT_LEAST, LEAST_SEARCH, LEAST_PROPOSALS = 1.5, 3, 4
# Replies that cannot be read are asked for again, and prompts are longer than estimated.
SPARE = {"--max-calls": 0.05, "--max-cost": 0.06}
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
# Tokens written cost about so many times those read, where no price says how many.
TOKENS = Price(per_token_in=1.0, per_token_out=4.0)


class CallTokens(NamedTuple):
    """What judging one output takes on average, over all of its calls, or one proposal."""

    tokens_in: float
    tokens_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may spend in all (`limit`), and the search's part of it.

    `kept` and `kept_calls` are what the search leaves for measuring. `rows` are what is planned by
    purpose.
    """

    settings: Settings
    labels: Labels
    search: SearchBudget
    options: SearchOptions
    pricing: Pricing
    limit: float
    kept: float
    kept_calls: int
    rows: Sequence[Spending]

    @property
    def planned(self) -> Spending:
        return total_spending(self.rows, "planned")

    def to_hold(self, cost: float) -> tuple[float, float]:
        """Calls and dollars to keep for measuring, and for so much before it."""
        calls = self.kept_calls + cost / self.pricing.of_seed * self.pricing.calls
        return calls, self.kept + cost if self.search.unit == "dollars" else 0.0

    @property
    def most_dollars(self) -> float | None:
        """What the run costs at most, where anything is paid: its limit, or what it keeps to."""
        if self.settings.max_cost is not None or self.search.unit != "dollars":
            return self.settings.max_cost
        return round(max(self.limit, self.planned.cost or 0), 2)

    @property
    def documents(self) -> dict[str, int]:
        """How many documents teach, choose and measure."""
        return {
            "train": len(self.labels.train.documents),
            "dev": len(self.labels.dev.documents),
            # Outputs of unseen systems are for test's documents: none counts twice.
            "test": len({name for part in self.labels.measured.values() for name in part.places}),
        }

    def heading(self) -> list[str]:
        """What is planned and its limit, and how many documents do what."""
        most = "" if self.most_dollars is None else f", at most {dollars_text(self.most_dollars)}"
        if self.settings.max_calls is not None:
            most += f", at most {self.settings.max_calls:,} calls"
        counts, fewest = self.documents, fewest_documents(self.settings.risk)
        documents = (
            f"documents: {counts['train']} teach, {counts['dev']} choose, {counts['test']} measure"
        )
        # What costs nothing may be judged on train as well.
        if counts["dev"] < fewest and self.search.unit != "calls":
            documents += f"; fewer than {fewest} that choose ship no tuned judge"
        return [
            f"planned: about {_about(self.planned.calls)} calls, {_dollars(self.planned)}{most}",
            documents,
        ]

    def lines(self) -> Iterator[str]:
        """Yield a table of what is planned by purpose, the time and the limits."""
        yield from self.heading()
        yield ""
        yield _columns("", "calls", "tokens in", "tokens out", "dollars")
        for row in (*self.rows, self.planned):
            numbers = (_about(row.calls), _about(row.tokens_in), _about(row.tokens_out))
            yield _columns(row.purpose, *numbers, _dollars(row))
        yield "(a token is taken as four characters; nothing has been sent or written)"

    def to_json(self) -> dict[str, Any]:
        """What --dry-run --json prints of it."""
        planned = rounded(self.planned)
        return {
            "documents": self.documents,
            "calls": {"expected": planned.calls, "at_most": self.settings.max_calls},
            "tokens_in": {"expected": planned.tokens_in},
            "tokens_out": {"expected": planned.tokens_out},
            "cost_usd": {"expected": planned.cost, "at_most": self.most_dollars},
            "spending": [spending_row(rounded(row)) for row in self.rows],
        }


def plan_budget(
    prepared: PreparedRun, measured: CallTokens | None = None, native_n: bool | None = None
) -> RunBudget:
    """The plan of a run; `measured` takes the place of what a judgement takes by its length.

    `native_n`: n replies are one call (None: as the model's name tells). Raises SettingsError where
    a limit is too small to learn anything, with one that is not.
    """
    settings, labels = prepared.settings, prepared.labels
    check_prices(settings)
    price, unit = settings.prices[0], _unit(settings)
    orders = 2 if settings.pairwise else 1
    replies = calls = orders * (settings.samples or 1)
    if gives_n_replies(settings.lm) if native_n is None else native_n:
        calls = orders
    tokens = measured or _tokens_by_length(prepared, calls, replies)
    pricing = Pricing(
        price=price or TOKENS,
        per_call=unit == "calls",
        tokens_in=tokens.tokens_in,
        tokens_out=tokens.tokens_out,
        calls=calls,
        replies=replies,
    )
    item_cost, n_dev = pricing.of_seed, len(labels.dev)
    n_measured = sum(map(len, labels.measured.values()))
    proposer_price = settings.prices[1] or pricing.price if unit == "dollars" else TOKENS
    proposal_tokens = _proposal_tokens(settings, labels)
    proposal = 1.0 if unit == "calls" else proposer_price.cost(*proposal_tokens)
    # The least that teaches anything, and what is as much as the labels are worth.
    least, raced = n_measured * item_cost, min(len(labels.train), OUTPUTS_RACED) * item_cost
    default = max(FREE_CALLS, FREE_CALLS_PER_OUTPUT * item_cost * len(labels.everything))
    if unit != "calls":
        least = (1 + FINALISTS_AT_LEAST) * (n_dev + n_measured) * item_cost
        least += LEAST_SEARCH * raced + LEAST_PROPOSALS * proposal
        default = least + DEFAULT_SEARCH * raced
    limit = _limit(settings, labels, pricing, unit, least) or default
    # The dearest candidate to be tried, by its share of the money.
    affordable = DEAREST_SHARE * limit / max(1, n_dev + n_measured)
    options = _search_options(settings, labels, pricing, affordable)
    dearest = DEAREST_FACTOR * item_cost
    if options.demo_sets:
        dearest = max(dearest, affordable)
    n_probes = len(ATTACKS) * min(OUTPUTS_PROBED, len(labels.test))
    if not settings.probes and not is_embedded(settings.lm):
        n_probes = 0
    # A free model's judgements cost the same whatever they show.
    tables = n_measured * (item_cost + (item_cost if unit == "calls" else dearest))
    kept = min(tables + n_probes * item_cost, limit if unit == "calls" else limit / 2)
    search = SearchBudget(
        max(0.0, limit - kept),
        unit=unit,
        slack=0 if unit == "calls" else SLACK * limit,
        proposal=proposal,
        proposal_price=None if unit == "calls" else proposer_price,
    )
    options = replace(options, max_item_cost=math.inf if unit == "calls" else dearest)
    n_proposals, n_search, n_dev = _searched(prepared, search, options, item_cost)
    judged = {SEARCH: n_search, DEV: n_dev, TEST: 2 * n_measured, PROBES: n_probes}
    rows = [
        _spending(purpose, number, pricing.calls, tokens, price)
        for purpose, number in judged.items()
    ]
    rows.append(_spending(PROPOSALS, n_proposals, 1, proposal_tokens, settings.prices[1]))
    return RunBudget(
        settings=settings,
        labels=labels,
        search=search,
        options=options,
        pricing=pricing,
        limit=limit,
        kept=kept,
        kept_calls=(2 * n_measured + n_probes) * pricing.calls,
        rows=_in_order(row for row in rows if row.calls),
    )


def _unit(settings: Settings) -> Unit:
    price = settings.prices[0]
    return "tokens" if price is None else "calls" if price.is_free else "dollars"


def _limit(
    settings: Settings, labels: Labels, pricing: Pricing, unit: Unit, least: float
) -> float | None:
    """What the settings let a run spend, in the unit; None: no limit is given.

    Raises SettingsError for less than the least that can teach anything.
    """
    limits = {}
    if settings.max_cost is not None and unit == "dollars":
        limits["--max-cost"] = settings.max_cost * (1 - SPARE["--max-cost"])
    if settings.max_calls is not None:
        calls = settings.max_calls * (1 - SPARE["--max-calls"])
        limits["--max-calls"] = calls / pricing.calls * pricing.of_seed
    if not limits:
        return None
    flag = min(limits, key=lambda name: limits[name])
    if limits[flag] >= least:
        return limits[flag]
    given, enough = settings.max_calls, least / pricing.of_seed * pricing.calls
    if flag == "--max-cost":
        given, enough = settings.max_cost, 100 * least
    enough = math.ceil(enough / (1 - SPARE[flag])) / (100 if flag == "--max-cost" else 1)
    n_held = len(labels.everything) - len(labels.train)
    raise SettingsError(
        f"{flag} {given:g}: too little to learn anything from {len(labels.everything)} labels, of "
        f"which {n_held} choose and measure; the smallest that can is {flag} {enough:g}"
    )


def _search_options(
    settings: Settings, labels: Labels, pricing: Pricing, item_cost: float
) -> SearchOptions:
    """What a search may try, and show where a judgement may cost so much.

    None are shown where fewer than FEWEST_DEMOS of average length fit.
    """
    embedded = is_embedded(settings.lm)
    sizes, longest = (FREE_SIZES, FREE_LENGTH) if embedded else (PAID_SIZES, PAID_LENGTH)
    if settings.max_demos is not None:
        sizes = tuple(size for size in sizes if size <= settings.max_demos)
        sizes = sizes or (settings.max_demos,)
    if pricing.price.per_token_in:
        per_character = pricing.price.per_token_in * pricing.calls / CHARACTERS_PER_TOKEN
        longest = min(longest, int(max(0.0, item_cost - pricing.of_seed) / per_character))
    options = SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        demo_sizes=sizes,
        longest_demos=longest,
        reasoning=settings.reasoning_to_try,
    )
    lengths = [sum(map(len, item.texts.values())) for item in labels.train.items]
    enough = min(FEWEST_DEMOS, max(sizes)) * sum(lengths) / len(lengths)
    if settings.max_demos == 0 or longest < enough:
        options = replace(options, demo_sets=0)
    return options


def _searched(
    prepared: PreparedRun, search: SearchBudget, options: SearchOptions, item_cost: float
) -> tuple[int, float, float]:
    """Proposals, judgements of train, and judgements of dev, that the search is planned to take."""
    labels, limit = prepared.labels, search.limit
    if is_embedded(prepared.settings.lm):
        # Two judges are compared, the untuned one and one that shows the labels.
        n_dev = min(2 * len(labels.dev), limit / item_cost)
        return 0, min(2 * len(labels.train), limit / item_cost - n_dev), n_dev
    from optimize.search.rank_search import plan_search  # which a free run does without

    level = prepared.level
    plan = plan_search(labels.train, labels.dev, level, options.seed, limit, item_cost)
    searching = max(0.0, limit - plan.dev_cost)
    # Proposals are paid from the search's share, and take no more than half of it.
    n_proposals = min(options.rounds * options.proposals, int(searching / 2 / search.proposal))
    n_search = (searching - n_proposals * search.proposal) / item_cost
    return n_proposals, n_search, len(plan.dev) * (1 + plan.n_finalists)


def _tokens_by_length(prepared: PreparedRun, calls: int, replies: int) -> CallTokens:
    """What judging an output with the untuned judge takes, by the lengths of the texts."""
    judge, train = prepared.untuned_judge, prepared.labels.train
    step = max(1, len(train) // ITEMS_LOOKED_AT)
    lengths = [estimate_tokens(judge.messages(item.texts)) for item in train.items[::step]]
    written = reply_tokens(judge.prompt) + THOUGHT_TOKENS * _thinks(prepared.settings.lm)
    return CallTokens(sum(lengths) / len(lengths) * calls, written * replies)


def measured_tokens(scorer: JudgeItems, prompt: Prompt, train: Items) -> CallTokens:
    """What judging an output with the untuned prompt has taken, over a few of train."""
    step = max(1, len(train) // ITEMS_MEASURED)
    judged = list(scorer(prompt, train.items[::step][:ITEMS_MEASURED]))
    # A judgement takes a token at least, also at an endpoint that does not count them.
    return CallTokens(
        max(1.0, sum(one.tokens_in for one in judged) / len(judged)),
        max(1.0, sum(one.tokens_out for one in judged) / len(judged)),
    )


def _thinks(lm: str) -> bool:
    return is_reasoning(lm.rpartition("/")[2])


def _proposal_tokens(settings: Settings, labels: Labels) -> CallTokens:
    """What having an instruction proposed takes; of a reply's limit few use more than half."""
    lm = settings.proposer[0]
    if is_embedded(lm):  # which writes none
        return CallTokens(0, 0)
    from optimize.search.lessons import expected_characters
    from optimize.search.proposer import REPLY_TOKENS

    characters = PROPOSER_CHARACTERS + expected_characters(labels.train)
    written = REPLY_TOKENS / 2 + PROPOSAL_THOUGHT_TOKENS * _thinks(lm)
    return CallTokens(characters / CHARACTERS_PER_TOKEN, written)


def _spending(
    purpose: str, number: float, calls: int, tokens: CallTokens, price: Price | None
) -> Spending:
    """So many judgements or proposals, with their price; None where it is unknown."""
    tokens_in, tokens_out = round(number * tokens.tokens_in), round(number * tokens.tokens_out)
    cost = None if price is None else price.cost(tokens_in, tokens_out)
    return Spending(
        purpose=purpose,
        calls=round(number * calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=cost,
    )


def spending_summary(*accounts: Account) -> dict[str, Any]:
    """Tokens and dollars for summary.json: in all, which is the sum of those by purpose.

    Dollars are at list price, and None where the price of a model that was asked is unknown. They
    hold the most that requests whose answer never came may have cost; where there were any,
    `cost_unconfirmed_usd` says how much that is.
    """
    rows = _in_order(rounded(row) for account in accounts for row in account.spending())
    total = total_spending(rows)
    summary: dict[str, Any] = {
        "tokens": {"in": total.tokens_in, "out": total.tokens_out},
        "cost_usd": None if total.cost is None else round(total.cost, DIGITS),
    }
    unconfirmed = round(sum(account.cost_unconfirmed for account in accounts), DIGITS)
    if total.cost is not None and unconfirmed > 0:
        summary["cost_unconfirmed_usd"] = unconfirmed
    return {**summary, "spending": [spending_row(row) for row in rows]}


def rounded(row: Spending) -> Spending:
    """The same with dollars as files hold them."""
    return replace(row, cost=None if row.cost is None else round(row.cost, DIGITS))


def spending_row(row: Spending) -> dict[str, Any]:
    """What JSON holds of it."""
    return {
        "purpose": row.purpose or "unknown",
        "calls": row.calls,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "cost_usd": row.cost,
    }


def total_spending(rows: Sequence[Spending], name: str = "all") -> Spending:
    """All of them together; the cost is None where one is."""
    costs = [row.cost for row in rows if row.cost is not None]
    return Spending(
        purpose=name,
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost=sum(costs) if len(costs) == len(rows) else None,
    )


def _in_order(rows: Iterable[Spending]) -> list[Spending]:
    """By purpose; what is of no known purpose stands last."""
    return sorted(rows, key=lambda row: [*PURPOSES, row.purpose].index(row.purpose))


def _dollars(row: Spending) -> str:
    return "price unknown" if row.cost is None else dollars_text(row.cost) if row.cost else "free"


def _about(number: float) -> str:
    """Two digits of a large number: nobody knows more before a run."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _columns(name: str, *cells: str) -> str:
    return (f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells)).rstrip()
