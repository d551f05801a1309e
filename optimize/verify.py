"""The command `verify` and the function `measure`: how far a judge agrees with people's labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # Before other imports, so that no file in the working folder is imported in place of a library.
    sys.exit(start("optimize.verify:command"))

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dspy_judges.errors import JudgesError
from judges.cli.flags import add_model_flags, add_reporting_flags, split_name
from judges.client import ModelOptions, read_options
from judges.labels.flags import MapEntry
from judges.labels.types import LabelledPairs
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.in_memory import Rows
from judges.terminal import FAILED
from optimize.figures.as_json import JsonObject, judgement_rows, object_json
from optimize.inputs.flags import Outcome, Parser, SettingsError, refuse_secret, run, values_of
from optimize.inputs.labelled import (
    AnyLevel,
    AnyPath,
    Labelled,
    LabelSource,
    find_subject,
    load_labels,
)
from optimize.items import is_two_valued
from optimize.measuring.asking import (
    Task,
    ask_entries,
    from_numbers,
    on_labels_scale,
    recorded_scale,
)
from optimize.measuring.changed import ChangedSwap
from optimize.measuring.floors import add_floor_flags, check_floors, read_floors
from optimize.measuring.request import add_task_flags, asking_options, read_judges, read_task
from optimize.measuring.scorecard import correlation_of, rho
from optimize.measuring.scored import Scored
from optimize.measuring.verification import Verification
from optimize.report.page import write_verification
from optimize.report.verification import verification_lines
from optimize.statistics.correlations import DEFAULT_UNDEFINED, Correlation, Level, Undefined
from optimize.swap import MARGIN, changed_lines, swap, swap_lines

if TYPE_CHECKING:
    import pandas as pd

NAME = "dspy-judges verify"
ABOUT = """\
How far a judge, or any judge's recorded replies or scores, agrees with people:
Spearman's rho, the accuracy on pairs, or for pass and fail the rates of false
passes and false alarms, with intervals over documents.
If annotators are known, the judge is compared with each of them, and they with
each other. Rows that the judge was tuned on are left out.

Recorded replies are JSONL, {"id", "dimension", "replies": [...]}; scores are
{"id", "dimension", "score"}, rows of `dspy-judges score`, or a tool's results."""

EXAMPLES = """\
examples:
  dspy-judges verify runs/relevance-001 --data new.jsonl --min-spearman 0.4
  dspy-judges verify runs/safe-001 --data new.csv --min-tpr 0.8 --min-tnr 0.8
  dspy-judges verify --scores scores.jsonl --data labels.jsonl \\
      --dimension coherence --report coherence.html
  dspy-judges verify safe.json@openai/NEW --against safe.json --data new.csv
exit codes: 0 done; 1 failed, fell short, or more than a tenth of the judgements
failed; 2 wrong usage; 3 a floor or the margin lies within the interval, so that
these labels cannot tell"""
# The exit code if these labels cannot tell whether the floors or the margin hold.
UNDECIDED = 3
MOST_LOOKS = 100


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement:
    """One judge's scores compared with people's labels; print it to see the figures.

    Figures are computed on `held_out`, the rows whose texts the judge was not tuned on. If these
    are too few, they are computed on all rows, and are too good: then `tuned_on_these_labels` in
    the summary is true.
    """

    scored: Scored
    held_out: Scored
    labelled: Labelled

    @classmethod
    def of(cls, scored: Scored, labelled: Labelled) -> "Measurement":
        return cls(scored=scored, held_out=scored.without(scored.tuned_rows), labelled=labelled)

    @property
    def rho(self) -> Correlation:
        """Spearman's rho, at the level that suits the data, by the default convention."""
        return rho(self.held_out)

    def at(
        self, level: Level, coefficient: str = "spearman", undefined: Undefined = DEFAULT_UNDEFINED
    ) -> Correlation:
        """The correlation at another level, by another coefficient or convention.

        Most published tables use the convention `undefined="left_out"`.
        """
        return correlation_of(self.held_out, level, coefficient, undefined)

    @property
    def judgements(self) -> "pd.DataFrame":
        """A row for each labelled output or pair: people's rating, the judge's score or failure."""
        import pandas as pd

        rows = judgement_rows(self.scored.items.items, {"score": self.scored.judgements})
        return pd.DataFrame(rows)

    @property
    def result(self) -> Verification:
        """Every figure, as a dataclass."""
        return Verification.of(self.scored, self.held_out, self.labelled)

    def summary(self) -> JsonObject:
        """What `dspy-judges verify --json` prints for this judge."""
        return object_json(self.result)

    def __str__(self) -> str:
        return "\n".join(verification_lines(self.result))

    __repr__ = __str__


