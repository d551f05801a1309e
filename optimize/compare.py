"""The command `compare`: judges and models side by side on the same labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # Before other imports, so that no file in the working folder is imported in place of a library.
    sys.exit(start("optimize.compare:command"))

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from judges.cli.flags import add_model_flags, add_reporting_flags, split_name
from judges.terminal import print_lines, print_note
from optimize.figures.as_json import FLAT, object_json
from optimize.inputs.flags import Outcome, Parser, SettingsError, run
from optimize.inputs.labelled import find_subject
from optimize.measuring.asking import Entry, Task, ask_entries
from optimize.measuring.comparison import JudgeComparison, compare_judges
from optimize.measuring.request import (
    add_task_flags,
    asking_options,
    check_names,
    expectation_lines,
    name_dimension,
    read_judges,
    read_task,
)
from optimize.report.comparison import comparison_lines
from optimize.report.page import write_comparison
from optimize.tuning.folder import REPLIES, REPORT, SUMMARY, RunConfig, open_run, write_json

NAME = "dspy-judges compare"
ABOUT = """\
Judges and models side by side on one labelled set: how far each agrees with
people, how sure the differences from the best are, what it costs and how long
it takes. A JUDGE is asked by its own model; --scores and --replies of other
judges join at no cost. Rows that any of them was tuned on are left out."""

EXAMPLES = """\
examples:
  dspy-judges compare --dimension coherence --data labels.jsonl \\
      --lm openai/gpt-4.1-nano --lm openai/gpt-4.1-mini --max-cost 2
  dspy-judges compare runs/coherence-001 coherence@embedded \\
      --data labels.jsonl --scores gpt-4o=scores.jsonl
exit codes: 0 done; 1 a judge could not be measured on all outputs; 2 wrong
usage; 130 interrupted (the same command again goes on)"""


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} [JUDGE ...] [--lm MODEL ...] [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        # --lm can be given several times here.
        conflict_handler="resolve",
    )
    add_judges_flags(command_parser, "compare")
    help_text = (
        "asked with the catalogue's prompt for --dimension, else with the first JUDGE's; repeatable"
    )
    command_parser.add_argument(
        "--lm", metavar="MODEL", action="append", default=[], help=help_text
    )
    return command_parser


def add_judges_flags(command_parser: argparse.ArgumentParser, run_name: str) -> None:
    """Add the flags of a command that asks several judges."""
    add = command_parser.add_argument
    help_text = "[NAME=]JUDGE[@MODEL]: a catalogue name, a run folder or a judge's file; repeatable"
    add("judges", nargs="*", metavar="JUDGE", help=help_text)
    add_task_flags(command_parser)
    add_model_flags(command_parser)
    add("--out", metavar="DIR", help=f"the run's folder (runs/{run_name}-001, then -002)")
    add("--dry-run", action="store_true", help="say what it may take, then stop")
    add_reporting_flags(command_parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRun:
    """A comparison and the folder of its run."""

    command: str = "optimize.compare"
    comparison: JudgeComparison = field(metadata=FLAT)
    seed: int
    seconds: float
    folder: str


def command(arguments: Sequence[str]) -> int:
    """Measure all judges and print the comparison; returns 1 if one could not be measured."""
    flags = parser().parse_intermixed_args(arguments)
    return run(NAME, flags, compare)


def compare(flags: argparse.Namespace) -> Outcome | None:
    """Ask all judges and write the run; None after --dry-run, which only prints the cost."""
    started = time.monotonic()
    name_dimension(flags)
    judges, prompt = [*map(split_name, flags.judges)], flags.dimension or flags.pairwise
    if flags.lm and not (prompt and find_subject(prompt)):
        if not judges:
            raise SettingsError(
                "--lm MODEL asks the prompt of a catalogue dimension (--dimension; dspy-judges "
                "list), else of the first JUDGE: name one (a run folder or FILE.yaml)"
            )
        prompt = judges[0][1].partition("@")[0]
    model_specs = [(name or lm, f"{prompt}@{lm}") for name, lm in map(split_name, flags.lm)]
    specs = [*model_specs, *judges]
    task, entries = read_task(flags, read_judges(flags, specs))
    check_names(entries)
    if flags.dry_run:
        print_lines(expectation_lines(entries))
        return None
    with ask_all(flags, "compare", task, entries) as (folder, entries):
        result = CompareRun(
            comparison=compare_judges(entries, task),
            seed=flags.seed,
            seconds=round(time.monotonic() - started, 3),
            folder=str(folder),
        )
        write_json(folder / SUMMARY, object_json(result))
        write_comparison(folder / REPORT, result.comparison)
    lines = comparison_lines(result.comparison, result.seconds, result.folder)
    left_out = result.comparison.left_out
    return Outcome(
        result, lines, [f"not measured: {entry.name}: {entry.reason}" for entry in left_out]
    )


@contextmanager
def ask_all(
    flags: argparse.Namespace, name: str, task: Task, entries: Sequence[Entry]
) -> Iterator[tuple[Path, list[Entry]]]:
    """Open a run's folder, new or to go on with, and ask all judges; yields folder and entries."""
    config = RunConfig(
        command=f"optimize.{name}",
        settings={"dimension": task.dimension, "seed": flags.seed},
        data={"name": task.labelled.name, "sha256": task.labelled.sha256},
        judges=[entry.name for entry in entries],
    )
    with open_run(flags.out, name, config, print_note) as folder:
        for line in expectation_lines(entries):
            print_note(line)
        options = asking_options(flags)
        options["store"] = folder / REPLIES
        yield folder, ask_entries(entries, task, seed=flags.seed, **options)
