"""What the commands share: the flags for labels, checks of flags, and the printing of results."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dspy_judges.errors import UsageError, option_name
from judges.cli.flags import Flags, Parser, parse_count, read_map_flags
from judges.client import url_has_secret
from judges.dimension import MAX_RATINGS, Dimension, Subject
from judges.labels.flags import ANY_SCALE, read_scale, read_values, split_mapping
from judges.labels.types import Vote
from judges.labels.values import USUAL_SCALES
from judges.tables.formats import READABLE_ENDINGS
from judges.terminal import (
    DONE,
    FAILED,
    QUIET_HELP,
    print_error,
    print_lines,
    print_output,
    run_command,
)
from optimize.figures.as_text import wrap_lines

# The default of --risk: the chance that a tuned judge ships although it is no better.
DEFAULT_RISK = 0.1
# A judge that gives no score for more than this share of the outputs is not measured, does not
# join a panel and does not ship.
MAX_FAILED_SHARE = 0.1
# For each floor: its figure, the label of the outputs that a rate counts, and the lowest possible
# value of the figure.
FLOORS = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}
ScaleBounds = tuple[float, float]
INTERRUPTED_MESSAGE = "interrupted: run the same command again to go on from here"
ANNOTATIONS_HELP = (
    "a long file (id, dimension, annotator, rating) whose ratings replace the file's own"
)
DATA_HELP = f"human labels: {READABLE_ENDINGS}, or hf:owner/name (the starter set)"
MAP_HELP = """\
read NAME (a dimension, a text, id, group, system) from this column; repeatable; or
check's FILE.yaml"""
VALUES_HELP = (
    "the number that a word in labels or replies counts: up=1,down=0 (n/a= for no label; pairs: "
    "left=A,C=tie)"
)


class SettingsError(UsageError):
    """A wrong setting or combination of settings; the message names it and says why."""


def scale_bounds(scale: str | None) -> ScaleBounds | None:
    """Return the ends of a scale such as "1-5"; None for "any" and for None."""
    if scale is None or scale == ANY_SCALE:
        return None
    bounds = read_scale(scale)
    if bounds is None:
        option = option_name("scale", scale)
        raise SettingsError(f"{option}: expected LOW-HIGH, such as 1-5, 0-100 or -1:1")
    return bounds


def refuse_secret(api_base: str | None) -> None:
    """Raise SettingsError if an address holds a key, since addresses are written to files."""
    if api_base and url_has_secret(api_base):
        option = option_name("api_base")
        raise SettingsError(f"{option} holds a password or a key: give the key by OPENAI_API_KEY")


def word_values(values: object) -> dict[str, float | Vote | None]:
    """Return what each word in the labels counts, from --values or a mapping (None: no label)."""
    if not isinstance(values, Mapping | list | tuple):
        option = option_name("values", repr(values))
        raise SettingsError(f"{option}: expected words and numbers, as in {{good: 3}}")
    try:
        return {**read_values(values)}
    except ValueError as error:
        raise SettingsError(f"{option_name('values')} {error}") from None


def judge_bounds(scale: str | None) -> tuple[int, int] | None:
    """Return the ends of a judge's scale such as "1-5"; None for "any" and for None."""
    if (bounds := scale_bounds(scale)) is None:
        return None
    low, high = bounds
    if not (low.is_integer() and high.is_integer() and high - low < MAX_RATINGS):
        raise SettingsError(
            f"{option_name('scale', f'{low:g}-{high:g}')}: a judge rates in whole numbers, "
            f"{MAX_RATINGS} at most; with {option_name('scale', ANY_SCALE)} it keeps its own "
            "scale, and only the order of the labels counts"
        )
    return int(low), int(high)


def rescale(subject: Subject, scale: str | None) -> Subject:
    """Return the subject on this scale; unchanged for "any", None and comparisons."""
    bounds = judge_bounds(scale)
    return subject.on_scale(*bounds) if bounds and isinstance(subject, Dimension) else subject


