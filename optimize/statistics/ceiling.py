"""How well people agree with each other, and the judge measured in the very same way.

The human ceiling: each annotator in turn is left out and held against the mean of the others; so
is the judge. A judge compared with everybody's mean instead would have it easier: that mean is less
noisy.

The alternative-annotator test (arXiv:2501.10970), may this judge replace an annotator? On every
output the judge and the annotator left out are held against the others' ratings; the nearer one
(root mean square distance) has the advantage, both where they are equally near. The judge wins over
an annotator when it has the advantage nearly as often, short by less than epsilon, the discount for
a judge being cheaper; a one-sided t-test for each annotator, the false discovery rate held by
Benjamini and Yekutieli. It passes if it wins over half of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    interval_around,
    ratio_interval,
    resample,
)
from optimize.statistics.coefficients import Coefficient, Matrix, Vector
from optimize.statistics.levels import (
    PRIMARY,
    Codes,
    Level,
    Mask,
    Statistic,
    Undefined,
    by_convention,
    document_coefficients,
    level_statistic,
    read_rows,
)

# Rhos of fewer documents than these say nothing of how well people agree.
MIN_DOCUMENTS = 10
# The alternative-annotator test needs about this many outputs for each annotator, says the paper.
MIN_OUTPUTS = 30
# What the paper advises for experts; 0.15 for trained people, 0.1 for crowds.
EPSILON = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One annotator against the mean of the others, and the judge against that same mean.

    `bias` is how much higher than the others they rate.
    At summary level the same `n_documents` enter both means, those that the others do not rate
    alike; in `n_defined` of them the annotator tells outputs apart, too, and has a rho.
    """

    annotator: int
    value: float
    judge: float
    bias: float
    n_outputs: int
    n_documents: int
    n_defined: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The human ceiling and the judge under it, both averaged over the annotators left out.

    `share` is judge / human, the share of the ceiling that the judge reaches. Where figures would
    mislead they are NaN, and `why` says what is missing: all of them where too few documents have
    a rho, the share alone where the ceiling's own interval reaches 0. `n_documents` enter a mean,
    in `n_defined` of them an annotator and the others both tell outputs apart, so that there is a
    rho among people. `n_outputs` have two ratings or more and a score; `n_failed` more have none.
    """

    human: float
    human_interval: Interval | None
    judge: float
    judge_interval: Interval | None
    share: float
    share_interval: Interval | None
    coefficient: Coefficient
    level: Level
    left_out: tuple[LeftOut, ...]
    n_outputs: int
    n_documents: int
    n_defined: int
    n_failed: int
    undefined: Undefined = PRIMARY
    why: str = ""


def mean_of_others(annotations: Matrix, annotator: int) -> Vector:
    """The mean rating of all but one annotator; NaN where nobody else rated an output."""
    rest = np.delete(annotations, annotator, axis=1)
    n = (~np.isnan(rest)).sum(axis=1)
    # Rounded, because the order of a sum must not break a tie.
    means = np.round(np.nansum(rest, axis=1) / np.maximum(n, 1), 10)
    return np.where(n > 0, means, np.nan)


def human_ceiling(
    judge: ArrayLike,
    annotations: ArrayLike,
    document: ArrayLike,
    *,
    rng: np.random.Generator,
    level: Level = "summary",
    system: ArrayLike | None = None,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    fewest_documents: int = MIN_DOCUMENTS,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Ceiling:
    """Leave one annotator out; `annotations` is (outputs, annotators), NaN where unrated.

    Both sides use the outputs that the annotator, somebody else and the judge all scored, and the
    same convention on the same documents: one that the others rate alike is left out, one that the
    annotator (or the judge) rates alike counts 0. With fewer than `fewest_documents` that have a
    rho there is no ceiling. The share's interval is Fieller's. Raises ValueError with fewer than
    two annotators or where no output has two ratings. At system level the intervals are for these
    very systems.
    """
    ratings, scores = np.asarray(annotations, dtype=float), np.asarray(judge, dtype=float)
    if ratings.ndim != 2 or ratings.shape[1] < 2 or ratings.shape[0] != scores.size:
        raise ValueError(
            f"annotations of shape {ratings.shape} for {scores.size} outputs: a row an output and "
            "two annotators or more are needed"
        )
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    rated, failed = _rated_twice(ratings), np.isnan(scores)
    comparable = rated & ~failed
    if not comparable.any():
        raise ValueError("no output was rated by two annotators and scored by the judge")
    systems = None if system is None else np.asarray(system)[comparable]
    documents = np.unique(np.asarray(document)[comparable], return_inverse=True)[1]
    n = int(documents.max()) + 1
    ratings, scores = ratings[comparable], scores[comparable]
    comparisons = [
        left_out
        for annotator in range(ratings.shape[1])
        if (
            left_out := _leave_out(
                annotator, ratings, scores, documents, systems, level, coefficient, undefined
            )
        )
    ]
    human_statistics = [left_out.human for left_out in comparisons]
    judge_statistics = [left_out.judge for left_out in comparisons]

    def human_and_judge(weights: Matrix) -> Matrix:
        return np.stack(
            [_mean(human_statistics, weights), _mean(judge_statistics, weights)], axis=1
        )

    unweighted = np.ones((1, n))
    human, judged = human_and_judge(unweighted)[0].tolist()
    draws = resample(human_and_judge, n, resamples, rng)
    human_interval, judge_interval = (
        interval_around(side, value, n, confidence=confidence)
        for side, value in zip(draws.T, (human, judged), strict=True)
    )
    share = judged / human if human > 0 else np.nan
    share_interval = ratio_interval(draws[:, 1], draws[:, 0], share, human, n, confidence)
    n_defined = _n_distinct([left_out.defined for left_out in comparisons])
    reason = ""
    if n_defined < fewest_documents:
        reason = (
            f"annotators and others both tell outputs apart in {n_defined} of {n} documents, and "
            f"{fewest_documents} are needed for a ceiling"
        )
        human, judged, human_interval, judge_interval = np.nan, np.nan, None, None
    elif share_interval is None:
        reason = "people's own agreement cannot be told from 0, so there is no share of it"
    if reason:
        share, share_interval = np.nan, None
    return Ceiling(
        human=human,
        human_interval=human_interval,
        judge=judged,
        judge_interval=judge_interval,
        share=share,
        share_interval=share_interval,
        coefficient=coefficient,
        level=level,
        left_out=tuple(
            LeftOut(
                annotator=left_out.annotator,
                value=float(left_out.human(unweighted)[0]),
                judge=float(left_out.judge(unweighted)[0]),
                bias=left_out.bias,
                n_outputs=left_out.n_outputs,
                n_documents=left_out.entered.size,
                n_defined=left_out.defined.size,
            )
            for left_out in comparisons
        ),
        n_outputs=int(comparable.sum()),
        n_documents=_n_distinct([left_out.entered for left_out in comparisons]),
        n_defined=n_defined,
        n_failed=int((rated & failed).sum()),
        undefined=undefined,
        why=reason,
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An annotator and the judge against the mean of the others: statistics of all documents.

    `entered` are the documents in the means, `defined` those of them with a rho among people.
    """

    annotator: int
    human: Statistic
    judge: Statistic
    bias: float
    n_outputs: int
    entered: Codes
    defined: Codes


