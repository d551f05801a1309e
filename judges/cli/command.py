"""One command from its arguments to its exit code, and one line for whatever fails."""

import argparse
from collections.abc import Mapping, Sequence

from judges.cli import compare, export, score, show
from judges.cli.arguments import Parser, with_config
from judges.cli.shell import run_command
from judges.inference.progress import verbose_logging

ABOUT = """\
Judge texts with rating judges and pairwise judges: from the catalogue, frozen
after tuning (python -m optimize), or defined in a file of your own. The
embedded model answers offline and for free unless --lm names another."""

EXAMPLES = """\
examples:
  python -m judges list
  python -m judges show relevance
  python -m judges score relevance --data rows.csv --out scored.csv
  python -m judges compare tldr_concise --data pairs.jsonl --out verdicts.jsonl

`python -m judges COMMAND --help` tells each command's flags. Keys are read
from the environment (OPENAI_API_KEY and its like) and written nowhere. A
command ends with 0, or 1 where it failed, 2 for wrong usage, 130 where it was
interrupted (--resume goes on)."""


def command(given: Sequence[str]) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    parser, commands = build_parser()
    args = argparse.Namespace()

    def work() -> int:
        parser.parse_args(with_config(commands, given), args)
        with verbose_logging(getattr(args, "verbose", False)):
            code: int = args.run(args)
        return code

    return run_command(
        "judges",
        work,
        verbose="--verbose" in given,
        interrupted=lambda: "judges: interrupted",
    )


def build_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and its commands' own by their names."""
    parser: argparse.ArgumentParser = Parser(
        prog="python -m judges",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show.add(commands)
    score.add(commands)
    compare.add(commands)
    export.add(commands)
    show.add_journal(commands)
    return parser, commands.choices
