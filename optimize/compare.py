"""The command `compare`: judges and models side by side on the same labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(start("optimize.compare:command"))

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from dspy_judges.errors import JudgesError
from judges.cli.flags import (
    add_model_flags,
    add_reporting_flags,
    constructed_note,
    mapping,
    request_options,
    split_name,
)
from judges.cli.table import total_estimate
from judges.client import check_name, is_embedded
from judges.dimension import Comparison
from judges.labels.readers import read_labels
from judges.loading import load
from judges.terminal import print_error, print_lines, print_note
from optimize.figures.as_json import DIGITS, json_number, value_cell
from optimize.inputs.flags import (
    ANNOTATIONS,
    Parser,
    SettingsError,
    add_label_flags,
    run,
    values_of,
)
from optimize.inputs.labelled import find_subject, only_dimension, words_of
from optimize.items import data_counts
from optimize.measuring.asking import (
    Entry,
    Task,
    ask_entries,
    from_numbers,
    from_replies,
    on_labels_scale,
    recorded_scale,
    total_usage,
)
from optimize.measuring.exports import read_scores
from optimize.measuring.measure import figures
from optimize.measuring.scored import Scored, unmet_rows
from optimize.report.answer import compare_lines, ranked_by
from optimize.report.page import write_comparison
from optimize.statistics.balanced import balanced_contrast
from optimize.statistics.correlations import Level, contrast_judges
from optimize.statistics.intervals import Contrast, Interval
from optimize.statistics.plain import contrast_accuracy
from optimize.tuning.folder import REPLIES, REPORT, SUMMARY, open_run, write_json

NAME = "dspy-judges compare"
ABOUT = """\
Judges and models side by side on one labelled set: how far each agrees with
people, how sure the differences from the best are, what it costs and how long
it takes. A JUDGE is asked by its own model; --scores and --replies of other
judges join at no cost. Rows that any of them was tuned on are set apart."""

EXAMPLES = """\
examples:
  dspy-judges compare --dimension coherence --data labels.jsonl \\
      --lm openai/gpt-4.1-nano --lm openai/gpt-4.1-mini --max-cost 2
  dspy-judges compare runs/coherence-001 coherence@embedded \\
      --data labels.jsonl --scores gpt-4o=scores.jsonl
