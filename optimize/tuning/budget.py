"""The plan of what a run spends: the cost of a judgement times the judgements of each purpose.

The unit is dollars, or tokens where no price is known, or calls where the model is free. Money for
the final measurement is reserved first, and the search spends the rest. Before a run, the cost of a
judgement is estimated from the length of the texts. In a run it is what the first rows have cost.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from optimize.figures.as_json import DIGITS
from optimize.figures.as_text import wrapped
from optimize.inputs.flags import SettingsError
from optimize.items import Items
from optimize.measuring.injection import ATTACKS, OUTPUTS_PROBED
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

# Limits where the user gives none. A free search may make so many calls; a paid one may spend so
# many times what the untuned judge costs on so many outputs.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
DEFAULT_SEARCH, OUTPUTS_RACED = 24, 300
# What both searches usually spend before a round no longer pays: this many judgements of every
# output in a race, each at this multiple of the untuned judge's price, and this many proposals.
USUAL_RACES, USUAL_DEARER, USUAL_PROPOSALS = 25, 2.0, 20
# Assumed seconds of a call and of a proposal, and the average number of calls in flight.
CALL_SECONDS, PROPOSAL_SECONDS, IN_FLIGHT = 1.5, 30, 24
# Upper bounds on demonstrations and on their characters. A free model may show as much as a frozen
# judge can hold.
FREE_DEMOS, FREE_LENGTH = MAX_DEMOS, 3_000_000
PAID_DEMOS, PAID_LENGTH = 64, 120_000
# The smallest useful limit pays for this many finalists on dev and test, this many times the
# outputs of a race, and this many proposals.
FINALISTS_AT_LEAST, LEAST_SEARCH, LEAST_PROPOSALS = 1.5, 3, 4
# Margins for replies that are asked for again, and for prompts longer than estimated.
SPARE_CALLS, SPARE_COST = 0.05, 0.06
# Share of the limit by which a step may exceed its estimate.
SLACK = 0.02
ITEMS_LOOKED_AT = 20
# Characters that a proposer reads beside the texts of the evidence.
PROPOSER_CHARACTERS = 10_000
# Hidden tokens of reasoning models before a reply and before a proposal.
THOUGHT_TOKENS, PROPOSAL_THOUGHT_TOKENS = 400, 1500
# Share of the limit reserved for the costliest candidate on dev and test, which bounds how much a
# candidate may show. If fewer than this many demonstrations fit, none is shown.
DEAREST_SHARE, FEWEST_DEMOS = 0.2, 4
# A candidate may always cost this multiple of the untuned judge, since reasoning in words does.
DEAREST_FACTOR = 4.0
# Relative price of tokens read and written where no price is known.
TOKENS = Price(per_token_in=1.0, per_token_out=4.0)


class CallTokens(NamedTuple):
    """Mean tokens of one judgement, over all of its calls, or of one proposal."""

    tokens_in: float
    tokens_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The plan of a run.

    Attributes:
        search: The part of the limit that the search may spend, and its unit.
        limit: What the whole run may spend, in that unit.
        reserve: What the search leaves for the final measurement, in that unit.
        reserve_calls: The same in calls.
        rows: Expected calls, tokens and dollars by purpose.
        call_seconds: Seconds that a call takes.
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
        """About how long the run takes."""
        proposals = sum(row.calls for row in self.rows if row.purpose == PROPOSALS)
        rounds = proposals / self.options.proposals
        calls = self.planned.calls - proposals
        return (calls / self._in_flight * self.call_seconds + rounds * PROPOSAL_SECONDS) / 60

    @property
    def _in_flight(self) -> int:
        """Expected number of calls in flight."""
        return min(self.prepared.settings.concurrency, IN_FLIGHT)

    @property
    def planned(self) -> Spending:
        return total_spending(self.rows, "expected")

    @property
    def at_most(self) -> float | None:
        """The run's limit in dollars: the user's, else the plan's. None where no price is known."""
        if self.search.unit != "dollars":
            return None
        return self.prepared.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """Calls and dollars to reserve for the final measurement and for `cost` before it."""
        calls = self.reserve_calls + cost / self.pricing.untuned_cost * self.pricing.calls
        return calls, self.reserve + cost if self.search.unit == "dollars" else 0.0

    def lines(self) -> list[str]:
        """The plan as a table by purpose, and the chance that these labels show a gain."""
        limits = [dollars_text(self.at_most)] if self.at_most else []
        if self.prepared.settings.max_calls is not None:
            limits.append(f"{self.prepared.settings.max_calls:,} calls")
        table: list[Sequence[str]] = [("", "calls", "tokens in", "tokens out", "dollars")]
        for row in (*self.rows, self.planned):
            counts = map(_about, (row.calls, row.tokens_in, row.tokens_out))
            table.append((row.purpose, *counts, "free" if row.cost == 0 else _dollars(row)))
        return [
            *(f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells) for name, *cells in table),
            f"at most: {' and '.join(limits) or 'no limit is given (--max-cost, --max-calls)'}",
            *wrapped(*self._expectations(), *self.notes(), self.chance()),
            "A token is taken as four characters. Nothing has been sent or spent.",
        ]

    def heading(self) -> str:
        """The plan on one line."""
        most = f", at most {dollars_text(self.at_most)}" if self.at_most else ""
        calls, dollars = _about(self.planned.calls), _dollars(self.planned)
        return f"planned: about {calls} calls, {self.minutes:.1f} minutes, {dollars}{most}"

    def notes(self) -> Iterator[str]:
        """Yield what can be tuned of a decision model without a proposer."""
        settings, prepared = self.prepared.settings, self.prepared
        if not is_decision(settings.lm) or settings.proposer_lm:
            return
        parts = {
            "questions": bool(candidate_questions(prepared.subject, 1)),
            "demonstrations": self.options.max_demos > 0,
            "the threshold": prepared.goal == "balanced",
        }
        tuned = " and ".join(name for name, is_tuned in parts.items() if is_tuned)
        more = "" if parts["demonstrations"] else " A larger --max-cost pays for demonstrations."
        yield (
            f"{settings.lm} writes no instruction: {tuned or 'nothing'} can be tuned. Name a chat "
            f"model with --proposer-lm for instructions and questions.{more}"
        )

    def _expectations(self) -> Iterator[str]:
        """Yield how long a paid run takes, and when it stops early."""
        if self.search.unit == "calls":
            return
        yield (
            f"It takes about {self.minutes:.1f} minutes, where a call takes {CALL_SECONDS:g} s and "
            f"{self._in_flight} are under way at once."
        )
        if self.prepared.settings.optimizer == "rank":
            yield (
                "The search stops early once a round gains less than the labels can tell from "
                "chance, whatever is left of the limit."
            )

    def chance(self) -> str:
        """The chance that a gain ships with these labels, and how many labels make it likely."""
        prepared, labels = self.prepared, self.prepared.labels
        goal, risk = prepared.goal, prepared.settings.risk
        return chance_of_gain(labels.everything, labels.learned, goal=goal, risk=risk)[0]

    def to_json(self) -> dict[str, Any]:
        """The object that `--dry-run --json` prints."""
        planned, labels = spending_row(self.planned), self.prepared.labels
        counts = {"train": labels.train, "dev": labels.dev, "test": labels.measured["test"]}
        return {
            "documents": {name: len(items.documents) for name, items in counts.items()},
            "chance": self.chance(),
            "calls": {
                "expected": planned["calls"],
                "at_most": self.prepared.settings.max_calls,
            },
            "minutes": round(self.minutes, 1),
            "tokens": {"in": planned["tokens_in"], "out": planned["tokens_out"]},
            "cost_usd": {"expected": planned["cost_usd"], "at_most": self.at_most},
            "spending": [spending_row(row) for row in self.rows],
        }


