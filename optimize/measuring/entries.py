"""The judges of a leaderboard: recorded before, or asked within one budget for all of them.

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
from data.tables.formats import read_json_lines
from judges.cli.estimate import Estimate, total_price
from judges.inference.budget import Budget, BudgetSpentError
from judges.inference.progress import Progress
from judges.inference.runner import Runner
from judges.inference.session import ModelOptions, Session
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.models.dialect import is_reasoning
from judges.models.journal import describe
from judges.models.prices import find_price, price_of
from judges.models.providers import RECORDING
from judges.protocol import FatalModelError, is_embedded
from optimize.figures import DIGITS, Cell, counted
from optimize.items import Items, scores_of
from optimize.measuring.sources import ScoredItems
from optimize.run.run_folder import BUDGET

REPLIES = "replies"
TIMES = "times.jsonl"
# Tokens are estimated; what is expected to cost more than so many times the rest is not begun.
ESTIMATE_MARGIN = 1.25
# Of a judge's name, in a file's.
MAX_NAME_LENGTH = 60
Source = Literal["model", "judge", "scores", "replies"]
PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One judge of a leaderboard: to be asked (`judge`), or recorded before (`scored`).

    `items` have the texts that it reads, `options` are its own model's, and `expected` says what
    asking it may take.
    """

    name: str
    source: Source
    judge: Judge | None = None
    items: Items = field(default_factory=lambda: Items(()))
    options: ModelOptions = field(default_factory=ModelOptions)
    expected: Estimate | None = None
    scored: ScoredItems | None = None

    @property
    def lm(self) -> str:
        """The model that is asked; empty for a recording."""
        return (self.options.get("lm") or self.judge.lm) if self.judge else ""

    @property
    def in_process(self) -> bool:
        """Whether it is answered here, for free: nothing of it is kept or counted as paid."""
        return is_embedded(self.lm) or self.lm.startswith(RECORDING)

    @property
    def expected_cost(self) -> float | None:
        """US dollars for all of its items; None where no price is known."""
        return total_price([self.expected]) if self.expected else 0.0

    def key(self, seed: int) -> str:
        """What its files are called: its name, and a digest of all that its replies depend on."""
        assert self.judge is not None
        plan = asdict(self.judge.plan) if self.judge.plan else None
        options = {k: self.options.get(k) for k in ("api_base", "max_tokens", "reasoning_effort")}
        identity = [self.lm, self.judge.template(), plan, options, seed]
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
        return f"{re.sub(r'[^A-Za-z0-9.]+', '-', self.name)[:MAX_NAME_LENGTH]}-{digest}"

    def journal(self, folder: Path, seed: int) -> Path | None:
        """The file of its replies; None for what is answered here."""
        return None if self.in_process else folder / REPLIES / f"{self.key(seed)}.jsonl"

    def share_unanswered(self, folder: Path | None, seed: int) -> float:
        """The share of its expected requests that no earlier start has an answer to."""
        journal = self.journal(folder, seed) if folder and self.judge else None
        if journal is None or not journal.exists() or not self.expected:
            return 1.0
        return max(0.0, 1 - describe(journal).n_requests / max(1, self.expected.requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An entry's scores, or why it has none (`reason`); `use` is what asking took, for JSON."""

    entry: Entry
    scored: ScoredItems | None
    use: Cell
    reason: str = ""


# Of what asking took, all null for a recording: dollars for 1,000 rows are of all replies at list
# price, whoever paid; seconds are wall time with `concurrency` requests in flight; what follows
# is the run's, over all its resumes.
NO_USE: Cell = dict.fromkeys(
    (
        *("plan", "tokens_per_row", "cost_per_1000_rows", "seconds_per_1000_rows"),
        *("latency_seconds", "concurrency", "lm_calls", "cached_calls", "tokens", "cost_usd"),
        "cost_unconfirmed_usd",
    )
)


def expectation_lines(
    entries: Sequence[Entry], folder: Path | None, seed: int, limits: str = ""
) -> list[str]:
    """What each model may take before anything is sent, and all together beside the `limits`."""
    recordings = [entry.name for entry in entries if entry.judge is None]
    lines = [f"recorded, at no cost: {', '.join(recordings)}"] if recordings else []
    total, unpriced = 0.0, []
    for entry in entries:
        if entry.in_process:
            lines.append(f"{entry.name}: {counted(len(entry.items), 'row')} here, free")
        elif entry.expected is not None:
            expected, cost = entry.expected, entry.expected_cost
            share = entry.share_unanswered(folder, seed)
            answered = f" ({1 - share:.0%} answered before)" if share < 1 else ""
            thoughts = " and its thoughts" if is_reasoning(entry.lm.partition("/")[2]) else ""
            dollars = "price unknown" if cost is None else f"about ${cost * share:.4f}"
            lines.append(
                f"{entry.name}: {expected.requests:,} calls{answered}, about "
                f"{expected.tokens_in * share:,.0f} tokens in and "
                f"{expected.tokens_out * share:,.0f} out{thoughts}, {dollars}"
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
    cache: str | None = None,
    keep_going: bool = False,
) -> list[Outcome]:
    """Ask each entry's model, the cheapest first; replies, spending and times stay in `folder`.

    All models are opened before the first request, so that a key that is missing costs nothing. A
    model that fails, or that the rest of the budget does not suffice for, is an outcome with a
    reason; the others are asked all the same.
    """
    outcomes = {
        entry.name: Outcome(entry=entry, scored=entry.scored, use=NO_USE) for entry in entries
    }
    (folder / REPLIES).mkdir(exist_ok=True)
    with (
        Session(
            max_calls=max_calls,
            max_cost=max_cost,
            concurrency=concurrency,
            cache=cache,
            keep_going=keep_going,
            budget_file=folder / BUDGET,
            keep_budget_file=True,
        ) as paid,
        # What costs nothing is no part of what the limits are on.
        Session(keep_going=keep_going) as free,
    ):
        runners = {
            entry.name: (free if entry.in_process else paid).runner(
                entry.lm,
                role=entry.name,
                journal=entry.journal(folder, seed),
                **_opening(entry, entry.judge),
            )
            for entry in entries
            if entry.judge is not None
        }
        asked = [entry for entry in entries if entry.judge is not None]
        for entry in sorted(asked, key=lambda e: math.inf if (c := e.expected_cost) is None else c):
            outcome = _ask(entry, runners[entry.name], folder, seed)
            if outcome.reason:
                print_line(f"left out: {entry.name}: {outcome.reason}")
            outcomes[entry.name] = outcome
        if paid.cache is not None and (note := paid.cache.note):
            print_line(note)
    return list(outcomes.values())


def _opening(entry: Entry, judge: Judge) -> dict[str, Any]:
    """How its model is opened, at the endpoint that its user chose; raises FatalModelError."""
    _, api_base = judge.model_to_ask(entry.options.get("lm"), entry.options.get("api_base"))
    names = ("api_key_env", "price", "max_tokens", "reasoning_effort")
    return {"api_base": api_base, **{name: entry.options.get(name) for name in names}}


def _ask(entry: Entry, runner: Runner, folder: Path, seed: int) -> Outcome:
    """Judge an entry's items; where the budget or the model ends that, the reason."""
    assert entry.judge is not None
    judgements: list[AnyJudgement] = []
    reason = _unaffordable(entry, runner.account.budget, entry.share_unanswered(folder, seed))
    started = time.monotonic()
    if not reason:
        rows = (item.texts for item in entry.items.items)
        try:
            with Progress(
                entry.name,
                len(entry.items),
                sys.stderr,
                budget=runner.account.budget,
                waiting=lambda: runner.waiting,
            ) as progress:
                for judgement in entry.judge.judge_rows(rows, runner, seed=seed):
                    judgements.append(judgement)
                    progress.step(failed=judgement.failure is not None)
        except (BudgetSpentError, FatalModelError) as error:
            reason = " ".join(str(error).split())
        finally:
            _write_time(folder / TIMES, entry.key(seed), runner, time.monotonic() - started)
    use = _use(entry, entry.judge, runner, len(judgements), _times(folder / TIMES, entry.key(seed)))
    if reason:
        reason += f" ({len(judgements):,} of {len(entry.items):,} judged)"
        return Outcome(entry=entry, scored=None, use=use, reason=reason)
    scored = ScoredItems(
        items=entry.items,
        scores=scores_of(judgements),
        judgements=tuple(judgements),
        lm=entry.lm,
    )
    return Outcome(entry=entry, scored=scored, use=use)


def _unaffordable(entry: Entry, budget: Budget, share: float) -> str:
    """Why a share of the requests is not begun, since it would end half-way; empty if it may do."""
    needs = ""
    if entry.in_process or entry.expected is None:
        return needs
    calls, cost = math.ceil(entry.expected.requests * share), (entry.expected_cost or 0.0) * share
    if budget.max_calls is not None and calls > (left := max(0, budget.max_calls - budget.calls)):
        needs = f"it takes {calls:,} calls, and {left:,} of --max-calls {budget.max_calls:,}"
    elif budget.max_cost is not None:
        dollars = max(0.0, budget.max_cost - budget.cost)
        if cost > ESTIMATE_MARGIN * dollars:
            needs = (
                f"about ${cost:.4f} are expected, and ${dollars:.4f} of --max-cost "
                f"{budget.max_cost:g}"
            )
    return f"not begun: {needs} are left; --resume with a larger limit goes on" if needs else ""


def _write_time(path: Path, key: str, runner: Runner, seconds: float) -> None:
    """Add a line on how long so many responses took that were not recorded before."""
    n_sent = runner.totals.responses - runner.totals.cached
    if not n_sent:
        return
    times = {"key": key, "responses": n_sent, "seconds": seconds, "latency": runner.latency}
    before = path.read_bytes() if path.exists() else b""
    write_atomically(path, before + json.dumps(times).encode() + b"\n", overwrite=True)


def _times(path: Path, key: str) -> list[dict[str, Any]]:
    """All lines of one entry, one for each time that it was asked."""
    rows = read_json_lines(path) if path.exists() else ()
    return [row for _, row in rows if row["key"] == key]


def _use(
    entry: Entry, judge: Judge, runner: Runner, n_rows: int, times: Sequence[Mapping[str, Any]]
) -> Cell:
    """What an entry took, for `n_rows` judged."""
    account, totals, plan = runner.account, runner.totals, judge.plan_for(runner.model)
    price = price_of(entry.options.get("price")) or find_price(entry.lm)
    # What a recording costs to use is its model's affair.
    is_priced = price is not None and not entry.lm.startswith(RECORDING)
    cost = price.cost(totals.tokens_in, totals.tokens_out) if price and is_priced else None
    n_timed = sum(row["responses"] for row in times)
    seconds_each = sum(row["seconds"] for row in times) / n_timed if n_timed else None
    latencies = [(row["latency"], row["responses"]) for row in times if row["latency"] is not None]
    n_latencies = sum(n for _, n in latencies)

    def per_row(total: float | None, rows: int = 1) -> float | None:
        return None if total is None or not n_rows else round(total / n_rows * rows, DIGITS)

    likely = account.cost_likely
    use = {
        "plan": f"mean of {plan.samples}" if plan.kind == "mean" else plan.kind,
        "tokens_per_row": {"in": per_row(totals.tokens_in), "out": per_row(totals.tokens_out)},
        "cost_per_1000_rows": per_row(cost, 1000),
        "seconds_per_1000_rows": per_row(
            None if seconds_each is None else seconds_each * totals.responses, 1000
        ),
        "latency_seconds": (
            round(sum(seconds * n for seconds, n in latencies) / n_latencies, DIGITS)
            if latencies
            else None
        ),
        "concurrency": 1 if entry.in_process else runner.concurrency,
        "lm_calls": account.calls,
        "cached_calls": runner.journal.n_cached if runner.journal else 0,
        "tokens": {"in": account.tokens_in, "out": account.tokens_out},
        "cost_usd": None if likely is None else round(likely, DIGITS),
        "cost_unconfirmed_usd": round((likely or 0.0) - (account.cost or 0.0), DIGITS),
    }
    assert use.keys() == NO_USE.keys()
    return use
