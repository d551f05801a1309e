"""Run judges over a table: look it through, estimate, ask, and write each row as it is answered."""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from data.tables.atomic_write import in_use, write_atomically
from data.tables.formats import Row, decode_json
from data.tables.problems import RowsError
from data.tables.read import read_rows
from data.tables.write import DELIMITERS, RowWriter, flat, format_of, partial_of
from judges.cli.arguments import mapping_of
from judges.errors import JudgesError, UsageError
from judges.inference.budget import BudgetSpentError, Ledger
from judges.inference.progress import Progress, visible
from judges.inference.runner import FailingRunError
from judges.inference.session import Session, budget_file_of
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.judging import find_columns, unusable
from judges.models.prices import CHARACTERS_PER_TOKEN, estimate_tokens, find_price
from judges.models.redaction import holds_secret
from judges.protocol import is_embedded

if TYPE_CHECKING:
    from judges.protocol import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one pass over a table found.

    `columns` are all columns in the order met; `texts` says, for each judge, which column holds
    which of its texts; `usable` and `characters` count, for each judge, the rows it can judge and
    the characters of their texts.
    """

    n_rows: int
    columns: tuple[str, ...]
    texts: Mapping[str, Mapping[str, str]]
    usable: Mapping[str, int]
    characters: Mapping[str, int]


def survey(path: Path, judges: Sequence[Judge], mapping: Mapping[str, str]) -> Survey:
    """Read the whole file once; raises RowsError and MissingColumnError."""
    columns: dict[str, None] = {}
    texts: dict[str, dict[str, str]] = {}
    usable_rows = dict.fromkeys((judge.name for judge in judges), 0)
    characters = dict(usable_rows)
    n_rows = 0
    for row in read_rows(path):
        n_rows += 1
        if n_rows == 1:
            texts = {judge.name: find_columns(judge.subject, row, mapping) for judge in judges}
        columns.update(dict.fromkeys(row))
        for judge in judges:
            read = texts_of(row, texts[judge.name])
            if unusable(judge.subject, read) is None:
                usable_rows[judge.name] += 1
                characters[judge.name] += sum(len(str(text)) for text in read.values())
    return Survey(
        n_rows=n_rows,
        columns=tuple(columns),
        texts=texts,
        usable=usable_rows,
        characters=characters,
    )


def texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """A row's texts under the names by which a judge knows them."""
    return {name: row.get(column) for name, column in columns.items()}


def refuse_clash(path: Path, columns: Iterable[str], new: Iterable[str]) -> None:
    """No column of the table may be written over by a new one."""
    if taken := sorted(set(columns) & set(new)):
        raise RowsError(
            f"{path}: has a column {taken[0]!r} already, which a score would write over; "
            "give --prefix judge_, or write .jsonl"
        )


