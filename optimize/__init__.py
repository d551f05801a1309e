"""Tune judges against human labels and measure them on labels they never saw."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from optimize.items import annotation_matrix
    from optimize.rank_optimizer import RankOptimizer
    from optimize.run.run_folder import RunFolderError
    from optimize.run.settings import SettingsError
    from optimize.statistics.agreement import (
        Correlation,
        dataset_level,
        rank_gaps,
        summary_level,
        system_level,
    )
    from optimize.statistics.bootstrap import Interval
    from optimize.statistics.ceiling import (
        AlternativeTest,
        Ceiling,
        alternative_test,
        human_ceiling,
        krippendorff_alpha,
    )
    from optimize.statistics.difference import paired_difference
    from optimize.tuning import Run, tune
    from optimize.verify import Measured, measure

__all__ = [
    "AlternativeTest",
    "Ceiling",
    "Correlation",
    "Interval",
    "Measured",
    "RankOptimizer",
    "Run",
    "RunFolderError",
    "SettingsError",
    "alternative_test",
    "annotation_matrix",
    "dataset_level",
    "human_ceiling",
    "krippendorff_alpha",
    "measure",
    "paired_difference",
    "rank_gaps",
    "summary_level",
    "system_level",
    "tune",
]

_HOMES = {
    "optimize.items": "annotation_matrix",
    "optimize.verify": "Measured measure",
    "optimize.rank_optimizer": "RankOptimizer",
    "optimize.run.run_folder": "RunFolderError",
    "optimize.run.settings": "SettingsError",
    "optimize.statistics.agreement": (
        "Correlation dataset_level rank_gaps summary_level system_level"
    ),
    "optimize.statistics.bootstrap": "Interval",
    "optimize.statistics.difference": "paired_difference",
    "optimize.statistics.ceiling": (
        "AlternativeTest Ceiling alternative_test human_ceiling krippendorff_alpha"
    ),
    "optimize.tuning": "Run tune",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
