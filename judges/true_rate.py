"""Estimate the share of outputs that people would pass from the share that a judge passes.

If people pass the share p of the outputs, a judge passes r = p tpr + (1 - p)(1 - tnr) of them. The
judge's true-positive and true-negative rates, tpr and tnr, are estimated from labels that the judge
was not tuned on, and the equation is solved for p (Rogan and Gladen). The 95 % interval has every p
for which the difference between r and the judge's observed pass rate could be chance, by the
variances of the three rates over documents (Fieller). If tpr + tnr may be 1, there is no interval.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
# The fewest test labels of a class (pass or fail) from which an error rate is estimated.
MIN_CLASS_LABELS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRate:
    """The share of outputs that a judge passes, and the share that people would pass.

    `people_low` and `people_high` are the 95 % interval of the share that people would pass. If
    this share cannot be estimated, it is NaN, and `withheld_reason` says why.
    """

    judge_share: float
    people_share: float = math.nan
    people_low: float = math.nan
    people_high: float = math.nan
    withheld_reason: str = ""

    def as_json(self) -> dict[str, float | str | None]:
        """Return all attributes as data for JSON; NaN becomes None."""
        values = [None if value != value else value for value in astuple(self)]
        return dict(zip(("judge", "value", "low", "high", "withheld"), values, strict=True))

    def __str__(self) -> str:
        judge_phrase = f"the judge passes {self.judge_share:.0%}"
        if self.withheld_reason:
            return f"{judge_phrase}; not corrected for its errors: {self.withheld_reason}"
        share_text = f"{self.people_low:.0%} to {self.people_high:.0%}"
        if 0 < self.people_share < 1:  # an estimate of exactly 0 or 1 was clipped
            ends_text = f"[{100 * self.people_low:.0f}, {100 * self.people_high:.0f}]"
            share_text = f"{self.people_share:.0%} {ends_text}"
        condition = "if it errs as often here as on the test labels"
        return f"{judge_phrase}; people would pass {share_text}, {condition}"


def count_errors(
    verdicts: ArrayLike, labels: ArrayLike, documents: Sequence[Hashable]
) -> list[list[int]]:
    """Compare a judge's verdicts (1, 0, or NaN) with people's labels, document by document.

    A row of the result has four counts of a document's outputs: outputs that people and the judge
    pass, that only people pass, that only the judge passes, and that neither passes. The fifth
    number of a row is the number of documents with these four counts.
    """
    counts_by_document: dict[Hashable, list[int]] = {}
    verdicts, labels = np.asarray(verdicts, float), np.asarray(labels, float)
    for verdict, label, document in zip(verdicts, labels, documents, strict=True):
        if not np.isnan(verdict):
            counts = counts_by_document.setdefault(document, [0, 0, 0, 0])
            counts[int(2 * (1 - label) + (1 - verdict))] += 1
    n_documents_by_counts = Counter(map(tuple, counts_by_document.values()))
    return [[*counts, n] for counts, n in sorted(n_documents_by_counts.items(), reverse=True)]


def document_codes(documents: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return a number for each document, counted from 0 in the order of first occurrence."""
    code_by_document: dict[Hashable, int] = {}
    codes = [code_by_document.setdefault(name, len(code_by_document)) for name in documents]
    return np.array(codes, dtype=np.int64)


