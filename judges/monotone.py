"""A strictly increasing map of scores, fixed and written down as lines between knots."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from judges.validation import InvalidDataError


@dataclass(frozen=True, slots=True)
class MonotoneMap:
    """Lines through (inputs[i], outputs[i]); both strictly increasing, two knots or more.

    Strictly, since a flat piece would tie outputs that the judge told apart, and ties cost rank
    correlation. Beyond its knots a map goes on along its first and last piece. Called with one
    score; NaN, a failed judgement, stays NaN. Plain floats, so that a row judged alone and in a
    batch gets the same number. Raises InvalidDataError for anything else than such knots.
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.outputs) or len(self.inputs) < 2:
            raise InvalidDataError(
                f"a monotone map has as many inputs as outputs, two or more; not "
                f"{len(self.inputs)} and {len(self.outputs)}"
            )
        for name, knots in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not all(math.isfinite(knot) and abs(knot) <= 1e9 for knot in knots):
                raise InvalidDataError(f"a monotone map's {name} are finite numbers up to 1e9")
            if any(b - a < 1e-9 for a, b in pairwise(knots)):
                raise InvalidDataError(f"a monotone map's {name} increase, each by 1e-9 or more")

    def __call__(self, score: float) -> float:
        if math.isnan(score):
            return math.nan
        # The piece that the score lies on; the first and the last go on beyond their knots.
        piece = min(max(bisect_right(self.inputs, score) - 1, 0), len(self.inputs) - 2)
        x0, x1 = self.inputs[piece : piece + 2]
        y0, y1 = self.outputs[piece : piece + 2]
        return y0 + (score - x0) * ((y1 - y0) / (x1 - x0))

    def all(self, scores: Sequence[float]) -> list[float]:
        """The map of each score, in their order."""
        return [self(score) for score in scores]
