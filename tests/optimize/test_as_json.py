"""Results as JSON: one view of every dataclass."""

import math
from dataclasses import dataclass, field

from optimize.figures.as_json import FLAT, to_json
from optimize.statistics.intervals import Interval, IntervalEstimate


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str = "a result"
    share: IntervalEstimate
    count: int | None
    gap_interval: Interval | None = None
    part: IntervalEstimate = field(metadata=FLAT)
    is_weighted: bool = False
    reason: str | None = None


def test_intervals_are_two_ends_and_what_does_not_exist_is_null() -> None:
    share, part = IntervalEstimate(1 / 3, Interval(0.25, math.inf)), IntervalEstimate(-0.0, None)
    result = Result(share=share, count=None, part=part)
    assert to_json([result]) == [
        {
            "name": "a result",
            # Six digits, and no infinity.
            "share": {"value": 0.333333, "low": 0.25, "high": None},
            "count": None,
            # Flat: they stand among the others.
            "value": 0.0,
            "low": None,
            "high": None,
        }
    ]


def test_an_optional_field_that_is_set_is_there_and_numbers_may_keep_all_digits() -> None:
    part = IntervalEstimate(math.nan, None)
    ends = Interval(1 / 3, 2 / 3)
    result = Result(share=part, count=0, gap_interval=ends, part=part, is_weighted=True, reason="")
    cells = to_json(result, None)
    assert (cells["gap_low"], cells["gap_high"]) == (1 / 3, 2 / 3)
    assert (cells["is_weighted"], cells["reason"], cells["count"]) == (True, "", 0)
    assert cells["value"] is None
