"""How much of its scale a judge uses, and how often it cannot tell outputs apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.errors import on_scale
from optimize.statistics.levels import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowding:
    """Use of the scale: shares in [0, 1].

    `levels_used` is the number of equally frequent scores that would be as spread out (the
    exponential of the entropy); `tied` the share of pairs within documents with equal scores.
    """

    at_top: float
    at_bottom: float
    tied: float
    levels_used: float
    n_outputs: int


def crowding(scores: ArrayLike, document: ArrayLike, scale: Sequence[float]) -> Crowding:
    """How scores (a judge's or people's; NaN left out) lie on a scale, by the nearest rating."""
    values = np.asarray(scores, dtype=float)
    rows = read_rows(values, np.zeros(values.size), document)
    n = rows.judge.size
    if not n:
        return Crowding(
            at_top=np.nan, at_bottom=np.nan, tied=np.nan, levels_used=np.nan, n_outputs=0
        )
    nearest = on_scale(rows.judge, scale)
    shares = np.unique(rows.judge, return_counts=True)[1] / n
    sizes = np.bincount(rows.document)
    pairs = float((sizes * (sizes - 1)).sum())
    alike = np.unique(np.stack([rows.document, rows.judge]), axis=1, return_counts=True)[1]
    return Crowding(
        at_top=float((nearest == max(scale)).mean()),
        at_bottom=float((nearest == min(scale)).mean()),
        tied=float((alike * (alike - 1)).sum() / pairs) if pairs else np.nan,
        levels_used=float(np.exp(-(shares * np.log(shares)).sum())),
        n_outputs=n,
    )