def narrowest_scale(ratings: Sequence[float]) -> tuple[int, int] | None:
    """Return the narrowest usual scale that includes all ratings; None if no usual scale does."""
    low, high = min(ratings), max(ratings)
    return next((scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1]), None)


def scale_of_labels(flags: argparse.Namespace) -> str | None:
    """Return the scale that people used: --scale, else the scale in the file of --map."""
    scale: str | None = getattr(flags, "scale", None)
    return split_mapping(read_map_flags(flags.map), None).scale if scale is None else scale


class CommandParser(Parser):
    """The parser for a command of this package, with the flag --quiet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_argument("--quiet", action="store_true", help=QUIET_HELP)


def add_label_flags(group: Flags) -> None:
    """Add the flags that name the labels and say how to read them."""
    group.add_argument("--data", metavar="FILE", help=DATA_HELP)
    add_reading_flags(group)


def add_reading_flags(group: Flags) -> None:
    """Add the flags that say how the columns, words and conversations of a file are read."""
    add_repeatable = partial(group.add_argument, action="append", default=[])
    add_repeatable("--map", metavar="NAME=COLUMN", help=MAP_HELP)
    add_repeatable("--values", metavar="WORD=N,...", help=VALUES_HELP)
    add_turns_flag(group)


def add_turns_flag(group: Flags) -> None:
    """Add the flag --turns: `turns` is a key of a mapping, as in a file of --map or in Python."""

    def map_entry(turns: str) -> str:
        if turns not in ("last", "all"):
            raise argparse.ArgumentTypeError(f"{turns!r}: must be last or all")
        return f"turns={turns}"

    help_text = "of conversations, judge the last or all turns (last)"
    add_repeatable = partial(group.add_argument, action="append", default=[])
    add_repeatable("--turns", dest="map", metavar="TURNS", type=map_entry, help=help_text)


def add_floor_flags(group: Flags) -> None:
    for name, (figure, _, _) in FLOORS.items():
        help_text = f"exit 1 if {figure}'s interval is below X, 3 if X lies in it"
        group.add_argument(f"--min-{name}", type=float, metavar="X", help=help_text)
    help_text = "how often growing labels will be checked in all (1)"
    group.add_argument("--looks", type=parse_count, default=1, metavar="N", help=help_text)


def read_floors(flags: argparse.Namespace) -> dict[str, float]:
    """Return the floors that flags set, by the names in FLOORS."""
    values = {name: getattr(flags, f"min_{name}", None) for name in FLOORS}
    floors = {name: value for name, value in values.items() if value is not None}
    for name, value in floors.items():
        figure, _, lowest = FLOORS[name]
        if not lowest <= value <= 1:
            raise SettingsError(f"--min-{name} {value:g}: {figure} is between {lowest} and 1")
    return floors


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What a command returns: the object that --json prints, and the lines for the terminal.

    `faults` are messages for stderr; if there are any, the command exits with `fault_code`.
    """

    result: object
    lines: Sequence[str]
    faults: Sequence[str] = ()
    fault_code: int = FAILED


def execute(
    name: str,
    flags: argparse.Namespace,
    compute: Callable[[argparse.Namespace], CommandOutcome],
    *,
    interrupted: str = INTERRUPTED_MESSAGE,
) -> int:
    """Run a command, print its outcome (as JSON with --json), and return the exit code.

    `interrupted` is the message after Ctrl-C.
    """

    def print_outcome() -> int:
        flags.scale = scale_of_labels(flags)
        outcome = compute(flags)
        if flags.json:
            # A slow import that --help does not need.
            from optimize.figures.as_json import json_text, to_json

            print_output(json_text(to_json(outcome.result), indent=1))
        else:
            print_lines(outcome.lines)
        for line in wrap_lines(*(f"{name}: {fault}" for fault in outcome.faults)):
            print_error(line)
        return outcome.fault_code if outcome.faults else DONE

    verbose = getattr(flags, "verbose", False)
    return run_command(
        name, print_outcome, verbose=verbose, quiet=flags.quiet, interrupted=interrupted
    )
