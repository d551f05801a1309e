"""What the commands share: how flags are parsed, and how one result is printed."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data.flags import join_scale
from judges.cli.arguments import Parser as OneLineParser
from judges.cli.shell import DONE, print_output, run_command

Result = Mapping[str, object]


class Parser(OneLineParser):
    """Says what is wrong in one line, and takes -1:1 for a scale."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = None if args is None else join_scale([str(word) for word in args])
        return super().parse_known_args(words, namespace)


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
            print_output(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            print_output("\n".join(lines(result)))
        return DONE

    return run_command(name, print_result)
