"""What else explains a judge's scores: an output's length, its place in a pair, and chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from judges.judgement import AnyJudgement, Judgement, Preference
from judges.labels.types import LabelledPair
from judges.winrate import text_length, win_rate
from optimize.items import output_name
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import Level, contrast_judges, correlation
from optimize.statistics.intervals import Interval, IntervalEstimate, Vector

# The first screen names an association from this size on, if its interval excludes 0, too.
LEAST_ASSOCIATION = 0.1


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
