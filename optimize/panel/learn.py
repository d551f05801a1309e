"""Learn from labels how to join several judges' scores, and whether to join them at all.

Weights are non-negative and drawn halfway to equal ones: that is what holds on systems that no
label showed, where regressions and trees that follow the labels freely lose to the plain mean.
Whether the best single judge, the plain mean or the learned weights ship, is chosen by what each
reaches on documents and systems that its weights were not learned from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.panel.crossfit import CrossFit, cross_fit
from optimize.panel.maps import Line
from optimize.panel.members import LabelledScores, MemberScores, labelled_scores
from optimize.panel.weights import SHRINKAGE, PanelKind, Plan, moments_of, weighted_mean
from optimize.report.text import counted
from optimize.search.gate import FEWEST_DOCUMENTS, MOST_FAILED, Gain, gains
from optimize.search.objective import Level
from optimize.statistics.coefficients import Vector

# A smaller difference is the order of a sum. The simpler way stays where another is no better, and
# gets no favour beyond that: an error of the comparison is as often for it as against it.
LEAST_DIFFERENCE = 1e-9
NAMES: Mapping[PanelKind, str] = {
    "own": "the best single judge",
    "mean": "the plain mean",
    "learned": "the learned weights",
}
SHIPPED: Mapping[PanelKind, str] = {
    "own": "the best single judge is kept",
    "mean": "the plain mean is shipped",
    "learned": "the learned weights are shipped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCandidate:
    """One way to join the members: its weights on all labels, and rho on labels it never met.

    `dev` is the mean over documents of rho (dataset level and pairs: rho over all) where every
    output was scored by weights learned from other documents and, where there are systems enough,
    other systems; `gain` its gain on the best single judge, with an interval that holds for all
    candidates together, over documents by systems like these; None for that judge itself. `why`
    says what follows.
    """

    kind: PanelKind
    members: tuple[str, ...]
    weights: tuple[float, ...]
    dev: float
    gain: Gain | None
    cost_per_1000: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFit:
    """What ships: members with their lines and weights; a score is the lines' weighted mean.

    `members` have a weight above 0 and stand in order of weight; `weights` sum to 1; `lines` take
    each member's score to the common scale. `shrinkage` is how far weights are drawn to equal ones,
    0 not at all, 1 wholly.
    """

    kind: PanelKind
    members: tuple[str, ...]
    weights: tuple[float, ...]
    lines: tuple[Line, ...]
    candidates: tuple[PanelCandidate, ...]
    shrinkage: float
    why: str


def learn_panel(
    members: Sequence[MemberScores],
    ratings: ArrayLike,
    documents: ArrayLike,
    systems: ArrayLike | None,
    *,
    level: Level,
    rng: np.random.Generator,
) -> PanelFit:
    """The panel of these members that people's ratings support, or the best of them alone.

    Raises ValueError for shapes that differ and names that repeat.
    """
    labelled = labelled_scores(
        members, ratings, documents, systems, ranked_together=level == "dataset"
    )
    return _choose(labelled, rng)


def learn_pair_panel(
    members: Sequence[MemberScores],
    margins: ArrayLike,
    documents: ArrayLike,
    *,
    rng: np.random.Generator,
) -> PanelFit:
    """The plain mean of margins from -1 (B) to 1 (A), or the best member alone.

    Rho is over all pairs in both orders, so that it does not hang on which candidate is called A.
    Lines go through 0 and stay within [-1, 1]: a panel's margin is one, too, and changes its sign
    where the two candidates change places.
    """
    labelled = labelled_scores(members, margins, documents, None, ranked_together=True, pairs=True)
    return _choose(labelled, rng)


def joined_scores(fit: PanelFit, scores: Mapping[str, Vector]) -> NDArray[np.float64]:
    """The panel's scores of rows that its members scored, by name; NaN where one of them failed."""
    mapped = [line.of(scores[name]) for name, line in zip(fit.members, fit.lines, strict=True)]
    return weighted_mean(np.stack(mapped, axis=1), np.array(fit.weights))


def _choose(labelled: LabelledScores, rng: np.random.Generator) -> PanelFit:
    """Compare the best single judge with the panel that labels support.

    One panel is compared, since the better of two is partly luck: the learned weights, which are
    halfway to the plain mean, or the mean itself where labels cannot support weights.
    """
    usable = labelled.usable
    place = _best_member(labelled)
    alone = Plan(kind="own", shrinkage=1.0, members=tuple(i == place for i in range(usable.size)))
    if not usable.any():
        return _fit_of(labelled, alone, (), "no judge tells two outputs of a document apart")
    everyone = tuple(usable.tolist())
    plans = [Plan(kind="mean", shrinkage=1.0, members=everyone)]
    if not labelled.pairs:
        plans.append(Plan(kind="learned", shrinkage=SHRINKAGE, members=everyone))
    crossed = cross_fit(labelled, [alone, *plans], rng)
    gain_of = dict(zip(plans, gains([crossed.contrast(p, alone) for p in plans], rng), strict=True))
    faults = {plan: _fault(labelled, crossed, alone, plan, rng) for plan in plans}
    panel = plans[-1] if faults[plans[-1]] is None else plans[0]
    better = faults[panel] is None and crossed.contrast(panel, alone).value > LEAST_DIFFERENCE
    chosen = panel if better else alone

    def why(plan: Plan) -> str:
        known = plan in gain_of and gain_of[plan].n_documents > 0
        evidence = f"{_evidence(gain_of[plan], crossed)}: " if known else ""
        higher = crossed.rho(plan) > crossed.rho(chosen)
        return f"{evidence}{_verdict(plan, chosen, faults.get(plan), higher=higher)}"

    candidates = tuple(
        _candidate(labelled, crossed, plan, gain_of.get(plan), why(plan))
        for plan in [alone, *plans]
    )
    # Where the best single judge stays, what the panel showed is the reason.
    rival = f"{why(panel)}; " if chosen is alone else ""
    flat = [m.name for m, use in zip(labelled.members, usable, strict=True) if not use]
    left_out = f"; no part has {', '.join(flat)}, which tells no two outputs apart" if flat else ""
    return _fit_of(labelled, chosen, candidates, f"{rival}{why(chosen)}{left_out}")