def _leave_out(
    annotator: int,
    ratings: Matrix,
    scores: Vector,
    documents: Codes,
    systems: np.ndarray | None,
    level: Level,
    coefficient: Coefficient,
    undefined: Undefined,
) -> _Comparison | None:
    """None where no output was rated by the annotator and by somebody else."""
    own, reference = ratings[:, annotator], mean_of_others(ratings, annotator)
    usable = ~np.isnan(own + reference)
    if not usable.any():
        return None
    system = None if systems is None else systems[usable]
    present = np.unique(documents[usable])
    human, judge = (
        read_rows(side[usable], reference[usable], documents[usable], system)
        for side in (own, scores)
    )
    entered = defined = present
    if level == "summary":
        values = document_coefficients(human, coefficient)
        defined = present[~np.isnan(values)]
        entered = present[~np.isnan(by_convention(values, human, undefined))]
    of_human, of_judge = (
        level_statistic(rows, level, coefficient, undefined) for rows in (human, judge)
    )
    return _Comparison(
        annotator=annotator,
        human=lambda weights: of_human(weights[:, present]),
        judge=lambda weights: of_judge(weights[:, present]),
        bias=float((own - reference)[usable].mean()),
        n_outputs=int(usable.sum()),
        entered=entered,
        defined=defined,
    )


def _mean(statistics: list[Statistic], weights: Matrix) -> Vector:
    values = np.stack([statistic(weights) for statistic in statistics])
    defined = ~np.isnan(values)
    n = defined.sum(axis=0)
    return np.where(n > 0, np.where(defined, values, 0).sum(axis=0) / np.maximum(n, 1), np.nan)


def _n_distinct(documents: Sequence[Codes]) -> int:
    return int(np.unique(np.concatenate(documents)).size)


