"""How well people agree with each other, and how well the judge agrees with them.

Ratings are a matrix of shape (outputs, annotators), NaN if an annotator did not rate an output.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.correlations import Codes, Level, Mask, document_terms, read_rows, rho
from optimize.statistics.intervals import (
    FEW_DOCUMENTS,
    IntervalEstimate,
    Matrix,
    Vector,
    correlation_interval,
    interval_of_mean,
)
from optimize.statistics.plain import nearest_ratings, quadratic_kappa


@dataclass(frozen=True, slots=True)
class _Ratings:
    """Annotators' ratings, with the document and the system of each output."""

    values: Matrix
    document: NDArray[np.generic]
    system: NDArray[np.generic]

    def of(self, rows: Mask) -> "_Ratings":
        return _Ratings(self.values[rows], self.document[rows], self.system[rows])

    @property
    def has_two_ratings(self) -> Mask:
        """Which outputs have ratings by two annotators or more."""
        mask: Mask = (~np.isnan(self.values)).sum(axis=1) > 1
        return mask

    def rho(self, judge: Vector, human: Vector, level: Level) -> float:
        """Rho of two vectors over the outputs for which both have a number; NaN if undefined."""
        both_rated = ~np.isnan(judge + human)
        vectors = (vector[both_rated] for vector in (judge, human, self.document, self.system))
        return rho(level, *vectors)


def _read(ratings: ArrayLike, document: ArrayLike | None, system: ArrayLike | None) -> _Ratings:
    """The checked matrix; raises ValueError unless it has a row for each output."""
    values = np.asarray(ratings, dtype=float)
    n = len(values)
    documents = np.arange(n) if document is None else np.asarray(document)
    systems = np.zeros(n) if system is None else np.asarray(system)
    if values.ndim != 2 or documents.shape != (n,) or systems.shape != (n,):
        raise ValueError(
            f"ratings of shape {values.shape} for {documents.size} outputs: give a row for each "
            "output and a column for each annotator"
        )
    return _Ratings(values, documents, systems)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """How well two annotators agree, or the judge and an annotator.

    Attributes:
        first: The first annotator's column; None for the judge.
        second: The second annotator's column.
        equal: The share of outputs with equal labels by both, in [0, 1].
        kappa: Cohen's kappa with quadratic weights; for pass and fail the weights do not matter.
        rho: Spearman's rho.
        n_outputs: How many outputs have labels by both.
    """

    first: int | None
    second: int
    equal: float
    kappa: float
    rho: float
    n_outputs: int