def plan_budget(
    prepared: PreparedRun,
    measured: CallTokens | None = None,
    native_n: bool | None = None,
    call_seconds: float = CALL_SECONDS,
) -> RunBudget:
    """Plan what a run spends; SettingsError if its limit is too small to learn anything.

    `measured` are the tokens of a judgement, else estimated from the length of the texts, and
    `native_n` is whether n replies are one call, else told by the model's name.
    """
    settings, labels = prepared.settings, prepared.labels
    check_prices(settings)
    price, proposer_price = settings.judge.price, settings.proposer.price
    unit: Unit = "tokens" if price is None else "calls" if price.is_free else "dollars"
    pricing = _pricing(prepared, price, measured, native_n)
    proposal = _proposal_tokens(settings, labels)
    proposer = (proposer_price or pricing.price) if unit == "dollars" else TOKENS
    # A free proposer beside a paid judge costs next to nothing, but costs are divided by.
    proposal_cost = 1.0 if unit == "calls" else max(1e-9, proposer.cost(*proposal))
    worst_cost = _worst_proposal(settings, proposer, proposal) if unit == "dollars" else 0.0
    item_cost, n_measured = pricing.untuned_cost, sum(map(len, labels.measured.values()))
    limit = _limit(settings, labels, pricing, unit, (proposal_cost, worst_cost))

    # What an item may cost with the costliest candidate.
    affordable = DEAREST_SHARE * limit / max(1, len(labels.dev) + n_measured)
    options = _search_options(settings, labels, pricing, affordable)
    dearest = item_cost
    if unit != "calls":
        dearest = max(DEAREST_FACTOR * item_cost, affordable if options.max_demos else 0)
    reserve = n_measured * (item_cost + dearest)
    n_probes = len(ATTACKS) * min(OUTPUTS_PROBED, len(labels.measured.get("test", ())))
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
        options=replace(options, max_item_cost=dearest),
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
    """What a judgement with the untuned judge takes; arguments as of `plan_budget`."""
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
        replies=0 if is_decision(settings.lm) else replies,  # which have no text
    )


