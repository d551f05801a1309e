"""Verify one judge: its figures, what else moves its scores, and the lowest figures to accept."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from judges.judgement import Judgement, Preference
from judges.labels.types import LabelledPair
from judges.tables.problems import count_text
from judges.winrate import win_rate
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json
from optimize.figures.as_text import VERDICT_PLURALS, interval_text, looks_text
from optimize.inputs.flags import FLOOR_FIGURES
from optimize.items import DataCounts, judged_output_name
from optimize.measuring.misses import Miss, list_misses
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems, TuningOverlap
from optimize.search.problem import MAX_FAILED_SHARE
from optimize.statistics import floor
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Correlation, Level, correlation
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Interval, IntervalEstimate
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, Rate, VerdictAgreement

# The influence of length or position on scores is reported if it is at least this large.
MIN_ASSOCIATION = 0.1
# The result lists at most this many false passes and this many false alarms; a report lists all.
MAX_MISSES_SHOWN = 3
# With fewer documents, dataset-level rho on new labels often has no interval.
MIN_DOCUMENTS_FOR_DATASET_FLOOR = 100
# With fewer documents that have several outputs, the width of an interval is too uncertain.
MIN_DOCUMENTS_FOR_FLOOR = 2 * MIN_DOCUMENTS_FOR_INTERVAL


def exceeds_people(judge_rho: float, interval: Interval | None, people_rho: float = 0.0) -> bool:
    """Return whether a figure of the judge, such as its rho with length, clearly exceeds people's.

    `interval` is the interval of the difference between both figures.
    """
    is_large = abs(judge_rho - people_rho) >= MIN_ASSOCIATION and abs(judge_rho) > abs(people_rho)
    return is_large and interval is not None and (interval.low > 0 or interval.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAssociation:
    """Spearman's rho of outputs' lengths with the judge's scores, and with people's labels.

    `interval` is the interval of the difference between both rhos. A pair's length is the length of
    output A minus that of output B.
    """

    judge_rho: float = field(metadata={"json": "judge"})
    people_rho: float = field(metadata={"json": "people"})
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Associations:
    """Influences on the scores other than quality; an influence is None if it is not known.

    `position_bias` is the share of choices for the output shown first, minus the share for the
    second. `repeat_agreement` is how often two replies about the same row give the same verdict.
    """

    length: LengthAssociation | None
    position_bias: IntervalEstimate | None = field(metadata={"json": "position"})
    repeat_agreement: float | None = field(metadata={"json": "repeats"})

    @classmethod
    def from_scores(cls, scored_items: ScoredItems) -> "Associations":
        position_bias = None
        if scored_items.is_pairwise:
            preferences = [item for item in scored_items.judgements if isinstance(item, Preference)]
            rates = win_rate(preferences, documents=scored_items.document_ids)
            interval = Interval(rates.position_bias_low, rates.position_bias_high)
            position_bias = IntervalEstimate(rates.position_bias, interval)
        return cls(
            length=_length_association(scored_items),
            position_bias=position_bias,
            repeat_agreement=_repeat_agreement(scored_items),
        )


def _repeat_agreement(scored_items: ScoredItems) -> float | None:
    agreements = []
    for judgement in scored_items.judgements if scored_items.has_verdicts else ():
        if isinstance(judgement, Judgement) and judgement.distribution and judgement.samples > 1:
            n, shares = judgement.samples, judgement.distribution.values()
            agreements.append(sum(comb(round(share * n), 2) for share in shares) / comb(n, 2))
    return float(np.mean(agreements)) if agreements else None


def _length_association(scored_items: ScoredItems) -> LengthAssociation | None:
    lengths: list[float] = []
    for row, label in enumerate(scored_items.labelled_items):
        texts = scored_items.items[row].texts
        if isinstance(label, LabelledPair):
            lengths.append(len(label.response_a.strip()) - len(label.response_b.strip()))
        elif output_name := judged_output_name([*texts]):
            lengths.append(len(texts[output_name].strip()))
    if len(lengths) < len(scored_items.items):
        return None
    level: Level = "dataset" if scored_items.level == "dataset" else "summary"
    scores = scored_items.verdicts if scored_items.has_verdicts else scored_items.scores
    human = np.where(np.isnan(scores), np.nan, scored_items.human)
    documents = scored_items.document_ids
    return LengthAssociation(
        judge_rho=correlation(level, scores, lengths, documents).value,
        people_rho=correlation(level, human, lengths, documents).value,
        interval=contrast_judges(scores, human, lengths, documents, level=level).interval,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorCheck:
    """Whether a judge's figures are at or above the floors that the user set.

    Each floor has a text: in `held` if the figure's interval lies above it, in `shortfalls` if the
    interval lies below it, else in `undecided`. Intervals are widened so that they hold at each of
    `looks` looks at a growing set of labels.
    """

    looks: int = 1
    held: Sequence[str] = ()
    shortfalls: Sequence[str] = field(default=(), metadata={"json": "short"})
    undecided: Sequence[str] = ()

    @property
    def outcome(self) -> str:
        """The worst outcome of all floors; "" if there are no floors and no reasons to fail."""
        if self.shortfalls:
            return "falls short"
        if self.undecided:
            return "undecided"
        return "holds" if self.held else ""

    def to_json(self) -> JsonObject:
        passed = self.outcome in ("holds", "")
        return {"gate": self.outcome or None, **fields_json(self), "passed": passed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge compared with people's labels.

    `rho_on_tuned_rows` is the rho on the rows that the judge was tuned on, if these were left out.
    """

    judge: str
    dimension: str
    data_counts: DataCounts = field(metadata={"json": "data"})
    level: Level
    n_unjudged: int
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    rho_on_tuned_rows: Correlation | None = field(metadata={"json": "on_met"})
    scorecard: Scorecard = field(metadata=INLINED_IN_JSON)
    associations: Associations
    misses: Sequence[Miss] | None = None
    verdict_words: tuple[str, str] | None = field(metadata={"json": "words"})
    floor_check: FloorCheck = field(default=FloorCheck(), metadata=INLINED_IN_JSON)

    @classmethod
    def from_scores(cls, scored_items: ScoredItems, figure_rows: ScoredItems) -> "Verification":
        """Return the figures on `figure_rows`; the other rows were left out."""
        overlap = TuningOverlap.from_scores(scored_items, figure_rows)
        is_left_out = overlap.n_rows and not overlap.tuned_on_these_labels
        tuned_rows = scored_items.of_ids(scored_items.tuned_ids)
        result = cls(
            judge=scored_items.judge_name,
            dimension=scored_items.dimension,
            data_counts=DataCounts.from_items(figure_rows.labels, figure_rows.items),
            level=scored_items.level,
            n_unjudged=scored_items.n_unjudged,
            overlap=overlap,
            rho_on_tuned_rows=tuned_rows.rho if is_left_out else None,
            scorecard=Scorecard.from_scores(figure_rows, has_verdicts=figure_rows.has_verdicts),
            associations=Associations.from_scores(figure_rows),
            misses=list_misses(figure_rows, MAX_MISSES_SHOWN) if figure_rows.has_verdicts else None,
            verdict_words=scored_items.labels.words.get(scored_items.dimension),
        )
        return replace(result, floor_check=check_floors(result, {}))

    @property
    def faults(self) -> list[str]:
        """A line for each floor that a figure is below, or that these labels cannot decide."""
        shortfalls = [f"falls short: {reason}" for reason in self.floor_check.shortfalls]
        return [*shortfalls, *(f"undecided: {reason}" for reason in self.floor_check.undecided)]

    @property
    def is_undecided(self) -> bool:
        """Whether labels are too few to tell if the judge's figures are above their floors."""
        return self.floor_check.outcome == "undecided"


