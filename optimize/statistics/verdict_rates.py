"""Agreement of a judge's verdicts (pass or fail) with human labels: rates, kappa and intervals.

The TPR is the share of outputs labelled "pass" that the judge passes, and the TNR the share of
outputs labelled "fail" that it fails. The mean of TPR and TNR is the balanced accuracy.

A rate has Wilson's (1927) interval for the effective number of outputs: the number of outputs,
divided by the design effect of documents (Korn and Graubard 1998). Because few documents give a
poor estimate, the design effect is shrunk towards a prior: the square root of the number of outputs
per document, times Kish's design effect of unequal weights. The interval for the balanced accuracy
follows from those for TPR and TNR (MOVER, Zou and Donner 2008). Kappa's is based on Fisher's z.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from optimize.statistics.balanced import PASS_THRESHOLD
from optimize.statistics.intervals import (
    Interval,
    Mask,
    Vector,
    correlation_interval,
    effective_sample_size,
    student_quantile,
)
from optimize.statistics.rows import ScoredRows

# The interval of a rate needs at least this many outputs and this many documents.
MIN_OUTPUTS_FOR_RATES, MIN_DOCUMENTS_FOR_RATES = 10, 5
# The prior of a design effect has as much weight as this many documents.
PRIOR_DOCUMENTS = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of outputs, a mean of two shares or Cohen's kappa, with its 95 % interval.

    `value` is NaN if it is undefined. The interval is None if there are too few outputs or
    documents. `n` is the number of outputs. `n_documents` is None for kappa and balanced accuracy.
    """

    value: float
    interval: Interval | None
    n: int
    n_documents: int | None = None

    @property
    def complement(self) -> "Rate":
        """One minus the share, with its interval."""
        interval = self.interval and Interval(1 - self.interval.high, 1 - self.interval.low)
        return replace(self, value=1 - self.value, interval=interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictAgreement:
    """A judge's verdicts compared with human labels, without outputs on which the judge failed.

    Rates and kappa use the outputs' weights; numbers of outputs do not. In `confusion`, "pass_fail"
    counts the outputs that people pass and the judge fails. `base_rate` is the share of outputs
    that people pass, and `judge_rate` the share that the judge passes. `n_missing_labels` says how
    many more outputs labelled "pass" and "fail" are needed for intervals.
    """

    confusion: Mapping[str, int]
    base_rate: Rate
    judge_rate: Rate
    tpr: Rate
    tnr: Rate
    accuracy: Rate
    balanced_accuracy: Rate
    kappa: Rate
    n_missing_labels: Mapping[str, int] = field(metadata={"json": "n_more"})
    n_documents: int


def verdict_agreement(rows: ScoredRows) -> VerdictAgreement:
    """Compare a judge's verdicts (a score of .5 or more is a pass) with labels of 1 and 0.

    Raises ValueError if a label is neither 1 nor 0.
    """
    labels, verdicts = rows.labels, (rows.scores >= PASS_THRESHOLD).astype(float)
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("people's labels must be 1 (pass) or 0 (fail)")
    is_right = (verdicts == labels).astype(float)
    all_outputs = np.ones(labels.size, bool)
    is_pass, is_fail = labels == 1, labels == 0
    tpr, tnr = _rate(is_right, rows, is_pass), _rate(is_right, rows, is_fail)
    confusion, n_missing_labels = dict[str, int](), dict[str, int]()
    for label, has_label, rate in (("pass", is_pass, tpr), ("fail", is_fail, tnr)):
        n_passed = int(verdicts[has_label].sum())
        confusion |= {f"{label}_pass": n_passed, f"{label}_fail": rate.n - n_passed}
        n_missing_documents = MIN_DOCUMENTS_FOR_RATES - (rate.n_documents or 0)
        n_missing_labels[label] = max(0, MIN_OUTPUTS_FOR_RATES - rate.n, n_missing_documents)
    # With unequal weights the interval for kappa would be too narrow.
    has_interval = bool(tpr.interval and tnr.interval) and np.ptp(rows.weights) == 0
    return VerdictAgreement(
        confusion=confusion,
        base_rate=_rate(labels, rows, all_outputs),
        judge_rate=_rate(verdicts, rows, all_outputs),
        tpr=tpr,
        tnr=tnr,
        accuracy=_rate(is_right, rows, all_outputs),
        balanced_accuracy=_mean_of_rates(tpr, tnr, is_right, rows),
        kappa=_kappa(verdicts, rows, has_interval=has_interval),
        n_documents=rows.n_documents,
        n_missing_labels=n_missing_labels,
    )


def _rate(is_hit: Vector, rows: ScoredRows, is_selected: Mask) -> Rate:
    """Return the share of hits (1 in `is_hit`, else 0) among the selected outputs."""
    n_by_document = rows.document_sums(is_selected)
    n, n_documents = int(n_by_document.sum()), int((n_by_document > 0).sum())
    if not n:
        return Rate(np.nan, None, 0)
    weights = rows.weights * is_selected
    share = float(np.average(is_hit, weights=weights))
    if n < MIN_OUTPUTS_FOR_RATES or n_documents < MIN_DOCUMENTS_FOR_RATES:
        return Rate(share, None, n, n_documents)
    # Even many outputs add little information if their weights are small.
    effective_n = weights.sum() * effective_sample_size(rows.weights) / weights.size
    weight_effect = n / min(effective_n, effective_sample_size(weights))
    design_effect = float(np.sqrt(n_by_document @ n_by_document / n) * weight_effect)
    if 0 < share < 1:
        # A design effect is the variance of the share, divided by that of independent outputs.
        document_errors = rows.document_sums((is_hit - share) * weights) * n / weights.sum()
        variance = n_documents / (n_documents - 1) * float(document_errors @ document_errors)
        estimated_effect = variance / (n * share * (1 - share))
        weighted_effects = n_documents * estimated_effect + PRIOR_DOCUMENTS * design_effect
        design_effect = weighted_effects / (n_documents + PRIOR_DOCUMENTS)
    return Rate(share, wilson_interval(share, n / design_effect), n, n_documents)


def wilson_interval(share: float, n: float, looks: int = 1) -> Interval:
    """Return Wilson's (1927) 95 % interval for a share of `n` outputs, which holds at all looks."""
    quantile_squared = student_quantile(np.inf, looks) ** 2
    centre = (share + quantile_squared / (2 * n)) / (1 + quantile_squared / n)
    variance = share * (1 - share) / n + quantile_squared / (4 * n**2)
    half_width = float(np.sqrt(quantile_squared * variance)) / (1 + quantile_squared / n)
    # Include the share, because rounding errors may put it outside its interval.
    low, high = min(share, centre - half_width), max(share, centre + half_width)
    return Interval(max(0.0, low), min(1.0, high))


def _mean_of_rates(tpr: Rate, tnr: Rate, is_right: Vector, rows: ScoredRows) -> Rate:
    """Return the mean of TPR and TNR, with an interval that allows for their correlation."""
    mean_rate = (tpr.value + tnr.value) / 2
    if tpr.interval is None or tnr.interval is None:
        return Rate(mean_rate, None, is_right.size)
    is_pass = rows.labels == 1
    tpr_errors = rows.document_sums((is_right - tpr.value) * is_pass * rows.weights)
    tnr_errors = rows.document_sums((is_right - tnr.value) * ~is_pass * rows.weights)
    error_norm = np.sqrt((tpr_errors @ tpr_errors) * (tnr_errors @ tnr_errors))
    correlation = float(tpr_errors @ tnr_errors / error_norm) if error_norm > 0 else 0.0

    def half_width(tpr_width: float, tnr_width: float) -> float:
        squared_width = tpr_width**2 + tnr_width**2 + 2 * correlation * tpr_width * tnr_width
        return float(np.sqrt(max(0.0, squared_width))) / 2

    low = mean_rate - half_width(tpr.value - tpr.interval.low, tnr.value - tnr.interval.low)
    high = mean_rate + half_width(tpr.interval.high - tpr.value, tnr.interval.high - tnr.value)
    return Rate(mean_rate, Interval(low, high), is_right.size)


def _kappa(verdicts: Vector, rows: ScoredRows, *, has_interval: bool) -> Rate:
    """Return Cohen's kappa, (agreement - chance) / (1 - chance), of verdicts (1, 0) and labels."""
    labels, is_agreement = rows.labels, verdicts == rows.labels
    n = verdicts.size
    if not n:
        return Rate(np.nan, None, n)
    label_rate, verdict_rate, agreement = (
        float(np.average(values, weights=rows.weights))
        for values in (labels, verdicts, is_agreement)
    )
    chance = label_rate * verdict_rate + (1 - label_rate) * (1 - verdict_rate)
    if chance == 1:
        return Rate(np.nan, None, n)
    kappa = (agreement - chance) / (1 - chance)
    if not has_interval or verdict_rate in (0, 1):
        return Rate(kappa, None, n)
    # Each output's influence on kappa, from the derivatives of kappa by agreement and both rates.
    chance_influence = (labels - label_rate) * (2 * verdict_rate - 1)
    chance_influence += (verdicts - verdict_rate) * (2 * label_rate - 1)
    influence = (is_agreement - agreement - (1 - kappa) * chance_influence) / (1 - chance)
    document_sums = rows.document_sums(influence * rows.weights)
    return Rate(kappa, correlation_interval(kappa, document_sums * document_sums.size / n), n)
