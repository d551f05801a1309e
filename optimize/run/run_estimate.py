"""What a run will take, said before it asks anything: calls, tokens, dollars and time, by purpose.

A search may end early, and how much its candidates show is known only as it goes on; so there is a
least and a most beside what is expected.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from judges.inference.budget import Spending
from judges.inference.progress import dollars_text, duration_text
from judges.judge import Judge
from judges.models.dialect import is_reasoning
from judges.models.prices import CHARACTERS_PER_TOKEN, Price
from judges.prompt import with_reasoning
from judges.protocol import is_embedded
from judges.scoring import reply_tokens
from optimize.injection import ATTACKS, OUTPUTS_PROBED
from optimize.run.labels import Labels, PreparedRun
from optimize.run.models import DEV, PROBES, PROPOSALS, PURPOSES, SEARCH, SEED, TEST
from optimize.run.run_budget import CallTokens, RunBudget, estimated_tokens, proposal_tokens
from optimize.run.settings import Settings
from optimize.run.spending import rounded, spending_row, total_spending
from optimize.search.evaluator import Pricing
from optimize.search.gate import fewest_documents
from optimize.search.priced_search import (
    INSTRUCTIONS_PER_REASONING,
    REASONING_ROUND,
    SearchPlan,
    plan_search,
)
from optimize.search.problem import SearchOptions

# A free race of all candidates on all of train takes this share of those calls, since most
# candidates leave it early.
FREE_RACE_SHARE = 0.4
# Beside newly proposed ones, so many candidates usually race in a round that costs money:
# demonstrations, forms of reasoning, crosses, and the best so far without demonstrations.
CANDIDATES_BESIDE_PROPOSALS = 5
# A token is not quite four characters, and some replies are asked for again.
ESTIMATE_MARGIN = 1.1
# Seconds a request takes: the embedded model, an endpoint, and a model that thinks first.
EMBEDDED_SECONDS, ENDPOINT_SECONDS, THINKING_SECONDS = (0.001, 0.02), (0.5, 3.0), (3.0, 20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What a run is expected to take.

    `rows` are what is expected by purpose, `low` and `high` all of a run that ends early and of one
    that goes on for as long as it may. `seconds` are the least and the most, at `seconds_per_call`
    and so many requests at once. `planned_cost` is in US dollars, what the run keeps to where no
    limit is given (None: nothing is paid, or the price is unknown). `documents` counts them by
    split.
    """

    rows: Sequence[Spending]
    low: Spending
    high: Spending
    seconds: tuple[float, float]
    seconds_per_call: tuple[float, float]
    concurrency: int
    max_calls: int | None
    max_cost: float | None
    planned_cost: float | None
    documents: Mapping[str, int]
    fewest_documents: int

    @property
    def expected(self) -> Spending:
        return total_spending(self.rows)

    def calls_left(self, spent: Sequence[Spending], purpose: str) -> int:
        """Calls expected from now on, where so much is spent and `purpose` is what is served."""
        calls = {row.purpose: row.calls for row in spent}
        # The search serves its three purposes in turn.
        searching = purpose not in PURPOSES or purpose in (SEED, SEARCH, PROPOSALS)
        over = () if searching else PURPOSES[: PURPOSES.index(purpose)]
        return sum(
            max(0, row.calls - calls.get(row.purpose, 0))
            for row in self.rows
            if row.purpose not in over
        )

    def summary_lines(self) -> Iterator[str]:
        """Yield what is expected and its limit, and how many documents do what."""
        expected = self.expected
        text = f"expected: about {_about(expected.calls)} calls"
        if self.max_calls is not None:
            text += f" of at most {self.max_calls:,}"
        text += f" in {_seconds_text(self.seconds)}"
        if expected.cost is None:
            text += f", {_about(expected.tokens_in)} tokens in, price unknown"
        elif expected.cost:
            ends = " to ".join(dollars_text(row.cost or 0.0) for row in (self.low, self.high))
            text += f", {dollars_text(expected.cost)} ({ends})"
        if self.max_cost is not None:
            text += f" of {dollars_text(self.max_cost)}"
        yield text
        if self.max_cost is None and self.max_calls is None:
            yield f"limit: {self._limit_text()}"
        yield f"documents: {self.documents_text()}"

    def documents_text(self) -> str:
        """How many documents do what."""
        counts = self.documents
        text = f"{counts['train']} teach, {counts['dev']} choose, {counts['test']} measure"
        # What costs nothing may be judged on train as well.
        if counts["dev"] < self.fewest_documents and self.expected.cost != 0:
            text += (
                f"; fewer than {self.fewest_documents} to choose ship no tuned judge: label more"
            )
        return text

    def lines(self) -> Iterator[str]:
        """Yield a table of what is expected by purpose, the range, the time and the limits."""
        yield _columns("", "calls", "tokens in", "tokens out", "dollars")
        for row in (
            *self.rows,
            replace(self.expected, purpose="expected"),
            replace(self.low, purpose="at least"),
            replace(self.high, purpose="at most"),
        ):
            dollars = (
                "unknown" if row.cost is None else dollars_text(row.cost) if row.cost else "free"
            )
            numbers = (_about(row.calls), _about(row.tokens_in), _about(row.tokens_out))
            yield _columns(row.purpose, *numbers, dollars)
        low, high = self.seconds_per_call
        each = f"{low:g} to {high:g} s each"
        requests = "one request" if self.concurrency == 1 else f"{self.concurrency} requests"
        yield f"time: {_seconds_text(self.seconds)}, with {requests} at a time and {each}"
        yield f"limit: {self._limit_text()}"
        yield "(a token is taken as four characters; nothing has been sent or written)"

    def _limit_text(self) -> str:
        limits = [
            *([f"{self.max_calls:,} calls"] if self.max_calls is not None else []),
            *([dollars_text(self.max_cost)] if self.max_cost is not None else []),
        ]
        if limits:
            return " and ".join(limits)
        if self.planned_cost is None:
            return "none given (--max-cost USD, --max-calls N)"
        return f"none given, planned for {dollars_text(self.planned_cost)} (--max-cost USD)"

    def to_json(self) -> dict[str, Any]:
        """What --json prints: each figure expected, low and high, and by purpose as expected."""
        three = {"expected": self.expected, "low": self.low, "high": self.high}
        return {
            "documents": dict(self.documents),
            "limits": {
                "max_calls": self.max_calls,
                "max_cost": self.max_cost,
                "planned_cost_usd": self.planned_cost,
            },
            "calls": {name: row.calls for name, row in three.items()},
            "tokens_in": {name: row.tokens_in for name, row in three.items()},
            "tokens_out": {name: row.tokens_out for name, row in three.items()},
            "cost_usd": {name: rounded(row).cost for name, row in three.items()},
            "seconds": dict(zip(("low", "high"), self.seconds, strict=True)),
            "seconds_per_call": dict(zip(("low", "high"), self.seconds_per_call, strict=True)),
            "concurrency": self.concurrency,
            "spending": [spending_row(rounded(row)) for row in self.rows],
        }


