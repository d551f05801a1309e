"""Plan what a run spends: the cost of a judgement times the number of judgements.

The unit is dollars, tokens if the price is unknown, or calls if the model is free. The cost of the
final measurement is reserved first, and the search spends the rest. Before a run, the cost of a
judgement is estimated from the length of the texts; during a run it is measured on the first rows.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from judges.catalog import candidate_questions
from judges.client import (
    CHARACTERS_PER_TOKEN,
    Account,
    Price,
    Spending,
    estimate_tokens,
    gives_n_replies,
)
from judges.prompt import MAX_DEMOS, Prompt
from judges.protocol import REASONING_FACTOR, is_decision, is_embedded, is_reasoning
from judges.scoring import reply_tokens
from judges.terminal import dollars_text
from optimize.figures.as_json import DIGITS, JsonObject, to_json
from optimize.figures.as_text import wrapped
from optimize.inputs.flags import SettingsError
from optimize.items import Items
from optimize.measuring.injection import ATTACKS, OUTPUTS_PROBED
from optimize.measuring.tuning_result import RunSpending
from optimize.search.evaluator import (
    ITEMS_MEASURED,
    MAX_RACE_DOCUMENTS,
    JudgeItems,
    Pricing,
    SearchBudget,
    SearchOptions,
    Unit,
)
from optimize.search.evidence import expected_characters
from optimize.search.optimizer import N_FINALISTS
from optimize.search.power import chance_of_gain
from optimize.search.proposer import REPLY_TOKENS
from optimize.search.questions import ASKING_COST, ASKING_SHARE, MOST_OUTPUTS
from optimize.search.rank_search import (
    DEV_SHARE,
    FINALIST_COST,
    FIRST_ROUND_COST,
    UNTUNED_BUDGET_SHARE,
)
from optimize.tuning.models import PROBES, PROPOSALS, PURPOSES, SEARCH, TEST, check_prices
from optimize.tuning.preparation import Labels, PreparedRun
from optimize.tuning.settings import Settings

# The default limit of a free search, in calls: the larger of a fixed number and a multiple of the
# labelled outputs.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
# The default limit of a paid search, as a multiple of the untuned judge's cost on train, and the
# upper bound on train's outputs in that cost.
DEFAULT_RACES, MAX_RACE_OUTPUTS = 24, 300
# The usual amount of work in a search: how often each output is judged in races, the price of these
# judgements as a multiple of the untuned judge's, and the number of proposals.
USUAL_RACES, USUAL_PRICE_RATIO, USUAL_PROPOSALS = 25, 2.0, 20
# The assumed seconds for a call and for a proposal, and the average number of calls in flight.
CALL_SECONDS, PROPOSAL_SECONDS, IN_FLIGHT = 1.5, 30, 24
# Upper bounds on demonstrations and on their characters, for a free and for a paid model. A free
# model has the bounds of a frozen judge.
FREE_DEMOS, FREE_DEMO_CHARACTERS = MAX_DEMOS, 3_000_000
PAID_DEMOS, PAID_DEMO_CHARACTERS = 64, 120_000
# What the smallest useful limit pays for: finalists on dev and test, races on train, and proposals.
LEAST_FINALISTS, LEAST_RACES, LEAST_PROPOSALS = 1.5, 3, 4
# The shares of the limit kept for replies that are asked for again, and for prompts that are longer
# than estimated.
SPARE_CALLS, SPARE_COST = 0.05, 0.06
# The share of the limit by which a step may exceed its estimate.
SLACK = 0.02
# How many items the length of texts is estimated from.
ITEMS_SAMPLED = 20
# The characters that a proposer reads in addition to the texts of the evidence.
PROPOSER_CHARACTERS = 10_000
# The hidden tokens of reasoning models before a reply and before a proposal.
THOUGHT_TOKENS, PROPOSAL_THOUGHT_TOKENS = 400, 1500
# The share of the limit reserved for judging dev and test with the most expensive candidate, which
# bounds its demonstrations. If fewer than this many fit, there are none.
MAX_CANDIDATE_SHARE, FEWEST_DEMOS = 0.2, 4
# A candidate may always cost this multiple of the untuned judge, so that reasoning can be tried.
MAX_CANDIDATE_RATIO = 4.0
# The relative prices of input and output tokens if the model's price is unknown.
TOKENS = Price(per_token_in=1.0, per_token_out=4.0)


class CallTokens(NamedTuple):
    """The mean number of tokens for one judgement, over all of its calls, or for one proposal."""

    tokens_in: float
    tokens_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The plan of what a run spends, in the unit of its `search`.

    The whole run may spend `limit`. `reserve` and `reserve_calls` are the cost and the calls that
    are reserved for the final measurement. `rows` are what is expected for each purpose.
    """

    prepared: PreparedRun
    search: SearchBudget
    options: SearchOptions
    pricing: Pricing
    limit: float
    reserve: float
    reserve_calls: int
    rows: Sequence[Spending]
    call_seconds: float = CALL_SECONDS

    @property
    def minutes(self) -> float:
        """The expected duration of the run."""
        proposals = sum(row.calls for row in self.rows if row.purpose == PROPOSALS)
        rounds = proposals / self.options.proposals
        calls = self.expected.calls - proposals
        return (calls / self._in_flight * self.call_seconds + rounds * PROPOSAL_SECONDS) / 60

    @property
    def _in_flight(self) -> int:
        """Expected number of calls in flight."""
        return min(self.prepared.settings.concurrency, IN_FLIGHT)

    @property
    def expected(self) -> Spending:
        return total_spending(self.rows, "expected")

    @property
    def limit_in_dollars(self) -> float | None:
        """The user's limit in dollars, else the plan's; None if no model has a price."""
        if self.search.unit != "dollars":
            return None
        return self.prepared.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """The calls and dollars to reserve for the final measurement and for `cost` before it."""
        calls = self.reserve_calls + cost / self.pricing.untuned_cost * self.pricing.calls
        return calls, self.reserve + cost if self.search.unit == "dollars" else 0.0

    def lines(self) -> list[str]:
        """The plan for a terminal: a table by purpose, and the chance that a gain ships."""
        limits = [dollars_text(self.limit_in_dollars)] if self.limit_in_dollars else []
        if self.prepared.settings.max_calls is not None:
            limits.append(f"{self.prepared.settings.max_calls:,} calls")
        table: list[Sequence[str]] = [("", "calls", "tokens in", "tokens out", "dollars")]
        for row in (*self.rows, self.expected):
            counts = map(_rounded, (row.calls, row.tokens_in, row.tokens_out))
            table.append((row.purpose, *counts, "free" if row.cost_usd == 0 else _dollars(row)))
        return [
            *(f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells) for name, *cells in table),
            f"at most: {' and '.join(limits) or 'no limit is given (--max-cost, --max-calls)'}",
            *wrapped(*self._expectations(), *self.notes(), self.chance()),
            "One token is assumed per four characters. Nothing has been sent or spent.",
        ]

    def heading(self) -> str:
        """The plan in one line."""
        limit = self.limit_in_dollars
        at_most = f", at most {dollars_text(limit)}" if limit else ""
        calls, dollars = _rounded(self.expected.calls), _dollars(self.expected)
        return f"planned: about {calls} calls, {self.minutes:.1f} minutes, {dollars}{at_most}"

    def notes(self) -> Iterator[str]:
        """Yield a note on what can be tuned if a decision model has no proposer."""
        settings, prepared = self.prepared.settings, self.prepared
        if not is_decision(settings.lm) or settings.proposer_lm:
            return
        parts = {
            "questions": bool(candidate_questions(prepared.subject, 1)),
            "demonstrations": self.options.max_demos > 0,
            "the threshold": prepared.goal == "balanced",
        }
        tuned = " and ".join(name for name, is_tuned in parts.items() if is_tuned)
        hint = "" if parts["demonstrations"] else " A larger --max-cost pays for demonstrations."
        yield (
            f"{settings.lm} writes no instruction: {tuned or 'nothing'} can be tuned. Name a chat "
            f"model with --proposer-lm for instructions and questions.{hint}"
        )

    def _expectations(self) -> Iterator[str]:
        """Yield sentences on how long a paid run takes, and when it stops early."""
        if self.search.unit == "calls":
            return
        yield (
            f"It takes about {self.minutes:.1f} minutes if a call takes {CALL_SECONDS:g} s and "
            f"{self._in_flight} calls are in flight."
        )
        if self.prepared.settings.optimizer == "rank":
            yield (
                "The search stops early, below the limit, once a round gains so little that the "
                "labels cannot tell the gain from chance."
            )

    def chance(self) -> str:
        """A sentence on how likely a gain ships, and how many documents would make it likely."""
        prepared, labels = self.prepared, self.prepared.labels
        goal, risk = prepared.goal, prepared.settings.risk
        return chance_of_gain(labels.everything, labels.learned, goal=goal, risk=risk)[0]

    def to_json(self) -> JsonObject:
        """The JSON object that `--dry-run --json` prints."""
        expected, labels = self.expected, self.prepared.labels
        cost = expected.cost_usd and round(expected.cost_usd, DIGITS)
        counts = {"train": labels.train, "dev": labels.dev, "test": labels.measured.test}
        return {
            "documents": {name: len(items.documents) for name, items in counts.items()},
            "chance": self.chance(),
            "calls": {
                "expected": expected.calls,
                "at_most": self.prepared.settings.max_calls,
            },
            "minutes": round(self.minutes, 1),
            "tokens": {"in": expected.tokens_in, "out": expected.tokens_out},
            "cost_usd": {"expected": cost, "at_most": self.limit_in_dollars},
            "spending": to_json(self.rows),
        }


