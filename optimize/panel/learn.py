"""Learn from labels how to join several judges' scores, and whether to join them at all.

Weights are non-negative and drawn halfway to equal ones: that is what holds on systems that no
label showed, where regressions and trees that follow the labels freely lose to the plain mean.
What the labels leave open, whether such weights are better than the own judge alone, is shared: the
own judge gets as much weight as it has probability to be the better one. Whether the own judge, the
plain mean or the learned weights ship, is chosen by what each reaches on documents and systems that
its weights were not learned from.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.monotone import MonotoneMap
from optimize.figures import counted
from optimize.panel.crossfit import CrossFit, cross_fit
from optimize.panel.maps import Codes, apply_map, codes
from optimize.panel.members import (
    LabelledScores,
    MemberScores,
    check_members,
    labelled_scores,
    member_maps,
)
from optimize.panel.weights import SHRINKAGE, Missing, PanelKind, Plan, moments_of, weighted_mean
from optimize.search.gate import FEWEST_DOCUMENTS, MOST_FAILED, Gain, gains
from optimize.search.objective import Level
from optimize.statistics.coefficients import Vector
from optimize.statistics.difference import Contrast

Prefer = Literal["accuracy", "cost"]

# A smaller difference is the order of a sum. The simpler way stays where another is no better, and
# gets no favour beyond that: an error of the comparison is as often for it as against it.
LEAST_DIFFERENCE = 1e-9
NAMES: Mapping[PanelKind, str] = {
    "own": "the own judge",
    "mean": "the plain mean",
    "learned": "the learned weights",
}
SHIPPED: Mapping[PanelKind, str] = {
    "own": "the own judge is kept",
    "mean": "the plain mean is shipped",
    "learned": "the learned weights are shipped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCandidate:
    """One way to join the members: its weights on all labels, and rho on labels it never met.

    `dev` is the mean over documents of rho (dataset level and pairs: rho over all) where every
    output was scored by weights learned from other documents and, where there are systems enough,
    other systems; `gain` its gain on the own judge, with an interval that holds for all candidates
    together, over documents by systems like these; None for the own judge itself. Only the own
    judge's share of the weights is not learned anew, which flatters a gain a little. `why` says
    what follows.
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
    """What ships: members with their maps and weights; a score is the weighted mean of the maps.

    `members` have a weight above 0 and stand in order of weight; `weights` sum to 1; `maps` take
    each member's score to the common scale. `shrinkage` is how far weights are drawn to equal ones,
    0 not at all, 1 wholly; then `own_share` of them went to the member `own` (None: to none).
    `candidates` is empty where there were no labels.
    """

    kind: PanelKind
    members: tuple[str, ...]
    weights: tuple[float, ...]
    maps: tuple[MonotoneMap, ...]
    candidates: tuple[PanelCandidate, ...]
    shrinkage: float
    why: str
    own: str | None = None
    own_share: float = 0.0


def learn_panel(
    members: Sequence[MemberScores],
    ratings: ArrayLike,
    documents: ArrayLike,
    systems: ArrayLike | None,
    *,
    own: str | None,
    level: Level,
    rng: np.random.Generator,
    max_members: int | None = None,
    prefer: Prefer = "accuracy",
    missing: Missing = "fail",
) -> PanelFit:
    """The panel of these members that people's ratings support, or one's own judge alone.

    `own` names the judge to beat (None: the member with the highest rho). Raises ValueError for
    shapes that differ, names that repeat, an unknown `own`, or costs unknown and preferred.
    """
    labelled = labelled_scores(
        members, ratings, documents, systems, ranked_together=level == "dataset"
    )
    return _choose(labelled, own, rng, max_members, prefer, missing)


