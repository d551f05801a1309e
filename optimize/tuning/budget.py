"""Plan what a tuning run spends: the cost of a judgement times the number of judgements.

The unit of cost is dollars; tokens if the judge's price is unknown; calls if the judge's model is
free. The cost of the final measurement is reserved first, and the search may spend what remains.
Before a run, the cost of a judgement is estimated from the length of the labelled texts; at the
start of a run, it is measured on a few rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges.catalog import candidate_questions
from judges.client import (
    CHARACTERS_PER_TOKEN,
    Account,
    Price,
    Spending,
    estimate_tokens,
    gives_n_replies,
)
from judges.prompt import MAX_DEMOS
from judges.protocol import REASONING_FACTOR, is_decision, is_embedded, is_reasoning
from judges.scoring import reply_tokens
from judges.terminal import dollars_text
from optimize.figures.as_json import DIGITS, JsonObject, to_json
from optimize.figures.as_text import wrapped
from optimize.inputs.flags import SettingsError
from optimize.measuring.injection import ATTACKS, OUTPUTS_PROBED
from optimize.measuring.tuning_result import RunSpending
from optimize.search.evaluator import (
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
from optimize.search.race import MAX_RACE_DOCUMENTS
from optimize.search.rank_search import (
    DEV_SHARE,
    FINALIST_COST,
    FIRST_ROUND_COST,
    UNTUNED_BUDGET_SHARE,
)
from optimize.tuning.models import PROBES, PROPOSALS, PURPOSES, SEARCH, TEST
from optimize.tuning.preparation import Labels, PreparedRun
from optimize.tuning.settings import Settings

# The default limit of a run with a free model, in calls: FREE_CALLS, or FREE_CALLS_PER_OUTPUT times
# the number of labelled outputs if that is larger.
FREE_CALLS, FREE_CALLS_PER_OUTPUT = 20_000, 4
# The default limit of a run with a paid model lets the search judge train this many times at the
# untuned judge's cost; outputs of train beyond MAX_RACE_OUTPUTS are not counted.
DEFAULT_RACES, MAX_RACE_OUTPUTS = 24, 300
# The usual amount of work in a search: how often each output of train is judged to compare
# candidates, the cost of such a judgement divided by the untuned judge's, and the number of
# proposals.
USUAL_RACES, USUAL_PRICE_RATIO, USUAL_PROPOSALS = 25, 2.0, 20
# The assumed duration of a call and of a proposal in seconds, and the largest average number of
# calls in flight.
CALL_SECONDS, PROPOSAL_SECONDS, IN_FLIGHT = 1.5, 30, 24
# Upper bounds on the number of demonstrations and on their characters in total, for the embedded
# model and for all other models. The embedded model is only bounded as a frozen judge is.
FREE_DEMOS, FREE_DEMO_CHARACTERS = MAX_DEMOS, 3_000_000
PAID_DEMOS, PAID_DEMO_CHARACTERS = 64, 120_000
# The smallest useful limit pays for judging dev and test with this many finalists, for judging
# train this many times, and for this many proposals.
LEAST_FINALISTS, LEAST_RACES, LEAST_PROPOSALS = 1.5, 3, 4
# The share of --max-calls that is kept for repeating calls whose replies could not be read, and the
# share of --max-cost that is kept for prompts that are longer than estimated.
SPARE_CALLS, SPARE_COST = 0.05, 0.06
# A step of the search may cost this share of the limit more than was estimated for it.
SLACK = 0.02
# The number of labelled outputs from which the average length of a prompt is estimated.
ITEMS_SAMPLED = 20
# The length of a proposer's prompt in characters, without the labelled texts that it quotes.
PROPOSER_CHARACTERS = 10_000
# The assumed number of reasoning tokens that a reasoning model writes before a judge's reply, and
# before a proposal.
THOUGHT_TOKENS, PROPOSAL_THOUGHT_TOKENS = 400, 1500
# Judging dev and test with any candidate may cost this share of the limit, which bounds the
# candidate's demonstrations. If fewer than FEWEST_DEMOS fit, prompts get no demonstrations.
MAX_CANDIDATE_SHARE, FEWEST_DEMOS = 0.2, 4
# A candidate may always cost this many times as much as the untuned judge, so that the search can
# try candidates that write their reasoning.
MAX_CANDIDATE_RATIO = 4.0
# The assumed prices of input and output tokens, relative to each other, if no price is known.
TOKENS = Price(per_token_in=1.0, per_token_out=4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may spend, and what it is expected to spend. The unit of costs is `search.unit`.

    The whole run may spend `limit`. The cost `reserve`, and the number of calls `reserve_calls`,
    are reserved for the final measurement. `rows` has the expected spending for each purpose, and
    `call_seconds` is the expected duration of a call.
    """

    prepared: PreparedRun
    search: SearchBudget
    options: SearchOptions
    pricing: Pricing
    limit: float
    reserve: float
    reserve_calls: int
    rows: Sequence[Spending]
    call_seconds: float

    @property
    def minutes(self) -> float:
        """The expected duration of the run in minutes."""
        n_proposals = sum(row.calls for row in self.rows if row.purpose == PROPOSALS)
        judge_seconds = (self.expected.calls - n_proposals) / self._in_flight * self.call_seconds
        return (judge_seconds + n_proposals / self.options.proposals * PROPOSAL_SECONDS) / 60

    @property
    def _in_flight(self) -> int:
        """The expected average number of calls in flight."""
        return min(self.prepared.settings.concurrency, IN_FLIGHT)

    @property
    def expected(self) -> Spending:
        return total_spending(self.rows, "expected")

    @property
    def limit_in_dollars(self) -> float | None:
        """The user's limit in dollars, else the planned limit; None if costs are not in dollars."""
        if self.search.unit != "dollars":
            return None
        return self.prepared.settings.max_cost or round(self.limit, 2)

    def reservation(self, cost: float) -> tuple[float, float]:
        """The calls and dollars to reserve for the final measurement and for `cost` in a search."""
        calls = self.reserve_calls + cost / self.pricing.untuned_cost * self.pricing.calls
        return calls, self.reserve + cost if self.search.unit == "dollars" else 0.0

    def lines(self) -> list[str]:
        """The plan as lines for a terminal: a table of expected spending, and notes on the run."""
        limits = [dollars_text(self.limit_in_dollars)] if self.limit_in_dollars else []
        if self.prepared.settings.max_calls is not None:
            limits.append(f"{self.prepared.settings.max_calls:,} calls")
        table: list[Sequence[str]] = [("", "calls", "tokens in", "tokens out", "dollars")]
        for row in (*self.rows, self.expected):
            counts = map(_rounded, (row.calls, row.tokens_in, row.tokens_out))
            table.append((row.purpose, *counts, "free" if row.cost_usd == 0 else _dollars(row)))
        sentences = []
        if self.search.unit != "calls":
            sentences.append(
                f"It takes about {self.minutes:.1f} minutes if a call takes {self.call_seconds:g} "
                f"s and {self._in_flight} calls are in flight."
            )
        return [
            *(
                f"{name:<12}" + "".join(f"{cell:>14}" for cell in row_cells)
                for name, *row_cells in table
            ),
            f"at most: {' and '.join(limits) or 'no limit is given (--max-cost, --max-calls)'}",
            *wrapped(*sentences, *self.notes(), self.chance()),
            "One token is assumed per four characters. Nothing has been sent or spent.",
        ]

    def heading(self) -> str:
        """The plan as one line for a terminal."""
        limit_in_dollars = self.limit_in_dollars
        limit_text = f", at most {dollars_text(limit_in_dollars)}" if limit_in_dollars else ""
        calls, dollars = _rounded(self.expected.calls), _dollars(self.expected)
        return f"planned: about {calls} calls, {self.minutes:.1f} minutes, {dollars}{limit_text}"

    def notes(self) -> list[str]:
        """A note on what can be tuned if the judge is a decision model without a proposer."""
        settings, prepared = self.prepared.settings, self.prepared
        if not is_decision(settings.lm) or settings.proposer_lm:
            return []
        tunable = {
            "questions": bool(candidate_questions(prepared.subject, 1)),
            "demonstrations": self.options.max_demos > 0,
            "the threshold": prepared.goal == "balanced",
        }
        tuned = " and ".join(name for name, can_tune in tunable.items() if can_tune)
        return [
            f"{settings.lm} writes no instruction: {tuned or 'nothing'} can be tuned. Name a chat "
            "model with --proposer-lm for instructions and questions."
        ]

    def chance(self) -> str:
        """A sentence on how likely a better judge is to ship with this many labelled documents."""
        prepared, labels = self.prepared, self.prepared.labels
        goal, risk = prepared.goal, prepared.settings.risk
        return chance_of_gain(labels.everything, labels.learned, goal=goal, risk=risk)[0]

    def to_json(self) -> JsonObject:
        """The JSON object that `--dry-run --json` prints."""
        expected, labels = self.expected, self.prepared.labels
        cost = expected.cost_usd and round(expected.cost_usd, DIGITS)
        splits = {"train": labels.train, "dev": labels.dev, "test": labels.measured.test}
        return {
            "documents": {name: len(items.documents) for name, items in splits.items()},
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
    native_n: bool | None = None,
    measured: tuple[float, float] | None = None,
    call_seconds: float = CALL_SECONDS,
) -> RunBudget:
    """Plan what a tuning run spends.

    `native_n` says whether the judge's model gives n replies to one call; by default, its name
    decides. `measured` are the input and output tokens for a judgement; by default, they are
    estimated from the length of the labelled texts. Raises SettingsError if the user's limit is too
    small to learn anything from the labels.
    """
    settings, labels = prepared.settings, prepared.labels
    price, proposer_price = settings.judge.price, settings.proposer.price
    pricing = _pricing(prepared, native_n, measured)
    item_cost, n_measured = pricing.untuned_cost, labels.n_measured
    proposal_tokens, most_proposal_tokens = _proposal_tokens(settings, labels)
    unit: Unit
    if price is not None and price.is_free:
        unit, proposal_price, proposal_cost, worst_cost = "calls", None, 1.0, 0.0
        most_reserved, slack, max_ratio = 1.0, 0.0, 1.0
    else:
        unit = "tokens" if price is None else "dollars"
        proposal_price = TOKENS if price is None else proposer_price or price
        # If a free proposer is used with a paid judge, a proposal gets a tiny cost instead of 0,
        # because the search divides by the cost of a proposal.
        proposal_cost = max(1e-9, proposal_price.cost(*proposal_tokens))
        worst_cost = proposal_price.cost(*most_proposal_tokens) if price else 0.0
        most_reserved, slack, max_ratio = 0.5, SLACK, MAX_CANDIDATE_RATIO
    limit = _limit(settings, labels, pricing, unit, (proposal_cost, worst_cost))

    # What judging one item may cost if dev and test are to fit into their share of the limit.
    affordable_item_cost = MAX_CANDIDATE_SHARE * limit / max(1, len(labels.dev) + n_measured)
    options = _search_options(settings, labels, pricing, affordable_item_cost)
    max_item_cost = max_ratio * item_cost
    if options.max_demos and unit != "calls":
        max_item_cost = max(max_item_cost, affordable_item_cost)
    reserve = n_measured * (item_cost + max_item_cost)
    n_probes = len(ATTACKS) * min(OUTPUTS_PROBED, len(labels.measured.test))
    n_probes *= settings.probes or (
        is_embedded(settings.lm) and reserve + n_probes * pricing.calls <= limit
    )
    reserve = min(reserve + n_probes * item_cost, most_reserved * limit)
    search = SearchBudget(
        limit - reserve,
        unit=unit,
        slack=slack * limit,
        proposal=proposal_cost,
        proposal_price=proposal_price,
    )

    n_judged, price_ratio, n_proposals = _usual_search(settings, labels, search, item_cost)
    tokens = pricing.tokens_in, pricing.tokens_out
    search_tokens = price_ratio * pricing.tokens_in, price_ratio * pricing.tokens_out
    rows = [
        _spending(SEARCH, n_judged, pricing.calls, search_tokens, price),
        _spending(PROPOSALS, n_proposals, 1, proposal_tokens, proposer_price),
        _spending(TEST, 2 * n_measured, pricing.calls, tokens, price),
        _spending(PROBES, n_probes, pricing.calls, tokens, price),
    ]
    return RunBudget(
        prepared=prepared,
        search=search,
        options=replace(options, max_item_cost=max_item_cost),
        pricing=pricing,
        limit=limit,
        reserve=reserve,
        reserve_calls=(2 * n_measured + n_probes) * pricing.calls,
        rows=[row for row in rows if row.calls],
        call_seconds=call_seconds,
    )


