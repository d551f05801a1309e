"""What flags on labels mean, and how a command's outcome is printed."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dspy_judges.errors import SettingsError, option_name
from judges.cli.flags import Parser
from judges.client import url_has_secret
from judges.dimension import MAX_RATINGS, Dimension, Subject
from judges.labels.options import ANY_SCALE, read_scale, read_values
from judges.labels.types import Vote
from judges.labels.values import USUAL_SCALES, Scale
from judges.terminal import DONE_EXIT_CODE, print_error, print_output, run_command, wrap_lines

INTERRUPTED_MESSAGE = "interrupted: run the same command again to continue"
# A floor is the lowest figure that a user accepts. The values are the name of the figure, the label
# of the outputs over which it is computed ("" for all), and the figure's lowest possible value.
FLOOR_FIGURES = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}


def parse_scale(scale_text: str | None) -> Scale | None:
    """Return the two numbers of a scale such as "1-5"; None for "any" and for no scale."""
    if scale_text is None or scale_text == ANY_SCALE:
        return None
    if (scale := read_scale(scale_text)) is None:
        option = option_name("scale", scale_text)
        raise SettingsError(f"{option}: expected LOW-HIGH, such as 1-5, 0-100 or -1:1")
    return scale


def refuse_key_in_address(api_base: str | None) -> None:
    """Raise SettingsError if a server's address holds a key, because files record the address."""
    if api_base and url_has_secret(api_base):
        option = option_name("api_base")
        raise SettingsError(f"{option} holds a password or a key: set OPENAI_API_KEY to the key")


def parse_values(values: object) -> dict[str, float | Vote | None]:
    """Map each word in --values or in a mapping to the number or vote that it stands for."""
    if not isinstance(values, Mapping | list | tuple):
        option = option_name("values", repr(values))
        raise SettingsError(f"{option}: expected words and numbers, as in {{good: 3}}")
    try:
        return {**read_values(values)}
    except ValueError as error:
        raise SettingsError(f"{option_name('values')} {error}") from None


def judge_scale(scale_text: str | None) -> tuple[int, int] | None:
    """Return a judge's scale, such as "1-5", as whole numbers; None for "any" and for no scale."""
    if (scale := parse_scale(scale_text)) is None:
        return None
    lowest, highest = scale
    if not (lowest.is_integer() and highest.is_integer() and highest - lowest < MAX_RATINGS):
        raise SettingsError(
            f"{option_name('scale', f'{lowest:g}-{highest:g}')}: a judge's scale has at most "
            f"{MAX_RATINGS} whole numbers; with {option_name('scale', ANY_SCALE)}, the judge keeps "
            "its own scale, and only the order of the labels counts"
        )
    return int(lowest), int(highest)


def rescale_subject(subject: Subject, scale_text: str | None) -> Subject:
    """Return a dimension on this scale; for a comparison or without a scale, the subject itself."""
    scale = judge_scale(scale_text)
    return subject.on_scale(*scale) if scale and isinstance(subject, Dimension) else subject


def fit_subject(subject: Subject, scale_text: str | None, *, is_pairwise: bool) -> Subject:
    """Return the subject on the scale of --scale; raises SettingsError if a flag does not fit."""
    if subject.is_pairwise != is_pairwise:
        right_flag = "--pairwise" if subject.is_pairwise else "--dimension"
        raise SettingsError(f"{subject.name}: name it by {right_flag}")
    if is_pairwise and scale_text is not None:
        raise SettingsError(f"{option_name('scale')}: pairs have votes, not ratings on a scale")
    return rescale_subject(subject, scale_text)


def usual_scale(ratings: Sequence[float]) -> tuple[int, int] | None:
    """Return the narrowest usual scale that has all ratings; None if no usual scale fits them."""
    for lowest, highest in USUAL_SCALES:
        if lowest <= min(ratings) and max(ratings) <= highest:
            # A judge with two or three ratings would tie outputs that people rate with fractions.
            is_fine_enough = highest - lowest > 2 or all(rating.is_integer() for rating in ratings)
            return (lowest, highest) if is_fine_enough else None
    return None


def read_floors(flags: Namespace) -> dict[str, float]:
    """Return the floors that flags such as --min-tpr set, by the names in FLOOR_FIGURES."""
    # The command `plan` has no flag --min-spearman, so the attribute may be missing.
    flag_values = {name: getattr(flags, f"min_{name}", None) for name in FLOOR_FIGURES}
    floors = {name: value for name, value in flag_values.items() if value is not None}
    for name, floor in floors.items():
        figure, _, lowest = FLOOR_FIGURES[name]
        if not lowest <= floor <= 1:
            raise SettingsError(f"--min-{name} {floor:g}: {figure} is between {lowest} and 1")
    return floors


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What a command returns: the value that --json prints, and the lines for the terminal.

    `faults` are messages for stderr.
    """

    json_value: object
    lines: Iterable[str]
    faults: Sequence[str] = ()
    exit_code: int = DONE_EXIT_CODE


def run_and_print(
    parser: Parser,
    arguments: Sequence[str],
    compute_outcome: Callable[[Namespace], CommandOutcome],
    *,
    interrupt_message: str = INTERRUPTED_MESSAGE,
) -> int:
    """Run a command, print its outcome (with --json as JSON), and return the exit code."""

    def print_outcome(flags: Namespace) -> int:
        outcome = compute_outcome(flags)
        if getattr(flags, "json", False):
            # This import is slow, and --help does not need it.
            from optimize.figures.as_json import json_text

            print_output(json_text(outcome.json_value, indent=1))
        else:
            print_output(*outcome.lines)
        for line in wrap_lines(*(f"{parser.prog}: {fault}" for fault in outcome.faults)):
            print_error(line)
        return outcome.exit_code

    flags = parser.parse_intermixed_args(arguments)
    return run_command(parser.prog, print_outcome, flags, interrupt_message=interrupt_message)
