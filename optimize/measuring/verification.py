"""The verification of one judge: its figures, what else moves its scores, and its floors in CI."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from judges.judgement import Judgement, Preference
from judges.labels.types import LabelledPair
from judges.tables.problems import count_text
from judges.winrate import win_rate
from optimize.figures.as_json import INLINED_IN_JSON
from optimize.figures.as_text import VERDICT_PLURALS, interval_text, looks_text
from optimize.inputs.flags import FLOOR_FIGURES, MAX_FAILED_SHARE
from optimize.inputs.labelled import AnyLabels
from optimize.items import DataCounts, judged_output_name
from optimize.measuring.misses import Miss, list_misses
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems, TuningOverlap
from optimize.statistics import floor
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Correlation, Level, correlation
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    Interval,
    IntervalEstimate,
    Vector,
)
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, Rate, VerdictAgreement

# An association is reported if it is at least this large and its interval excludes 0.
MIN_ASSOCIATION = 0.1
# Upper bound on the false passes, and on the false alarms, in the result; a report has all.
MAX_MISSES_SHOWN = 3
# With fewer documents, dataset-level rho on new labels often has no interval.
MIN_DOCUMENTS_FOR_DATASET_FLOOR = 100
# With fewer documents that have several outputs, the width of an interval is too uncertain.
MIN_DOCUMENTS_FOR_FLOOR = 2 * MIN_DOCUMENTS_FOR_INTERVAL


def exceeds_people(value: float, interval: Interval | None, people: float = 0.0) -> bool:
    """Return whether the judge's scores are clearly more associated with something than labels are.

    Args:
        value: The association of the judge's scores, such as their rho with length.
        interval: The interval of its difference from `people`; None if there is no interval.
        people: The association of people's labels with the same.
    """
    is_large = abs(value) > abs(people) and abs(value - people) >= MIN_ASSOCIATION
    return is_large and interval is not None and (interval.low > 0 or interval.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAssociation:
    """Spearman's rho of outputs' lengths with the judge's scores, and with people's labels.

    `interval` is the interval of their difference. For pairs, length means A's minus B's.
    """

    judge: float
    people: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Associations:
    """Influences on the scores other than quality; None if inapplicable or unknown.

    `position_bias` is the share of choices for the output shown first, minus the share for the
    second. `repeat_agreement` is how often two samples for one row give the same verdict of pass or
    fail.
    """

    length: LengthAssociation | None
    position_bias: IntervalEstimate | None = field(metadata={"json": "position"})
    repeat_agreement: float | None = field(metadata={"json": "repeats"})

    @classmethod
    def from_scores(cls, scored: ScoredItems) -> "Associations":
        position, repeats = None, None
        if scored.is_pairwise:
            preferences = [each for each in scored.judgements if isinstance(each, Preference)]
            rates = win_rate(preferences, documents=scored.document_ids)
            interval = Interval(rates.position_bias_low, rates.position_bias_high)
            position = IntervalEstimate(rates.position_bias, interval)
        elif scored.has_verdicts:
            agreements = [
                sum(comb(round(share * each.samples), 2) for share in each.distribution.values())
                / comb(each.samples, 2)
                for each in scored.judgements
                if isinstance(each, Judgement) and each.distribution and each.samples > 1
            ]
            repeats = float(np.mean(agreements)) if agreements else None
        length = _length_association(scored)
        return cls(length=length, position_bias=position, repeat_agreement=repeats)


def _length_association(scored: ScoredItems) -> LengthAssociation | None:
    lengths: list[float] = []
    for row, label in enumerate(scored.labelled_items):
        if isinstance(label, LabelledPair):
            lengths.append(len(label.response_a.strip()) - len(label.response_b.strip()))
        elif output := judged_output_name([*(texts := scored.texts_of_row(row))]):
            lengths.append(len(texts[output].strip()))
    if len(lengths) < len(scored.items):
        return None
    level: Level = "dataset" if scored.level == "dataset" else "summary"
    scores = scored.verdicts if scored.has_verdicts else scored.scores
    human: Vector = np.where(np.isnan(scores), np.nan, scored.human)
    contrast = contrast_judges(scores, human, lengths, scored.document_ids, level=level)
    rhos = [correlation(level, values, lengths, scored.document_ids) for values in (scores, human)]
    return LengthAssociation(judge=rhos[0].value, people=rhos[1].value, interval=contrast.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorCheck:
    """The floors that hold (`held`), and reasons why others fall `short` or are `undecided`.

    `outcome` is None if no floors were set and nothing is wrong. Intervals are widened to hold in
    all of `looks` looks at a growing set of labels.
    """

    outcome: str | None = field(metadata={"json": "gate"})
    looks: int
    held: Sequence[str]
    short: Sequence[str]
    undecided: Sequence[str]
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge compared with people's labels.

    `rho_on_tuned_rows` is the rho on the rows that the judge was tuned on, if these were left out.
    """

    judge: str
    dimension: str
    data: DataCounts
    level: Level
    n_unjudged: int
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    rho_on_tuned_rows: Correlation | None = field(metadata={"json": "on_met"})
    scorecard: Scorecard = field(metadata=INLINED_IN_JSON)
    associations: Associations
    misses: Sequence[Miss] | None = None
    words: tuple[str, str] | None
    floor_check: FloorCheck | None = field(default=None, metadata=INLINED_IN_JSON)

    @classmethod
    def from_scores(
        cls, scored: ScoredItems, held_out: ScoredItems, labelled: AnyLabels
    ) -> "Verification":
        """Return the figures on `held_out`, which holds the rows of `scored` that count."""
        overlap = TuningOverlap.from_scores(scored, held_out)
        is_left_out = overlap.n_rows and not overlap.tuned_on_these_labels
        return cls(
            judge=scored.judge_name,
            dimension=scored.dimension,
            data=DataCounts.from_items(labelled, held_out.items),
            level=scored.level,
            n_unjudged=scored.n_unjudged,
            overlap=overlap,
            rho_on_tuned_rows=scored.of_ids(scored.tuned_ids).rho if is_left_out else None,
            scorecard=Scorecard.all_figures(held_out),
            associations=Associations.from_scores(held_out),
            misses=list_misses(held_out, MAX_MISSES_SHOWN) if held_out.has_verdicts else None,
            words=labelled.words.get(scored.dimension),
        )

    @property
    def faults(self) -> list[str]:
        if not self.floor_check:
            return []
        short = [f"falls short: {reason}" for reason in self.floor_check.short]
        return [*short, *(f"undecided: {reason}" for reason in self.floor_check.undecided)]

    @property
    def is_undecided(self) -> bool:
        """Whether the labels do not suffice to tell if the judge holds its floors."""
        return self.floor_check is not None and self.floor_check.outcome == "undecided"


