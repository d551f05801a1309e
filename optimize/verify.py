"""The command `verify`, and `measure()`: how far a judge agrees with people's labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(start("optimize.verify:command"))

import argparse
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dspy_judges.errors import JudgesError
from judges.cli.flags import add_model_flags, add_reporting_flags, split_name
from judges.client import ModelOptions, read_options
from judges.labels.types import LabelledPairs, LabelledSet
from judges.labels.values import VERDICTS
from judges.loading import load
from judges.panel import AnyJudge
from judges.tables.in_memory import Rows
from judges.terminal import FAILED
from optimize.compare import add_task_flags, asking_options, read_judges, read_task
from optimize.figures.as_json import cell, judgement_rows
from optimize.figures.as_text import (
    PLURALS,
    counted,
    interval_text,
    miss_line,
    number_text,
    share_text,
    short_name,
    signature,
    two_value_sentences,
    wrapped,
)
from optimize.inputs.flags import MOST_FAILED, Parser, SettingsError, refuse_secret, run, values_of
from optimize.inputs.labelled import AnyLevel, AnyPath, Labelled, find_subject
from optimize.items import data_counts, is_two_valued
from optimize.measuring.asking import (
    Task,
    ask_entries,
    from_numbers,
    on_labels_scale,
    recorded_scale,
)
from optimize.measuring.measure import correlation_of, figures, rho
from optimize.measuring.misses import FALSE_ALARM, FALSE_PASS, miss_rows
from optimize.measuring.scored import Scored, unmet_rows
from optimize.report.answer import (
    COIN,
    floor_flags,
    has_constructed_labels,
    is_binary,
    is_paired,
    scale_warning,
    unit_of,
)
from optimize.report.page import MISSES, write_verification
from optimize.statistics.correlations import PRIMARY, Coefficient, Correlation, Level, Undefined
from optimize.statistics.floor import further_outputs, outcome
from optimize.statistics.intervals import FEW_DOCUMENTS, Interval
from optimize.swap import MARGIN, swap, swap_lines

if TYPE_CHECKING:
    import pandas as pd

NAME = "dspy-judges verify"
ABOUT = """\
How far a judge, or any judge's recorded replies or scores, agrees with people:
Spearman's rho, the accuracy on pairs, or of pass and fail what it lets through
and its false alarms, with intervals over documents.
Where annotators are known: the judge beside each of them, and they beside each
other. Rows that the judge was tuned on are set apart.

Recorded replies are JSONL, {"id", "dimension", "replies": [...]}; scores are
{"id", "dimension", "score"}, rows of `dspy-judges score`, or a tool's results."""

