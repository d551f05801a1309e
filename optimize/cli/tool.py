"""Run a command that computes one result: print it as JSON or lines, or one line for an error."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence

from judges.cli.shell import DONE, print_output, run_command

Result = Mapping[str, object]


def run(
    name: str,
    flags: argparse.Namespace,
    work: Callable[[argparse.Namespace], Result],
    lines: Callable[[Result], Sequence[str]],
) -> int:
    """Exit code of a command that prints `work`'s result as JSON, or as `lines`."""

    def print_result() -> int:
        result = work(flags)
        if flags.json:
            print_output(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            print_output("\n".join(lines(result)))
        return DONE

    return run_command(name, print_result)