class SearchScenario(NamedTuple):
    """How a search may go: its rounds, and what its candidates are like on average.

    `reasoning_share` is how much they write of what the longest form of reasoning adds,
    `demo_share` how much they show of what a round's demonstrations are, from 0 to 1; `race_share`
    is what a round judges, in those of its usual candidates on all of train. `n_finalists` None is
    as many as are planned.
    """

    rounds: int
    reasoning_share: float
    demo_share: float
    race_share: float
    n_finalists: int | None = None


# The shares are those of simulated runs (benchmarks/simulated.py).
MAX_ROUNDS = SearchOptions().rounds
EXPECTED_SCENARIO = SearchScenario(7, 0.5, 0.1, 0.75)
EXTREME_SCENARIOS = (
    SearchScenario(1, 0.0, 0.0, 0.25, n_finalists=0),
    SearchScenario(MAX_ROUNDS, 0.0, 0.0, 1.5),
    SearchScenario(MAX_ROUNDS, 1.0, 1.0, 1.5),
)


class SearchSize(NamedTuple):
    """How many outputs a search judges, and how many instructions it has proposed.

    The seed judges `n_seed` of train and `n_dev` of dev, candidates `n_raced` of train, and each
    finalist `n_dev`; the extra tokens are what candidates and finalists take more than the seed
    for an output.
    """

    n_seed: float
    n_raced: float
    extra_raced: CallTokens
    n_proposals: float
    n_dev: float
    n_finalists: float
    extra_tuned: CallTokens