It ends with 0; with 1 where a judge could not be measured on all outputs; 2 for
wrong usage; 130 where it was interrupted (the same command again goes on)."""


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} [JUDGE ...] [--lm MODEL ...] [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        # --lm is of several models here.
        conflict_handler="resolve",
    )
    add_judges_flags(command_parser, "compare")
    about = "asked the catalogue's prompt of --dimension, else the first JUDGE's; repeatable"
    command_parser.add_argument("--lm", metavar="MODEL", action="append", default=[], help=about)
    return command_parser


def add_judges_flags(command_parser: argparse.ArgumentParser, run_name: str) -> None:
    """The flags of a run over several judges."""
    add = command_parser.add_argument
    about = "[NAME=]JUDGE[@MODEL]: a catalogue name, a run folder or a judge's file; repeatable"
    add("judges", nargs="*", metavar="JUDGE", help=about)
    add_task_flags(command_parser)
    add_model_flags(command_parser)
    add("--out", metavar="DIR", help=f"the run's folder (runs/{run_name}-001, then -002)")
    add("--dry-run", action="store_true", help="say what it may take, then stop")
    add_reporting_flags(command_parser)


def add_task_flags(group: Any) -> None:
    """What was recorded, what is judged, and the labels of it (a parser's or a group's flags)."""
    add = group.add_argument
    for flag, what in (("--scores", "numbers"), ("--replies", "raw replies")):
        add(flag, metavar="FILE", action="append", default=[], help=f"any judge's {what}")
    add("--dimension", metavar="NAME", help="what recordings are about: a name or FILE.yaml")
    add("--pairwise", metavar="NAME", help="the same, of pairs")
    add_label_flags(group)
    add("--annotations", metavar="FILE", help=ANNOTATIONS)
    about = "of the labels (the dimension's); 'any': only their order counts"
    add("--scale", metavar="LOW-HIGH", help=about)
    levels = ("auto", *get_args(Level))
    about = f"of rho: {', '.join(levels)} (auto)"
    add("--level", choices=levels, default="auto", metavar="LEVEL", help=about)


def command(arguments: Sequence[str]) -> int:
    """Measure and print all judges; returns 1 where one could not be measured."""

    def faults(result: Mapping[str, Any]) -> list[str]:
        return [f"not measured: {row['name']}: {row['why']}" for row in result["left_out"]]

    flags = parser().parse_intermixed_args(arguments)
    return run(NAME, flags, compare, compare_lines, faults)


def compare(flags: argparse.Namespace) -> dict[str, Any] | None:
    """What --json prints; None after --dry-run, which prints what to expect alone."""
    started = time.monotonic()
    name_dimension(flags)
    judges, asked = [*map(split_name, flags.judges)], flags.dimension or flags.pairwise
    if flags.lm and not (asked and find_subject(asked)):
        if not judges:
            raise SettingsError(
                "--lm MODEL asks the prompt of a catalogue dimension (--dimension; dspy-judges "
                "list), else of the first JUDGE: name one (a run folder or FILE.yaml)"
            )
        asked = judges[0][1].partition("@")[0]
    of_models = [(name or lm, f"{asked}@{lm}") for name, lm in map(split_name, flags.lm)]
    specs = [*of_models, *judges]
    task, entries = read_task(flags, read_judges(flags, specs))
    check_names(entries)
    if flags.dry_run:
        print_lines(expectation_lines(entries))
        return None
    with ask_all(flags, "compare", task, entries) as (folder, entries):
        result = {
            "command": "optimize.compare",
            **compare_judges(entries, task),
            "seed": flags.seed,
            "seconds": round(time.monotonic() - started, 3),
            "folder": str(folder),
        }
        write_json(folder / SUMMARY, result)
        write_comparison(folder / REPORT, result)
    return result


@contextmanager
def ask_all(
    flags: argparse.Namespace, name: str, task: Task, entries: Sequence[Entry]
) -> Iterator[tuple[Path, list[Entry]]]:
    """A run's folder, begun or gone on with, and what all judges say."""
    config = {
        "command": f"optimize.{name}",
        "settings": {"dimension": task.dimension, "seed": flags.seed},
        "data": {"name": task.labelled.name, "sha256": task.labelled.sha256},
        "judges": [entry.name for entry in entries],
    }
    with open_run(flags.out, name, config, print_note) as folder:
        for line in expectation_lines(entries):
            print_note(line)
        options = {**asking_options(flags), "store": folder / REPLIES}
        yield folder, ask_entries(entries, task, seed=flags.seed, **options)


def name_dimension(flags: argparse.Namespace) -> None:
    """Set --dimension to the only one of --data where neither a flag nor a JUDGE names any."""
    if flags.data and not (flags.judges or flags.dimension or flags.pairwise):
        how: Any = {"map": mapping(flags.map), "values": values_of(flags.values)}
        labelled = read_labels(flags.data, texts=(), annotations=flags.annotations, **how)
        flags.dimension = only_dimension(labelled)


def read_judges(
    flags: argparse.Namespace, specs: Iterable[tuple[str, str]], lm: str = ""
) -> list[Entry]:
    """The judges of NAME and JUDGE[@MODEL], each on the labels' scale; `lm` where no MODEL is.

    An address or a key that flags name are of one provider: SettingsError where several are asked.
    """
    entries, providers = [], set()
    for name, spec in specs:
        # The name of a model may hold another @.
        file, at, model = spec.partition("@")
        if not at or Path(spec).exists():
            file, model = spec, lm
        if model:
            check_name(model)
        judge = on_labels_scale(load(file), flags.scale).with_model(model or None)
        if note := constructed_note(judge):
            print_note(f"note: {note}")
        if not is_embedded(judge.lm):
            judge = judge.with_model(api_base=flags.api_base)
            providers.add(judge.lm.partition("/")[0])
        # Folders above say more of a machine than of a judge.
        own_name = "/".join(Path(file).parts[-2:]) + (f"@{model}" if model else "")
        entries.append(Entry(name=name or own_name, judge=judge))
    if len(providers) > 1 and (flags.api_base or flags.api_key_env):
        raise SettingsError(
            f"--api-base and --api-key-env are of one provider, and {', '.join(sorted(providers))} "
            "are asked: score with one of them first (dspy-judges score), and join it by --scores"
        )
    return entries