def measure(
    judge: AnyPath | AnyJudge | Mapping[str, float],
    data: AnyPath | Labelled | Rows | None = None,
    *,
    dimension: str | None = None,
    map: Mapping[str, MapEntry] | str | Path | None = None,
    values: Mapping[str, float | str | None] | None = None,
    scale: str | tuple[float, float] | None = None,
    annotations: AnyPath | None = None,
    level: AnyLevel = "auto",
    seed: int = 0,
    keep_going: bool = True,
    **options: Unpack[ModelOptions],
) -> Measurement:
    """Measure a judge against human labels, as `dspy-judges verify` does.

    Args:
        judge: A Judge, its name or file, as for `judges.load`; or any judge's scores by output id,
            a mapping or a Series, NaN for a failed judgement.
        data: A file of labels, a DataFrame, a Dataset, a list of dicts, or what `read_labels` or
            `read_pairs` returned. By default the starter set.
        dimension: What the scores are about; needed if `judge` is scores.
        map: The columns for our names, or a mapping file.
        values: What words in the labels count.
        scale: The scale that people used: "0-100", a pair of numbers, or "any".
        annotations: A long file of every annotator's ratings.
        level: The level of rho; "auto" takes the one that suits the labels.
        seed: The seed of the judge's samples.
        keep_going: With false, the run ends once almost all judgements fail.
        **options: How to ask the judge's model, as for `judge.score`. With `store`, every reply is
            kept, so that none is paid twice.

    Raises:
        TypeError: An argument has a wrong type.
        LabelError: The labels cannot be used.
        SettingsError: Settings are wrong, or do not fit each other.
        UnknownDimensionError: There is no judge of this name.
        FrozenJudgeError: The judge's file cannot be read.
        ModelError: The model cannot be asked.
        BudgetSpentError: A limit was reached.
    """
    read_options(options)
    refuse_secret(options.get("api_base"))
    if isinstance(scale, list | tuple) and len(scale) == 2:
        scale = f"{scale[0]}:{scale[1]}"
    if scale is not None and not isinstance(scale, str):
        raise TypeError(f"scale is {scale!r}; '0-100', (0, 100) or 'any' is wanted")
    words = values_of(values or {})
    source = LabelSource(data=data, map=map, values=words, annotations=annotations, scale=scale)
    if hasattr(judge, "items"):
        if dimension is None:
            raise TypeError("measure() needs dimension=NAME, to know what the scores are about")
        subject = find_subject(dimension)
        task = Task.of(load_labels(source, dimension, subject, recorded=True), dimension, level)
        by_id = from_numbers(judge.items(), pairwise=isinstance(task.labelled, LabelledPairs))
        scored = task.scored("scores", by_id, None, recorded_scale(scale, subject))
        return Measurement.of(scored, task.labelled)
    if not isinstance(judge, AnyJudge | str | os.PathLike):
        raise TypeError(
            f"measure() takes a Judge, its name or file, or scores by id; not {judge!r}"
        )
    name = judge.name if isinstance(judge, AnyJudge) else os.fspath(judge)
    judge = on_labels_scale(judge if isinstance(judge, AnyJudge) else load(judge), scale)
    if dimension not in (None, judge.name):
        raise TypeError(
            f"this judge is about {judge.name!r}, not {dimension!r}; if the labels call it "
            f"otherwise, say map={{{judge.name!r}: COLUMN}}"
        )
    labelled = load_labels(source, judge.name, judge.subject)
    task = Task.of(labelled, judge.name, level)
    judge = judge.with_model(options.pop("lm", None), options.pop("api_base", None))
    items = task.items(judge).items
    with judge.open_client(keep_going=keep_going, **options) as client:
        judgements = judge.judge_rows((item.texts for item in items), client, seed=seed)
        by_id = {item.id: judgement for item, judgement in zip(items, judgements, strict=True)}
    return Measurement.of(task.scored(name, by_id, judge), task.labelled)


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} JUDGE | --replies FILE | --scores FILE [flags]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add = command_parser.add_argument
    help_text = "a catalogue name, a run folder or a file; also JUDGE@MODEL"
    add("judges", nargs="*", metavar="JUDGE", help=help_text)
    add_task_flags(command_parser)
    add_floor_flags(command_parser)
    help_text = "whether JUDGE may replace OLD, a JUDGE or a recording's NAME"
    add("--against", metavar="OLD", help=help_text)
    help_text = f"how much worse than OLD it may be ({MARGIN})"
    add("--margin", type=float, metavar="X", help=help_text)
    help_text = "certify by labels on changed outputs only"
    add("--changed", metavar="FILE", help=help_text)
    add_model_flags(command_parser, limits=" for each start")
    add("--report", metavar="FILE", help="draw a page: where it agrees, and where it does not")
    add("--all", action="store_true", help="print every level and coefficient, too")
    add_reporting_flags(command_parser)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Measure a judge against labels and print its figures; returns the exit code."""
    return run(NAME, parser().parse_args(arguments), verify, interrupted="interrupted")


def verify(flags: argparse.Namespace) -> Outcome:
    """Measure the judge that flags name, by itself or against another one."""
    floors = read_floors(flags)
    _check_flags(flags, floors)
    result = _verify_one(flags, floors) if flags.against is None else swap(flags)
    if isinstance(result, Verification):
        lines = verification_lines(result, everything=flags.all, page=flags.report)
    elif isinstance(result, ChangedSwap):
        lines = changed_lines(result)
    else:
        lines = swap_lines(result, flags.report)
    code = UNDECIDED if result.is_undecided else FAILED
    return Outcome(result, lines, result.faults, code)


def _verify_one(flags: argparse.Namespace, floors: Mapping[str, float]) -> Verification:
    sources = [*flags.judges, *flags.scores, *flags.replies]
    if len(sources) != 1:
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    judges = read_judges(flags, map(split_name, flags.judges), flags.lm or "")
    task, (entry,) = read_task(flags, judges)
    if floors.keys() - {"spearman"} and not is_two_valued(task.items().human):
        raise SettingsError("--min-tpr and --min-tnr need labels that say pass or fail")
    (entry,) = ask_entries([entry], task, seed=flags.seed, **asking_options(flags))
    if entry.scored is None:
        raise JudgesError(entry.reason)
    measured = Measurement.of(entry.scored, task.labelled)
    result = replace(measured.result, judge=sources[0])
    if floors.keys() - {"spearman"} and not result.card.two_values:
        raise JudgesError("--min-tpr and --min-tnr: the scores are not between 0 and 1")
    result = replace(result, gate=check_floors(result, floors, flags.looks))
    if flags.report:
        write_verification(Path(flags.report), result, measured.held_out)
    return result


def _check_flags(flags: argparse.Namespace, floors: Mapping[str, float]) -> None:
    """Raise SettingsError for flags that do not fit each other, before a model is asked."""
    is_swap = flags.against is not None
    if flags.looks > MOST_LOOKS or (flags.looks > 1 and not (floors or is_swap)):
        raise SettingsError(
            f"--looks {flags.looks:,}: name what is decided, a floor (--min-...) or --against OLD; "
            f"{MOST_LOOKS} looks at most"
        )
    # Any other ending could be that of a file of labels or scores, which the page would replace.
    page = Path(flags.report or "page.html")
    if page.suffix != ".html" or not page.parent.is_dir():
        raise SettingsError(
            f"--report {flags.report}: name a file that ends in .html, in a folder that exists"
        )
    if not is_swap and (flags.margin is not None or flags.changed is not None):
        raise SettingsError(
            "--margin and --changed belong to a swap: name the old judge by --against OLD"
        )
