"""Tune judges against human labels and measure them on labels they never saw."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimize.agreement import (
        Correlation,
        dataset_level,
        rank_gaps,
        rank_terms,
        summary_level,
        system_level,
    )
    from optimize.alternative import AlternativeTest, alternative_test
    from optimize.annotations import annotation_matrix
    from optimize.human import Ceiling, human_ceiling, krippendorff_alpha
    from optimize.measuring import Measured, measure
    from optimize.run.run_folder import RunFolderError
    from optimize.run.settings import SettingsError
    from optimize.search.rank import RankOptimizer
    from optimize.statistics.bootstrap import Interval
    from optimize.statistics.difference import paired_difference
    from optimize.tuning import Run, tune

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
    "rank_terms",
    "summary_level",
    "system_level",
    "tune",
]

# Where each public name lives: it is imported when first used, since RankOptimizer needs DSPy.
_HOMES = {
    "AlternativeTest": "optimize.alternative",
    "Ceiling": "optimize.human",
    "Correlation": "optimize.agreement",
    "Interval": "optimize.statistics.bootstrap",
    "Measured": "optimize.measuring",
    "RankOptimizer": "optimize.search.rank",
    "Run": "optimize.tuning",
    "RunFolderError": "optimize.run.run_folder",
    "SettingsError": "optimize.run.settings",
    "alternative_test": "optimize.alternative",
    "annotation_matrix": "optimize.annotations",
    "dataset_level": "optimize.agreement",
    "human_ceiling": "optimize.human",
    "krippendorff_alpha": "optimize.human",
    "measure": "optimize.measuring",
    "paired_difference": "optimize.statistics.difference",
    "rank_gaps": "optimize.agreement",
    "rank_terms": "optimize.agreement",
    "summary_level": "optimize.agreement",
    "system_level": "optimize.agreement",
    "tune": "optimize.tuning",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'optimize' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
