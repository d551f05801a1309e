"""Human labels: types, readers, splits and the starter set."""

from typing import TYPE_CHECKING

from dspy_judges.lazy import lazy_names

if TYPE_CHECKING:
    from data.readers import read_labels, read_pairs, starter, starter_pairs
    from data.splits import Splits, split, with_ratings
    from data.types import (
        LabelError,
        LabelledOutput,
        LabelledPair,
        LabelledPairs,
        LabelledSet,
        Vote,
    )

__all__ = [
    "LabelError",
    "LabelledOutput",
    "LabelledPair",
    "LabelledPairs",
    "LabelledSet",
    "Splits",
    "Vote",
    "read_labels",
    "read_pairs",
    "split",
    "starter",
    "starter_pairs",
    "with_ratings",
]

_HOMES = {
    "data.readers": "read_labels read_pairs starter starter_pairs",
    "data.splits": "Splits split with_ratings",
    "data.types": "LabelError LabelledOutput LabelledPair LabelledPairs LabelledSet Vote",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
