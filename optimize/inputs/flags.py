"""What the commands share: flags of labels and level, their values, how one result is printed."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspy_judges.errors import UsageError
from judges.cli.flags import Flags
from judges.cli.flags import Parser as OneLineParser
from judges.client import holds_secret
from judges.dimension import MAX_RATINGS, Dimension, Subject
from judges.labels.flags import read_bounds, read_values
from judges.labels.types import Vote
from judges.labels.values import USUAL_SCALES
from judges.tables.formats import READ_ENDINGS
from judges.terminal import (
    DONE,
    FAILED,
    QUIET,
    print_error,
    print_lines,
    print_output,
    run_command,
)
from optimize.figures.as_text import wrapped

# Labels on any scale: only their order counts.
ANY_SCALE = "any"
# The chance that a judge ships which is no better than the untuned one.
RISK = 0.1
# A judge that fails on more of the outputs has no figure, no part in a panel, and does not ship.
MOST_FAILED = 0.1
Bounds = tuple[float, float]
INTERRUPTED_RUN = "interrupted: the same command again goes on from here"
ANNOTATIONS = "every annotator's ratings, a long file: id, dimension, annotator, rating"
LABELS = f"human labels: {READ_ENDINGS}, or hf:owner/name (the starter set)"
MAP = """\
read NAME (a dimension, a text, id, group, system) from this column; repeatable; or FILE.yaml of
check"""
VALUES = "what words count, in labels and replies: up=1,down=0 (of pairs left=A,C=tie)"


class SettingsError(UsageError):
    """A setting makes no sense; the message says which and why."""


def bounds_of(scale: str | None) -> Bounds | None:
    """The scale's ends; None for "any", and where none is given. Raises SettingsError."""
    if scale is None or scale == ANY_SCALE:
        return None
    bounds = read_bounds(scale)
    if bounds is None:
        raise SettingsError(f"--scale {scale}: expected LOW-HIGH, such as 1-5, 0-100 or -1:1")
    return bounds


def refuse_secret(api_base: str | None) -> None:
    """Raise SettingsError for an address that must not be written down."""
    if api_base and holds_secret(api_base):
        raise SettingsError("--api-base holds a password or a key: give it by OPENAI_API_KEY")


def values_of(values: object) -> dict[str, float | Vote | None]:
    """Words and what they count, from --values or a mapping; raises SettingsError."""
    if not isinstance(values, Mapping | list | tuple):
        raise SettingsError(f"--values {values!r}: expected words and numbers, as in {{good: 3}}")
    try:
        return {**read_values(values)}
    except ValueError as error:
        raise SettingsError(f"--values {error}") from None


def rescale(subject: Subject, scale: str | None) -> Subject:
    """The dimension on the labels' scale, in whole numbers; "any" and None leave it as it is."""
    bounds = bounds_of(scale)
    if bounds is None or not isinstance(subject, Dimension):
        return subject
    return subject.on_scale(int(bounds[0]), whole_ratings(bounds)[-1])


def whole_ratings(bounds: Bounds) -> tuple[int, ...]:
    """Every rating of a scale; SettingsError where it is no judge's."""
    low, high = bounds
    if not (low.is_integer() and high.is_integer() and high - low < MAX_RATINGS):
        raise SettingsError(
            f"--scale {low:g}-{high:g}: a judge rates in whole numbers, {MAX_RATINGS} at most; "
            "say --scale any to keep its own, since only the order of the labels counts"
        )
    return tuple(range(int(low), int(high) + 1))


def fitting_scale(ratings: Sequence[float]) -> tuple[int, int] | None:
    """The narrowest usual scale that holds the ratings."""
    low, high = min(ratings), max(ratings)
    return next((ends for ends in USUAL_SCALES if ends[0] <= low and high <= ends[1]), None)


class Parser(OneLineParser):
    """Of a command of `optimize`: with --quiet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_argument("--quiet", action="store_true", help=QUIET)


def add_label_flags(group: Flags, required: str | None = None) -> None:
    """Which labels are read, and how (a parser's or a group's flags).

    `required` says of labels that must be named what they hold; without it there is a default.
    """
    add = group.add_argument
    several: Any = {"action": "append", "default": []}
    add("--data", metavar="FILE", required=required is not None, help=required or LABELS)
    add("--map", metavar="NAME=COLUMN", help=MAP, **several)
    add("--values", metavar="WORD=N,...", help=VALUES, **several)
    about = "of conversations: turn or conversation (turn)"
    add("--judge", dest="map", metavar="PART", type="judge={}".format, help=about, **several)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command ends with: its result, the lines of it, and faults with their exit code."""

    result: object
    lines: Sequence[str]
    faults: Sequence[str] = ()
    fault_code: int = FAILED


def print_json(result: object) -> None:
    """Print a result as --json asks for it."""
    from optimize.figures.as_json import as_json, to_json  # which a help text does without

    print_output(as_json(to_json(result), indent=1))


def run(
    name: str,
    flags: argparse.Namespace,
    compute: Callable[[argparse.Namespace], Outcome | None],
    *,
    interrupted: str = INTERRUPTED_RUN,
) -> int:
    """Run a command, print its outcome, as JSON if flags say so, and return the exit code.

    `compute` returns None where everything is printed already.
    """

    def print_outcome() -> int:
        if (outcome := compute(flags)) is None:
            return DONE
        print_json(outcome.result) if flags.json else print_lines(outcome.lines)
        for line in wrapped(*(f"{name}: {fault}" for fault in outcome.faults)):
            print_error(line)
        return outcome.fault_code if outcome.faults else DONE

    verbose = getattr(flags, "verbose", False)
    return run_command(
        name, print_outcome, verbose=verbose, quiet=flags.quiet, interrupted=interrupted
    )