def _verdict(plan: Plan, chosen: Plan, fault: str | None, *, higher: bool) -> str:
    """What follows for a plan, in words."""
    if plan is chosen:
        return SHIPPED[plan.kind]
    if fault is not None:
        return f"it cannot ship, since {fault}"
    if higher:
        return "passed over, since the best of several is partly luck"
    return f"no better than {NAMES[chosen.kind]}"


def _fault(
    labelled: LabelledScores,
    crossed: CrossFit,
    alone: Plan,
    plan: Plan,
    rng: np.random.Generator,
) -> str | None:
    """Why a plan may not ship whatever its gain; None: nothing stands against it."""
    if len(crossed.contrast(plan, alone).documents) < FEWEST_DOCUMENTS:
        return "there are too few documents to tell"
    rates = [_failure_rate(labelled, candidate) for candidate in (plan, alone)]
    if rates[0] > max(MOST_FAILED, rates[1]):
        return f"it fails on {rates[0]:.0%} of the outputs"
    (agreement,) = gains([crossed.contrast(plan)], rng)
    if plan.kind == "learned" and not agreement.is_clear:
        return (
            "its agreement with people may be chance, so that weights learned from it may be, too"
        )
    return None


def _failure_rate(labelled: LabelledScores, plan: Plan) -> float:
    scores = weighted_mean(labelled.mapped, _weights(labelled, plan))
    return float(np.isnan(scores).mean())


def _weights(labelled: LabelledScores, plan: Plan) -> Vector:
    """A plan's weights by all labels."""
    return plan.weights(moments_of(labelled, np.arange(labelled.human.size)))


def _best_member(labelled: LabelledScores) -> int:
    """The member of the highest rho, alone, of those that do not often fail."""
    rows = np.arange(labelled.human.size)
    terms = labelled.terms(labelled.scores, rows)
    defined = ~np.isnan(terms)
    rho = np.nan_to_num(terms).sum(axis=0) / np.maximum(defined.sum(axis=0), 1)
    fails = np.isnan(labelled.scores).mean(axis=0) > MOST_FAILED
    return int(np.argmax(np.where(fails & ~fails.all(), -np.inf, rho)))


def _evidence(gain: Gain, crossed: CrossFit) -> str:
    systems = " and systems" if crossed.holds_systems_out else ""
    clear = ", which may be chance" if gain.value > 0 and not gain.is_clear else ""
    documents = counted(gain.n_documents, "document")
    return (
        f"{gain.value:+.3f} rho [{gain.low:+.3f}, {gain.high:+.3f}] on the best single judge over "
        f"{documents}, each scored by weights from other documents{systems}{clear}"
    )


def _candidate(
    labelled: LabelledScores, crossed: CrossFit, plan: Plan, gain: Gain | None, why: str
) -> PanelCandidate:
    weights = _weights(labelled, plan)
    order = _by_weight(labelled, weights)
    return PanelCandidate(
        kind=plan.kind,
        members=tuple(labelled.members[place].name for place in order),
        weights=tuple(float(weights[place]) for place in order),
        dev=crossed.rho(plan),
        gain=gain,
        cost_per_1000=float(sum(labelled.members[place].cost_per_1000 for place in order)),
        why=why,
    )


def _by_weight(labelled: LabelledScores, weights: Vector) -> list[int]:
    shares = {place: round(weight, 9) for place, weight in enumerate(weights.tolist()) if weight}
    return sorted(shares, key=lambda place: (-shares[place], labelled.members[place].name))


def _fit_of(
    labelled: LabelledScores, plan: Plan, candidates: tuple[PanelCandidate, ...], why: str
) -> PanelFit:
    weights = np.array(plan.members, float) if plan.kind == "own" else _weights(labelled, plan)
    order = _by_weight(labelled, weights)
    # A judge that says one thing of all can be the best one; it keeps its scores.
    lines = tuple(labelled.lines[place] or Line() for place in order)
    return PanelFit(
        kind=plan.kind,
        members=tuple(labelled.members[place].name for place in order),
        weights=tuple(float(weights[place]) for place in order),
        lines=lines,
        candidates=candidates,
        shrinkage=plan.shrinkage,
        why=why,
    )
