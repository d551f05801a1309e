"""Floors for a judge's figures in CI (`verify --min-...`), and whether the judge holds them."""

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from judges.cli.flags import parse_count
from optimize.figures.as_text import VERDICT_PLURALS, counted, interval_text, looks_text
from optimize.inputs.flags import MAX_FAILED_SHARE, SettingsError
from optimize.measuring.verification import Gate, Verification
from optimize.statistics import floor
from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, Rate, VerdictAgreement

# With fewer documents, dataset-level rho on new labels often has no interval.
MIN_DOCUMENTS_FOR_DATASET_FLOOR = 100
# For documents with several outputs: with fewer, an interval's width is too uncertain.
MIN_DOCUMENTS_FOR_FLOOR = 2 * MIN_DOCUMENTS_FOR_INTERVAL
# For each floor: its figure, the label of the outputs that a rate is of, the figure's minimum.
FLOORS = {"spearman": ("rho", "", -1), "tpr": ("TPR", "pass", 0), "tnr": ("TNR", "fail", 0)}


def add_floor_flags(command_parser: argparse.ArgumentParser) -> None:
    for name, (figure, _, _) in FLOORS.items():
        help_text = f"exit 1 if {figure}'s interval is below X, 3 if X lies in it"
        command_parser.add_argument(f"--min-{name}", type=float, metavar="X", help=help_text)
    help_text = "how often growing labels will be checked in all (1)"
    command_parser.add_argument("--looks", type=parse_count, default=1, metavar="N", help=help_text)


def read_floors(flags: argparse.Namespace) -> dict[str, float]:
    """Return the floors that flags set, by the names in FLOORS."""
    values = {name: getattr(flags, f"min_{name}", None) for name in FLOORS}
    floors = {name: value for name, value in values.items() if value is not None}
    for name, value in floors.items():
        figure, _, lowest = FLOORS[name]
        if not lowest <= value <= 1:
            raise SettingsError(f"--min-{name} {value:g}: {figure} is between {lowest} and 1")
    return floors


def check_floors(result: Verification, floors: Mapping[str, float], looks: int = 1) -> Gate:
    """Return the gate's result: which floors hold, and for each other floor the reason."""
    reasons: dict[str, list[str]] = {"holds": [], "falls short": [], "undecided": []}
    reasons["falls short"] += _reasons_to_fail(result, has_floors=bool(floors))
    if floors and result.card.has_same_scores:
        reasons["falls short"].append("outputs that people order all get the same score")
        floors = {}
    for name, floor_value in floors.items():
        figure_name, label, _ = FLOORS[name]
        two_values = result.card.two_values
        figure = getattr(two_values.judge, name) if label and two_values else result.card.rho
        figure = replace(figure, interval=floor.interval_for_looks(figure, looks))
        value_text = f"{figure.value:.4f} {interval_text(figure.interval)}{looks_text(looks)}"
        if math.isnan(figure.value):
            value_text = "undefined"
        reason = f"{figure_name} {value_text}, --min-{name} {floor_value:g}"
        floor_outcome = floor.outcome(figure.interval, floor_value)
        if floor_outcome == "holds":
            reason = f"{figure_name} {value_text} >= {floor_value:g}"
        elif floor_outcome == "undecided":
            reason += f": {_labels_to_add(result, figure, label, floor_value)}"
        reasons[floor_outcome].append(reason)
    held, short, undecided = reasons.values()
    outcome = next((name for name in ("falls short", "undecided", "holds") if reasons[name]), None)
    passed = not (short or undecided)
    return Gate(
        outcome=outcome, looks=looks, held=held, short=short, undecided=undecided, passed=passed
    )


def _labels_to_add(
    result: Verification, figure: Correlation | Rate, label: str, floor_value: float
) -> str:
    """Return how many more labels would decide, if the figure stays the same."""
    two_values = result.card.two_values
    if two_values and label and (n_more := two_values.judge.n_more[label]):
        return f"{counted(n_more, f'more {label}')} would give an interval"
    if n_further := floor.further_labels(figure, floor_value):
        number = counted(n_further, f"more {label or 'document'}")
        return f"about {number} would decide, if the judge does as well on them"
    return f"label more {VERDICT_PLURALS.get(label, 'documents')}"


def _reasons_to_fail(result: Verification, *, has_floors: bool) -> Iterator[str]:
    """Yield each reason why the gate fails, whatever the figures are."""
    n_outputs, n_failed = result.data.n_outputs, result.card.rho.n_failed
    at_most = f"at most {MAX_FAILED_SHARE:.0%} may"
    if n_failed > MAX_FAILED_SHARE * n_outputs:
        share = n_failed / n_outputs
        yield f"{share:.1%} of the judgements failed ({n_failed:,} of {n_outputs:,}); {at_most}"
    if not has_floors:
        return
    n_labels = n_outputs + result.n_unjudged
    if result.n_unjudged > MAX_FAILED_SHARE * n_labels:
        yield f"{result.n_unjudged:,} of {n_labels:,} labels have no record; {at_most}"
    if result.overlap.tuned_on_these_labels:
        yield f"the judge was tuned on {result.overlap.n_rows:,} of these {result.card.unit}"


def floor_flags(figures: Correlation | VerdictAgreement) -> str:
    """Return floors that an equally good judge holds nine times of ten on as many new labels.

    The text is empty if labels are too few: on new labels, figures may then have no interval.
    """
    if isinstance(figures, VerdictAgreement):
        floor_values = []
        for rate in (figures.tpr, figures.tnr):
            low_end = rate.interval.low if rate.interval else 0.0
            n_documents = rate.n_documents or 0
            n_required = (
                2 * MIN_OUTPUTS_FOR_RATES if n_documents == rate.n else MIN_DOCUMENTS_FOR_FLOOR
            )
            if not low_end or n_documents < n_required:
                return ""
            floor_values.append(_round_down(floor.share_floor(rate.value, low_end, rate.n)))
        # A judge that decides at random holds floors whose sum is 1 or less.
        is_above_chance = sum(floor_values) > 1
        return "--min-tpr {:.2f} --min-tnr {:.2f}".format(*floor_values) if is_above_chance else ""
    n_required = (
        MIN_DOCUMENTS_FOR_DATASET_FLOOR if figures.level == "dataset" else MIN_DOCUMENTS_FOR_FLOOR
    )
    if figures.interval is None or figures.n_documents < n_required:
        return ""
    floor_value = _round_down(floor.correlation_floor(figures.value, figures.interval.low))
    return f"--min-spearman {floor_value:.2f}" if floor_value > 0 else ""


def _round_down(value: float) -> float:
    return math.floor(100 * value) / 100
