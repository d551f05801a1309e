"""The difference between two judges on the same outputs, with its paired interval."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap
from optimize.statistics.coefficients import Coefficient, Matrix, Vector
from optimize.statistics.levels import Level, Undefined, level_statistic, read_rows
from optimize.statistics.systems import difference_interval, system_ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much better judge A agrees with people than judge B does: `value` = `a` - `b`.

    All from the outputs that both scored; `n_failed` counts those that either gave no score.
    """

    value: float
    a: float
    b: float
    coefficient: Coefficient
    level: Level
    interval: Interval | None
    n_outputs: int
    n_documents: int
    n_failed: int


def paired_difference(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    level: Level = "summary",
    system: ArrayLike | None = None,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = "left_out",
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Judge A's correlation minus judge B's; both judges see the same drawn documents.

    At system level the interval is for systems like these, too, and wants five of them.
    At summary level each mean is over that judge's own defined documents, so that the value is the
    difference of the two reported figures (with "zero" and "judge_zero" the documents are the
    same). Raises ValueError as the three levels do, and without `system` at system level.
    """
    a_scores, b_scores = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    if a_scores.shape != b_scores.shape:
        raise ValueError(f"the judges scored {a_scores.shape} and {b_scores.shape} outputs")
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    both = ~(np.isnan(a_scores) | np.isnan(b_scores))
    sides = [
        read_rows(np.where(both, scores, np.nan), human, document, system)
        for scores in (a_scores, b_scores)
    ]
    rows = sides[0]
    once = np.ones((1, rows.n_documents))
    a, b = (level_statistic(side, level, coefficient, undefined) for side in sides)
    values = [float(side(once)[0]) if rows.n_documents else np.nan for side in (a, b)]
    gap = values[0] - values[1]

    def difference(weights: Matrix) -> Vector:
        gaps: Vector = a(weights) - b(weights)
        return gaps

    if level == "system":
        # Both sides get the same chances.
        chance = int(rng.integers(2**63))
        ends_a, ends_b = (
            system_ends(
                side, value, coefficient, np.random.default_rng(chance), resamples, confidence
            )
            for side, value in zip(sides, values, strict=True)
        )
        interval = difference_interval(gap, ends_a, ends_b, confidence)
    else:
        interval = bootstrap(
            difference,
            gap,
            rows.n_documents,
            rng,
            bound=2.0,
            resamples=resamples,
            confidence=confidence,
        )
    return Difference(
        value=gap,
        a=values[0],
        b=values[1],
        coefficient=coefficient,
        level=level,
        interval=interval,
        n_outputs=rows.judge.size,
        n_documents=rows.n_documents,
        n_failed=rows.n_failed,
    )