EXAMPLES = """\
examples:
  dspy-judges verify runs/relevance-001 --data new.jsonl --min-spearman 0.4
  dspy-judges verify runs/safe-001 --data new.csv --min-tpr 0.8 --min-tnr 0.8
  dspy-judges verify --scores scores.jsonl --data labels.jsonl \\
      --dimension coherence --report coherence.html
  dspy-judges verify safe.json@openai/NEW --against safe.json --data new.csv
It ends with 0; with 1 where it failed, fell short or more than a tenth of the
judgements failed; with 2 for wrong usage; with 3 where the least that is asked
for lies within the interval, so that these labels cannot tell."""
# An interval that reaches further to either side asks for more labels.
WIDE = 0.10
# So many annotators are listed one by one, and so many pairs of them.
MOST_LISTED = {"judge": 3, "annotators": 1}
# A first screen has so many lines, and of false passes and of false alarms so many at most.
MOST_LINES, MOST_MISSES = 12, 3
# The exit code where an interval lies around what the gate asks for.
UNDECIDED = 3
# What a floor is of: the figure's name, what it counts, and the least it can be.
FLOORS = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement:
    """What one judge's scores are worth against people's labels; print it for the figures.

    Figures are of `unmet`, the rows whose texts the judge was not tuned on; where these are too few
    they are of all, and flatter it (`tuned_on_these_labels` of the summary).
    """

    scored: Scored
    unmet: Scored
    labelled: Labelled

    @classmethod
    def of(cls, scored: Scored, labelled: Labelled) -> "Measurement":
        rows = unmet_rows(scored.items, scored.met)
        return cls(scored=scored, unmet=scored.of_rows(rows) if rows else scored, labelled=labelled)

    @property
    def rho(self) -> Correlation:
        """Spearman's, at the level that suits the data, by the primary convention."""
        return rho(self.unmet)

    def at(
        self, level: Level, coefficient: Coefficient = "spearman", undefined: Undefined = PRIMARY
    ) -> Correlation:
        """Another level or coefficient; most published tables leave out what is `undefined`."""
        return correlation_of(self.unmet, level, coefficient, undefined)

    @property
    def judgements(self) -> "pd.DataFrame":
        """Every labelled output or pair, a row each: people's rating, the judge's, the failure."""
        import pandas as pd

        rows = judgement_rows(self.scored.items.items, {"score": self.scored.judgements})
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """What `dspy-judges verify --json` prints of it."""
        met, is_on_met = sorted(self.scored.met), bool(self.unmet.met)
        is_apart = bool(met) and not is_on_met
        return {
            "judge": self.scored.judge,
            "dimension": self.scored.dimension,
            "data": data_counts(self.labelled, self.unmet.items),
            "level": self.scored.level,
            "n_unjudged": self.scored.n_unjudged,
            "n_met": len(met),
            "on_met": cell(rho(self.scored.of_rows(met))) if is_apart else None,
            "n_given": len(self.unmet.given - self.unmet.met),
            "tuned_on_these_labels": is_on_met,
            **figures(self.unmet),
            **({"misses": miss_rows(self.unmet, MOST_MISSES)} if self.unmet.is_binary else {}),
            "words": getattr(self.labelled, "words", {}).get(self.scored.dimension),
        }

    def __str__(self) -> str:
        return "\n".join(verify_lines(self.summary()))

    __repr__ = __str__