def _rated_twice(ratings: Matrix) -> Mask:
    """Which outputs two annotators or more have rated."""
    rated: Mask = (~np.isnan(ratings)).sum(axis=1) > 1
    return rated


def krippendorff_alpha(
    annotations: ArrayLike,
    level_of_measurement: Literal["nominal", "ordinal", "interval", "ratio"] = "interval",
) -> float:
    """Krippendorff's alpha of (outputs, annotators); NaN where it does not exist.

    It does not where no output has two ratings, or all ratings are equal.
    """
    import krippendorff

    ratings = np.asarray(annotations, dtype=float)
    ratings = ratings[_rated_twice(ratings)]
    if ratings.size == 0 or np.nanmax(ratings) == np.nanmin(ratings):
        return np.nan
    return float(krippendorff.alpha(ratings.T, level_of_measurement=level_of_measurement))


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
    fewest: int = MIN_OUTPUTS,
) -> AlternativeTest:
    """Test if the judge agrees with the others as well as each annotator does (arXiv:2501.10970).

    `annotations` is (outputs, annotators), NaN where unrated; an annotator with fewer than `fewest`
    outputs to compare on is left out. The judge may be worse by `epsilon` and still win.

    The paper takes outputs as independent. With `document` the standard error is clustered, which
    is right where several outputs answer one document. Raises ValueError on unequal shapes.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(annotations, dtype=float)
    if ratings.ndim != 2 or ratings.shape[0] != scores.size:
        raise ValueError(f"annotations of shape {ratings.shape} for {scores.size} outputs")
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    advantages = []
    for annotator in range(ratings.shape[1]):
        judged, human, usable = _advantages(scores, ratings, annotator)
        if usable.sum() >= max(fewest, 2):
            p_value = _p_value(human - judged, documents[usable], epsilon)
            advantages.append((annotator, judged, human, p_value))
    wins = _discoveries([p_value for *_, p_value in advantages], false_discovery_rate)
    annotators = tuple(
        Advantage(
            annotator=annotator,
            judge=float(judged.mean()),
            human=float(human.mean()),
            p_value=p_value,
            won=won,
            n_outputs=judged.size,
        )
        for (annotator, judged, human, p_value), won in zip(advantages, wins, strict=True)
    )
    rate = float(np.mean([advantage.won for advantage in annotators])) if annotators else np.nan
    return AlternativeTest(
        winning_rate=rate,
        advantage_probability=(
            float(np.mean([advantage.judge for advantage in annotators])) if annotators else np.nan
        ),
        passed=rate >= 0.5,
        epsilon=epsilon,
        false_discovery_rate=false_discovery_rate,
        annotators=annotators,
        n_annotators_left_out=ratings.shape[1] - len(annotators),
        n_failed=int(np.isnan(scores).sum()),
    )


def _advantages(scores: Vector, ratings: Matrix, annotator: int) -> tuple[Vector, Vector, Mask]:
    """Whether the judge, and whether the annotator, is at least as near to the others: 1.0 or 0.0.

    Two vectors over the usable outputs (scored, and rated by the annotator and by another), and the
    mask of these among all outputs.
    """
    own, rest = ratings[:, annotator], np.delete(ratings, annotator, axis=1)
    usable = ~np.isnan(own + scores) & ~np.isnan(rest).all(axis=1)
    rest = rest[usable]
    # Rounded, because equal distances must tie.
    judge, human = (
        np.round(np.nanmean((side[usable, None] - rest) ** 2, axis=1), 9) for side in (scores, own)
    )
    return (judge <= human).astype(float), (human <= judge).astype(float), usable


def _p_value(gaps: Vector, documents: np.ndarray, epsilon: float) -> float:
    """One-sided t-test that the mean gap is below epsilon, clustered by document."""
    from scipy.special import stdtr

    codes = np.unique(documents, return_inverse=True)[1]
    clusters = int(codes.max()) + 1
    if clusters < 2:
        return 1.0
    sums = np.bincount(codes, gaps - gaps.mean())
    error = np.sqrt(clusters / (clusters - 1) * (sums**2).sum()) / gaps.size
    if error == 0:
        return 0.0 if gaps.mean() < epsilon else 1.0
    return float(stdtr(clusters - 1, (gaps.mean() - epsilon) / error))


def _discoveries(p_values: list[float], rate: float) -> list[bool]:
    """Which p-values are significant at a false discovery rate (Benjamini and Yekutieli)."""
    if not p_values:
        return []
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control(p_values, method="by")
    return [bool(p <= rate) for p in np.atleast_1d(adjusted)]
