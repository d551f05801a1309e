"""The commands score and winrate: judge the rows of a table, write each row, and print a summary.

If a run ends early, the file OUT.partial has the rows that were judged. A run that asks a model
outside of this process also leaves a store of replies, from which the same command resumes the run.
With --batch-api, a provider's batch files bring the replies, at half price and within a day.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from hashlib import file_digest, sha256
from itertools import chain, islice, tee
from operator import itemgetter
from pathlib import Path

from dspy_judges.errors import JudgesError, UsageError
from judges.cli.costs import (
    CostEstimate,
    estimate_costs,
    print_run_cost,
    run_cost_json,
    total_estimate,
)
from judges.cli.flags import read_map_flags, request_options
from judges.cli.results import load_judges, print_report
from judges.client import Budget, BudgetSpentError, Session, find_price, price_of
from judges.client.request_queue import FailingRunError
from judges.exchange import zip_judgements
from judges.judgement import AnyJudgement
from judges.labels.cells import MAX_INSPECTED_ROWS, value_at
from judges.labels.columns import Columns
from judges.labels.conversations import cells_with_texts
from judges.labels.options import ReadOptions
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
from judges.tables.text import Record, TableRow
from judges.tables.xlsx import split_sheet
from judges.terminal import Progress, print_error, print_note, print_notes, print_output
from judges.text_columns import accepted_column_names, find_columns

ID_COLUMN = "id"
TextsByJudge = dict[str, Record]


class TableRun:
    """The judges of a run, and what is known about the table that they judge.

    The table is read once, to check it, to count its rows and to estimate the cost of the run.

    Attributes:
        columns: The columns to write.
        columns_by_judge: The column of each text, by the name of the judge that reads it.
        id_column: The column with the ids of the rows; None if a row's id is its number.
    """

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags, self.results_by_judge = flags, load_judges(flags)
        self.judges = [results.judge for results in self.results_by_judge.values()]
        column_by_name = _read_column_mapping(flags.map, self.judges)
        is_flat = flags.out is not None and writable_format(flags.out).is_flat
        reading_notes = list[str]()
        rows = read_table_rows(flags.data, reading_notes)
        first_rows = [*islice(rows, MAX_INSPECTED_ROWS)]
        text_rows = [cells_with_texts(row.cells) for row in first_rows]
        self.columns_by_judge = {
            judge.name: find_columns(judge.subject, column_by_name, text_rows, print_note)
            for judge in self.judges
        }
        self.n_rows, columns, n_characters = self._count(chain(first_rows, rows))
        print_notes(f"{flags.data}: {note}" for note in reading_notes)
        header_table = Table(name="", sha256="", is_typed=True, columns=tuple(columns), rows=())
        options = ReadOptions(columns_by_name={ID_COLUMN: column_by_name.get(ID_COLUMN, "")})
        self.id_column = Columns(header_table, options).find(ID_COLUMN)
        columns[ID_COLUMN] = None
        lms = [single_judge.lm for judge in self.judges for single_judge in judge.single_judges]
        estimate = partial(estimate_costs, n_rows=self.n_rows, lms=lms, price=price_of(flags.price))
        estimates = list[CostEstimate]()
        for judge_name, results in self.results_by_judge.items():
            estimates += estimate(results.judge, n_characters=n_characters[judge_name])
            if is_flat:
                columns.update(dict.fromkeys(results.name_columns(columns)))
        self.columns, self.estimate = [*columns], total_estimate(estimates)

    def _count(self, rows: Iterable[TableRow]) -> tuple[int, dict[str, None], Counter[str]]:
        """Return the number of rows, all columns, and how many characters each judge reads."""
        n_rows, columns, n_characters = 0, dict[str, None](), Counter[str]()
        for row in rows:
            n_rows += 1
            columns.update(dict.fromkeys(row.cells))
            for judge_name, texts in self.texts_by_judge(row.cells).items():
                n_characters[judge_name] += sum(len(str(text)) for text in texts.values())
        return n_rows, columns, n_characters

    @property
    def external_lms(self) -> list[str]:
        """The names of the models that do not run in this process, sorted."""
        return [lm for lm in self.estimate.lms if not is_embedded(lm)]

    def rows(self) -> Iterator[Record]:
        for _, cells, number in read_table_rows(self.flags.data):
            row_id = value_at(cells, self.id_column) if self.id_column else number
            yield {**cells, ID_COLUMN: row_id}

    def texts_by_judge(self, cells: Record) -> TextsByJudge:
        """Return the texts that each judge reads from a row."""
        cells = cells_with_texts(cells)
        return {
            judge_name: {name: value_at(cells, column) for name, column in column_by_text.items()}
            for judge_name, column_by_text in self.columns_by_judge.items()
        }

    def digest(self) -> str:
        """Return a hash of everything that determines the output, except the replies."""
        path, sheet = split_sheet(self.flags.data)
        with path.open("rb") as file:
            data_digest = file_digest(file, "sha256").hexdigest()
        judge_files = [judge.dumps() for judge in self.judges]
        settings = [self.flags.seed, self.columns, self.columns_by_judge, self.id_column]
        return sha256(json.dumps([data_digest, sheet, judge_files, settings]).encode()).hexdigest()


def command(flags: argparse.Namespace) -> int:
    """Run the command score or winrate, and return the exit code.

    With --dry-run, only print the estimated cost. With --batch-api, submit requests or collect
    answers, and judge the rows only once all requests have answers.
    """
    if not flags.dry_run:
        _check_output(flags)
    run = TableRun(flags)
    if flags.dry_run:
        print(json.dumps(run.estimate.as_json(), indent=1) if flags.json else run.estimate)
        _check_max_cost(run)
        return 0
    print_note(str(run.estimate))
    _check_max_cost(run)
    if flags.batch_api and not _run_batch_step(run):
        return 1 if flags.batch_api == "collect" else 0
    cost_json = _judge_table(run)
    print_report(run.results_by_judge, flags, run.n_rows, cost_json)
    return 0


def _check_output(flags: argparse.Namespace) -> None:
    """Raise an error if no --out is given, or if its file cannot be written or exists."""
    if flags.out is None:
        raise UsageError("--out FILE is needed, except with --dry-run")
    if not flags.out.parent.is_dir():
        raise RowsError(f"{flags.out}: the folder {flags.out.parent} does not exist")
    # If the output has a store of replies, an earlier run was killed, and this run completes it.
    if flags.out.exists() and not _store_path(flags.out).exists():
        raise RowsError(f"{flags.out} exists already: name another --out, or delete that file")
    state_path = batch_state_path(flags.out)
    if not flags.batch_api and state_path.exists():
        # The provider already answers the batch's requests; to send them again would cost twice.
        advice = "add --batch-api collect, or delete that file"
        raise RowsError(f"{state_path}: a batch for this output is submitted; {advice}")


def _read_column_mapping(map_flags: Sequence[str], judges: Sequence[AnyJudge]) -> dict[str, str]:
    """Return the columns that --map gives for the judges' texts and for the id, by name.

    An argument NAME=COLUMN is refused if no judge reads a text of that name. In a mapping file,
    names that no judge reads are ignored, since the file may also map labels.
    """
    accepted_names = {ID_COLUMN}
    for judge in judges:
        accepted_names.update(*(accepted_column_names(judge.subject, text) for text in judge.texts))
    names_in_flags = {flag.partition("=")[0] for flag in map_flags if "=" in flag}
    column_by_name = {}
    for name, column in read_map_flags(map_flags).items():
        if name in accepted_names and isinstance(column, str):
            column_by_name[name] = column
        elif name in accepted_names | names_in_flags:
            advice = f"write NAME=COLUMN, where NAME is one of {', '.join(sorted(accepted_names))}"
            raise UsageError(f"--map {name}: {advice}")
    return column_by_name


def _store_path(output_path: Path) -> Path:
    return output_path.with_name(f"{output_path.name}.replies.sqlite")


@contextmanager
def _open_session(run: TableRun, *, is_last: bool = False) -> Iterator[Session]:
    """Lock the output file, and open a session with a store of replies next to that file.

    At the end, the store is removed if it holds nothing that a later start could use. After the
    run's last session (`is_last`), the store is removed unless an error was raised.
    """
    flags, lms = run.flags, run.estimate.lms
    store_path = _store_path(flags.out) if run.external_lms else None
    options = request_options(flags)
    options["store"] = store_path
    with exclusive_lock(flags.out), Session(keep_going=False, lms=lms, **options) as session:
        store = session.store
        if store is not None:
            if not store.is_of_run(run.digest()):
                advice = "use the same judges to go on, delete that file, or name another --out"
                raise RowsError(f"{store_path} is from other judges, rows or settings: {advice}")
            if store.can_resume:
                print_note(f"continues with {store_path}")
        is_complete = False
        try:
            yield session
            is_complete = is_last
        finally:
            if store is not None and (is_complete or not store.can_resume):
                store.delete_file()


def _check_max_cost(run: TableRun) -> None:
    """Print a note if --max-cost may end the run; raise OptionError if a price is unknown."""
    if (max_cost := run.flags.max_cost) is None:
        return
    if (cost := run.estimate.cost_usd) is None:
        Budget(max_cost=max_cost).account(token_price=None)  # raises OptionError
    elif cost > max_cost:
        # If many replies are in the cache, the run costs less than the estimate.
        print_note(f"note: --max-cost {max_cost:g} may end the run before all rows are judged")


def _judge_table(run: TableRun) -> Record:
    start_time = time.monotonic()
    with _open_session(run, is_last=True) as session:
        progress = Progress("judging", run.n_rows, sys.stderr, budget=session.budget)
        with (
            _explain_early_end(run, session, progress),
            RowWriter(run.flags.out, columns=run.columns) as writer,
            progress,
            closing(_judge_rows(run, session)) as judged_rows,
        ):
            for row, texts, judgements in judged_rows:
                for name, judgement in judgements.items():
                    results = run.results_by_judge[name]
                    row = {**row, **results.new_cells(row, texts[name], judgement)}
                writer.write(row)
                progress.step(failed=any(judgement.failure for judgement in judgements.values()))
        print_run_cost(session)
        seconds = round(time.monotonic() - start_time, 3)
        return {**run_cost_json(session), "seconds": seconds}


@contextmanager
def _explain_early_end(run: TableRun, session: Session, progress: Progress) -> Iterator[None]:
    """If an error ends the run, add to its message how many rows are written and how to resume."""
    try:
        yield
    except FailingRunError:
        raise  # a new start would get the same replies from the store
    except (KeyboardInterrupt, BudgetSpentError, FatalModelError, OSError) as error:
        can_resume = session.store is not None and session.store.can_resume
        if isinstance(error, FatalModelError) and not can_resume:
            raise  # there is nothing to continue, for example if the key is wrong
        reason = getattr(error, "strerror", None) or str(error) or "interrupted"
        path = partial_path(run.flags.out)
        message = f"{reason}. {progress.n_done:,} of {run.n_rows:,} rows are in {path}"
        # The messages of some errors, such as a spent budget, already say how to go on.
        if can_resume and "same command" not in reason:
            message += "; run the same command again to continue"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(message) from error
        raise JudgesError(message) from error


def _judge_rows(
    run: TableRun, session: Session
) -> Generator[tuple[Record, TextsByJudge, dict[str, AnyJudgement]], None, None]:
    """Yield each row with its id, and its texts and judgements by judge; all judges run at once."""
    rows, row_copy = tee(run.rows())
    all_texts, *text_copies = tee(map(run.texts_by_judge, row_copy), len(run.judges) + 1)
    judgement_streams = []
    for judge, text_copy in zip(run.judges, text_copies, strict=True):
        client = session.client(judge.lm, api_base=judge.api_base)
        texts_of_judge = map(itemgetter(judge.name), text_copy)
        judgement_streams.append(judge.judge_rows(texts_of_judge, client, seed=run.flags.seed))
    with closing(zip_judgements(judgement_streams)) as judgements_of_rows:
        for row, texts, judgements in zip(rows, all_texts, judgements_of_rows, strict=False):
            yield row, texts, dict(zip(run.results_by_judge, judgements, strict=True))


def _run_batch_step(run: TableRun) -> bool:
    """Submit or collect a batch, as --batch-api says; return whether all requests have answers."""
    from judges.batch import Batch

    flags, lms = run.flags, run.external_lms
    if len(lms) != 1:
        lm_names = ", ".join(lms) or "none"
        raise UsageError(f"--batch-api needs one model outside of this process, not {lm_names}")
    endpoint_options = {"api_base": flags.api_base, "api_key_env": flags.api_key_env}
    price = price_of(flags.price) or find_price(lms[0])
    with _open_session(run) as session:
        batch = Batch(flags.out, lms[0], session, price=price, **endpoint_options)
        if flags.batch_api == "collect":
            reasons = batch.collect_answers()
            if reasons:
                print_error(
                    f"{len(reasons):,} requests have no answer ({reasons[0]}); all other answers "
                    "are kept. The same command without --batch-api sends these requests now"
                )
            return not reasons
        if batch.state.batch_id is None:
            # The batch takes the place of the model, and writes all requests to a new file. An
            # existing file of requests may be incomplete, or from another run.
            options = request_options(flags) | {"max_calls": None, "max_cost": None}
            recording_session = Session(models={lms[0]: batch}, **options)
            with recording_session, closing(_judge_rows(run, recording_session)) as judged_rows:
                for _ in judged_rows:
                    pass
            if not batch.book_requests():
                print("nothing to submit: all requests are answered; leave out --batch-api")
                return False
        batch.submit()
    print_output(f"{batch.state.batch_id} is submitted; run --batch-api collect within a day")
    return False
