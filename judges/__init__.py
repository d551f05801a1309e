"""Judges: define, run, freeze and load them."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from dspy_judges.errors import JudgesError
    from judges.dimension import Comparison, Dimension, UnknownDimensionError
    from judges.judge import Judge
    from judges.judgement import Judgement, Verdict
    from judges.loading import load, read_subject
    from judges.modules import PairwiseJudge, RatingJudge
    from judges.panel import Member, Panel
    from judges.scoring import SamplingPlan

__all__ = [
    "Comparison",
    "Dimension",
    "Judge",
    "Judgement",
    "JudgesError",
    "Member",
    "PairwiseJudge",
    "Panel",
    "RatingJudge",
    "SamplingPlan",
    "UnknownDimensionError",
    "Verdict",
    "load",
    "read_subject",
]

_HOMES = {
    "judges.dimension": "Comparison Dimension UnknownDimensionError",
    "dspy_judges.errors": "JudgesError",
    "judges.judge": "Judge",
    "judges.judgement": "Judgement Verdict",
    "judges.loading": "load read_subject",
    "judges.modules": "PairwiseJudge RatingJudge",
    "judges.panel": "Member Panel",
    "judges.scoring": "SamplingPlan",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
