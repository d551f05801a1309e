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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dspy_judges.errors import JudgesError
from judges.cli.flags import add_model_flags, add_reporting_flags, split_name
from judges.terminal import print_lines, print_note
from optimize.figures.as_json import DIGITS, json_number, value_cell
from optimize.inputs.flags import Parser, SettingsError, run
from optimize.inputs.labelled import find_subject
from optimize.items import data_counts
from optimize.measuring.asking import Entry, Task, ask_entries, total_usage
from optimize.measuring.measure import figures
from optimize.measuring.request import (
    add_task_flags,
    asking_options,
    check_names,
    expectation_lines,
    name_dimension,
    read_judges,
    read_task,
)
from optimize.measuring.scored import Scored, unmet_rows
from optimize.report.answer import compare_lines, ranked_by
from optimize.report.page import write_comparison
from optimize.statistics.balanced import balanced_contrast
from optimize.statistics.correlations import contrast_judges
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
