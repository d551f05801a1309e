"""The commands score and winrate: judge the rows of a table, write each row, and print a summary.

A run that ends early leaves the rows so far in OUT.partial. If the run sent requests to a model
outside of this process, it also leaves a store of replies, from which the same command resumes.
With --batch-api, the replies come through a provider's batch files, at half price and within a day.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import chain, islice, tee
from operator import itemgetter
from pathlib import Path

from dspy_judges.errors import JudgesError, UsageError
from judges.cli.costs import CostEstimate, RunCost, estimate_costs, total_estimate
from judges.cli.flags import read_map_flags, request_options
from judges.cli.results import Preferences, Scores
from judges.client import Budget, BudgetSpentError, Session, find_price, price_of
from judges.client.request_queue import FailingRunError
from judges.judgement import AnyJudgement
from judges.labels.cells import KEY_SEPARATOR, as_object, value_at
from judges.labels.columns import MAX_INSPECTED_ROWS, Columns
from judges.labels.conversations import cells_with_texts
from judges.panel import AnyJudge
from judges.protocol import FatalModelError, is_embedded
from judges.tables.atomic_write import exclusive_lock
from judges.tables.formats import (
    RowWriter,
    Table,
    batch_state_path,
    partial_path,
    read_table_rows,
    writable_format,
)
from judges.tables.problems import RowsError
from judges.tables.text import Record
from judges.tables.xlsx import split_sheet
from judges.terminal import Progress, print_error, print_note, print_output
from judges.text_columns import accepted_column_names, find_columns

ID_COLUMN = "id"
Results = Scores | Preferences


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """The judges of a run, and what is known about the table that they judge.

    `columns` are the columns to write, and `text_columns` maps the texts of each judge, by its
    name, to columns of the table. Without an `id_column`, the id of a row is its number.
    """

    judges: tuple[AnyJudge, ...]
    args: argparse.Namespace
    n_rows: int
    columns: list[str]
    id_column: str | None
    text_columns: Mapping[str, Mapping[str, str]]
    estimate: CostEstimate

    @property
    def external_models(self) -> list[str]:
        """The models that do not run in this process, sorted."""
        return [lm for lm in self.estimate.models if not is_embedded(lm)]

    def rows(self) -> Iterator[Record]:
        """Yield the rows of the table, each with its id."""
        for _, cells, row_number in read_table_rows(self.args.data):
            yield {**cells, ID_COLUMN: cells.get(self.id_column) if self.id_column else row_number}

    def digest(self) -> str:
        """Return a hash of everything that determines the output, except the replies."""
        path, sheet = split_sheet(self.args.data)
        with path.open("rb") as file:
            data_digest = file_digest(file, "sha256").hexdigest()
        judges = [judge.dumps() for judge in self.judges]
        settings = [self.args.seed, self.columns, self.text_columns, self.id_column]
        return sha256(json.dumps([data_digest, sheet, judges, settings]).encode()).hexdigest()


def _run_command(results_type: type[Results], args: argparse.Namespace) -> int:
    """Run the command score or winrate, and return the exit code.

    With --dry-run, only print an estimate. With --batch-api, submit the requests or collect the
    answers, and judge the rows only once all requests have answers.
    """
    if not args.dry_run:
        if args.out is None:
            raise UsageError("--out FILE is needed, except with --dry-run")
        if not args.out.parent.is_dir():
            raise RowsError(f"{args.out}: the folder {args.out.parent} does not exist")
        # If the store exists, too, a run was killed after it wrote the output: it is safe to go on.
        if args.out.exists() and not _store_path(args.out).exists():
            raise RowsError(
                f"{args.out} exists already, and does not say which judge and settings made it: "
                "delete it, or name another --out"
            )
        state_path = batch_state_path(args.out)
        if not args.batch_api and state_path.exists():
            # The provider answers these requests already, so sending them would pay for them twice.
            raise RowsError(
                f"{state_path}: a batch for this output is submitted; add --batch-api collect, or "
                "delete that file"
            )
    results = results_type(args)
    run = _prepare_run(results, args)
    if args.dry_run:
        print(json.dumps(run.estimate.as_json(), indent=1) if args.json else run.estimate)
        _check_max_cost(run)
        return 0
    print_note(str(run.estimate))
    _check_max_cost(run)
    if args.batch_api and not _run_batch_step(run):
        return 1 if args.batch_api == "collect" else 0
    results.report(args, run.n_rows, _judge_table(run, results))
    return 0


def _prepare_run(results: Results, args: argparse.Namespace) -> TableRun:
    """Check the flags, read the whole table once to check and count its rows; return the run."""
    judges, notes = results.judges, list[str]()
    map_flags = _read_text_mapping(args.map, judges)
    is_flat = args.out is not None and writable_format(args.out).is_flat
    rows = read_table_rows(args.data, notes)
    first_rows = [*islice(rows, MAX_INSPECTED_ROWS)]
    text_names = {name for row in first_rows for name in _text_names(row.cells)}
    text_columns = {
        judge.name: find_columns(judge.subject, map_flags, text_names) for judge in judges
    }
    n_rows, columns, n_characters = 0, dict[str, None](), Counter[str]()
    for row in chain(first_rows, rows):
        n_rows += 1
        columns.update(dict.fromkeys(row.cells))
        for name, texts in _texts_by_judge(row.cells, text_columns).items():
            n_characters[name] += sum(map(len, map(str, texts.values())))
    for note in notes:
        print_note(f"note: {args.data}: {note}")
    table = Table(name="", sha256="", is_typed=True, columns=tuple(columns), rows=())
    new_columns = results.new_columns(columns) if is_flat else []
    price, estimates = price_of(args.price), list[CostEstimate]()
    models = [part.lm for judge in judges for part in judge.single_judges]
    for judge in judges:
        estimates += estimate_costs(
            judge, n_rows=n_rows, n_characters=n_characters[judge.name], models=models, price=price
        )
    return TableRun(
        judges=tuple(judges),
        args=args,
        n_rows=n_rows,
        columns=list(dict.fromkeys([*columns, ID_COLUMN, *new_columns])),
        id_column=Columns(table, {ID_COLUMN: map_flags.get(ID_COLUMN, "")}).find_column(ID_COLUMN),
        text_columns=text_columns,
        estimate=total_estimate(estimates),
    )


def _text_names(cells: Record) -> Iterator[str]:
    """Yield the names of a row's texts, also of those in objects, such as `inputs.question`."""
    yield from cells_with_texts(cells)
    for column, cell in cells.items():
        for key, value in (as_object(cell) or {}).items():
            if isinstance(value, str):
                yield f"{column}{KEY_SEPARATOR}{key}"


