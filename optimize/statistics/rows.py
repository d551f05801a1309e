"""The outputs that a judge scored, as vectors: the input of all statistics of agreement."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Codes, Mask, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """The outputs that have a score, sorted by document: a vector for each column, and counts.

    Outputs on which the judge failed are left out, and counted in `n_failed`.

    Attributes:
        scores: (outputs,) the judge's scores.
        labels: (outputs,) people's ratings, or 1 for a pass and 0 for a fail.
        weights: (outputs,) weights of the outputs' documents, with a mean of 1.
        document_codes: (outputs,) the number of the output's document, from 0.
        system_codes: (outputs,) the number of the output's system, from 0.
        n_documents: How many documents have a score.
        n_systems: How many systems have a score.
        n_failed: How many outputs have no score.
        n_unscored_documents: How many documents have no score.
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

    @property
    def n_untied_documents(self) -> int:
        """How many documents have an output with another value than the most common one.

        The documents are counted once for the labels and once for the scores, and the smaller
        number is returned, because it limits the precision of rho over all outputs. If 27 of 30
        outputs pass, only 3 outputs are informative.
        """
        if not self.n_documents:
            return 0
        return min(self._n_documents_off_mode(self.labels), self._n_documents_off_mode(self.scores))

    def _n_documents_off_mode(self, values: Vector) -> int:
        """Return how many documents have an output whose value is not the most common value."""
        distinct_values, counts = np.unique(values, return_counts=True)
        most_common_value = distinct_values[counts.argmax()]
        return np.unique(self.document_codes[values != most_common_value]).size


def scored_rows(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> ScoredRows:
    """Check the vectors, drop the outputs that the judge failed on, and number the documents.

    Args:
        judge: (outputs,) the judge's scores, NaN for failed judgements.
        human: (outputs,) people's labels.
        document: (outputs,) document ids. By default each output is its own document.
        system: (outputs,) system ids. By default all outputs come from one system.
        weight: (outputs,) weights of the outputs' documents. By default all weights are equal.

    Raises:
        ValueError: The vectors differ in length, `human` is not finite, or `judge` is infinite.
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
    _refuse_values("human", labels, ~np.isfinite(labels))
    _refuse_values("judge", scores, np.isinf(scores))
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


def _refuse_values(name: str, vector: Vector, is_invalid: Mask) -> None:
    """Raise ValueError for the first invalid value of a vector."""
    if is_invalid.any():
        index = int(is_invalid.argmax())
        raise ValueError(
            f"{name}[{index}] is {vector[index]}: every output needs a rating, and a failed "
            "judgement is NaN"
        )
