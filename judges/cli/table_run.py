"""Run judges over a table: look it through, ask, and write each row as it is answered.

With --batch-api the replies come through a provider's batch files, at half price and within a day.
"""

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from data.columns import Columns
from data.tables.atomic_write import in_use, write_atomically
from data.tables.formats import (
    RowWriter,
    Table,
    partial_path,
    read_table_rows,
    written_format,
)
from data.tables.problems import RowsError, excerpt
from data.tables.text import Row, TableRow, decode_json
from data.tables.xlsx import split_sheet
from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError, UsageError
from judges import frozen
from judges.cli.estimate import Estimate, estimate_line, estimate_runs
from judges.cli.flags import mapping, request_options
from judges.client import (
    Account,
    BudgetSpentError,
    FailingRunError,
    FatalModelError,
    Price,
    find_price,
    holds_secret,
    is_embedded,
    price_of,
)
from judges.client.journal import Journal
from judges.client.session import ModelOptions, Session, budget_file_of
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.judging import Order, unusable
from judges.panel import Panel
from judges.terminal import Progress, print_error, print_note, print_output

if TYPE_CHECKING:
    from judges.batch import Batch
    from judges.client import Model

# What a provider's batch files cost, of the usual price.
DISCOUNT = 0.5
ID = "id"
# A row of the table and its judgements by judge, to the cells that are added to it.
NewCells = Callable[["TableRun", Row, Mapping[str, AnyJudgement]], Row]


class UnfinishedError(JudgesError, RuntimeError):
    """A run that ended early, in a state to go on from; the message says why and how."""


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
    def journal(self) -> Path | None:
        """Where replies are kept: beside the output, where they cost something."""
        return None if all(is_embedded(j.lm) for j in self.judges) else replies_file(self.args)

    def with_id(self, row: TableRow) -> Row:
        """The row's cells, with its id among them."""
        if self.id_column == ID:
            return row.cells
        number = row.line if self.id_column is None else row.cells.get(self.id_column)
        return {**row.cells, ID: number}


def replies_file(args: argparse.Namespace) -> Path:
    return Path(args.out.with_name(f"{args.out.name}.replies.jsonl"))


def texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """A row's texts under the names by which a judge knows them."""
    return {name: row.get(column) for name, column in columns.items()}


def prepare(
    judges: Sequence[Judge],
    args: argparse.Namespace,
    new_columns: Callable[[Collection[str]], Sequence[str]],
) -> TableRun:
    """Check the files, and read the whole table once; raises RowsError and MissingColumnError.

    `new_columns` are the columns that judgements get beside those of the table.
    """
    if args.api_base and holds_secret(args.api_base):
        raise UsageError("--api-base holds a password or a key: give it by OPENAI_API_KEY")
    columns_of = _text_columns(args.map)
    known = {name for judge in judges for name in judge.texts}
    # A mapping file has the names of labels, too.
    typed = {word.partition("=")[0] for word in args.map if "=" in word}
    if unknown := sorted(typed - known - {ID}):
        raise UsageError(
            f"--map {unknown[0]}: no such text; they are {', '.join(sorted(known))} (every other "
            "column is copied as it is, and needs no --map)"
        )
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
            notes += _columns_notes(texts, columns_of)
        columns.update(dict.fromkeys(row.cells))
        for judge in judges:
            row_texts = texts_of(row.cells, texts[judge.name])
            if unusable(judge.subject, row_texts) is None:
                usable_rows[judge.name] += 1
                characters[judge.name] += sum(len(str(text)) for text in row_texts.values())
    for note in notes:
        print_note(f"note: {args.data}: {note}")
    is_flat = args.out is not None and written_format(args.out).flat
    estimates = tuple(
        estimate
        for judge in judges
        for estimate in estimate_runs(
            judge,
            n_rows=usable_rows[judge.name],
            characters=characters[judge.name],
            orders=2 if args.order == "both" else 1,
            price=price_of(args.price),
        )
    )
    return TableRun(
        judges=tuple(judges),
        args=args,
        n_rows=n_rows,
        columns=tuple(columns),
        new_columns=tuple(new_columns(columns) if is_flat else ()),
        id_column=_id_column(tuple(columns), columns_of),
        texts=texts,
        estimates=estimates,
    )


