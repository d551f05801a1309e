"""Run judges over a table: look it through, ask, and write each row as it is answered.

With --batch-api the replies come through a provider's batch files, at half price and within a day.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from itertools import repeat, tee
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import to_builtins

from data.tables.atomic_write import in_use, write_atomically
from data.tables.formats import RowWriter, partial_path, read_rows, written_format
from data.tables.problems import RowsError, excerpt
from data.tables.text import Row, decode_json
from data.tables.xlsx import split_sheet
from dspy_judges.column_names import name_key
from judges import frozen
from judges.cli.arguments import mapping_of, request_options
from judges.cli.estimate import Estimate, estimate_line, estimate_runs, total_price
from judges.cli.shell import print_error, print_note, print_output
from judges.errors import JudgesError, UsageError
from judges.inference.budget import Account, BudgetSpentError
from judges.inference.progress import Progress
from judges.inference.runner import FailingRunError
from judges.inference.session import ModelOptions, Session, budget_file_of
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.judging import Order, unusable
from judges.models import FatalModelError
from judges.models.journal import Journal
from judges.models.prices import price_of
from judges.models.redaction import holds_secret
from judges.panel import Panel
from judges.protocol import is_embedded

if TYPE_CHECKING:
    from judges.protocol import Model

# What a provider's batch files cost, of the usual price.
DISCOUNT = 0.5
PIPE = Path("-")
# A row of the table and its judgements by judge, to the row that is written.
MakeOutputRow = Callable[[Row, Mapping[str, AnyJudgement]], Row]


class _EndpointOptions(TypedDict):
    api_base: str | None
    api_key_env: str | None


class UnfinishedError(JudgesError, RuntimeError):
    """A run that ended early, in a state to go on from; the message says why and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """Judges, the table they read, and what a run over it would take.

    `columns` are all columns of the table in the order met, `new_columns` those that judgements
    get in a flat file; `texts` says, for each judge, which column holds which of its texts.
    """

    judges: tuple[Judge, ...]
    args: argparse.Namespace
    n_rows: int
    columns: tuple[str, ...]
    new_columns: tuple[str, ...]
    texts: Mapping[str, Mapping[str, str]]
    estimates: tuple[Estimate, ...]

    @property
    def journal(self) -> Path | None:
        """Where replies are kept: as asked, or beside the output where replies cost something."""
        embedded = all(is_embedded(judge.lm) for judge in self.judges)
        return None if embedded and not self.args.journal else replies_file(self.args)


def replies_file(args: argparse.Namespace) -> Path:
    return Path(args.journal or args.out.with_name(f"{args.out.name}.replies.jsonl"))


def texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """A row's texts under the names by which a judge knows them."""
    return {name: row.get(column) for name, column in columns.items()}


@contextmanager
def piped(args: argparse.Namespace) -> Iterator[None]:
    """Have files stand for stdin and stdout where these are meant, as the table is read twice.

    Rows go to stdout once all are judged, and what else is printed there to stderr.
    """
    reads, writes = args.data == PIPE, args.out == PIPE
    args.to_stdout = writes
    if args.format and not (reads or writes):
        raise UsageError("--format is for --data - or --out -; a file's ending says its own")
    if writes and (args.resume or args.batch_api):
        flag = "--resume" if args.resume else "--batch-api"
        raise UsageError(f"--out - leaves nothing to go on from: {flag} needs --out FILE")
    if not (reads or writes):
        yield
        return
    with TemporaryDirectory(prefix="judges-") as folder:
        ending = args.format or "jsonl"
        if reads:
            args.data = Path(folder, f"stdin.{ending}")
            with args.data.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        if not writes:
            yield
            return
        args.out = Path(folder, f"stdout.{ending}")
        try:
            with redirect_stdout(sys.stderr):
                yield
        except (UnfinishedError, KeyboardInterrupt) as error:
            reason = str(error.__cause__ or "interrupted").rstrip(".")
            journal_note = f"; replies are kept in {args.journal}" if args.journal else ""
            raise type(error)(f"{reason}: nothing was written to stdout{journal_note}") from error
        finally:
            if args.out.exists():
                with args.out.open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.buffer.flush()


def out_name(args: argparse.Namespace) -> str:
    return str(PIPE if args.to_stdout else args.out)


def _columns_notes(texts: Mapping[str, Mapping[str, str]], mapping: Mapping[str, str]) -> list[str]:
    """Which texts stand in columns of another name, as a judge's labels had them."""
    renamed = {
        f"{name} from {excerpt(column)}": None
        for columns in texts.values()
        for name, column in columns.items()
        if name_key(name) != name_key(column) and name not in mapping
    }
    return [f"read {', '.join(renamed)}; --map beats it"] if renamed else []


