"""Judges: define, run, freeze and load them."""

from importlib import import_module
from typing import TYPE_CHECKING

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

# Where each public name lives: it is imported when first used, since two of them need DSPy.
_HOMES = {
    "Comparison": "judges.dimension",
    "Dimension": "judges.dimension",
    "DimensionError": "judges.dimension",
    "FrozenJudgeError": "judges.frozen",
    "Judge": "judges.judge",
    "Judgement": "judges.judgement",
    "JudgesError": "judges.errors",
    "NoScoreError": "judges.judgement",
    "PairwiseJudge": "judges.modules",
    "Prompt": "judges.prompt",
    "RatingJudge": "judges.modules",
    "SamplingPlan": "judges.scoring",
    "UnknownDimensionError": "judges.dimension",
    "Verdict": "judges.judgement",
    "load": "judges.judge",
    "read_subject": "judges.define",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'judges' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
