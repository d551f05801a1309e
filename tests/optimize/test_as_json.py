"""Results as JSON: one view of every dataclass."""

import math
from dataclasses import dataclass, field

from optimize.figures.as_json import INLINED_IN_JSON, to_json
from optimize.statistics.intervals import Interval, IntervalEstimate


@dataclass(frozen=True, kw_only=True)
class Result:
    name: str = "a result"
    share: IntervalEstimate
    total: int | None = field(metadata={"json": "count"})
    gap_interval: Interval | None = None
    part: IntervalEstimate = field(metadata=INLINED_IN_JSON)
    is_weighted: bool = False
    reason: str | None = None


def test_json_has_interval_ends_and_nulls():
    share, part = IntervalEstimate(1 / 3, Interval(0.25, math.inf)), IntervalEstimate(-0.0, None)
    result = Result(share=share, total=None, part=part)
    # Six digits, and no infinity; what is flat stands among the others; the total has another key.
    share_cells = {"share": {"value": 0.333333, "low": 0.25, "high": None}}
    part_cells = {"value": 0.0, "low": None, "high": None}
    assert to_json([result]) == [{"name": "a result", **share_cells, "count": None, **part_cells}]
    part, ends = IntervalEstimate(math.nan, None), Interval(1 / 3, 2 / 3)
    result = Result(share=part, total=0, gap_interval=ends, part=part, is_weighted=True, reason="")
    record = to_json(result, None)
    assert (record["gap_low"], record["gap_high"]) == (1 / 3, 2 / 3)
    assert (record["is_weighted"], record["reason"], record["count"]) == (True, "", 0)
    assert record["value"] is None
