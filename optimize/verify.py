"""The command `verify`, and `measure()`: how far a judge agrees with people's labels."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(run("optimize.verify:command"))

import argparse
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from data.tables.in_memory import Rows
from data.types import LabelError, LabelledPairs, LabelledSet
from dspy_judges.errors import JudgesError
from judges.cli.flags import (
    add_model_flags,
    add_reporting_flags,
    split_name,
)
from judges.client import ModelOptions, check_options
from judges.judge import Judge
from judges.loading import load
from judges.terminal import DONE, FAILED, print_error, print_lines, print_note, run_command
from optimize.compare import add_task_flags, asking_options, read_judges, read_task
from optimize.figures import cell_by_convention, judgement_rows
from optimize.flags import Parser, print_json
from optimize.injection import Probes
from optimize.items import LEVELS, data_counts, rows_to_judge
from optimize.measuring.asking import (
    Task,
    ask_entries,
    from_numbers,
    on_labels_scale,
    recorded_scale,
)
from optimize.measuring.measure import (
    all_correlations,
    order_figures,
    pair_figures,
    people_figures,
    rho,
    scale_figures,
)
from optimize.measuring.scored import Scored, unmet_rows
from optimize.report.answer import COIN, has_constructed_labels, is_paired, unit_of
from optimize.report.page import write_verification
from optimize.report.text import (
    counted,
    interval_text,
    number_text,
    share_text,
    short_name,
    signature,
    wrapped,
)
from optimize.run.labels import AnyLevel, AnyPath, Labelled, find_subject
from optimize.run.settings import SettingsError, refuse_secret, values_of
from optimize.statistics.correlations import PRIMARY, Coefficient, Correlation, Level, Undefined

if TYPE_CHECKING:
    import pandas as pd

NAME = "dspy-judges verify"
ABOUT = """\
How far a judge, or any judge's recorded replies or scores, agrees with people:
Spearman's rho, or the accuracy on pairs, with its interval over documents.
Where annotators are known: the judge beside each of them, and they beside each
other. Rows that the judge was tuned on are set apart.

Recorded replies are JSONL, {"id", "dimension", "replies": [...]}; scores are
{"id", "dimension", "score"}, or rows as `dspy-judges score` writes them."""

EXAMPLES = """\
examples:
  dspy-judges verify runs/relevance-001 --data new_labels.jsonl \\
      --min-spearman 0.4
  dspy-judges verify --scores scores.jsonl --data labels.jsonl \\
      --dimension coherence --report coherence.html

