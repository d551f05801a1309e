"""What the commands share: how flags are parsed, and how one result is printed."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data.tables.formats import READ_ENDINGS
from judges.cli.flags import Parser as OneLineParser
from judges.terminal import DONE, QUIET, print_lines, print_output, run_command
from optimize.items import LEVELS
from optimize.run.trial_log import as_json

Result = Mapping[str, object]
INTERRUPTED_RUN = "interrupted: the same command again goes on from here"
ANNOTATIONS = "every annotator's ratings, a long file: id, dimension, annotator, rating"


class Parser(OneLineParser):
    """Of a command of `optimize`: with, if `quiet`, --quiet."""

    def __init__(self, *args: Any, quiet: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if quiet:
            self.add_argument("--quiet", action="store_true", help=QUIET)


def add_label_flags(group: Any, required: str | None = None) -> None:
    """Which labels are read, and how (a parser's or a group's flags).

    `required` says of labels that must be named what they hold; without it there is a default.
    """
    group.add_argument(
        "--data",
        metavar="FILE",
        required=required is not None,
        help=required or f"human labels: {READ_ENDINGS}, or hf:owner/name (the starter set)",
    )
    group.add_argument(
        "--map",
        metavar="NAME=COLUMN",
        action="append",
        default=[],
        help="read NAME (a dimension, a text, id, group, system) from this column; repeatable; or "
        "a mapping file (FILE.yaml), as check leaves it",
    )
    group.add_argument(
        "--values",
        metavar="WORD=N,...",
        action="append",
        default=[],
        help="what words count, in labels and replies: up=1,down=0 (of pairs left=A,C=tie)",
    )


def add_level_flag(group: Any) -> None:
    """The level of rho (a parser's or a group's flag)."""
    choices = ("auto", *LEVELS)
    about = f"of rho: {', '.join(choices)} (auto)"
    group.add_argument("--level", choices=choices, default="auto", metavar="LEVEL", help=about)


def print_json(result: Result) -> None:
    """Print what --json asks for."""
    print_output(as_json(result, indent=1))


def run(
    name: str,
    flags: argparse.Namespace,
    compute: Callable[[argparse.Namespace], Result],
    lines: Callable[[Result], Sequence[str]],
) -> int:
    """Exit code of a command that prints what `compute` returns as JSON, or as `lines`."""

    def print_result() -> int:
        result = compute(flags)
        if flags.json:
            print_json(result)
        else:
            print_lines(lines(result))
        return DONE

    return run_command(name, print_result, quiet=flags.quiet)
