"""One command of judges from its arguments to its exit code."""

import argparse
from collections.abc import Mapping, Sequence

from judges.cli import export, show, table_commands
from judges.cli.flags import Parser
from judges.terminal import quiet_notes, run_command, verbose_logging

ABOUT = """\
Judge texts with rating judges and pairwise judges: from the catalogue, frozen
after tuning (dspy-judges tune), or defined in a file of your own. The
embedded model answers offline and for free unless --lm names another."""

EXAMPLES = """\
examples:
  dspy-judges list
  dspy-judges show relevance
  dspy-judges score relevance --data rows.csv --out scored.csv
  dspy-judges winrate tldr_concise --data pairs.jsonl --out verdicts.jsonl

`dspy-judges COMMAND --help` lists a command's flags. Keys are read from
the environment (OPENAI_API_KEY and its like) and written nowhere. Exit codes:
0 done, 1 failed, 2 wrong usage, 130 interrupted (--resume continues).
`dspy-judges tune` tunes a judge, `dspy-judges verify` measures one,
`dspy-judges check` reads a label file."""


def command(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

    def work() -> int:
        args = parser().parse_args(argv)
        with (
            verbose_logging(getattr(args, "verbose", False)),
            quiet_notes(getattr(args, "quiet", False)),
        ):
            code: int = args.run(args)
        return code

    name = " ".join(["dspy-judges", *(word for word in argv[:1] if not word.startswith("-"))])
    return run_command(
        name, work, verbose="--verbose" in argv, interrupted=lambda: f"{name}: interrupted"
    )


def parser() -> argparse.ArgumentParser:
    return build_parser()[0]


def build_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and its commands' own by their names."""
    command_parser: argparse.ArgumentParser = Parser(
        prog="dspy-judges", description=ABOUT, epilog=EXAMPLES
    )
    commands = command_parser.add_subparsers(metavar="COMMAND", required=True)
    show.add(commands)
    table_commands.add_score(commands)
    table_commands.add_winrate(commands)
    export.add(commands)
    return command_parser, commands.choices
