"""The judges of a comparison: recorded before, or asked within one budget for all of them.

A judge that cannot be measured on all of its outputs is an outcome with a reason, and no score.
"""

import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from data.tables.atomic_write import write_atomically
from data.tables.formats import read_records
from judges.cli.table import Estimate, total_estimate
from judges.client import (
    Budget,
    BudgetSpentError,
    Client,
    FatalModelError,
    ModelOptions,
    Session,
    Store,
    answers_in_process,
    is_embedded,
    is_reasoning,
)
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.panel import Panel
from judges.terminal import Progress
from optimize.figures import DIGITS, Cell
from optimize.items import Items, rows_to_judge, scores_of
from optimize.measuring.sources import ScoredItems
from optimize.report.text import counted
from optimize.run.run_folder import REPLIES, TIMES

# Tokens are estimated; what is expected to cost more than so many times the rest is not begun.
ESTIMATE_MARGIN = 1.25
# Of a judge's name, in a file's.
MAX_NAME_LENGTH = 60
Source = Literal["model", "judge", "scores", "replies"]
PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One judge of a comparison: to be asked (`judge`), or recorded before (`scored`).

    `items` have the texts that it reads, `options` are its own model's, and `expected` says what
    asking it may take, for each judge of a panel that asks. `judge` has the model that its user
    named for it.
    """

    name: str
    source: Source
    judge: Judge | None = None
    items: Items = field(default_factory=lambda: Items(()))
    options: ModelOptions = field(default_factory=ModelOptions)
    expected: tuple[Estimate, ...] = ()
    scored: ScoredItems | None = None

    @property
    def lm(self) -> str:
        """The model that is asked; empty for a recording."""
        return (self.options.get("lm") or self.judge.lm) if self.judge else ""

    @property
    def in_process(self) -> bool:
        """Whether it is answered here, for free: nothing of it is kept or counted as paid."""
        return self.judge is None or all(map(is_embedded, (j.lm for j in self.judge.parts)))

    @property
    def paid(self) -> tuple[Estimate, ...]:
        """What is expected of those of its models that are elsewhere."""
        return tuple(e for e in self.expected if not is_embedded(e.lm))

    @property
    def n_requests(self) -> int:
        """How many are expected to be sent for all of its items."""
        return sum(estimate.requests for estimate in self.paid)

    @property
    def expected_cost(self) -> float | None:
        """US dollars for all of its items; None where no price is known."""
        return total_estimate(self.paid).cost_usd

    def key(self, seed: int) -> str:
        """Its role in the run's store: its name, and a digest of all that its replies depend on."""
        assert self.judge is not None
        options = {k: self.options.get(k) for k in ("api_base", "max_tokens", "reasoning_effort")}
        prompts: list[object] = []
        for judge in self.judge.parts:
            lm = self.lm if judge is self.judge else judge.lm
            prompts += [lm, judge.template(), asdict(judge.plan) if judge.plan else None]
        identity = [*prompts, options, seed]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
        return f"{re.sub(r'[^A-Za-z0-9.]+', '-', self.name)[:MAX_NAME_LENGTH]}-{digest}"

    def share_unanswered(self, answered: Mapping[str, int], seed: int) -> float:
        """The share of its expected requests that no earlier start has an answer to.

        `answered` counts them by role; a panel's other models have roles that begin with its own.
        """
        if self.in_process or not self.expected:
            return 1.0
        key = self.key(seed)
        n_answered = sum(n for role, n in answered.items() if role.startswith(key))
        return max(0.0, 1 - n_answered / max(1, self.n_requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An entry's scores, or why it has none (`reason`); `usage` is what asking took, for JSON."""

    entry: Entry
    scored: ScoredItems | None
    usage: Cell
    reason: str = ""


# Of what asking took, all null for a recording: dollars for 1,000 rows are of all replies at list
# price, whoever paid; seconds are wall time with `concurrency` requests in flight; what follows
# is the run's, over all its starts.
NO_USAGE: Cell = dict.fromkeys(
    (
        *("plan", "tokens_per_row", "cost_per_1000_rows", "seconds_per_1000_rows"),
        *("latency_seconds", "concurrency", "lm_calls", "cached_calls", "tokens", "cost_usd"),
        "cost_unconfirmed_usd",
    )
)


def expectation_lines(
    entries: Sequence[Entry], answered: Mapping[str, int], seed: int, limits: str = ""
) -> list[str]:
    """What each model may take before anything is sent, and all together beside the `limits`.

    `answered` counts the requests by role that an earlier start has answers to.
    """
    recordings = [entry.name for entry in entries if entry.judge is None]
    lines = [f"recorded, at no cost: {', '.join(recordings)}"] if recordings else []
    total, unpriced = 0.0, []
    for entry in entries:
        if entry.judge is None:
            continue
        if entry.in_process:
            lines.append(f"{entry.name}: {counted(len(entry.items), 'row')} here, free")
        elif entry.expected:
            cost, share = entry.expected_cost, entry.share_unanswered(answered, seed)
            before = f" ({1 - share:.0%} answered before)" if share < 1 else ""
            thinks = any(is_reasoning(estimate.lm.partition("/")[2]) for estimate in entry.paid)
            thoughts = " and its thoughts" if thinks else ""
            dollars = "price unknown" if cost is None else f"about ${cost * share:.4f}"
            tokens_in = sum(estimate.tokens_in for estimate in entry.paid)
            tokens_out = sum(estimate.tokens_out for estimate in entry.paid)
            lines.append(
                f"{entry.name}: {entry.n_requests:,} calls{before}, about "
                f"{tokens_in * share:,.0f} tokens in and "
                f"{tokens_out * share:,.0f} out{thoughts}, {dollars}"
            )
            total += (cost or 0.0) * share
            unpriced += [entry.name] if cost is None else []
    if any(entry.judge and not entry.in_process for entry in entries):
        more = f", and {', '.join(unpriced)}" if unpriced else ""
        lines.append(f"expected in all: about ${total:.4f}{more}{limits}")
    return lines


def ask_entries(
    entries: Sequence[Entry],
    folder: Path,
    print_line: PrintLine,
    *,
    seed: int = 0,
    max_calls: int | None = None,
    max_cost: float | None = None,
    concurrency: int = 64,
) -> list[Outcome]:
    """Ask each entry's model, the cheapest first; replies, spending and times stay in `folder`.

    All models are opened before the first request, so that a key that is missing costs nothing. A
    model that fails, or that the rest of the budget does not suffice for, is an outcome with a
    reason; the others are asked all the same.
    """
    outcomes = {
        entry.name: Outcome(entry=entry, scored=entry.scored, usage=NO_USAGE) for entry in entries
    }
    store = None if all(entry.in_process for entry in entries) else folder / REPLIES
    answered = Store.answered(folder / REPLIES)
    with (
        Session(
            max_calls=max_calls, max_cost=max_cost, concurrency=concurrency, store=store
        ) as paid,
        # What costs nothing is no part of what the limits are on.
        Session() as free,
    ):
        clients = {
            entry.name: (free if entry.in_process else paid).client(
                entry.lm, role=entry.key(seed), **_model_options(entry, entry.judge)
            )
            for entry in entries
            if entry.judge is not None
        }
        for entry in entries:
            if entry.judge is not None:
                entry.judge.clients(clients[entry.name])
        with_model = [entry for entry in entries if entry.judge is not None]
        for entry in sorted(
            with_model, key=lambda e: math.inf if (c := e.expected_cost) is None else c
        ):
            share = entry.share_unanswered(answered, seed)
            outcome = _ask(entry, clients[entry.name], folder, seed, share)
            if outcome.reason:
                print_line(f"left out: {entry.name}: {outcome.reason}")
            outcomes[entry.name] = outcome
        if paid.cache is not None and (note := paid.cache.note):
            print_line(note)
    return list(outcomes.values())


def _model_options(entry: Entry, judge: Judge) -> dict[str, Any]:
    """How its model is opened, at the endpoint that its user chose; raises FatalModelError."""
    if not isinstance(judge, Panel):  # whose members' models are named in it already
        judge = judge.with_model(entry.options.get("lm"), entry.options.get("api_base"))
    judge.check_origins()
    api_base = judge.api_base
    names = ("api_key_env", "price", "max_tokens", "reasoning_effort")
    return {"api_base": api_base, **{name: entry.options.get(name) for name in names}}


def _ask(entry: Entry, client: Client, folder: Path, seed: int, share: float) -> Outcome:
    """Judge an entry's items; where the budget or the model ends that, the reason.

    `share` of its requests are unanswered.
    """
    assert entry.judge is not None
    judgements: list[AnyJudgement] = []
    reason = _unaffordable(entry, client.account.budget, share)
    started = time.monotonic()
    if not reason:
        rows = rows_to_judge(entry.items)
        try:
            with Progress(
                entry.name,
                len(entry.items),
                sys.stderr,
                budget=client.account.budget,
            ) as progress:
                for judgement in entry.judge.judge_rows(rows, client, seed=seed):
                    judgements.append(judgement)
                    progress.step(failed=judgement.failure is not None)
        except (BudgetSpentError, FatalModelError) as error:
            reason = " ".join(str(error).split())
        finally:
            _write_time(folder / TIMES, entry, client, seed, time.monotonic() - started)
    usage = _usage(
        entry, entry.judge, client, len(judgements), _times(folder / TIMES, entry.key(seed))
    )
    if reason:
        reason += f" ({len(judgements):,} of {len(entry.items):,} judged)"
        return Outcome(entry=entry, scored=None, usage=usage, reason=reason)
    scored = ScoredItems(
        items=entry.items,
        scores=scores_of(judgements),
        judgements=tuple(judgements),
        lm=entry.lm,
    )
    return Outcome(entry=entry, scored=scored, usage=usage)


def _unaffordable(entry: Entry, budget: Budget, share: float) -> str:
    """Why a share of the requests is not begun, since it would end half-way; empty if it may do."""
    needs = ""
    if entry.in_process or not entry.expected:
        return needs
    calls, cost = math.ceil(entry.n_requests * share), (entry.expected_cost or 0.0) * share
    if budget.max_calls is not None and calls > (left := max(0, budget.max_calls - budget.calls)):
        needs = f"it takes {calls:,} calls, and {left:,} of --max-calls {budget.max_calls:,}"
    elif budget.max_cost is not None:
        dollars = max(0.0, budget.max_cost - budget.cost)
        if cost > ESTIMATE_MARGIN * dollars:
            needs = (
                f"about ${cost:.4f} are expected, and ${dollars:.4f} of --max-cost "
                f"{budget.max_cost:g}"
            )
    goes_on = "the same command again with a larger limit goes on"
    return f"not begun: {needs} are left; {goes_on}" if needs else ""


def _write_time(path: Path, entry: Entry, client: Client, seed: int, seconds: float) -> None:
    """Add a line on how long so many responses took that were not recorded before."""
    assert entry.judge is not None
    clients = _paid_clients(entry, entry.judge, client)
    n_sent = sum(each.totals.responses - each.totals.cached for each in clients)
    if not n_sent:
        return
    times = {
        "key": entry.key(seed),
        "responses": n_sent,
        "seconds": seconds,
        "latency": clients[0].latency,
    }
    before = path.read_bytes() if path.exists() else b""
    write_atomically(path, before + json.dumps(times).encode() + b"\n", overwrite=True)


def _paid_clients(entry: Entry, judge: Judge, client: Client) -> tuple[Client, ...]:
    """What asks its models: of a panel those elsewhere, the first of them first."""
    if entry.in_process:
        return (client,)
    return tuple(each for each in judge.clients(client) if not answers_in_process(each.model))


def _times(path: Path, key: str) -> list[dict[str, Any]]:
    """All lines of one entry, one for each time that it was asked."""
    rows = read_records(path) if path.exists() else ()
    return [row for _, row in rows if row["key"] == key]


def _usage(
    entry: Entry, judge: Judge, client: Client, n_rows: int, times: Sequence[Mapping[str, Any]]
) -> Cell:
    """What an entry took, for `n_rows` judged; of a panel, all its models together."""
    clients = _paid_clients(entry, judge, client)
    accounts = [each.account for each in clients]
    prices = [each.account.price for each in clients]
    costs = [
        None if price is None else price.cost(total.tokens_in, total.tokens_out)
        for total, price in zip((each.totals for each in clients), prices, strict=True)
    ]
    n_timed = sum(row["responses"] for row in times)
    seconds_each = sum(row["seconds"] for row in times) / n_timed if n_timed else None
    latencies = [(row["latency"], row["responses"]) for row in times if row["latency"] is not None]
    n_latencies = sum(n for _, n in latencies)
    n_responses = sum(each.totals.responses for each in clients)

    def per_row(total: float | None, rows: int = 1) -> float | None:
        return None if total is None or not n_rows else round(total / n_rows * rows, DIGITS)

    cost = _sum([account.cost for account in accounts])
    unconfirmed = sum(account.cost_unconfirmed for account in accounts)
    usage = {
        "plan": _plan_name(judge, client),
        "tokens_per_row": {
            "in": per_row(sum(each.totals.tokens_in for each in clients)),
            "out": per_row(sum(each.totals.tokens_out for each in clients)),
        },
        "cost_per_1000_rows": per_row(_sum(costs), 1000),
        "seconds_per_1000_rows": per_row(
            None if seconds_each is None else seconds_each * n_responses, 1000
        ),
        "latency_seconds": (
            round(sum(seconds * n for seconds, n in latencies) / n_latencies, DIGITS)
            if latencies
            else None
        ),
        "concurrency": 1 if entry.in_process else client.concurrency,
        "lm_calls": sum(account.calls for account in accounts),
        "cached_calls": sum(account.cached for account in accounts),
        "tokens": {
            "in": sum(account.tokens_in for account in accounts),
            "out": sum(account.tokens_out for account in accounts),
        },
        "cost_usd": None if cost is None else round(cost + unconfirmed, DIGITS),
        "cost_unconfirmed_usd": round(unconfirmed, DIGITS),
    }
    assert usage.keys() == NO_USAGE.keys()
    return usage


def _sum(values: Sequence[float | None]) -> float | None:
    """None where one is unknown."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _plan_name(judge: Judge, client: Client) -> str:
    if isinstance(judge, Panel):
        return "panel"
    plan = judge.plan_for(client.model)
    return f"mean of {plan.samples}" if plan.kind == "mean" else plan.kind
