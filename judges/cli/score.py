"""python -m judges score: rating judges over a table, one row in, one row out."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.tables.formats import Row
from data.tables.problems import RowsError
from data.tables.write import flat
from judges.cli import batch_run
from judges.cli.arguments import (
    add_model_flags,
    add_plan_flags,
    add_run_flags,
    add_table_flags,
    to_ask,
    with_rationale,
)
from judges.cli.table_run import estimate_record, estimate_table, prepare, write
from judges.errors import UsageError
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement
from judges.loading import load

ABOUT = """\
Judge every row of a table with one or more rating judges.

JUDGE is a name from the catalogue (python -m judges list), a frozen judge's
file, a run folder, or your own definition: FILE.yaml[:name] or FILE.py:NAME.
JSONL rows get "judgements"; CSV, TSV and Parquet rows get the columns NAME
and NAME_failure. A row that cannot be judged has no score and says why."""

EXAMPLES = """\
examples:
  python -m judges score coherence fluency --data in.jsonl --out out.jsonl
  python -m judges score runs/relevance-001 --data in.csv --out out.csv
  python -m judges score relevance --data in.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --samples 20 --temperature 1 --max-cost 5"""


@dataclass(slots=True)
class Average:
    """One judge's scores, summed up as they come."""

    total: float = 0.0
    n: int = 0
    unparsable: int = 0
    outside: float = 0.0
    n_outside: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, judgement: Judgement) -> None:
        self.unparsable += judgement.unparsable
        if judgement.failure is not None:
            self.failures[judgement.failure[:200]] += 1
            return
        self.total += judgement.score
        self.n += 1
        if judgement.outside is not None:
            self.outside += judgement.outside
            self.n_outside += 1

    def entry(self) -> dict[str, Any]:
        return {
            "mean": self.total / self.n if self.n else None,
            "n": self.n,
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.unparsable,
            "mean_outside_scale": self.outside / self.n_outside if self.n_outside else None,
            "failures": dict(self.failures.most_common(20)),
        }

    def line(self, name: str, width: int) -> str:
        mean = f"{self.total / self.n:.3f}" if self.n else "no score"
        said = f"{name:<{width}}  mean {mean}  n={self.n:,} ({self.failures.total():,} failed)"
        if self.n_outside and (off := self.outside / self.n_outside) >= 0.001:
            said += f", {off:.1%} of probability off the scale"
        return said


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "score",
        usage="python -m judges score JUDGE... --data FILE --out FILE [options]",
        help="judge every row of a table",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("judges", nargs="+", metavar="JUDGE", help="one or more; see above")
    add_table_flags(parser, what="the rows to judge")
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="put before the names of new columns, as in judge_ (nothing)",
    )
    add_model_flags(parser)
    add_plan_flags(parser)
    parser.add_argument(
        "--rationale",
        action="store_true",
        help="ask for a sentence of reasons before the rating (not of a frozen judge)",
    )
    add_run_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.batch_api == "status":
        return batch_run.status(args)
    judges = _load(args)
    columns = _columns(judges, args.prefix)
    new = [name for names in columns.values() for name in names]
    prepared = prepare(judges, args, new)
    if args.dry_run:
        shown = estimate_record(prepared.estimates)
        print(json.dumps(shown, indent=1) if args.json else estimate_table(prepared.estimates))
        return 0
    if args.batch_api == "submit":
        return batch_run.submit(prepared)
    models = batch_run.collect(prepared) if args.batch_api else None
    averages = {judge.name: Average() for judge in judges}
    plain = flat(args.out)

    def fill(row: Row, said: Mapping[str, AnyJudgement]) -> Row:
        for name, judgement in said.items():
            averages[name].add(_judgement(judgement))
        return _flat(row, said, columns) if plain else _nested(row, said)

    taken = write(prepared, new, fill, models)
    result = {
        "out": str(args.out),
        "rows": prepared.survey.n_rows,
        "judges": {name: average.entry() for name, average in averages.items()},
        **taken,
    }
    width = max(len(name) for name in averages)
    text = "\n".join(average.line(name, width) for name, average in averages.items())
    print(json.dumps(result, indent=1) if args.json else text)
    if not any(average.n for average in averages.values()):
        reason = next(iter(next(iter(averages.values())).failures))
        raise RowsError(f"no row got a score; the first reason: {reason}")
    return 0


def _load(args: argparse.Namespace) -> list[Judge]:
    judges = [_load_one(name, args) for name in args.judges]
    names = [judge.name for judge in judges]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two judges are called {doubled!r}; score them in two runs")
    return judges


def _load_one(name: str, args: argparse.Namespace) -> Judge:
    judge = load(name)
    if judge.kind == "pairwise":
        raise UsageError(f"{name} compares two outputs; use: python -m judges compare")
    if args.rationale:
        judge = with_rationale(judge, name)
    return to_ask(judge, args)


def _columns(judges: Sequence[Judge], prefix: str) -> dict[str, tuple[str, ...]]:
    """The new columns of each judge: score, failure, and the rationale where it is asked for."""
    return {
        judge.name: (
            f"{prefix}{judge.name}",
            f"{prefix}{judge.name}_failure",
            *([f"{prefix}{judge.name}_rationale"] if _reasons(judge) else []),
        )
        for judge in judges
    }


def _reasons(judge: Judge) -> bool:
    return any(output.name == "rationale" for output in judge.prompt.outputs)


def _flat(row: Row, said: Mapping[str, AnyJudgement], columns: Mapping[str, Sequence[str]]) -> Row:
    filled = dict(row)
    for name, one in said.items():
        judgement = _judgement(one)
        score = None if judgement.failure else judgement.score
        # A judge without a rationale has one column less.
        filled.update(
            zip(columns[name], (score, judgement.failure, judgement.rationale), strict=False)
        )
    return filled


def _nested(row: Row, said: Mapping[str, AnyJudgement]) -> Row:
    before = row.get("judgements")
    earlier = before if isinstance(before, dict) else {}
    return {**row, "judgements": {**earlier, **{n: _entry(one) for n, one in said.items()}}}


def _entry(said: AnyJudgement) -> dict[str, object]:
    judgement = _judgement(said)
    distribution = judgement.distribution
    return {
        "score": None if math.isnan(judgement.score) else judgement.score,
        "rating": judgement.rating,
        "distribution": distribution and {str(r): p for r, p in distribution.items()},
        "rationale": judgement.rationale,
        "failure": judgement.failure,
    }


def _judgement(said: AnyJudgement) -> Judgement:
    assert isinstance(said, Judgement)
    return said
