"""Floors for a judge's figures in CI (`verify --min-...`), and whether the judge holds them."""

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from judges.cli.flags import count
from optimize.figures.as_text import PLURALS, counted, interval_text, looks_text
from optimize.inputs.flags import MOST_FAILED, SettingsError
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.verification import Gate, Verification
from optimize.statistics import floor
from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import FEW_DOCUMENTS, Figure
from optimize.statistics.two_values import FEW_OUTPUTS, Rate, TwoValues

# With fewer documents, rho over all outputs is too often without an interval on new labels.
FEW_DOCUMENTS_FOR_FLOOR = 100
# With fewer documents with several outputs, the width of an interval is too uncertain.
FEWEST_FOR_FLOOR = 2 * FEW_DOCUMENTS
# By the flag's name: the figure that the floor is for, which labels it counts, its lowest value.
FLOORS = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}


def add_floor_flags(command_parser: argparse.ArgumentParser) -> None:
    for name, (figure, _, _) in FLOORS.items():
        help_text = f"exit 1 if {figure}'s interval is below X, 3 if X lies in it"
        command_parser.add_argument(f"--min-{name}", type=float, metavar="X", help=help_text)
    help_text = "this is one of N looks at growing labels (1)"
    command_parser.add_argument("--looks", type=count, default=1, metavar="N", help=help_text)


def read_floors(flags: argparse.Namespace) -> dict[str, float]:
    """The floors that flags set, by the names in FLOORS.

    Raises SettingsError for a floor outside the figure's range.
    """
    values = {name: getattr(flags, f"min_{name}", None) for name in FLOORS}
    floors = {name: value for name, value in values.items() if value is not None}
    for name, value in floors.items():
        figure, _, lowest = FLOORS[name]
        if not lowest <= value <= 1:
            raise SettingsError(f"--min-{name} {value:g}: {figure} is between {lowest} and 1")
    return floors


def check_floors(result: Verification, floors: Mapping[str, float], looks: int = 1) -> Gate:
    """Whether every floor holds, with a reason for each that does not.

    Intervals are wide enough for `looks` looks at labels that grow.
    """
    reasons: dict[str, list[str]] = {"holds": [], "falls short": [], "undecided": []}
    reasons["falls short"] += _reasons_against_figures(result, has_floors=bool(floors))
    for name, lowest in floors.items():
        figure_name, label, _ = FLOORS[name]
        two_values = result.card.two_values
        figure = getattr(two_values.judge, name) if label and two_values else result.card.rho
        figure = replace(figure, interval=floor.deciding_interval(figure, looks))
        value = f"{figure.value:.4f} {interval_text(figure.interval)}{looks_text(looks)}"
        if math.isnan(figure.value):
            value = "undefined"
        text = f"{figure_name} {value}, --min-{name} {lowest:g}"
        verdict = floor.outcome(figure.interval, lowest)
        if verdict == "holds":
            text = f"{figure_name} {value} >= {lowest:g}"
        elif verdict == "undecided":
            text += f": {_would_decide(result, figure, label, lowest)}"
        reasons[verdict].append(text)
    held, short, undecided = reasons.values()
    outcome = next((name for name in ("falls short", "undecided", "holds") if reasons[name]), None)
    return Gate(
        gate=outcome,
        looks=looks,
        held=held,
        short=short,
        undecided=undecided,
        passed=not (short or undecided),
    )


def _would_decide(result: Verification, figure: Figure, label: str, lowest: float) -> str:
    """How many more labels would decide about the floor, if the figure stays the same."""
    two_values = result.card.two_values
    if two_values and label and (n_more := two_values.judge.n_more[label]):
        return f"{counted(n_more, f'more {label}')} would give an interval"
    if isinstance(figure, Rate) and (bounds := figure.interval):
        n_further = floor.further_outputs(figure.value, bounds.low, bounds.high, lowest, figure.n)
        if n_further:
            more = counted(n_further, f"more {label}")
            if figure.value < lowest:
                return f"about {more} would show that it falls short, if it does as well on them"
            return f"about {more} would decide, if the judge does as well on them"
    return f"label more {PLURALS.get(label, 'documents')}"


def _reasons_against_figures(result: Verification, *, has_floors: bool) -> Iterator[str]:
    """Yield each reason why the figures do not count for a floor."""
    n_outputs, n_failed = result.data.n_outputs, result.card.rho.n_failed
    if n_failed > MOST_FAILED * n_outputs:
        yield (
            f"{n_failed / n_outputs:.1%} of the judgements failed ({n_failed:,} of {n_outputs:,}); "
            f"at most {MOST_FAILED:.0%} may"
        )
    if not has_floors:
        return
    if (n_missing := result.n_unjudged) > MOST_FAILED * (n_outputs + n_missing):
        yield (
            f"{n_missing:,} of {n_outputs + n_missing:,} labels have no record; at most "
            f"{MOST_FAILED:.0%} may"
        )
    if result.tuned_on_these_labels:
        yield f"it was tuned on {result.n_met:,} of these {result.card.unit}"


def suggested_floors(card: Scorecard) -> str:
    """Flags for floors that an equally good judge holds nine times of ten on as many new labels.

    Empty if there are so few labels that the figures on new ones may have no interval.
    """
    return floor_flags(card.two_values.judge if card.two_values else card.rho)


def floor_flags(figures: Correlation | TwoValues) -> str:
    """The flags of `suggested_floors` for these figures: a rho, or the figures of pass and fail."""
    if isinstance(figures, TwoValues):
        floors = []
        for rate in (figures.tpr, figures.tnr):
            low_end = rate.interval.low if rate.interval else 0.0
            n_documents = rate.n_documents or 0
            fewest = 2 * FEW_OUTPUTS if n_documents == rate.n else FEWEST_FOR_FLOOR
            if not low_end or n_documents < fewest:
                return ""
            floors.append(_rounded_down(floor.share_floor(rate.value, low_end, rate.n, 2)))
        # A judge that decides at random holds floors whose sum is 1 or less.
        is_above_chance = sum(floors) > 1
        return "--min-tpr {:.2f} --min-tnr {:.2f}".format(*floors) if is_above_chance else ""
    fewest = FEW_DOCUMENTS_FOR_FLOOR if figures.level == "dataset" else FEWEST_FOR_FLOOR
    if figures.interval is None or figures.n_documents < fewest:
        return ""
    lowest = _rounded_down(floor.correlation_floor(figures.value, figures.interval.low))
    return f"--min-spearman {lowest:.2f}" if lowest > 0 else ""


def _rounded_down(value: float) -> float:
    return math.floor(100 * value) / 100