def measure(
    judge: AnyPath | AnyJudge | Mapping[str, float],
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
) -> Measurement:
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
    read_options(options)
    refuse_secret(options.get("api_base"))
    if isinstance(scale, list | tuple) and len(scale) == 2:
        scale = f"{scale[0]}:{scale[1]}"
    if scale is not None and not isinstance(scale, str):
        raise TypeError(f"scale is {scale!r}; '0-100', (0, 100) or 'any' is wanted")
    how: dict[str, Any] = {"level": level, "mapping": map, "values": values_of(values or {})}
    how |= {"scale": scale, "annotations": annotations}
    if hasattr(judge, "items"):
        if dimension is None:
            raise TypeError("measure() needs dimension=NAME, to know what the scores are about")
        subject = find_subject(dimension)
        task = Task.read(data, dimension, subject, recorded=True, **how)
        ratings = recorded_scale(scale, subject)
        by_id = from_numbers(judge, pairwise=isinstance(task.labelled, LabelledPairs))
        scored = task.scored("scores", by_id, None, ratings)
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
    task = Task.read(data, judge.name, judge.subject, **how)
    asking: Any = dict(options)
    judge = judge.with_model(asking.pop("lm", None), asking.pop("api_base", None))
    items = task.items(judge)
    with judge.open_client(keep_going=keep_going, **asking) as client:
        judgements = list(judge.judge_rows((item.texts for item in items.items), client, seed=seed))
    by_id = dict(zip((item.id for item in items.items), judgements, strict=True))
    return Measurement.of(task.scored(name, by_id, judge), task.labelled)


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} JUDGE | --replies FILE | --scores FILE [flags]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add = command_parser.add_argument
    about = "a catalogue name, a run folder or a judge's file; also JUDGE@MODEL"
    add("judges", nargs="*", metavar="JUDGE", help=about)
    add_task_flags(command_parser)
    for name, (figure, _, _) in FLOORS.items():
        about = f"exit 1 if {figure}'s interval is below X, 3 if in part"
        add(f"--min-{name}", type=float, metavar="X", help=about)
    about = "may JUDGE replace OLD, a JUDGE or a recording's NAME"
    add("--against", metavar="OLD", help=about)
    about = f"by so much it may be worse than OLD ({MARGIN})"
    add("--margin", type=float, metavar="X", help=about)
    add_model_flags(command_parser, limits=" for each start")
    add("--report", metavar="FILE", help="draw a page: where it agrees, and where it does not")
    add("--all", action="store_true", help="print every level and coefficient, too")
    add_reporting_flags(command_parser)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Measure a judge against labels and print it; returns 1 where it falls short."""
    flags = parser().parse_args(arguments)

    def lines(result: Mapping[str, Any]) -> list[str]:
        if flags.against is not None:
            return swap_lines(result)
        return verify_lines(result, everything=flags.all, page=flags.report)

    def code(result: Mapping[str, Any]) -> int:
        return FAILED if result["short"] else UNDECIDED

    return run(NAME, flags, verify, lines, _faults, fault_code=code, interrupted="interrupted")


def verify(flags: argparse.Namespace) -> dict[str, Any]:
    """The result that --json prints."""
    if flags.against is not None:
        return swap(flags)
    if flags.margin is not None:
        raise SettingsError("--margin is of a swap: name the old judge by --against OLD")
    if len([*flags.judges, *flags.replies, *flags.scores]) != 1:
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    floors, page = _floors(flags), Path(flags.report) if flags.report else None
    if page and (page.is_dir() or not page.parent.is_dir()):
        # Before anything is asked and paid for.
        raise SettingsError(f"--report {page}: name a file in a folder that exists")
    judges = read_judges(flags, map(split_name, flags.judges), flags.lm or "")
    task, (entry,) = read_task(flags, judges)
    if floors.keys() - {"spearman"} and not is_two_valued(task.items().human):
        raise SettingsError("--min-tpr and --min-tnr are of labels that say pass or fail")
    (entry,) = ask_entries([entry], task, seed=flags.seed, **asking_options(flags))
    if entry.scored is None:
        raise JudgesError(entry.reason)
    measured = Measurement.of(entry.scored, task.labelled)
    result = {**measured.summary(), "judge": [*flags.judges, *flags.scores, *flags.replies][0]}
    if floors.keys() - {"spearman"} and not is_binary(result):
        raise JudgesError("--min-tpr and --min-tnr: the scores are not between 0 and 1")
    result |= gate(result, floors)
    if page:
        said = [*verify_answer(result), *_gate_line(result)]
        steps = [step] if (step := next_step(result, has_page=True)) else []
        write_verification(page, result, measured.unmet, sentences=said, steps=steps)
    return result


def _faults(result: Mapping[str, Any]) -> list[str]:
    """What the gate says of figures that do not hold."""
    told = (("falls short", "short"), ("undecided", "undecided"))
    return [f"{word}: {reason}" for word, key in told for reason in result.get(key, ())]


def _floors(flags: argparse.Namespace) -> dict[str, float]:
    """What the gate asks of each figure."""
    floors = {name: getattr(flags, f"min_{name}") for name in FLOORS}
    floors = {name: least for name, least in floors.items() if least is not None}
    for name, least in floors.items():
        figure, _, lowest = FLOORS[name]
        if not lowest <= least <= 1:
            raise SettingsError(f"--min-{name} {least:g}: {figure} is between {lowest} and 1")
    return floors


def gate(result: Mapping[str, Any], floors: Mapping[str, float]) -> dict[str, Any]:
    """Whether every floor holds, which do, and a reason for each that does not or is open."""
    short, undecided, kept = _unmeasured(result, floors), [], []
    for name, least in floors.items():
        (figure, word, _), cell = FLOORS[name], result.get(name) or result["correlations"][0]
        value = math.nan if cell["value"] is None else cell["value"]
        interval = None if cell["low"] is None else Interval(cell["low"], cell["high"])
        held = outcome(interval, least)
        ends = interval_text(cell["low"], cell["high"])
        known = "undefined" if math.isnan(value) else f"{value:.4f} {ends}"
        reason = f"{figure} {known}, --min-{name} {least:g}"
        if held == "falls short":
            short.append(reason)
        elif held == "undecided":
            undecided.append(f"{reason}: {_would_decide(result, cell, word, least)}")
        else:
            kept.append(f"{figure} {known} >= {least:g}")
    told = "falls short" if short else "undecided" if undecided else "holds" if floors else None
    passed = not short and not undecided
    return {"gate": told, "held": kept, "short": short, "undecided": undecided, "passed": passed}


def _gate_line(result: Mapping[str, Any]) -> list[str]:
    """The faults of the gate and all that it holds, in a line; none where there is nothing."""
    held = [f"holds: {'; '.join(result['held'])}"] if result.get("held") else []
    parts = [*_faults(result), *held]
    return [f"Gate: {'; '.join(parts)}"] if parts else []


def _would_decide(
    result: Mapping[str, Any], cell: Mapping[str, Any], word: str, least: float
) -> str:
    """How many more labels would tell, if the figure stays as it is."""
    if word and (lacking := result["n_more"][word]):
        return f"{counted(lacking, f'more {word}')} would give an interval"
    if word and (n := further_outputs(cell["value"], cell["low"], cell["high"], least, cell["n"])):
        return f"about {counted(n, f'more {word}')} would decide, if it stays"
    return f"label more {PLURALS.get(word, 'documents')}"


def _unmeasured(result: Mapping[str, Any], floors: Mapping[str, float]) -> list[str]:
    """Why there is no figure to hold, a reason each."""
    number, failed, reasons = result["data"]["n_outputs"], result["correlations"][0]["n_failed"], []
    if failed > MOST_FAILED * number:
        reasons.append(
            f"{failed / number:.1%} of the judgements failed ({failed:,} of {number:,}); at most "
            f"{MOST_FAILED:.0%} may"
        )
    if not floors:
        return reasons
    if (missing := result["n_unjudged"]) > MOST_FAILED * (number + missing):
        reasons.append(
            f"{missing:,} of {number + missing:,} labels have no record; at most "
            f"{MOST_FAILED:.0%} may"
        )
    if result["tuned_on_these_labels"]:
        reasons.append(f"it was tuned on {result['n_met']:,} of these {unit_of(result)}")
    return reasons


def verify_lines(
    result: Mapping[str, Any], *, everything: bool = False, page: str | None = None
) -> list[str]:
    """A verification in at most twelve lines; `everything` adds all other correlations.

    `page` is the file that shows its errors, where one was asked for.
    """
    people = result.get("people")
    table = f", {Path(page).with_suffix(f'.{MISSES}').name}" if page and is_binary(result) else ""
    last = f"Its errors: {page}{table}" if page else f"Next: {next_step(result)}"
    # What does not hold is printed as an error.
    held = _gate_line(result) if result.get("passed") else []
    lines, last_lines = wrapped(*verify_answer(result)), wrapped(*held, last)
    if is_binary(result):
        # As many of either as the screen has room for; the report has all.
        faults = wrapped(*(f"{NAME}: {fault}" for fault in _faults(result)))
        room = max(0, MOST_LINES - len(lines) - len(last_lines) - len(faults)) // 2
        for kind in (FALSE_PASS, FALSE_ALARM):
            rows = [row for row in result["misses"] if row["miss"] == kind]
            lines += map(miss_line, rows[:room])
    lines += last_lines
    if not everything:
        return lines
    about = unit_of(result), result["data"]["n_systems"]
    every = dict.fromkeys(signature(c, *about) for c in result["correlations"])
    return [*lines, "", *every, *_people_lines(people, everything)]


def verify_answer(result: Mapping[str, Any]) -> list[str]:
    """What was measured, the figure and what it means, and the judge among the annotators."""
    data, cell, unit = result["data"], result["correlations"][0], unit_of(result)
    failed = f", {cell['n_failed']:,} failed" if cell["n_failed"] else ""
    n_met, people = result["n_met"], result.get("people")
    of = f"{result['dimension']} by " if is_binary(result) else ""
    lines = [
        f"{of}{short_name(Path(str(result['judge'])).name)} on {data['name']}: "
        f"{data['n_outputs']:,} {unit}, {counted(data['n_documents'], 'document')}{failed}"
    ]
    if data.get("weighted"):
        lines.append("Weighted: documents were drawn with unequal chances.")
    if has_constructed_labels(result):
        lines.append("The labels are constructed from known faults: no person gave them.")
    if result["tuned_on_these_labels"]:
        lines.append(f"It was tuned on {n_met:,} of these {unit}, which flatters every figure.")
    elif n_met and is_binary(result):
        lines.append(f"{n_met:,} more {unit} that it was tuned on are set apart.")
    elif n_met:
        value = number_text(result["on_met"]["value"])
        lines.append(f"{n_met:,} more {unit} that it was tuned on are set apart: rho {value}.")
    if given := result["n_given"]:
        met = "is on a document" if given == 1 else "are on documents"
        lines.append(f"{given:,} of these {unit} {met} that it was tuned on, which may flatter it.")
    if is_binary(result):
        # The annotators come first: their agreement is what a judge can be held to.
        lines += _people_lines(people, binary=True)
        return [*lines, *two_value_sentences(result)]
    lines += [f"{result['dimension']} {_headline(result)}", _in_plain_words(result)]
    lines += [sentence for _, sentence in scale_warning(result)]
    return [*lines, *_people_lines(people)]


def _headline(result: Mapping[str, Any]) -> str:
    """The one figure that the judge is known by; the published convention's where it is another."""
    cell, *others = result["correlations"]
    if is_paired(result):
        ends = interval_text(result["accuracy_low"], result["accuracy_high"])
        return (
            f"accuracy {number_text(result['accuracy'])} {ends}, rho {number_text(cell['value'])}, "
            f"n={result['n_decided']:,} of {result['n_pairs']:,} pairs that people decided"
        )
    ends = f" {interval_text(cell['low'], cell['high'])}"
    if cell["low"] is None and abs(cell["value"] or 1) == 1:
        ends = ""  # undefined, or perfect
    systems = f"{result['data']['n_systems']:,} systems, " if cell["level"] == "system" else ""
    published = number_text(others[0]["value"]) if cell["n_zero"] else ""
    return (
        f"{cell['level']}-level rho {number_text(cell['value'])}{ends}, n={systems}"
        f"{counted(cell['n_documents'], 'document')}"
        + (f"; most papers would print {published}" if published else "")
    )