It ends with 0; with 1 where it failed, rho fell short of --min-spearman or more
than a tenth of the judgements failed; with 2 for wrong usage."""
# A gate has no figure where more than this share of the judgements failed.
MAX_FAILED = 0.1
# An interval that reaches further to either side asks for more labels.
WIDE = 0.10
NO_PROBES = Probes(reason="a verification does not attack the judge")
# Annotators, or pairs of them, that are listed one by one.
MOST_LISTED = {"judge": 3, "annotators": 1}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measured:
    """What one judge's scores are worth against people's labels; print it for the figures.

    Figures are of `unmet`, the rows whose texts the judge was not tuned on; where these are too few
    they are of all, and flatter it (`tuned_on_these_labels`). `correlations` holds every level that
    the labels have times every coefficient, and at summary level either convention on documents
    without a rho (see `optimize.summary_level`); the first is what the judge is known by.
    """

    scored: Scored
    unmet: Scored
    labelled: Labelled
    correlations: tuple[Correlation, ...]

    @classmethod
    def of(cls, scored: Scored, labelled: Labelled) -> "Measured":
        rows = unmet_rows(scored.items, scored.met)
        unmet = scored.of_rows(rows) if rows else scored
        correlations = tuple(all_correlations(unmet))
        return cls(scored=scored, unmet=unmet, labelled=labelled, correlations=correlations)

    @property
    def tuned_on_these_labels(self) -> bool:
        return bool(self.unmet.met)

    @property
    def rho(self) -> Correlation:
        """Spearman's, at the level that suits the data, by the primary convention."""
        return self.correlations[0]

    def at(
        self, level: Level, coefficient: Coefficient = "spearman", *, undefined: Undefined = PRIMARY
    ) -> Correlation:
        """The correlation of this level, coefficient and convention; LookupError if there is none.

        Most published tables are "left_out", which is another figure at summary level alone.
        """
        wanted = level, coefficient, undefined if level == "summary" else PRIMARY
        for result in self.correlations:
            if (result.level, result.coefficient, result.undefined) == wanted:
                return result
        levels = ", ".join(dict.fromkeys(result.level for result in self.correlations))
        raise LookupError(f"no {level}-level {coefficient}: these labels have the levels {levels}")

    @property
    def judgements(self) -> "pd.DataFrame":
        """Every labelled output or pair, a row each: people's rating, the judge's, the failure."""
        import pandas as pd

        scored = self.scored
        return pd.DataFrame(judgement_rows(scored.items.items, {"score": scored.judgements}))

    def summary(self) -> dict[str, Any]:
        """What `dspy-judges verify --json` prints of it."""
        scored, met = self.unmet, sorted(self.scored.met)
        people = people_figures(scored)
        is_apart = bool(met) and not self.tuned_on_these_labels
        return {
            "judge": scored.judge,
            "dimension": scored.dimension,
            "data": data_counts(self.labelled, scored.items),
            "level": scored.level,
            "correlations": [cell_by_convention(result) for result in self.correlations],
            "order": order_figures(scored),
            "scales": scale_figures(scored),
            "n_met": len(met),
            "on_met": cell_by_convention(rho(self.scored.of_rows(met))) if is_apart else None,
            "tuned_on_these_labels": self.tuned_on_these_labels,
            **(pair_figures(scored) if scored.is_pairs else {}),
            **({"people": people} if people else {}),
        }

    def __str__(self) -> str:
        return "\n".join(verify_lines(self.summary()))

    __repr__ = __str__


def measure(
    judge: AnyPath | Judge | Mapping[str, float],
    data: AnyPath | LabelledSet | LabelledPairs | Rows | None = None,
    *,
    dimension: str | None = None,
    map: Mapping[str, Any] | AnyPath | None = None,
    values: Mapping[str, float | str | None] | None = None,
    scale: str | tuple[float, float] | None = None,
    annotations: AnyPath | None = None,
    level: AnyLevel = "auto",
    seed: int = 0,
    keep_going: bool = True,
    **options: Unpack[ModelOptions],
) -> Measured:
    """Measure a judge against human labels, as `dspy-judges verify` does.

    `judge` is a Judge, what `judges.load` takes, or any judge's numbers by output id (a mapping or
    a Series; NaN: it gave none), whose subject `dimension` must tell. `data` is a file of labels, a
    DataFrame, a Dataset, a list of dicts, what `data.read_labels` or `read_pairs` returned, or None
    for the starter set. `map` goes from our names to columns, or is a mapping file; `values` from
    words to what they count; `scale` is what people were given ("0-100", a pair of numbers, or
    "any"); `annotations` is a long file of ratings. `options` are of its model, as of
    `judge.score`; `store` keeps every reply, so none is paid twice.
    Raises TypeError for other things, and LabelError, SettingsError, UnknownDimensionError,
    FrozenJudgeError, ModelError and BudgetSpentError with messages for users.
    """
    check_options(options)
    refuse_secret(options.get("api_base"))
    if level not in ("auto", *LEVELS):
        raise SettingsError(f"level {level!r}: choose from auto, {', '.join(LEVELS)}")
    if isinstance(scale, list | tuple) and len(scale) == 2:
        scale = f"{scale[0]}:{scale[1]}"
    if scale is not None and not isinstance(scale, str):
        raise TypeError(f"scale is {scale!r}; '0-100', (0, 100) or 'any' is wanted")
    how: dict[str, Any] = {"level": level, "mapping": map, "values": values_of(values or {})}
    how |= {"scale": scale, "annotations": annotations}
    if not isinstance(judge, Judge | str | os.PathLike):
        if not hasattr(judge, "items"):
            raise TypeError(
                f"measure() takes a Judge, its name or file, or scores by id; not {judge!r}"
            )
        if dimension is None:
            raise TypeError("measure() needs dimension=NAME, to know what the scores are about")
        by_id, subject = from_numbers(_numbers(judge)), find_subject(dimension)
        task = Task.read(data, dimension, subject, recorded=True, **how)
        scored = task.scored("scores", by_id, None, recorded_scale(scale, subject))
        return Measured.of(scored, task.labelled)
    name = judge.name if isinstance(judge, Judge) else os.fspath(judge)
    judge = on_labels_scale(judge if isinstance(judge, Judge) else load(judge), scale)
    if dimension not in (None, judge.name):
        raise TypeError(
            f"this judge is about {judge.name!r}, not {dimension!r}; if the labels call it "
            f"otherwise, say map={{{judge.name!r}: COLUMN}}"
        )
    task = Task.read(data, judge.name, judge.subject, **how)
    asking: Any = dict(options)
    judge, items = judge.with_model(asking.pop("lm", None), asking.pop("api_base", None)), None
    items = task.items(judge)
    with judge.open_client(keep_going=keep_going, **asking) as client:
        judgements = list(judge.judge_rows(rows_to_judge(items), client, seed=seed))
    by_id = dict(zip((item.id for item in items.items), judgements, strict=True))
    return Measured.of(task.scored(name, by_id, judge), task.labelled)