# Shown beside the chosen model, for choosing.
OTHERS = (
    "openai/gpt-4.1-nano",
    "openai/gpt-4.1-mini",
    "openai/gpt-4.1",
    "openai/gpt-5-mini",
    "openai/gpt-5",
)
# Replies are short: a rating alone, or a sentence and a choice in their frames.
BARE_REPLY = 4
WORDED_REPLY = 60
NATIVE_N = ("embedded", "openai/", "azure/", "replay:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests and tokens of one judge over a table; a token is taken as four characters."""

    judge: str
    lm: str
    requests: int
    tokens_in: int
    tokens_out: int

    def price(self, lm: str) -> float | None:
        """US dollars with a model; None where its price is unknown."""
        price = find_price(lm)
        return price.cost(self.tokens_in, self.tokens_out) if price else None


def estimate_run(judge: Judge, *, n_rows: int, characters: int, orders: int = 1) -> Estimate:
    """Estimate for so many rows whose texts together have so many characters."""
    samples = judge.plan.samples if judge.plan else 1
    asks = n_rows * orders
    requests = asks if judge.lm.startswith(NATIVE_N) else asks * samples
    static = estimate_tokens(judge.template())
    reply = WORDED_REPLY if len(judge.prompt.outputs) > 1 else BARE_REPLY
    read = static * asks + characters * orders // CHARACTERS_PER_TOKEN
    return Estimate(
        judge=judge.name,
        lm=judge.lm,
        requests=requests,
        tokens_in=read * requests // max(asks, 1),
        tokens_out=reply * asks * samples,
    )


def total_price(estimates: Iterable[Estimate], lm: str | None = None) -> float | None:
    """The price of all with their own models, or with `lm` for every one."""
    prices = [one.price(lm or one.lm) for one in estimates]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def estimate_line(estimates: list[Estimate], discount: float = 1.0) -> str:
    """One line for stderr."""
    models = ", ".join(sorted({one.lm for one in estimates}))
    return (
        f"estimate: {sum(one.requests for one in estimates):,} requests, "
        f"about {sum(one.tokens_in for one in estimates):,} tokens in and "
        f"{sum(one.tokens_out for one in estimates):,} out; "
        f"{models} {_price_text(estimates, discount=discount)}"
    )


def estimate_table(estimates: list[Estimate]) -> str:
    """Every judge's share, then the price with its own and with other models."""
    lines = [f"{'judge':<22}{'requests':>10}{'tokens in':>14}{'tokens out':>12}"]
    lines += [
        f"{one.judge:<22}{one.requests:>10,}{one.tokens_in:>14,}{one.tokens_out:>12,}"
        for one in estimates
    ]
    lines.append("")
    chosen = sorted({one.lm for one in estimates})
    lines.append(f"{' and '.join(chosen):<36}{_price_text(estimates):>12}   (chosen)")
    lines += [
        f"{lm:<36}{_price_text(estimates, lm):>12}"
        for lm in OTHERS
        if chosen != [lm] and total_price(estimates, lm) is not None
    ]
    lines.append("(a token is taken as four characters; nothing has been sent)")
    return "\n".join(lines)


def estimate_record(estimates: list[Estimate]) -> Mapping[str, object]:
    """The same for --json."""
    return {
        "requests": sum(one.requests for one in estimates),
        "tokens": {
            "in": sum(one.tokens_in for one in estimates),
            "out": sum(one.tokens_out for one in estimates),
        },
        "cost_usd": total_price(estimates),
        "cost_usd_by_model": {lm: total_price(estimates, lm) for lm in OTHERS},
        "judges": {one.judge: {"lm": one.lm, "requests": one.requests} for one in estimates},
    }


def _price_text(estimates: list[Estimate], lm: str | None = None, discount: float = 1.0) -> str:
    price = total_price(estimates, lm)
    if price is None:
        return "price unknown"
    price *= discount
    if price == 0:
        return "free"
    return f"${price:,.2f}" if price >= 0.01 else "under $0.01"


Stream = Generator[AnyJudgement, None, None]
Fill = Callable[[Row, Mapping[str, AnyJudgement]], Row]


class UnfinishedError(JudgesError, RuntimeError):
    """A run that ended early, in a state to go on from; the message says why and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Judges, the table they read, and what a run over it would take."""

    judges: tuple[Judge, ...]
    args: argparse.Namespace
    survey: Survey
    estimates: list[Estimate]

    @property
    def orders(self) -> int:
        return 2 if getattr(self.args, "order", None) == "both" else 1


def prepare(judges: Sequence[Judge], args: argparse.Namespace, new_columns: Sequence[str]) -> Run:
    """Check the files, read the table once, and say on stderr what the run would take."""
    if args.api_base and holds_secret(args.api_base):
        raise UsageError("--api-base holds a password or a key: give it by OPENAI_API_KEY")
    mapping = mapping_of(args.map)
    known = {name for judge in judges for name in judge.texts}
    if unknown := sorted(mapping.keys() - known):
        raise UsageError(f"--map {unknown[0]}: no such text; they are {', '.join(sorted(known))}")
    if args.safe_csv and (args.out is None or format_of(args.out) not in DELIMITERS):
        raise UsageError("--safe-csv is for an --out of .csv or .tsv")
    if not args.dry_run:
        _check_out(args)
    seen = survey(args.data, judges, mapping)
    if args.out and flat(args.out):
        refuse_clash(args.data, seen.columns, new_columns)
    orders = 2 if getattr(args, "order", None) == "both" else 1
    estimates = [
        estimate_run(
            judge,
            n_rows=seen.usable[judge.name],
            characters=seen.characters[judge.name],
            orders=orders,
        )
        for judge in judges
    ]
    return Run(judges=tuple(judges), args=args, survey=seen, estimates=estimates)


def write(
    run: Run,
    new_columns: Sequence[str],
    fill: Fill,
    models: "Mapping[str, Model] | None" = None,
) -> dict[str, Any]:
    """Ask, and write every row with what was said of it; returns what it took.

    `models` are open already and stand for their names.
    """
    args, journal = run.args, journal_of(run)
    if not models:
        print(visible(estimate_line(run.estimates)), file=sys.stderr)
    started = time.monotonic()
    columns = list(dict.fromkeys([*run.survey.columns, *new_columns]))
    with ExitStack() as held:
        for file in filter(None, (args.out, journal)):
            held.enter_context(in_use(file))
        origin = _origin(run, new_columns)
        _check_resumed(args, origin)
        write_atomically(
            _origin_of(args.out), f"{json.dumps(origin, indent=1)}\n".encode(), overwrite=True
        )
        writer = RowWriter(
            args.out, columns=columns, overwrite=args.force or args.resume, inert=args.safe_csv
        )
        done = False
        try:
            taken = _fill(run, writer, fill, journal, models)
            done = True
        except (BudgetSpentError, FailingRunError) as error:
            raise UnfinishedError(_unfinished(str(error), writer, run)) from error
        except OSError as error:
            why = f"{error.filename or writer.partial}: {error.strerror or error}"
            raise UnfinishedError(_unfinished(why, writer, run)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_unfinished("interrupted", writer, run)) from None
        finally:
            # Beside the replies of a finished run it says whose they are.
            if done and (journal is None or args.journal is not None):
                _origin_of(args.out).unlink(missing_ok=True)
            if not (done or args.resume or writer.partial.exists()):
                _origin_of(args.out).unlink(missing_ok=True)
        return {**taken, "seconds": round(time.monotonic() - started, 3)}


def _fill(
    run: Run,
    writer: RowWriter,
    fill: Fill,
    journal: Path | None,
    models: "Mapping[str, Model] | None",
) -> dict[str, Any]:
    args = run.args
    spent = None if journal is None else budget_file_of(journal)
    if spent is not None and not args.resume:
        spent.unlink(missing_ok=True)
    with Session(
        api_base=args.api_base,
        max_calls=args.max_calls,
        max_cost=args.max_cost,
        concurrency=args.concurrency,
        journal=journal,
        budget_file=spent,
        # What was collected from a batch has been paid for.
        keep_going=args.keep_going or bool(models),
        models=models,
    ) as session:
        with writer, Progress("judging", run.survey.n_rows, sys.stderr) as progress:
            for row, said in judged(run, session):
                writer.write(fill(row, said))
                progress.step(failed=any(one.failure for one in said.values()))
        # Ray's workers keep their own ledgers.
        return _taken(session.ledgers) if args.engine == "local" else {}


def _origin_of(out: Path) -> Path:
    """Where it stands what an output is made of while it is made, and who made the replies."""
    return out.with_name(f"{out.name}.run.json")


def _origin(run: Run, new_columns: Sequence[str]) -> dict[str, Any]:
    """Everything that determines an output but the replies: judges, models, rows, columns."""
    args = run.args
    with args.data.open("rb") as file:
        data = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "data": data,
        "judges": {judge.name: _fingerprint(judge) for judge in run.judges},
        "models": {judge.name: judge.lm for judge in run.judges},
        "order": getattr(args, "order", None),
        "seed": args.seed,
        "columns": list(new_columns),
        "map": sorted(args.map or []),
    }