def _usual_search(
    settings: Settings, labels: Labels, search: SearchBudget, item_cost: float
) -> tuple[float, float, int]:
    """How many outputs a search usually judges, at which price beside the untuned, and proposals.

    Both halves of the labels are searched on. Proposals take no more than half of the money.
    """
    n_learned = len(labels.learned)
    if is_embedded(settings.lm):
        return min(2 * n_learned, search.limit / item_cost), 1.0, 0
    n_proposals = 0
    if not is_embedded(settings.proposer.lm):  # which writes none
        n_proposals = min(USUAL_PROPOSALS, int(search.limit / 2 / search.proposal))
    n_judged = (search.limit - n_proposals * search.proposal) / item_cost
    if settings.optimizer != "rank":
        return n_judged, 1.0, n_proposals
    raced = min(1.0, MAX_RACE_DOCUMENTS / len(labels.train.documents)) * len(labels.train)
    n_asked = min(n_learned, 2 * MOST_OUTPUTS)
    usual = USUAL_RACES * raced + (1 + N_FINALISTS) * n_learned + ASKING_COST * n_asked
    price_ratio = min(USUAL_DEARER, max(1.0, n_judged / usual))
    return min(usual, n_judged / price_ratio), price_ratio, n_proposals


def _limit(
    settings: Settings, labels: Labels, pricing: Pricing, unit: Unit, proposals: tuple[float, float]
) -> float:
    """What a run may spend, in the unit; SettingsError where that is too little to learn from.

    `proposals` is what a proposal costs as a rule, and at worst.
    """
    item_cost, n_all = pricing.untuned_cost, len(labels.everything)
    test_cost = sum(map(len, labels.measured.values())) * item_cost
    least, default = test_cost, max(FREE_CALLS, FREE_CALLS_PER_OUTPUT * item_cost * n_all)
    if unit != "calls":
        raced = min(len(labels.train), OUTPUTS_RACED) * item_cost
        dev_cost = len(labels.dev) * item_cost
        asking = ASKING_COST * min(len(labels.learned), 2 * MOST_OUTPUTS) * item_cost
        proposal, worst = proposals
        least = (1 + FINALISTS_AT_LEAST) * (test_cost + dev_cost) + LEAST_SEARCH * raced
        least += LEAST_PROPOSALS * proposal
        default = least + DEFAULT_SEARCH * raced + asking
        # The first proposal is made after the untuned judge's race, and beside what is reserved
        # for test, for questions and for dev: all of that, or the largest shares of the rest.
        first = worst + FIRST_ROUND_COST * UNTUNED_BUDGET_SHARE * raced
        reserved = (1 + N_FINALISTS * FINALIST_COST) * dev_cost + asking
        share = (1 - ASKING_SHARE) * (1 - DEV_SHARE / 2)
        reserve = (1 + DEAREST_FACTOR) * test_cost
        least = max(least, reserve + min(first + reserved, first / share)) if worst else least
    # Of each flag its value, what one of it buys in the unit less the margin, and its decimals.
    max_cost = settings.max_cost if unit == "dollars" else None
    flags = (
        ("--max-calls", settings.max_calls, (1 - SPARE_CALLS) * item_cost / pricing.calls, 0),
        ("--max-cost", max_cost, 1 - SPARE_COST, 2),
    )
    limits = []
    for flag, most, worth, digits in flags:
        if most is None:
            continue
        if most * worth < least:
            smallest = math.ceil(least / worth * 10**digits) / 10**digits
            raise SettingsError(
                f"{flag} {most:g}: too little to learn anything from {n_all} labels; the smallest "
                f"that can is {flag} {smallest:g}"
            )
        limits.append(most * worth)
    return min(limits, default=default)


def _search_options(
    settings: Settings, labels: Labels, pricing: Pricing, item_cost: float
) -> SearchOptions:
    """How wide a search may be where a judgement may cost at most `item_cost`.

    No demonstrations are shown where fewer than FEWEST_DEMOS of average length fit.
    """
    free = is_embedded(settings.lm)
    most, longest = (FREE_DEMOS, FREE_LENGTH) if free else (PAID_DEMOS, PAID_LENGTH)
    if settings.max_demos is not None:
        most = min(most, settings.max_demos)
    if per_character := pricing.price.per_token_in * pricing.calls / CHARACTERS_PER_TOKEN:
        longest = min(longest, int(max(0.0, item_cost - pricing.untuned_cost) / per_character))
    lengths = [sum(map(len, item.texts.values())) for item in labels.train.items]
    smallest = min(FEWEST_DEMOS, most) * sum(lengths) / len(lengths)
    return SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        max_demos=most if longest >= smallest else 0,
        longest_demos=longest,
        reasoning=settings.reasoning_to_try,
    )