def check_floors(result: Verification, floors: Mapping[str, float], looks: int = 1) -> FloorCheck:
    """Compare the judge's figures with the floors that the user set."""
    shortfalls = [*_reasons_to_fail(result, has_floors=bool(floors))]
    if floors and result.scorecard.has_same_scores:
        shortfalls.append("outputs that people order all get the same score")
        floors = {}
    texts_by_outcome = {"falls short": shortfalls, "undecided": list[str](), "holds": list[str]()}
    for name, floor_value in floors.items():
        outcome, text = _check_figure(result, name, floor_value, looks)
        texts_by_outcome[outcome].append(text)
    return FloorCheck(
        looks=looks,
        held=texts_by_outcome["holds"],
        shortfalls=texts_by_outcome["falls short"],
        undecided=texts_by_outcome["undecided"],
    )


def _check_figure(
    result: Verification, name: str, floor_value: float, looks: int
) -> tuple[str, str]:
    """Return the outcome for one floor, and a text with the figure, its interval and the floor."""
    figure_name, counted_label, _ = FLOOR_FIGURES[name]
    verdict_figures = result.scorecard.verdict_figures
    figure: Correlation | Rate = result.scorecard.rho
    if counted_label and verdict_figures:
        figure = getattr(verdict_figures.judge, name)
    figure = replace(figure, interval=floor.interval_for_looks(figure, looks))
    figure_text = f"{figure_name} undefined"
    if not math.isnan(figure.value):
        ends_text = f"{interval_text(figure.interval)}{looks_text(looks)}"
        figure_text = f"{figure_name} {figure.value:.4f} {ends_text}"
    outcome = floor.check_floor(figure.interval, floor_value)
    if outcome == "holds":
        return outcome, f"{figure_text} >= {floor_value:g}"
    figure_text += f", --min-{name} {floor_value:g}"
    if outcome == "undecided":
        figure_text += f": {_labels_to_add(result, figure, counted_label, floor_value)}"
    return outcome, figure_text


