"""Judges: define, run, freeze and load them."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from dspy_judges.errors import JudgesError
    from judges.dimension import Comparison, Dimension, DimensionError, UnknownDimensionError
    from judges.frozen import FrozenJudgeError
    from judges.judge import Judge
    from judges.judgement import Judgement, NoScoreError, Verdict
    from judges.loading import load, read_subject
    from judges.modules import PairwiseJudge, RatingJudge
    from judges.panel import Member, Panel, PanelError
    from judges.scoring import SamplingPlan

__all__ = [
    "Comparison",
    "Dimension",
    "DimensionError",
    "FrozenJudgeError",
    "Judge",
    "Judgement",
    "JudgesError",
    "Member",
    "NoScoreError",
    "PairwiseJudge",
    "Panel",
    "PanelError",
    "RatingJudge",
    "SamplingPlan",
    "UnknownDimensionError",
    "Verdict",
    "load",
    "read_subject",
]

_HOMES = {
    "judges.dimension": "Comparison Dimension DimensionError UnknownDimensionError",
    "dspy_judges.errors": "JudgesError",
    "judges.frozen": "FrozenJudgeError",
    "judges.judge": "Judge",
    "judges.judgement": "Judgement NoScoreError Verdict",
    "judges.loading": "load read_subject",
    "judges.modules": "PairwiseJudge RatingJudge",
    "judges.panel": "Member Panel PanelError",
    "judges.scoring": "SamplingPlan",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