def plan_budget(
    prepared: PreparedRun,
    measured: CallTokens | None = None,
    native_n: bool | None = None,
    call_seconds: float = CALL_SECONDS,
) -> RunBudget:
    """Plan what a run spends.

    Args:
        prepared: The run.
        measured: The measured tokens for a judgement; by default, estimated from the texts.
        native_n: Whether the model gives n replies to one call; by default, known from its name.
        call_seconds: The seconds that one call takes.

    Raises:
        SettingsError: The limit is too small to learn anything.
    """
    settings, labels = prepared.settings, prepared.labels
    check_prices(settings)
    price, proposer_price = settings.judge.price, settings.proposer.price
    unit: Unit = "tokens" if price is None else "calls" if price.is_free else "dollars"
    pricing = _pricing(prepared, price, measured, native_n)
    proposal = _proposal_tokens(settings, labels)
    proposer = (proposer_price or pricing.price) if unit == "dollars" else TOKENS
    # A free proposer with a paid judge gets a tiny cost, because the code divides by this cost.
    proposal_cost = 1.0 if unit == "calls" else max(1e-9, proposer.cost(*proposal))
    worst_cost = _worst_proposal(settings, proposer, proposal) if unit == "dollars" else 0.0
    item_cost, n_measured = pricing.untuned_cost, labels.n_measured
    limit = _limit(settings, labels, pricing, unit, (proposal_cost, worst_cost))

    # The cost of judging one item with the most expensive candidate that is allowed.
    affordable_item_cost = MAX_CANDIDATE_SHARE * limit / max(1, len(labels.dev) + n_measured)
    options = _search_options(settings, labels, pricing, affordable_item_cost)
    max_item_cost = item_cost
    if unit != "calls":
        max_item_cost = max(
            MAX_CANDIDATE_RATIO * item_cost, affordable_item_cost if options.max_demos else 0
        )
    reserve = n_measured * (item_cost + max_item_cost)
    n_probes = len(ATTACKS) * min(OUTPUTS_PROBED, len(labels.measured.test))
    n_probes *= settings.probes or (
        is_embedded(settings.lm) and reserve + n_probes * pricing.calls <= limit
    )
    reserve = min(reserve + n_probes * item_cost, limit if unit == "calls" else limit / 2)
    search = SearchBudget(
        limit - reserve,
        unit=unit,
        slack=0 if unit == "calls" else SLACK * limit,
        proposal=proposal_cost,
        proposal_price=None if unit == "calls" else proposer,
    )

    n_judged, price_ratio, n_proposals = _usual_search(settings, labels, search, item_cost)
    tokens = CallTokens(pricing.tokens_in, pricing.tokens_out)
    rows = [
        _spending(SEARCH, n_judged, pricing.calls, tokens, price, price_ratio),
        _spending(TEST, 2 * n_measured, pricing.calls, tokens, price),
        _spending(PROBES, n_probes, pricing.calls, tokens, price),
        _spending(PROPOSALS, n_proposals, 1, proposal, proposer_price),
    ]
    return RunBudget(
        prepared=prepared,
        search=search,
        options=replace(options, max_item_cost=max_item_cost),
        pricing=pricing,
        limit=limit,
        reserve=reserve,
        reserve_calls=(2 * n_measured + n_probes) * pricing.calls,
        rows=_in_order(row for row in rows if row.calls),
        call_seconds=call_seconds,
    )


