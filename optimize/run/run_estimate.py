"""What a run is planned to take, said before it asks anything: calls, tokens, dollars and time.

A search spends what it may and can end early, so the plan is what the run takes at most if each
judgement costs what the untuned judge's do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from judges.client import Price, Spending, is_embedded, is_reasoning
from judges.judge import Judge
from judges.terminal import dollars_text
from optimize.injection import ATTACKS, OUTPUTS_PROBED
from optimize.run.labels import PreparedRun
from optimize.run.models import DEV, PROBES, PROPOSALS, PURPOSES, SEARCH, SEED, TEST
from optimize.run.run_budget import CallTokens, RunBudget, estimated_tokens, proposal_tokens
from optimize.run.spending import rounded, spending_row, total_spending
from optimize.search.gate import fewest_documents
from optimize.search.rank_search import plan_search

# Seconds a request takes: the embedded model, an endpoint, and a model that thinks first.
EMBEDDED_SECONDS, ENDPOINT_SECONDS, THINKING_SECONDS = 0.005, 1.5, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What a run is planned to take: `rows` by purpose, and `seconds` at `concurrency`.

    `planned_cost` is in US dollars, what the run keeps to where no limit is given (None: nothing is
    paid, or the price is unknown). `documents` counts them by split.
    """

    rows: Sequence[Spending]
    seconds: float
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
        """Calls planned from now on, where so much is spent and `purpose` is what is served."""
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
        """Yield what is planned and its limit, and how many documents do what."""
        expected = self.expected
        yield (
            f"planned: about {_about(expected.calls)} calls, {_dollars(expected)}, "
            f"{timedelta(seconds=round(self.seconds))}; limit {self._limit_text()}"
        )
        yield f"documents: {self.documents_text()}"

    def documents_text(self) -> str:
        """How many documents do what."""
        counts = self.documents
        text = f"{counts['train']} teach, {counts['dev']} choose, {counts['test']} measure"
        # What costs nothing may be judged on train as well.
        if counts["dev"] < self.fewest_documents and self.expected.cost != 0:
            text += f"; fewer than {self.fewest_documents} that choose ship no tuned judge"
        return text

    def lines(self) -> Iterator[str]:
        """Yield a table of what is planned by purpose, the time and the limits."""
        yield f"documents: {self.documents_text()}"
        yield ""
        yield _columns("", "calls", "tokens in", "tokens out", "dollars")
        for row in (*self.rows, replace(self.expected, purpose="planned")):
            numbers = (_about(row.calls), _about(row.tokens_in), _about(row.tokens_out))
            name = "untuned" if row.purpose == SEED else row.purpose
            yield _columns(name, *numbers, _dollars(row))
        time = timedelta(seconds=round(self.seconds))
        yield f"time: {time}, with {self.concurrency} requests at a time"
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
        """What --json prints: each figure in all, and by purpose."""
        expected = rounded(self.expected)
        return {
            "documents": dict(self.documents),
            "limits": {
                "max_calls": self.max_calls,
                "max_cost": self.max_cost,
                "planned_cost_usd": self.planned_cost,
            },
            "calls": {"expected": expected.calls},
            "tokens_in": {"expected": expected.tokens_in},
            "tokens_out": {"expected": expected.tokens_out},
            "cost_usd": {"expected": expected.cost},
            "seconds": {"expected": self.seconds},
            "concurrency": self.concurrency,
            "spending": [spending_row(rounded(row)) for row in self.rows],
        }


