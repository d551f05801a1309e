"""dspy-judges score and winrate: judge the rows of a table, write each as it is answered, sum up.

While a run is unfinished there stand OUT.partial and, where a model elsewhere is asked, OUT's store
of replies: the same command goes on from it. With --batch-api the replies come through a provider's
batch files, at half price and within a day.
"""

import argparse
import json
import math
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import repeat, tee
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from data.columns import Columns
from data.tables.arrow import ParquetSink
from data.tables.atomic_write import in_use
from data.tables.formats import RowWriter, Table, partial_path, read_table_rows, written_format
from data.tables.problems import RowsError
from data.tables.text import Row
from data.tables.xlsx import split_sheet
from dspy_judges.errors import JudgesError, UsageError
from judges.cli.flags import follow, mapping, reasoning_as_asked, request_options
from judges.client import (
    CHARACTERS_PER_TOKEN,
    BudgetSpentError,
    FatalModelError,
    Price,
    Session,
    estimate_tokens,
    find_price,
    gives_n_replies,
    is_embedded,
    price_of,
)
from judges.dimension import Comparison
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.judging import Order, unusable
from judges.loading import load
from judges.scoring import reply_tokens
from judges.terminal import Progress, print_error, print_note, print_output
from judges.winrate import WinRate, text_length, win_rate

if TYPE_CHECKING:
    from judges.batch import Batch

ID = "id"
DIGITS = 3


class UnfinishedError(JudgesError, RuntimeError):
    """A run that ended early, in a state to go on from; the message says why and how."""


# What a run would take


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests and tokens of one model over a table; a token is taken as four characters."""

    lm: str
    requests: int
    tokens_in: int
    tokens_out: int
    price: Price | None = None


def estimate_runs(
    judge: Judge, *, n_rows: int, characters: int, orders: int, price: Price | None = None
) -> list[Estimate]:
    """Of each judge that asks, for rows whose texts together have so many characters.

    `price` is the user's; of a panel's models it holds for those that no table knows.
    """
    estimates = []
    for part in judge.parts:
        samples, prompts = part.plan.samples if part.plan else 1, n_rows * orders
        # Samples that are asked one by one pay for the prompt each time.
        times = 1 if gives_n_replies(part.lm) else samples
        texts = characters * orders // CHARACTERS_PER_TOKEN
        estimates.append(
            Estimate(
                lm=part.lm,
                requests=prompts * times,
                tokens_in=(estimate_tokens(part.template()) * prompts + texts) * times,
                tokens_out=reply_tokens(part.prompt) * prompts * samples,
                price=price if part is judge else find_price(part.lm) or price,
            )
        )
    return estimates


def total_price(estimates: Sequence[Estimate]) -> float | None:
    """US dollars of all; None where a price is unknown."""
    total = 0.0
    for estimate in estimates:
        price = estimate.price or find_price(estimate.lm)
        if price is None:
            return None
        of_length = price.at(estimate.tokens_in / max(estimate.requests, 1))
        total += of_length.cost(estimate.tokens_in, estimate.tokens_out, 0)
        total += price.per_request * estimate.requests
    return total


def _estimate_record(estimates: Sequence[Estimate], discount: float = 1.0) -> dict[str, Any]:
    """What --dry-run --json prints."""
    price = total_price(estimates)
    return {
        "lm": sorted({estimate.lm for estimate in estimates}),
        "requests": sum(estimate.requests for estimate in estimates),
        "tokens": {
            "in": sum(estimate.tokens_in for estimate in estimates),
            "out": sum(estimate.tokens_out for estimate in estimates),
        },
        "cost_usd": None if price is None else price * discount,
    }


def _estimate_line(estimates: Sequence[Estimate], discount: float = 1.0) -> str:
    record = _estimate_record(estimates, discount)
    tokens, price = record["tokens"], record["cost_usd"]
    dollars = "price unknown" if price is None else f"about ${price:,.4f}" if price else "free"
    return (
        f"estimate: {record['requests']:,} requests, about {tokens['in']:,} tokens in and "
        f"{tokens['out']:,} out; {', '.join(record['lm'])}, {dollars}"
    )


# The table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """Judges, the table they read, and what a run over it would take.

    `columns` are all columns of the table in the order met, `new_columns` those that judgements
    get in a flat file; `texts` says, for each judge, which column holds which of its texts.
    `id_column` holds the rows' ids: "id", another column that is copied to it, or None, where the
    rows' numbers are their ids, as for those who read labels from the same file.
    """

    judges: tuple[Judge, ...]
    args: argparse.Namespace
    n_rows: int
    columns: tuple[str, ...]
    new_columns: tuple[str, ...]
    id_column: str | None
    texts: Mapping[str, Mapping[str, str]]
    estimates: tuple[Estimate, ...]

    @property
    def store(self) -> Path | None:
        """Where requests and replies are kept: beside the output, where they cost something."""
        if all(is_embedded(part.lm) for judge in self.judges for part in judge.parts):
            return None
        out: Path = self.args.out
        return out.with_name(f"{out.name}.replies.sqlite")

    def rows(self) -> Iterator[Row]:
        """The table's rows, each with its id among its cells."""
        for line, cells in read_table_rows(self.args.data):
            if self.id_column == ID:
                yield cells
            else:
                yield {**cells, ID: cells.get(self.id_column) if self.id_column else line}

    @property
    def written_columns(self) -> list[str]:
        return [*self.columns, *([] if ID in self.columns else [ID]), *self.new_columns]

    def settings(self) -> dict[str, Any]:
        """Everything that determines an output but the replies: judges, models, rows, columns."""
        path, sheet = split_sheet(self.args.data)
        with path.open("rb") as file:
            data = file_digest(file, "sha256").hexdigest()
        return {
            "data": data if sheet is None else f"{data}:{sheet}",
            "judges or models": [sha256(j.dumps().encode()).hexdigest() for j in self.judges],
            "order": self.args.order,
            "seed": self.args.seed,
            "columns": list(self.new_columns),
            "text columns": {name: dict(columns) for name, columns in self.texts.items()},
            "id column": self.id_column,
        }


