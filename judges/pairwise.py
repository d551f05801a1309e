"""The pairwise judge: a DSPy module that compares two outputs and chooses A or B."""

import dspy

from judges.adapter import JudgeAdapter, signature_of
from judges.dimension import Comparison
from judges.prompt import Prompt


class PairwiseJudge(dspy.Module):  # type: ignore[misc]
    """Prefers one of two outputs: `judge(post=..., summary_a=..., summary_b=...).preferred`.

    `prompt` replaces the comparison's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(self, comparison: Comparison, *, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.comparison = comparison
        self.judge = dspy.Predict(signature_of(prompt or comparison.prompt()))

    def forward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return await self.judge.acall(**texts)