def _labels_to_add(
    result: Verification, figure: Correlation | Rate, counted_label: str, floor_value: float
) -> str:
    """Return how many more labels would decide about the floor, if the figure stays the same."""
    verdict_figures = result.scorecard.verdict_figures
    n_missing = verdict_figures.judge.n_missing_labels if verdict_figures else {}
    if n_for_interval := n_missing.get(counted_label):
        return f"{count_text(n_for_interval, f'more {counted_label}')} would give an interval"
    if n_to_add := floor.labels_to_add(figure, floor_value):
        labels_text = count_text(n_to_add, f"more {counted_label or 'document'}")
        return f"about {labels_text} would decide, if the judge does as well on them"
    return f"label more {VERDICT_PLURALS.get(counted_label, 'documents')}"


def _reasons_to_fail(result: Verification, *, has_floors: bool) -> Iterator[str]:
    """Yield each reason why the check fails, whatever the figures are."""
    n_outputs, n_failed = result.data_counts.n_outputs, result.scorecard.rho.n_failed
    limit_text = f"at most {MAX_FAILED_SHARE:.0%} may"
    if n_failed > MAX_FAILED_SHARE * n_outputs:
        failed_text = f"{n_failed / n_outputs:.1%} of the judgements failed"
        yield f"{failed_text} ({n_failed:,} of {n_outputs:,}); {limit_text}"
    if not has_floors:
        return
    n_labels = n_outputs + result.n_unjudged
    if result.n_unjudged > MAX_FAILED_SHARE * n_labels:
        yield f"{result.n_unjudged:,} of {n_labels:,} labels have no record; {limit_text}"
    if result.overlap.tuned_on_these_labels:
        yield f"the judge was tuned on {result.overlap.n_rows:,} of these {result.scorecard.unit}s"


def suggest_floors(figures: Correlation | VerdictAgreement) -> str:
    """Return the flags --min-... with floors that suit a judge with these figures.

    On as many new labels, an equally good judge passes the floors in nine of ten cases. The text is
    empty if labels are so few that figures on as many new labels may have no interval.
    """
    if isinstance(figures, VerdictAgreement):
        tpr, tnr = _rate_floor(figures.tpr), _rate_floor(figures.tnr)
        # A judge that decides at random passes floors whose sum is 1 or less.
        return f"--min-tpr {tpr:.2f} --min-tnr {tnr:.2f}" if tpr + tnr > 1 else ""
    is_dataset_level = figures.level == "dataset"
    n_required = MIN_DOCUMENTS_FOR_DATASET_FLOOR if is_dataset_level else MIN_DOCUMENTS_FOR_FLOOR
    if figures.interval is None or figures.n_documents < n_required:
        return ""
    rho_floor = floor.suggested_rho_floor(figures.value, figures.interval.low)
    return f"--min-spearman {math.floor(100 * rho_floor) / 100:.2f}" if rho_floor >= 0.01 else ""


def _rate_floor(rate: Rate) -> float:
    """Return the floor to suggest for a rate; 0 if labels are too few to suggest one."""
    n_documents = rate.n_documents or 0
    has_single_outputs = n_documents == rate.n
    n_required = 2 * MIN_OUTPUTS_FOR_RATES if has_single_outputs else MIN_DOCUMENTS_FOR_FLOOR
    if not rate.interval or rate.interval.low == 0 or n_documents < n_required:
        return 0.0
    rate_floor = floor.suggested_rate_floor(rate.value, rate.interval.low, rate.n)
    return math.floor(100 * rate_floor) / 100
