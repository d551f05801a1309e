"""The floors that a CI holds a judge to (`verify --min-...`), and whether they hold."""

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

# With fewer documents, rho over all outputs has no interval in too many further draws.
FEW_DOCUMENTS_FOR_FLOOR = 100
# With fewer documents of several outputs the width of an interval is too uncertain.
FEWEST_FOR_FLOOR = 2 * FEW_DOCUMENTS
# What a floor is of: the figure's name, what it counts, and the least it can be.
FLOORS = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}


def add_floor_flags(command_parser: argparse.ArgumentParser) -> None:
    for name, (figure, _, _) in FLOORS.items():
        about = f"exit 1 if {figure}'s interval is below X, 3 if in part"
        command_parser.add_argument(f"--min-{name}", type=float, metavar="X", help=about)
    about = "decide by one of N looks at labels that grow (1)"
    command_parser.add_argument("--looks", type=count, default=1, metavar="N", help=about)


def read_floors(flags: argparse.Namespace) -> dict[str, float]:
    """The floors by the names of FLOORS; SettingsError for one that the figure cannot reach."""
    values = {name: getattr(flags, f"min_{name}", None) for name in FLOORS}
    floors = {name: least for name, least in values.items() if least is not None}
    for name, least in floors.items():
        figure, _, lowest = FLOORS[name]
        if not lowest <= least <= 1:
            raise SettingsError(f"--min-{name} {least:g}: {figure} is between {lowest} and 1")
    return floors


def hold(result: Verification, floors: Mapping[str, float], looks: int = 1) -> Gate:
    """Whether every floor holds in each of so many looks, with a reason for any that does not."""
    reasons: dict[str, list[str]] = {"holds": [], "falls short": [], "undecided": []}
    reasons["falls short"] += _unmeasured(result, has_floors=bool(floors))
    for name, least in floors.items():
        title, word, _ = FLOORS[name]
        card = result.card.two_values
        figure = getattr(card.judge, name) if word and card else result.card.rho
        figure = replace(figure, interval=floor.deciding_interval(figure, looks))
        value = f"{figure.value:.4f} {interval_text(figure.interval)}{looks_text(looks)}"
        if math.isnan(figure.value):
            value = "undefined"
        text = f"{title} {value}, --min-{name} {least:g}"
        verdict = floor.outcome(figure.interval, least)
        if verdict == "holds":
            text = f"{title} {value} >= {least:g}"
        elif verdict == "undecided":
            text += f": {_would_decide(result, figure, word, least)}"
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


def _would_decide(result: Verification, figure: Figure, word: str, least: float) -> str:
    """How many more labels would tell, if the figure stays as it is."""
    card = result.card.two_values
    if card and word and (n_more := card.judge.n_more[word]):
        return f"{counted(n_more, f'more {word}')} would give an interval"
    if isinstance(figure, Rate) and (ends := figure.interval):
        n_further = floor.further_outputs(figure.value, ends.low, ends.high, least, figure.n)
        if n_further:
            more = counted(n_further, f"more {word}")
            if figure.value < least:
                return f"about {more} would show that it falls short, if it does as well on them"
            return f"about {more} would decide, if the judge does as well on them"
    return f"label more {PLURALS.get(word, 'documents')}"


def _unmeasured(result: Verification, *, has_floors: bool) -> Iterator[str]:
    """Yield why there is no figure to hold to a floor, a reason each."""
    number, failed = result.data.n_outputs, result.card.rho.n_failed
    if failed > MOST_FAILED * number:
        yield (
            f"{failed / number:.1%} of the judgements failed ({failed:,} of {number:,}); at most "
            f"{MOST_FAILED:.0%} may"
        )
    if not has_floors:
        return
    if (missing := result.n_unjudged) > MOST_FAILED * (number + missing):
        yield (
            f"{missing:,} of {number + missing:,} labels have no record; at most "
            f"{MOST_FAILED:.0%} may"
        )
    if result.tuned_on_these_labels:
        yield f"it was tuned on {result.n_met:,} of these {result.card.unit}"


def suggested_floors(card: Scorecard) -> str:
    """Flags of a gate that an equally good judge passes on as many new labels, nine times of ten.

    Empty where labels are so few that new ones may give no intervals.
    """
    return floor_flags(card.two_values.judge if card.two_values else card.rho)


def floor_flags(figures: Correlation | TwoValues) -> str:
    """The same, of the figures alone."""
    if isinstance(figures, TwoValues):
        floors = []
        for rate in (figures.tpr, figures.tnr):
            low = rate.interval.low if rate.interval else 0.0
            n_documents = rate.n_documents or 0
            fewest = 2 * FEW_OUTPUTS if n_documents == rate.n else FEWEST_FOR_FLOOR
            if not low or n_documents < fewest:
                return ""
            floors.append(_rounded_down(floor.share_floor(rate.value, low, rate.n, 2)))
        # A coin passes floors with a smaller sum.
        is_above_chance = sum(floors) > 1
        return "--min-tpr {:.2f} --min-tnr {:.2f}".format(*floors) if is_above_chance else ""
    fewest = FEW_DOCUMENTS_FOR_FLOOR if figures.level == "dataset" else FEWEST_FOR_FLOOR
    if figures.interval is None or figures.n_documents < fewest:
        return ""
    least = _rounded_down(floor.correlation_floor(figures.value, figures.interval.low))
    return f"--min-spearman {least:.2f}" if least > 0 else ""


def _rounded_down(floor: float) -> float:
    return math.floor(100 * floor) / 100