def _fingerprint(judge: Judge) -> str:
    asked = [judge.kind, judge.template(), asdict(judge.plan) if judge.plan else None]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _check_resumed(args: argparse.Namespace, origin: Mapping[str, Any]) -> None:
    """RowsError where --resume would write over what is not this very run's."""
    if not args.resume or args.force:
        return
    file = next((one for one in (partial_of(args.out), args.out) if one.exists()), None)
    if file is None:
        return
    way_out = "--force writes over it, or name another --out"
    try:
        before = decode_json(_origin_of(args.out).read_bytes())
    except (OSError, ValueError):
        raise RowsError(f"{file}: not of a run that can be resumed; {way_out}") from None
    if not isinstance(before, dict):
        before = {}
    for name, value in origin.items():
        if before.get(name) != value:
            raise RowsError(f"{file}: of a run with other {name}; {way_out}")


def judged(run: Run, session: Session) -> Iterator[tuple[Row, dict[str, AnyJudgement]]]:
    """Every row with what each judge said of it; the judges' requests are under way together."""
    rows, *copies = tee(read_rows(run.args.data), len(run.judges) + 1)
    with ExitStack() as open_streams:
        streams = {}
        for judge, copy in zip(run.judges, copies, strict=True):
            columns = run.survey.texts[judge.name]
            texts = map(texts_of, copy, repeat(columns))
            stream = _stream(run, judge, texts, session)
            streams[judge.name] = open_streams.enter_context(closing(stream))
        for row in rows:
            yield row, {name: next(stream) for name, stream in streams.items()}


