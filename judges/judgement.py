"""A judge's result: for one output, or for a pair."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dspy_judges.errors import JudgesError
from judges.prompt import Field
from judges.questions import AnswerWeights, answer_range

# The largest recorded score: a larger one overflows when squared.
LARGEST_SCORE = 1e9
QUOTED_LENGTH = 160
Choice = Literal["A", "B"]


class NoScoreError(JudgesError, ValueError):
    """A reply without a score; its judgement has failed, and the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge's result for one output.

    Args:
        score: On the judge's scale: a rating, a mean over samples, or an expectation; of a verdict
            in [0, 1], where a pass has .5 or more; NaN where the judgement failed.
        rating: The rating of a single reply; 1 or 0 of a verdict.
        distribution: The probability of each rating, or its share of the samples.
        rationale: The judge's reasons, if it gave any.
        failure: Why there is no score; None if there is one.
        samples: How many replies made the score.
        unparsable: How many more replies could not be read.
        members: The members' own scores, by name, where the judge is a panel.
        answers: The number of each answer by its field (1 or 0 of two words; an expectation or a
            mean where there are probabilities or samples), where the judge asks several questions.
        decided_by: The answer that counted most for the score, as "names_source = no", where the
            answers have weights.
    """

    score: float
    rating: int | None = None
    distribution: Mapping[int, float] | None = None
    rationale: str | None = None
    failure: str | None = None
    samples: int = 0
    unparsable: int = 0
    members: Mapping[str, float] | None = None
    answers: Mapping[str, float] | None = None
    decided_by: str | None = None

    @classmethod
    def failed(cls, reason: str, *, unparsable: int = 0) -> "Judgement":
        return cls(score=math.nan, failure=reason, unparsable=unparsable)

    def rescored(
        self, choices: Sequence[Field], weights: AnswerWeights | None, threshold: float = 0.5
    ) -> "Judgement":
        """The judgement with the score that its answers have by these weights.

        `choices` are the fields that were answered, the judge's own answer last. The score of a
        verdict is then moved so that `threshold` becomes .5. The order of scores stays the same,
        and every reader of scores sees the same verdict.
        """
        is_verdict = answer_range(choices[-1]) == (0, 1)
        if self.failure is not None or (weights is None and not is_verdict):
            return self
        score, decided_by, rating = self.score, self.decided_by, self.rating
        if weights is not None and self.answers is not None:
            score = weights.score(self.answers)
            turn = threshold if is_verdict else None
            decided_by = weights.decisive(self.answers, choices, turn)
        if is_verdict:
            if score < threshold:
                score = score / threshold / 2
            else:
                score = 0.5 + (score - threshold) / (1 - threshold) / 2 if threshold < 1 else 1.0
            rating = int(score >= 0.5)
        return replace(self, score=score, rating=rating, decided_by=decided_by)

    def as_json(self) -> dict[str, object]:
        """The judgement as plain data for JSON, without counts of replies."""
        distribution = self.distribution
        parts = {"members": self.members, "answers": self.answers, "decided_by": self.decided_by}
        return {
            "score": None if math.isnan(self.score) else self.score,
            "rating": self.rating,
            "distribution": distribution and {str(r): p for r, p in distribution.items()},
            "rationale": self.rationale,
            "failure": self.failure,
            **{name: part for name, part in parts.items() if part is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One judge's result for one pair of outputs, A and B, in one or both orders.

    Args:
        margin: In [-1, 1], positive for A; NaN where the judgement failed.
        preferred: "A", "B" or "tie"; None where the judgement failed.
        order_ab: The output preferred when A is shown first; None for neither, or unknown.
        order_ba: The same when B is shown first, by the output's own letter.
        comparison: The judge's reasons, if it gave any.
        failure: Why there is no preference; None if there is one.
        margin_ab: The margin when A is shown first; NaN if unknown.
        margin_ba: The margin when B is shown first.
        members: The members' own margins, by name, where the judge is a panel.
        answers_ab: The margin of each answer by its field when A is shown first, where the judge
            asks several questions; positive for the output shown first.
        answers_ba: The same when B is shown first.
        decided_by: The answer that counted most over both orders, as "names_source = A", where the
            answers have weights.
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
    answers_ab: Mapping[str, float] | None = None
    answers_ba: Mapping[str, float] | None = None
    decided_by: str | None = None

    @property
    def score(self) -> float:
        """The margin, as the score of any judgement."""
        return self.margin

    @property
    def rationale(self) -> str | None:
        """The comparison, as the reasons of any judgement."""
        return self.comparison

    @property
    def answers(self) -> dict[str, float] | None:
        """The margin of each answer for A, over both orders; None without questions."""
        ab, ba = self.answers_ab, self.answers_ba
        if ab is None or ba is None:
            return None
        return {name: (ab[name] - ba[name]) / 2 for name in ab}

    def rescored(
        self, choices: Sequence[Field], weights: AnswerWeights | None, threshold: float = 0.5
    ) -> "Preference":
        """The preference with the margins that its answers have by these weights."""
        ab, ba, answers = self.answers_ab, self.answers_ba, self.answers
        if weights is None or ab is None or ba is None or answers is None:
            return self
        return Preference.of_orders(
            weights.score(ab),
            -weights.score(ba),
            comparison=self.comparison,
            answers_ab=ab,
            answers_ba=ba,
            decided_by=weights.decisive(answers, choices),
        )

    @classmethod
    def of_orders(cls, margin_ab: float, margin_ba: float, **other: Any) -> "Preference":
        """The preference by both orders' margins; a choice that follows the position is a tie."""
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
    """The output that a margin prefers; None for a margin of 0 or NaN."""
    return "A" if margin > 0 else "B" if margin < 0 else None


def quote(text: str) -> str:
    """Quote a reply on one line; of a long one its two ends, since a score is at an end."""
    if len(text) > 8 * QUOTED_LENGTH:
        text = f"{text[: 4 * QUOTED_LENGTH]} ... {text[-4 * QUOTED_LENGTH :]}"
    line = " ".join(text.split())
    half = QUOTED_LENGTH // 2
    return repr(line if len(line) <= QUOTED_LENGTH else f"{line[:half]} ... {line[-half:]}")