NO_EXTRA = CallTokens(0.0, 0.0)


def estimate_run(
    prepared: PreparedRun, judge: Judge, calls_per_item: int, budget: RunBudget
) -> RunEstimate:
    """What a run within this budget will take; asks nothing.

    `judge` is the seed, and `calls_per_item` what a judgement takes.
    """
    settings, labels = prepared.settings, prepared.labels

    def rows(scenario: SearchScenario) -> list[Spending]:
        return _spending_by_purpose(prepared, judge, calls_per_item, budget, scenario)

    # The more a call shows, the fewer of them the same money pays for.
    totals = [total_spending(rows(scenario)) for scenario in EXTREME_SCENARIOS]
    low, high = _extreme(totals, min, 1 / ESTIMATE_MARGIN), _extreme(totals, max, ESTIMATE_MARGIN)
    if settings.max_cost is not None and high.cost is not None:
        high = replace(high, cost=min(high.cost, settings.max_cost))
    if settings.max_calls is not None:
        high = replace(high, calls=min(high.calls, settings.max_calls))
    embedded, thinks = is_embedded(settings.lm), is_reasoning(settings.lm.rpartition("/")[2])
    per_call = EMBEDDED_SECONDS if embedded else THINKING_SECONDS if thinks else ENDPOINT_SECONDS
    concurrency = 1 if embedded else settings.concurrency
    n_unseen = len(labels.unseen.documents) if labels.unseen else 0
    return RunEstimate(
        rows=rows(EXPECTED_SCENARIO),
        low=low,
        high=high,
        seconds=(
            round(low.calls * per_call[0] / concurrency, 1),
            round(high.calls * per_call[1] / concurrency, 1),
        ),
        seconds_per_call=per_call,
        concurrency=concurrency,
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
        planned_cost=round(budget.limit, 2) if budget.in_dollars else None,
        documents={
            "train": len(labels.train.documents),
            "dev": len(labels.dev.documents),
            "test": len(labels.test.documents) + n_unseen,
        },
        fewest_documents=fewest_documents(settings.risk),
    )


def _spending_by_purpose(
    prepared: PreparedRun,
    judge: Judge,
    calls_per_item: int,
    budget: RunBudget,
    scenario: SearchScenario,
) -> list[Spending]:
    """What each purpose takes where the search goes so."""
    settings, labels, pricing = prepared.settings, prepared.labels, budget.pricing
    if pricing is None:
        seed_tokens = estimated_tokens(settings, judge, labels, calls_per_item, calls_per_item)
        size = _free_search(settings, labels, budget, calls_per_item, scenario)
    else:
        seed_tokens = CallTokens(pricing.tokens_in, pricing.tokens_out)
        size = _paid_search(prepared, judge, budget, pricing, scenario)

    def judging(
        purpose: str, n_outputs: float, n_tuned: float = 0.0, extra: CallTokens = NO_EXTRA
    ) -> Spending:
        """The seed on so many outputs, and candidates on others, which take so much more each."""
        tokens_in, tokens_out = seed_tokens
        return _spending(
            purpose,
            (n_outputs + n_tuned) * calls_per_item,
            (n_outputs + n_tuned) * tokens_in + n_tuned * extra.tokens_in,
            (n_outputs + n_tuned) * tokens_out + n_tuned * extra.tokens_out,
            settings.prices[0],
        )

    is_probed = settings.probes or is_embedded(settings.lm)
    n_probes = len(ATTACKS) * min(OUTPUTS_PROBED, budget.n_measured) if is_probed else 0
    proposal = proposal_tokens(settings.proposer[0], labels)
    n_tuned = budget.n_measured if scenario.n_finalists != 0 else 0
    rows = [
        judging(SEED, size.n_seed),
        judging(SEARCH, 0, size.n_raced, size.extra_raced),
        _spending(
            PROPOSALS,
            size.n_proposals,
            size.n_proposals * proposal.tokens_in,
            size.n_proposals * proposal.tokens_out,
            settings.prices[1],
        ),
        judging(DEV, size.n_dev, size.n_dev * size.n_finalists, size.extra_tuned),
        judging(TEST, budget.n_measured, n_tuned, size.extra_tuned),
        judging(PROBES, 0, n_probes, size.extra_tuned),
    ]
    return [row for row in rows if row.calls]


