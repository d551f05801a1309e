"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import argparse
from collections.abc import Sequence

from data.tables.atomic_write import InUseError
from data.tables.formats import READ_ENDINGS
from data.tables.problems import DataError
from judges.cli.arguments import number, whole_number
from judges.cli.shell import DONE, print_error, print_output, run_command
from judges.cli.startup import loading_time
from judges.errors import JudgesError
from judges.inference.budget import BudgetSpentError
from optimize.run.run_folder import as_json
from optimize.run.settings import SPLITS, Parser
from optimize.search.objective import LEVELS
from optimize.search.optimizers import OPTIMIZERS

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
    """Every flag is left out of what is parsed unless it is given."""
    command_parser = Parser(
        prog="python -m optimize",
        usage="python -m optimize (--dimension NAME | --pairwise NAME) [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    _judged(command_parser.add_argument_group("what is judged"))
    _judging(command_parser.add_argument_group("who judges"))
    _tuning(command_parser.add_argument_group("how it is tuned"))
    _running(command_parser.add_argument_group("the run"))
    return command_parser


Group = argparse._ArgumentGroup


def _judged(group: Group) -> None:
    add = group.add_argument
    add("--dimension", metavar="NAME", help="a catalogue name, FILE.yaml[:name] or FILE.py:NAME")
    add("--pairwise", metavar="NAME", help="the same, for a comparison of two outputs")
    add(
        "--data",
        metavar="FILE",
        help=f"human labels: {READ_ENDINGS}, or hf:owner/name (the starter set, whose labels are "
        "constructed)",
    )
    add(
        "--map",
        metavar="NAME=COLUMN",
        action="append",
        help="read NAME (a dimension, a text, id, group, system) from this column; repeatable",
    )
    add(
        "--scale",
        metavar="LOW-HIGH",
        help="the scale people were given, as in 0-100; the judge then rates on it too. 'any': the "
        "judge keeps its own, and only the order of the labels counts",
    )


def _judging(group: Group) -> None:
    add = group.add_argument
    add(
        "--lm",
        metavar="MODEL",
        help="embedded (the default), openai/NAME, azure/NAME, any of DSPy's",
    )
    add("--api-base", metavar="URL", help="an OpenAI-compatible server (OPENAI_BASE_URL)")
    add("--proposer-lm", metavar="MODEL", help="who writes new instructions (the judge's model)")
    add(
        "--proposer-api-base",
        metavar="URL",
        help="where the proposer is asked, or default: its provider's own (where the judge is)",
    )
    add(
        "--plan",
        metavar="PLAN",
        help="one, mean (of --samples) or weighted; auto tries them on dev and takes the cheapest "
        "that is within a standard error of the best",
    )
    add("--samples", type=whole_number, metavar="N", help="a score is the mean of N replies (1)")
    add("--temperature", type=number, metavar="T", help="of a reply (0; with --samples 1)")
    add(
        "--weighted",
        action="store_true",
        help="a score is the ratings weighted by probability (the embedded model's default)",
    )
    add(
        "--probes",
        action="store_true",
        help="attack the shipped judge, for the report; costs calls (the embedded model: always)",
    )
    add("--concurrency", type=whole_number, metavar="N", help="requests in flight (64)")


def _tuning(group: Group) -> None:
    add = group.add_argument
    add("--optimizer", metavar="NAME", help=f"{', '.join(OPTIMIZERS)} (rank)")
    add(
        "--level",
        metavar="LEVEL",
        help=f"of rho: {', '.join(LEVELS)} or auto: summary where documents have three outputs or "
        "more (auto)",
    )
    add(
        "--split",
        metavar="BY",
        help=f"{', '.join(SPLITS)} (both where there are 8 systems, else document)",
    )
    add(
        "--max-calls",
        type=whole_number,
        metavar="N",
        help="most calls to the judge, search and measurement together (about 8,000; free models "
        "20,000)",
    )
    add("--max-cost", type=number, metavar="USD", help="most dollars, both models together")
    add("--seed", type=whole_number, metavar="N", help="for every random draw (0)")


def _running(group: Group) -> None:
    add = group.add_argument
    add("--out", metavar="DIR", help="the run's folder (runs/NAME-001, then -002)")
    add(
        "--resume",
        action="store_true",
        help="go on with a run that was stopped; pays nothing twice",
    )
    add("--config", metavar="FILE.yaml", help="any of these flags by name; those given beat it")
    add(
        "--keep-going",
        action="store_true",
        help="go on though almost all of the first 48 judgements have failed",
    )
    add("--json", action="store_true", help="print summary.json in place of the table")
    add(
        "--verbose",
        action="store_true",
        help="say each retry, failed request and rate limit on stderr, and where an error arose",
    )


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.run.start import RunLifecycle

    lifecycle = RunLifecycle(print_error)

    def tune() -> int:
        try:
            summary = lifecycle.execute(flags)
            # Drawing takes matplotlib, which a run that fails early need not load.
            from optimize.report.run_report import write_report_at_end

            write_report_at_end(lifecycle.path)
        except (JudgesError, DataError, OSError):
            lifecycle.remove_unanswered()
            raise
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