def _pricing(
    prepared: PreparedRun, price: Price | None, measured: CallTokens | None, native_n: bool | None
) -> Pricing:
    """The cost of judging one item; the arguments are those of `plan_budget`."""
    settings = prepared.settings
    orders = 2 if settings.pairwise else 1
    one_call = gives_n_replies(settings.lm) if native_n is None else native_n
    replies = orders * (settings.samples or 1)
    calls = orders if one_call else replies
    tokens = measured or _tokens_by_length(prepared, calls, replies)
    return Pricing(
        price=price or TOKENS,
        per_call=price is not None and price.is_free,
        tokens_in=tokens.tokens_in,
        tokens_out=tokens.tokens_out,
        calls=calls,
        replies=0 if is_decision(settings.lm) else replies,  # decision models write no text
    )


def _usual_search(
    settings: Settings, labels: Labels, search: SearchBudget, item_cost: float
) -> tuple[float, float, int]:
    """What the searches on both halves usually spend; proposals take at most half of the budget.

    Returns:
        The number of outputs judged, the price of judging one as a multiple of the untuned judge's,
        and the number of proposals.
    """
    n_learned = len(labels.learned)
    if is_embedded(settings.lm):
        return min(2 * n_learned, search.limit / item_cost), 1.0, 0
    n_proposals = 0
    if not is_embedded(settings.proposer.lm):
        n_proposals = min(USUAL_PROPOSALS, int(search.limit / 2 / search.proposal))
    n_judged = (search.limit - n_proposals * search.proposal) / item_cost
    if settings.optimizer != "rank":
        return n_judged, 1.0, n_proposals
    raced = min(1.0, MAX_RACE_DOCUMENTS / len(labels.train.documents)) * len(labels.train)
    n_asked = min(n_learned, 2 * MOST_OUTPUTS)
    usual = USUAL_RACES * raced + (1 + N_FINALISTS) * n_learned + ASKING_COST * n_asked
    price_ratio = min(USUAL_PRICE_RATIO, max(1.0, n_judged / usual))
    return min(usual, n_judged / price_ratio), price_ratio, n_proposals