def read_task(flags: argparse.Namespace, judges: Sequence[Entry]) -> tuple[Task, list[Entry]]:
    """What is judged, and all that judge it, recordings too; raises what the user has to mend."""
    name_dimension(flags)
    word, loaded = flags.dimension or flags.pairwise, [e.judge for e in judges if e.judge]
    if (flags.dimension and flags.pairwise) or not (word or loaded):
        raise SettingsError("say what was judged: --dimension NAME, or --pairwise NAME for pairs")
    subject = find_subject(word) if word else loaded[0].subject
    pairwise = bool(flags.pairwise) if word else isinstance(subject, Comparison)
    name = subject.name if subject else word
    for entry, judge in zip(judges, loaded, strict=True):
        if judge.name != name or (judge.kind == "pairwise") != pairwise:
            raise SettingsError(
                f"{entry.name} is about {judge.name!r} ({judge.kind}), not {name!r}: leave it out, "
                "or name what it judges by --dimension or --pairwise"
            )
    if loaded:
        # With the texts of all judges: most read the same.
        inputs = {text: about for judge in loaded for text, about in judge.subject.inputs.items()}
        subject = replace(loaded[0].subject, inputs=inputs)
    how = {"values": values_of(flags.values), "annotations": flags.annotations}
    how |= {"mapping": mapping(flags.map), "scale": flags.scale if loaded else None}
    how |= {"level": flags.level, "recorded": not loaded, "pairwise": pairwise}
    task = Task.read(flags.data or None, name, subject, **how)
    scale = () if pairwise else recorded_scale(flags.scale, subject)
    if (two := words_of(task.labelled, name)) and (subject is None or subject.scale == (0, 1)):
        scale, how["values"] = (0, 1), {two[0]: 1.0, two[1]: 0.0, **how["values"]}
    if flags.replies and not (scale or pairwise):
        raise SettingsError("--scale LOW-HIGH is needed: the dimension is not in the catalogue")
    for note in task.labelled.notes:
        print_note(f"note: {note}")
    entries = [entry.about(task.items(entry.judge), flags.price) for entry in judges]
    for text in [*flags.scores, *flags.replies]:
        own_name, file = split_name(text)
        path = Path(file)
        if text in flags.scores:
            numbers = read_scores(path, name, task.labelled, print_error, own_name)
            by_id = from_numbers(numbers, pairwise=pairwise)
        else:
            by_id = from_replies(path, name, scale, how["values"], pairwise=pairwise)
        scored = task.scored(own_name or path.stem, by_id, None, scale)
        entries.append(Entry(name=scored.judge, scored=scored))
        if np.array_equal(scored.scores, scored.human):
            print_error(
                f"warning: {scored.judge}: every score is people's own label; is it theirs?"
            )
        if scored.n_unjudged:
            print_error(
                f"warning: {scored.judge}: {scored.n_unjudged} labelled outputs have no record, "
                f"and {scored.n_unknown} records no labelled output: both are left out"
            )
    return task, entries


def check_names(entries: Sequence[Entry]) -> None:
    """SettingsError for judges that are too few, or cannot be told apart."""
    (name, count), *others = Counter(entry.name for entry in entries).most_common() or [("", 0)]
    if count > 1:
        raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")
    if not others:
        raise SettingsError("name two judges or more: JUDGE, --lm, --scores or --replies")


def asking_options(flags: argparse.Namespace) -> dict[str, Any]:
    """How the judges' models are asked, and the limits for all of them."""
    limits = {"max_calls": flags.max_calls, "max_cost": flags.max_cost}
    return {**limits, **request_options(flags)}


def expectation_lines(entries: Sequence[Entry]) -> list[str]:
    """What each judge that is asked may take, before anything is sent, and all together."""
    paid = [entry for entry in entries if entry.expected]
    lines = [f"{entry.name}: {total_estimate(entry.expected)}" for entry in paid]
    everything = total_estimate([each for entry in paid for each in entry.expected])
    return [*lines, *([f"all together: {everything}"] if len(paid) > 1 else [])] or [
        "no paid model is asked: free"
    ]


