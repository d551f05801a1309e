"""The command `tune`: flags in, a scorecard out, one line and a code for whatever fails."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from data.tables.atomic_write import InUseError
from data.tables.formats import READ_ENDINGS
from dspy_judges.startup import loading_time
from judges.cli.arguments import number, whole_number
from judges.cli.shell import DONE, print_lines, print_note, print_output, run_command
from judges.inference.budget import BudgetSpentError
from judges.inference.progress import quiet_notes
from optimize.cli.tool import Parser, print_json
from optimize.run.settings import SettingsError, choices_of, flag_of, read_settings

if TYPE_CHECKING:
    from optimize.run.labels import PreparedRun
    from optimize.run.run_estimate import RunEstimate

ABOUT = """\
Tune a judge against human labels, and measure it on labels it never saw. Without --data and
--lm a run takes the starter set and the embedded model: offline, and free. What concerns the
model that writes instructions, and not the judge, is given as proposer=VALUE."""

EXAMPLES = """\
examples:
  python -m optimize --dimension relevance
  python -m optimize --dimension relevance --data labels.jsonl \\
      --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5 --max-cost 5
  python -m optimize --pairwise tldr_concise --data pairs.jsonl
exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted"""

PROPOSER = "proposer="
# What may be said of either model.
OF_A_MODEL = ("price", "api_base", "api_key_env", "max_tokens", "reasoning_effort")


def parser() -> Parser:
    """The flags; what is not given is left out of what is parsed."""
    command_parser = Parser(
        prog="python -m optimize",
        usage="python -m optimize (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=26, width=100
        ),
    )

    def add(name: str, metavar: str, help_text: str, **options: Any) -> None:
        if choices := choices_of(name):
            options["choices"], metavar = choices, ""
        command_parser.add_argument(
            flag_of(name), metavar=metavar or None, help=help_text, **options
        )

    add("dimension", "NAME", "a catalogue name or FILE.yaml[:name]")
    add("pairwise", "NAME", "the same, for a comparison of two outputs")
    add("data", "FILE", f"human labels: {READ_ENDINGS}, hf:owner/name")
    several = {"action": "append"}
    add("map", "NAME=COLUMN", "read NAME from this column, or FILE.yaml; repeatable", **several)
    add("values", "WORD=NUMBER,...", "what words count, as in up=1,down=0", **several)
    add("scale", "LOW-HIGH", "the scale people were given; any: only their order counts")
    add("lm", "MODEL", "the judge's: embedded (the default), openai/NAME, any of DSPy's")
    add("proposer_lm", "MODEL", "the model that writes instructions (the judge's)")
    add("api_base", "URL", "an OpenAI-compatible server (OPENAI_BASE_URL)", **several)
    add("api_key_env", "VAR", "the variable that holds the key (the provider's own)", **several)
    add("price", "IN,OUT", "US dollars for a million tokens, where no table knows", **several)
    add("max_tokens", "N", "of a reply (512; of models that reason eight times that)", **several)
    add("reasoning_effort", "LEVEL", "as the model takes it (its own)", **several)
    add("concurrency", "N", "requests in flight (64)", type=whole_number)
    add("plan", "", "how a score is made of replies (one; embedded: weighted)")
    add("samples", "N", "the replies of --plan mean", type=whole_number)
    add("temperature", "T", "of a reply (0; of --plan mean 1)", type=number)
    add("reasoning", "", "what is written before an answer (auto: the search tries)")
    add("optimizer", "", "(rank)")
    add("level", "", "of rho (auto: summary where documents have three outputs)")
    add("max_demos", "N", "most examples in a prompt (as many as pay)", type=whole_number)
    add("max_calls", "N", "most calls to both models", type=whole_number)
    add("max_cost", "USD", "most dollars, both models together", type=number)
    add("risk", "SHARE", "the chance that a judge ships which is no better (0.1)", type=number)
    add("ship", "", "the tuned judge if it is better, or in any case (better)")
    command_parser.add_argument("--probes", action="store_true", help="attack the shipped judge")
    add("seed", "N", "for every random draw (0)", type=whole_number)
    words = {
        "--resume": "go on with a stopped run: the same command again; pays nothing twice",
        "--dry-run": "print what the run would take, and stop",
        "--json": "print summary.json in place of the table",
        "--verbose": "print each retry, and where an error arose",
    }
    command_parser.add_argument("--out", metavar="DIR", help="the run's folder (runs/NAME-001)")
    for flag, help_text in words.items():
        command_parser.add_argument(flag, action="store_true", help=help_text)
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    out, resume = flags.pop("out", None), flags.pop("resume", False)
    dry_run, as_json, quiet = (flags.pop(name, False) for name in ("dry_run", "json", "quiet"))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.lifecycle import RunLifecycle

    lifecycle = RunLifecycle(out, resume=resume, print_line=print_note, stderr=sys.stderr)

    def tune() -> int:
        settings = read_settings(of_both_models(flags))
        if dry_run:
            return _dry_run(*lifecycle.estimate(settings), as_object=as_json)
        summary = lifecycle.execute(settings)
        if as_json:
            print_json(summary)
        else:
            from optimize.screen import scorecard

            print_lines(scorecard(summary, str(lifecycle.folder)).splitlines())
        return DONE

    def work() -> int:
        with quiet_notes(quiet):
            return tune()

    def resuming() -> str:
        return f"the same command with --resume --out {lifecycle.folder} goes on from here"

    def advice(error: Exception) -> str:
        stopped = isinstance(error, OSError) and not isinstance(error, InUseError)
        if (stopped or isinstance(error, BudgetSpentError)) and lifecycle.can_resume:
            larger = " and a larger limit" if isinstance(error, BudgetSpentError) else ""
            return f"; {resuming()}{larger}"
        return ""

    def interrupted() -> str:
        return f"interrupted: {resuming()}" if lifecycle.folder else "interrupted"

    verbose = bool(flags.get("verbose"))
    return run_command(
        "python -m optimize", work, verbose=verbose, advice=advice, interrupted=interrupted
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
    lines = [
        f"{name} judged by {settings.lm}, {settings.optimizer} search",
        f"instructions proposed by {settings.proposer[0]}",
        f"{counts['name']}: {counts['n_outputs']} {unit} of {counts['n_documents']} documents",
        *estimate.lines(),
    ]
    print_output("\n".join(lines))
    return DONE