def corrected_rate(
    verdicts: ArrayLike, documents: Sequence[Hashable], error_table: Sequence[Sequence[int]]
) -> TrueRate:
    """Estimate the share of outputs that people would pass; `count_errors` gives `error_table`."""
    verdicts = np.asarray(verdicts, dtype=float)
    has_verdict = ~np.isnan(verdicts)
    if not has_verdict.any():
        return TrueRate(judge_share=math.nan, withheld_reason="no output has a verdict")
    judged_verdicts, codes = verdicts[has_verdict], document_codes(documents)[has_verdict]
    judge_share = float(judged_verdicts.mean())
    test_counts = np.asarray(error_table, dtype=float).reshape(-1, 5)
    if reason := _withheld_reason(test_counts):
        return TrueRate(judge_share=judge_share, withheld_reason=reason)
    both, people_only, judge_only, neither, n_documents = test_counts.T
    n_outputs = np.bincount(codes).astype(float)
    n_passes = np.bincount(codes, judged_verdicts).astype(float)
    rate, rate_deviations = _smooth_rate(n_passes, n_outputs, np.ones(n_outputs.size))
    tpr, tpr_deviations = _smooth_rate(both, both + people_only, n_documents)
    tnr, tnr_deviations = _smooth_rate(neither, judge_only + neither, n_documents)
    from scipy.special import stdtrit  # imported late, since judging does not need it

    # The number of documents with an output that people pass, and with one that they fail.
    n_class_documents = [n_documents @ (n > 0) for n in (both + people_only, judge_only + neither)]
    t_squared = float(stdtrit(min(n_class_documents) + 1, 0.975)) ** 2
    # The ends p of the interval solve d(p)^2 = t^2 var(d(p)) for the difference
    # d(p) = rate - 1 + tnr - p (tpr + tnr - 1). This is the equation a p^2 - 2 b p + c = 0.
    smoothed_youden, excess_passes = tpr + tnr - 1, rate - 1 + tnr
    var_rate = float(rate_deviations @ rate_deviations)
    var_tpr, var_tnr = (float(values @ values) for values in (tpr_deviations, tnr_deviations))
    covariance = float(tpr_deviations[:-2] @ tnr_deviations[:-2])
    a = smoothed_youden**2 - t_squared * (var_tpr + var_tnr + 2 * covariance)
    b = excess_passes * smoothed_youden - t_squared * (var_tnr + covariance)
    c = excess_passes**2 - t_squared * (var_rate + var_tnr)
    n_both, n_people_only, n_judge_only, n_neither = n_documents @ test_counts[:, :4]
    false_positive_rate = n_judge_only / (n_judge_only + n_neither)
    youden = n_both / (n_both + n_people_only) + n_neither / (n_judge_only + n_neither) - 1
    if a <= 0 or smoothed_youden <= 0 or youden <= 0:
        reason = "the judge may be no better than chance on its test labels (TPR + TNR - 1 = 0)"
        return TrueRate(judge_share=judge_share, withheld_reason=reason)
    people_share = float(np.clip((judge_share - false_positive_rate) / youden, 0, 1))
    root = math.sqrt(max(0.0, b * b - a * c))
    return TrueRate(
        judge_share=judge_share,
        people_share=people_share,
        people_low=min(max(0.0, (b - root) / a), people_share),
        people_high=max(min(1.0, (b + root) / a), people_share),
    )


def _withheld_reason(test_counts: Vector) -> str:
    """Return why the test labels are too few to estimate the judge's errors; "" if they suffice."""
    if not test_counts.size:
        return "the judge was not tested on labels with this model and plan"
    n_both, n_people_only, n_judge_only, n_neither = test_counts[:, 4] @ test_counts[:, :4]
    for n, class_name in (n_both + n_people_only, "passes"), (n_judge_only + n_neither, "fails"):
        if n < MIN_CLASS_LABELS:
            return f"the test labels have {n:.0f} {class_name}, and {MIN_CLASS_LABELS} are needed"
    return ""


def _smooth_rate(n_counted: Vector, n_outputs: Vector, n_documents: Vector) -> tuple[float, Vector]:
    """Return the share of outputs that are counted, and how far each document deviates from it.

    The sum of the squared deviations is the variance of the share. Row i stands for
    `n_documents[i]` documents, each with `n_outputs[i]` outputs, of which `n_counted[i]` are
    counted. Two documents are added, so that a share of ten out of ten is not taken as certain: all
    outputs of one are counted, and none of the other (Agresti and Caffo 2000). The added documents
    are smaller than the average document, since outputs of a document are similar.
    """
    added_size = math.sqrt(n_documents @ n_outputs / (n_documents @ (n_outputs > 0)) / 2)
    n_counted = np.concatenate([n_counted, [added_size, 0]])
    n_outputs = np.concatenate([n_outputs, [added_size, added_size]])
    n_documents = np.concatenate([n_documents, [1, 1]])
    n_all_outputs, n_used_documents = n_documents @ n_outputs, n_documents @ (n_outputs > 0)
    share = float(n_documents @ n_counted / n_all_outputs)
    residuals = (n_counted - share * n_outputs) / n_all_outputs
    return share, residuals * np.sqrt(n_documents * n_used_documents / (n_used_documents - 1))
