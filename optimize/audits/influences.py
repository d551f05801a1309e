"""What else moves a judge's scores: other qualities, length, where a text came from, its place.

A judge that likes long outputs is not at fault if people like them as much. So every preference is
the judge's minus people's, on the same outputs, with the paired interval over documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judges.winrate import share_interval
from optimize.agreement import dataset_level, summary_level
from optimize.statistics.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap
from optimize.statistics.coefficients import Coefficient, Matrix, Vector
from optimize.statistics.difference import paired_difference
from optimize.statistics.levels import PRIMARY, Level, Undefined, read_rows


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The judge's correlation with a feature of outputs minus people's; above 0: it favours it."""

    value: float
    judge: float
    human: float
    interval: Interval | None
    level: Level
    n_outputs: int
    n_documents: int
    n_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share in [0, 1] with its interval over documents."""

    value: float
    interval: Interval | None
    n: int
    n_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How far attacked outputs score above the same outputs unattacked.

    `raised` is the share whose score rose; `n_failed` lacks one of the two scores.
    """

    mean: float
    interval: Interval | None
    raised: float
    n_outputs: int
    n_failed: int


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
            found = dataset_level(scores, ratings, coefficient=coefficient, undefined=undefined)
        else:
            found = summary_level(
                scores, ratings, document, coefficient=coefficient, undefined=undefined
            )
        return found.value

    def measures_another(own: str, rival: str) -> bool:
        # The judge stands where people do elsewhere, and two of people's dimensions for judges.
        scores = np.asarray(judges[own], dtype=float)
        kept = ~np.isnan(scores)
        found = paired_difference(
            np.asarray(people[rival], dtype=float)[kept],
            np.asarray(people[own], dtype=float)[kept],
            scores[kept],
            np.asarray(document)[kept],
            level=level,
            coefficient=coefficient,
            # The sides have changed places, and this convention knows no sides.
            undefined="left_out",
            rng=rng,
            resamples=resamples,
            # Every other dimension is tried, one-sided: Bonferroni.
            confidence=1 - 2 * 0.05 / (len(people) - 1),
        )
        return found.interval is not None and found.interval.low > 0

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
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Preference:
    """Does the judge favour a feature beyond what people do? A length, or 1 and 0 for a kind.

    For kinds give 1 for extractive (or machine-written) outputs and 0 for others. Documents whose
    outputs do not differ in the feature are left out.
    """
    found = paired_difference(
        judge,
        human,
        feature,
        document,
        level=level,
        rng=rng,
        resamples=resamples,
        confidence=confidence,
    )
    return Preference(
        value=found.value,
        judge=found.a,
        human=found.b,
        interval=found.interval,
        level=found.level,
        n_outputs=found.n_outputs,
        n_documents=found.n_documents,
        n_failed=found.n_failed,
    )


def position_preference(first_preferred: ArrayLike, document: ArrayLike) -> Share:
    """How often the output shown first is preferred: 1, 0, 0.5 for a tie, NaN for a failure.

    Meaningful where each pair was asked in both orders or in an order drawn at random: then a judge
    without a preference for a place has 0.5.
    """
    rows = read_rows(first_preferred, np.zeros(np.asarray(document).size), document)
    low, high = share_interval(rows.judge, rows.document.tolist())
    return Share(
        value=float(rows.judge.mean()) if rows.judge.size else np.nan,
        interval=None if np.isnan(low) else Interval(low, high),
        n=rows.judge.size,
        n_failed=rows.n_failed,
    )


def shift(
    clean: ArrayLike,
    attacked: ArrayLike,
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Shift:
    """Mean of attacked minus clean scores, over outputs that have both."""
    gaps = np.asarray(attacked, dtype=float) - np.asarray(clean, dtype=float)
    rows = read_rows(gaps, np.zeros(gaps.size), document)
    value, interval = _mean(rows.judge, rows.document, rng, resamples, confidence)
    return Shift(
        mean=value,
        interval=interval,
        raised=float((rows.judge > 0).mean()) if rows.judge.size else np.nan,
        n_outputs=rows.judge.size,
        n_failed=rows.n_failed,
    )


def _mean(
    values: Vector,
    document: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> tuple[float, Interval | None]:
    """A mean over outputs and its interval over documents."""
    if not values.size:
        return np.nan, None
    sums, counts = np.bincount(document, values), np.bincount(document).astype(float)
    value = float(values.mean())
    interval = bootstrap(
        lambda weights: (weights @ sums) / (weights @ counts),
        value,
        counts.size,
        rng,
        bound=np.inf,
        resamples=resamples,
        confidence=confidence,
    )
    return value, interval
