"""What a verification finds out about one judge: its figures, and what else explains its scores.

An output's length, its place in a pair, and chance may explain them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np

from judges.judgement import AnyJudgement, Judgement, Preference
from judges.labels.types import LabelledPair
from judges.winrate import text_length, win_rate
from optimize.figures.as_json import FLAT
from optimize.inputs.labelled import Labelled
from optimize.items import DataCounts, output_name
from optimize.measuring.misses import miss_rows
from optimize.measuring.scorecard import Scorecard, rho
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import Correlation, Level, contrast_judges, correlation
from optimize.statistics.intervals import Interval, IntervalEstimate, Vector

# The first screen names an association from this size on, if its interval excludes 0, too.
LEAST_ASSOCIATION = 0.1
# So many false passes and false alarms stand in the result; a report has all.
MOST_MISSES = 3


def is_clear(value: float, interval: Interval | None, people: float = 0.0) -> bool:
    """Whether it is clearly more than people's own; the interval is of the difference."""
    large = abs(value) > abs(people) and abs(value - people) >= LEAST_ASSOCIATION
    return large and interval is not None and (interval.low > 0 or interval.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAssociation:
    """Spearman's rho of outputs' lengths with the judge's scores, and with people's labels.

    The interval is of the difference. For pairs, the length is A's less B's.
    """

    judge: float
    people: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Associations:
    """What else explains the scores; None where it does not apply, or is not known.

    `position` is the share of choices for the output shown first, less that for the second.
    `repeats` is how often two samples for one row give the same verdict of pass or fail.
    """

    length: LengthAssociation | None
    position: IntervalEstimate | None
    repeats: float | None

    @classmethod
    def of(cls, scored: Scored) -> "Associations":
        position, repeats = None, None
        if scored.is_pairs:
            verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
            rate = win_rate(verdicts, documents=scored.documents)
            ends = Interval(rate.position_bias_low, rate.position_bias_high)
            position = IntervalEstimate(rate.position_bias, ends)
        elif scored.is_binary:
            repeats = _repeats(scored.judgements)
        return cls(length=_with_length(scored), position=position, repeats=repeats)


def _with_length(scored: Scored) -> LengthAssociation | None:
    lengths: list[float] = []
    for row, label in enumerate(scored.labelled):
        if isinstance(label, LabelledPair):
            lengths.append(text_length(label.response_a) - text_length(label.response_b))
        elif name := output_name([*(texts := scored.texts(row))]):
            lengths.append(text_length(texts[name]))
    if len(lengths) < len(scored.items):
        return None
    level: Level = "dataset" if scored.level == "dataset" else "summary"
    scores = scored.passes if scored.is_binary else scored.scores
    human: Vector = np.where(np.isnan(scores), np.nan, scored.human)
    gap = contrast_judges(scores, human, lengths, scored.documents, level=level)
    rhos = [correlation(level, side, lengths, scored.documents) for side in (scores, human)]
    return LengthAssociation(judge=rhos[0].value, people=rhos[1].value, interval=gap.interval)


def _repeats(judgements: Sequence[AnyJudgement]) -> float | None:
    """The share of two samples of a row with one verdict, a mean over rows."""
    shares = [
        sum(comb(round(share * one.samples), 2) for share in one.distribution.values())
        / comb(one.samples, 2)
        for one in judgements
        if isinstance(one, Judgement) and one.distribution and one.samples > 1
    ]
    return float(np.mean(shares)) if shares else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Which floors hold, and a reason for each that falls short or is undecided.

    `gate` sums them up, None without floors and faults. There are faults, too, where there is no
    figure to hold to a floor. Intervals are those of so many `looks` at labels that grow.
    """

    gate: str | None
    looks: int
    held: Sequence[str]
    short: Sequence[str]
    undecided: Sequence[str]
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge beside people's labels, on rows that it was not tuned on where there are enough.

    `n_met` rows were set apart because the judge was tuned on them, and `on_met` is its rho there.
    With `tuned_on_these_labels` there were too few others, and the figures are of all. `n_given` of
    the rows measured are on documents that it was tuned on. `n_unjudged` labels have no record.
    """

    judge: str
    dimension: str
    data: DataCounts
    level: Level
    n_unjudged: int
    n_met: int
    on_met: Correlation | None
    n_given: int
    tuned_on_these_labels: bool
    card: Scorecard = field(metadata=FLAT)
    associations: Associations
    misses: Sequence[Mapping[str, Any]] | None = None
    words: tuple[str, str] | None
    gate: Gate | None = field(default=None, metadata=FLAT)

    @classmethod
    def of(cls, scored: Scored, held_out: Scored, labelled: Labelled) -> "Verification":
        """The figures of `held_out`, the rows of `scored` that count."""
        tuned, flatters = sorted(scored.tuned_rows), bool(held_out.tuned_rows)
        return cls(
            judge=scored.judge,
            dimension=scored.dimension,
            data=DataCounts.of(labelled, held_out.items),
            level=scored.level,
            n_unjudged=scored.n_unjudged,
            n_met=len(tuned),
            on_met=rho(scored.of_rows(tuned)) if tuned and not flatters else None,
            n_given=len(held_out.tuned_documents - held_out.tuned_rows),
            tuned_on_these_labels=flatters,
            card=Scorecard.of(held_out),
            associations=Associations.of(held_out),
            misses=miss_rows(held_out, MOST_MISSES) if held_out.is_binary else None,
            words=getattr(labelled, "words", {}).get(scored.dimension),
        )

    @property
    def faults(self) -> list[str]:
        """What the gate says of figures that do not hold."""
        if not self.gate:
            return []
        short = [f"falls short: {reason}" for reason in self.gate.short]
        return [*short, *(f"undecided: {reason}" for reason in self.gate.undecided)]

    @property
    def is_undecided(self) -> bool:
        """Whether the labels cannot tell if the judge holds its floors."""
        return self.gate is not None and self.gate.gate == "undecided"
