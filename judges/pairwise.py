"""The pairwise judge: a DSPy module that compares two outputs and chooses A or B."""

import dspy

from judges.adapter import JudgeAdapter, signature_of
from judges.dimension import Comparison


class PairwiseJudge(dspy.Module):  # type: ignore[misc]
    """Prefers one of two outputs: `judge(post=..., summary_a=..., summary_b=...).preferred`."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self.comparison = comparison
        self.judge = dspy.Predict(signature_of(comparison.prompt()))

    def forward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter()):
            return await self.judge.acall(**texts)
