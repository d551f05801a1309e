"""The outputs that a judge scored, as vectors: the input of all statistics of agreement."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Codes, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """The outputs that have a score, sorted by document, as vectors; and counts.

    `weight` has a mean of 1; documents and systems are numbered from 0. `n_documents` and
    `n_systems` count documents and systems with a score, and `n_unscored_documents` the documents
    without a score.
    """

    judge: Vector
    human: Vector
    weight: Vector
    document: Codes
    system: Codes
    n_documents: int
    n_systems: int
    n_failed: int
    n_unscored_documents: int

    @property
    def first_output_rows(self) -> Codes:
        """The index of the first output of each document."""
        return np.flatnonzero(np.diff(self.document, prepend=-1))

    @property
    def n_untied_documents(self) -> int:
        """How many documents differ from the most common value, in labels or in scores.

        Documents with an output whose label (or score) is not the most common are counted. The
        smaller of both numbers limits the precision of rho over all outputs: if 27 of 30 outputs
        pass, only 3 outputs are informative.
        """
        if not self.n_documents:
            return 0
        numbers = []
        for vector in (self.judge, self.human):
            values, counts = np.unique(vector, return_counts=True)
            most_common = values[counts.argmax()]
            numbers.append(np.unique(self.document[vector != most_common]).size)
        return min(numbers)


def scored_rows(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> ScoredRows:
    """Check the vectors, drop failed outputs (NaN in `judge`) and number the documents.

    Raises ValueError if the shapes differ, `human` is not finite, or `judge` is infinite.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    weights = np.ones(scores.size) if weight is None else np.asarray(weight, dtype=float)
    vectors = {"human": ratings, "document": documents, "system": systems, "weight": weights}
    for name, vector in vectors.items():
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    has_score = ~np.isnan(scores)
    for name, vector, is_bad in (
        ("human", ratings, ~np.isfinite(ratings)),
        ("judge", scores, np.isinf(scores)),
    ):
        if is_bad.any():
            index = int(is_bad.argmax())
            raise ValueError(
                f"{name}[{index}] is {vector[index]}: every output needs a rating, and a failed "
                "judgement is NaN"
            )
    document_names, document_codes = np.unique(documents[has_score], return_inverse=True)
    system_names, system_codes = np.unique(systems[has_score], return_inverse=True)
    row_order = np.argsort(document_codes, kind="stable")
    weights = weights[has_score][row_order]
    return ScoredRows(
        judge=scores[has_score][row_order],
        human=ratings[has_score][row_order],
        weight=weights / weights.mean() if weights.size else weights,
        document=document_codes[row_order],
        system=system_codes[row_order],
        n_documents=document_names.size,
        n_systems=system_names.size,
        n_failed=int((~has_score).sum()),
        n_unscored_documents=np.unique(documents).size - document_names.size,
    )