def _run(results: "Scores | Verdicts", args: argparse.Namespace) -> int:
    """Estimate, submit, or judge and report, as the flags say; the exit code."""
    if args.batch_api == "status":
        return _batch_status(args, results.judges)
    run = _prepare(results, args)
    if args.dry_run:
        record = _estimate_record(run.estimates)
        print(json.dumps(record, indent=1) if args.json else _estimate_line(run.estimates))
        return 0
    if args.batch_api == "submit":
        return _submit_batch(run)
    if args.batch_api == "collect" and not _collect_batch(run):
        return 1
    results.report(run, _write(run, results))
    return 0


def _prepare(results: "Scores | Verdicts", args: argparse.Namespace) -> TableRun:
    """Check the files, and read the whole table once; raises RowsError and MissingColumnError."""
    judges = results.judges
    columns_of = _text_columns(args.map, judges)
    if not args.dry_run:
        _check_out(args)
    n_rows = 0
    columns: dict[str, None] = {}
    texts: dict[str, dict[str, str]] = {}
    # Of each judge: the rows that it can judge, and the characters of their texts.
    usable_rows, characters = Counter[str](), Counter[str]()
    notes: list[str] = []
    for n_rows, row in enumerate(read_table_rows(args.data, notes), start=1):
        if n_rows == 1:
            texts = {judge.name: judge.find_columns(row.cells, columns_of) for judge in judges}
        columns.update(dict.fromkeys(row.cells))
        for judge in judges:
            row_texts = _texts_of(row.cells, texts[judge.name])
            if unusable(judge.subject, row_texts) is None:
                usable_rows[judge.name] += 1
                characters[judge.name] += sum(len(str(text)) for text in row_texts.values())
    for note in notes:
        print_note(f"note: {args.data}: {note}")
    estimates = [
        estimate
        for judge in judges
        for estimate in estimate_runs(
            judge,
            n_rows=usable_rows[judge.name],
            characters=characters[judge.name],
            orders=2 if args.order == "both" else 1,
            price=price_of(args.price),
        )
    ]
    form = None if args.out is None else written_format(args.out)
    run = TableRun(
        judges=tuple(judges),
        args=args,
        n_rows=n_rows,
        columns=tuple(columns),
        new_columns=tuple(results.new_columns(columns) if form and form.flat else ()),
        id_column=_id_column(tuple(columns), columns_of),
        texts=texts,
        estimates=tuple(estimates),
    )
    if form and form.open_writer is ParquetSink and not args.dry_run:
        # Before anything is asked and paid for.
        sink = ParquetSink(args.out, run.written_columns)
        for cells in run.rows():
            sink.write(cells)
        sink.table()
    return run


