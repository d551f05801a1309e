"""The share that people would pass, from what a judge passes and how it errs (Rogan and Gladen).

A judge passes r = p tpr + (1 - p)(1 - tnr) of outputs of which people pass p; labelled outputs that
taught it nothing tell tpr and tnr. The interval holds each p whose r is no further from the judge's
than chance goes, by the errors of all three rates over documents (Fieller). There is none where
tpr + tnr - 1 may be 0.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
# Fewer labelled outputs of a class say too little of how the judge errs on it.
FEWEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRate:
    """The share that the judge passes, and the corrected one with its 95 % interval.

    What cannot be had is NaN, and `withheld` says why.
    """

    judge: float
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    withheld: str = ""

    def __str__(self) -> str:
        judge = f"the judge passes {self.judge:.0%}"
        if self.withheld:
            return f"{judge}; not corrected for its errors: {self.withheld}"
        ends = f"[{100 * self.low:.0f}, {100 * self.high:.0f}]"
        return f"{judge}; corrected for its errors on the test labels {self.value:.0%} {ends}"


def tested_documents(
    passes: ArrayLike, human: ArrayLike, documents: Sequence[Hashable]
) -> list[list[int]]:
    """A judge's verdicts beside people's (1, 0; NaN is left out), as `corrected_rate` takes them.

    A row holds the counts of outputs that both pass, people alone, the judge alone and neither, and
    how many documents have these counts.
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
    """The true rate of outputs that the judge passes or fails (1, 0; NaN is left out).

    `tested` tells how it errs (see `tested_documents`).
    """
    verdicts, numbers = np.asarray(passes, dtype=float), dict[Hashable, int]()
    known = np.flatnonzero(~np.isnan(verdicts))
    codes = np.array([numbers.setdefault(documents[row], len(numbers)) for row in known], int)
    if not codes.size:
        return TrueRate(judge=math.nan, withheld="no output has a verdict")
    judge = float(verdicts[known].mean())
    table = np.asarray(tested, dtype=int).reshape(-1, 5)
    both, people, alone, neither = np.repeat(table[:, :4], table[:, 4], axis=0).T.astype(float)
    for n, word in ((both + people).sum(), "passes"), ((alone + neither).sum(), "fails"):
        if n < FEWEST:
            why = f"{n:.0f} {word} are among its test labels; {FEWEST} are the least"
            return TrueRate(judge=judge, withheld=why)
    rate, of_rate = _rate(np.bincount(codes, verdicts[known]), np.bincount(codes).astype(float))
    tpr, of_tpr = _rate(both, both + people)
    tnr, of_tnr = _rate(neither, alone + neither)
    from scipy.special import stdtrit  # which judging does without

    documents_of_class = min(int((both + people > 0).sum()), int((alone + neither > 0).sum()))
    t2 = float(stdtrit(documents_of_class + 1, 0.975)) ** 2
    # (rate - 1 + tnr - p (tpr + tnr - 1))^2 = t^2 times its variance: a p^2 - 2 b p + c = 0.
    gap, excess = tpr + tnr - 1, rate - 1 + tnr
    var_rate, var_tpr, var_tnr = ((terms**2).sum() for terms in (of_rate, of_tpr, of_tnr))
    covariance = (of_tpr[:-2] * of_tnr[:-2]).sum()
    a = gap**2 - t2 * (var_tpr + var_tnr + 2 * covariance)
    b = excess * gap - t2 * (var_tnr + covariance)
    c = excess**2 - t2 * (var_rate + var_tnr)
    youden = both.sum() / (both + people).sum() + neither.sum() / (alone + neither).sum() - 1
    if a <= 0 or gap <= 0 or youden <= 0:
        why = "on its test labels it may do no better than chance (TPR + TNR - 1 may be 0)"
        return TrueRate(judge=judge, withheld=why)
    value = (judge - alone.sum() / (alone + neither).sum()) / youden
    value, root = float(np.clip(value, 0, 1)), math.sqrt(max(0.0, b * b - a * c))
    low, high = max(0.0, (b - root) / a), min(1.0, (b + root) / a)
    return TrueRate(judge=judge, value=value, low=min(low, value), high=max(high, value))


def _rate(counted: Vector, of: Vector) -> tuple[float, Vector]:
    """A share of the outputs of documents, and what each document adds to its error.

    Ten of ten are no certainty: two documents are added, one with all and one with none (Agresti
    and Caffo 2000). Outputs of a document are partly alike, so that these are smaller than average.
    """
    size = math.sqrt(of.sum() / (of > 0).sum() / 2)
    counted, of = np.concatenate([counted, [size, 0]]), np.concatenate([of, [size, size]])
    share, n = float(counted.sum() / of.sum()), int((of > 0).sum())
    return share, (counted - share * of) / of.sum() * math.sqrt(n / (n - 1))