def _pricing(
    prepared: PreparedRun, native_n: bool | None, measured: tuple[float, float] | None
) -> Pricing:
    """The cost of judging one item; for `native_n` and `measured`, see `plan_budget`."""
    settings, lm, price = prepared.settings, prepared.settings.lm, prepared.settings.judge.price
    n_orders = 2 if settings.pairwise else 1
    n_replies = n_orders * (settings.samples or 1)
    one_call_per_order = gives_n_replies(lm) if native_n is None else native_n
    n_calls = n_orders if one_call_per_order else n_replies
    tokens_in, tokens_out = measured or _tokens_by_length(prepared, n_calls, n_replies)
    return Pricing(
        price=price or TOKENS,
        per_call=price is not None and price.is_free,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        calls=n_calls,
        replies=0 if is_decision(lm) else n_replies,  # decision models write no text
    )


def _usual_search(
    settings: Settings, labels: Labels, search: SearchBudget, item_cost: float
) -> tuple[float, float, int]:
    """What a search usually does within its budget, of which proposals take at most half.

    Returns the number of outputs judged, the cost of judging one of them divided by the untuned
    judge's cost, and the number of proposals.
    """
    n_learned = len(labels.learned)
    if is_embedded(settings.lm):
        return min(2 * n_learned, search.limit / item_cost), 1.0, 0
    n_proposals = 0
    if not is_embedded(settings.proposer.lm):
        n_proposals = min(USUAL_PROPOSALS, int(search.limit / 2 / search.proposal))
    n_affordable = (search.limit - n_proposals * search.proposal) / item_cost
    if settings.optimizer != "rank":
        return n_affordable, 1.0, n_proposals
    n_raced = min(1.0, MAX_RACE_DOCUMENTS / len(labels.train.documents)) * len(labels.train)
    n_for_questions = min(n_learned, 2 * MOST_OUTPUTS)
    n_judged_usually = (
        USUAL_RACES * n_raced + (1 + N_FINALISTS) * n_learned + ASKING_COST * n_for_questions
    )
    price_ratio = min(USUAL_PRICE_RATIO, max(1.0, n_affordable / n_judged_usually))
    return min(n_judged_usually, n_affordable / price_ratio), price_ratio, n_proposals


