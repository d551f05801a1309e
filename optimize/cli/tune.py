"""The command `tune`: flags in, a scorecard out, one line and a code for whatever fails."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dspy_judges.startup import loading_time
from judges.cli.flags import (
    API_KEY_ENV,
    MAX_TOKENS,
    PRICE,
    REASONING_EFFORT,
)
from judges.client import is_embedded
from judges.terminal import (
    DONE,
    QUIET,
    print_lines,
    print_note,
    print_output,
    run_command,
)
from optimize.cli.tool import INTERRUPTED_RUN, Parser, add_label_flags, print_json
from optimize.report.answer import run_lines
from optimize.run.settings import SettingsError, choices_of, flag_of, read_settings

if TYPE_CHECKING:
    from optimize.run.labels import PreparedRun
    from optimize.run.run_estimate import RunEstimate

ABOUT = """\
Tune a judge to human labels, and measure it on labels it never saw.

Its instruction is rewritten and demonstrations are picked so that its scores
rank outputs as people do (Spearman's rho). The run folder keeps the judge,
every reply, every figure and a report; the same command again goes on with a
run that was stopped, and pays nothing twice. Without --data and --lm a run
takes the starter set and the embedded model: offline, and free."""

EXAMPLES = """\
examples:
  dspy-judges tune --dimension relevance
  dspy-judges tune --dimension relevance --data labels.jsonl \\
      --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5 --max-cost 5
  dspy-judges tune --pairwise tldr_concise --data pairs.jsonl
exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted"""

PROPOSER = "proposer="
# What may be said of either model.
OF_A_MODEL = ("price", "api_base", "api_key_env", "max_tokens", "reasoning_effort")


def parser() -> Parser:
    """The flags; what is not given is left out of what is parsed."""
    command_parser = Parser(
        prog="dspy-judges tune",
        usage="dspy-judges tune (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        quiet=False,
    )

    def add(name: str, metavar: str, help_text: str, **options: Any) -> None:
        if choices := choices_of(name):
            options["choices"] = choices
        group.add_argument(flag_of(name), metavar=metavar, help=help_text, **options)

    several = {"action": "append"}
    group: Any = command_parser.add_argument_group("what is judged")
    add("dimension", "NAME", "a catalogue name or FILE.yaml")
    add("pairwise", "NAME", "the same, for a comparison of two outputs")
    add_label_flags(group)
    add("scale", "LOW-HIGH", "the scale people were given; any: only their order counts")
    group = command_parser.add_argument_group("models (proposer=VALUE: of the proposer)")
    add("lm", "MODEL", "the judge: embedded (the default), openai/NAME, any of DSPy's")
    add("proposer_lm", "MODEL", "the proposer, which writes instructions (the judge's)")
    add("api_base", "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)", **several)
    add("api_key_env", "VAR", API_KEY_ENV, **several)
    add("price", "IN,OUT", PRICE, **several)
    add("max_tokens", "N", MAX_TOKENS, **several)
    add("reasoning_effort", "LEVEL", REASONING_EFFORT, **several)
    add("concurrency", "N", "requests in flight (64)", type=int)
    add("plan", "PLAN", "one, mean or weighted (one; the embedded model: weighted)")
    add("samples", "N", "replies of --plan mean", type=int)
    add("temperature", "T", "of a reply (0; of a mean 1)", type=float)
    add("reasoning", "FORM", "none, brief, steps; auto: the search tries them (auto)")
    group = command_parser.add_argument_group("how it is tuned")
    add("optimizer", "NAME", "rank or gepa (rank)")
    add("level", "LEVEL", "of rho: summary, dataset, system, auto (auto)")
    add("max_demos", "N", "most examples in a prompt (as many as pay)", type=int)
    add("max_calls", "N", "most calls to both models", type=int)
    add("max_cost", "USD", "most dollars for both models", type=float)
    add("risk", "SHARE", "the chance that a judge ships which is no better (0.1)", type=float)
    add("ship", "WHICH", "better: the tuned judge if it is better; tuned: always (better)")
    add("seed", "N", "for every random draw (0)", type=int)
    group = command_parser.add_argument_group("the run")
    group.add_argument("--out", metavar="DIR", help="the run's folder (runs/NAME-001)")
    words = {
        "--dry-run": "print what the run would take, and stop",
        "--probes": "attack the shipped judge, for the report (the embedded model: always)",
        "--json": "print summary.json in place of the table",
        "--verbose": "print each retry, and where an error arose",
        "--quiet": QUIET,
    }
    for flag, help_text in words.items():
        group.add_argument(flag, action="store_true", help=help_text)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Run `dspy-judges tune` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    out = flags.pop("out", None)
    dry_run, as_json, quiet = (flags.pop(name, False) for name in ("dry_run", "json", "quiet"))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.lifecycle import run_in_folder
        from optimize.run.labels import prepare
        from optimize.run.pipeline import estimate

    def work() -> int:
        settings = read_settings(of_both_models(flags))
        if dry_run:
            prepared = prepare(settings)
            return _dry_run(prepared, estimate(prepared), as_object=as_json)
        folder, summary = run_in_folder(settings, out, print_line=print_note, stderr=sys.stderr)
        if as_json:
            print_json(summary)
        else:
            print_lines(run_lines(summary, str(folder)))
        return DONE

    return run_command(
        "dspy-judges tune",
        work,
        verbose=bool(flags.get("verbose")),
        quiet=quiet,
        interrupted=INTERRUPTED_RUN,
    )


def of_both_models(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags with what was said of the proposer under names of its own."""
    settings = dict(flags)
    for name in OF_A_MODEL:
        given: Iterable[str] = settings.pop(name, ())
        for text in given:
            is_proposers = text.startswith(PROPOSER)
            key = f"proposer_{name}" if is_proposers else name
            settings[key] = _of_kind(name, text.removeprefix(PROPOSER))
    return settings


def _of_kind(name: str, text: str) -> str | int:
    """The value of a flag; raises SettingsError."""
    if name != "max_tokens":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--max-tokens {text!r} is no whole number") from None


def _dry_run(prepared: "PreparedRun", estimate: "RunEstimate", *, as_object: bool) -> int:
    """Print what the run would take; the exit code."""
    settings, counts = prepared.settings, prepared.labels.counts()
    name = prepared.subject.name
    models = {"lm": settings.lm, "proposer_lm": settings.proposer[0]}
    if as_object:
        head = {"dimension": name, **models, "optimizer": settings.optimizer, "data": counts}
        print_json({**head, **estimate.to_json()})
        return DONE
    unit = "pairs" if settings.pairwise else "outputs"
    proposing = [f"instructions proposed by {settings.proposer[0]}"]
    if is_embedded(settings.lm):
        proposing = []
    lines = [
        f"{name} judged by {settings.lm}, {settings.optimizer} search",
        *proposing,
        f"{counts['name']}: {counts['n_outputs']} {unit} of {counts['n_documents']} documents",
        *estimate.lines(),
    ]
    print_output("\n".join(lines))
    return DONE
