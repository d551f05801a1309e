"""How well people agree with each other, and the judge measured in the very same way.

Each annotator in turn is left out and held against the mean of the others; so is the judge. A judge
compared with everybody's mean instead would have it easier: that mean is less noisy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    bootstrap,
    drawn,
    interval_of,
    ratio_interval,
)
from optimize.statistics.coefficients import Coefficient, Matrix, Vector
from optimize.statistics.levels import (
    PRIMARY,
    Level,
    Statistic,
    Undefined,
    counted_values,
    level_statistic,
    read_rows,
)

Mask = NDArray[np.bool_]
Comparer = Callable[[Vector, Vector, Mask], Statistic]
# Rhos of fewer documents than these say nothing of how well people agree.
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One annotator against the mean of the others, and the judge against that same mean.

    `bias` is how much higher than the others they rate. `outlying`: they agree less with the others
    than the rest do with theirs, by an interval wholly below 0 (one in twenty by chance, over all).
    At summary level the same `n_documents` enter both means, those that the others do not rate
    alike; in `n_defined` of them the annotator tells outputs apart, too, and has a rho.
    """

    annotator: int
    value: float
    judge: float
    bias: float
    n_outputs: int
    n_documents: int
    n_defined: int
    outlying: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The human ceiling and the judge under it, both averaged over the annotators left out.

    `share` is judge / human, the share of the ceiling that the judge reaches. Where figures would
    mislead they are NaN, and `why` says what is missing: all of them where too few documents have
    a rho, the share alone where the ceiling's own interval reaches 0. `n_documents` enter a mean,
    in `n_defined` of them an annotator and the others both tell outputs apart, so that there is a
    rho among people. `n_outputs` have two ratings or more and a score; `n_failed` more have none.
    """

    human: float
    human_interval: Interval | None
    judge: float
    judge_interval: Interval | None
    share: float
    share_interval: Interval | None
    coefficient: Coefficient
    level: Level
    left_out: tuple[LeftOut, ...]
    n_outputs: int
    n_documents: int
    n_defined: int
    n_failed: int
    undefined: Undefined = PRIMARY
    why: str = ""


def others_mean(annotations: Matrix, annotator: int) -> Vector:
    """The mean rating of all but one annotator; NaN where nobody else rated an output."""
    others = np.delete(annotations, annotator, axis=1)
    n = (~np.isnan(others)).sum(axis=1)
    # Rounded, because the order of a sum must not break a tie.
    means = np.round(np.nansum(others, axis=1) / np.maximum(n, 1), 10)
    return np.where(n > 0, means, np.nan)


def human_ceiling(
    judge: ArrayLike,
    annotations: ArrayLike,
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "summary",
    system: ArrayLike | None = None,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    fewest_documents: int = FEWEST_DOCUMENTS,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Ceiling:
    """Leave one annotator out; `annotations` is (outputs, annotators), NaN where unrated.

    Both sides use the outputs that the annotator, somebody else and the judge all scored, and the
    same convention on the same documents: one that the others rate alike is left out, one that the
    annotator (or the judge) rates alike counts 0. With fewer than `fewest_documents` that have a
    rho there is no ceiling. The share's interval is Fieller's. Raises ValueError with fewer than
    two annotators or where no output has two ratings. At system level the intervals are for these
    very systems.
    """
    marks, scores = np.asarray(annotations, dtype=float), np.asarray(judge, dtype=float)
    if marks.ndim != 2 or marks.shape[1] < 2 or marks.shape[0] != scores.size:
        raise ValueError(
            f"annotations of shape {marks.shape} for {scores.size} outputs: a row an output and "
            "two annotators or more are needed"
        )
    twice = (~np.isnan(marks)).sum(axis=1) > 1
    kept = twice & ~np.isnan(scores)
    if not kept.any():
        raise ValueError("no output was rated by two annotators and scored by the judge")
    documents, systems = np.asarray(document)[kept], None if system is None else np.asarray(system)
    systems = None if systems is None else systems[kept]
    compare = _comparer(documents, systems, level, coefficient, undefined)
    lone = (_leave_out(marks[kept], scores[kept], k, compare) for k in range(marks.shape[1]))
    without = [one for one in lone if one is not None]
    people, judges = [one.person for one in without], [one.judge for one in without]
    codes = np.unique(documents, return_inverse=True)[1]
    n = int(codes.max()) + 1
    entered = [_documents(one, marks[kept], codes, level, undefined) for one in without]
    n_documents, n_defined = (len(set().union(*side)) for side in zip(*entered, strict=True))
    once = np.ones((1, n))

    def both(weights: Matrix) -> Matrix:
        return np.stack([_mean(people, weights), _mean(judges, weights)], axis=1)

    human, judged = both(once)[0].tolist()
    draws = drawn(both, n, resamples, rng)
    human_interval, judge_interval = (
        interval_of(side, value, n, confidence=confidence)
        for side, value in zip(draws.T, (human, judged), strict=True)
    )
    share = judged / human if human > 0 else np.nan
    share_interval = ratio_interval(draws[:, 1], draws[:, 0], share, human, n, confidence)
    why = ""
    if n_defined < fewest_documents:
        why = (
            f"annotators and others both tell outputs apart in {n_defined} of {n} documents, and "
            f"{fewest_documents} are needed for a ceiling"
        )
        human, judged, human_interval, judge_interval = np.nan, np.nan, None, None
    elif share_interval is None:
        why = "people's own agreement cannot be told from 0, so there is no share of it"
    if why:
        share, share_interval = np.nan, None
    return Ceiling(
        human=human,
        human_interval=human_interval,
        judge=judged,
        judge_interval=judge_interval,
        share=share,
        share_interval=share_interval,
        coefficient=coefficient,
        level=level,
        left_out=tuple(
            LeftOut(
                annotator=one.annotator,
                value=float(one.person(once)[0]),
                judge=float(one.judge(once)[0]),
                bias=one.bias,
                n_outputs=int(one.usable.sum()),
                n_documents=len(entered[k][0]),
                n_defined=len(entered[k][1]),
                outlying=_outlying(people, k, n, rng, resamples),
            )
            for k, one in enumerate(without)
        ),
        n_outputs=int(kept.sum()),
        n_documents=n_documents,
        n_defined=n_defined,
        n_failed=int((twice & np.isnan(scores)).sum()),
        undefined=undefined,
        why=why,
    )


def _documents(
    one: "_Without", marks: Matrix, codes: NDArray[np.intp], level: Level, undefined: Undefined
) -> tuple[set[int], set[int]]:
    """Documents that enter this annotator's mean, and those of them that have a rho."""
    present = np.unique(codes[one.usable])
    if level != "summary":
        # One coefficient over all.
        return set(present.tolist()), set(present.tolist())
    others = others_mean(marks, one.annotator)
    rows = read_rows(marks[one.usable, one.annotator], others[one.usable], codes[one.usable])
    entered, defined = (
        counted_values(rows, "spearman", how)[1] > 0 for how in (undefined, "left_out")
    )
    return set(present[entered].tolist()), set(present[defined].tolist())