def learn_pair_panel(
    members: Sequence[MemberScores],
    margins: ArrayLike,
    documents: ArrayLike,
    *,
    own: str | None,
    rng: np.random.Generator,
    max_members: int | None = None,
    prefer: Prefer = "accuracy",
    missing: Missing = "fail",
) -> PanelFit:
    """The same for pairs: margins of -1 (B) to 1 (A), by members and by people.

    Rho is over all pairs in both orders, so that it does not hang on which candidate is called A.
    Maps go through 0 and stay within [-1, 1]: a panel's margin is one, too, and changes its sign
    where the two candidates change places.
    """
    labelled = labelled_scores(members, margins, documents, None, ranked_together=True, pairs=True)
    return _choose(labelled, own, rng, max_members, prefer, missing)


def plain_mean(members: Sequence[MemberScores], documents: ArrayLike | None = None) -> PanelFit:
    """All members with equal weights, without labels; maps from their own scores.

    `documents` (parallel to the scores) say which outputs are ranked together; None: all. Raises
    ValueError for a member that gives all outputs the same score.
    """
    n = len(members[0].scores) if members else 0
    group = codes(documents) if documents is not None else np.zeros(n, dtype=np.intp)
    return _equal(members, group, pairs=False)


def plain_pair_mean(members: Sequence[MemberScores]) -> PanelFit:
    """All members' margins with equal weights, without labels. Raises ValueError as above."""
    n = len(members[0].scores) if members else 0
    return _equal(members, np.zeros(n, dtype=np.intp), pairs=True)


def panel_scores(
    fit: PanelFit, members: Sequence[MemberScores], missing: Missing = "fail"
) -> NDArray[np.float64]:
    """The panel's scores of rows that its members scored; NaN where one of them failed.

    With "renormalise" the others speak for it, and NaN means that all failed.
    """
    by_name: Mapping[str, MemberScores] = {member.name: member for member in members}
    mapped = [
        apply_map(monotone, by_name[name].scores)
        for name, monotone in zip(fit.members, fit.maps, strict=True)
    ]
    return weighted_mean(np.stack(mapped, axis=1), np.array(fit.weights), missing)


def _equal(members: Sequence[MemberScores], group: Codes, *, pairs: bool) -> PanelFit:
    check_members(members, len(group), pairs=pairs)
    maps = []
    for member, monotone in zip(members, member_maps(members, group, pairs=pairs), strict=True):
        if monotone is None:
            raise ValueError(
                f"{member.name} tells no two outputs apart, so it says nothing: leave it out"
            )
        maps.append(monotone)
    return PanelFit(
        kind="mean",
        members=tuple(member.name for member in members),
        weights=(1 / len(members),) * len(members),
        maps=tuple(maps),
        candidates=(),
        shrinkage=1.0,
        why="equal weights, untuned: there are no labels to learn from",
    )


def _choose(
    labelled: LabelledScores,
    own: str | None,
    rng: np.random.Generator,
    max_members: int | None,
    prefer: Prefer,
    missing: Missing,
) -> PanelFit:
    """Compare the own judge with the panel that labels support."""
    _check_request(labelled, own, max_members, prefer)
    usable = labelled.usable
    names = [member.name for member in labelled.members]
    place = names.index(own) if own is not None else _best_member(labelled)
    alone = Plan(
        kind="own", shrinkage=1.0, members=tuple(i == place for i in range(usable.size)), most=1
    )
    most = min(max_members or usable.size, int(usable.sum()))
    if not usable.any():
        return _fit_of(labelled, alone, (), "no judge tells two outputs of a document apart")
    everyone = tuple(usable.tolist())
    mean = Plan(kind="mean", shrinkage=1.0, members=everyone, most=most)
    shrunk = replace(mean, kind="learned", shrinkage=SHRINKAGE, own=place)
    # A copy, so that both comparisons are over the same folds.
    gap = cross_fit(labelled, [alone, shrunk], deepcopy(rng), missing).contrast(shrunk, alone)
    plans = [mean, replace(shrunk, own_share=1 - _probability_above_zero(gap))]
    if prefer == "cost":
        plans += _cheaper_plans(labelled, plans)
    crossed = cross_fit(labelled, [alone, *plans], rng, missing)
    return _decide(labelled, crossed, alone, plans, rng, prefer, missing)


