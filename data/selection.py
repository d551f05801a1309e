"""Choose the outputs a dimension can be judged on, and say how many are left out."""

from dataclasses import dataclass, replace

from data.problems import listed
from data.types import LabelError, LabelledSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """The outputs with a rating on a dimension, and how many have none."""

    labelled: LabelledSet
    n_left_out: int


def with_ratings(labelled: LabelledSet, dimension: str) -> Rated:
    """Return the outputs rated on `dimension`; LabelError where there are none."""
    rated = tuple(output for output in labelled.outputs if output.ratings.get(dimension))
    if not rated:
        known = listed(labelled.dimensions)
        raise LabelError(
            f"{labelled.name}: no output is rated on {dimension!r}, only on {known}; "
            f"name the column that has it with --map {dimension}=COLUMN, or the key inside ratings "
            f"with --map {dimension}=ratings.KEY"
        )
    left_out = len(labelled.outputs) - len(rated)
    return Rated(labelled=replace(labelled, outputs=rated), n_left_out=left_out)


def refuse_constant(labelled: LabelledSet, dimension: str) -> None:
    """Raise LabelError where every rating on `dimension` is the same: nothing to rank by."""
    if is_constant(labelled, dimension):
        value = next(one.rating(dimension) for one in labelled.outputs if dimension in one.ratings)
        raise LabelError(
            f"{labelled.name}: every rating on {dimension!r} is {value:g}, so people rank nothing "
            "and no judge can agree with them; give outputs they rated differently"
        )


def is_constant(labelled: LabelledSet, dimension: str) -> bool:
    """Whether there are ratings on `dimension` and all are the same."""
    rated = (one for one in labelled.outputs if dimension in one.ratings)
    return len({one.rating(dimension) for one in rated}) == 1
