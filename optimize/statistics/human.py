"""How well people agree with each other, and the judge measured in the very same way.

Ratings are a matrix (outputs, annotators), NaN where unrated.
"""

import itertools
from dataclasses import dataclass
from typing import Any

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
    """What annotators gave, beside the document and system of each output."""

    values: Matrix
    document: NDArray[Any]
    system: NDArray[Any]

    def of(self, rows: Mask) -> "_Ratings":
        return _Ratings(self.values[rows], self.document[rows], self.system[rows])

    @property
    def rated_twice(self) -> Mask:
        rated: Mask = (~np.isnan(self.values)).sum(axis=1) > 1
        return rated

    def rho(self, judge: Vector, human: Vector, level: Level) -> float:
        """Rho of two vectors where both have a number; NaN where it does not exist."""
        both = ~np.isnan(judge + human)
        sides = (side[both] for side in (judge, human, self.document, self.system))
        return rho(level, *sides)


def _read(ratings: ArrayLike, document: ArrayLike | None, system: ArrayLike | None) -> _Ratings:
    """The checked matrix; ValueError where it is not a row an output."""
    values = np.asarray(ratings, dtype=float)
    n = len(values)
    documents = np.arange(n) if document is None else np.asarray(document)
    systems = np.zeros(n) if system is None else np.asarray(system)
    if values.ndim != 2 or documents.shape != (n,) or systems.shape != (n,):
        raise ValueError(
            f"ratings of shape {values.shape} for {documents.size} outputs: they take a row an "
            "output and a column an annotator"
        )
    return _Ratings(values, documents, systems)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """Two annotators, by their columns; `first` is None where it is the judge.

    `equal` is the share of equal labels, `kappa` Cohen's with quadratic weights (of two labels, as
    pass and fail are, the plain one). `n_outputs` have labels by both.
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
    """The judge beside each annotator, then every two annotators who rated an output in common.

    With `scale` the judge's scores are put on it for `equal` and `kappa`; rho is of the scores as
    they are.
    """
    known = _read(ratings, document, system)
    columns = list(enumerate(known.values.T))
    rows = []
    if judge is not None:
        scores = np.asarray(judge, dtype=float)
        labels = scores if scale is None else nearest_ratings(scores, scale)
        rows += [
            _agreement(None, second, labels, column, known.rho(scores, column, level))
            for second, column in columns
        ]
    for (first, a), (second, b) in itertools.combinations(columns, 2):
        if np.isnan(a + b).all():
            continue
        # Neither is the judge: a document that one of them rates alike counts both ways round.
        rho = (known.rho(a, b, level) + known.rho(b, a, level)) / 2
        rows.append(_agreement(first, second, a, b, rho))
    return tuple(row for row in rows if row.n_outputs)


def _agreement(
    first: int | None, second: int, a: Vector, b: Vector, rho: float
) -> AnnotatorAgreement:
    both = ~np.isnan(a + b)
    a, b = a[both], b[both]
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
    """One annotator and the judge, each against the mean of the other annotators.

    `annotator` and `judge` are rhos, averaged over the annotators left out; `gap` is the judge's
    less the annotator's. Intervals are over documents; there are none at system level, below 15
    documents and, over all outputs, where nearly all labels are one.
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
    """Whether the judge is as good as one annotator; None where people do not show it.

    It takes outputs with two ratings and a score that the others rate differently. Both sides use
    the outputs that the annotator, somebody else and the judge all scored, and the
    same documents: one that the others rate alike is left out, one that the annotator (or the
    judge) rates alike counts 0.
    """
    known, scores = _read(ratings, document, system), np.asarray(judge, dtype=float)
    compared = known.rated_twice & ~np.isnan(scores)
    if not compared.any():
        return None
    known, scores = known.of(compared), scores[compared]
    documents = np.unique(known.document, return_inverse=True)[1]
    values, terms = [], []
    for column, own in enumerate(known.values.T):
        rest = np.delete(known.values, column, axis=1)
        # Rounded, because the order of a sum must not break a tie.
        others: Vector = np.nanmean(rest, axis=1).round(10)
        sides = [np.where(np.isnan(own + others), np.nan, side) for side in (scores, own)]
        rhos = [known.rho(side, others, level) for side in sides]
        if not np.isnan(rhos).any():
            values.append(rhos)
            terms.append([_terms(side, others, documents, level) for side in sides])
    if not values:
        return None
    judged, person = np.array(values).mean(axis=0).tolist()
    # (judge and annotator, annotators left out, documents)
    by_side = np.array(terms).swapaxes(0, 1)
    known_everywhere = not np.isnan(by_side).all(axis=-1).any()
    judge_terms, person_terms = _over_annotators(by_side) if known_everywhere else np.empty((2, 0))
    return OneAnnotator(
        annotator=IntervalEstimate(person, correlation_interval(person, person_terms)),
        judge=IntervalEstimate(judged, correlation_interval(judged, judge_terms)),
        gap=IntervalEstimate(
            judged - person, interval_of_mean(judge_terms - person_terms, bound=2)
        ),
        n_outputs=int(compared.sum()),
        n_documents=int(documents.max()) + 1,
    )


