"""The command `tune`: tune a judge to labels, and write the frozen judge and a report."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from dspy_judges.startup import exit_on_ctrl_c
from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.__main__:command"))  # before other imports; `start` says why

from judges.cli.flags import ENDPOINT_FLAGS, READING_FLAGS, Parser, add_flags
from judges.client import check_model_name
from judges.terminal import print_note
from optimize.figures.as_json import to_json
from optimize.inputs.flags import CommandOutcome, run_and_print
from optimize.tuning.settings import read_settings

ABOUT = """\
Tune a judge to human labels, and measure it on labels it never saw.

Its instruction is rewritten and demonstrations are picked so that it ranks
outputs as people do (Spearman's rho), or passes and fails them as people do
(balanced accuracy). The run folder keeps the judge, every reply and figure, and
a report. To continue a run that was stopped, repeat the command; nothing is
paid for twice. By default the labels are the starter set, and the judge is the
embedded model, which is free."""

EXAMPLES = """\
examples:
  dspy-judges tune --dimension relevance
  dspy-judges tune --dimension relevance --data labels.jsonl \\
      --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5-mini
  dspy-judges tune --pairwise tldr_concise --data pairs.jsonl
exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted"""

# The value of one of ENDPOINT_FLAGS is for the proposer's model if it begins with this.
PROPOSER_PREFIX = "proposer="
TUNING_FLAGS = (
    ("--optimizer", "NAME", "rank, gepa, or MODULE:FUNCTION (rank)"),
    ("--objective", "NAME", "balanced (for 0/1 labels), spearman, auto (auto)"),
    ("--level", "LEVEL", "level of rho: summary, dataset, system, auto (auto)"),
    ("--max-demos", "N", "at most N demonstrations in a prompt (as limits allow)"),
    ("--risk", "SHARE", "accepted chance to ship a judge that is no better (0.1)"),
    ("--ship", "WHICH", "better: the tuned judge if it is better; tuned: always (better)"),
)
# The flags that are not settings of a run, with their defaults.
OTHER_FLAGS = {"out": None, "dry_run": False, "json": False, "quiet": False}


def parser() -> Parser:
    """Return the parser; its result has only the flags that the user gave, as text."""
    parser = Parser(
        prog="dspy-judges tune",
        usage="dspy-judges tune (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )
    # `read_settings` checks the values, as it does for the arguments of `optimize.tune`.
    add_text_flags = partial(add_flags, default=argparse.SUPPRESS, type=None, choices=None)
    group = parser.add_argument_group("what is judged")
    help_text = "a catalogue name, FILE.yaml, or 'COLUMN=what it means'"
    add_text_flags(group, "--dimension", help=help_text)
    add_text_flags(group, "--pairwise", "--data", "--annotations", "--scale")
    add_flags(group, *READING_FLAGS)
    group = parser.add_argument_group("models (write proposer=VALUE for the proposer)")
    add_text_flags(group, "--lm", help="the judge: openai/NAME or any of DSPy's (embedded)")
    help_text = "the model that writes instructions (the judge's)"
    group.add_argument("--proposer-lm", metavar="MODEL", help=help_text)
    add_text_flags(group, *ENDPOINT_FLAGS, action="append")
    add_text_flags(group, "--concurrency", "--plan", "--samples", "--temperature")
    help_text = "none, brief, steps; auto: the search tries all (auto)"
    add_text_flags(group, "--reasoning", help=help_text)
    group = parser.add_argument_group("how it is tuned")
    for flag, metavar, help_text in TUNING_FLAGS:
        group.add_argument(flag, metavar=metavar, help=help_text)
    group = parser.add_argument_group("the run (limits are for both models together)")
    add_text_flags(group, "--max-calls", "--max-cost", "--seed")
    group.add_argument("--out", metavar="DIR", help="the run's folder (runs/NAME-001)")
    help_text = "attack the judge that ships (always if it is embedded)"
    group.add_argument("--probes", action="store_true", help=help_text)
    add_flags(group, "--dry-run", "--json", "--verbose", "--quiet", default=argparse.SUPPRESS)
    parser.set_defaults(**OTHER_FLAGS)
    return parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, _tune)


def _tune(flags: argparse.Namespace) -> CommandOutcome:
    with exit_on_ctrl_c():
        # These imports are slow, and wrong flags are refused before them.
        from optimize.report.tuning import tuning_lines
        from optimize.tuning.budget import plan_budget
        from optimize.tuning.budget_text import budget_json, budget_lines
        from optimize.tuning.pipeline import tune_in_folder
        from optimize.tuning.preparation import prepare_run
    settings = read_settings(_settings_from_flags(flags))
    for lm in (settings.lm, settings.proposer_model.lm):
        check_model_name(lm)
    if flags.dry_run:
        budget = plan_budget(prepare_run(settings))
        return CommandOutcome(budget_json(budget), budget_lines(budget))
    path, result = tune_in_folder(settings, flags.out, print_line=print_note, stderr=sys.stderr)
    return CommandOutcome(to_json(result), tuning_lines(result, str(path)))


def _settings_from_flags(flags: argparse.Namespace) -> dict[str, object]:
    """Convert flags to settings: `--price proposer=1,2` becomes `proposer_price`."""
    settings = {name: value for name, value in vars(flags).items() if name not in OTHER_FLAGS}
    for flag in ENDPOINT_FLAGS:
        name = flag.removeprefix("--").replace("-", "_")
        for value in settings.pop(name, []):
            setting = f"proposer_{name}" if value.startswith(PROPOSER_PREFIX) else name
            settings[setting] = value.removeprefix(PROPOSER_PREFIX)
    return settings
