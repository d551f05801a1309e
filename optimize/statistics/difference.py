"""The difference between two judges on the same outputs: its paired interval, and its test.

The test swaps the two judges on some documents: were they equally good, the difference would be as
likely with either sign of any document (the paired permutation test of Deutsch et al. 2021,
arXiv:2104.00054). It stays right where few documents differ, which no bootstrap does: three gains
and zeros else are all of one sign in one of eight draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    bootstrap,
)
from optimize.statistics.coefficients import Coefficient, Matrix, Vector, correlate, midranks
from optimize.statistics.levels import (
    PRIMARY,
    Level,
    Rows,
    Undefined,
    counted_values,
    level_statistic,
    read_rows,
)
from optimize.statistics.systems import difference_interval, system_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much better judge A agrees with people than judge B does: `value` = `a` - `b`.

    All from the outputs that both scored; `n_failed` counts those that either gave no score.
    """

    value: float
    a: float
    b: float
    coefficient: Coefficient
    level: Level
    interval: Interval | None
    n_outputs: int
    n_documents: int
    n_failed: int


def paired_difference(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    level: Level = "summary",
    system: ArrayLike | None = None,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Judge A's correlation minus judge B's; both judges see the same drawn documents.

    At system level the interval is for systems like these, too, and wants five of them.
    At summary level both means are over the same documents, those that people do not rate alike;
    with "left_out" each is over that judge's own defined documents. Either way the value is the
    difference of the two figures on the outputs that both scored. Raises ValueError as the three
    levels do, and without `system` at system level.
    """
    a_scores, b_scores = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    if a_scores.shape != b_scores.shape:
        raise ValueError(f"the judges scored {a_scores.shape} and {b_scores.shape} outputs")
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    both = ~(np.isnan(a_scores) | np.isnan(b_scores))
    sides = [
        read_rows(np.where(both, scores, np.nan), human, document, system)
        for scores in (a_scores, b_scores)
    ]
    rows = sides[0]
    once = np.ones((1, rows.n_documents))
    a, b = (level_statistic(side, level, coefficient, undefined) for side in sides)
    values = [float(side(once)[0]) if rows.n_documents else np.nan for side in (a, b)]
    gap = values[0] - values[1]

    def difference(weights: Matrix) -> Vector:
        gaps: Vector = a(weights) - b(weights)
        return gaps

    if level == "system":
        # Both sides get the same chances.
        chance = int(rng.integers(2**63))
        ends_a, ends_b = (
            system_ends(
                side, value, coefficient, np.random.default_rng(chance), resamples, confidence
            )
            for side, value in zip(sides, values, strict=True)
        )
        interval = difference_interval(gap, ends_a, ends_b, confidence)
    else:
        interval = bootstrap(
            difference,
            gap,
            rows.n_documents,
            rng,
            bound=2.0,
            resamples=resamples,
            confidence=confidence,
        )
    return Difference(
        value=gap,
        a=values[0],
        b=values[1],
        coefficient=coefficient,
        level=level,
        interval=interval,
        n_outputs=rows.judge.size,
        n_documents=rows.n_documents,
        n_failed=rows.n_failed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Judge A's rho less judge B's, and what it becomes with the two swapped on some documents.

    `error` is the standard error over documents: at summary and dataset level from what each
    document adds to the difference, at system level the spread of the swapped differences.
    `documents` are those that enter; infinite `error`: fewer than two do.
    """

    value: float
    error: float
    documents: tuple[str, ...]
    _swapped: Callable[[Matrix], Vector]

    def swapped(self, signs: Matrix) -> Vector:
        """The studentised difference of each draw of `signs` (draws, documents), -1: swapped."""
        return self._swapped(signs)


def contrast_judges(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike,
    *,
    level: Level,
) -> Contrast:
    """Compare the Spearman of two judges (`judge_zero`) on the outputs that both scored.

    The difference is that of the two figures at this level. A judge that says one thing of all has
    a rho of 0; where people do, there is no document to compare on.
    """
    a_scores, b_scores = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both = ~(np.isnan(a_scores) | np.isnan(b_scores))
    a, b = (
        read_rows(np.where(both, scores, np.nan), human, document, system)
        for scores in (a_scores, b_scores)
    )
    names = tuple(str(name) for name in np.unique(np.asarray(document)[both]))
    if level == "system":
        return _contrast_systems(a, b, names)
    if level == "dataset":
        terms = _dataset_terms(a) - _dataset_terms(b)
    else:
        (values_a, counted), (values_b, _) = (
            counted_values(rows, "spearman", PRIMARY) for rows in (a, b)
        )
        terms = np.where(counted > 0, values_a - values_b, np.nan)
    return contrast_terms(terms, names)


def contrast_terms(differences: Vector, documents: Sequence[str]) -> Contrast:
    """The mean of one difference a document, of which NaN are left out."""
    there = ~np.isnan(differences)
    d = differences[there]
    n = d.size
    squares = float(d @ d) / max(n, 1)
    least = squares * 1e-12 + 1e-300

    def errors(means: Vector) -> Vector:
        variance: Vector = np.maximum(squares - means**2, least)
        return np.sqrt(variance / (n - 1)) if n > 1 else np.full(means.shape, np.inf)

    def swapped(signs: Matrix) -> Vector:
        means = signs @ d / max(n, 1)
        studentised: Vector = means / errors(means)
        return studentised

    value = float(d.mean()) if n else np.nan
    return Contrast(
        value=value,
        error=float(errors(np.array([value]))[0]) if n else np.inf,
        documents=tuple(np.asarray(documents, dtype=object)[there]),
        _swapped=swapped,
    )


def _dataset_terms(rows: Rows) -> Vector:
    """What each document adds to rho over all outputs, NaN where people say one thing of all.

    Rho and the influence of each document on it (the infinitesimal jackknife): with F and G the
    mid-distribution functions of both sides less a half, rho = E FG / sqrt(E FF E GG), and an
    output moves E FG by FG - E FG and by how it moves F and G under all others. The mean over
    documents is rho.
    """
    n = rows.n_documents
    if rows.human.size < 2 or np.ptp(rows.human) == 0:
        return np.full(n, np.nan)
    if np.ptp(rows.judge) == 0:
        return np.zeros(n)
    f, g = ((midranks(side[None])[0] - 0.5) / side.size - 0.5 for side in (rows.judge, rows.human))
    product, f_square, g_square = ((x * y).mean() for x, y in ((f, g), (f, f), (g, g)))
    rho = product / np.sqrt(f_square * g_square)
    moved = (
        _centred(f * g)
        + _centred(_mean_above(rows.judge, g))
        + _centred(_mean_above(rows.human, f))
    )
    moved_f = _centred(f * f) + 2 * _centred(_mean_above(rows.judge, f))
    moved_g = _centred(g * g) + 2 * _centred(_mean_above(rows.human, g))
    influence = moved / np.sqrt(f_square * g_square) - rho / 2 * (
        moved_f / f_square + moved_g / g_square
    )
    terms: Vector = rho + np.bincount(rows.document, influence, n) * n / influence.size
    return terms


def _centred(values: Vector) -> Vector:
    centred: Vector = values - values.mean()
    return centred


def _mean_above(side: Vector, weights: Vector) -> Vector:
    """For each output, the mean over all of `weights` where `side` is higher, half where equal."""
    order = np.argsort(side, kind="stable")
    ascending, total = side[order], np.concatenate([[0.0], np.cumsum(weights[order])])
    first = total[np.searchsorted(ascending, side, "left")]
    last = total[np.searchsorted(ascending, side, "right")]
    above: Vector = (total[-1] - (first + last) / 2) / side.size
    return above


def _contrast_systems(a: Rows, b: Rows, names: tuple[str, ...]) -> Contrast:
    """Over system means; scores are standardised first, so that swapping mixes like with like."""
    shape = (a.n_documents, a.n_systems)
    counts = np.zeros(shape)
    np.add.at(counts, (a.document, a.system), 1)
    counts = np.maximum(counts.sum(axis=0), 1)

    def added(rows: Rows, values: Vector) -> Matrix:
        """What each document adds to each system's mean."""
        whole = np.zeros(shape)
        np.add.at(whole, (rows.document, rows.system), values)
        means: Matrix = whole / counts
        return means

    human = added(a, a.human).sum(axis=0)
    of_a, of_b = (added(rows, _standardised(rows.judge)) for rows in (a, b))
    middle = (of_a + of_b).sum(axis=0) / 2

    def rho(means: Matrix) -> Vector:
        # To 12 digits, because the order of a sum must not break a tie.
        people = np.broadcast_to(np.round(human, 12), means.shape)
        return np.nan_to_num(correlate(np.round(means, 12), people, "spearman"))

    def difference(signs: Matrix) -> Vector:
        apart = signs @ (of_a - of_b) / 2
        gaps: Vector = rho(middle + apart) - rho(middle - apart)
        return gaps

    n = a.n_documents
    if a.n_systems < 2 or np.ptp(np.round(human, 12)) == 0:
        return contrast_terms(np.empty(0), ())
    error = float(np.sqrt((difference(_balanced_signs(n)) ** 2).mean())) if n > 1 else np.inf
    return Contrast(
        value=float(difference(np.ones((1, n)))[0]),
        error=error,
        documents=names,
        _swapped=lambda signs: difference(signs) / (error or 1.0),
    )


def _standardised(values: Vector) -> Vector:
    spread = values.std() if values.size else 0.0
    standard: Vector = (values - values.mean()) / spread if spread > 0 else np.zeros(values.size)
    return standard


def _balanced_signs(n: int) -> Matrix:
    """Signs for n documents in which every two documents differ as often as not (Hadamard).

    As in balanced repeated replication (McCarthy 1969): of a sum they give the variance exactly.
    """
    from scipy.linalg import hadamard

    signs: Matrix = hadamard(1 << n.bit_length())[:, 1 : n + 1].astype(float)
    return signs
