"""Human labels: types, readers, splits and the starter set."""

from typing import TYPE_CHECKING

from dspy_judges.libraries import lazy_names

if TYPE_CHECKING:
    from data.readers import (
        check_labels,
        check_pairs,
        read_labels,
        read_pairs,
        starter,
        starter_pairs,
    )
    from data.splits import By, Rated, Splits, default_by, refuse_constant, split, with_ratings
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

_HOMES = {
    "data.readers": "check_labels check_pairs read_labels read_pairs starter starter_pairs",
    "data.splits": "By Rated Splits default_by refuse_constant split with_ratings",
    "data.types": "LabelError LabelledOutput LabelledPair LabelledPairs LabelledSet Vote",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