def krippendorff_alpha(
    annotations: ArrayLike,
    level_of_measurement: Literal["nominal", "ordinal", "interval", "ratio"] = "interval",
) -> float:
    """Krippendorff's alpha of (outputs, annotators); NaN where it does not exist.

    It does not where no output has two ratings, or all ratings are equal.
    """
    import krippendorff

    marks = np.asarray(annotations, dtype=float)
    paired = marks[(~np.isnan(marks)).sum(axis=1) > 1]
    if paired.size == 0 or np.nanmax(paired) == np.nanmin(paired):
        return np.nan
    return float(krippendorff.alpha(paired.T, level_of_measurement=level_of_measurement))


@dataclass(frozen=True, slots=True)
class _Without:
    """What leaving out one annotator gives: their statistic, the judge's, and on which outputs."""

    annotator: int
    person: Statistic
    judge: Statistic
    bias: float
    usable: Mask


def _leave_out(marks: Matrix, scores: Vector, annotator: int, compare: Comparer) -> _Without | None:
    others = others_mean(marks, annotator)
    usable = ~np.isnan(marks[:, annotator] + others + scores)
    if not usable.any():
        return None
    return _Without(
        annotator=annotator,
        person=compare(marks[usable, annotator], others[usable], usable),
        judge=compare(scores[usable], others[usable], usable),
        bias=float((marks[:, annotator] - others)[usable].mean()),
        usable=usable,
    )


def _comparer(
    document: np.ndarray,
    system: np.ndarray | None,
    level: Level,
    coefficient: Coefficient,
    undefined: Undefined,
) -> Comparer:
    """Make statistics over some outputs that all take weights for all documents."""
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    codes = np.unique(document, return_inverse=True)[1]

    def compare(scores: Vector, others: Vector, usable: Mask) -> Statistic:
        of = None if system is None else system[usable]
        present = np.unique(codes[usable])
        rows = read_rows(scores, others, codes[usable], of)
        statistic = level_statistic(rows, level, coefficient, undefined)
        return lambda weights: statistic(weights[:, present])

    return compare


def _outlying(
    people: list[Statistic], one: int, n: int, rng: np.random.Generator, resamples: int
) -> bool:
    rest = people[:one] + people[one + 1 :]
    if len(rest) < 2:
        return False

    def gap(weights: Matrix) -> Vector:
        difference: Vector = people[one](weights) - _mean(rest, weights)
        return difference

    value = float(gap(np.ones((1, n)))[0])
    # Every annotator is tried, one-sided: Bonferroni.
    confidence = 1 - 2 * 0.05 / len(people)
    found = bootstrap(gap, value, n, rng, bound=2.0, resamples=resamples, confidence=confidence)
    return found is not None and found.high < 0


def _mean(statistics: list[Statistic], weights: Matrix) -> Vector:
    values = np.stack([statistic(weights) for statistic in statistics])
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    return np.where(n > 0, np.where(known, values, 0).sum(axis=0) / np.maximum(n, 1), np.nan)