def prepare(
    judges: Sequence[Judge], args: argparse.Namespace, new_columns: Sequence[str]
) -> TableRun:
    """Check the files, and read the whole table once; raises RowsError and MissingColumnError."""
    if args.api_base and holds_secret(args.api_base):
        raise UsageError("--api-base holds a password or a key: give it by OPENAI_API_KEY")
    mapping = mapping_of(args.map)
    known = {name for judge in judges for name in judge.row_keys}
    if unknown := sorted(mapping.keys() - known):
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
    for n_rows, row in enumerate(read_rows(args.data, notes), start=1):
        if n_rows == 1:
            texts = {judge.name: judge.find_columns(row, mapping) for judge in judges}
            notes += _columns_notes(texts, mapping)
        columns.update(dict.fromkeys(row))
        for judge in judges:
            row_texts = texts_of(row, texts[judge.name])
            if unusable(judge.subject, row_texts) is None:
                usable_rows[judge.name] += 1
                characters[judge.name] += sum(len(str(text)) for text in row_texts.values())
    for note in notes:
        print_note(f"note: {args.data}: {note}")
    clashes = sorted(columns.keys() & set(new_columns))
    if clashes and args.out and written_format(args.out).flat:
        raise RowsError(
            f"{args.data}: has a column {clashes[0]!r} already, which a score would write over; "
            "give --prefix judge_, or write .jsonl"
        )
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
        new_columns=tuple(new_columns),
        texts=texts,
        estimates=estimates,
    )


def _check_out(args: argparse.Namespace) -> None:
    """Refuse an --out that is missing, is an input, or exists without --force or --resume."""
    out = args.out
    if out is None:
        raise UsageError("--out FILE is needed, or --dry-run")
    written_format(out)
    if not out.parent.is_dir():
        raise RowsError(f"{out}: the folder {out.parent} does not exist")
    # Not Path.resolve, which fails on links in a circle.
    real = os.path.realpath
    data, _ = split_sheet(args.data)
    if real(out) == real(data):
        raise UsageError("--out is --data itself; write to another file")
    if args.journal is not None and real(args.journal) in {real(out), real(data)}:
        raise UsageError("--journal is --out or --data itself; name another file")
    if args.force or args.resume:
        return
    if out.exists():
        raise RowsError(f"{out} exists already; --force writes over it")
    if partial_path(out).exists():
        raise RowsError(
            f"{partial_path(out)} is left of an unfinished run: --resume goes on with it, "
            "--force starts again"
        )


def write(
    run: TableRun, fill: MakeOutputRow, models: "Mapping[str, Model] | None" = None
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
        if args.resume and not args.force:
            _check_resumed(args.out, settings_file, origin)
        write_atomically(
            settings_file, f"{json.dumps(origin, indent=1)}\n".encode(), overwrite=True
        )
        writer = RowWriter(
            args.out,
            columns=list(dict.fromkeys([*run.columns, *run.new_columns])),
            overwrite=args.force or args.resume,
        )
        complete = False
        try:
            cost = _write_rows(run, writer, fill, models)
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
            beside_replies = journal is not None and args.journal is None
            resumable = args.resume or writer.partial_path.exists()
            if not (beside_replies if complete else resumable):
                settings_file.unlink(missing_ok=True)
        return {**cost, "seconds": round(time.monotonic() - started, 3)}


def _write_rows(
    run: TableRun, writer: RowWriter, fill: MakeOutputRow, models: "Mapping[str, Model] | None"
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
        keep_going=args.keep_going or bool(models),
        models=models,
    ) as session:
        progress = Progress(
            "judging", run.n_rows, sys.stderr, budget=session.budget, waiting=session.waiting
        )
        with writer, progress:
            for row, judgements in judged(run, session):
                writer.write(fill(row, judgements))
                failed = any(judgement.failure for judgement in judgements.values())
                progress.step(failed=failed)
        if args.engine != "local":
            return {}  # Ray's workers keep their own accounts
        cost = _cost(session.budget.accounts)
        if session.cache is None:
            return cost
        _print_cache_note(session)
        return {**cost, "cached_calls": session.cache.n_hits}


def _print_cache_note(session: Session) -> None:
    if session.cache is not None and (note := session.cache.note):
        print_note(note)


def judged(run: TableRun, session: Session) -> Iterator[tuple[Row, dict[str, AnyJudgement]]]:
    """Every row with its judgements by judge; the judges' requests are under way together."""
    rows, *copies = tee(read_rows(run.args.data), len(run.judges) + 1)
    with ExitStack() as open_streams:
        streams = {}
        for judge, copy in zip(run.judges, copies, strict=True):
            texts = map(texts_of, copy, repeat(run.texts[judge.name]))
            stream = _judgements(run, judge, texts, session)
            streams[judge.name] = open_streams.enter_context(closing(stream))
        for row in rows:
            yield row, {name: next(stream) for name, stream in streams.items()}


def _judgements(
    run: TableRun, judge: Judge, texts: Iterator[Row], session: Session
) -> Generator[AnyJudgement, None, None]:
    """One judge's judgement of each row, asked for from here or through Ray."""
    args = run.args
    order: Order = args.order or "both"
    if args.engine == "local":
        runner = session.runner(judge.lm, api_base=judge.model_to_ask()[1])
        return judge.judge_rows(texts, runner, order=order, seed=args.seed)
    from judges.cluster import judge_rows

    # Every judge has workers of its own, so it gets its part of the budget.
    parts = len(run.judges)
    return judge_rows(
        judge,
        texts,
        workers=args.workers,
        order=order,
        seed=args.seed,
        max_calls=args.max_calls and args.max_calls // parts,
        max_cost=args.max_cost and args.max_cost / parts,
        journal=os.path.realpath(run.journal) if run.journal else None,
        **request_options(args),
    )


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
        "map": sorted(args.map or []),
    }