def _in_plain_words(result: Mapping[str, Any]) -> str:
    """What the headline means."""
    share = result["order"]["value"]
    if is_paired(result):
        if result["order_agreement"] is None:
            return f"It prefers the side that people prefer in {share_text(share)} of the pairs."
        same = share_text(result["order_agreement"])
        return f"It gives the same answer in both orders in {same} of the pairs."
    if share is None:
        return "People tell no two outputs that have a score apart: there is no agreement."
    of_one = "" if result["level"] == "dataset" else " of one document"
    return f"It orders two outputs{of_one} as people do in {share:.0%} of pairs (a coin 50%)."


def _people_lines(
    people: Mapping[str, Any] | None, everything: bool = False, *, binary: bool = False
) -> list[str]:
    """The judge beside each annotator, they beside each other, and the judge as one of them."""
    if not people:
        return []
    lines, one = [], people["one_annotator"]
    for key in ("annotators", "judge") if binary else ("judge", "annotators"):
        rows, most = people["agreement"][key], 1 if binary else MOST_LISTED[key]
        who = "judge and annotators" if key == "judge" else "annotators"
        groups = {f"{who}, {len(rows)} pairs": rows}
        if everything or len(rows) <= most:
            groups = {_pair_name(row): [row] for row in rows}
        lines += [
            f"{name}: equal labels {_span(group, 'equal', share_text)}, kappa "
            f"{_span(group, 'kappa', number_text)}"
            + ("" if binary else f", rho {_span(group, 'rho', number_text)}")
            for name, group in groups.items()
        ]
    if one and not binary:
        low, high = one["gap"]["low"], one["gap"]["high"]
        verdict = "not known" if low is None else "perhaps"
        if low is not None and (low > 0 or high < 0):
            verdict = "yes" if low > 0 else "no"
        judge, person = (number_text(one[side]["value"]) for side in ("judge", "annotator"))
        lines.append(
            f"As good as one of these annotators: {verdict} (rho with the others {judge}, "
            f"theirs {person})"
        )
    return lines