def _read_text_mapping(arguments: Sequence[str], judges: Sequence[AnyJudge]) -> dict[str, str]:
    """Return the columns that --map gives for the judges' texts and for the id, by name.

    An argument NAME=COLUMN with another name is refused. In a mapping file, which may also map
    labels, other names are ignored.
    """
    names = {ID_COLUMN}
    for judge in judges:
        names.update(*(accepted_column_names(judge.subject, text) for text in judge.texts))
    names_in_flags = {argument.partition("=")[0] for argument in arguments if "=" in argument}
    columns = {}
    for name, column in read_map_flags(arguments).items():
        if name in names and isinstance(column, str):
            columns[name] = column
        elif name in names | names_in_flags:
            advice = f"write NAME=COLUMN, where NAME is one of {', '.join(sorted(names))}"
            raise UsageError(f"--map {name}: {advice}")
    return columns


def _texts_by_judge(row: Record, columns: Mapping[str, Mapping[str, str]]) -> dict[str, Record]:
    """Return the texts of a row for each judge; `columns` has the column of each text, by judge."""
    texts = cells_with_texts(row)
    return {
        judge_name: {name: value_at(texts, column) for name, column in text_columns.items()}
        for judge_name, text_columns in columns.items()
    }


def _store_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.replies.sqlite")


@contextmanager
def _open_session(run: TableRun, *, is_last: bool = False) -> Iterator[Session]:
    """Open a session, with a store of replies next to the output file, which is locked.

    At the end, the store is removed if a later start could use nothing in it. After the run's last
    session (`is_last`), the store is removed unless an error was raised.
    """
    args = run.args
    path = _store_path(args.out) if run.external_models else None
    options = request_options(args)
    options |= {"max_calls": args.max_calls, "max_cost": args.max_cost, "store": path}
    models = run.estimate.models
    with exclusive_lock(args.out), Session(keep_going=False, lms=models, **options) as session:
        store = session.store
        if store is not None:
            if not store.is_of_run(run.digest()):
                raise RowsError(
                    f"{path} is from other judges, rows or settings: use the same judges, rows and "
                    "settings to go on, or delete that file, or name another --out"
                )
            if store.can_resume:
                print_note(f"continues with {path}")
        is_complete = False
        try:
            yield session
            is_complete = is_last
        finally:
            if store is not None and (is_complete or not store.can_resume):
                store.delete_file()


def _check_max_cost(run: TableRun) -> None:
    """Print a note if --max-cost will end the run; raise OptionError if a price is unknown."""
    if (max_cost := run.args.max_cost) is None:
        return
    if (cost := run.estimate.cost_usd) is None:
        Budget(max_cost=max_cost).account(token_price=None)  # raises OptionError
    elif cost > max_cost:
        print_note(
            f"note: --max-cost {max_cost:g} will end the run before all rows are judged, unless "
            "their replies are in the cache"
        )


