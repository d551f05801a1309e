"""The outputs that a judge scored, as vectors: the input of all statistics of agreement."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Codes, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """The outputs that have a score, sorted by document: vectors of shape (outputs,) and counts.

    `labels` are people's ratings, or 1 for a pass and 0 for a fail. `weights` have a mean of 1.
    Documents and systems are numbered from 0. `n_documents` and `n_systems` count only documents
    and systems with a score. `n_failed` outputs have no score, and are not in the vectors.
    """

    scores: Vector
    labels: Vector
    weights: Vector
    document_codes: Codes
    system_codes: Codes
    n_documents: int
    n_systems: int
    n_failed: int
    n_unscored_documents: int

    @property
    def first_output_rows(self) -> Codes:
        """The row of the first output of each document."""
        return np.flatnonzero(np.diff(self.document_codes, prepend=-1))

    def document_sums(self, values: NDArray[np.number | np.bool_]) -> Vector:
        """Return each document's sum of `values`, which has one value for each output."""
        return np.bincount(self.document_codes, values, self.n_documents).astype(float)

    @property
    def n_untied_documents(self) -> int:
        """The number of documents with an output whose label or score is not the most common one.

        Documents are counted once by labels and once by scores. The smaller number limits the
        precision of rho over all outputs: if 27 of 30 outputs pass, only 3 outputs are informative.
        """
        if not self.n_documents:
            return 0
        document_counts = []
        for values in (self.labels, self.scores):
            distinct_values, counts = np.unique(values, return_counts=True)
            is_untied = values != distinct_values[counts.argmax()]
            document_counts.append(np.unique(self.document_codes[is_untied]).size)
        return min(document_counts)

    @property
    def has_enough_untied_documents(self) -> bool:
        """Whether `n_untied_documents` is enough for an interval of rho over all outputs."""
        return self.n_untied_documents >= MIN_DOCUMENTS_FOR_INTERVAL


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
    scores, labels = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    weights = np.ones(scores.size) if weight is None else np.asarray(weight, dtype=float)
    vectors = {"human": labels, "document": documents, "system": systems, "weight": weights}
    for name, vector in vectors.items():
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    for name, vector in (("human", labels), ("judge", np.where(np.isnan(scores), 0, scores))):
        if not np.isfinite(vector).all():
            bad_row = int(np.isfinite(vector).argmin())
            raise ValueError(
                f"{name}[{bad_row}] is {vector[bad_row]}: every output needs a rating, and a "
                "failed judgement is NaN"
            )
    has_score = ~np.isnan(scores)
    document_names, document_codes = np.unique(documents[has_score], return_inverse=True)
    system_names, system_codes = np.unique(systems[has_score], return_inverse=True)
    row_order = np.argsort(document_codes, kind="stable")
    weights = weights[has_score][row_order]
    return ScoredRows(
        scores=scores[has_score][row_order],
        labels=labels[has_score][row_order],
        weights=weights / weights.mean() if weights.size else weights,
        document_codes=document_codes[row_order],
        system_codes=system_codes[row_order],
        n_documents=document_names.size,
        n_systems=system_names.size,
        n_failed=int((~has_score).sum()),
        n_unscored_documents=np.unique(documents).size - document_names.size,
    )