def _numbers(scores: Any) -> dict[str, float]:
    """Numbers by id, NaN for None; raises LabelError and TypeError."""
    numbers: dict[str, float] = {}
    for name, score in scores.items():
        if isinstance(score, str) or not (score is None or hasattr(score, "__float__")):
            raise TypeError(
                f"the score of {name!r} is {score!r}; a number is wanted, or NaN for none"
            )
        if str(name) in numbers:
            raise LabelError(f"an id has two scores ({name!r:.60}); give every output its own")
        numbers[str(name)] = math.nan if score is None else float(score)
    return numbers


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} JUDGE | --replies FILE | --scores FILE [flags]",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )
    add = command_parser.add_argument
    about = "a catalogue name, a run folder or a judge's file; also JUDGE@MODEL"
    add("judges", nargs="*", metavar="JUDGE", help=about)
    add_task_flags(command_parser)
    add("--min-spearman", type=float, metavar="X", help="exit 1 unless rho reaches X")
    add_model_flags(command_parser)
    add("--report", metavar="FILE", help="draw a page: where it agrees, and where it does not")
    add("--all", action="store_true", help="print every level, coefficient and annotator, too")
    add_reporting_flags(command_parser)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Measure a judge against labels and print it; returns 1 where it falls short."""
    flags = parser().parse_args(arguments)

    def print_result() -> int:
        result = verify(flags)
        if flags.json:
            print_json(result)
        else:
            print_lines(verify_lines(result, everything=flags.all, page=flags.report))
        for reason in result["short"]:
            print_error(f"{NAME}: falls short: {reason}")
        return DONE if result["passed"] else FAILED

    return run_command(NAME, print_result, verbose=flags.verbose, quiet=flags.quiet)


def verify(flags: argparse.Namespace) -> dict[str, Any]:
    """The result that --json prints."""
    if len(flags.judges) + len(flags.replies) + len(flags.scores) != 1:
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    if flags.min_spearman is not None and not -1 <= flags.min_spearman <= 1:
        raise SettingsError(f"--min-spearman {flags.min_spearman:g}: rho is between -1 and 1")
    # Before anything is asked and paid for.
    if flags.report and not Path(flags.report).parent.is_dir():
        raise SettingsError(f"{flags.report}: its folder does not exist")
    if flags.report and Path(flags.report).is_dir():
        raise SettingsError(f"{flags.report}: is a folder; name a file in it")
    judges = read_judges(map(split_name, flags.judges), flags.scale, flags.lm, flags.api_base)
    task, (entry,) = read_task(flags, judges)
    (entry,) = ask_entries([entry], task, print_note, seed=flags.seed, **asking_options(flags))
    if entry.scored is None:
        raise JudgesError(entry.reason)
    measured = Measured.of(entry.scored, task.labelled)
    name = next(iter([*flags.judges, *flags.scores, *flags.replies]))
    result = {**measured.summary(), "judge": name}
    result["short"] = _shortfalls(result, flags.min_spearman)
    result["passed"] = not result["short"]
    if flags.report:
        path, said = Path(flags.report), verify_lines(result)
        write_verification(
            path, result, measured.unmet, NO_PROBES, sentences=said[:-1], steps=[next_step(result)]
        )
    return result


def _shortfalls(result: Mapping[str, Any], least: float | None) -> list[str]:
    """What the judge falls short of, a reason each."""
    cell, number = result["correlations"][0], result["data"]["n_outputs"]
    reasons, failed = [], cell["n_failed"]
    if failed > MAX_FAILED * number:
        reasons.append(
            f"{failed / number:.1%} of the judgements failed ({failed:,} of {number:,}); at most "
            f"{MAX_FAILED:.0%} may"
        )
    value = cell["value"]
    if least is not None and (value is None or value < least):
        figure = "undefined" if value is None else f"{value:.4f}"
        reasons.append(f"{cell['level']}-level rho is {figure}; --min-spearman asks for {least:g}")
    return reasons


def verify_lines(
    result: Mapping[str, Any], *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds all other figures.

    `page` is the file that shows its errors, where one was asked for.
    """
    data, cell, unit = result["data"], result["correlations"][0], unit_of(result)
    failed = f", {cell['n_failed']:,} failed" if cell["n_failed"] else ""
    people = result.get("people")
    lines = wrapped(
        f"{short_name(Path(str(result['judge'])).name)} on {data['name']}: "
        f"{data['n_outputs']:,} {unit}, {counted(data['n_documents'], 'document')}{failed}",
        *_warnings(result),
        f"{result['dimension']} {_headline(result)}",
        *_in_plain_words(result),
        *(people_lines(people) if people else []),
        f"Its errors: {page}" if page else f"Next: {next_step(result)}",
    )
    if everything:
        orders = ("accuracy_mean_of_orders", "accuracy_order_ab", "accuracy_order_ba")
        lines += ["", *(signature(each, unit) for each in result["correlations"])]
        lines += [
            f"{key.replace('_', ' ')} {number_text(result[key])}" for key in orders if key in result
        ]
        lines += people_lines(people, everything=True) if people else []
    return lines


