"""Tune judges against human labels, and measure them on labels that were held out."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from dspy_judges.errors import SettingsError as SettingsError
    from optimize.items import annotation_matrix as annotation_matrix
    from optimize.measurement import Measurement as Measurement
    from optimize.measurement import measure as measure
    from optimize.rank_optimizer import RankOptimizer as RankOptimizer
    from optimize.run import Run as Run
    from optimize.run import tune as tune
    from optimize.statistics.contrasts import contrast_judges as contrast_judges
    from optimize.statistics.correlations import Correlation as Correlation
    from optimize.statistics.correlations import dataset_level as dataset_level
    from optimize.statistics.correlations import summary_level as summary_level
    from optimize.statistics.correlations import system_level as system_level
    from optimize.statistics.human import annotator_agreement as annotator_agreement
    from optimize.statistics.human import krippendorff_alpha as krippendorff_alpha
    from optimize.statistics.human import one_annotator as one_annotator
    from optimize.statistics.human import reliability as reliability
    from optimize.statistics.intervals import Contrast as Contrast
    from optimize.statistics.intervals import Interval as Interval
    from optimize.tuning.folder import RunFolderError as RunFolderError

__getattr__, __dir__ = lazy_names(__name__)
