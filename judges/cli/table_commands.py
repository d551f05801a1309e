"""dspy-judges score and winrate: judge the rows or pairs of a table, and print the average."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from data.tables.problems import RowsError
from data.tables.text import Row
from dspy_judges.errors import UsageError
from judges.cli.estimate import estimate_record, estimate_table
from judges.cli.flags import (
    JUDGE,
    add_model_flags,
    add_plan_flags,
    add_reasoning_flag,
    add_run_flags,
    add_table_flags,
    reasoning_as_asked,
    to_ask,
)
from judges.cli.table_run import (
    TableRun,
    batch_status,
    collect_batch,
    free_name,
    prepare,
    submit_batch,
    texts_of,
    write,
)
from judges.dimension import Comparison
from judges.judge import Judge
from judges.judgement import Judgement, Verdict
from judges.loading import load
from judges.winrate import WinRate, text_length, win_rate

ABOUT_SCORE = """\
Judge every row of a table with one or more rating judges.

JSONL rows get "judgements"; CSV and Parquet rows get the columns NAME and
NAME_failure. A row that cannot be judged has no score and a reason. Rows
without an id get their number as `id`, so that dspy-judges verify --scores
reads the file."""

SCORE_EXAMPLES = """\
examples:
  dspy-judges score coherence fluency --data in.jsonl --out out.jsonl
  dspy-judges score runs/relevance-001 --data in.csv --out out.csv
  dspy-judges score relevance --data in.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --plan mean --samples 20 --max-cost 5"""

ABOUT_WINRATE = """\
Compare the two outputs of every pair, and print how often A wins.

Each pair is asked in both orders; a choice that follows the position is a
tie. The pair's texts are columns named as the judge names them (show NAME), or
response_a, response_b and one of prompt, document, post, query."""

WINRATE_EXAMPLES = """\
examples:
  dspy-judges winrate tldr_concise --data pairs.jsonl --out verdicts.jsonl
  dspy-judges winrate kinder.yaml --data pairs.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --order random --seed 7"""


def add_score(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "score",
        usage="dspy-judges score JUDGE... --data FILE --out FILE [options]",
        help="judge every row of a table",
        description=ABOUT_SCORE,
        epilog=SCORE_EXAMPLES,
    )
    parser.add_argument("judges", nargs="+", metavar="JUDGE", help=JUDGE)
    add_table_flags(parser, data_help="the rows to judge")
    _add_asking_flags(parser)
    parser.set_defaults(run=partial(_run, Scores), order=None)


def add_winrate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "winrate",
        usage="dspy-judges winrate JUDGE --data FILE --out FILE [options]",
        help="compare the two outputs of every pair",
        description=ABOUT_WINRATE,
        epilog=WINRATE_EXAMPLES,
    )
    parser.add_argument("judge", metavar="JUDGE", help="a pairwise judge: " + JUDGE)
    add_table_flags(parser, data_help="the pairs to judge")
    parser.add_argument(
        "--order",
        choices=("both", "random"),
        default="both",
        metavar="ORDER",
        help="both, or random: one order a pair, drawn by --seed (both)",
    )
    _add_asking_flags(parser)
    parser.set_defaults(run=partial(_run, Verdicts))


def _add_asking_flags(parser: argparse.ArgumentParser) -> None:
    add_reasoning_flag(parser)
    add_model_flags(parser)
    add_plan_flags(parser)
    add_run_flags(parser)


def _run(results_class: "type[Scores | Verdicts]", args: argparse.Namespace) -> int:
    """Estimate, submit, or judge and report, as the flags say; the exit code."""
    if args.batch_api == "status":
        return batch_status(args)
    results = results_class(args)
    run = prepare(results.judges, args, results.new_columns)
    if args.dry_run:
        estimates = run.estimates
        record = json.dumps(estimate_record(estimates), indent=1) if args.json else None
        print(record or estimate_table(estimates))
        return 0
    if args.batch_api == "submit":
        return submit_batch(run)
    models = collect_batch(run) if args.batch_api else None
    cost = write(run, results.new_cells, models)
    results.report(run, cost)
    return 0


class Scores:
    """What `score` writes and prints: rating judges' scores, and each judge's mean."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.judges: list[Judge] = []
        for source in args.judges:
            judge = load(source)
            if judge.kind == "pairwise":
                raise UsageError(f"{source} compares two outputs; use: dspy-judges winrate")
            judge = to_ask(reasoning_as_asked(judge, source, args), args)
            if any(judge.name == other.name for other in self.judges):
                raise UsageError(f"two judges are called {judge.name!r}; score them in two runs")
            self.judges.append(judge)
        self.averages = {judge.name: Average() for judge in self.judges}
        # Of each judge: the columns of score, failure and, where it gives one, rationale.
        self.columns: dict[str, list[str]] = {}

    def new_columns(self, columns: Collection[str]) -> list[str]:
        """What a flat file gets beside these columns."""
        for judge in self.judges:
            suffixes = ["", "_failure"]
            if any(output.name == "rationale" for output in judge.prompt.outputs):
                suffixes.append("_rationale")
            name = free_name(judge.name, suffixes, columns)
            self.columns[judge.name] = [f"{name}{suffix}" for suffix in suffixes]
        return [column for new in self.columns.values() for column in new]

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        """Every judge's result for the row; also counts these for the report."""
        for name, judgement in judgements.items():
            self.averages[name].add(judgement)
        if not run.new_columns:
            earlier = row.get("judgements")
            entries = {name: judgement.as_json() for name, judgement in judgements.items()}
            return {"judgements": {**(earlier if isinstance(earlier, dict) else {}), **entries}}
        cells: dict[str, Any] = {}
        for name, judgement in judgements.items():
            score = None if judgement.failure else judgement.score
            values = (score, judgement.failure, judgement.rationale)
            # A judge without a rationale has one column less.
            cells.update(zip(self.columns[name], values, strict=False))
        return cells

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        """Print the averages and the cost; RowsError where no row got a score."""
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
            for name, average in averages.items():
                print(f"{name:<{width}}  {average}")
        if not any(average.n for average in averages.values()):
            reason = next(iter(averages[self.judges[0].name].failures))
            raise RowsError(f"no row got a score; the first reason: {reason}")


