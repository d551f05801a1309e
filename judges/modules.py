"""The DSPy modules: one gives an output a rating on one dimension, one prefers one of two."""

import dspy

from judges.adapter import JudgeAdapter, signature_of
from judges.dimension import Comparison, Dimension
from judges.prompt import Prompt


class _Judge(dspy.Module):  # type: ignore[misc]
    """One predictor, `judge`, that is asked and read by `JudgeAdapter`."""

    judge: dspy.Predict
    names: tuple[str, ...] = ()

    def forward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter(names=self.names)):
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter(names=self.names)):
            return await self.judge.acall(**texts)


class RatingJudge(_Judge):
    """Rates one output: `judge(document=..., summary=...).rating`.

    `prompt` replaces the dimension's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(
        self, dimension: Dimension, *, rationale: bool = False, prompt: Prompt | None = None
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.names = (dimension.name,)
        self.judge = dspy.Predict(signature_of(prompt or dimension.prompt(rationale=rationale)))


class PairwiseJudge(_Judge):
    """Prefers one of two outputs: `judge(post=..., summary_a=..., summary_b=...).preferred`.

    `prompt` replaces the comparison's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(self, comparison: Comparison, *, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.comparison = comparison
        self.judge = dspy.Predict(signature_of(prompt or comparison.prompt()))