def _judge_table(run: TableRun, results: Results) -> RunCost:
    start_time = time.monotonic()
    with _open_session(run, is_last=True) as session:
        progress = Progress("judging", run.n_rows, sys.stderr, budget=session.budget)
        with (
            _explain_early_end(run, session, progress),
            RowWriter(run.args.out, columns=run.columns) as writer,
            progress,
            closing(_judge_rows(run, session)) as judged_rows,
        ):
            for row, texts, judgements in judged_rows:
                writer.write({**row, **results.new_cells(row, texts, judgements)})
                progress.step(failed=any(judgement.failure for judgement in judgements.values()))
        if note := session.budget.total.cache_note:
            print_note(note)
        cost = RunCost.of(session, time.monotonic() - start_time)
    if cost.cost_usd:
        print_note(str(cost))
    return cost


@contextmanager
def _explain_early_end(run: TableRun, session: Session, progress: Progress) -> Iterator[None]:
    """Add to the message of an error that ended the run: the rows written, and how to resume."""
    try:
        yield
    except FailingRunError:
        raise  # the store would answer the same again
    except (KeyboardInterrupt, BudgetSpentError, FatalModelError, OSError) as error:
        can_resume = session.store is not None and session.store.can_resume
        if isinstance(error, FatalModelError) and not can_resume:
            raise  # there is nothing to continue, for example if the key is wrong
        reason = getattr(error, "strerror", None) or str(error) or "interrupted"
        rows = f"{progress.n_done:,} of {run.n_rows:,} rows are in {partial_path(run.args.out)}"
        # The messages of a spent budget and of some failures already say how to go on.
        needs_advice = can_resume and "same command" not in reason
        advice = "; run the same command again to continue" if needs_advice else ""
        error_class = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else JudgesError
        raise error_class(f"{reason}: {rows}{advice}") from error


def _judge_rows(
    run: TableRun, session: Session
) -> Generator[tuple[Record, dict[str, Record], dict[str, AnyJudgement]], None, None]:
    """Yield each row with its id, its texts and judgements by judge; all judges run together."""
    rows_and_texts = ((row, _texts_by_judge(row, run.text_columns)) for row in run.rows())
    rows, *row_copies = tee(rows_and_texts, len(run.judges) + 1)
    with ExitStack() as exit_stack:
        iterators = {}
        for judge, row_copy in zip(run.judges, row_copies, strict=True):
            texts_of_judge = map(itemgetter(judge.name), map(itemgetter(1), row_copy))
            client = session.client(judge.lm, api_base=judge.api_base)
            judgements = judge.judge_rows(texts_of_judge, client, seed=run.args.seed)
            iterators[judge.name] = exit_stack.enter_context(closing(judgements))
        for row, texts in rows:
            yield row, texts, {name: next(iterator) for name, iterator in iterators.items()}


def _run_batch_step(run: TableRun) -> bool:
    """Submit or collect a batch, as --batch-api says; return whether all requests have answers."""
    from judges.batch import Batch

    args, models = run.args, run.external_models
    if len(models) != 1:
        raise UsageError(
            "--batch-api works with exactly one model outside of this process; these judges use "
            f"{', '.join(models) or 'none'}"
        )
    options = {"api_base": args.api_base, "api_key_env": args.api_key_env}
    price = price_of(args.price) or find_price(models[0])
    with _open_session(run) as session:
        batch = Batch(args.out, models[0], session, price=price, **options)
        if args.batch_api == "collect":
            failures = batch.collect_answers()
            if failures:
                print_error(
                    f"{len(failures):,} requests have no answer ({failures[0]}); all other answers "
                    "are kept. The same command without --batch-api sends these requests now"
                )
            return not failures
        # Without a batch id, the requests are written again: an existing file of requests may be
        # incomplete, or from another run.
        if batch.state.batch_id is None:
            # All rows are judged by the batch in place of the model, which records the requests.
            recording_session = Session(models={models[0]: batch}, **request_options(args))
            with recording_session, closing(_judge_rows(run, recording_session)) as rows:
                for _ in rows:
                    pass
            if not batch.book_requests():
                print("nothing to submit: all requests are answered; leave out --batch-api")
                return False
        batch.submit()
    print_output(f"{batch.state.batch_id} is submitted; run --batch-api collect within a day")
    return False


def score(args: argparse.Namespace) -> int:
    """Judge every row with rating judges, and print each judge's mean score."""
    return _run_command(Scores, args)


def winrate(args: argparse.Namespace) -> int:
    """Compare the two outputs of every pair, and print how often output A is preferred."""
    return _run_command(Preferences, args)