def estimate_run(
    prepared: PreparedRun, judge: Judge, calls_per_item: int, budget: RunBudget
) -> RunEstimate:
    """What a run within this budget is planned to take; asks nothing.

    `judge` is the untuned one, and `calls_per_item` what a judgement takes.
    """
    settings, labels = prepared.settings, prepared.labels
    rows = _spending_by_purpose(prepared, judge, calls_per_item, budget)
    embedded, thinks = is_embedded(settings.lm), is_reasoning(settings.lm.rpartition("/")[2])
    per_call = EMBEDDED_SECONDS if embedded else THINKING_SECONDS if thinks else ENDPOINT_SECONDS
    concurrency = 1 if embedded else settings.concurrency
    return RunEstimate(
        rows=rows,
        seconds=round(total_spending(rows).calls * per_call / concurrency, 1),
        concurrency=concurrency,
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
        planned_cost=round(budget.limit, 2) if budget.in_dollars else None,
        documents={
            "train": len(labels.train.documents),
            "dev": len(labels.dev.documents),
            # Outputs of unseen systems are for test's documents: none counts twice.
            "test": len({name for part in labels.measured.values() for name in part.documents}),
        },
        fewest_documents=fewest_documents(settings.risk),
    )


def _spending_by_purpose(
    prepared: PreparedRun, judge: Judge, calls_per_item: int, budget: RunBudget
) -> list[Spending]:
    """What each purpose is planned to take."""
    settings, labels, pricing = prepared.settings, prepared.labels, budget.pricing
    options, limit = budget.options, budget.search.limit
    n_train, n_proposals = len(labels.train), 0
    if pricing is None:
        item_cost: float = calls_per_item
        tokens = estimated_tokens(settings, judge, labels, calls_per_item, calls_per_item)
    else:
        item_cost = pricing.of_seed
        tokens = CallTokens(pricing.tokens_in, pricing.tokens_out)
    if is_embedded(settings.lm):
        # Two judges are compared, the untuned one and one that shows the labels.
        n_dev = 2 * budget.n_dev
        left = min(2 * n_train, limit / item_cost - n_dev)
    else:
        plan = plan_search(labels.train, labels.dev, prepared.level, options.seed, limit, item_cost)
        n_dev = len(plan.dev) * (1 + plan.n_finalists)
        searching = max(0.0, limit - plan.dev_cost)
        if budget.search.proposal:
            # Proposals are paid from the search's share, and take no more than half of it.
            n_proposals = min(
                options.rounds * options.proposals, int(searching / 2 / budget.search.proposal)
            )
        left = (searching - n_proposals * budget.search.proposal) / item_cost
    n_seed = max(0.0, min(n_train, left))
    n_raced = max(0.0, left - n_seed)
    is_probed = settings.probes or is_embedded(settings.lm)
    outputs = {
        SEED: n_seed,
        SEARCH: n_raced,
        DEV: n_dev,
        TEST: 2 * budget.n_measured,
        PROBES: len(ATTACKS) * min(OUTPUTS_PROBED, budget.n_measured) if is_probed else 0,
    }
    rows = {
        purpose: _spending(purpose, n, calls_per_item, tokens, settings.prices[0])
        for purpose, n in outputs.items()
    }
    proposal = proposal_tokens(settings.proposer[0], labels)
    rows[PROPOSALS] = _spending(PROPOSALS, n_proposals, 1, proposal, settings.prices[1])
    return [rows[purpose] for purpose in PURPOSES if rows[purpose].calls]


def _spending(
    purpose: str, number: float, calls: int, tokens: CallTokens, price: Price | None
) -> Spending:
    """So many judgements or proposals, with their price; None where it is unknown."""
    tokens_in, tokens_out = round(number * tokens.tokens_in), round(number * tokens.tokens_out)
    return Spending(
        purpose=purpose,
        calls=round(number * calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=None if price is None else price.cost(tokens_in, tokens_out),
    )


def _dollars(row: Spending) -> str:
    return "price unknown" if row.cost is None else dollars_text(row.cost) if row.cost else "free"


def _about(number: float) -> str:
    """Two digits of a large number: nobody knows more before a run."""
    digits = max(0, len(str(round(number))) - 2)
    return f"{round(number, -digits):,.0f}"


def _columns(name: str, *cells: str) -> str:
    return (f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells)).rstrip()