def _stream(run: Run, judge: Judge, texts: Iterator[Row], session: Session) -> Stream:
    """What one judge says of each row, asked from here or through Ray."""
    args = run.args
    order: Literal["both", "random"] = getattr(args, "order", "both")
    if args.engine == "local":
        return judge.judge_rows(texts, session.runner(judge.lm), order=order, seed=args.seed)
    from judges.cluster import judge_rows

    # Every judge has workers of its own, so it gets its part of the budget.
    parts = len(run.judges)
    journal = journal_of(run)
    return judge_rows(  # type: ignore[return-value]
        judge,
        texts,
        workers=args.workers,
        order=order,
        seed=args.seed,
        lm=judge.lm,
        api_base=args.api_base,
        max_calls=args.max_calls and args.max_calls // parts,
        max_cost=args.max_cost and args.max_cost / parts,
        concurrency=args.concurrency,
        journal=os.path.realpath(journal) if journal else None,
    )


def journal_of(run: Run) -> Path | None:
    """Where replies are kept: as asked, or beside the output where replies cost something."""
    if run.args.journal:
        return Path(run.args.journal)
    if all(is_embedded(judge.lm) for judge in run.judges):
        return None
    return Path(run.args.out).with_name(f"{Path(run.args.out).name}.replies.jsonl")


def _check_out(args: argparse.Namespace) -> None:
    out = args.out
    if out is None:
        raise UsageError("--out FILE is needed, or --dry-run")
    format_of(out)
    if not out.parent.is_dir():
        raise RowsError(f"{out}: the folder {out.parent} does not exist")
    # Not Path.resolve, which fails on links in a circle.
    real = os.path.realpath
    if real(out) == real(args.data):
        raise UsageError("--out is --data itself; write to another file")
    journal = args.journal
    if journal is not None and real(journal) in {real(out), real(args.data)}:
        raise UsageError("--journal is --out or --data itself; name another file")
    if args.force or args.resume:
        return
    if out.exists():
        raise RowsError(f"{out} exists already; --force writes over it")
    if partial_of(out).exists():
        raise RowsError(
            f"{partial_of(out)} is left of an unfinished run: --resume goes on with it, "
            "--force starts again"
        )


def _unfinished(why: str, writer: RowWriter, run: Run) -> str:
    kept = f"; replies are kept in {journal}" if (journal := journal_of(run)) else ""
    return (
        f"{why}: {writer.written:,} of {run.survey.n_rows:,} rows are in {writer.partial}{kept}; "
        "run the same with --resume to go on"
    )


def _taken(ledgers: Mapping[str, Ledger]) -> dict[str, Any]:
    costs = [ledger.cost for ledger in ledgers.values()]
    known = [cost for cost in costs if cost is not None]
    return {
        "lm": sorted(ledgers),
        "lm_calls": sum(ledger.calls for ledger in ledgers.values()),
        "tokens": {
            "in": sum(ledger.tokens_in for ledger in ledgers.values()),
            "out": sum(ledger.tokens_out for ledger in ledgers.values()),
        },
        "cost_usd": round(sum(known), 6) if len(known) == len(costs) else None,
    }