def _text_columns(words: Sequence[str], judges: Sequence[Judge]) -> dict[str, str]:
    """{text: column} of --map; UsageError for what no judge reads, or a text of two columns."""
    columns = mapping(words)
    known = {name for judge in judges for name in judge.texts}
    # A mapping file has the names of labels, too.
    typed = {word.partition("=")[0] for word in words if "=" in word}
    if unknown := sorted(typed - known - {ID}):
        raise UsageError(
            f"--map {unknown[0]}: no such text; they are {', '.join(sorted(known))} (every other "
            "column is copied as it is, and needs no --map)"
        )
    for name in typed:
        if isinstance(column := columns[name], list):
            raise UsageError(f"--map {name}: {' and '.join(column)}; a text has one column")
    # Rows without ids have numbers: #line.
    return {
        name: column
        for name, column in columns.items()
        if isinstance(column, str) and column != "#line"
    }


def _id_column(columns: tuple[str, ...], mapping: Mapping[str, str]) -> str | None:
    """The column by which label files with these columns tell their rows apart."""
    if ID in columns:
        return ID
    if ID in mapping:
        return mapping[ID] if mapping[ID] in columns else None  # the rows' numbers: id=#line
    return Columns(Table(name="", sha256="", typed=True, columns=columns, rows=()), {}).find(ID)


def _texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """A row's texts under the names by which a judge knows them."""
    return {name: row.get(column) for name, column in columns.items()}


def _free_name(name: str, suffixes: Sequence[str], columns: Collection[str]) -> str:
    """The name for new columns NAME, NAME_SUFFIX: NAME_judge where one of these is there already.

    Raises RowsError where both are taken.
    """
    for free in (name, f"{name}_judge"):
        if not {f"{free}{suffix}" for suffix in suffixes} & set(columns):
            if free != name:
                print_note(f"note: there is a column {name} already: scores are written to {free}")
            return free
    raise RowsError(
        f"columns {name!r} and {name}_judge are there already; write .jsonl, or rename one"
    )


def _check_out(args: argparse.Namespace) -> None:
    """Refuse an --out that is missing, is the input, or exists."""
    out = args.out
    if out is None:
        raise UsageError("--out FILE is needed, or --dry-run")
    written_format(out)
    if not out.parent.is_dir():
        raise RowsError(f"{out}: the folder {out.parent} does not exist")
    data, _ = split_sheet(args.data)
    # Not Path.resolve, which fails on links in a circle.
    if os.path.realpath(out) == os.path.realpath(data):
        raise UsageError("--out is --data itself; write to another file")
    if out.exists():
        raise RowsError(f"{out} exists already; delete it, or name another --out")


# Asking


@contextmanager
def _session(run: TableRun, *, is_last: bool = False) -> Iterator[Session]:
    """A session on the run's store, whose settings are those that the run was begun with.

    The store stays only while there is something to go on from: not where nothing was answered,
    and not once the session that `is_last` has ended.
    """
    args = run.args
    limits = {"max_calls": args.max_calls, "max_cost": args.max_cost}
    options = {**limits, **request_options(args), "store": run.store}
    with in_use(args.out), Session(keep_going=False, **options) as session:
        if session.store is not None:
            settings: dict[str, Any] = json.loads(json.dumps(run.settings()))
            begun = session.store.read_settings()
            if begun is None:
                session.store.write_settings(settings)
            elif other := [name for name, value in settings.items() if begun.get(name) != value]:
                raise RowsError(
                    f"{session.store.path} is of an unfinished run with other {', '.join(other)}: "
                    "give the same again to go on, or delete that file, or name another --out"
                )
            elif n := session.budget.answered:
                print_note(f"goes on with {session.store.path}: {n:,} replies are there")
        ended = False
        try:
            yield session
            ended = is_last
        finally:
            if session.store is not None and (ended or not _has_replies(session)):
                session.store.remove()


def _has_replies(session: Session) -> bool:
    """Whether there is anything to go on from."""
    totals = session.store.totals() if session.store else ()
    return any(total.cost or total.tokens_out for total in totals)