def _fingerprint(judge: Judge) -> str:
    if isinstance(judge, Panel):
        recorded = {
            member.name: {name: judgement.score for name, judgement in member.recorded.items()}
            for member in judge.members
            if member.recorded is not None
        }
        members = [frozen.digest(to_builtins(judge.freeze())), recorded]
        return hashlib.sha256(json.dumps(members, sort_keys=True).encode()).hexdigest()
    parts = [judge.kind, judge.template(), asdict(judge.plan) if judge.plan else None]
    if judge.score_map is not None:
        parts.append(asdict(judge.score_map))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _check_resumed(out: Path, settings_file: Path, origin: Mapping[str, Any]) -> None:
    """RowsError where --resume would write over what is not this very run's."""
    file = next((file for file in (partial_path(out), out) if file.exists()), None)
    if file is None:
        return
    advice = "--force writes over it, or name another --out"
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
    """Write down every request that the journal does not answer, and start the batches."""
    from judges.inference import batch

    args, journal = run.args, replies_file(run.args)
    lm, folder = _one_model(run), _batch_folder(args)
    _check_batch_budget(run)
    where = _endpoint_options(args)
    if not batch.is_partly_submitted(folder):
        model = batch.queue(lm, folder, max_tokens=args.max_tokens, **where)
        options = ModelOptions(
            journal=journal,
            cache=args.cache,
            max_tokens=args.max_tokens,
            reasoning_effort=args.reasoning_effort,
        )
        with in_use(journal), Session(models={lm: model}, **options) as session:
            for _ in judged(run, session):
                pass
            _print_cache_note(session)
        if not model.written:
            print("nothing to submit: every reply is in the journal; collect with --resume instead")
            return 0
    print_note(estimate_line(run.estimates, DISCOUNT))
    print_output(str(batch.submit(folder, **where)))
    return 0


def batch_status(args: argparse.Namespace) -> int:
    from judges.inference import batch

    folder = _batch_folder(args)
    state = batch.status(folder, **_endpoint_options(args))
    if args.json:
        counts = {"done": state.done, "requests": state.n_requests, "answered": state.n_completed}
        print(json.dumps(counts))
    else:
        print_output(str(state))
    if not state.submitted:
        raise FatalModelError(f"{folder}: not all of it is submitted; --batch-api submit goes on")
    return 0


def collect_batch(run: TableRun) -> Mapping[str, "Model"]:
    """Fetch the answers into the journal; returns the model that stands for them."""
    from judges.inference import batch

    args = run.args
    lm, folder = _one_model(run), _batch_folder(args)
    try:
        with in_use(replies_file(args)), Journal(replies_file(args)) as journal:
            result = batch.collect(folder, journal, **_endpoint_options(args))
    except FatalModelError as error:
        raise FatalModelError(f"{error} (see --batch-api status)") from error
    if unanswered := result.n_missing + len(result.failures):
        print_error(
            f"{unanswered:,} requests have no answer; the same command with --force and without "
            "--batch-api asks them now, --batch-api submit again in another batch"
        )
    return {lm: batch.collected(folder, **_endpoint_options(args))}


def _endpoint_options(args: argparse.Namespace) -> _EndpointOptions:
    return {"api_base": args.api_base, "api_key_env": args.api_key_env}


def _batch_folder(args: argparse.Namespace) -> Path:
    """Where the batches' files and state are kept: beside the output."""
    if args.out is None:
        raise UsageError("--batch-api needs --out FILE, the same in all three steps")
    return Path(args.out.with_name(f"{args.out.name}.batch"))


def _one_model(run: TableRun) -> str:
    """The model that all judges ask; UsageError where they ask several."""
    if run.args.engine != "local":
        raise UsageError("--batch-api and --engine ray exclude each other")
    models = {part.lm for judge in run.judges for part in judge.parts}
    # What a panel asks here, for free, needs no batch.
    names = sorted(name for name in models if not is_embedded(name)) or sorted(models)
    if len(names) != 1:
        raise UsageError(f"--batch-api takes one model; these judges ask {', '.join(names)}")
    return names[0]


def _check_batch_budget(run: TableRun) -> None:
    """Raise UsageError where the batch's requests or price exceed the budget's flags."""
    args, requests = run.args, sum(estimate.requests for estimate in run.estimates)
    if args.max_calls is not None and requests > args.max_calls:
        raise UsageError(f"{requests:,} requests are more than --max-calls {args.max_calls:,}")
    price = total_price(run.estimates)
    if args.max_cost is None:
        return
    if price is None or price * DISCOUNT > args.max_cost:
        about = "unknown" if price is None else f"about ${price * DISCOUNT:,.2f}"
        raise UsageError(f"the batch's price is {about}; --max-cost is ${args.max_cost:g}")