def _free_search(
    settings: Settings,
    labels: Labels,
    budget: RunBudget,
    calls_per_item: int,
    scenario: SearchScenario,
) -> SearchSize:
    """A search that costs nothing: as many rounds as there are, or as the calls reach for."""
    options, n_train = budget.options, len(labels.train)
    left = budget.search.limit / calls_per_item  # in outputs judged
    n_finalists = max(1, min(options.finalists, int(left / 2 // max(1, budget.n_dev)) - 1))
    n_dev = min(budget.n_dev, left / (1 + n_finalists))
    left -= n_dev * (1 + n_finalists)
    n_seed = min(n_train, left)
    n_raced = FREE_RACE_SHARE * n_train * (options.proposals + options.demo_sets)
    n_rounds = (left - n_seed) / max(1.0, n_raced)
    if settings.optimizer == "rank":
        n_rounds = min(scenario.rounds, options.rounds, n_rounds)
    largest = _demo_tokens(labels, options, max(options.demo_sizes))
    extra = CallTokens(scenario.demo_share * largest, 0.0)
    # The proposer's model may cost money, and once that is spent no more are proposed.
    price, n_affordable = settings.prices[1], math.inf
    if settings.max_cost is not None and price is not None and not price.is_free:
        n_affordable = settings.max_cost // price.cost(
            *proposal_tokens(settings.proposer[0], labels), 1
        )
    return SearchSize(
        n_seed=n_seed,
        n_raced=n_rounds * n_raced,
        extra_raced=extra,
        n_proposals=min(n_rounds * options.proposals, n_affordable),
        n_dev=n_dev,
        n_finalists=n_finalists if scenario.n_finalists is None else scenario.n_finalists,
        extra_tuned=extra,
    )


def _paid_search(
    prepared: PreparedRun,
    judge: Judge,
    budget: RunBudget,
    pricing: Pricing,
    scenario: SearchScenario,
) -> SearchSize:
    """A search in dollars, or in tokens where no price is known: round after round of its plan."""
    labels, options, seed_cost = prepared.labels, budget.options, pricing.of_seed
    plan = plan_search(
        labels.train, labels.dev, prepared.level, options.seed, budget.search.limit, seed_cost
    )
    left = max(0.0, budget.search.limit - plan.dev_cost)
    n_seed = min(len(labels.train), left / seed_cost)
    left -= n_seed * seed_cost
    is_rank = prepared.settings.optimizer == "rank"
    extra, item_cost, proposal = NO_EXTRA, seed_cost, budget.search.proposal
    n_raced = n_proposals = raced_in = raced_out = 0.0
    for number in range(1, min(scenario.rounds, options.rounds) + 1 if is_rank else 2):
        extra = _extra_tokens(number, labels, judge, budget, pricing, scenario)
        item_cost = seed_cost + pricing.cost(*extra, 0)
        share = plan.round_budget(number, left) if is_rank else left
        if plan.compares_reasoning(number, options):
            n_proposed = 0.0
            n_candidates = float(INSTRUCTIONS_PER_REASONING * len(options.reasoning))
        else:
            # A proposer that answers here takes nothing.
            n_affordable = share / proposal if proposal else math.inf
            n_proposed = min(float(options.proposals), n_affordable)
            n_candidates = n_proposed + (CANDIDATES_BESIDE_PROPOSALS if number > 1 else 0)
        n_judged = (share - n_proposed * proposal) / item_cost
        if is_rank:
            n_judged = min(n_judged, scenario.race_share * n_candidates * len(labels.train))
        n_raced, n_proposals = n_raced + n_judged, n_proposals + n_proposed
        raced_in += n_judged * extra.tokens_in
        raced_out += n_judged * extra.tokens_out
        left -= n_judged * item_cost + n_proposed * proposal
    # Of finalists that are dearer than planned, fewer meet dev.
    n_finalists = ((left + plan.dev_cost) / max(1, len(plan.dev)) - seed_cost) / item_cost
    return SearchSize(
        n_seed=n_seed,
        n_raced=n_raced,
        extra_raced=CallTokens(raced_in / max(1.0, n_raced), raced_out / max(1.0, n_raced)),
        n_proposals=n_proposals,
        n_dev=len(plan.dev),
        n_finalists=min(plan.n_finalists, n_finalists)
        if scenario.n_finalists is None
        else scenario.n_finalists,
        extra_tuned=extra,
    )


def _extra_tokens(
    number: int,
    labels: Labels,
    judge: Judge,
    budget: RunBudget,
    pricing: Pricing,
    scenario: SearchScenario,
) -> CallTokens:
    """What an output takes more with the candidates of a round than with the seed.

    Instructions come first, then forms of reasoning, and demonstrations after these; no candidate
    costs more than it may.
    """
    options = budget.options
    n_demos = min(SearchPlan.demo_sizes(number), default=0) * 2 ** max(
        0, number - REASONING_ROUND - 1
    )
    longest = 0
    if number >= REASONING_ROUND:
        forms = [reply_tokens(with_reasoning(judge.prompt, form)) for form in options.reasoning]
        longest = max(0, max(forms, default=0) - reply_tokens(judge.prompt))
    extra = CallTokens(
        scenario.demo_share * pricing.calls * _demo_tokens(labels, options, n_demos),
        scenario.reasoning_share * pricing.replies * longest,
    )
    excess = pricing.cost(*extra, 0) / max(1e-12, options.max_item_cost - pricing.of_seed)
    return CallTokens(*(tokens / max(1.0, excess) for tokens in extra))


def _demo_tokens(labels: Labels, options: SearchOptions, number: int) -> float:
    """What so many demonstrations add to a prompt, as far as they may."""
    if not options.demo_sets:
        return 0.0
    items = labels.train.items
    number = min(number, max(options.demo_sizes), len(items))
    length = sum(len(text) for item in items for text in item.texts.values()) / len(items)
    return min(options.longest_demos, number * length) / CHARACTERS_PER_TOKEN


def _extreme(
    totals: Sequence[Spending], extreme: Callable[[Iterable[float]], float], factor: float
) -> Spending:
    """The least, or the most, of each figure, times a factor."""
    costs = [total.cost for total in totals if total.cost is not None]
    return Spending(
        purpose="all",
        calls=int(factor * extreme(total.calls for total in totals)),
        tokens_in=int(factor * extreme(total.tokens_in for total in totals)),
        tokens_out=int(factor * extreme(total.tokens_out for total in totals)),
        cost=factor * extreme(costs) if costs else None,
    )


def _spending(
    purpose: str, calls: float, tokens_in: float, tokens_out: float, price: Price | None
) -> Spending:
    """With the price of these tokens; None where it is unknown."""
    return Spending(
        purpose=purpose,
        calls=round(calls),
        tokens_in=round(tokens_in),
        tokens_out=round(tokens_out),
        cost=None
        if price is None
        else price.cost(round(tokens_in), round(tokens_out), round(calls)),
    )


def _about(number: float) -> str:
    """Two digits of a large number: nobody knows more before a run."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _seconds_text(seconds: tuple[float, float]) -> str:
    low, high = (duration_text(value) for value in seconds)
    return low if low == high else f"{low} to {high}"


def _columns(name: str, *cells: str) -> str:
    return (f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells)).rstrip()