def _text_columns(words: Sequence[str]) -> dict[str, str]:
    """{text: column} of --map; UsageError where a text is given two columns."""
    columns = mapping(words)
    for name, column in columns.items():
        if isinstance(column, list) and any(word.startswith(f"{name}=") for word in words):
            raise UsageError(f"--map {name}: {' and '.join(column)}; a text has one column")
    # Rows without ids have numbers: #line.
    return {
        name: column
        for name, column in columns.items()
        if isinstance(column, str) and column != "#line"
    }


def _columns_notes(texts: Mapping[str, Mapping[str, str]], mapping: Mapping[str, str]) -> list[str]:
    """Which texts stand in columns of another name, as a judge's labels had them."""
    renamed = {
        f"{name} from {excerpt(column)}": None
        for columns in texts.values()
        for name, column in columns.items()
        if name_key(name) != name_key(column) and name not in mapping
    }
    return [f"read {', '.join(renamed)}; --map beats it"] if renamed else []


def _id_column(columns: tuple[str, ...], mapping: Mapping[str, str]) -> str | None:
    """The column by which label files with these columns tell their rows apart."""
    if ID in columns:
        return ID
    if ID in mapping:
        return mapping[ID] if mapping[ID] in columns else None  # the rows' numbers: id=#line
    return Columns(Table(name="", sha256="", typed=True, columns=columns, rows=()), {}).find(ID)


def free_name(name: str, suffixes: Sequence[str], columns: Collection[str]) -> str:
    """The name for new columns NAME, NAME_SUFFIX: NAME_judge where one of these is there already.

    Raises RowsError where both are taken.
    """
    for free in (name, f"{name}_judge"):
        new = [f"{free}{suffix}" for suffix in suffixes]
        if not set(new) & set(columns):
            if free != name:
                print_note(f"note: there is a column {name} already: scores are written to {free}")
            return free
    raise RowsError(
        f"columns {name!r} and {name}_judge are there already; write .jsonl, or rename one"
    )


def _check_out(args: argparse.Namespace) -> None:
    """Refuse an --out that is missing, is the input, or exists without --resume."""
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
    if args.resume:
        return
    if out.exists():
        raise RowsError(f"{out} exists already; delete it, or name another --out")
    if partial_path(out).exists():
        raise RowsError(
            f"{partial_path(out)} is left of an unfinished run: --resume continues it; to start "
            "again, delete it"
        )


def write(
    run: TableRun, new_cells: NewCells, models: "Mapping[str, Model] | None" = None
) -> dict[str, Any]:
    """Judge all rows and write them with their judgements; returns calls, tokens, cost, seconds.

    `models` are opened already, by name, and are asked in place of opening them.
    """
    args, journal = run.args, run.journal
    if not models:
        print_note(estimate_line(run.estimates))
    started = time.monotonic()
    # Beside an unfinished output stands what it is made from, so that a resumed one is the same.
    settings_file = args.out.with_name(f"{args.out.name}.run.json")
    with ExitStack() as locks:
        for file in filter(None, (args.out, journal)):
            locks.enter_context(in_use(file))
        origin = _run_settings(run)
        if args.resume:
            _check_resumed(args.out, settings_file, origin)
        write_atomically(
            settings_file, f"{json.dumps(origin, indent=1)}\n".encode(), overwrite=True
        )
        columns = [*run.columns, *([] if ID in run.columns else [ID]), *run.new_columns]
        writer = RowWriter(args.out, columns=columns, overwrite=args.resume)
        complete = False
        try:
            cost = _write_rows(run, writer, new_cells, models)
            complete = True
        except (BudgetSpentError, FatalModelError) as error:
            # A wrong key or name at the very start leaves nothing to go on with.
            if isinstance(error, BudgetSpentError | FailingRunError) or writer.written:
                raise UnfinishedError(_unfinished(str(error), writer, run)) from error
            raise
        except OSError as error:
            reason = f"{error.filename or writer.partial_path}: {error.strerror or error}"
            raise UnfinishedError(_unfinished(reason, writer, run)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_unfinished("interrupted", writer, run)) from None
        finally:
            # Beside the replies of a complete run it says whose they are.
            resumable = args.resume or writer.partial_path.exists()
            if not (journal is not None if complete else resumable):
                settings_file.unlink(missing_ok=True)
        return {**cost, "seconds": round(time.monotonic() - started, 3)}


