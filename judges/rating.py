"""The rating judge: a DSPy module that gives one output a rating on one dimension."""

import dspy

from judges.adapter import JudgeAdapter, signature_of
from judges.dimension import Dimension
from judges.prompt import Prompt


class RatingJudge(dspy.Module):  # type: ignore[misc]
    """Rates one output: `judge(document=..., summary=...).rating`.

    `prompt` replaces the dimension's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(
        self, dimension: Dimension, *, rationale: bool = False, prompt: Prompt | None = None
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.judge = dspy.Predict(signature_of(prompt or dimension.prompt(rationale=rationale)))

    def forward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return await self.judge.acall(**texts)