def check_floors(result: Verification, floors: Mapping[str, float], looks: int = 1) -> FloorCheck:
    """Return which floors hold, and for each other floor the reason."""
    reasons: dict[str, list[str]] = {"holds": [], "falls short": [], "undecided": []}
    reasons["falls short"] += _reasons_to_fail(result, has_floors=bool(floors))
    if floors and result.scorecard.has_same_scores:
        reasons["falls short"].append("outputs that people order all get the same score")
        floors = {}
    for name, floor_value in floors.items():
        figure_name, label, _ = FLOOR_FIGURES[name]
        two_values = result.scorecard.verdict_figures
        figure = getattr(two_values.judge, name) if label and two_values else result.scorecard.rho
        figure = replace(figure, interval=floor.interval_for_looks(figure, looks))
        value_text = f"{figure.value:.4f} {interval_text(figure.interval)}{looks_text(looks)}"
        if math.isnan(figure.value):
            value_text = "undefined"
        reason = f"{figure_name} {value_text}, --min-{name} {floor_value:g}"
        floor_outcome = floor.check_floor(figure.interval, floor_value)
        if floor_outcome == "holds":
            reason = f"{figure_name} {value_text} >= {floor_value:g}"
        elif floor_outcome == "undecided":
            reason += f": {_labels_to_add(result, figure, label, floor_value)}"
        reasons[floor_outcome].append(reason)
    held, short, undecided = reasons.values()
    outcome = next((name for name in ("falls short", "undecided", "holds") if reasons[name]), None)
    return FloorCheck(
        outcome=outcome,
        looks=looks,
        held=held,
        short=short,
        undecided=undecided,
        passed=outcome in ("holds", None),
    )


def _labels_to_add(
    result: Verification, figure: Correlation | Rate, label: str, floor_value: float
) -> str:
    """Return how many more labels would decide, if the figure stays the same."""
    two_values = result.scorecard.verdict_figures
    if two_values and label and (n_more := two_values.judge.n_missing_labels[label]):
        return f"{count_text(n_more, f'more {label}')} would give an interval"
    if n_further := floor.labels_to_add(figure, floor_value):
        number = count_text(n_further, f"more {label or 'document'}")
        return f"about {number} would decide, if the judge does as well on them"
    return f"label more {VERDICT_PLURALS.get(label, 'documents')}"


def _reasons_to_fail(result: Verification, *, has_floors: bool) -> Iterator[str]:
    """Yield each reason why the check fails, whatever the figures are."""
    n_outputs, n_failed = result.data.n_outputs, result.scorecard.rho.n_failed
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
        yield f"the judge was tuned on {result.overlap.n_rows:,} of these {result.scorecard.unit}s"


def floor_flags(figures: Correlation | VerdictAgreement) -> str:
    """Return floors that an equally good judge holds in nine of ten cases on as many new labels.

    The text is empty if labels are too few: on new labels, figures may then have no interval.
    """
    if isinstance(figures, VerdictAgreement):
        tpr, tnr = _rate_floor(figures.tpr), _rate_floor(figures.tnr)
        # A judge that decides at random holds floors whose sum is 1 or less.
        return f"--min-tpr {tpr:.2f} --min-tnr {tnr:.2f}" if tpr + tnr > 1 else ""
    n_required = (
        MIN_DOCUMENTS_FOR_DATASET_FLOOR if figures.level == "dataset" else MIN_DOCUMENTS_FOR_FLOOR
    )
    if figures.interval is None or figures.n_documents < n_required:
        return ""
    floor_value = _round_down(floor.suggested_rho_floor(figures.value, figures.interval.low))
    return f"--min-spearman {floor_value:.2f}" if floor_value > 0 else ""


def _rate_floor(rate: Rate) -> float:
    """Return a floor for a rate; 0 if labels are too few for a floor."""
    n_documents = rate.n_documents or 0
    n_required = MIN_DOCUMENTS_FOR_FLOOR
    if n_documents == rate.n:
        n_required = 2 * MIN_OUTPUTS_FOR_RATES
    low_end = rate.interval.low if rate.interval else 0.0
    if low_end == 0 or n_documents < n_required:
        return 0.0
    return _round_down(floor.suggested_rate_floor(rate.value, low_end, rate.n))


def _round_down(value: float) -> float:
    return math.floor(100 * value) / 100