def _limit(
    settings: Settings,
    labels: Labels,
    pricing: Pricing,
    unit: Unit,
    proposal_costs: tuple[float, float],
) -> float:
    """What a run may spend, in this unit: the user's limit, else the default limit.

    `proposal_costs` has the expected and the largest possible cost of a proposal. Raises
    SettingsError if the user's limit is too small to learn anything from the labels.
    """
    item_cost, n_labels = pricing.untuned_cost, len(labels.everything)
    test_cost = labels.n_measured * item_cost
    smallest_limit = test_cost
    default_limit = max(FREE_CALLS, FREE_CALLS_PER_OUTPUT * item_cost * n_labels)
    if unit != "calls":
        race_cost = min(len(labels.train), MAX_RACE_OUTPUTS) * item_cost
        dev_cost = len(labels.dev) * item_cost
        asking_cost = ASKING_COST * min(len(labels.learned), 2 * MOST_OUTPUTS) * item_cost
        proposal_cost, worst_proposal_cost = proposal_costs
        smallest_limit = (1 + LEAST_FINALISTS) * (test_cost + dev_cost) + LEAST_RACES * race_cost
        smallest_limit += LEAST_PROPOSALS * proposal_cost
        default_limit = smallest_limit + DEFAULT_RACES * race_cost + asking_cost
        # Before the first proposal, the untuned judge is scored. The limit must pay for this score,
        # for the proposal, and for what the search then reserves for test, questions and dev: their
        # full cost, or the largest shares of the budget that they may take.
        first_cost = worst_proposal_cost + FIRST_ROUND_COST * UNTUNED_BUDGET_SHARE * race_cost
        later_cost = (1 + N_FINALISTS * FINALIST_COST) * dev_cost + asking_cost
        first_share = (1 - ASKING_SHARE) * (1 - DEV_SHARE / 2)
        test_reserve = (1 + MAX_CANDIDATE_RATIO) * test_cost
        if worst_proposal_cost:
            smallest_limit = max(
                smallest_limit,
                test_reserve + min(first_cost + later_cost, first_cost / first_share),
            )
    # For each flag: its name, the user's value, how much of the limit (in `unit`) one call or
    # dollar pays for once the spare part is set aside, and the decimals of the value in a message.
    max_cost = settings.max_cost if unit == "dollars" else None
    flags = (
        ("--max-calls", settings.max_calls, (1 - SPARE_CALLS) * item_cost / pricing.calls, 0),
        ("--max-cost", max_cost, 1 - SPARE_COST, 2),
    )
    limits = []
    for flag, value, worth_per_unit, digits in flags:
        if value is None:
            continue
        if value * worth_per_unit < smallest_limit:
            needed = math.ceil(smallest_limit / worth_per_unit * 10**digits) / 10**digits
            raise SettingsError(
                f"{flag} {value:g}: too little to learn anything from {n_labels} labels; the "
                f"smallest useful limit is {flag} {needed:g}"
            )
        limits.append(value * worth_per_unit)
    return min(limits, default=default_limit)


