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

# Where each public name lives: it is imported when first used, so that a command starts at once.
_HOMES = {
    "By": "data.splits",
    "LabelError": "data.types",
    "LabelledOutput": "data.types",
    "LabelledPair": "data.types",
    "LabelledPairs": "data.types",
    "LabelledSet": "data.types",
    "Rated": "data.splits",
    "Splits": "data.splits",
    "Vote": "data.types",
    "check_labels": "data.readers",
    "check_pairs": "data.readers",
    "default_by": "data.splits",
    "read_labels": "data.readers",
    "read_pairs": "data.readers",
    "refuse_constant": "data.splits",
    "split": "data.splits",
    "starter": "data.readers",
    "starter_pairs": "data.readers",
    "with_ratings": "data.splits",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'data' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
