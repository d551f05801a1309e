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

from optimize.statistics.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap
from optimize.statistics.coefficients import Coefficient, Matrix, Vector, correlate, midranks
from optimize.statistics.levels import (
    PRIMARY,
    Level,
    Rows,
    Undefined,
    document_values,
    is_zero_by_convention,
    level_statistic,
    read_rows,
    system_sums,
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

    At system level the interval is for systems like these, too, and wants five of them; there is
    none where one judge's means are all equal.
    At summary level both means are over the same documents, those that people do not rate alike;
    with "left_out" each is over that judge's own defined documents. Either way the value is the
    difference of the two figures on the outputs that both scored. Raises ValueError as the three
    levels do, and without `system` at system level.
    """
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    rows_a, rows_b = _rows_of_both(judge_a, judge_b, human, document, system)
    n = rows_a.n_documents
    statistic_a, statistic_b = (
        level_statistic(rows, level, coefficient, undefined) for rows in (rows_a, rows_b)
    )
    a, b = (
        float(statistic(np.ones((1, n)))[0]) if n else np.nan
        for statistic in (statistic_a, statistic_b)
    )
    if level == "system":
        # Both judges get the same chances.
        chance = int(rng.integers(2**63))
        ends_a, ends_b = (
            None
            if is_zero_by_convention(rows, level, undefined)
            else system_ends(
                rows, value, coefficient, np.random.default_rng(chance), resamples, confidence
            )
            for rows, value in ((rows_a, a), (rows_b, b))
        )
        interval = difference_interval(a - b, ends_a, ends_b, confidence)
    else:
        interval = bootstrap(
            lambda weights: statistic_a(weights) - statistic_b(weights),
            a - b,
            n,
            rng,
            bound=2.0,
            resamples=resamples,
            confidence=confidence,
        )
    return Difference(
        value=a - b,
        a=a,
        b=b,
        coefficient=coefficient,
        level=level,
        interval=interval,
        n_outputs=rows_a.judge.size,
        n_documents=n,
        n_failed=rows_a.n_failed,
    )


def _rows_of_both(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike | None,
) -> tuple[Rows, Rows]:
    """Either judge's rows, of the outputs that both scored."""
    a, b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    if a.shape != b.shape:
        raise ValueError(f"the judges scored {a.shape} and {b.shape} outputs")
    failed = np.isnan(a) | np.isnan(b)
    rows_a, rows_b = (
        read_rows(np.where(failed, np.nan, scores), human, document, system) for scores in (a, b)
    )
    return rows_a, rows_b


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Judge A's rho less judge B's, and what it becomes with the two swapped on some documents.

    `error` is the standard error over documents: at summary and dataset level from what each
    document adds to the difference, at system level the SD of the swapped differences.
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
    a, b = _rows_of_both(judge_a, judge_b, human, document, system)
    scored = ~(np.isnan(np.asarray(judge_a, dtype=float) + np.asarray(judge_b, dtype=float)))
    names = tuple(str(name) for name in np.unique(np.asarray(document)[scored]))
    if level == "system":
        return _contrast_systems(a, b, names)
    if level == "dataset":
        return mean_of_differences(_dataset_terms(a) - _dataset_terms(b), names)
    values_a, values_b = (document_values(rows, "spearman", PRIMARY) for rows in (a, b))
    return mean_of_differences(values_a - values_b, names)


def mean_of_differences(differences: Vector, documents: Sequence[str]) -> Contrast:
    """The mean of the documents' differences (one each; NaN are left out), with its test.

    The test statistic is the studentised mean under random flips of the differences' signs.
    """
    defined = ~np.isnan(differences)
    terms = differences[defined]
    n = terms.size
    mean_square = float(terms @ terms) / max(n, 1)
    min_variance = mean_square * 1e-12 + 1e-300

    def errors(means: Vector) -> Vector:
        variance: Vector = np.maximum(mean_square - means**2, min_variance)
        return np.sqrt(variance / (n - 1)) if n > 1 else np.full(means.shape, np.inf)

    def swapped(signs: Matrix) -> Vector:
        means = signs @ terms / max(n, 1)
        studentised: Vector = means / errors(means)
        return studentised

    value = float(terms.mean()) if n else np.nan
    return Contrast(
        value=value,
        error=float(errors(np.array([value]))[0]) if n else np.inf,
        documents=tuple(np.asarray(documents, dtype=object)[defined]),
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
    on_product = (
        _centred(f * g)
        + _centred(_mean_above(rows.judge, g))
        + _centred(_mean_above(rows.human, f))
    )
    on_f_square = _centred(f * f) + 2 * _centred(_mean_above(rows.judge, f))
    on_g_square = _centred(g * g) + 2 * _centred(_mean_above(rows.human, g))
    influence = on_product / np.sqrt(f_square * g_square) - rho / 2 * (
        on_f_square / f_square + on_g_square / g_square
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
    n_outputs = np.bincount(a.system, minlength=a.n_systems)
    # What each document adds to each system's mean.
    added_a, added_b = (system_sums(rows, _standardised(rows.judge)) / n_outputs for rows in (a, b))
    human = (system_sums(a, a.human) / n_outputs).sum(axis=0)
    mean = (added_a + added_b).sum(axis=0) / 2

    def rho(means: Matrix) -> Vector:
        # To 12 digits, because the order of a sum must not break a tie.
        human_means = np.broadcast_to(np.round(human, 12), means.shape)
        return np.nan_to_num(correlate(np.round(means, 12), human_means, "spearman"))

    def difference(signs: Matrix) -> Vector:
        half_difference = signs @ (added_a - added_b) / 2
        gaps: Vector = rho(mean + half_difference) - rho(mean - half_difference)
        return gaps

    n = a.n_documents
    if a.n_systems < 2 or np.ptp(np.round(human, 12)) == 0:
        return mean_of_differences(np.empty(0), ())
    error = float(np.sqrt((difference(_balanced_signs(n)) ** 2).mean())) if n > 1 else np.inf
    return Contrast(
        value=float(difference(np.ones((1, n)))[0]),
        error=error,
        documents=names,
        _swapped=lambda signs: difference(signs) / (error or 1.0),
    )


def _standardised(values: Vector) -> Vector:
    sd = values.std() if values.size else 0.0
    standard: Vector = (values - values.mean()) / sd if sd > 0 else np.zeros(values.size)
    return standard


def _balanced_signs(n: int) -> Matrix:
    """Signs for n documents in which every two documents differ as often as not (Hadamard).

    As in balanced repeated replication (McCarthy 1969): of a sum they give the variance exactly.
    """
    from scipy.linalg import hadamard

    signs: Matrix = hadamard(1 << n.bit_length())[:, 1 : n + 1].astype(float)
    return signs
