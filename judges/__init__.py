"""Define, run, freeze and load judges."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from dspy_judges.errors import JudgesError as JudgesError
    from judges.dimension import Comparison as Comparison
    from judges.dimension import Dimension as Dimension
    from judges.dimension import DimensionError as DimensionError
    from judges.dimension import UnknownDimensionError as UnknownDimensionError
    from judges.frozen import FrozenJudgeError as FrozenJudgeError
    from judges.judge import Judge as Judge
    from judges.judgement import Judgement as Judgement
    from judges.judgement import NoScoreError as NoScoreError
    from judges.judgement import Preference as Preference
    from judges.loading import load as load
    from judges.loading import read_subject as read_subject
    from judges.modules import PairwiseJudge as PairwiseJudge
    from judges.modules import RatingJudge as RatingJudge
    from judges.modules import VerdictJudge as VerdictJudge
    from judges.panel import Member as Member
    from judges.panel import Panel as Panel
    from judges.panel import PanelError as PanelError
    from judges.questions import AnswerWeights as AnswerWeights
    from judges.questions import Question as Question
    from judges.questions import QuestionError as QuestionError
    from judges.scoring import SamplingPlan as SamplingPlan

__getattr__, __dir__ = lazy_names(__name__)
