"""python -m judges score and compare: judges over a table, one row in, one row out."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from data.tables.formats import written_format
from data.tables.problems import RowsError
from data.tables.text import Row
from judges.cli.arguments import (
    JUDGE,
    add_model_flags,
    add_plan_flags,
    add_reasoning_flag,
    add_recording_flags,
    add_run_flags,
    add_table_flags,
    reasoning_as_asked,
    to_ask,
    with_recordings,
)
from judges.cli.estimate import estimate_record, estimate_table
from judges.cli.shell import print_error
from judges.cli.table_run import (
    TableRun,
    batch_status,
    collect_batch,
    out_name,
    piped,
    prepare,
    submit_batch,
    texts_of,
    write,
)
from judges.dimension import Comparison
from judges.errors import UsageError
from judges.human_scale import differences_from
from judges.judge import Judge
from judges.judgement import Judgement, Verdict
from judges.loading import load
from judges.panel import Panel
from judges.winrate import WinRate, text_length, win_rate

ABOUT_SCORE = """\
Judge every row of a table with one or more rating judges.

JUDGE is a name from the catalogue (python -m judges list), a frozen judge's
file, a run folder, or your own definition: FILE.yaml[:name] or FILE.py:NAME.
JSONL rows get "judgements"; CSV and Parquet rows get the columns NAME
and NAME_failure. A row that cannot be judged has no score and says why."""

SCORE_EXAMPLES = """\
examples:
  python -m judges score coherence fluency --data in.jsonl --out out.jsonl
  python -m judges score runs/relevance-001 --data in.csv --out out.csv
  python -m judges score relevance --data in.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --samples 20 --temperature 1 --max-cost 5"""

ABOUT_COMPARE = """\
Compare the two outputs of every pair, and print how often A wins.