def _decide(
    labelled: LabelledScores,
    crossed: CrossFit,
    alone: Plan,
    plans: Sequence[Plan],
    rng: np.random.Generator,
    prefer: Prefer,
    missing: Missing,
) -> PanelFit:
    """Ship a panel that is better than the own judge, or the cheapest that is as good.

    One panel is compared, since the better of two is partly luck: the learned weights, which are
    halfway to the plain mean, or the mean itself where labels cannot support weights.
    """
    gain_of = dict(zip(plans, gains([crossed.contrast(p, alone) for p in plans], rng), strict=True))
    faults = {plan: _fault(labelled, crossed, alone, plan, rng, missing) for plan in plans}
    mean, learned = plans[:2]
    panel = learned if faults[learned] is None else mean
    better = faults[panel] is None and crossed.contrast(panel, alone).value > LEAST_DIFFERENCE
    chosen = best = panel if better else alone
    if prefer == "cost":
        sound = [alone, *(plan for plan in plans if faults[plan] is None)]
        chosen = _cheapest_as_good(labelled, crossed, best, sound)

    def why(plan: Plan) -> str:
        known = plan in gain_of and gain_of[plan].n_documents > 0
        evidence = f"{_evidence(gain_of[plan], crossed)}: " if known else ""
        higher = crossed.rho(plan) > crossed.rho(best)
        return f"{evidence}{_verdict(plan, chosen, best, faults.get(plan), higher=higher)}"

    candidates = tuple(
        _candidate(labelled, crossed, plan, gain_of.get(plan), why(plan))
        for plan in [alone, *plans]
    )
    # Where the own judge stays, what the panel showed is the reason.
    rival = f"{why(panel)}; " if chosen is alone else ""
    flat = [m.name for m, use in zip(labelled.members, labelled.usable, strict=True) if not use]
    left_out = f"; no part has {', '.join(flat)}, which tells no two outputs apart" if flat else ""
    return _fit_of(labelled, chosen, candidates, f"{rival}{why(chosen)}{left_out}")


def _probability_above_zero(gap: Contrast) -> float:
    """That the difference is above 0, by its normal error; a half where nothing is known."""
    if np.isnan(gap.value) or not gap.error > 0:
        return 0.5
    return NormalDist().cdf(gap.value / gap.error)


def _verdict(plan: Plan, chosen: Plan, best: Plan, fault: str | None, *, higher: bool) -> str:
    """What follows for a plan, in words."""
    if plan is chosen:
        cheapest = "" if plan is best else ", the cheapest within a standard error of the best"
        return f"{SHIPPED[plan.kind]}{cheapest}"
    if fault is not None:
        return f"it cannot ship, since {fault}"
    if plan is best:
        return "a cheaper one is within a standard error"
    if higher:
        return "passed over, since the best of several is partly luck"
    return f"no better than {NAMES[best.kind]}"


def _fault(
    labelled: LabelledScores,
    crossed: CrossFit,
    alone: Plan,
    plan: Plan,
    rng: np.random.Generator,
    missing: Missing,
) -> str | None:
    """Why a plan may not ship whatever its gain; None: nothing stands against it."""
    if len(crossed.contrast(plan, alone).documents) < FEWEST_DOCUMENTS:
        return "there are too few documents to tell"
    rates = [_failure_rate(labelled, candidate, missing) for candidate in (plan, alone)]
    if rates[0] > max(MOST_FAILED, rates[1]):
        return f"it fails on {rates[0]:.0%} of the outputs"
    (agreement,) = gains([crossed.contrast(plan)], rng)
    if plan.kind == "learned" and not agreement.is_clear:
        return (
            "its agreement with people may be chance, so that weights learned from it may be, too"
        )
    return None