def _write_rows(
    run: TableRun, writer: RowWriter, new_cells: NewCells, models: "Mapping[str, Model] | None"
) -> dict[str, Any]:
    """Judge the rows and write each; what it cost, by the names that --json prints."""
    args = run.args
    budget_file = budget_file_of(run.journal) if run.journal else None
    if budget_file and not args.resume:
        budget_file.unlink(missing_ok=True)
    with Session(
        max_calls=args.max_calls,
        max_cost=args.max_cost,
        journal=run.journal,
        **request_options(args),
        budget_file=budget_file,
        # What was collected from a batch has been paid for.
        keep_going=bool(models),
        models=models,
    ) as session:
        progress = Progress(
            "judging", run.n_rows, sys.stderr, budget=session.budget, waiting=session.waiting
        )
        with writer, progress:
            for row, judgements in judged(run, session):
                writer.write({**row, **new_cells(run, row, judgements)})
                failed = any(judgement.failure for judgement in judgements.values())
                progress.step(failed=failed)
        cost = _cost(session.budget.accounts)
        if session.cache is None:
            return cost
        _print_cache_note(session)
        return {**cost, "cached_calls": session.cache.n_hits}


def _print_cache_note(session: Session) -> None:
    if session.cache is not None and (note := session.cache.note):
        print_note(note)


def judged(run: TableRun, session: Session) -> Iterator[tuple[Row, dict[str, AnyJudgement]]]:
    """Every row, with its id, and its judgements by judge; all requests are under way together."""
    rows, *copies = tee(map(run.with_id, read_table_rows(run.args.data)), len(run.judges) + 1)
    order: Order = run.args.order or "both"
    with ExitStack() as open_streams:
        streams = {}
        for judge, copy in zip(run.judges, copies, strict=True):
            texts = map(texts_of, copy, repeat(run.texts[judge.name]))
            client = session.client(judge.lm, api_base=judge.api_base)
            stream = judge.judge_rows(texts, client, order=order, seed=run.args.seed)
            streams[judge.name] = open_streams.enter_context(closing(stream))
        for row in rows:
            yield row, {name: next(stream) for name, stream in streams.items()}


def _run_settings(run: TableRun) -> dict[str, Any]:
    """Everything that determines an output but the replies: judges, models, rows, columns."""
    args = run.args
    path, sheet = split_sheet(args.data)
    with path.open("rb") as file:
        data = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "data": data if sheet is None else f"{data}:{sheet}",
        "judges": {judge.name: _fingerprint(judge) for judge in run.judges},
        "models": {judge.name: judge.lm for judge in run.judges},
        "order": args.order,
        "seed": args.seed,
        "columns": list(run.new_columns),
        "text columns": run.texts,
        "id column": run.id_column,
    }


def _fingerprint(judge: Judge) -> str:
    if isinstance(judge, Panel):
        return frozen.digest(to_builtins(judge.freeze()))
    parts = [judge.kind, judge.template(), asdict(judge.plan) if judge.plan else None]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _check_resumed(out: Path, settings_file: Path, origin: Mapping[str, Any]) -> None:
    """RowsError where --resume would write over what is not this very run's."""
    file = next((file for file in (partial_path(out), out) if file.exists()), None)
    if file is None:
        return
    advice = "delete it, or name another --out"
    try:
        earlier = decode_json(settings_file.read_bytes())
    except (OSError, ValueError):
        raise RowsError(f"{file}: not of a run that can be resumed; {advice}") from None
    for name, value in origin.items():
        if not isinstance(earlier, dict) or earlier.get(name) != value:
            raise RowsError(f"{file}: of a run with other {name}; {advice}")


def _unfinished(reason: str, writer: RowWriter, run: TableRun) -> str:
    replies = f"; replies are kept in {run.journal}" if run.journal else ""
    return (
        f"{reason}: {writer.written:,} of {run.n_rows:,} rows are in "
        f"{writer.partial_path}{replies}; run the same with --resume to go on"
    )


