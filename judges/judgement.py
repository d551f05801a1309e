"""What a judge says of one output (a judgement) or of a pair of outputs (a preference)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dspy_judges.errors import JudgesError
from judges.prompt import Field
from judges.questions import AnswerWeights

# The largest absolute value of a score in a file; the square of a much larger one could overflow.
MAX_SCORE = 1e9
MAX_QUOTE_LENGTH = 160
PreferredOutput = Literal["A", "B"]


class NoScoreError(JudgesError, ValueError):
    """A reply states no clear score. The judgement has failed, and the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge's result for one output.

    Args:
        score: The score on the judge's scale: a rating, the mean over samples, or the expectation
            under the model's probabilities. A verdict's score is in [0, 1], and .5 or more is a
            pass. NaN if the judgement failed.
        rating: The rating if there is a single reply; for a verdict 1 (good word) or 0.
        distribution: The probability of each rating, or the share of samples with that rating.
        rationale: The judge's reasons, if it gave any.
        failure: Why there is no score; None if there is a score.
        samples: The number of replies that the score was computed from.
        unparsable: The number of replies that could not be read.
        members: For a panel, each member's score by the member's name.
        answers: If the judge asks questions, all answers as numbers, by field name. Of the two
            words of a verdict or question, the good one is 1 and the other 0; with probabilities or
            samples, an answer is an expectation or a mean.
        decided_by: If the answers have weights, the answer that counted most for the score, such as
            "names_source = no".
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
        self, fields: Sequence[Field], weights: AnswerWeights | None, threshold: float = 0.5
    ) -> "Judgement":
        """Return a copy of the judgement whose score is computed from the answers by these weights.

        `fields` are the answered fields; the last field is the judge's own rating or verdict. The
        score of a verdict is rescaled so that `threshold` becomes .5: the order of scores stays the
        same, and .5 or more always means a pass.
        """
        if self.failure is not None:
            return self
        is_verdict = fields[-1].answer_range == (0, 1)
        score, decided_by = self.score, self.decided_by
        if weights is not None and self.answers is not None:
            score = weights.score(self.answers)
            verdict_threshold = threshold if is_verdict else None
            decided_by = weights.decisive_answer(self.answers, fields, verdict_threshold)
        if not is_verdict:
            return replace(self, score=score, decided_by=decided_by)
        if score < threshold:
            score = score / threshold / 2
        elif threshold < 1:
            score = 0.5 + (score - threshold) / (1 - threshold) / 2
        else:
            score = 1.0
        return replace(self, score=score, rating=int(score >= 0.5), decided_by=decided_by)

    def as_json(self) -> dict[str, object]:
        """Return the judgement as data for JSON, without the counts of replies."""
        distribution = self.distribution
        json_object: dict[str, object] = {
            "score": None if math.isnan(self.score) else self.score,
            "rating": self.rating,
            "distribution": distribution and {str(n): p for n, p in distribution.items()},
            "rationale": self.rationale,
            "failure": self.failure,
        }
        for name in ("members", "answers", "decided_by"):
            if (value := getattr(self, name)) is not None:
                json_object[name] = value
        return json_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One judge's result for one pair of outputs, A and B, in one or both orders.

    Args:
        margin: How clearly A is preferred, in [-1, 1]; negative if B is preferred, and NaN if the
            judgement failed.
        preferred: "A", "B" or "tie"; None if the judgement failed.
        comparison: The judge's reasons, if it gave any.
        failure: Why there is no preference; None if there is a preference.
        margin_ab: The margin when A is shown first; NaN if unknown.
        margin_ba: The margin when B is shown first; it, too, is positive if A is preferred.
        members: For a panel, each member's margin by the member's name.
        answers_ab: If the judge asks questions, the margin of each answer when A is shown first, by
            field name; positive if the answer prefers A.
        answers_ba: The margins of the answers when B is shown first; positive for B.
        decided_by: If the answers have weights, the answer that counted most over both orders, such
            as "names_source = A".
    """

    margin: float
    preferred: Literal["A", "B", "tie"] | None = None
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
        """The same as `margin`, since a Judgement has a `score`, too."""
        return self.margin

    @property
    def rationale(self) -> str | None:
        """The same as `comparison`, since a Judgement has a `rationale`, too."""
        return self.comparison

    @property
    def order_ab(self) -> PreferredOutput | None:
        """The output preferred when A is shown first; None for a tie or an unknown margin."""
        return preferred_output(self.margin_ab)

    @property
    def order_ba(self) -> PreferredOutput | None:
        """The output preferred when B is shown first; here, too, "A" means output A."""
        return preferred_output(self.margin_ba)

    @property
    def answers(self) -> dict[str, float] | None:
        """The margin of each answer over both orders, positive for A; None without questions."""
        answers_ab, answers_ba = self.answers_ab, self.answers_ba
        if answers_ab is None or answers_ba is None:
            return None
        return {name: (answers_ab[name] - answers_ba[name]) / 2 for name in answers_ab}

    def rescored(
        self, fields: Sequence[Field], weights: AnswerWeights | None, threshold: float = 0.5
    ) -> "Preference":
        """Return a copy of the preference with margins computed from its answers by the weights."""
        answers_ab, answers_ba, answers = self.answers_ab, self.answers_ba, self.answers
        if weights is None or answers_ab is None or answers_ba is None or answers is None:
            return self
        margin_ab, margin_ba = weights.score(answers_ab), -weights.score(answers_ba)
        preference = Preference.from_orders(margin_ab, margin_ba, self.comparison)
        preference = replace(preference, answers_ab=answers_ab, answers_ba=answers_ba)
        return replace(preference, decided_by=weights.decisive_answer(answers, fields))

    @classmethod
    def from_orders(
        cls, margin_ab: float, margin_ba: float, comparison: str | None = None
    ) -> "Preference":
        """Return the preference from the margins of both orders.

        The preference is a tie unless the same output is preferred in both orders.
        """
        preferred_ab, preferred_ba = preferred_output(margin_ab), preferred_output(margin_ba)
        return cls(
            margin=(margin_ab + margin_ba) / 2,
            margin_ab=margin_ab,
            margin_ba=margin_ba,
            preferred=preferred_ab if preferred_ab and preferred_ab == preferred_ba else "tie",
            comparison=comparison,
        )

    @classmethod
    def failed(cls, reason: str) -> "Preference":
        return cls(margin=math.nan, failure=reason)


AnyJudgement = Judgement | Preference


def preferred_output(margin: float) -> PreferredOutput | None:
    """Return the output that a margin prefers; None for a margin of 0 or NaN."""
    if margin > 0:
        return "A"
    return "B" if margin < 0 else None


def quote(text: str) -> str:
    """Quote a reply on one line; a long reply loses its middle, since its score is at an end."""
    line, half_length = " ".join(text.split()), MAX_QUOTE_LENGTH // 2
    if len(line) > MAX_QUOTE_LENGTH:
        line = f"{line[:half_length]} ... {line[-half_length:]}"
    return repr(line)
