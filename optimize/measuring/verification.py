"""The verification of one judge: its figures, and influences on its scores other than quality."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from judges.judgement import Judgement, Preference
from judges.labels.types import LabelledPair
from judges.winrate import win_rate
from optimize.figures.as_json import INLINED_IN_JSON
from optimize.inputs.labelled import AnyLabels
from optimize.items import DataCounts, judged_output_name
from optimize.measuring.misses import Miss, list_misses
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems, TuningOverlap
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Correlation, Level, correlation
from optimize.statistics.intervals import Interval, IntervalEstimate, Vector

# An association is reported if it is at least so large and its interval excludes 0.
MIN_ASSOCIATION = 0.1
# Upper bound on the false passes, and on the false alarms, in the result; a report has all.
MAX_MISSES_SHOWN = 3


def exceeds_people(value: float, interval: Interval | None, people: float = 0.0) -> bool:
    """Return whether an association clearly exceeds people's, by their difference's interval."""
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

    `position_bias` is the share of choices for the output shown first, minus that for the second.
    `repeat_agreement` is how often two samples for one row give the same verdict of pass or fail.
    """

    length: LengthAssociation | None
    position_bias: IntervalEstimate | None = field(metadata={"json": "position"})
    repeat_agreement: float | None = field(metadata={"json": "repeats"})

    @classmethod
    def of(cls, scored: ScoredItems) -> "Associations":
        position, repeats = None, None
        if scored.is_pairs:
            preferences = [each for each in scored.judgements if isinstance(each, Preference)]
            rates = win_rate(preferences, documents=scored.documents)
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
        elif output := judged_output_name([*(texts := scored.texts(row))]):
            lengths.append(len(texts[output].strip()))
    if len(lengths) < len(scored.items):
        return None
    level: Level = "dataset" if scored.level == "dataset" else "summary"
    scores = scored.passes if scored.has_verdicts else scored.scores
    human: Vector = np.where(np.isnan(scores), np.nan, scored.human)
    contrast = contrast_judges(scores, human, lengths, scored.documents, level=level)
    rhos = [correlation(level, values, lengths, scored.documents) for values in (scores, human)]
    return LengthAssociation(judge=rhos[0].value, people=rhos[1].value, interval=contrast.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
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

    `rho_on_tuned_rows` is the rho on the rows of its tuning, if these were left out.
    """

    judge: str
    dimension: str
    data: DataCounts
    level: Level
    n_unjudged: int
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    rho_on_tuned_rows: Correlation | None = field(metadata={"json": "on_met"})
    card: Scorecard = field(metadata=INLINED_IN_JSON)
    associations: Associations
    misses: Sequence[Miss] | None = None
    words: tuple[str, str] | None
    gate: Gate | None = field(default=None, metadata=INLINED_IN_JSON)

    @classmethod
    def of(cls, scored: ScoredItems, held_out: ScoredItems, labelled: AnyLabels) -> "Verification":
        """Return the figures on `held_out`, which holds the rows of `scored` that count."""
        overlap = TuningOverlap.of(scored, held_out)
        is_left_out = overlap.n_rows and not overlap.tuned_on_these_labels
        return cls(
            judge=scored.judge,
            dimension=scored.dimension,
            data=DataCounts.of(labelled, held_out.items),
            level=scored.level,
            n_unjudged=scored.n_unjudged,
            overlap=overlap,
            rho_on_tuned_rows=scored.of_ids(scored.tuned_ids).rho if is_left_out else None,
            card=Scorecard.of(held_out),
            associations=Associations.of(held_out),
            misses=list_misses(held_out, MAX_MISSES_SHOWN) if held_out.has_verdicts else None,
            words=labelled.words.get(scored.dimension),
        )

    @property
    def faults(self) -> list[str]:
        if not self.gate:
            return []
        short = [f"falls short: {reason}" for reason in self.gate.short]
        return [*short, *(f"undecided: {reason}" for reason in self.gate.undecided)]

    @property
    def is_undecided(self) -> bool:
        """Whether the labels do not suffice to tell if the judge holds its floors."""
        return self.gate is not None and self.gate.outcome == "undecided"
