"""Human labels: types, readers, splits and the starter set."""

from importlib import import_module
from typing import TYPE_CHECKING

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

# As judges.lazy does it, which may not be imported here: labels know nothing of judges.
_HOMES = {
    "data.readers": "check_labels check_pairs read_labels read_pairs starter starter_pairs",
    "data.splits": "By Rated Splits default_by refuse_constant split with_ratings",
    "data.types": "LabelError LabelledOutput LabelledPair LabelledPairs LabelledSet Vote",
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split():
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
