"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data.tables.atomic_write import InUseError
from dspy_judges.startup import loading_time
from judges.cli.arguments import number, whole_number
from judges.cli.shell import DONE, print_lines, print_note, print_output, run_command
from judges.inference.budget import BudgetSpentError
from judges.inference.progress import quiet_notes
from optimize.cli.tool import Parser, print_json
from optimize.run.settings import GROUPS, SETTINGS, flag_of, kind_of, with_config

if TYPE_CHECKING:
    from optimize.run.labels import PreparedRun
    from optimize.run.run_estimate import RunEstimate

ABOUT = """\
Tune a judge against human labels, and measure it on labels it never saw.

Its instruction is rewritten and demonstrations are picked so that its scores
rank outputs as people do (Spearman's rho). The run folder keeps the frozen
judge, every reply, every figure and a report. Without --data and --lm a run
takes the starter set and the embedded model: offline, and free."""

EXAMPLES = """\
examples:
  python -m optimize --dimension relevance
  python -m optimize --dimension relevance --data labels.jsonl \\
      --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5 --max-cost 5
  python -m optimize --dimension mine.yaml --data labels.csv --scale 0-100 \\
      --map mine=my_column --out runs/mine
  python -m optimize --pairwise tldr_concise --data pairs.jsonl
  python -m optimize --resume --out runs/relevance-001

`python -m judges list` names the catalogue's judges, `python -m data check
FILE` tells every problem of a label file, `python -m optimize.compare` sets
models and judges side by side before or after a run. Also: optimize.verify,
optimize.panel, optimize.estimate, optimize.alternative, optimize.report. A run
ends with 0, or 1 where it failed, 2 for wrong usage, 130 where it was
interrupted and can be resumed."""


def parser() -> Parser:
    """A flag for each setting, left out of what is parsed unless it is given; and --config."""
    command_parser = Parser(
        prog="python -m optimize",
        usage="python -m optimize (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        quiet=False,
    )
    for name, declared in SETTINGS.items():
        if name in GROUPS:
            group = command_parser.add_argument_group(GROUPS[name])
        kind, options = kind_of(name), {"help": declared.metadata["help"]}
        if kind is bool:
            options["action"] = "store_true"
        else:
            options["metavar"] = declared.metadata["metavar"]
            options |= FLAG_OPTIONS.get(kind, {})
        group.add_argument(flag_of(name), **options)
        if name == "resume":
            group.add_argument(
                "--config",
                metavar="FILE.yaml",
                help="any of these flags by name; those given beat it",
            )
    return command_parser


# What has to be given again to go on with a run.
NOT_FROM_FOLDER = ("api_base", "proposer_api_base", "api_key_env", "proposer_api_key_env")
FLAG_OPTIONS: Mapping[type, Mapping[str, Any]] = {
    int: {"type": whole_number},
    float: {"type": number},
    dict: {"action": "append"},
}


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.lifecycle import RunLifecycle

    lifecycle = RunLifecycle(print_note, stderr=sys.stderr)

    def tune() -> int:
        chosen = with_config(flags)
        with quiet_notes(bool(chosen.get("quiet"))):
            return run(chosen)

    def run(chosen: Mapping[str, Any]) -> int:
        if chosen.get("dry_run"):
            return _dry_run(*lifecycle.estimate(chosen), as_object=bool(chosen.get("json")))
        summary = lifecycle.execute(chosen)
        if chosen.get("json"):
            print_json(summary)
        else:
            from optimize.screen import scorecard

            print_lines(scorecard(summary, str(lifecycle.folder)).splitlines())
        return DONE

    def resuming(where: str) -> str:
        """What goes on with the run; a folder alone may not say where a key is sent."""
        again = [flag_of(name) for name in NOT_FROM_FOLDER if flags.get(name) is not None]
        same = f", with {' and '.join(again)} as here," if again else ""
        return f"python -m optimize --resume{where}{same} goes on from here"

    def advice(error: Exception) -> str:
        if (
            isinstance(error, OSError)
            and not isinstance(error, InUseError)
            and lifecycle.can_resume
        ):
            return f"; {resuming(f' --out {lifecycle.folder}')}"
        if isinstance(error, BudgetSpentError) and lifecycle.folder and lifecycle.folder.exists():
            return f" (--resume --out {lifecycle.folder}, with the larger limit)"
        return ""

    def interrupted() -> str:
        where = f" --out {lifecycle.folder}" if lifecycle.folder else ""
        return f"interrupted: {resuming(where)}"

    verbose = bool(flags.get("verbose"))
    return run_command(
        "python -m optimize", tune, verbose=verbose, advice=advice, interrupted=interrupted
    )


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
        f"{counts['name']}: {counts['n_outputs']} {unit}; of {counts['n_documents']} documents",
        f"{estimate.documents_text()}",
        "",
        *estimate.lines(),
    ]
    print_output("\n".join(lines))
    return DONE
