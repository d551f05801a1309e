"""The alternative-annotator test: may this judge replace an annotator?

Each annotator in turn is left out. On every output the judge and that annotator are held against
the others' ratings; the nearer one (root mean square distance) has the advantage, both where they
are equally near. The judge wins over an annotator when it has the advantage nearly as often, short
by less than epsilon, the discount for a judge being cheaper; a one-sided t-test for each annotator,
the false discovery rate held by Benjamini and Yekutieli. It passes if it wins over half of them
(arXiv:2501.10970).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.coefficients import Matrix, Vector

# The test needs about this many outputs for each annotator, says the paper.
FEWEST = 30
# What the paper advises for experts; 0.15 for trained people, 0.1 for crowds.
EPSILON = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantage:
    """How often judge and annotator have the advantage, ties counting for both."""

    annotator: int
    judge: float
    human: float
    p_value: float
    won: bool
    n_outputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeTest:
    """`winning_rate` is the share of annotators won over; NaN where none could be tried.

    `advantage_probability` is the mean of the judge's advantages, for choosing between judges.
    `n_annotators_left_out` rated fewer outputs than the test needs.
    """

    winning_rate: float
    advantage_probability: float
    passed: bool
    epsilon: float
    false_discovery_rate: float
    annotators: tuple[Advantage, ...]
    n_annotators_left_out: int
    n_failed: int


def alternative_test(
    judge: ArrayLike,
    annotations: ArrayLike,
    document: ArrayLike | None = None,
    *,
    epsilon: float = EPSILON,
    false_discovery_rate: float = 0.05,
    fewest: int = FEWEST,
) -> AlternativeTest:
    """Run the test on (outputs, annotators) ratings, NaN where unrated.

    The paper takes outputs as independent. With `document` the standard error is clustered, which
    is right where several outputs answer one document. Raises ValueError on unequal shapes.
    """
    scores, marks = np.asarray(judge, dtype=float), np.asarray(annotations, dtype=float)
    if marks.ndim != 2 or marks.shape[0] != scores.size:
        raise ValueError(f"annotations of shape {marks.shape} for {scores.size} outputs")
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    codes = np.unique(documents, return_inverse=True)[1]
    tried, p_values = [], []
    for annotator in range(marks.shape[1]):
        judged, human, usable = _advantages(scores, marks, annotator)
        if usable.sum() >= max(fewest, 2):
            tried.append((annotator, judged, human))
            p_values.append(_p_value(human - judged, codes[usable], epsilon))
    won = _discoveries(p_values, false_discovery_rate)
    annotators = tuple(
        Advantage(
            annotator=annotator,
            judge=float(judged.mean()),
            human=float(human.mean()),
            p_value=p,
            won=bool(beaten),
            n_outputs=judged.size,
        )
        for (annotator, judged, human), p, beaten in zip(tried, p_values, won, strict=True)
    )
    rate = float(np.mean([one.won for one in annotators])) if annotators else np.nan
    return AlternativeTest(
        winning_rate=rate,
        advantage_probability=(
            float(np.mean([one.judge for one in annotators])) if annotators else np.nan
        ),
        passed=rate >= 0.5,
        epsilon=epsilon,
        false_discovery_rate=false_discovery_rate,
        annotators=annotators,
        n_annotators_left_out=marks.shape[1] - len(annotators),
        n_failed=int(np.isnan(scores).sum()),
    )


def _advantages(
    scores: Vector, marks: Matrix, annotator: int
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """1.0 where the judge, and where the annotator, is at least as near to the others."""
    own, others = marks[:, annotator], np.delete(marks, annotator, axis=1)
    usable = ~np.isnan(own + scores) & ~np.isnan(others).all(axis=1)
    others = others[usable]
    # Rounded, because equal distances must tie.
    judge, human = (
        np.round(np.nanmean((side[usable, None] - others) ** 2, axis=1), 9)
        for side in (scores, own)
    )
    return (judge <= human).astype(float), (human <= judge).astype(float), usable


def _p_value(gaps: Vector, codes: NDArray[np.intp], epsilon: float) -> float:
    """One-sided t-test that the mean gap is below epsilon, clustered by document."""
    from scipy.special import stdtr

    present = np.unique(codes, return_inverse=True)[1]
    clusters = int(present.max()) + 1
    if clusters < 2:
        return 1.0
    sums = np.bincount(present, gaps - gaps.mean())
    error = np.sqrt(clusters / (clusters - 1) * (sums**2).sum()) / gaps.size
    if error == 0:
        return 0.0 if gaps.mean() < epsilon else 1.0
    return float(stdtr(clusters - 1, (gaps.mean() - epsilon) / error))


def _discoveries(p_values: list[float], rate: float) -> list[bool]:
    if not p_values:
        return []
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control(p_values, method="by")
    return [bool(p <= rate) for p in np.atleast_1d(adjusted)]
