"""Human labels: types, readers, splits and the starter set."""

from data.readers import read_labels, read_pairs, starter, starter_pairs
from data.splits import Splits, split, with_ratings
from data.types import LabelError, LabelledOutput, LabelledPair, LabelledPairs, LabelledSet, Vote

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
