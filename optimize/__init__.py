"""Tune judges against human labels and measure them on labels they never saw."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimize.items import annotation_matrix
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

_HOMES = {
    "optimize.items": "annotation_matrix",
    "optimize.measuring.measure": "Measured measure",
    "optimize.rank_optimizer": "RankOptimizer",
    "optimize.run.run_folder": "RunFolderError",
    "optimize.run.settings": "SettingsError",
    "optimize.statistics.agreement": (
        "Correlation dataset_level rank_gaps rank_terms summary_level system_level"
    ),
    "optimize.statistics.bootstrap": "Interval",
    "optimize.statistics.difference": "paired_difference",
    "optimize.statistics.human": (
        "AlternativeTest Ceiling alternative_test human_ceiling krippendorff_alpha"
    ),
    "optimize.tuning": "Run tune",
}


# `judges` is imported when a name is used: `python -m optimize` starts where a user's module hides
# it, and can say so.
def __getattr__(name: str) -> object:
    from judges.lazy import lazy_names

    get_name, _ = lazy_names(__name__, _HOMES)
    return get_name(name)


def __dir__() -> list[str]:
    from judges.lazy import lazy_names

    _, list_names = lazy_names(__name__, _HOMES)
    return list_names()