def _cost(accounts: Mapping[str, Account]) -> dict[str, Any]:
    """Models, calls, tokens and dollars of all accounts; no dollars where a price is unknown.

    Dollars hold an estimate for requests whose answer never came or did not tell; where there were
    any, `cost_unconfirmed_usd` says how much of it.
    """
    costs = [account.cost_likely for account in accounts.values()]
    known_costs = [cost for cost in costs if cost is not None]
    confirmed = math.fsum(account.cost or 0.0 for account in accounts.values())
    unconfirmed = round(math.fsum(known_costs) - confirmed, 6)
    known = len(known_costs) == len(costs)
    return {
        "lm": sorted(accounts),
        "lm_calls": sum(account.calls for account in accounts.values()),
        "tokens": {
            "in": sum(account.tokens_in for account in accounts.values()),
            "out": sum(account.tokens_out for account in accounts.values()),
        },
        "cost_usd": round(math.fsum(known_costs), 6) if known else None,
        **({"cost_unconfirmed_usd": unconfirmed} if known and unconfirmed > 0 else {}),
    }


def submit_batch(run: TableRun) -> int:
    """Write down every request that the journal does not answer, and start the batch."""
    args, journal = run.args, replies_file(run.args)
    batch = _batch(args, _one_model(run))
    price = price_of(args.price) or find_price(batch.state.lm)
    _check_batch_limits(run, price)
    if not batch.waiting:
        model = batch.queue(max_tokens=args.max_tokens)
        options = ModelOptions(
            journal=journal,
            max_tokens=args.max_tokens,
            reasoning_effort=args.reasoning_effort,
        )
        opened = {batch.state.lm: model}
        with in_use(journal), Session(models=opened, **options) as session:
            for _ in judged(run, session):
                pass
            _print_cache_note(session)
        if not model.written:
            print("nothing to submit: every reply is there already; leave out --batch-api")
            return 0
    if args.max_cost is not None and price is not None and batch.state.batch_id is None:
        _check_batch_cost(DISCOUNT * batch.worst_cost(price), args.max_cost)
    print_note(estimate_line(run.estimates, DISCOUNT))
    print_output(str(batch.submit()))
    return 0


def batch_status(args: argparse.Namespace) -> int:
    state = _batch(args).refresh()
    counts = {"done": state.done, "requests": state.n_requests, "answered": state.n_completed}
    print_output(json.dumps(counts) if args.json else str(state))
    return 0


def collect_batch(run: TableRun) -> Mapping[str, "Model"]:
    """Fetch the answers into the journal; returns the model that stands for them."""
    batch = _batch(run.args)
    with in_use(replies_file(run.args)), Journal(replies_file(run.args)) as journal:
        failures = batch.collect(journal)
    if failures:
        print_error(
            f"{len(failures):,} requests failed in the batch; to ask them again, move "
            f"{run.args.out} away and run the same command without --batch-api: it keeps the others"
        )
    return {_one_model(run): batch.collected(failures)}


def _batch(args: argparse.Namespace, lm: str | None = None) -> "Batch":
    """The batch's requests and state, beside the output."""
    from judges.batch import Batch

    if args.out is None:
        raise UsageError("--batch-api needs --out FILE, the same in all three steps")
    folder = args.out.with_name(f"{args.out.name}.batch")
    return Batch(folder, lm=lm, api_base=args.api_base, api_key_env=args.api_key_env)


def _one_model(run: TableRun) -> str:
    """The model that all judges ask; UsageError where they ask several."""
    models = {part.lm for judge in run.judges for part in judge.parts}
    # What a panel asks here, for free, needs no batch.
    names = sorted(name for name in models if not is_embedded(name)) or sorted(models)
    if len(names) != 1:
        raise UsageError(f"--batch-api takes one model; these judges ask {', '.join(names)}")
    return names[0]


def _check_batch_limits(run: TableRun, price: Price | None) -> None:
    """UsageError where the requests exceed --max-calls, or --max-cost cannot be held."""
    args, requests = run.args, sum(estimate.requests for estimate in run.estimates)
    if args.max_calls is not None and requests > args.max_calls:
        raise UsageError(f"{requests:,} requests are more than --max-calls {args.max_calls:,}")
    if args.max_cost is not None and price is None:
        raise UsageError(
            f"the batch's price is unknown; --max-cost is ${args.max_cost:g}: give the price "
            "(--price IN,OUT), or --max-calls instead"
        )


def _check_batch_cost(worst: float, limit: float) -> None:
    """UsageError where the batch may cost more than --max-cost."""
    if worst > limit:
        raise UsageError(
            f"the batch may cost ${worst:.4f} with each reply at its longest; --max-cost is "
            f"${limit:g}: raise it, or lower --max-tokens"
        )