def compare_judges(entries: Sequence[Entry], task: Task) -> dict[str, Any]:
    """What `dspy-judges compare --json` prints of the judges; the best comes first.

    All figures are on the rows that every judge has and that none was tuned on (all that they have
    where these are too few). Raises JudgesError where nothing can be compared.
    """
    entries = [_without_score(entry) for entry in entries]
    asked = {entry.name: entry for entry in entries}
    common = on_common_rows({e.name: e.scored for e in entries if e.scored is not None})
    if not common:
        raise JudgesError("; ".join(f"{entry.name}: {entry.reason}" for entry in entries))
    scored = unmet_by_all(common)
    # A judge of pass and fail beside one that rates: both are ranked by rho.
    binary = all(each.is_binary for each in scored.values())
    cells = {name: figures(each, binary=binary) for name, each in scored.items()}

    def value(name: str) -> float:
        known = ranked_by(cells[name])["value"]
        return -math.inf if known is None else float(known)

    order = sorted(cells, key=value, reverse=True)  # of equals the one that was named first
    best = scored[order[0]]
    return {
        "dimension": task.dimension,
        "kind": "pairwise" if best.is_pairs else "rating",
        "level": task.level,
        "data": data_counts(task.labelled, best.items),
        "n_labelled": len(task.items()),
        "reference": order[0],
        "judges": [
            {
                **asked[name].described(),
                "n_met": len(common[name].met),
                "n_given": len(scored[name].given - scored[name].met),
                "tuned_on_these_labels": bool(scored[name].met),
                **cells[name],
                **_beside_best(scored[name], best, len(order), binary),
            }
            for name in order
        ],
        "left_out": [{**e.described(), "why": e.reason} for e in entries if e.scored is None],
        "cost_usd": total_usage(entries, "cost_usd"),
    }


def _without_score(entry: Entry) -> Entry:
    """The entry; with a reason in place of scores where all of its judgements have failed."""
    if entry.scored is None or len(entry.scored.failures) < len(entry.scored.items):
        return entry
    reason, count = Counter(entry.scored.failures.values()).most_common(1)[0]
    number = len(entry.scored.items)
    why = f"none of {number:,} judgements has a score; {count:,} of them: {reason}"
    return replace(entry, scored=None, reason=why)


def on_common_rows(measured: Mapping[str, Scored]) -> dict[str, Scored]:
    """Every judge's scores on the items that all have, in one order; raises JudgesError."""
    places = {
        name: {item.id: row for row, item in enumerate(scored.items.items)}
        for name, scored in measured.items()
    }
    first = next(iter(places.values()), {})
    shared = [name for name in first if all(name in other for other in places.values())]
    if places and not shared:
        raise JudgesError(f"no labelled output has a score by every judge: {', '.join(places)}")
    return {
        name: scored.of_rows([places[name][each] for each in shared])
        for name, scored in measured.items()
    }


def unmet_by_all(common: Mapping[str, Scored]) -> dict[str, Scored]:
    """Scores on the same items without those that any judge was tuned on; all if few are left."""
    met = frozenset[int]().union(*(each.met for each in common.values()))
    rows = unmet_rows(next(iter(common.values())).items, met)
    return {name: each.of_rows(rows) if rows else each for name, each in common.items()}


def _beside_best(scored: Scored, best: Scored, n_judges: int, binary: bool) -> dict[str, Any]:
    """A judge less the best, with an interval that holds for every two judges together.

    The best one was chosen by the figures themselves, so that every two judges count as compared
    (Bonferroni). `standing`: "as good" within one standard error, "worse" by the interval, else
    "unclear", or "best".
    """
    if scored is best:
        return {"difference": None, "standing": "best"}
    contrast = contrast_of(scored, best, binary=binary)
    # What the interval rests on: documents, at system level systems.
    value, interval, n = contrast.value, contrast.interval, contrast.terms.size
    standing = "as good" if abs(value) <= contrast.error < math.inf else "unclear"
    if interval is not None:
        from scipy.special import stdtrit

        wider = stdtrit(n - 1, 1 - 0.025 / math.comb(n_judges, 2)) / stdtrit(n - 1, 0.975)
        low, high = (value + wider * (end - value) for end in (interval.low, interval.high))
        interval = Interval(float(low), float(high))
        standing = "worse" if high < 0 else standing
    cell = value_cell(value, interval, DIGITS)
    cell |= {"error": json_number(contrast.error, DIGITS), "n_documents": len(contrast.documents)}
    return {"difference": cell, "standing": standing}


def contrast_of(a: Scored, b: Scored, *, binary: bool = False) -> Contrast:
    """Judge A's figure less judge B's, where both have a score; `binary` of balanced accuracy."""
    if binary:
        return balanced_contrast(a.passes, b.passes, a.human, a.documents)
    if a.is_pairs:
        return contrast_accuracy(a.scores, b.scores, a.human, a.documents)
    return contrast_judges(a.scores, b.scores, a.human, a.documents, a.systems, level=a.level)