def _write(run: TableRun, results: "Scores | Verdicts") -> dict[str, Any]:
    """Judge all rows and write them with their judgements; returns calls, tokens, cost, seconds."""
    started = time.monotonic()
    print_note(_estimate_line(run.estimates))
    out: Path = run.args.out
    with _session(run, is_last=True) as session:
        progress = Progress("judging", run.n_rows, sys.stderr, budget=session.budget)
        try:
            with (
                RowWriter(out, columns=run.written_columns, overwrite=True) as writer,
                progress,
                closing(_judged(run, session)) as judged,
            ):
                for row, judgements in judged:
                    writer.write({**row, **results.new_cells(run, row, judgements)})
                    progress.step(failed=any(each.failure for each in judgements.values()))
        except (KeyboardInterrupt, BudgetSpentError, FatalModelError, OSError) as error:
            kept = _has_replies(session)
            if isinstance(error, FatalModelError) and not kept:
                raise  # a wrong key or name leaves nothing to go on with
            raise _unfinished(error, run, progress.done, kept=kept) from error
        if session.cache is not None and (note := session.cache.note):
            print_note(note)
        return {**_cost(session), "seconds": round(time.monotonic() - started, 3)}


def _unfinished(error: BaseException, run: TableRun, n_rows: int, *, kept: bool) -> BaseException:
    """What to raise where a run ended early: how far it came, and how it goes on."""
    rows = f"{n_rows:,} of {run.n_rows:,} rows are in {partial_path(run.args.out)}"
    resumed = "the same command goes on" if kept else "the same command starts again"
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(f"interrupted: {rows}; {resumed}")
    if isinstance(error, BudgetSpentError):  # which says itself how to go on
        return UnfinishedError(f"{error}: {rows}")
    reason = error.strerror if isinstance(error, OSError) else error
    return UnfinishedError(f"{reason}: {rows}; {resumed}")


def _judged(
    run: TableRun, session: Session
) -> Generator[tuple[Row, dict[str, AnyJudgement]], None, None]:
    """Every row, with its id, and its judgements by judge; all requests are under way together."""
    rows, *copies = tee(run.rows(), len(run.judges) + 1)
    order: Order = run.args.order or "both"
    with ExitStack() as open_streams:
        streams = {}
        for judge, copy in zip(run.judges, copies, strict=True):
            texts = map(_texts_of, copy, repeat(run.texts[judge.name]))
            client = session.client(judge.lm, api_base=judge.api_base)
            stream = judge.judge_rows(texts, client, order=order, seed=run.args.seed)
            streams[judge.name] = open_streams.enter_context(closing(stream))
        for row in rows:
            yield row, {name: next(stream) for name, stream in streams.items()}


def _cost(session: Session) -> dict[str, Any]:
    """Models, calls, tokens and dollars over all starts; no dollars where a price is unknown.

    Dollars hold at worst the requests whose answer never came; `cost_unconfirmed_usd` says how much
    that is, where there are any.
    """
    accounts = {account.name: account for account in session.accounts}
    costs = [account.cost for account in accounts.values()]
    known = [cost for cost in costs if cost is not None]
    unconfirmed = math.fsum(account.cost_unconfirmed for account in accounts.values())
    total = round(math.fsum([*known, unconfirmed]), 6)
    return {
        "lm": sorted(accounts),
        "lm_calls": sum(account.calls for account in accounts.values()),
        "cached_calls": sum(account.cached for account in accounts.values()),
        "tokens": {
            "in": sum(account.tokens_in for account in accounts.values()),
            "out": sum(account.tokens_out for account in accounts.values()),
        },
        "cost_usd": total if len(known) == len(costs) else None,
        **({"cost_unconfirmed_usd": round(unconfirmed, 6)} if unconfirmed else {}),
    }


# Batch files


def _submit_batch(run: TableRun) -> int:
    """Write down every request that nothing answers yet, and start the batch."""
    from judges.batch import DISCOUNT

    args, lm = run.args, _one_model(run.judges)
    batch = _batch(args, lm)
    if not batch.state.run:
        with _session(run) as session:
            assert session.store is not None  # of a run that asks a provider
            queue = batch.queue(session.store, price_of(args.price) or find_price(lm))
            recording = Session(models={lm: queue}, **request_options(args))
            with recording, closing(_judged(run, recording)) as judged:
                for _ in judged:
                    pass
        if not queue.queued:
            print("nothing to submit: every reply is there already; leave out --batch-api")
            return 0
        queue.check(args.max_calls, args.max_cost)
    print_note(_estimate_line(run.estimates, DISCOUNT))
    print_output(str(batch.submit()))
    return 0