def _search_options(
    settings: Settings, labels: Labels, pricing: Pricing, item_cost: float
) -> SearchOptions:
    """The options of a search in which judging one item may cost at most `item_cost`.

    Prompts get no demonstrations if fewer than FEWEST_DEMOS of average length would fit.
    """
    max_demos, max_demo_characters = PAID_DEMOS, PAID_DEMO_CHARACTERS
    if is_embedded(settings.lm):
        max_demos, max_demo_characters = FREE_DEMOS, FREE_DEMO_CHARACTERS
    if settings.max_demos is not None:
        max_demos = min(max_demos, settings.max_demos)
    if per_character := pricing.price.per_token_in * pricing.calls / CHARACTERS_PER_TOKEN:
        max_demo_characters = min(
            max_demo_characters, int(max(0.0, item_cost - pricing.untuned_cost) / per_character)
        )
    item_lengths = [sum(map(len, item.texts.values())) for item in labels.train.items]
    needed_characters = min(FEWEST_DEMOS, max_demos) * sum(item_lengths) / len(item_lengths)
    return SearchOptions(
        seed=settings.seed,
        risk=settings.risk,
        max_demos=max_demos if max_demo_characters >= needed_characters else 0,
        longest_demos=max_demo_characters,
        reasoning=settings.reasoning_to_try,
    )