def _limit(
    settings: Settings, labels: Labels, pricing: Pricing, unit: Unit, proposals: tuple[float, float]
) -> float:
    """What a run may spend, in the unit.

    `proposals` has the expected and the worst cost of a proposal. Raises SettingsError if the
    user's limit is too small to learn anything.
    """
    item_cost, n_all = pricing.untuned_cost, len(labels.everything)
    test_cost = labels.n_measured * item_cost
    smallest, default = test_cost, max(FREE_CALLS, FREE_CALLS_PER_OUTPUT * item_cost * n_all)
    if unit != "calls":
        raced = min(len(labels.train), MAX_RACE_OUTPUTS) * item_cost
        dev_cost = len(labels.dev) * item_cost
        asking_cost = ASKING_COST * min(len(labels.learned), 2 * MOST_OUTPUTS) * item_cost
        proposal, worst = proposals
        smallest = (1 + LEAST_FINALISTS) * (test_cost + dev_cost) + LEAST_RACES * raced
        smallest += LEAST_PROPOSALS * proposal
        default = smallest + DEFAULT_RACES * raced + asking_cost
        # The first proposal is made after the untuned judge was scored. The limit must pay for both
        # and for what is reserved for test, questions and dev (in full, or the largest shares).
        first = worst + FIRST_ROUND_COST * UNTUNED_BUDGET_SHARE * raced
        reserved = (1 + N_FINALISTS * FINALIST_COST) * dev_cost + asking_cost
        share = (1 - ASKING_SHARE) * (1 - DEV_SHARE / 2)
        reserve = (1 + MAX_CANDIDATE_RATIO) * test_cost
        if worst:
            smallest = max(smallest, reserve + min(first + reserved, first / share))
    # Each flag with its value, its worth in the unit after deducting the margin, and its decimals.
    max_cost = settings.max_cost if unit == "dollars" else None
    flags = (
        ("--max-calls", settings.max_calls, (1 - SPARE_CALLS) * item_cost / pricing.calls, 0),
        ("--max-cost", max_cost, 1 - SPARE_COST, 2),
    )
    limits = []
    for flag, value, worth, digits in flags:
        if value is None:
            continue
        if value * worth < smallest:
            needed = math.ceil(smallest / worth * 10**digits) / 10**digits
            raise SettingsError(
                f"{flag} {value:g}: too little to learn anything from {n_all} labels; the smallest "
                f"useful limit is {flag} {needed:g}"
            )
        limits.append(value * worth)
    return min(limits, default=default)


