"""The command `verify`: how far a judge agrees with people's labels."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.verify:command"))  # before other imports; `start` says why

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dspy_judges.errors import JudgesError, SettingsError
from judges.cli.flags import (
    Parser,
    add_model_flags,
    parse_count,
    parse_float,
    request_options,
    split_named_value,
)
from judges.terminal import DONE_EXIT_CODE
from optimize.inputs.flags import FLOOR_FIGURES, CommandOutcome, read_floors, run_and_print
from optimize.inputs.labelled import LabelSource
from optimize.items import is_two_valued
from optimize.measurement import Measurement
from optimize.measuring.asking import ask_judges
from optimize.measuring.changed_swap import ChangedRowsSwap, decide_by_changes
from optimize.measuring.swap import SwapResult, decide_swap
from optimize.report.page import write_verification
from optimize.report.swap import changed_swap_lines, swap_faults, swap_json, swap_lines, write_swap
from optimize.report.verification import (
    floor_faults,
    floor_outcome,
    floor_texts,
    verification_json,
    verification_lines,
)
from optimize.task_flags import add_task_flags, check_names, read_task

ABOUT = """\
Measure how far a judge, or a recording of its replies or scores, agrees with
people: Spearman's rho, the accuracy on pairs, or for pass and fail the rates of
false passes and false alarms, with intervals over documents.
If the labels name annotators, the judge is compared with each annotator, and
the annotators with each other. Rows that the judge was tuned on are left out.

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
# The default of --margin, by how much a new judge may be worse than the old one.
DEFAULT_MARGIN = 0.03
# The exit codes of the outcomes of floors and swaps; the code is 0 for other outcomes.
EXIT_CODES: dict[str | None, int] = {"falls short": 1, "worse": 1, "undecided": 3}
# Upper bound on --looks, the number of times that growing labels are checked.
MAX_LOOKS = 100


def parser() -> Parser:
    command_parser = Parser(
        prog="dspy-judges verify",
        usage="%(prog)s JUDGE | --replies FILE | --scores FILE [flags]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add = command_parser.add_argument
    help_text = "a catalogue name, a run folder or a file; also JUDGE@MODEL"
    add("judges", nargs="*", metavar="JUDGE", help=help_text)
    add_task_flags(command_parser)
    for name, (figure, *_) in FLOOR_FIGURES.items():
        help_text = f"exit 1 if {figure}'s interval is below X, 3 if it holds X"
        add(f"--min-{name}", type=parse_float, metavar="X", help=help_text)
    help_text = "number of checks that you plan as labels grow (1)"
    add("--looks", type=parse_count, default=1, metavar="N", help=help_text)
    add("--against", metavar="OLD", help="decide if JUDGE may replace OLD, a judge or a recording")
    help_text = f"how much worse JUDGE may be than OLD ({DEFAULT_MARGIN})"
    add("--margin", type=parse_float, metavar="X", help=help_text)
    add("--changed", metavar="FILE", help="decide by labels on the outputs whose verdict changes")
    add("--report", metavar="FILE", help="write a page with the figures and the judge's errors")
    add("--all", action="store_true", help="print every level and coefficient, too")
    add_model_flags(command_parser, ", for each start")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, verify, interrupt_message="interrupted")


def verify(flags: Namespace) -> CommandOutcome:
    """Measure the judge that flags name, alone or against an old judge."""
    floors = read_floors(flags)
    for refusal in _refusals(flags, has_floors=bool(floors)):
        raise SettingsError(refusal)
    return _verify_one(flags, floors) if flags.against is None else _verify_swap(flags)


def _refusals(flags: Namespace, *, has_floors: bool) -> Iterator[str]:
    """Yield a message for each flag that has an unusable value, or that needs another flag."""
    report, is_swap = flags.report, flags.against is not None
    if flags.looks > MAX_LOOKS or (flags.looks > 1 and not (has_floors or is_swap)):
        needs = f"it needs a floor (--min-...) or --against OLD, and is at most {MAX_LOOKS}"
        yield f"--looks {flags.looks:,}: {needs}"
    # A file with another ending may hold labels or scores, which the page would overwrite.
    if report and not (report.endswith(".html") and Path(report).parent.is_dir()):
        yield f"--report {report}: name a .html file in an existing folder"
    if is_swap:
        yield from _refusals_of_swap(flags, has_floors=has_floors)
    elif flags.margin is not None or flags.changed is not None:
        yield "--margin and --changed need --against OLD, the judge to replace"


