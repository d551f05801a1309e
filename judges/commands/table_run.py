"""Run judges over a table: look it through, estimate, ask, and write each row as it is answered."""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from judges.commands.estimate import Estimate, estimate_line, estimate_run
from judges.commands.options import mapping_of
from judges.commands.survey import Survey, refuse_clash, survey, texts_of
from judges.engine.ledger import BudgetSpentError, Ledger
from judges.engine.progress import Progress
from judges.engine.runner import FailingRunError
from judges.engine.session import Session, budget_file_of
from judges.engine.telling import visible
from judges.errors import JudgesError, UsageError
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.models.secrets import holds_secret
from judges.tables.landing import in_use, write_whole
from judges.tables.rows import DELIMITERS, Row, RowsError, decode_json, format_of, read_rows
from judges.tables.writer import RowWriter, flat, partial_of

if TYPE_CHECKING:
    from judges.models.protocol import Model

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
        write_whole(
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
    if all(judge.lm in {"embedded", "embedded-1"} for judge in run.judges):
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
