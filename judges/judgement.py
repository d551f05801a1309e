"""A judge's result: for one output, or for a pair."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dspy_judges.errors import JudgesError

# Of a score that was recorded: a square of what is larger, or a map of it, may be no number.
LARGEST_SCORE = 1e9
QUOTED_LENGTH = 160
Choice = Literal["A", "B"]


class NoScoreError(JudgesError, ValueError):
    """A reply holds no score; recorded as a failed judgement, and the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge's result for one output: never an exception, never a made-up number.

    `score` is a rating, a mean over samples or an expectation over the scale; NaN when failed.
    `distribution` maps each rating to its probability (or share of samples). `samples` replies
    made the score; `unparsable` more held none. A panel's judgement has its `members`' own scores.
    """

    score: float
    rating: int | None = None
    distribution: Mapping[int, float] | None = None
    rationale: str | None = None
    failure: str | None = None
    samples: int = 0
    unparsable: int = 0
    members: Mapping[str, float] | None = None

    @classmethod
    def failed(cls, reason: str, *, unparsable: int = 0) -> "Judgement":
        return cls(score=math.nan, failure=reason, unparsable=unparsable)

    def at_threshold(self, threshold: float) -> "Judgement":
        """A verdict whose score is moved so that `threshold` becomes .5, and the rating says it.

        The order of scores stays as it is, and every reader of scores sees the same verdict.
        """
        if self.failure is not None:
            return self
        if self.score < threshold:
            score = self.score / threshold / 2
        else:
            score = 0.5 + (self.score - threshold) / (1 - threshold) / 2 if threshold < 1 else 1.0
        return replace(self, score=score, rating=int(score >= 0.5))

    def as_json(self) -> dict[str, object]:
        """What JSON holds of it."""
        distribution = self.distribution
        return {
            "score": None if math.isnan(self.score) else self.score,
            "rating": self.rating,
            "distribution": distribution and {str(r): p for r, p in distribution.items()},
            "rationale": self.rationale,
            "failure": self.failure,
            **({} if self.members is None else {"members": dict(self.members)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One judge's result for one pair, in one or both orders.

    `order_ab` and `order_ba` name the preferred output by its own letter, whatever its place was
    (None: neither, or not known). `margin` in [-1, 1] is positive for A; `margin_ab` and
    `margin_ba` are those of each order; NaN: failed or not known. A panel's verdict has its
    `members`' own margins.
    """

    margin: float
    preferred: Literal["A", "B", "tie"] | None = None
    order_ab: Choice | None = None
    order_ba: Choice | None = None
    comparison: str | None = None
    failure: str | None = None
    margin_ab: float = math.nan
    margin_ba: float = math.nan
    members: Mapping[str, float] | None = None

    @property
    def score(self) -> float:
        return self.margin

    @classmethod
    def of_orders(cls, margin_ab: float, margin_ba: float, **other: Any) -> "Preference":
        """The verdict of both orders' margins; a choice that follows the position is a tie."""
        ab, ba = choice_of(margin_ab), choice_of(margin_ba)
        return cls(
            margin=(margin_ab + margin_ba) / 2,
            margin_ab=margin_ab,
            margin_ba=margin_ba,
            preferred=None if other.get("failure") else ab if ab and ab == ba else "tie",
            order_ab=ab,
            order_ba=ba,
            **other,
        )

    @classmethod
    def failed(cls, reason: str) -> "Preference":
        return cls(margin=math.nan, failure=reason)


AnyJudgement = Judgement | Preference


def choice_of(margin: float) -> Choice | None:
    """The output that a margin prefers; None: neither, or no margin."""
    return "A" if margin > 0 else "B" if margin < 0 else None


def quote(text: str) -> str:
    """Quote a reply in one line: its two ends where it is long, since the score is at an end."""
    if len(text) > 8 * QUOTED_LENGTH:
        text = f"{text[: 4 * QUOTED_LENGTH]} ... {text[-4 * QUOTED_LENGTH :]}"
    line = " ".join(text.split())
    half = QUOTED_LENGTH // 2
    return repr(line if len(line) <= QUOTED_LENGTH else f"{line[:half]} ... {line[-half:]}")
