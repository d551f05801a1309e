"""Human labels: types, readers, splits and the starter set."""

from data.readers import check_labels, check_pairs, read_labels, read_pairs
from data.selection import Rated, refuse_constant, with_ratings
from data.shipped import starter, starter_pairs
from data.splits import By, Splits, default_by, split
from data.types import (
    LabelError,
    LabelledOutput,
    LabelledPair,
    LabelledPairs,
    LabelledSet,
    Vote,
)

__all__ = [
    "By",
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
    "refuse_constant",
    "split",
    "starter",
    "starter_pairs",
    "with_ratings",
]
