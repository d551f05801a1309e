"""The commands score and winrate: judge the rows of a table, write each row, and print a summary.

A run that ends early leaves the rows so far in OUT.partial. If the run sent requests to a model
outside of this process, it also leaves a store of replies, from which the same command resumes.
With --batch-api, the replies come through a provider's batch files, at half price and within a day.
"""

import argparse
import json
import math
import sys
import time
from array import array
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import chain, islice, repeat, tee
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, NamedTuple

from dspy_judges.errors import JudgesError, UsageError
from judges.cli.flags import mapping, request_options, with_model_flags, with_reasoning_flag
from judges.client import (
    CHARACTERS_PER_TOKEN,
    BudgetSpentError,
    Price,
    Session,
    estimate_tokens,
    find_price,
    gives_n_replies,
    price_of,
)
from judges.dimension import Comparison
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Preference
from judges.labels.columns import N_FIRST_ROWS, Columns
from judges.labels.conversations import as_texts
from judges.loading import load
from judges.panel import AnyJudge
from judges.protocol import FatalModelError, is_embedded
from judges.scoring import reply_tokens
from judges.tables.atomic_write import in_use
from judges.tables.formats import RowWriter, Table, partial_path, read_table_rows, writable_format
from judges.tables.problems import RowsError
from judges.tables.text import Row
from judges.tables.xlsx import split_sheet
from judges.terminal import Progress, print_error, print_note, print_output

if TYPE_CHECKING:
    from judges.true_rate import TrueRate
    from judges.winrate import WinRate

ID_COLUMN = "id"
SCORE_DECIMALS = 3  # decimals of a score


class CostEstimate(NamedTuple):
    """The estimated requests, tokens and cost of judging a table with one model.

    Four characters count as one token. The cost is None if the model's price is unknown.
    """

    lm: str
    requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None

    def as_json(self) -> dict[str, object]:
        return {
            "lm": self.lm.split(", "),
            "requests": self.requests,
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "cost_usd": self.cost_usd,
        }

    def __str__(self) -> str:
        if self.cost_usd == 0:
            return f"estimate: {self.requests:,} judgements; {self.lm}, free"
        cost = "price unknown" if self.cost_usd is None else f"about ${self.cost_usd:,.4f}"
        return (
            f"estimate: {self.requests:,} requests, about {self.tokens_in:,} tokens in and "
            f"{self.tokens_out:,} out; {self.lm}, {cost}"
        )


def estimate_runs(
    judge: AnyJudge, *, n_rows: int, characters: int, orders: int, price: Price | None = None
) -> list[CostEstimate]:
    """Return an estimate for each model that a judge sends requests to.

    `characters` is the total length of the texts in all rows. `orders` is 2 if each pair is judged
    in both orders, else 1. `price` is the price that the user gave, if any. For a panel, this price
    applies only to models whose price is unknown.
    """
    estimates = []
    for part in judge.parts:
        n_samples, n_prompts = part.plan.samples if part.plan else 1, n_rows * orders
        # If a request brings only one reply, each sample pays for the prompt again.
        requests_per_prompt = 1 if gives_n_replies(part.lm) else n_samples
        text_tokens = characters * orders // CHARACTERS_PER_TOKEN
        template_tokens = estimate_tokens(part.template()) * n_prompts
        tokens_in = (template_tokens + text_tokens) * requests_per_prompt
        tokens_out = reply_tokens(part.prompt, part.lm) * n_prompts * n_samples
        prices = [price, find_price(part.lm)]
        if part is not judge or is_embedded(part.lm):
            # The price in the table takes precedence, since the models of a panel have different
            # prices, and the embedded model is free.
            prices.reverse()
        price_used = prices[0] or prices[1]
        cost = price_used.cost(tokens_in, tokens_out) if price_used else None
        n_requests = n_prompts * requests_per_prompt
        estimates.append(CostEstimate(part.lm, n_requests, tokens_in, tokens_out, cost))
    return estimates


