"""What else moves a judge's scores: other qualities, length, where a text came from.

A judge that likes long outputs is not at fault if people like them as much. So every preference is
the judge's minus people's, on the same outputs, with the paired interval over documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.agreement import dataset_level, summary_level
from optimize.statistics.difference import Difference, paired_difference
from optimize.statistics.levels import PRIMARY, Level, Undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Discriminant:
    """A judge's rho with each of people's dimensions, and that of its own one among people.

    `halo`: it agrees more with people on another dimension than on its own, by an interval wholly
    above 0 (each of the others tried): it measures something else, or overall quality. NaN where
    undefined.
    """

    own: str
    with_judge: Mapping[str, float]
    among_people: Mapping[str, float]
    halo: bool
    level: Level
    n_outputs: int
    n_documents: int


def discriminant(
    judge: ArrayLike,
    own: str,
    human: Mapping[str, ArrayLike],
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "summary",
) -> Discriminant:
    """The judge of the dimension `own` against all of people's, within documents or over all."""
    scores, documents = np.asarray(judge, dtype=float), np.asarray(document)
    ratings = {name: np.asarray(values, dtype=float) for name, values in human.items()}
    scored = ~np.isnan(scores)

    def rho(a: ArrayLike, b: ArrayLike, undefined: Undefined = PRIMARY) -> float:
        if level == "dataset":
            return dataset_level(a, b, undefined=undefined).value
        return summary_level(a, b, documents, undefined=undefined).value

    def agrees_more_with(rival: str) -> bool:
        """Whether the judge agrees with `rival` more than with its own dimension, beyond chance."""
        # Two judges are compared by what people say: here two of people's dimensions take the
        # judges' part, and the judge people's.
        difference = paired_difference(
            ratings[rival][scored],
            ratings[own][scored],
            scores[scored],
            documents[scored],
            level=level,
            # The sides have changed places, and this convention knows no sides.
            undefined="left_out",
            rng=rng,
            # Every other dimension is tried, one-sided: Bonferroni.
            confidence=1 - 2 * 0.05 / (len(human) - 1),
        )
        return difference.interval is not None and difference.interval.low > 0

    with_judge = {name: rho(scores, values) for name, values in ratings.items()}
    return Discriminant(
        own=own,
        with_judge=with_judge,
        # Neither of people's dimensions is the judge, so that documents alike in either are left
        # out.
        among_people={
            name: rho(ratings[own], values, "left_out") for name, values in ratings.items()
        },
        halo=any(
            with_judge[name] > with_judge[own] and agrees_more_with(name) for name in with_judge
        ),
        level=level,
        n_outputs=documents.size,
        n_documents=np.unique(documents).size,
    )


def preference(
    judge: ArrayLike,
    human: ArrayLike,
    feature: ArrayLike,
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "summary",
) -> Difference:
    """Does the judge favour a feature beyond what people do? A length, or 1 and 0 for a kind.

    The judge's correlation with the feature (`a`) minus people's (`b`). For kinds give 1 for
    extractive (or machine-written) outputs and 0 for others. Documents whose outputs do not differ
    in the feature are left out.
    """
    return paired_difference(judge, human, feature, document, level=level, rng=rng)
