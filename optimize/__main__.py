"""The command `tune`: labels to a frozen judge and a report."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from dspy_judges.startup import loading_time, run

if __name__ == "__main__":
    # Before anything else is imported: see `run`.
    sys.exit(run("optimize.__main__:command"))

from judges.cli.flags import API_KEY_ENV, MAX_TOKENS, PRICE, REASONING_EFFORT
from judges.client import check_name
from judges.terminal import DONE, print_lines, print_note, run_command
from optimize.inputs.flags import INTERRUPTED_RUN, Parser, add_label_flags, print_json
from optimize.tuning.settings import flag_of, read_settings

ABOUT = """\
Tune a judge to human labels, and measure it on labels it never saw.

Its instruction is rewritten and demonstrations are picked so that it ranks
outputs as people do (Spearman's rho), or passes and fails them (balanced
accuracy). The run folder keeps the judge, every reply and figure, and a report;
the same command again goes on with a run that was stopped, and pays nothing
twice. Without --data and --lm: the starter set, the embedded model, and free."""

EXAMPLES = """\
examples:
  dspy-judges tune --dimension relevance
  dspy-judges tune --dimension relevance --data labels.jsonl \\
      --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5-mini
  dspy-judges tune --pairwise tldr_concise --data pairs.jsonl
exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted"""

PROPOSER = "proposer="
# What may be said of either model.
OF_A_MODEL = ("price", "api_base", "api_key_env", "max_tokens", "reasoning_effort")


def parser() -> Parser:
    """The flags; what is not given is left out of what is parsed. Settings are checked later."""
    parser = Parser(
        prog="dspy-judges tune",
        usage="dspy-judges tune (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )

    def add(name: str, metavar: str, help_text: str) -> None:
        several: Any = {"action": "append"} if name in OF_A_MODEL else {}
        group.add_argument(flag_of(name), metavar=metavar, help=help_text, **several)

    group: Any = parser.add_argument_group("what is judged")
    add("dimension", "NAME", "a catalogue name, FILE.yaml, or 'COLUMN=what it means'")
    add("pairwise", "NAME", "the same, for a comparison of two outputs")
    add_label_flags(group)
    add("annotations", "FILE", "their ratings, if in a file of their own: id, label")
    add("scale", "LOW-HIGH", "that of the labels; any: only their order counts")
    group = parser.add_argument_group("models (proposer=VALUE: of the proposer)")
    add("lm", "MODEL", "the judge: embedded (the default), openai/NAME, any of DSPy's")
    add("proposer_lm", "MODEL", "the proposer, which writes instructions (the judge's)")
    add("api_base", "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)")
    add("api_key_env", "VAR", API_KEY_ENV)
    add("price", "IN,OUT", PRICE)
    add("max_tokens", "N", MAX_TOKENS)
    add("reasoning_effort", "LEVEL", REASONING_EFFORT)
    add("concurrency", "N", "requests in flight (64)")
    add("plan", "PLAN", "one, mean or weighted (one; the embedded model: weighted)")
    add("samples", "N", "replies of --plan mean")
    add("temperature", "T", "of a reply (0; of a mean 1)")
    add("reasoning", "FORM", "none, brief, steps; auto: the search tries them (auto)")
    group = parser.add_argument_group("how it is tuned")
    add("optimizer", "NAME", "rank, gepa, or MODULE:FUNCTION (rank)")
    add("objective", "NAME", "balanced (of two values), spearman, auto (auto)")
    add("level", "LEVEL", "of rho: summary, dataset, system, auto (auto)")
    add("max_demos", "N", "most examples in a prompt (as many as pay)")
    add("max_calls", "N", "most calls to both models")
    add("max_cost", "USD", "most dollars for both models")
    add("risk", "SHARE", "the chance that a judge ships which is no better (0.1)")
    add("ship", "WHICH", "better: the tuned judge if it is better; tuned: always (better)")
    add("seed", "N", "for every random draw (0)")
    group = parser.add_argument_group("the run")
    group.add_argument("--out", metavar="DIR", help="the run's folder (runs/NAME-001)")
    words = {
        "--dry-run": "print what the run would take, and stop",
        "--probes": "attack the shipped judge, for the report (the embedded model: always)",
        "--json": "print summary.json in place of the table",
        "--verbose": "print each retry, and where an error arose",
    }
    for flag, help_text in words.items():
        group.add_argument(flag, action="store_true", help=help_text)
    return parser


def command(arguments: Sequence[str]) -> int:
    """Run `dspy-judges tune` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    out = flags.pop("out", None)
    dry, as_object, quiet = (flags.pop(name, False) for name in ("dry_run", "json", "quiet"))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.report.tuning import run_lines
        from optimize.tuning.budget import plan_budget
        from optimize.tuning.pipeline import tune_in_folder
        from optimize.tuning.preparation import prepare

    def work() -> int:
        settings = read_settings(of_both_models(flags))
        for lm in (settings.lm, settings.proposer.lm):
            check_name(lm)
        if dry:
            plan = plan_budget(prepare(settings))
            print_json(plan) if as_object else print_lines(plan.lines())
            return DONE
        folder, result = tune_in_folder(settings, out, print_line=print_note, stderr=sys.stderr)
        print_json(result) if as_object else print_lines(run_lines(result, str(folder)))
        return DONE

    verbose = bool(flags.get("verbose"))
    return run_command(
        parser().prog, work, verbose=verbose, quiet=quiet, interrupted=INTERRUPTED_RUN
    )


def of_both_models(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags with what was said of the proposer under names of its own."""
    settings = dict(flags)
    for name in OF_A_MODEL:
        for text in settings.pop(name, ()):
            is_proposers = text.startswith(PROPOSER)
            settings[f"proposer_{name}" if is_proposers else name] = text.removeprefix(PROPOSER)
    return settings