def annotator_agreement(
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "dataset",
    system: ArrayLike | None = None,
    judge: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> tuple[AnnotatorAgreement, ...]:
    """The agreement of the judge with each annotator, and of every two annotators.

    Args:
        ratings: (outputs, annotators), NaN if an annotator gave none.
        document: (outputs,) document labels. By default each output is its own document.
        level: The level of rho: "dataset", "summary" or "system".
        system: (outputs,) system labels, for the system level.
        judge: (outputs,) scores, NaN for failed judgements. By default there is no judge.
        scale: The ratings of the scale, to which scores are rounded for `equal` and `kappa`.

    Returns:
        The judge with each annotator, then the pairs of annotators, in the order of the columns.
        Pairs without an output in common are left out.

    Raises:
        ValueError: The shapes do not fit.
    """
    table = _read(ratings, document, system)
    columns = list(enumerate(table.values.T))
    rows = []
    if judge is not None:
        scores = np.asarray(judge, dtype=float)
        labels = scores if scale is None else nearest_ratings(scores, scale)
        rows += [
            _agreement(None, second, labels, column, table.rho(scores, column, level))
            for second, column in columns
        ]
    for (first, a), (second, b) in itertools.combinations(columns, 2):
        if np.isnan(a + b).all():
            continue
        # The convention treats the two sides of rho differently, so average over both orders.
        rho = (table.rho(a, b, level) + table.rho(b, a, level)) / 2
        rows.append(_agreement(first, second, a, b, rho))
    return tuple(row for row in rows if row.n_outputs)


def _agreement(
    first: int | None, second: int, a: Vector, b: Vector, rho: float
) -> AnnotatorAgreement:
    both_rated = ~np.isnan(a + b)
    a, b = a[both_rated], b[both_rated]
    return AnnotatorAgreement(
        first=first,
        second=second,
        equal=float(np.isclose(a, b).mean()) if a.size else np.nan,
        kappa=quadratic_kappa(a, b),
        rho=rho,
        n_outputs=a.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAnnotator:
    """One annotator and the judge, each compared with the mean of the other annotators.

    `annotator` and `judge` are values of Spearman's rho, averaged over the annotators. `gap` is the
    judge's value less the annotator's, in [-2, 2]. Intervals are over documents. They are None at
    system level, for fewer than 15 documents, and at dataset level if nearly all labels are equal.
    """

    annotator: IntervalEstimate
    judge: IntervalEstimate
    gap: IntervalEstimate
    n_outputs: int
    n_documents: int


def one_annotator(
    judge: ArrayLike,
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "summary",
    system: ArrayLike | None = None,
) -> OneAnnotator | None:
    """Compare the judge with one annotator, each against the mean of the other annotators.

    Judge and annotator are compared on the same outputs: those rated by the annotator, by at least
    one other annotator and by the judge. A document is left out if the other annotators rate its
    outputs alike. If only the annotator does, the annotator's rho on it counts as 0, and likewise
    for the judge.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        ratings: (outputs, annotators), NaN if an annotator gave none.
        document: (outputs,) document labels. By default each output is its own document.
        level: "dataset", "summary" or "system".
        system: (outputs,) system labels, for the system level.

    Returns:
        The comparison; None if no output has two ratings and a score, or no rho is defined.

    Raises:
        ValueError: The shapes do not fit.
    """
    table, scores = _read(ratings, document, system), np.asarray(judge, dtype=float)
    compared = table.has_two_ratings & ~np.isnan(scores)
    if not compared.any():
        return None
    table, scores = table.of(compared), scores[compared]
    documents = np.unique(table.document, return_inverse=True)[1]
    values, terms = [], []
    for column, ratings_of_one in enumerate(table.values.T):
        other_ratings = np.delete(table.values, column, axis=1)
        # Rounded, because the order of summation must not break a tie.
        mean_of_rest: Vector = np.nanmean(other_ratings, axis=1).round(10)
        sides = [
            np.where(np.isnan(ratings_of_one + mean_of_rest), np.nan, side)
            for side in (scores, ratings_of_one)
        ]
        rhos = [table.rho(side, mean_of_rest, level) for side in sides]
        if not np.isnan(rhos).any():
            values.append(rhos)
            terms.append([_terms(side, mean_of_rest, documents, level) for side in sides])
    if not values:
        return None
    judge_rho, annotator_rho = np.array(values).mean(axis=0).tolist()
    # Shape: (judge and annotator, annotators that were compared with the rest, documents).
    by_side = np.array(terms).swapaxes(0, 1)
    has_terms = not np.isnan(by_side).all(axis=-1).any()
    judge_terms, annotator_terms = _terms_of_mean(by_side) if has_terms else np.empty((2, 0))
    return OneAnnotator(
        annotator=IntervalEstimate(
            annotator_rho, correlation_interval(annotator_rho, annotator_terms)
        ),
        judge=IntervalEstimate(judge_rho, correlation_interval(judge_rho, judge_terms)),
        gap=IntervalEstimate(
            judge_rho - annotator_rho, interval_of_mean(judge_terms - annotator_terms, bound=2)
        ),
        n_outputs=int(compared.sum()),
        n_documents=int(documents.max()) + 1,
    )


def _terms(judge: Vector, human: Vector, documents: Codes, level: Level) -> Vector:
    """Each document's term of rho (see `document_terms`); all NaN if rho has no interval."""
    terms = np.full(int(documents.max()) + 1, np.nan)
    both_rated = ~np.isnan(judge + human)
    rows = read_rows(judge[both_rated], human[both_rated], documents[both_rated])
    if level == "summary" or (level == "dataset" and rows.n_untied >= FEW_DOCUMENTS):
        terms[np.unique(documents[both_rated])] = document_terms(rows, level)
    return terms


def _terms_of_mean(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each document's term of the mean over annotators of their own means over documents."""
    has_term = ~np.isnan(terms)
    has_any_term = has_term.any(axis=(0, 1))
    means = np.nanmean(terms, axis=-1, keepdims=True)
    # A document that an annotator did not rate adds nothing to the error of that annotator's mean.
    scaling = has_any_term.sum() / has_term.sum(axis=-1, keepdims=True)
    scaled = means + np.where(has_term, terms - means, 0) * scaling
    document_terms_of_mean: NDArray[np.float64] = scaled.mean(axis=1)[:, has_any_term]
    return document_terms_of_mean


def reliability(
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "dataset",
    system: ArrayLike | None = None,
) -> float:
    """The reliability of the mean label, k r / (1 + (k - 1) r) (Spearman and Brown).

    r is the mean rho between two ratings of an output, and k the harmonic mean of the number of
    ratings per output. A judge's rho with the mean label can reach about the square root of the
    reliability.

    Args:
        ratings: (outputs, annotators), NaN if an annotator gave none.
        document: (outputs,) document labels. By default each output is its own document.
        level: The level of rho: "dataset", "summary" or "system".
        system: (outputs,) system labels, for the system level.

    Returns:
        The reliability, in [0, 1]; NaN if no output has two ratings, or no rho is defined.

    Raises:
        ValueError: The shapes do not fit.
    """
    table = _read(ratings, document, system)
    table = table.of(table.has_two_ratings)
    counts = (~np.isnan(table.values)).sum(axis=1)
    if not counts.size:
        return np.nan
    # Columns are the first rating of each output, the second, and so on, by whatever annotator.
    ordered = np.take_along_axis(table.values, np.argsort(np.isnan(table.values), axis=1), axis=1)
    columns = ordered.T[: counts.max()]
    rhos, weights = [], []
    for a, b in itertools.permutations(columns, 2):
        rhos.append(table.rho(a, b, level))
        weights.append((~np.isnan(a + b)).sum())
    defined = ~np.isnan(rhos)
    if not defined.any():
        return np.nan
    r = max(float(np.average(np.array(rhos)[defined], weights=np.array(weights)[defined])), 0.0)
    k = counts.size / (1 / counts).sum()
    return float(k * r / (1 + (k - 1) * r))


def krippendorff_alpha(annotations: ArrayLike) -> float:
    """Krippendorff's alpha at interval level.

    Args:
        annotations: (outputs, annotators) ratings, NaN if an annotator gave none.

    Returns:
        Alpha, at most 1; NaN if no output has two ratings, or all ratings are equal.

    Raises:
        ValueError: The ratings are not a matrix.
    """
    import krippendorff

    table = _read(annotations, None, None)
    ratings = table.values[table.has_two_ratings]
    if ratings.size == 0 or np.nanmax(ratings) == np.nanmin(ratings):
        return np.nan
    return float(krippendorff.alpha(ratings.T, level_of_measurement="interval"))