@dataclass(slots=True)
class Average:
    """One judge's scores, summed up as they come."""

    mean: float = math.nan
    # Of the scores' squared distances from their mean (Welford 1962).
    squares: float = 0.0
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
        self.n += 1
        before = judgement.score if self.n == 1 else self.mean
        self.mean = before + (judgement.score - before) / self.n
        self.squares += (judgement.score - before) * (judgement.score - self.mean)
        if judgement.outside is not None:
            self.outside += judgement.outside
            self.n_outside += 1

    @property
    def sd(self) -> float:
        return math.sqrt(self.squares / self.n) if self.n else math.nan

    def record(self) -> dict[str, Any]:
        return {
            "mean": self.mean if self.n else None,
            "sd": self.sd if self.n else None,
            "n": self.n,
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.unparsable,
            "mean_outside_scale": self.outside / self.n_outside if self.n_outside else None,
            "failures": dict(self.failures.most_common(20)),
        }

    def __str__(self) -> str:
        figures = f"mean {self.mean:.3f}  sd {self.sd:.3f}" if self.n else "no score"
        text = f"{figures}  n={self.n:,} ({self.failures.total():,} failed)"
        if self.n_outside and (outside := self.outside / self.n_outside) >= 0.001:
            text += f", {outside:.1%} of probability off the scale"
        return text


class Verdicts:
    """What `winrate` writes and prints: a pairwise judge's verdicts, and the win rate."""

    KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, args: argparse.Namespace) -> None:
        judge = to_ask(reasoning_as_asked(load(args.judge), args.judge, args), args)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{args.judge} rates one output; use: dspy-judges score")
        self.judges = [judge]
        self.subject = judge.subject
        self.verdicts: list[Verdict] = []
        self.documents: list[int] = []
        self.lengths: list[tuple[int, int]] = []

    def new_columns(self, columns: Collection[str]) -> list[str]:
        """What a flat file gets beside these columns."""
        suffixes = [f"_{key}" for key in self.KEYS]
        name = free_name("verdict", suffixes, columns)
        return [f"{name}{suffix}" for suffix in suffixes]

    def new_cells(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        """The pair's verdict; also keeps it for the report."""
        verdict = judgements[self.subject.name]
        texts = texts_of(row, run.texts[self.subject.name])
        length_a, length_b = (text_length(str(texts[name] or "")) for name in self.subject.fields)
        self.verdicts.append(verdict)
        self.documents.append(hash(tuple(str(texts[name]) for name in self.subject.inputs)))
        self.lengths.append((length_a, length_b))
        entry = {key: getattr(verdict, key) for key in self.KEYS}
        if not run.new_columns:
            return {"verdict": entry}
        return dict(zip(run.new_columns, entry.values(), strict=True))

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        """Print the win rate and the cost; RowsError where no pair got a verdict."""
        rate = win_rate(self.verdicts, documents=self.documents, lengths=self.lengths)
        if run.args.json:
            print(json.dumps({**rate.summary(), "out": str(run.args.out), **cost}, indent=1))
        else:
            print(_win_rate_text(self.subject.name, rate, flips=run.args.order == "both"))
        if rate.n == 0:
            reason = self.verdicts[0].failure
            raise RowsError(f"no pair got a verdict; the first reason: {reason}")


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
