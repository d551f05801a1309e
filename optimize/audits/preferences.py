"""What else moves a judge's scores: other qualities, length, where a text came from.

A judge that likes long outputs is not at fault if people like them as much. So every preference is
the judge's minus people's, on the same outputs, with the paired interval over documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.agreement import dataset_level, summary_level
from optimize.statistics.bootstrap import RESAMPLES
from optimize.statistics.coefficients import Coefficient, Matrix
from optimize.statistics.difference import Difference, paired_difference
from optimize.statistics.levels import PRIMARY, Level, Undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Discriminant:
    """Judges' dimensions (rows) against people's (columns), and people's among themselves.

    `halo` lists the judges that agree more with people on another dimension than on their own, by
    an interval wholly above 0 (each of the others tried): such a judge measures something else, or
    overall quality. NaN where undefined.
    """

    judges: tuple[str, ...]
    people: tuple[str, ...]
    values: Matrix
    among_people: Matrix
    halo: tuple[str, ...]
    coefficient: Coefficient
    level: Level
    n_outputs: int
    n_documents: int


def discriminant(
    judges: Mapping[str, ArrayLike],
    people: Mapping[str, ArrayLike],
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "summary",
    coefficient: Coefficient = "spearman",
    resamples: int = RESAMPLES,
) -> Discriminant:
    """Every judge against every human dimension, within documents or over all outputs."""

    def value(scores: ArrayLike, ratings: ArrayLike, undefined: Undefined = PRIMARY) -> float:
        if level == "dataset":
            return dataset_level(
                scores, ratings, coefficient=coefficient, undefined=undefined
            ).value
        return summary_level(
            scores, ratings, document, coefficient=coefficient, undefined=undefined
        ).value

    def measures_another(own: str, rival: str) -> bool:
        # The judge stands where people do elsewhere, and two of people's dimensions for judges.
        scores = np.asarray(judges[own], dtype=float)
        scored = ~np.isnan(scores)
        difference = paired_difference(
            np.asarray(people[rival], dtype=float)[scored],
            np.asarray(people[own], dtype=float)[scored],
            scores[scored],
            np.asarray(document)[scored],
            level=level,
            coefficient=coefficient,
            # The sides have changed places, and this convention knows no sides.
            undefined="left_out",
            rng=rng,
            resamples=resamples,
            # Every other dimension is tried, one-sided: Bonferroni.
            confidence=1 - 2 * 0.05 / (len(people) - 1),
        )
        return difference.interval is not None and difference.interval.low > 0

    values = np.array(
        [[value(scores, human) for human in people.values()] for scores in judges.values()]
    )
    # Neither of people's dimensions is the judge, so that documents alike in either are left out.
    among = np.array([[value(a, b, "left_out") for b in people.values()] for a in people.values()])
    columns = tuple(people)
    halo = tuple(
        name
        for row, name in zip(values, judges, strict=True)
        if name in columns
        and any(
            row[place] > row[columns.index(name)] and measures_another(name, rival)
            for place, rival in enumerate(columns)
        )
    )
    return Discriminant(
        judges=tuple(judges),
        people=columns,
        values=values,
        among_people=among,
        halo=halo,
        coefficient=coefficient,
        level=level,
        n_outputs=np.asarray(document).size,
        n_documents=np.unique(np.asarray(document)).size,
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