def _refusals_of_swap(flags: Namespace, *, has_floors: bool) -> Iterator[str]:
    changed: str | None = flags.changed
    if flags.margin is not None and not 0 < flags.margin < 1:
        yield f"--margin {flags.margin:g}: it must be between 0 and 1"
    if has_floors or flags.all:
        yield "--min-... and --all measure one judge: leave them out with --against"
    if changed and not (changed.endswith(".jsonl") or Path(changed).exists()):
        yield f"--changed {changed}: name a file that ends in .jsonl"
    if changed and flags.report:
        yield "--report needs labels on random outputs: leave it out with --changed"


def _verify_one(flags: Namespace, floors: Mapping[str, float]) -> CommandOutcome:
    """Measure one judge; JudgesError if TPR or TNR has a floor, but the scores are no verdicts."""
    judge_arguments = [*flags.judges, *flags.scores, *flags.replies]
    if len(judge_arguments) != 1:
        raise SettingsError("name one thing to verify: a JUDGE, --replies FILE or --scores FILE")
    task, (entry,) = read_task(flags, map(split_named_value, flags.judges), flags.lm or "")
    has_rate_floors = bool(floors.keys() - {"spearman"})
    if has_rate_floors and not is_two_valued(task.items().human):
        raise SettingsError("--min-tpr and --min-tnr need labels that say pass or fail")
    (entry,) = ask_judges([entry], task, seed=flags.seed, **request_options(flags))
    if entry.scored_items is None:
        raise JudgesError(entry.why_unscored)
    measurement = Measurement(scored=entry.scored_items)
    result = replace(measurement.result, judge=judge_arguments[0], floors=floors, looks=flags.looks)
    if has_rate_floors and not result.scorecard.verdict_figures:
        raise JudgesError("--min-tpr and --min-tnr: the scores are not between 0 and 1")
    if flags.report:
        write_verification(Path(flags.report), result, measurement.held_out)
    lines = verification_lines(result, with_all_levels=flags.all, page_path=flags.report)
    texts = floor_texts(result)
    exit_code = EXIT_CODES.get(floor_outcome(texts), DONE_EXIT_CODE)
    return CommandOutcome(verification_json(result), lines, floor_faults(texts), exit_code)


def _verify_swap(flags: Namespace) -> CommandOutcome:
    recordings = [split_named_value(argument) for argument in (*flags.scores, *flags.replies)]
    old_is_recorded = flags.against in [name or Path(file).stem for name, file in recordings]
    asked_judges = [*flags.judges] if old_is_recorded else [*flags.judges, flags.against]
    if len(asked_judges) + len(recordings) != 2:
        raise SettingsError(
            "name one new judge (JUDGE, --scores FILE or --replies FILE), and the old judge by "
            "--against JUDGE, or if it is recorded by --scores OLD=FILE --against OLD"
        )
    task, judge_entries = read_task(flags, map(split_named_value, asked_judges), flags.lm or "")
    if task.items().is_weighted:
        raise SettingsError(
            f"{task.labels.name}: its documents were drawn with unequal chances, and a "
            "swap is decided on labels drawn at random: leave out the rows with a "
            "sampling_weight, or verify each judge by itself, which uses the weights"
        )
    check_names(judge_entries)
    judge_entries = ask_judges(judge_entries, task, seed=flags.seed, **request_options(flags))
    # The judges that were asked come first, and the old judge comes last among them.
    old_name = flags.against if old_is_recorded else judge_entries[len(asked_judges) - 1].name
    new_judge, old_judge = sorted(judge_entries, key=lambda entry: entry.name == old_name)
    margin = DEFAULT_MARGIN if flags.margin is None else flags.margin
    rule = {"margin": margin, "looks": flags.looks}
    if flags.changed is not None:
        source = replace(LabelSource.from_flags(flags), data=flags.changed)
        result = decide_by_changes(new_judge, old_judge, task, source, seed=flags.seed, **rule)
        return _swap_outcome(result, changed_swap_lines(result))
    swap = decide_swap(new_judge, old_judge, task, **rule)
    if flags.report:
        write_swap(Path(flags.report), swap)
    return _swap_outcome(swap, swap_lines(swap, flags.report))


def _swap_outcome(swap: SwapResult | ChangedRowsSwap, lines: Sequence[str]) -> CommandOutcome:
    exit_code = EXIT_CODES.get(swap.outcome, DONE_EXIT_CODE)
    return CommandOutcome(swap_json(swap), lines, swap_faults(swap), exit_code)