Each pair is asked in both orders; a choice that follows the position is a
tie. --order random asks once, in an order drawn from --seed and recorded.
The pair's texts are columns named as the judge names them (show NAME), or
response_a, response_b and one of prompt, document, post, query."""

COMPARE_EXAMPLES = """\
examples:
  python -m judges compare tldr_concise --data pairs.jsonl --out verdicts.jsonl
  python -m judges compare kinder.yaml --data pairs.csv --out out.csv \\
      --lm openai/gpt-4.1-mini --order random --seed 7"""


def add_score(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "score",
        usage="python -m judges score JUDGE... --data FILE --out FILE [options]",
        help="judge every row of a table",
        description=ABOUT_SCORE,
        epilog=SCORE_EXAMPLES,
    )
    parser.add_argument("judges", nargs="+", metavar="JUDGE", help="one or more; see above")
    add_table_flags(parser, data_help="the rows to judge")
    add_model_flags(parser)
    add_plan_flags(parser)
    add_reasoning_flag(parser)
    parser.add_argument(
        "--rationale", action="store_true", help="the former name of --reasoning brief"
    )
    parser.add_argument(
        "--raw-scores",
        action="store_true",
        help="the model's own scores, where a frozen judge would put them on people's scale",
    )
    add_recording_flags(parser)
    add_run_flags(parser)
    parser.set_defaults(run=partial(_run, Scores), order=None)


def add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare",
        usage="python -m judges compare JUDGE --data FILE --out FILE [options]",
        help="compare the two outputs of every pair",
        description=ABOUT_COMPARE,
        epilog=COMPARE_EXAMPLES,
    )
    parser.add_argument("judge", metavar="JUDGE", help="a pairwise judge: " + JUDGE)
    add_table_flags(parser, data_help="the pairs to judge")
    parser.add_argument(
        "--order",
        choices=("both", "random"),
        default="both",
        help="ask every pair in both orders, or in one drawn at random (both)",
    )
    add_reasoning_flag(parser)
    add_model_flags(parser)
    add_plan_flags(parser)
    add_recording_flags(parser)
    add_run_flags(parser)
    parser.set_defaults(run=partial(_run, Verdicts))


def _run(results_class: "type[Scores | Verdicts]", args: argparse.Namespace) -> int:
    """Estimate, submit, or judge and report, as the flags say; the exit code."""
    with piped(args):
        return _run_table(results_class, args)


def _run_table(results_class: "type[Scores | Verdicts]", args: argparse.Namespace) -> int:
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
    cost = write(run, partial(results.fill, run), models)
    results.report(run, cost)
    return 0


class Scores:
    """What `score` writes and prints: rating judges' scores, and each judge's mean."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.judges: list[Judge] = []
        # Of each judge: score, failure, and the rationale where it is asked for.
        self.columns: dict[str, list[str]] = {}
        loaded = [load(source) for source in args.judges]
        has_panel = any(isinstance(judge, Panel) for judge in loaded)
        for source, judge in zip(args.judges, loaded, strict=True):
            if judge.kind == "pairwise":
                raise UsageError(f"{source} compares two outputs; use: python -m judges compare")
            judge = to_ask(reasoning_as_asked(judge, source, args), args)
            if isinstance(judge, Panel) or not has_panel:
                judge = with_recordings(judge, args)
            self.judges.append(judge)
            if judge.name in self.columns:
                raise UsageError(f"two judges are called {judge.name!r}; score them in two runs")
            column = f"{args.prefix}{judge.name}"
            self.columns[judge.name] = [column, f"{column}_failure"]
            if any(output.name == "rationale" for output in judge.prompt.outputs):
                self.columns[judge.name].append(f"{column}_rationale")
        self.new_columns = [column for columns in self.columns.values() for column in columns]
        self.averages = {judge.name: Average() for judge in self.judges}

    def fill(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        """The row with every judge's result added; also counts these for the report."""
        for name, judgement in judgements.items():
            self.averages[name].add(judgement)
        if not written_format(run.args.out).flat:
            earlier = row.get("judgements")
            entries = {name: judgement.as_json() for name, judgement in judgements.items()}
            if isinstance(earlier, dict):
                entries = {**earlier, **entries}
            return {**row, "judgements": entries}
        filled = dict(row)
        for name, judgement in judgements.items():
            score = None if judgement.failure else judgement.score
            values = (score, judgement.failure, judgement.rationale)
            # A judge without a rationale has one column less.
            filled.update(zip(self.columns[name], values, strict=False))
        return filled

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        """Print the averages and the cost; RowsError where no row got a score."""
        averages = self.averages
        if run.args.json:
            record = {
                "out": out_name(run.args),
                "rows": run.n_rows,
                "judges": {judge.name: averages[judge.name].record(judge) for judge in self.judges},
                **cost,
            }
            print(json.dumps(record, indent=1))
        else:
            lines = [line for judge in self.judges for line in averages[judge.name].lines(judge)]
            width = max(len(name) for name, _ in lines)
            for name, text in lines:
                print(f"{name:<{width}}  {text}")
            for judge in self.judges:
                if different := averages[judge.name].difference(judge):
                    print_error(f"warning: {judge.name}: {different}")
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

    def difference(self, judge: Judge) -> str:
        """A warning where these scores lie elsewhere than the ratings that the judge learned."""
        people = judge.human_ratings
        what = "" if people is None else differences_from(people, self.mean, self.sd, self.n)
        return what and (
            f"{what}: unless these texts are as different from those it was tuned on, read its "
            "scores as an order, and not as ratings"
        )

    def record(self, judge: Judge) -> dict[str, Any]:
        people = judge.human_ratings
        return {
            "mean": self.mean if self.n else None,
            "sd": self.sd if self.n else None,
            "people": people and {"mean": people.mean, "sd": people.sd, "n": people.n},
            "warning": self.difference(judge) or None,
            "n": self.n,
            "n_failed": self.failures.total(),
            "n_unparsable_replies": self.unparsable,
            "mean_outside_scale": self.outside / self.n_outside if self.n_outside else None,
            "failures": dict(self.failures.most_common(20)),
        }

    def lines(self, judge: Judge) -> list[tuple[str, str]]:
        """The judge and its figures; below it people and theirs, where they are known."""
        people, figures = judge.human_ratings, "no score"
        if self.n:
            figures = f"mean {self.mean:.3f}  sd {self.sd:.3f}"
        text = f"{figures}  n={self.n:,} ({self.failures.total():,} failed)"
        if self.n_outside and (outside := self.outside / self.n_outside) >= 0.001:
            text += f", {outside:.1%} of probability off the scale"
        if people is None:
            return [(judge.name, text)]
        of_people = f"mean {people.mean:.3f}  sd {people.sd:.3f}  n={people.n:,} it was tuned on"
        return [(judge.name, text), ("  labels" if people.constructed else "  people", of_people)]


class Verdicts:
    """What `compare` writes and prints: a pairwise judge's verdicts, and the win rate."""

    KEYS = ("preferred", "order_ab", "order_ba", "comparison", "failure")

    def __init__(self, args: argparse.Namespace) -> None:
        judge = to_ask(reasoning_as_asked(load(args.judge), args.judge, args), args)
        judge = with_recordings(judge, args)
        if not isinstance(judge.subject, Comparison):
            raise UsageError(f"{args.judge} rates one output; use: python -m judges score")
        self.judges = [judge]
        self.subject = judge.subject
        self.new_columns = [f"{args.prefix}verdict_{key}" for key in self.KEYS]
        self.verdicts: list[Verdict] = []
        self.documents: list[int] = []
        self.lengths: list[tuple[int, int]] = []

    def fill(self, run: TableRun, row: Row, judgements: Mapping[str, Any]) -> Row:
        """The row with the verdict added; also keeps it for the report."""
        verdict = judgements[self.subject.name]
        texts = texts_of(row, run.texts[self.subject.name])
        length_a, length_b = (text_length(str(texts[name] or "")) for name in self.subject.fields)
        self.verdicts.append(verdict)
        self.documents.append(hash(tuple(str(texts[name]) for name in self.subject.inputs)))
        self.lengths.append((length_a, length_b))
        entry = {key: getattr(verdict, key) for key in self.KEYS}
        if written_format(run.args.out).flat:
            return {**row, **dict(zip(self.new_columns, entry.values(), strict=True))}
        return {**row, "verdict": entry}

    def report(self, run: TableRun, cost: Mapping[str, object]) -> None:
        """Print the win rate and the cost; RowsError where no pair got a verdict."""
        rate = win_rate(self.verdicts, documents=self.documents, lengths=self.lengths)
        if run.args.json:
            print(json.dumps({**rate.summary(), "out": out_name(run.args), **cost}, indent=1))
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