def _tokens_by_length(prepared: PreparedRun, n_calls: int, n_replies: int) -> tuple[float, float]:
    """The untuned judge's tokens for one output, estimated from the length of its prompts."""
    judge, train, lm = prepared.untuned_judge, prepared.labels.train, prepared.settings.lm
    if is_embedded(lm):  # its tokens cost nothing
        return 0, 0
    stride = max(1, len(train) // ITEMS_SAMPLED)
    prompt_tokens = [estimate_tokens(judge.messages(item.texts)) for item in train.items[::stride]]
    tokens_out = reply_tokens(judge.prompt, lm) + THOUGHT_TOKENS * _reasons(lm)
    return sum(prompt_tokens) / len(prompt_tokens) * n_calls, tokens_out * n_replies


def _proposal_tokens(
    settings: Settings, labels: Labels
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The expected and the largest numbers of tokens in a proposal's prompt and in its reply.

    The reply usually has half of REPLY_TOKENS or less. A prompt has at most a token for each
    character.
    """
    lm, max_tokens = settings.proposer.lm, settings.proposer.max_tokens
    if is_embedded(lm):  # the embedded model writes no proposals
        return (0, 0), (0, 0)
    n_characters = PROPOSER_CHARACTERS + expected_characters(labels.train)
    tokens_out = REPLY_TOKENS / 2 + PROPOSAL_THOUGHT_TOKENS * _reasons(lm)
    most_tokens_out = max_tokens or REPLY_TOKENS * (REASONING_FACTOR if _reasons(lm) else 1)
    return (n_characters / CHARACTERS_PER_TOKEN, tokens_out), (n_characters, most_tokens_out)


def _reasons(lm: str) -> bool:
    return is_reasoning(lm.rpartition("/")[2])


def _spending(
    purpose: str,
    number: float,
    calls: int,
    tokens: tuple[float, float],
    price: Price | None,
) -> Spending:
    """The expected spending for a number of judgements or proposals."""
    tokens_in, tokens_out = (round(number * count) for count in tokens)
    return Spending(
        purpose=purpose,
        calls=round(number * calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=None if price is None else price.cost(tokens_in, tokens_out),
    )


def spending_summary(*accounts: Account) -> RunSpending:
    """What the models of these accounts spent, in total and by purpose."""
    rows = [row for account in accounts for row in account.spending()]
    rows.sort(key=lambda row: [*PURPOSES, row.purpose].index(row.purpose))
    total = total_spending(rows, "total")
    cost_unconfirmed = round(sum(account.cost_unconfirmed for account in accounts), DIGITS)
    return RunSpending(
        tokens={"in": total.tokens_in, "out": total.tokens_out},
        cost_usd=total.cost_usd,
        cost_unconfirmed_usd=None if total.cost_usd is None else cost_unconfirmed or None,
        spending=rows,
    )


def total_spending(rows: Sequence[Spending], purpose: str) -> Spending:
    """The sum of all rows, under this purpose; its cost is None if the cost of a row is unknown."""
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Spending(
        purpose=purpose,
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost_usd=sum(costs) if len(costs) == len(rows) else None,
    )


def _rounded(number: float) -> str:
    """The number rounded to two significant digits, because a plan is not more precise."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _dollars(row: Spending) -> str:
    return "price unknown" if row.cost_usd is None else dollars_text(row.cost_usd)