def _tokens_by_length(prepared: PreparedRun, calls: int, replies: int) -> CallTokens:
    """Tokens that the untuned judge takes for an output, estimated from the length of the texts."""
    judge, train, lm = prepared.untuned_judge, prepared.labels.train, prepared.settings.lm
    if is_embedded(lm):  # which sends none
        return CallTokens(0, 0)
    step = max(1, len(train) // ITEMS_LOOKED_AT)
    lengths = [estimate_tokens(judge.messages(item.texts)) for item in train.items[::step]]
    thoughts = THOUGHT_TOKENS * is_reasoning(lm.rpartition("/")[2])
    tokens_out = reply_tokens(judge.prompt, lm) + thoughts
    return CallTokens(sum(lengths) / len(lengths) * calls, tokens_out * replies)


def measured_tokens(scorer: JudgeItems, prompt: Prompt, train: Items) -> CallTokens:
    """Mean tokens of a judgement with the untuned prompt, measured on a few outputs of train."""
    step = max(1, len(train) // ITEMS_MEASURED)
    judged = list(scorer(prompt, train.items[::step][:ITEMS_MEASURED]))
    # At least one token, also where an endpoint does not count them.
    return CallTokens(
        max(1.0, sum(one.tokens_in for one in judged) / len(judged)),
        max(1.0, sum(one.tokens_out for one in judged) / len(judged)),
    )


def _proposal_tokens(settings: Settings, labels: Labels) -> CallTokens:
    """Tokens of one proposal; few replies use more than half of their limit."""
    lm = settings.proposer.lm
    if is_embedded(lm):  # which writes none
        return CallTokens(0, 0)
    characters = PROPOSER_CHARACTERS + expected_characters(labels.train)
    tokens_out = REPLY_TOKENS / 2 + PROPOSAL_THOUGHT_TOKENS * is_reasoning(lm.rpartition("/")[2])
    return CallTokens(characters / CHARACTERS_PER_TOKEN, tokens_out)


def _worst_proposal(settings: Settings, price: Price, tokens: CallTokens) -> float:
    """What a proposal may cost: every character of its prompt a token, and the whole reply."""
    lm, max_tokens = settings.proposer.lm, settings.proposer.max_tokens
    if is_embedded(lm):  # which writes none
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
    """Expected spending on `number` judgements or proposals; its cost is None without a price."""
    tokens_in, tokens_out = (round(number * price_ratio * each) for each in tokens)
    return Spending(
        purpose=purpose,
        calls=round(number * calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=None if price is None else price.cost(tokens_in, tokens_out),
    )


def spending_summary(*accounts: Account) -> dict[str, Any]:
    """Tokens and dollars for summary.json, in all and by purpose.

    Dollars are at list price, and None where a model's price is unknown. They include the most that
    requests without an answer may have cost; `cost_unconfirmed_usd` states it where there are any.
    """
    spending = _in_order(row for account in accounts for row in account.spending())
    rows = [spending_row(row) for row in spending]
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    cost = round(sum(costs), DIGITS) if len(costs) == len(rows) else None
    tokens = {side: sum(row[f"tokens_{side}"] for row in rows) for side in ("in", "out")}
    summary = {"tokens": tokens, "cost_usd": cost}
    unconfirmed = round(sum(account.cost_unconfirmed for account in accounts), DIGITS)
    if cost is not None and unconfirmed > 0:
        summary["cost_unconfirmed_usd"] = unconfirmed
    return {**summary, "spending": rows}


def spending_row(row: Spending) -> dict[str, Any]:
    """The row as JSON has it."""
    cost = None if row.cost is None else round(row.cost, DIGITS)
    counts = {"calls": row.calls, "tokens_in": row.tokens_in, "tokens_out": row.tokens_out}
    return {"purpose": row.purpose or "unknown", **counts, "cost_usd": cost}


def total_spending(rows: Sequence[Spending], name: str) -> Spending:
    """The sum of all rows; its cost is None where a row's is."""
    costs = [row.cost for row in rows if row.cost is not None]
    return Spending(
        purpose=name,
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost=sum(costs) if len(costs) == len(rows) else None,
    )


def _in_order(rows: Iterable[Spending]) -> list[Spending]:
    """Sort rows by purpose; those without a known one come last."""
    return sorted(rows, key=lambda row: [*PURPOSES, row.purpose].index(row.purpose))


def _about(number: float) -> str:
    """A number with two significant digits, since a plan is no more precise."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _dollars(row: Spending) -> str:
    return "price unknown" if row.cost is None else dollars_text(row.cost)