def _batch_status(args: argparse.Namespace, judges: Sequence[Judge]) -> int:
    state = _batch(args, _one_model(judges)).refresh()
    counts = {"done": state.done, "requests": state.n_requests, "answered": state.n_completed}
    print_output(json.dumps(counts) if args.json else str(state))
    return 0


def _collect_batch(run: TableRun) -> bool:
    """Fetch the answers into the store; whether there is one to every request."""
    args, lm = run.args, _one_model(run.judges)
    with _session(run) as session:
        assert session.store is not None
        price = price_of(args.price) or find_price(lm)
        failures = _batch(args, lm).collect(session.store, price)
    if failures:
        print_error(
            f"{len(failures):,} requests have no answer ({failures[0]}); the others are kept. Run "
            "the same command without --batch-api to ask these now, or with --batch-api submit for "
            "another batch"
        )
    return not failures


def _batch(args: argparse.Namespace, lm: str) -> "Batch":
    """The batch of the run that writes --out."""
    from judges.batch import Batch

    if args.out is None:
        raise UsageError("--batch-api needs --out FILE, the same in all three steps")
    return Batch(args.out, lm, api_base=args.api_base, api_key_env=args.api_key_env)


def _one_model(judges: Sequence[Judge]) -> str:
    """The model that all judges ask; UsageError where they ask several."""
    models = {part.lm for judge in judges for part in judge.parts}
    # What a panel asks here, for free, needs no batch.
    names = sorted(name for name in models if not is_embedded(name)) or sorted(models)
    if len(names) != 1:
        raise UsageError(f"--batch-api takes one model; these judges ask {', '.join(names)}")
    return names[0]


# score


def score(args: argparse.Namespace) -> int:
    """Judge every row by rating judges, and print each judge's mean."""
    return _run(Scores(args), args)


def _asked(source: str, args: argparse.Namespace) -> Judge:
    """The judge as the flags say it is asked: no file chooses where texts and keys go."""
    judge = follow(reasoning_as_asked(load(source), source, args), args)
    judge.check_origins()
    return judge


class Scores:
    """Rating judges' scores, and each judge's mean."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.judges: list[Judge] = []
        for source in args.judges:
            judge = _asked(source, args)
            if judge.kind == "pairwise":
                raise UsageError(f"{source} compares two outputs; use: dspy-judges winrate")
            if any(judge.name == other.name for other in self.judges):
                raise UsageError(f"two judges are called {judge.name!r}; score them in two runs")
            self.judges.append(judge)
        self.averages = {judge.name: Average() for judge in self.judges}
        # Of each judge: the columns of score, failure and, where it gives one, rationale.
        self.columns: dict[str, list[str]] = {}

    def new_columns(self, columns: Collection[str]) -> list[str]:
        for judge in self.judges:
            suffixes = ["", "_failure"]
            if any(output.name == "rationale" for output in judge.prompt.outputs):
                suffixes.append("_rationale")
            name = _free_name(judge.name, suffixes, columns)
            self.columns[judge.name] = [f"{name}{suffix}" for suffix in suffixes]
        return [column for new in self.columns.values() for column in new]

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        cells: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        for name, judgement in judgements.items():
            self.averages[name].add(judgement)
            rounded = None if judgement.failure else round(judgement.score, DIGITS)
            entries[name] = {**judgement.as_json(), "score": rounded}
            values = (rounded, judgement.failure, judgement.rationale)
            # A judge without a rationale has one column less; JSON Lines have none.
            cells.update(zip(self.columns.get(name, ()), values, strict=False))
        if run.new_columns:
            return cells
        earlier = row.get("judgements")
        return {"judgements": {**(earlier if isinstance(earlier, dict) else {}), **entries}}

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        averages = self.averages
        if run.args.json:
            record = {
                "out": str(run.args.out),
                "rows": run.n_rows,
                "judges": {name: average.record() for name, average in averages.items()},
                **cost,
            }
            print(json.dumps(record, indent=1))
        else:
            width = max(map(len, averages))
            print_output("\n".join(f"{name:<{width}}  {a}" for name, a in averages.items()))
        if not any(average.scores for average in averages.values()):
            reason = next(iter(averages[self.judges[0].name].failures))
            raise RowsError(f"no row got a score; the first reason: {reason}")


class Average:
    """One judge's scores and failures, summed up."""

    def __init__(self) -> None:
        self.scores = array("d")
        self.unparsable = 0
        self.failures = Counter[str]()

    def add(self, judgement: Judgement) -> None:
        self.unparsable += judgement.unparsable
        if judgement.failure is not None:
            self.failures[judgement.failure[:200]] += 1
        else:
            self.scores.append(judgement.score)

    def record(self) -> dict[str, Any]:
        """What --json prints: the mean, the standard deviation, and counts."""
        mean = fmean(self.scores) if self.scores else None
        squares = [(score - (mean or 0.0)) ** 2 for score in self.scores]
        return {
            "mean": mean,
            "sd": math.sqrt(fmean(squares)) if squares else None,
            "n": len(self.scores),
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.unparsable,
            "failures": dict(self.failures.most_common(20)),
        }

    def __str__(self) -> str:
        record = self.record()
        figures = "mean {mean:.3f}  sd {sd:.3f}".format_map(record) if self.scores else "no score"
        return f"{figures}  n={record['n']:,} ({record['n_failed']:,} failed)"


