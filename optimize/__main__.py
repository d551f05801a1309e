"""The command `tune`: tune a judge to labels, and write the frozen judge and a report."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from dspy_judges.startup import exit_on_ctrl_c
from dspy_judges.startup import run as start

if __name__ == "__main__":
    # `start` must be called before all other imports; its docstring says why.
    sys.exit(start("optimize.__main__:command"))

from dspy_judges.errors import option_name
from judges.cli.flags import API_KEY_ENV_HELP, MAX_TOKENS_HELP, PRICE_HELP, REASONING_EFFORT_HELP
from judges.client import check_model_name
from judges.terminal import print_note
from optimize.inputs.flags import CommandOutcome, CommandParser, add_label_flags, run_and_print
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

PROPOSER_PREFIX = "proposer="
# These flags are about the judge's model, or the proposer if the value begins with PROPOSER_PREFIX.
MODEL_FLAGS = ("price", "api_base", "api_key_env", "max_tokens", "reasoning_effort")
# The flags that are not settings of a run, with their defaults.
OTHER_FLAGS = {"out": None, "dry_run": False, "json": False, "quiet": False}


def parser() -> CommandParser:
    """Return the parser; its result has only the flags that the user gave."""
    parser = CommandParser(
        prog="dspy-judges tune",
        usage="dspy-judges tune (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )

    def add(name: str, metavar: str, help_text: str) -> None:
        action = "append" if name in MODEL_FLAGS else "store"
        group.add_argument(option_name(name), metavar=metavar, help=help_text, action=action)

    group = parser.add_argument_group("what is judged")
    add("dimension", "NAME", "a catalogue name, FILE.yaml, or 'COLUMN=what it means'")
    add("pairwise", "NAME", "the comparison of two outputs: a name or FILE.yaml")
    add_label_flags(group)
    add("annotations", "FILE", "the ratings, if they are in a separate file: id, label")
    add("scale", "LOW-HIGH", "the scale of the labels; any: only their order counts")
    group = parser.add_argument_group("models (write proposer=VALUE for the proposer)")
    add("lm", "MODEL", "the judge: openai/NAME or any of DSPy's (embedded)")
    add("proposer_lm", "MODEL", "the model that writes instructions (the judge's)")
    add("api_base", "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)")
    add("api_key_env", "VAR", API_KEY_ENV_HELP)
    add("price", "IN,OUT", PRICE_HELP)
    add("max_tokens", "N", MAX_TOKENS_HELP)
    add("reasoning_effort", "LEVEL", REASONING_EFFORT_HELP)
    add("concurrency", "N", "requests in flight (64)")
    add("plan", "PLAN", "one, mean or weighted (one; the embedded model: weighted)")
    add("samples", "N", "the number of replies for --plan mean")
    add("temperature", "T", "sampling temperature (0; for --plan mean: 1)")
    add("reasoning", "FORM", "none, brief, steps; auto: the search tries all (auto)")
    group = parser.add_argument_group("how it is tuned")
    add("optimizer", "NAME", "rank, gepa, or MODULE:FUNCTION (rank)")
    add("objective", "NAME", "balanced (for 0/1 labels), spearman, auto (auto)")
    add("level", "LEVEL", "level of rho: summary, dataset, system, auto (auto)")
    add("max_demos", "N", "at most N demonstrations in a prompt (as limits allow)")
    add("max_calls", "N", "at most N calls, of both models together")
    add("max_cost", "USD", "at most USD dollars, for both models together")
    add("risk", "SHARE", "accepted chance to ship a judge that is no better (0.1)")
    add("ship", "WHICH", "better: the tuned judge if it is better; tuned: always (better)")
    add("seed", "N", "the seed of every random draw (0)")
    group = parser.add_argument_group("the run")
    group.add_argument("--out", metavar="DIR", help="the run's folder (runs/NAME-001)")
    add_switch = partial(group.add_argument, action="store_true")
    add_switch("--dry-run", help="print the expected calls, time and cost, and stop")
    add_switch("--probes", help="attack the judge that ships (always if it is embedded)")
    add_switch("--json", help="print summary.json instead of the table")
    add_switch("--verbose", help="print each retry, and tracebacks of errors")
    parser.set_defaults(**OTHER_FLAGS)
    return parser


def command(arguments: Sequence[str]) -> int:
    """Run `dspy-judges tune` with these arguments; returns the exit code."""
    flags = parser().parse_args(arguments)
    with exit_on_ctrl_c():
        # These slow imports come after the flags were read, so that wrong flags are refused
        # quickly.
        from optimize.figures.as_json import to_json
        from optimize.report.tuning import tuning_lines
        from optimize.tuning.budget import plan_budget
        from optimize.tuning.budget_text import budget_json, budget_lines
        from optimize.tuning.pipeline import tune_in_folder
        from optimize.tuning.preparation import prepare_run

    def tune(flags: argparse.Namespace) -> CommandOutcome:
        settings = read_settings(_settings_from_flags(flags))
        for lm in (settings.lm, settings.proposer_model.lm):
            check_model_name(lm)
        if flags.dry_run:
            budget = plan_budget(prepare_run(settings))
            return CommandOutcome(budget_json(budget), budget_lines(budget))
        path, result = tune_in_folder(settings, flags.out, print_line=print_note, stderr=sys.stderr)
        return CommandOutcome(to_json(result), tuning_lines(result, str(path)))

    return run_and_print(parser().prog, flags, tune)


def _settings_from_flags(flags: argparse.Namespace) -> dict[str, object]:
    """Convert flags to settings: `--price proposer=1,2` becomes `proposer_price`."""
    settings = {name: value for name, value in vars(flags).items() if name not in OTHER_FLAGS}
    for name in MODEL_FLAGS:
        for value in settings.pop(name, []):
            setting = f"proposer_{name}" if value.startswith(PROPOSER_PREFIX) else name
            settings[setting] = value.removeprefix(PROPOSER_PREFIX)
    return settings