def _terms(judge: Vector, human: Vector, documents: Codes, level: Level) -> Vector:
    """What each document adds to rho (see `document_terms`); all NaN: there is no interval."""
    terms = np.full(int(documents.max()) + 1, np.nan)
    both = ~np.isnan(judge + human)
    rows = read_rows(judge[both], human[both], documents[both])
    if level == "summary" or (level == "dataset" and rows.n_untied >= FEW_DOCUMENTS):
        terms[np.unique(documents[both])] = document_terms(rows, level)
    return terms


def _over_annotators(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each document adds to the mean over annotators of their means over documents."""
    entered = ~np.isnan(terms)
    documents = entered.any(axis=(0, 1))
    means = np.nanmean(terms, axis=-1, keepdims=True)
    # A document that an annotator did not rate adds nothing to the error of their mean.
    share = documents.sum() / entered.sum(axis=-1, keepdims=True)
    added = means + np.where(entered, terms - means, 0) * share
    result: NDArray[np.float64] = added.mean(axis=1)[:, documents]
    return result


def reliability(
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "dataset",
    system: ArrayLike | None = None,
) -> float:
    """Of the mean label, k r / (1 + (k - 1) r), by Spearman and Brown; NaN without two ratings.

    r is the mean rho between two ratings of an output, at the level the judge is measured at, and k
    the harmonic mean of how many ratings an output has. A judge's rho with the mean label reaches
    about the root of it.
    """
    known = _read(ratings, document, system)
    known = known.of(known.rated_twice)
    counts = (~np.isnan(known.values)).sum(axis=1)
    if not counts.size:
        return np.nan
    # The first rating of an output, the second, ...: who gave it does not matter here.
    ordered = np.take_along_axis(known.values, np.argsort(np.isnan(known.values), axis=1), axis=1)
    columns = ordered.T[: counts.max()]
    rhos, weights = [], []
    for a, b in itertools.permutations(columns, 2):
        rhos.append(known.rho(a, b, level))
        weights.append((~np.isnan(a + b)).sum())
    defined = ~np.isnan(rhos)
    if not defined.any():
        return np.nan
    r = max(float(np.average(np.array(rhos)[defined], weights=np.array(weights)[defined])), 0.0)
    k = counts.size / (1 / counts).sum()
    return float(k * r / (1 + (k - 1) * r))


def krippendorff_alpha(annotations: ArrayLike) -> float:
    """Krippendorff's alpha of (outputs, annotators), by intervals; NaN where it does not exist.

    It does not where no output has two ratings, or all ratings are equal.
    """
    import krippendorff

    known = _read(annotations, None, None)
    ratings = known.values[known.rated_twice]
    if ratings.size == 0 or np.nanmax(ratings) == np.nanmin(ratings):
        return np.nan
    return float(krippendorff.alpha(ratings.T, level_of_measurement="interval"))
