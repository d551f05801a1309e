"""The set-level objective of a search, on a split's items: the level functions' own figures.

Every figure is the primary convention's (`judge_zero`): a document that people rate alike is left
out, one on which the judge says one thing counts 0, a failed output is missing. Two judges are
compared on the outputs that both scored, so that failing on hard ones earns nothing.
"""

import numpy as np

from optimize.items import Items, Vector
from optimize.search.choices import LEVELS as LEVELS
from optimize.search.choices import Level as Level
from optimize.statistics.correlations import contrast_judges, rho
from optimize.statistics.intervals import Contrast

OUTPUTS_FOR_SUMMARY_LEVEL = 3
# With fewer documents that have a rho than this share, summary level would rest on the odd ones.
SHARE_FOR_SUMMARY_LEVEL = 0.5


def choose_level(items: Items) -> Level:
    """Summary where documents have three outputs or more on average and most have a rho.

    A document that people rate alike has none. Else dataset.
    """
    documents = max(1, len(items.documents))
    varied = sum(np.ptp(items.human[rows]) > 0 for rows in items.places.values())
    several = len(items) / documents >= OUTPUTS_FOR_SUMMARY_LEVEL
    return "summary" if several and varied > SHARE_FOR_SUMMARY_LEVEL * documents else "dataset"


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels that labels have, the most telling first."""
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)


def informative_documents(items: Items, level: Level) -> tuple[str, ...]:
    """The documents that can tell judges apart: at summary level, those people do not rate alike.

    All of them where there is none, so that a search ends for another reason.
    """
    if level != "summary":
        return items.documents
    varied = [name for name, rows in items.places.items() if np.ptp(items.human[rows]) > 0]
    return tuple(varied) or items.documents


def objective(scores: Vector, items: Items, level: Level) -> float:
    """The level's Spearman rho, as `optimize.summary_level` and its like; NaN where undefined."""
    return rho(level, scores, items.human, items.document_ids, items.system_ids)


def contrast(scores: Vector, base: Vector, items: Items, level: Level) -> Contrast:
    """How much better the scores rank the items than `base` does, where both have a score."""
    return contrast_judges(
        scores, base, items.human, items.document_ids, items.system_ids, level=level
    )
