"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from data.tables.atomic_write import InUseError
from judges.cli.arguments import number, whole_number
from judges.cli.shell import DONE, print_error, print_output, run_command
from judges.cli.startup import loading_time
from judges.inference.budget import BudgetSpentError
from optimize.cli.tool import Parser
from optimize.run.settings import GROUPS, SETTINGS, flag_of, kind_of
from optimize.search.trial_log import as_json

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
FILE` tells every problem of a label file. A run ends with 0, or 1 where it
failed, 2 for wrong usage, 130 where it was interrupted and can be resumed."""


def parser() -> Parser:
    """A flag for each setting, left out of what is parsed unless it is given; and --config."""
    command_parser = Parser(
        prog="python -m optimize",
        usage="python -m optimize (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
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

    lifecycle = RunLifecycle(print_error)

    def tune() -> int:
        summary = lifecycle.execute(flags)
        if flags.get("json"):
            print_output(as_json(summary, indent=1))
        else:
            from optimize.figures import scorecard

            print_output(scorecard(summary, str(lifecycle.folder)))
        return DONE

    def advice(error: Exception) -> str:
        if (
            isinstance(error, OSError)
            and not isinstance(error, InUseError)
            and lifecycle.can_resume
        ):
            return f"; python -m optimize --resume --out {lifecycle.folder} goes on from here"
        if isinstance(error, BudgetSpentError) and lifecycle.folder and lifecycle.folder.exists():
            return f" (--resume --out {lifecycle.folder}, with the larger limit)"
        return ""

    def interrupted() -> str:
        where = f" --out {lifecycle.folder}" if lifecycle.folder else ""
        return f"interrupted: python -m optimize --resume{where} goes on from here"

    verbose = bool(flags.get("verbose"))
    return run_command(
        "python -m optimize", tune, verbose=verbose, advice=advice, interrupted=interrupted
    )
