"""The command `compare`: judges and models side by side on the same labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.compare:command"))  # before other imports; `start` says why

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dspy_judges.errors import SettingsError
from judges.cli.flags import Parser, add_flags, add_model_flags, request_options, split_named_value
from judges.terminal import DONE_EXIT_CODE, FAILED_EXIT_CODE, print_note
from optimize.figures.as_json import to_json
from optimize.inputs.flags import CommandOutcome, run_and_print
from optimize.inputs.subjects import find_subject
from optimize.measuring.asking import JudgeEntry, Task, ask_judges
from optimize.measuring.comparison import compare_judges
from optimize.report.comparison import comparison_lines
from optimize.report.page import write_comparison
from optimize.task_flags import (
    add_task_flags,
    check_names,
    cost_lines,
    read_task,
    set_only_dimension,
)
from optimize.tuning.folder import (
    REPLIES_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    RunConfig,
    open_run,
    write_json,
)

ABOUT = """\
Compare judges and models on one labelled set: how far each agrees with people,
how far it is behind the best (with intervals), what it costs and how long it
takes. Each JUDGE is asked with its own model; --scores and --replies add
recordings of other judges at no cost. Rows that a judge was tuned on are left
out for all judges."""

EXAMPLES = """\
examples:
  dspy-judges compare --dimension coherence --data labels.jsonl \\
      --lm openai/gpt-4.1-nano --lm openai/gpt-4.1-mini --max-cost 2
  dspy-judges compare runs/coherence-001 coherence@embedded \\
      --data labels.jsonl --scores gpt-4o=scores.jsonl
exit codes: 0 done; 1 a judge could not be measured; 2 wrong usage; 130
interrupted (run the same command again to go on)"""


def parser() -> Parser:
    command_parser = Parser(
        prog="dspy-judges compare",
        usage="%(prog)s [JUDGE ...] [--lm MODEL ...] [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        # This --lm can be repeated, and replaces the --lm of `add_model_flags`.
        conflict_handler="resolve",
    )
    add_judges_flags(command_parser, "compare")
    help_text = "model to ask with the prompt of --dimension, else of the first JUDGE; repeatable"
    add_flags(command_parser, "--lm", action="append", default=[], help=help_text)
    return command_parser


def add_judges_flags(command_parser: Parser, run_name: str) -> None:
    """Add the flags that `compare` and `panel` share."""
    add = command_parser.add_argument
    help_text = "[NAME=]JUDGE[@MODEL]: a catalogue name, a run folder or a judge's file; repeatable"
    add("judges", nargs="*", metavar="JUDGE", help=help_text)
    add_task_flags(command_parser)
    add("--out", metavar="DIR", help=f"the run's folder (runs/{run_name}-001, then -002)")
    add_flags(command_parser, "--dry-run")
    add_model_flags(command_parser)


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, compare)


def compare(flags: Namespace) -> CommandOutcome:
    """Ask all judges and write the run; with --dry-run, only estimate its cost."""
    start_time = time.monotonic()
    set_only_dimension(flags)
    judges = [split_named_value(argument) for argument in flags.judges]
    # Each model of --lm is asked with the prompt of the subject, or else of the first JUDGE.
    prompt_judge = flags.dimension or flags.pairwise or ""
    if flags.lm and not find_subject(prompt_judge):
        if not judges:
            raise SettingsError(
                "--lm MODEL needs a prompt: name a catalogue dimension by --dimension (see "
                "dspy-judges list), or a JUDGE (a run folder or FILE.yaml)"
            )
        prompt_judge = judges[0][1].partition("@")[0]
    models = [(name or lm, f"{prompt_judge}@{lm}") for name, lm in map(split_named_value, flags.lm)]
    task, judge_entries = read_task(flags, [*models, *judges])
    check_names(judge_entries)
    if flags.dry_run:
        lines = cost_lines(judge_entries, flags.price)
        return CommandOutcome(lines, lines)
    with open_run_and_ask(flags, "compare", task, judge_entries) as (folder, judge_entries):
        comparison = compare_judges(judge_entries, task)
        seconds, path = round(time.monotonic() - start_time, 3), str(folder)
        summary = {"command": "optimize.compare", **to_json(comparison)}
        summary |= {"seed": flags.seed, "seconds": seconds, "folder": path}
        write_json(folder / SUMMARY_FILE, summary)
        write_comparison(folder / REPORT_FILE, comparison)
    lines = comparison_lines(comparison, seconds, path)
    faults = [f"not measured: {entry.name}: {entry.why_unscored}" for entry in comparison.left_out]
    return CommandOutcome(summary, lines, faults, FAILED_EXIT_CODE if faults else DONE_EXIT_CODE)


@contextmanager
def open_run_and_ask(
    flags: Namespace, command_name: str, task: Task, judge_entries: Sequence[JudgeEntry]
) -> Iterator[tuple[Path, list[JudgeEntry]]]:
    """Open the folder of a new or interrupted run and ask all judges; yields folder and entries."""
    config = RunConfig(
        command=f"optimize.{command_name}",
        settings={"dimension": task.dimension, "seed": flags.seed},
        data={"name": task.labels.name, "sha256": task.labels.sha256},
        judges=[entry.name for entry in judge_entries],
    )
    with open_run(flags.out, command_name, config, print_note) as folder:
        for line in cost_lines(judge_entries, flags.price):
            print_note(line)
        options = request_options(flags)
        options["store"] = folder / REPLIES_FILE
        yield folder, ask_judges(judge_entries, task, seed=flags.seed, **options)