def _search_options(
    settings: Settings, labels: Labels, pricing: Pricing, item_cost: float
) -> SearchOptions:
    """The bounds of a search in which judging one item may cost at most `item_cost`.

    There are no demonstrations if fewer than FEWEST_DEMOS of average length would fit.
    """
    max_demos, longest = PAID_DEMOS, PAID_DEMO_CHARACTERS
    if is_embedded(settings.lm):
        max_demos, longest = FREE_DEMOS, FREE_DEMO_CHARACTERS
    if settings.max_demos is not None:
        max_demos = min(max_demos, settings.max_demos)
    if per_character := pricing.price.per_token_in * pricing.calls / CHARACTERS_PER_TOKEN:
        longest = min(longest, int(max(0.0, item_cost - pricing.untuned_cost) / per_character))
    lengths = [sum(map(len, item.texts.values())) for item in labels.train.items]
    fewest_length = min(FEWEST_DEMOS, max_demos) * sum(lengths) / len(lengths)
    return SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        max_demos=max_demos if longest >= fewest_length else 0,
        longest_demos=longest,
        reasoning=settings.reasoning_to_try,
    )


def _tokens_by_length(prepared: PreparedRun, calls: int, replies: int) -> CallTokens:
    """The untuned judge's tokens for one output, estimated from the length of the texts."""
    judge, train, lm = prepared.untuned_judge, prepared.labels.train, prepared.settings.lm
    if is_embedded(lm):  # its tokens cost nothing
        return CallTokens(0, 0)
    step = max(1, len(train) // ITEMS_SAMPLED)
    lengths = [estimate_tokens(judge.messages(item.texts)) for item in train.items[::step]]
    thoughts = THOUGHT_TOKENS * is_reasoning(lm.rpartition("/")[2])
    tokens_out = reply_tokens(judge.prompt, lm) + thoughts
    return CallTokens(sum(lengths) / len(lengths) * calls, tokens_out * replies)


def measured_tokens(scorer: JudgeItems, prompt: Prompt, train: Items) -> CallTokens:
    """The mean tokens for a judgement with the untuned prompt, measured on a few outputs."""
    step = max(1, len(train) // ITEMS_MEASURED)
    judged = list(scorer(prompt, train.items[::step][:ITEMS_MEASURED]))
    # Some endpoints do not count tokens; at least one is assumed.
    return CallTokens(
        max(1.0, sum(each.tokens_in for each in judged) / len(judged)),
        max(1.0, sum(each.tokens_out for each in judged) / len(judged)),
    )


def _proposal_tokens(settings: Settings, labels: Labels) -> CallTokens:
    """The tokens for one proposal; few replies use more than half of REPLY_TOKENS."""
    lm = settings.proposer.lm
    if is_embedded(lm):  # it makes no proposals
        return CallTokens(0, 0)
    characters = PROPOSER_CHARACTERS + expected_characters(labels.train)
    tokens_out = REPLY_TOKENS / 2 + PROPOSAL_THOUGHT_TOKENS * is_reasoning(lm.rpartition("/")[2])
    return CallTokens(characters / CHARACTERS_PER_TOKEN, tokens_out)


def _worst_proposal(settings: Settings, price: Price, tokens: CallTokens) -> float:
    """The worst cost of a proposal: one token per character of its prompt, the longest reply."""
    lm, max_tokens = settings.proposer.lm, settings.proposer.max_tokens
    if is_embedded(lm):  # it makes no proposals
        return 0.0
    factor = REASONING_FACTOR if is_reasoning(lm.rpartition("/")[2]) else 1
    tokens_in = tokens.tokens_in * CHARACTERS_PER_TOKEN
    return price.cost(tokens_in, max_tokens or factor * REPLY_TOKENS)


def _spending(
    purpose: str,
    number: float,
    calls: int,
    tokens: CallTokens,
    price: Price | None,
    price_ratio: float = 1,
) -> Spending:
    """The expected spending on `number` judgements or proposals; no cost if price is None."""
    tokens_in, tokens_out = (round(number * price_ratio * count) for count in tokens)
    return Spending(
        purpose=purpose,
        calls=round(number * calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=None if price is None else price.cost(tokens_in, tokens_out),
    )


def spending_summary(*accounts: Account) -> RunSpending:
    """What these accounts spent, in total and by purpose."""
    rows = _in_order(row for account in accounts for row in account.spending())
    total = total_spending(rows, "total")
    unconfirmed = round(sum(account.cost_unconfirmed for account in accounts), DIGITS)
    return RunSpending(
        tokens={"in": total.tokens_in, "out": total.tokens_out},
        cost_usd=total.cost_usd,
        cost_unconfirmed_usd=None if total.cost_usd is None else unconfirmed or None,
        spending=rows,
    )


def total_spending(rows: Sequence[Spending], purpose: str) -> Spending:
    """The sum of all rows, as a row with this purpose; its cost is None if a row's cost is."""
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Spending(
        purpose=purpose,
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost_usd=sum(costs) if len(costs) == len(rows) else None,
    )


def _in_order(rows: Iterable[Spending]) -> list[Spending]:
    """Sort rows in the order of PURPOSES; rows with another purpose come last."""
    return sorted(rows, key=lambda row: [*PURPOSES, row.purpose].index(row.purpose))


def _rounded(number: float) -> str:
    """A number with two significant digits, because a plan is not more precise."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _dollars(row: Spending) -> str:
    return "price unknown" if row.cost_usd is None else dollars_text(row.cost_usd)