def _pair_name(row: Mapping[str, Any]) -> str:
    """Two annotators, who may be known by a number alone, or the judge and one."""
    names = row.get("annotators") or ["judge", row["annotator"]]
    return " and ".join(f"annotator {n}" if n.isdecimal() else short_name(n) for n in names)


def _span(rows: Sequence[Mapping[str, Any]], key: str, text: Callable[[float], str]) -> str:
    """A figure, of several rows the lowest and the highest."""
    values = sorted(row[key] for row in rows if row[key] is not None)
    return " to ".join(dict.fromkeys(map(text, values[:1] + values[-1:]))) or "undefined"


def next_step(result: Mapping[str, Any], *, has_page: bool = False) -> str:
    """What to do after a verification, in a line; empty where a page and a gate do it all."""
    cell, paired = result["correlations"][0], is_paired(result)
    low, high = (result[f"accuracy_{e}"] if paired else cell[e] for e in ("low", "high"))
    if not cell["n_outputs"]:
        return "mend the failures; --report FILE.html lists the reasons"
    if has_constructed_labels(result):
        return "measure it on labels of your own (--data FILE)"
    if result["tuned_on_these_labels"]:
        return "measure it on labels that it was not tuned on (--data FILE)"
    if is_binary(result):
        return _next_of_two_values(result, has_page=has_page)
    of = "systems" if cell["level"] == "system" else "documents"
    if low is None and abs(cell["value"] or 0) < 1:
        if result["data"][f"n_{of}"] < FEW_DOCUMENTS:
            return f"label more {of}; these are too few for an interval"
        return "label outputs that differ more; nearly all labels or scores are the same"
    if low is not None and low <= (COIN if paired else 0):
        return "do not rely on it yet; on these labels it may be chance"
    if low is not None and (high - low) / 2 > WIDE:
        return _and_held(f"label more {of}; the interval is ±{(high - low) / 2:.2f} wide", result)
    return _and_held("" if has_page else "--report FILE.html shows its worst errors", result)


def _and_held(step: str, result: Mapping[str, Any]) -> str:
    """The step, and what holds the judge to its figure in CI, where nothing does."""
    gate = floor_flags(result["correlations"][0], result if is_binary(result) else None)
    held = f"{gate} holds it in CI" if gate else "too few labels for a floor: --against in CI"
    return "; ".join(filter(None, [step, "" if result.get("gate") else held]))


def _next_of_two_values(result: Mapping[str, Any], *, has_page: bool) -> str:
    for word in PLURALS:
        if number := result["n_more"][word]:
            return f"label {counted(number, f'more {word}')}; these are too few for intervals"
    words = result["words"]
    if words and "/".join(words) not in VERDICTS and (result["kappa"]["high"] or 0) < 0:
        turned = shlex.quote("{}=0,{}=1".format(*words))
        return f"the labels may be the wrong way round; --values {turned} turns them"
    low = result["balanced_accuracy"]["low"]
    if low is not None and low <= COIN:
        return "do not rely on it yet; always saying the same may do as well"
    return _and_held("" if has_page else "--report FILE.html shows all", result)
