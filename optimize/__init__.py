"""Tune judges against human labels and measure them on labels they never saw."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from optimize.flags import SettingsError
    from optimize.items import annotation_matrix
    from optimize.rank_optimizer import RankOptimizer
    from optimize.run.folder import RunFolderError
    from optimize.statistics.correlations import (
        Correlation,
        contrast_judges,
        dataset_level,
        summary_level,
        system_level,
    )
    from optimize.statistics.human import (
        annotator_agreement,
        krippendorff_alpha,
        one_annotator,
        reliability,
    )
    from optimize.statistics.intervals import Contrast, Interval
    from optimize.tuning import Run, tune
    from optimize.verify import Measured, measure

__all__ = [
    "Contrast",
    "Correlation",
    "Interval",
    "Measured",
    "RankOptimizer",
    "Run",
    "RunFolderError",
    "SettingsError",
    "annotation_matrix",
    "annotator_agreement",
    "contrast_judges",
    "dataset_level",
    "krippendorff_alpha",
    "measure",
    "one_annotator",
    "reliability",
    "summary_level",
    "system_level",
    "tune",
]

_HOMES = {
    "optimize.items": "annotation_matrix",
    "optimize.rank_optimizer": "RankOptimizer",
    "optimize.run.folder": "RunFolderError",
    "optimize.flags": "SettingsError",
    "optimize.statistics.correlations": (
        "Correlation contrast_judges dataset_level summary_level system_level"
    ),
    "optimize.statistics.human": (
        "annotator_agreement krippendorff_alpha one_annotator reliability"
    ),
    "optimize.statistics.intervals": "Contrast Interval",
    "optimize.tuning": "Run tune",
    "optimize.verify": "Measured measure",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