def _warnings(result: Mapping[str, Any]) -> list[str]:
    """What makes the figures less than a measure of agreement with people on new texts."""
    n_met, unit, lines = result["n_met"], unit_of(result), []
    if has_constructed_labels(result):
        lines.append("The labels are constructed from known faults: no person gave them.")
    if result["tuned_on_these_labels"]:
        lines.append(f"It was tuned on {n_met:,} of these {unit}, which flatters every figure.")
    elif n_met:
        value = number_text(result["on_met"]["value"])
        lines.append(f"{n_met:,} more {unit} that it was tuned on are set apart: rho {value}.")
    return lines


def _headline(result: Mapping[str, Any]) -> str:
    """The one figure that the judge is known by; the published convention's where it is another."""
    cell, *others = result["correlations"]
    if is_paired(result):
        ends = interval_text(result["accuracy_low"], result["accuracy_high"])
        return (
            f"accuracy {number_text(result['accuracy'])} {ends}, n={result['n_decided']:,} of "
            f"{result['n_pairs']:,} pairs that people decided"
        )
    ends = f" {interval_text(cell['low'], cell['high'])}"
    if cell["low"] is None and abs(cell["value"] or 1) == 1:
        ends = ""  # undefined, or perfect
    systems = f"{result['data']['n_systems']:,} systems, " if cell["level"] == "system" else ""
    published = ""
    if cell["n_zero"]:
        published = f"; most papers would print {number_text(others[0]['value'])}"
    return (
        f"{cell['level']}-level rho {number_text(cell['value'])}{ends}, n={systems}"
        f"{counted(cell['n_documents'], 'document')}{published}"
    )


