"""Estimate the share of outputs that people would pass from a judge's pass rate (Rogan and Gladen).

If people pass the share p of the outputs, a judge passes r = p tpr + (1 - p)(1 - tnr) of them. The
judge's true-positive and true-negative rates, tpr and tnr, are estimated from labels that the judge
was not tuned on. The 95 % interval has every p for which the difference between r and the judge's
observed pass rate could be chance, by the variances of the three rates over documents (Fieller's
method). The interval does not exist if tpr + tnr - 1 may be 0.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
# The fewest test labels of a class (pass or fail) from which an error rate is estimated.
MIN_LABELS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRate:
    """The share of outputs that a judge passes: as it is, and corrected, with a 95 % interval.

    Without a correction, `value`, `low` and `high` are NaN, and `withheld` says why.
    """

    judge: float
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    withheld: str = ""

    def as_json(self) -> dict[str, float | str | None]:
        """Return all attributes as data for JSON; NaN becomes None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        judge_phrase = f"the judge passes {self.judge:.0%}"
        if self.withheld:
            return f"{judge_phrase}; not corrected for its errors: {self.withheld}"
        interval = f"[{100 * self.low:.0f}, {100 * self.high:.0f}]"
        condition = "if it errs as often here as on the test labels"
        return f"{judge_phrase}; people would pass {self.value:.0%} {interval}, {condition}"


def errors_by_document(
    verdicts: ArrayLike, human: ArrayLike, documents: Sequence[Hashable]
) -> list[list[int]]:
    """Compare a judge's verdicts (1, 0, or NaN) with people's, as a table for `corrected_rate`.

    Each row counts the outputs of a document that people and the judge pass, that only people pass,
    that only the judge passes, and that neither passes. The fifth number is how many documents have
    these four counts.
    """
    by_document: dict[Hashable, list[int]] = {}
    for verdict, label, document in zip(
        np.asarray(verdicts, float), np.asarray(human, float), documents, strict=True
    ):
        if not np.isnan(verdict):
            error_counts = by_document.setdefault(document, [0, 0, 0, 0])
            error_counts[int(2 * (1 - label) + (1 - verdict))] += 1
    n_documents = Counter(map(tuple, by_document.values()))
    return [[*error_counts, n] for error_counts, n in sorted(n_documents.items(), reverse=True)]


def document_codes(documents: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return a number for each document, counted from 0 in the order of first occurrence."""
    code_of: dict[Hashable, int] = {}
    codes = [code_of.setdefault(document, len(code_of)) for document in documents]
    return np.array(codes, dtype=np.int64)


def corrected_rate(
    verdicts: ArrayLike, documents: Sequence[Hashable], errors: Sequence[Sequence[int]]
) -> TrueRate:
    """Estimate the share that people would pass; `errors` is the table of `errors_by_document`."""
    verdicts = np.asarray(verdicts, dtype=float)
    has_verdict = ~np.isnan(verdicts)
    codes = document_codes(documents)[has_verdict]
    if not codes.size:
        return TrueRate(judge=math.nan, withheld="no output has a verdict")
    judge_rate = float(verdicts[has_verdict].mean())
    error_table = np.asarray(errors, dtype=float).reshape(-1, 5)
    both, people_only, judge_only, neither, n_documents = error_table.T
    n_both, n_people_only, n_judge_only, n_neither = n_documents @ error_table[:, :4]
    if not error_table.size:
        withheld = "the judge was not tested on labels with this model and plan"
        return TrueRate(judge=judge_rate, withheld=withheld)
    for n, word in (n_both + n_people_only, "passes"), (n_judge_only + n_neither, "fails"):
        if n < MIN_LABELS:
            withheld = f"the test labels have {n:.0f} {word}, and {MIN_LABELS} are needed"
            return TrueRate(judge=judge_rate, withheld=withheld)
    n_outputs = np.bincount(codes).astype(float)
    passes_by_document = np.bincount(codes, verdicts[has_verdict]).astype(float)
    rate, rate_parts = _smoothed_rate(passes_by_document, n_outputs, np.ones(n_outputs.size))
    tpr, tpr_parts = _smoothed_rate(both, both + people_only, n_documents)
    tnr, tnr_parts = _smoothed_rate(neither, judge_only + neither, n_documents)
    from scipy.special import stdtrit  # imported late, since judging does not need it

    # The number of documents with an output that people pass, and with one that they fail.
    class_sizes = [n_documents @ (n > 0) for n in (both + people_only, judge_only + neither)]
    t_squared = float(stdtrit(min(class_sizes) + 1, 0.975)) ** 2
    # The ends p of the interval solve d(p)^2 = t^2 var(d(p)) for the difference
    # d(p) = rate - 1 + tnr - p (tpr + tnr - 1). This is the equation a p^2 - 2 b p + c = 0.
    shrunk_youden, excess_passes = tpr + tnr - 1, rate - 1 + tnr
    var_rate, var_tpr, var_tnr = (float(t @ t) for t in (rate_parts, tpr_parts, tnr_parts))
    covariance = float(tpr_parts[:-2] @ tnr_parts[:-2])
    a = shrunk_youden**2 - t_squared * (var_tpr + var_tnr + 2 * covariance)
    b = excess_passes * shrunk_youden - t_squared * (var_tnr + covariance)
    c = excess_passes**2 - t_squared * (var_rate + var_tnr)
    observed_youden = n_both / (n_both + n_people_only) + n_neither / (n_judge_only + n_neither) - 1
    if a <= 0 or shrunk_youden <= 0 or observed_youden <= 0:
        withheld = "the judge may be no better than chance on its test labels (TPR + TNR - 1 = 0)"
        return TrueRate(judge=judge_rate, withheld=withheld)
    corrected_share = (judge_rate - n_judge_only / (n_judge_only + n_neither)) / observed_youden
    corrected_share = float(np.clip(corrected_share, 0, 1))
    root = math.sqrt(max(0.0, b * b - a * c))
    low, high = max(0.0, (b - root) / a), min(1.0, (b + root) / a)
    return TrueRate(
        judge=judge_rate,
        value=corrected_share,
        low=min(low, corrected_share),
        high=max(high, corrected_share),
    )


def _smoothed_rate(
    n_counted: Vector, n_outputs: Vector, n_documents: Vector
) -> tuple[float, Vector]:
    """Return the share of outputs that are counted, and the parts of its standard error.

    The sum of the squared parts is the variance of the share. Row i stands for `n_documents[i]`
    documents, each with `n_outputs[i]` outputs, of which `n_counted[i]` are counted. Two documents
    are added, one with all its outputs counted and one with no output counted (Agresti and Caffo
    2000), so that a share of ten out of ten is not taken as certain. The added documents are
    smaller than the average document, since outputs of a document are similar.
    """
    n_added = math.sqrt(n_documents @ n_outputs / (n_documents @ (n_outputs > 0)) / 2)
    n_counted = np.concatenate([n_counted, [n_added, 0]])
    n_outputs = np.concatenate([n_outputs, [n_added, n_added]])
    n_documents = np.concatenate([n_documents, [1, 1]])
    total, n = n_documents @ n_outputs, n_documents @ (n_outputs > 0)
    share = float(n_documents @ n_counted / total)
    return share, (n_counted - share * n_outputs) / total * np.sqrt(n_documents * n / (n - 1))
