"""One outside for the small commands: a result on stdout, one line for whatever fails."""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence

from judges.cli.shell import DONE, run_command, show
from optimize.statistics.bootstrap import Interval

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
            show(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            show("\n".join(lines(result)))
        return DONE

    return run_command(name, print_result)


def number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if math.isnan(value) else value


def ends(interval: Interval | None) -> dict[str, float | None]:
    """`low` and `high`, null where unknown."""
    return {
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def shown(value: object, low: object = None, high: object = None) -> str:
    """Three decimals and the interval, as papers print them."""
    if not isinstance(value, float):
        return "undefined"
    if not (isinstance(low, float) and isinstance(high, float)):
        return f"{value:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
