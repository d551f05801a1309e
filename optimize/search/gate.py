"""Which candidate dev supports, and whether the support suffices to ship it instead of the seed.

The finalists are compared with the seed document by document. The chance that the best of several
only looks better is priced by the largest of their studentised bootstrap differences (the
max-statistic: exact in the number tried and in how alike the finalists are, where a factor for the
number alone would overcharge near-twins). Test labels have no part in it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
# One-sided: with a 95 % interval, two and a half of a hundred worthless winners would pass.
TAIL = 0.025
FEWEST_DOCUMENTS = 5

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A candidate's mean difference from the seed over documents, and its simultaneous interval."""

    value: float
    low: float
    high: float
    n_documents: int
    error: float = np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The gate's decision: `best` is the finalists' index (None: there was none to choose)."""

    best: int | None
    ship: bool
    why: str
    gain: Gain | None = None
    unseen: Gain | None = None


def gains(differences: Matrix, rng: np.random.Generator, tail: float = TAIL) -> list[Gain]:
    """One simultaneous interval a row; `differences` is candidates x documents, NaN left out.

    All lows hold together with probability 1 - tail, and all highs likewise.
    """
    kept = differences[:, ~np.isnan(differences).all(axis=0)]
    number, counts = kept.shape[1], (~np.isnan(kept)).sum(axis=1)
    value, error = _mean_and_error(kept[None])
    if counts.min(initial=number) < 2:
        return [
            Gain(value=float(v), low=-np.inf, high=np.inf, n_documents=int(n))
            for v, n in zip(value[0], counts, strict=True)
        ]
    drawn = rng.integers(0, number, (RESAMPLES, number))
    again, spread = _mean_and_error(kept[:, drawn].transpose(1, 0, 2))
    # A resample of nearly one document repeated has no spread of its own: it may not divide by it.
    spread = np.maximum(spread, error / 4)
    with np.errstate(invalid="ignore", divide="ignore"):
        studentised = np.nan_to_num((again - value) / spread)
    above = float(np.quantile(studentised.max(axis=1), 1 - tail))
    below = float(np.quantile(studentised.min(axis=1), tail))
    return [
        Gain(
            value=float(v),
            low=float(v - above * e),
            high=float(v - below * e),
            n_documents=int(n),
            error=float(e),
        )
        for v, e, n in zip(value[0], error[0], counts, strict=True)
    ]


def _mean_and_error(differences: Matrix) -> tuple[Matrix, Matrix]:
    """Mean over the last axis and its standard error; NaN entries are left out of both."""
    there = ~np.isnan(differences)
    count = np.maximum(there.sum(axis=-1), 1)
    filled = np.where(there, differences, 0.0)
    mean = filled.sum(axis=-1) / count
    squares = np.where(there, (differences - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1) / count)


def choose(
    differences: Matrix,
    unseen: Matrix | None,
    n_tried: int,
    rng: np.random.Generator,
    n_own: int | None = None,
) -> Choice:
    """Ship the finalist whose gain on dev has the highest low end, if that lies above zero.

    `differences` and `unseen` are finalists x documents, the first `n_own` of them dev's and the
    others, where there are any, train's: a finalist that train has not chosen is judged there too,
    and the others have NaN. `unseen` is over the outputs of systems that no demonstration showed
    (None where there are none). There the judge may not lose by more than a standard error: a gain
    on known systems alone is worth little to those who judge new ones, but to ask for a gain there,
    too, would keep most seeds for what chance did to a few systems.
    """
    if len(differences) == 0:
        why = f"none of {n_tried} candidates did better than the seed on train, so the seed is kept"
        return Choice(best=None, ship=False, why=why)
    found = gains(differences, rng)
    first = max(range(len(found)), key=lambda index: (found[index].low, -index))
    best: int | None = first
    gain = found[first]
    beyond = gains(unseen[first : first + 1], rng)[0] if unseen is not None else None
    own = float(_mean_and_error(differences[:, :n_own])[0][first])
    where = "dev documents"
    if n_own is not None and np.isfinite(differences[first, n_own:]).any():
        where = f"dev and train documents, judged by versions never shown them ({own:+.3f} on dev)"
    said = (
        f"{gain.value:+.3f} rho [{gain.low:+.3f}, {gain.high:+.3f}] over {gain.n_documents} {where}"
        f", widened for the {len(found)} compared there, of {n_tried} tried"
    )
    ship = False
    if gain.value <= 0:
        best, why = None, f"{said}: it does no better than the seed there, so the seed is kept"
    elif gain.n_documents < FEWEST_DOCUMENTS:
        why = f"{said}: too few documents to tell, so the seed is kept"
    elif gain.low <= 0 or own <= 0:
        why = f"{said}: no clear gain, so the seed is kept"
    elif beyond is not None and beyond.value + beyond.error < 0:
        why = f"{said}, but {_new(beyond)}: the gain does not carry over, so the seed is kept"
    else:
        there = f", {_new(beyond)}" if beyond else ""
        ship, why = True, f"{said}{there}: the tuned judge is shipped"
    return Choice(best=best, ship=ship, why=why, gain=gain, unseen=beyond)


def _new(gain: Gain) -> str:
    return f"{gain.value:+.3f} (standard error {gain.error:.3f}) on systems no demonstration showed"
