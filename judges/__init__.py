"""Judges: define, run, freeze and load them."""

from typing import TYPE_CHECKING

from judges.lazy import lazy_names

if TYPE_CHECKING:
    from judges.define import read_subject
    from judges.dimension import Comparison, Dimension, DimensionError, UnknownDimensionError
    from judges.errors import JudgesError
    from judges.frozen import FrozenJudgeError
    from judges.judge import Judge, load
    from judges.judgement import Judgement, NoScoreError, Verdict
    from judges.modules import PairwiseJudge, RatingJudge
    from judges.prompt import Prompt
    from judges.scoring import SamplingPlan

__all__ = [
    "Comparison",
    "Dimension",
    "DimensionError",
    "FrozenJudgeError",
    "Judge",
    "Judgement",
    "JudgesError",
    "NoScoreError",
    "PairwiseJudge",
    "Prompt",
    "RatingJudge",
    "SamplingPlan",
    "UnknownDimensionError",
    "Verdict",
    "load",
    "read_subject",
]

_HOMES = {
    "judges.define": "read_subject",
    "judges.dimension": "Comparison Dimension DimensionError UnknownDimensionError",
    "judges.errors": "JudgesError",
    "judges.frozen": "FrozenJudgeError",
    "judges.judge": "Judge load",
    "judges.judgement": "Judgement NoScoreError Verdict",
    "judges.modules": "PairwiseJudge RatingJudge",
    "judges.prompt": "Prompt",
    "judges.scoring": "SamplingPlan",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
