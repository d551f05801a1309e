"""Tune judges against human labels and measure them on labels they never saw."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimize.annotations import annotation_matrix
    from optimize.measuring.measure import Measured, measure
    from optimize.rank_optimizer import RankOptimizer
    from optimize.run.run_folder import RunFolderError
    from optimize.run.settings import SettingsError
    from optimize.statistics.agreement import (
        Correlation,
        dataset_level,
        rank_gaps,
        rank_terms,
        summary_level,
        system_level,
    )
    from optimize.statistics.bootstrap import Interval
    from optimize.statistics.difference import paired_difference
    from optimize.statistics.human import (
        AlternativeTest,
        Ceiling,
        alternative_test,
        human_ceiling,
        krippendorff_alpha,
    )
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
    "AlternativeTest": "optimize.statistics.human",
    "Ceiling": "optimize.statistics.human",
    "Correlation": "optimize.statistics.agreement",
    "Interval": "optimize.statistics.bootstrap",
    "Measured": "optimize.measuring.measure",
    "RankOptimizer": "optimize.rank_optimizer",
    "Run": "optimize.tuning",
    "RunFolderError": "optimize.run.run_folder",
    "SettingsError": "optimize.run.settings",
    "alternative_test": "optimize.statistics.human",
    "annotation_matrix": "optimize.annotations",
    "dataset_level": "optimize.statistics.agreement",
    "human_ceiling": "optimize.statistics.human",
    "krippendorff_alpha": "optimize.statistics.human",
    "measure": "optimize.measuring.measure",
    "paired_difference": "optimize.statistics.difference",
    "rank_gaps": "optimize.statistics.agreement",
    "rank_terms": "optimize.statistics.agreement",
    "summary_level": "optimize.statistics.agreement",
    "system_level": "optimize.statistics.agreement",
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