# winrate


def winrate(args: argparse.Namespace) -> int:
    """Compare the two outputs of every pair, and print how often A wins."""
    return _run(Verdicts(args), args)


class Verdicts:
    """A pairwise judge's verdicts, and the win rate."""

    KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, args: argparse.Namespace) -> None:
        judge = _asked(args.judge, args)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{args.judge} rates one output; use: dspy-judges score")
        self.judges = [judge]
        self.subject = judge.subject
        self.verdicts: list[Verdict] = []
        self.documents: list[int] = []
        self.lengths: list[tuple[int, int]] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        suffixes = [f"_{key}" for key in self.KEYS]
        name = _free_name("verdict", suffixes, columns)
        return [f"{name}{suffix}" for suffix in suffixes]

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        verdict = judgements[self.subject.name]
        texts = _texts_of(row, run.texts[self.subject.name])
        length_a, length_b = (text_length(str(texts[name] or "")) for name in self.subject.fields)
        self.verdicts.append(verdict)
        self.documents.append(hash(tuple(str(texts[name]) for name in self.subject.inputs)))
        self.lengths.append((length_a, length_b))
        entry = {key: getattr(verdict, key) for key in self.KEYS}
        if not run.new_columns:
            return {"verdict": entry}
        return dict(zip(run.new_columns, entry.values(), strict=True))

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        rate = win_rate(self.verdicts, documents=self.documents, lengths=self.lengths)
        if run.args.json:
            print(json.dumps({**rate.summary(), "out": str(run.args.out), **cost}, indent=1))
        else:
            print_output(_win_rate_text(self.subject.name, rate, flips=run.args.order == "both"))
        if rate.n == 0:
            raise RowsError(f"no pair got a verdict; the first reason: {self.verdicts[0].failure}")


def _win_rate_text(name: str, rate: WinRate, *, flips: bool) -> str:
    lines = [
        f"{name} win rate of A {_figure(rate.win_rate_a)} "
        f"[{_figure(rate.low)}, {_figure(rate.high)}] "
        f"n={rate.n:,} pairs ({rate.n_ties:,} ties, {rate.n_failed:,} failed)"
    ]
    if flips:
        lines.append(f"  choices that flip with the order   {_figure(rate.flip_rate)}")
    lines += [
        f"  preference for the first place     {_figure(rate.position_bias, '+')} "
        f"[{_figure(rate.position_bias_low, '+')}, {_figure(rate.position_bias_high, '+')}]",
        f"  preference for the longer output   {_figure(rate.length_bias, '+')} (in characters)",
        f"  win rate of A at equal length      {_figure(rate.length_controlled_win_rate_a)}",
    ]
    return "\n".join(lines)


def _figure(value: float, sign: str = "") -> str:
    return "undefined" if math.isnan(value) else f"{value:{sign}.3f}"