def _failure_rate(labelled: LabelledScores, plan: Plan, missing: Missing) -> float:
    scores = weighted_mean(labelled.mapped, _weights(labelled, plan), missing)
    return float(np.isnan(scores).mean())


def _weights(labelled: LabelledScores, plan: Plan) -> Vector:
    """A plan's weights by all labels."""
    return plan.weights(moments_of(labelled, np.arange(labelled.human.size)))


def _best_member(labelled: LabelledScores) -> int:
    """The member of the highest rho, alone."""
    rows = np.arange(labelled.human.size)
    terms = labelled.terms(labelled.scores, rows)
    defined = ~np.isnan(terms)
    rho = np.nan_to_num(terms).sum(axis=0) / np.maximum(defined.sum(axis=0), 1)
    return int(np.argmax(rho))


def _cost(labelled: LabelledScores, weights: Vector) -> float:
    return float(sum(m.cost_per_1000 for m, w in zip(labelled.members, weights, strict=True) if w))


def _cheaper_plans(labelled: LabelledScores, plans: Sequence[Plan]) -> list[Plan]:
    """The plans with fewer and fewer members that cost money: without the least use, or dearest.

    Which member is of least use is looked up on all labels.
    """
    moments = moments_of(labelled, np.arange(labelled.human.size))
    costs = np.array([member.cost_per_1000 for member in labelled.members])
    everyone = np.array(plans[0].members)
    subsets: dict[tuple[bool, ...], None] = {}
    for dearest_first in (False, True):
        members = everyone
        while (paid := members & (costs > 0)).any() and members.sum() > 1:
            dearest = paid & (costs == costs[paid].max())
            members = moments.without_least(members, dearest if dearest_first else paid)
            subsets[tuple(members.tolist())] = None
    return [replace(plan, members=subset) for subset in subsets for plan in plans]


def _cheapest_as_good(
    labelled: LabelledScores, crossed: CrossFit, best: Plan, plans: Sequence[Plan]
) -> Plan:
    """The cheapest that is within a standard error of the best; of equals the better one."""
    as_good = [best]
    for plan in plans:
        gap = crossed.contrast(best, plan)
        if gap.value <= gap.error:
            as_good.append(plan)
    return min(
        as_good, key=lambda plan: (_cost(labelled, _weights(labelled, plan)), -crossed.rho(plan))
    )


def _evidence(gain: Gain, crossed: CrossFit) -> str:
    systems = " and systems" if crossed.holds_systems_out else ""
    clear = ", which may be chance" if gain.value > 0 and not gain.is_clear else ""
    documents = counted(gain.n_documents, "document")
    return (
        f"{gain.value:+.3f} rho [{gain.low:+.3f}, {gain.high:+.3f}] on the own judge over "
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
        cost_per_1000=_cost(labelled, weights),
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
    # A judge that says one thing of all can be the own one; it keeps its scores.
    maps = [labelled.maps[place] or MonotoneMap((0.0, 1.0), (0.0, 1.0)) for place in order]
    return PanelFit(
        kind=plan.kind,
        members=tuple(labelled.members[place].name for place in order),
        weights=tuple(float(weights[place]) for place in order),
        maps=tuple(maps),
        candidates=candidates,
        shrinkage=plan.shrinkage,
        why=why,
        own=None if plan.own is None else labelled.members[plan.own].name,
        own_share=plan.own_share,
    )


def _check_request(
    labelled: LabelledScores, own: str | None, max_members: int | None, prefer: Prefer
) -> None:
    names = [member.name for member in labelled.members]
    if own is not None and own not in names:
        raise ValueError(f"the own judge {own!r} is no member; members: {', '.join(names)}")
    if max_members is not None and max_members < 1:
        raise ValueError(f"max_members is {max_members}, and a panel has one member or more")
    unpriced = [m.name for m in labelled.members if np.isnan(m.cost_per_1000)]
    if prefer == "cost" and unpriced:
        raise ValueError(
            f"what {unpriced[0]} costs is unknown, so no panel can be called the cheapest"
        )