def _in_plain_words(result: Mapping[str, Any]) -> list[str]:
    """What the headline means, and that the judge is kinder or stricter than people."""
    share, scales = result["order"]["value"], result["scales"]
    if is_paired(result):
        same = share_text(result["order_agreement"])
        lines = [f"It gives the same answer in both orders in {same} of the pairs."]
    elif share is None:
        lines = ["People tell no two outputs that have a score apart: there is no agreement."]
    else:
        of_one = "" if result["level"] == "dataset" else " of one document"
        lines = [
            f"It orders two outputs{of_one} as people do in {share:.0%} of pairs (a coin 50%)."
        ]
    if scales and scales["is_shifted"]:
        means = f"{scales['judge_mean']:.2f}, the labels' {scales['human_mean']:.2f}"
        lines.append(f"Its mean is {means}: only the order of its scores is measured.")
    return lines


def people_lines(people: Mapping[str, Any], *, everything: bool = False) -> list[str]:
    """The judge beside each annotator, they beside each other, and the judge as one of them."""
    lines, one = [], people["one_annotator"]
    for key, most in MOST_LISTED.items():
        rows = people["agreement"][key]
        alone = everything or len(rows) <= most
        for group in [[row] for row in rows] if alone else [rows]:
            names = group[0].get("annotators") or ["judge", group[0]["annotator"]]
            who = " and ".join(map(short_name, names))
            who = (
                who if alone else f"{'judge and ' * (key == 'judge')}annotators, {len(rows)} pairs"
            )
            lines.append(
                f"{who}: equal labels {_span(group, 'equal', share_text)}, kappa "
                f"{_span(group, 'kappa', number_text)}, rho {_span(group, 'rho', number_text)}"
            )
    if one:
        low, high = one["gap"]["low"], one["gap"]["high"]
        answer = (
            "not known" if low is None else "yes" if low > 0 else "no" if high < 0 else "perhaps"
        )
        judge, annotator = (number_text(one[side]["value"]) for side in ("judge", "annotator"))
        lines.append(
            f"As good as one annotator: {answer} (rho with the others {judge}, theirs {annotator})"
        )
    if everything:
        alpha, bound = number_text(people["alpha"]), number_text(people["bound"])
        lines.append(f"Krippendorff's alpha {alpha}; by it rho reaches about {bound} at most")
    return lines


def _span(rows: Sequence[Mapping[str, Any]], key: str, text: Callable[[float], str]) -> str:
    """A figure, of several rows the lowest and the highest."""
    values = sorted(row[key] for row in rows if row[key] is not None)
    return " to ".join(dict.fromkeys(map(text, values[:1] + values[-1:]))) or "undefined"


def next_step(result: Mapping[str, Any]) -> str:
    """What to do after a verification, in a line."""
    cell, paired = result["correlations"][0], is_paired(result)
    low, high = (result[f"accuracy_{e}"] if paired else cell[e] for e in ("low", "high"))
    if not cell["n_outputs"]:
        return "mend the failures; --report FILE.html lists the reasons"
    if has_constructed_labels(result):
        return "measure it on labels of your own (--data FILE)"
    if result["tuned_on_these_labels"]:
        return "measure it on labels that it was not tuned on (--data FILE)"
    if low is None and abs(cell["value"] or 0) < 1:
        of = "systems" if cell["level"] == "system" else "documents"
        return f"label more {of}; these are too few for an interval"
    if low is not None and low <= (COIN if paired else 0):
        return "do not rely on it yet; on these labels it may be chance"
    if low is not None and (high - low) / 2 > WIDE:
        return f"label more documents; the interval is ±{(high - low) / 2:.2f} wide"
    return "--report FILE.html shows its worst errors; --min-spearman X gates a CI"
