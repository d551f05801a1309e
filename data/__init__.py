"""Human labels: types, readers, splits and the starter set."""

from data.readers import check_labels, check_pairs, read_labels, read_pairs
from data.selection import Rated, with_ratings
from data.shipped import starter, starter_pairs
from data.splits import Splits, default_by, split
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
    "Rated",
    "Splits",
    "Vote",
    "check_labels",
    "check_pairs",
    "default_by",
    "read_labels",
    "read_pairs",
    "split",
    "starter",
    "starter_pairs",
    "with_ratings",
]
