"""What else explains a judge's scores: an output's length, its place in a pair, and chance.

An association is not a bias by itself, because a longer output may be a better one. So the judge's
stands beside that of people's labels.
"""

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
from optimize.statistics.intervals import Interval, Vector

# The first screen names an association from this size on, if its interval excludes 0, too.
LEAST_ASSOCIATION = 0.1


def is_clear(size: float, interval: Interval | None) -> bool:
    """Whether the first screen names it: large enough, and more than chance."""
    return abs(size) >= LEAST_ASSOCIATION and interval is not None and 0 not in interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAssociation:
    """Spearman's rho of outputs' lengths with the judge's scores, and with people's labels.

    The interval is of the difference. For pairs, the length is A's less B's.
    """

    judge: float
    people: float
    interval: Interval | None
    level: Level
    n_documents: int

    @classmethod
    def of(cls, scored: Scored) -> "LengthAssociation | None":
        """None where the texts are not known, or all outputs have one length."""
        lengths = _lengths(scored)
        if lengths.size < len(scored.items):
            return None
        level: Level = "dataset" if scored.level == "dataset" else "summary"
        scores = scored.passes if scored.is_binary else scored.scores
        human = np.where(np.isnan(scores), np.nan, scored.human)
        gap = contrast_judges(scores, human, lengths, scored.documents, level=level)
        judge, people = (
            correlation(level, side, lengths, scored.documents).value for side in (scores, human)
        )
        if np.isnan(judge):
            return None
        n = len(gap.documents)
        return cls(judge=judge, people=people, interval=gap.interval, level=level, n_documents=n)

    @property
    def is_clear(self) -> bool:
        """Whether the judge clearly follows length more closely than people, in any direction."""
        more = abs(self.judge) > abs(self.people)
        return more and is_clear(self.judge - self.people, self.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """The share of choices for the output shown first, less that for the one shown second."""

    value: float
    interval: Interval | None

    @property
    def is_clear(self) -> bool:
        return is_clear(self.value, self.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Associations:
    """What else explains the scores; None where it does not apply, or is not known.

    `repeats` is how often two samples for one row give the same verdict, where a judge of pass and
    fail takes several.
    """

    length: LengthAssociation | None
    position: PositionBias | None
    repeats: float | None

    @classmethod
    def of(cls, scored: Scored) -> "Associations":
        return cls(
            length=LengthAssociation.of(scored),
            position=_position(scored) if scored.is_pairs else None,
            repeats=_repeats(scored.judgements) if scored.is_binary else None,
        )


def _lengths(scored: Scored) -> Vector:
    """The length of each output that is judged, as far as its text is known."""
    lengths: list[int] = []
    for row, label in enumerate(scored.labelled):
        if isinstance(label, LabelledPair):
            lengths.append(text_length(label.response_a) - text_length(label.response_b))
        elif name := output_name([*(texts := scored.texts(row))]):
            lengths.append(text_length(texts[name]))
    return np.array(lengths, float)


def _position(scored: Scored) -> PositionBias:
    verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
    rate = win_rate(verdicts, documents=scored.documents)
    interval = Interval(rate.position_bias_low, rate.position_bias_high)
    known = None if np.isnan(interval.low) else interval
    return PositionBias(value=rate.position_bias, interval=known)


def _repeats(judgements: Sequence[AnyJudgement]) -> float | None:
    """The share of two samples of a row with one verdict, a mean over rows."""
    shares = [
        sum(comb(round(share * one.samples), 2) for share in one.distribution.values())
        / comb(one.samples, 2)
        for one in judgements
        if isinstance(one, Judgement) and one.distribution and one.samples > 1
    ]
    return float(np.mean(shares)) if shares else None
