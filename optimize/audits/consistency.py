"""How well a judge agrees with itself when it is asked again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistency:
    """Agreement of a judge's samples of one output.

    `reliability` (intraclass correlation) is the share of a single sample's variance that is due to
    the output; `of_mean` that of the mean of all samples (Spearman-Brown); `spread` the standard
    deviation within an output. `n_outputs` have two samples or more.
    """

    reliability: float
    of_mean: float
    spread: float
    n_outputs: int
    n_samples: float

    def samples_needed(self, reliability: float) -> int | None:
        """How many samples to average for this reliability; None if none would do."""
        if not 0 < self.reliability <= 1 or not 0 < reliability < 1:
            return None
        odds = reliability / (1 - reliability) * (1 - self.reliability) / self.reliability
        return max(1, int(np.ceil(np.round(odds, 9))))


def self_consistency(samples: ArrayLike) -> SelfConsistency:
    """One-way analysis of variance of (outputs, samples); NaN where a sample failed.

    Outputs with fewer than two samples are left out; NaN without two such outputs, or where no
    score differs.
    """
    values = np.asarray(samples, dtype=float)
    n = (~np.isnan(values)).sum(axis=1)
    values, n = values[n > 1], n[n > 1]
    outputs, total = n.size, int(n.sum())
    if outputs < 2:
        nan = float("nan")
        return SelfConsistency(
            reliability=nan, of_mean=nan, spread=nan, n_outputs=outputs, n_samples=nan
        )
    means = np.nansum(values, axis=1) / n
    within = float(np.nansum((values - means[:, None]) ** 2)) / (total - outputs)
    between = float((n * (means - (n * means).sum() / total) ** 2).sum()) / (outputs - 1)
    # The samples an output has on average, as unequal numbers count in this analysis.
    size = (total - float((n**2).sum()) / total) / (outputs - 1)
    due_to_output = max((between - within) / size, 0.0)
    variance = due_to_output + within
    reliability = due_to_output / variance if variance > 0 else float("nan")
    return SelfConsistency(
        reliability=reliability,
        of_mean=size * reliability / (1 + (size - 1) * reliability),
        spread=float(np.sqrt(within)),
        n_outputs=outputs,
        n_samples=size,
    )