def total_estimate(estimates: Sequence[CostEstimate]) -> CostEstimate:
    """Return the sum of several estimates; the cost is None if any of their costs is None."""
    costs = [estimate.cost_usd for estimate in estimates if estimate.cost_usd is not None]
    return CostEstimate(
        ", ".join(sorted({estimate.lm for estimate in estimates})),
        sum(estimate.requests for estimate in estimates),
        sum(estimate.tokens_in for estimate in estimates),
        sum(estimate.tokens_out for estimate in estimates),
        math.fsum(costs) if len(costs) == len(estimates) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """The judges of a run, and what is known about the table that they judge.

    `columns` are the columns to write. `text_columns` has, for each judge's name, a mapping from
    the names of the judge's texts to columns of the table. `id_column` is the column with the rows'
    ids; if it is None, the id of a row is its number.
    """

    judges: tuple[AnyJudge, ...]
    args: argparse.Namespace
    n_rows: int
    columns: list[str]
    id_column: str | None
    text_columns: Mapping[str, Mapping[str, str]]
    estimates: tuple[CostEstimate, ...]

    @property
    def paid_models(self) -> list[str]:
        """The models that do not run in this process, sorted."""
        return sorted({estimate.lm for estimate in self.estimates if not is_embedded(estimate.lm)})

    def rows(self) -> Iterator[Row]:
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


def _run_command(results_type: "type[Scores | Preferences]", args: argparse.Namespace) -> int:
    """Run the command score or winrate, and return the exit code.

    With --dry-run, the command only prints an estimate. With --batch-api, the command submits the
    requests or collects the answers, and continues only if all requests have answers. Then
    the command judges all rows and prints the summary.
    """
    if not args.dry_run:
        if args.out is None:
            raise UsageError("--out FILE is needed, except with --dry-run")
        if not args.out.parent.is_dir():
            raise RowsError(f"{args.out}: the folder {args.out.parent} does not exist")
        # If both the output and the store exist, a run was killed after it had written the output:
        # running again is safe.
        if args.out.exists() and not _store_path(args.out).exists():
            raise RowsError(
                f"{args.out} exists already, and does not say which judge and settings made it: "
                "delete it, or name another --out"
            )
    results = results_type(args)
    run = _prepare_run(results, args)
    if args.dry_run:
        estimate = total_estimate(run.estimates)
        print(json.dumps(estimate.as_json(), indent=1) if args.json else estimate)
        return 0
    if args.batch_api and not _run_batch_step(run):
        return 1 if args.batch_api == "collect" else 0
    results.report(run, _judge_table(run, results))
    return 0


def _prepare_run(results: "Scores | Preferences", args: argparse.Namespace) -> TableRun:
    """Check the flags, read the whole table once to check and count its rows, and return the run.

    Raises RowsError if the table cannot be read, MissingColumnError if a judge's text has no
    column, and UsageError if a flag is wrong.
    """
    judges = results.judges
    map_flags = _read_map_flags(args.map, judges)
    table_format = None if args.out is None else writable_format(args.out)
    n_rows = 0
    columns: dict[str, None] = {}
    characters = Counter[str]()
    notes: list[str] = []
    rows = read_table_rows(args.data, notes)
    first_rows = [*islice(rows, N_FIRST_ROWS)]
    text_names = {name for row in first_rows for name in as_texts(row.cells)}
    text_columns = {judge.name: judge.find_columns(text_names, map_flags) for judge in judges}
    for row in chain(first_rows, rows):
        n_rows += 1
        columns.update(dict.fromkeys(row.cells))
        for name, judge_columns in text_columns.items():
            texts = _texts_of(row.cells, judge_columns).values()
            characters[name] += sum(map(len, map(str, texts)))
    for note in notes:
        print_note(f"note: {args.data}: {note}")
    table = Table(name="", sha256="", typed=True, columns=tuple(columns), rows=())
    estimates: list[CostEstimate] = []
    for judge in judges:
        estimates += estimate_runs(
            judge,
            n_rows=n_rows,
            characters=characters[judge.name],
            orders=2 if judge.kind == "pairwise" else 1,
            price=price_of(args.price),
        )
    new_columns = results.new_columns(columns) if table_format and table_format.flat else []
    return TableRun(
        judges=tuple(judges),
        args=args,
        n_rows=n_rows,
        columns=list(dict.fromkeys([*columns, ID_COLUMN, *new_columns])),
        id_column=Columns(table, {ID_COLUMN: map_flags.get(ID_COLUMN, "")}).find(ID_COLUMN),
        text_columns=text_columns,
        estimates=tuple(estimates),
    )


def _read_map_flags(arguments: Sequence[str], judges: Sequence[AnyJudge]) -> dict[str, str]:
    """Return the columns that --map gives for the judges' texts and for the id, by name.

    Other names in a mapping file are ignored, since the file may also map labels. Raises
    UsageError for any other name in an argument NAME=COLUMN.
    """
    columns = mapping(arguments)
    valid_names = {name for judge in judges for name in judge.texts} | {ID_COLUMN}
    names_in_flags = {argument.partition("=")[0] for argument in arguments if "=" in argument}
    column_of: dict[str, str] = {}
    for name in sorted(names_in_flags | (valid_names & columns.keys())):
        column = columns[name]
        if name not in valid_names or not isinstance(column, str):
            raise UsageError(
                f"--map {name}: write NAME=COLUMN, where NAME is one of "
                f"{', '.join(sorted(valid_names))}"
            )
        column_of[name] = column
    return column_of


def _texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """Return the texts of a row; `columns` maps the judge's name for a text to its column."""
    texts = as_texts(row)
    return {name: texts.get(column) for name, column in columns.items()}


def _new_column_names(name: str, suffixes: Sequence[str], columns: Collection[str]) -> list[str]:
    """Return names for new columns: NAME + suffix, or NAME_judge + suffix if a name exists."""
    for prefix in (name, f"{name}_judge"):
        new_names = [f"{prefix}{suffix}" for suffix in suffixes]
        if not set(new_names) & set(columns):
            return new_names
    raise RowsError(
        f"columns {name!r} and {name}_judge exist already; write .jsonl, or rename a column"
    )


def _store_path(out: Path) -> Path:
    return out.with_name(f"{out.name}.replies.sqlite")


@contextmanager
def _open_session(run: TableRun, *, is_last: bool = False) -> Iterator[Session]:
    """Open a session with the run's store of replies, and lock the output file.

    The session has a store, next to the output file, if a judge needs a model outside of this
    process. At the end, the store is removed if a later start could use nothing in it, or if this
    is the run's last session (`is_last`) and no error was raised.
    """
    args = run.args
    path = _store_path(args.out) if run.paid_models else None
    options = request_options(args)
    options["max_calls"], options["max_cost"] = args.max_calls, args.max_cost
    options["store"] = path
    with in_use(args.out), Session(keep_going=False, **options) as session:
        store, settings = session.store, {"run": run.digest()}
        if store is not None:
            if (stored_settings := store.read_settings()) is None:
                store.write_settings(settings)
            elif stored_settings != settings:
                raise RowsError(
                    f"{path} is from other judges, rows or settings: use the same judges, rows and "
                    "settings to go on, or delete that file, or name another --out"
                )
            elif store.can_go_on:
                print_note(f"goes on with {path}")
        is_complete = False
        try:
            yield session
            is_complete = is_last
        finally:
            if store is not None and (is_complete or not store.can_go_on):
                store.remove()


class RunCost(NamedTuple):
    """The calls, tokens, cost and time of a run, including its earlier starts.

    The field names are the keys in the output of --json. `cost_unconfirmed_usd` is the worst-case
    cost of requests that were not answered.
    """

    lm: list[str]
    lm_calls: int
    cached_calls: int
    tokens: dict[str, int]
    cost_usd: float | None
    cost_unconfirmed_usd: float
    seconds: float

    @classmethod
    def of(cls, session: Session, seconds: float) -> "RunCost":
        accounts, total = session.budget.accounts, session.budget.total
        prices_are_known = all(account.price for account in accounts.values())
        return cls(
            lm=sorted(accounts),
            lm_calls=total.calls,
            cached_calls=total.cached,
            tokens={"in": total.tokens_in, "out": total.tokens_out},
            cost_usd=round(total.cost + total.lost_cost, 6) if prices_are_known else None,
            cost_unconfirmed_usd=round(total.lost_cost + total.open_cost, 6),
            seconds=round(seconds, 3),
        )

    def __str__(self) -> str:
        cost = f"cost: ${self.cost_usd:,.4f} for {self.lm_calls:,} calls"
        if not self.cost_unconfirmed_usd:
            return cost
        return f"{cost}, at most ${self.cost_unconfirmed_usd:,.4f} of it for unanswered requests"


def _judge_table(run: TableRun, results: "Scores | Preferences") -> RunCost:
    """Judge all rows, write them with their judgements, and return the cost."""
    start_time = time.monotonic()
    estimate, max_cost = total_estimate(run.estimates), run.args.max_cost
    print_note(str(estimate))
    if max_cost is not None and (estimate.cost_usd or 0.0) > max_cost:
        print_note(f"note: --max-cost {max_cost:g} will end the run before all rows are judged")
    out: Path = run.args.out
    with _open_session(run, is_last=True) as session:
        progress = Progress("judging", run.n_rows, sys.stderr, budget=session.budget)
        try:
            with (
                RowWriter(out, columns=run.columns) as writer,
                progress,
                closing(_judge_rows(run, session)) as judged_rows,
            ):
                for row, judgements in judged_rows:
                    writer.write({**row, **results.new_cells(run, row, judgements)})
                    progress.step(
                        failed=any(judgement.failure for judgement in judgements.values())
                    )
        except (KeyboardInterrupt, BudgetSpentError, FatalModelError, OSError) as error:
            can_go_on = session.store is not None and session.store.can_go_on
            if isinstance(error, FatalModelError) and not can_go_on:
                raise  # there is nothing to continue, for example if the key is wrong
            progress_text = f"{progress.n_done:,} of {run.n_rows:,} rows are in {partial_path(out)}"
            raise _unfinished_run_error(error, progress_text, can_go_on=can_go_on) from error
        if session.cache is not None and (note := session.cache.note):
            print_note(note)
        cost = RunCost.of(session, time.monotonic() - start_time)
    if cost.cost_usd:
        print_note(str(cost))
    return cost


def _unfinished_run_error(error: BaseException, progress: str, *, can_go_on: bool) -> BaseException:
    """Return an error for a run that ended early, which says what is kept and how to go on."""
    reason = getattr(error, "strerror", None) or str(error) or "interrupted"
    # The message of a spent budget and some other messages already say how to go on.
    has_advice = isinstance(error, BudgetSpentError) or "same command" in reason
    advice = "" if has_advice or not can_go_on else "; the same command goes on"
    error_class = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else JudgesError
    return error_class(f"{reason}: {progress}{advice}")


def _judge_rows(
    run: TableRun, session: Session
) -> Generator[tuple[Row, dict[str, AnyJudgement]], None, None]:
    """Yield every row with its id, and its judgements by the judges' names.

    All judges run concurrently.
    """
    rows, *row_copies = tee(run.rows(), len(run.judges) + 1)
    with ExitStack() as exit_stack:
        streams = {}
        for judge, judge_rows in zip(run.judges, row_copies, strict=True):
            texts = map(_texts_of, judge_rows, repeat(run.text_columns[judge.name]))
            client = session.client(judge.lm, api_base=judge.api_base)
            judgements = judge.judge_rows(texts, client, seed=run.args.seed)
            streams[judge.name] = exit_stack.enter_context(closing(judgements))
        for row in rows:
            yield row, {name: next(judgements) for name, judgements in streams.items()}


def _run_batch_step(run: TableRun) -> bool:
    """Submit or collect a batch, as --batch-api says; return whether all requests have answers."""
    from judges.batch import Batch

    args, models = run.args, run.paid_models
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
            failures = batch.collect()
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
            if not batch.begin():
                print("nothing to submit: all requests are answered; leave out --batch-api")
                return False
        batch.submit()
    print_output(f"{batch.state.batch_id} is submitted; run --batch-api collect within a day")
    return False


def score(args: argparse.Namespace) -> int:
    """Judge every row with rating judges, and print each judge's mean score."""
    return _run_command(Scores, args)


def _judge_with_flags(judge: AnyJudge, source: str, args: argparse.Namespace) -> AnyJudge:
    """Return the judge with the model, plan and reasoning that the flags choose.

    Raises FatalModelError if the judge's file names a model or server that only the user may
    choose.
    """
    judge = with_model_flags(with_reasoning_flag(judge, source, args), args)
    judge.check_origins()
    return judge


def _questions_with_column(judge: AnyJudge, args: argparse.Namespace) -> list[str]:
    """The names of a judge's questions if --answers adds columns for them; otherwise []."""
    questions = judge.prompt.questions if args.answers and isinstance(judge, Judge) else ()
    return [field.name for field in questions]


def _rounded_answers(judgement: AnyJudgement, questions: Sequence[str]) -> list[float | None]:
    answers = judgement.answers or {}
    return [round(answers[name], SCORE_DECIMALS) if name in answers else None for name in questions]


class JudgeScores:
    """The scores of one rating judge, and the numbers of its failures by reason.

    `is_as_tested` is true if no flag has changed the judge since it was tested on labels.
    """

    def __init__(self, judge: AnyJudge, *, is_as_tested: bool, args: argparse.Namespace) -> None:
        self.judge, self.is_as_tested = judge, is_as_tested
        self.questions = _questions_with_column(judge, args)
        # The names of the judge's new columns; [] if the output is JSON Lines.
        self.columns: list[str] = []
        self.scores = array("d")
        self.failures = Counter[str]()
        self.n_unparsable = 0
        # Only for a pass/fail judge: for each score, a hash of the document, by which scores of the
        # same document are grouped. The document is all texts but the last, the output.
        self.is_verdict = judge.subject.scale == (0, 1)
        self.documents: list[int] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        outputs = self.judge.prompt.outputs if isinstance(self.judge, Judge) else ()
        has_rationale = any(output.name == "rationale" for output in outputs)
        suffixes = ["", "_failure", *(f"_{name}" for name in self.questions)]
        suffixes += ["_rationale"] if has_rationale else []
        self.columns = _new_column_names(self.judge.name, suffixes, columns)
        return self.columns

    def add(self, judgement: AnyJudgement, texts: Row) -> tuple[Row, Row]:
        """Add a judgement; return its cells for a CSV row, and its entry for a JSON Lines row.

        `texts` are the texts that were judged; they may be empty unless this is a pass/fail judge.
        """
        assert isinstance(judgement, Judgement)
        self.n_unparsable += judgement.unparsable
        score = None if judgement.failure else round(judgement.score, SCORE_DECIMALS)
        if judgement.failure:
            self.failures[judgement.failure[:200]] += 1
        else:
            self.scores.append(judgement.score)
            if self.is_verdict:
                strings = [*map(str, texts.values())]
                self.documents.append(hash(tuple(strings[:-1] or strings)))
        if self.is_verdict and judgement.score < 0.5 == score:
            score = judgement.score  # rounding would turn this fail into a pass
        answers = _rounded_answers(judgement, self.questions)
        values = (score, judgement.failure, *answers, judgement.rationale)
        # Not strict: there are fewer columns than values if the judge writes no rationale, and no
        # columns if the output is JSON Lines.
        cells: Row = dict(zip(self.columns, values, strict=False))
        return cells, {**judgement.as_json(), "score": score}

    def pass_rate(self) -> "TrueRate":
        """Return the pass rate, corrected for the errors that the judge made on its test labels."""
        from judges.true_rate import corrected_rate  # not at the top, since it imports NumPy

        tested = self.judge.origin.tested if self.is_as_tested else []
        return corrected_rate([score >= 0.5 for score in self.scores], self.documents, tested)

    def summary(self) -> dict[str, object]:
        """Return the mean and the standard deviation of the scores, and counts of judgements."""
        return {
            "mean": fmean(self.scores) if self.scores else None,
            "sd": pstdev(self.scores) if self.scores else None,
            "n": len(self.scores),
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.n_unparsable,
            "failures": dict(self.failures.most_common(20)),
        }


class Scores:
    """The results of the command `score`: the scores of each judge."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.by_judge: dict[str, JudgeScores] = {}
        for source in args.judges:
            original = load(source)
            judge = _judge_with_flags(original, source, args)
            if judge.kind == "pairwise":
                raise UsageError(f"{judge.name} compares two outputs; use: dspy-judges winrate")
            scores = JudgeScores(judge, is_as_tested=judge == original, args=args)
            if self.by_judge.setdefault(judge.name, scores) is not scores:
                raise UsageError("two judges have the same name; score them in two runs")

    @property
    def judges(self) -> list[AnyJudge]:
        return [scores.judge for scores in self.by_judge.values()]

    def new_columns(self, columns: Collection[str]) -> list[str]:
        columns_by_judge = (scores.new_columns(columns) for scores in self.by_judge.values())
        return [*chain.from_iterable(columns_by_judge)]

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, AnyJudgement]) -> Row:
        cells: Row = {}
        entries: Row = {}
        for name, judgement in judgements.items():
            scores = self.by_judge[name]
            texts = _texts_of(row, run.text_columns[name]) if scores.is_verdict else {}
            judge_cells, entries[name] = scores.add(judgement, texts)
            cells |= judge_cells
        earlier_entries = row.get("judgements")
        if not isinstance(earlier_entries, dict):
            earlier_entries = {}
        return cells or {"judgements": {**earlier_entries, **entries}}

    def report(self, run: TableRun, cost: RunCost) -> None:
        summaries = {name: scores.summary() for name, scores in self.by_judge.items()}
        pass_rates = {
            name: scores.pass_rate() for name, scores in self.by_judge.items() if scores.is_verdict
        }
        if run.args.json:
            for name, rate in pass_rates.items():
                summaries[name]["pass_rate"] = rate.as_json()
            record = {"out": str(run.args.out), "rows": run.n_rows, "judges": summaries}
            print(json.dumps({**record, **cost._asdict()}, indent=1))
        else:
            width = max(map(len, summaries))
            for name, summary in summaries.items():
                mean_and_sd = "mean {mean:.3f}  sd {sd:.3f}" if summary["n"] else "no score"
                line = (mean_and_sd + "  n={n:,} ({n_failed:,} failed)").format_map(summary)
                print_output(f"{name:<{width}}  {line}")
            for name, rate in pass_rates.items():
                print_output(f"{name:<{width}}  {rate}")
        first_scores, *_ = self.by_judge.values()
        if not any(summary["n"] for summary in summaries.values()):
            raise RowsError(
                f"no row got a score; the first reason: {next(iter(first_scores.failures))}"
            )


def winrate(args: argparse.Namespace) -> int:
    """Compare the two outputs of every pair, and print how often output A is preferred."""
    return _run_command(Preferences, args)


class Preferences:
    """The results of the command `winrate`: the preferences of a pairwise judge."""

    KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, args: argparse.Namespace) -> None:
        judge = _judge_with_flags(load(args.judge), args.judge, args)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{judge.name} rates one output; use: dspy-judges score")
        self.judges = [judge]
        self.questions = _questions_with_column(judge, args)
        self.subject = judge.subject
        self.preferences: list[Preference] = []
        self.documents: list[int] = []
        self.lengths: list[tuple[int, int]] = []
        self.columns: list[str] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        keys = (*self.KEYS, *self.questions)
        self.columns = _new_column_names("verdict", [f"_{key}" for key in keys], columns)
        return self.columns

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, AnyJudgement]) -> Row:
        from judges.winrate import text_length  # not at the top, since it imports NumPy

        preference = judgements[self.subject.name]
        assert isinstance(preference, Preference)
        texts = _texts_of(row, run.text_columns[self.subject.name])
        length_a, length_b = (text_length(str(texts[name] or "")) for name in self.subject.fields)
        self.preferences.append(preference)
        self.documents.append(hash(tuple(str(texts[name]) for name in self.subject.inputs)))
        self.lengths.append((length_a, length_b))
        entry = {key: getattr(preference, key) for key in self.KEYS}
        if self.columns:
            answers = _rounded_answers(preference, self.questions)
            return dict(zip(self.columns, (*entry.values(), *answers), strict=True))
        if preference.answers:
            entry["answers"] = preference.answers
        return {"verdict": entry}

    def report(self, run: TableRun, cost: RunCost) -> None:
        from judges.winrate import win_rate

        rate = win_rate(self.preferences, documents=self.documents, lengths=self.lengths)
        if run.args.json:
            record = {**rate.summary(), "out": str(run.args.out), **cost._asdict()}
            print(json.dumps(record, indent=1))
        else:
            print_output(_win_rate_text(self.subject.name, rate))
        if rate.n == 0:
            raise RowsError(
                f"no pair got a preference; the first reason: {self.preferences[0].failure}"
            )


def _win_rate_text(name: str, rate: "WinRate") -> str:
    values = {
        key: "undefined" if value is None else f"{value:.3f}" if isinstance(value, float) else value
        for key, value in rate.summary().items()
    }
    template = "win rate of A {win_rate_a} [{low}, {high}] n={n} pairs ({n_ties} ties, "
    template += "{n_failed} failed)"
    lines = [f"{name} {template.format_map(values)}"]
    names = {"flip_rate": "flip rate", "position_bias": "position bias"}
    names["length_bias"] = "length association"
    lines += [f"  {name:<20}{values[key]}" for key, name in names.items()]
    return "\n".join(lines)
