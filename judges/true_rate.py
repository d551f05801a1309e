"""The share that people would pass, from a judge's pass rate and its errors (Rogan and Gladen).

Where people pass p of the outputs, a judge passes r = p tpr + (1 - p)(1 - tnr) of them. Labels that
the judge was not tuned on estimate tpr and tnr. The interval holds every p whose r is within the
error of the judge's own rate, by the variances of all three rates over documents (Fieller). It does
not exist where tpr + tnr - 1 may be 0.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
# Labelled outputs of a class; from fewer, the error rate is too uncertain.
MIN_LABELS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRate:
    """The share that the judge passes, and the corrected share with its 95 % interval.

    Where the correction is impossible, its figures are NaN and `withheld` says why.
    """

    judge: float
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    withheld: str = ""

    def as_json(self) -> dict[str, float | str | None]:
        """All figures for JSON, with None for NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        judge = f"the judge passes {self.judge:.0%}"
        if self.withheld:
            return f"{judge}; not corrected for its errors: {self.withheld}"
        ends = f"[{100 * self.low:.0f}, {100 * self.high:.0f}]"
        of = "corrected for its errors on test, if it errs as often here,"
        return f"{judge}; {of} {self.value:.0%} {ends}"


def errors_by_document(
    passes: ArrayLike, human: ArrayLike, documents: Sequence[Hashable]
) -> list[list[int]]:
    """A judge's verdicts against people's (1 or 0; NaN is left out), for `corrected_rate`.

    A row counts the outputs of a document that both pass, that people alone pass, that the judge
    alone passes, and that neither passes; its last number counts the documents with these counts.
    """
    by_document: dict[Hashable, list[int]] = {}
    for judge, label, document in zip(
        np.asarray(passes, float), np.asarray(human, float), documents, strict=True
    ):
        if not np.isnan(judge):
            counts = by_document.setdefault(document, [0, 0, 0, 0])
            counts[int(2 * (1 - label) + (1 - judge))] += 1
    kinds = Counter(map(tuple, by_document.values()))
    return [[*kind, number] for kind, number in sorted(kinds.items(), reverse=True)]


def corrected_rate(
    passes: ArrayLike, documents: Sequence[Hashable], tested: Sequence[Sequence[int]]
) -> TrueRate:
    """The true rate of outputs that the judge passes (1) or fails (0); NaN is left out.

    `tested` are its errors on test labels (see `errors_by_document`).
    """
    verdicts, numbers = np.asarray(passes, dtype=float), dict[Hashable, int]()
    valid = ~np.isnan(verdicts)
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in documents])[valid]
    if not codes.size:
        return TrueRate(judge=math.nan, withheld="no output has a verdict")
    judge = float(verdicts[valid].mean())
    table = np.asarray(tested, dtype=float).reshape(-1, 5)
    both, people, alone, neither, times = table.T
    n_both, n_people, n_alone, n_neither = (times @ each for each in (both, people, alone, neither))
    if not table.size:
        return TrueRate(
            judge=judge, withheld="it was not tested on labels with this model and plan"
        )
    for n, word in (n_both + n_people, "passes"), (n_alone + n_neither, "fails"):
        if n < MIN_LABELS:
            why = f"its test labels have {n:.0f} {word}, and {MIN_LABELS} are needed"
            return TrueRate(judge=judge, withheld=why)
    outputs = np.bincount(codes).astype(float)
    passes_by_document = np.bincount(codes, verdicts[valid]).astype(float)
    rate, of_rate = _rate(passes_by_document, outputs, np.ones(outputs.size))
    tpr, of_tpr = _rate(both, both + people, times)
    tnr, of_tnr = _rate(neither, alone + neither, times)
    from scipy.special import stdtrit  # which judging does not need

    of_class = [times @ (counts > 0) for counts in (both + people, alone + neither)]
    t2 = float(stdtrit(min(of_class) + 1, 0.975)) ** 2
    # (rate - 1 + tnr - p (tpr + tnr - 1))^2 = t^2 times its variance: a p^2 - 2 b p + c = 0.
    gap, excess = tpr + tnr - 1, rate - 1 + tnr
    var_rate, var_tpr, var_tnr = (float(terms @ terms) for terms in (of_rate, of_tpr, of_tnr))
    covariance = float(of_tpr[:-2] @ of_tnr[:-2])
    a = gap**2 - t2 * (var_tpr + var_tnr + 2 * covariance)
    b = excess * gap - t2 * (var_tnr + covariance)
    c = excess**2 - t2 * (var_rate + var_tnr)
    youden = n_both / (n_both + n_people) + n_neither / (n_alone + n_neither) - 1
    if a <= 0 or gap <= 0 or youden <= 0:
        why = "on its test labels it may do no better than chance (TPR + TNR - 1 may be 0)"
        return TrueRate(judge=judge, withheld=why)
    value = (judge - n_alone / (n_alone + n_neither)) / youden
    value, root = float(np.clip(value, 0, 1)), math.sqrt(max(0.0, b * b - a * c))
    low, high = max(0.0, (b - root) / a), min(1.0, (b + root) / a)
    return TrueRate(judge=judge, value=value, low=min(low, value), high=max(high, value))


def _rate(counts: Vector, of: Vector, times: Vector) -> tuple[float, Vector]:
    """A share of the outputs of documents, and what each kind of document adds to its error.

    Two documents are added, one with all and one with none (Agresti and Caffo 2000), so that ten of
    ten are not certain. They are smaller than average, since outputs of a document are similar.
    """
    size = math.sqrt(times @ of / (times @ (of > 0)) / 2)
    counts, of = np.concatenate([counts, [size, 0]]), np.concatenate([of, [size, size]])
    times = np.concatenate([times, [1, 1]])
    total, n = times @ of, times @ (of > 0)
    share = float(times @ counts / total)
    return share, (counts - share * of) / total * np.sqrt(times * n / (n - 1))
