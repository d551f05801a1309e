"""What a panel is made of: what each member adds, how alike they err, and where they disagree."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optimize.figures import json_number
from optimize.panel.crossfit import CrossFit, cross_fit
from optimize.panel.learn import PanelFit
from optimize.panel.maps import apply_map, codes, standard_ranks
from optimize.panel.members import LabelledScores, MemberScores, labelled_scores
from optimize.panel.weights import Missing, Moments, Plan, moments_of
from optimize.search.objective import Level
from optimize.statistics.coefficients import Matrix, Vector

# All subsets of more members would take minutes to compare; of these, only nested ones are.
MOST_FOR_ALL_SUBSETS = 5
DOCUMENTS_LISTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart:
    """One member of a panel: what it does alone, and what the panel does without it.

    Rho is by weights from other documents, as `PanelCandidate.dev`; `rho_without` is that of the
    panel learned anew without it, with `adds` the difference and its standard error.
    """

    name: str
    weight: float
    rho_alone: float
    rho_without: float
    adds: float
    adds_error: float
    cost_per_1000: float
    failure_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallerPanel:
    """A panel of some of the members; `on_front`: none is as good and cheaper, or better for it."""

    members: tuple[str, ...]
    rho: float
    cost_per_1000: float
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A document and how far its outputs' ranks spread among members, in deviations of a rank."""

    document: str
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A panel's members by weight, and what there is to know of them together.

    `correlations` is among members' scores within documents, in the order of `members`.
    `effective_judges` is how many judges with independent errors would average theirs out as far:
    1 where all err alike, the number of members where none do. `panels` come by cost.
    """

    rho: float
    n_documents: int
    n_outputs: int
    members: tuple[MemberPart, ...]
    correlations: tuple[tuple[float, ...], ...]
    effective_judges: float
    cost_per_1000: float
    panels: tuple[SmallerPanel, ...]
    disagreements: tuple[Disagreement, ...]

    def record(self) -> dict[str, Any]:
        """As `summary.json` holds it: NaN, what is not known, as null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def compose(
    fit: PanelFit,
    members: Sequence[MemberScores],
    ratings: ArrayLike,
    documents: ArrayLike,
    systems: ArrayLike | None,
    *,
    level: Level,
    rng: np.random.Generator,
    missing: Missing = "fail",
    pairs: bool = False,
) -> Composition:
    """What the members of a panel add, by the labels that it was learned from."""
    in_panel = [member for member in members if member.name in fit.members]
    labelled = labelled_scores(
        in_panel, ratings, documents, systems, ranked_together=level == "dataset", pairs=pairs
    )
    names = [member.name for member in labelled.members]
    # A judge that says one thing of all may be kept alone.
    everyone = tuple(labelled.usable.tolist()) if labelled.usable.any() else (True,) * len(names)
    whole = Plan(
        kind=fit.kind if len(names) > 1 else "mean",
        shrinkage=fit.shrinkage,
        members=everyone,
        most=len(names),
        own=names.index(fit.own) if fit.own in names else None,
        own_share=fit.own_share,
    )
    alone = [_only(whole, [place]) for place in range(len(names))]
    without = [
        replace(whole, members=tuple(m and i != place for i, m in enumerate(everyone)))
        for place in range(len(names))
    ]
    smaller = _subsets(labelled, whole)
    plans = list(dict.fromkeys([*alone, whole, *without, *smaller]))
    usable = [plan for plan in plans if any(plan.members)]
    crossed = cross_fit(labelled, usable, rng, missing)
    moments = moments_of(labelled, np.arange(labelled.human.size))
    order = [names.index(name) for name in fit.members]
    weights = np.zeros(len(names))
    weights[order] = fit.weights
    parts = tuple(
        _part(labelled, crossed, place, weights[place], whole, alone[place], without[place])
        for place in order
    )
    return Composition(
        rho=crossed.rho(whole),
        n_documents=len(crossed.contrast(whole).documents),
        n_outputs=crossed.n_outputs,
        members=parts,
        correlations=_correlations(moments, order),
        effective_judges=effective_judges(moments, weights),
        cost_per_1000=float(sum(part.cost_per_1000 for part in parts)),
        panels=_front(labelled, crossed, list(dict.fromkeys([*alone, *smaller, whole]))),
        disagreements=disagreements(fit, members, documents, pairs=pairs),
    )


def disagreements(
    fit: PanelFit,
    members: Sequence[MemberScores],
    documents: ArrayLike,
    *,
    pairs: bool = False,
    most: int = DOCUMENTS_LISTED,
) -> tuple[Disagreement, ...]:
    """The documents whose outputs the members rank most differently: a label tells most there.

    It needs no labels. A document's spread is the root mean square, over its outputs, of what
    members' ranks within it differ from their weighted mean; of pairs, what mapped margins do.
    """
    by_name = {member.name: member for member in members}
    names = np.asarray(documents).astype(str)
    group = codes(names)
    columns = []
    for name, monotone in zip(fit.members, fit.maps, strict=True):
        scores = by_name[name].scores
        columns.append(apply_map(monotone, scores) if pairs else standard_ranks(scores, group))
    ranks, weights = np.stack(columns, axis=1), np.array(fit.weights)
    scored = ~np.isnan(ranks)
    total = np.maximum(scored @ weights, 1e-12)
    mean = np.nan_to_num(ranks) @ weights / total
    variance = np.nan_to_num((ranks - mean[:, None]) ** 2) @ weights / total
    known = scored.sum(axis=1) > 1
    n = np.bincount(group[known], minlength=group.max(initial=-1) + 1)
    sums = np.bincount(group[known], variance[known], n.size)
    spread = np.sqrt(sums / np.maximum(n, 1))
    document = np.unique(names)
    places = sorted(np.flatnonzero(n).tolist(), key=lambda place: (-spread[place], document[place]))
    return tuple(
        Disagreement(document=str(document[place]), spread=float(spread[place]))
        for place in places[:most]
    )


def effective_judges(moments: Moments, weights: Vector) -> float:
    """How many judges with independent errors these are, by what people's ranks leave unexplained.

    (sum of w s)² / w'Ew, with E the covariance of what is left of members' scores and s its
    deviations; 1 where nothing is left.
    """
    errors = moments.gram - np.outer(moments.with_people, moments.with_people)
    deviations = np.sqrt(np.maximum(np.diag(errors), 0))
    variance = float(weights @ errors @ weights)
    return float((weights @ deviations) ** 2 / variance) if variance > 1e-12 else 1.0


def _only(plan: Plan, places: Sequence[int]) -> Plan:
    chosen = set(places)
    return replace(
        plan,
        kind="mean",
        shrinkage=plan.shrinkage if len(chosen) > 1 else 1.0,
        members=tuple(place in chosen for place in range(len(plan.members))),
    )


def _subsets(labelled: LabelledScores, whole: Plan) -> list[Plan]:
    """Panels of two members and more: all of them, or nested ones where there are too many."""
    places = np.flatnonzero(whole.members).tolist()
    if len(places) <= MOST_FOR_ALL_SUBSETS:
        sizes = range(2, len(places))
        chosen = itertools.chain.from_iterable(itertools.combinations(places, n) for n in sizes)
        return [replace(_only(whole, subset), kind=whole.kind) for subset in chosen]
    moments = moments_of(labelled, np.arange(labelled.human.size))
    members, nested = np.array(whole.members), []
    while members.sum() > 2:
        members = moments.without_least(members, members)
        nested.append(replace(whole, members=tuple(members.tolist())))
    return nested


def _part(
    labelled: LabelledScores,
    crossed: CrossFit,
    place: int,
    weight: float,
    whole: Plan,
    alone: Plan,
    without: Plan,
) -> MemberPart:
    member = labelled.members[place]
    adds = crossed.contrast(whole, without) if any(without.members) else crossed.contrast(whole)
    return MemberPart(
        name=member.name,
        weight=float(weight),
        rho_alone=crossed.rho(alone),
        rho_without=crossed.rho(without) if any(without.members) else np.nan,
        adds=adds.value,
        adds_error=adds.error,
        cost_per_1000=member.cost_per_1000,
        failure_rate=float(np.isnan(member.scores).mean()),
    )


def _correlations(moments: Moments, order: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    deviations = np.sqrt(np.diag(moments.gram))[order]
    gram = moments.gram[np.ix_(order, order)]
    scale = np.outer(deviations, deviations)
    matrix: Matrix = np.where(scale > 0, gram / np.where(scale > 0, scale, 1), np.nan)
    return tuple(tuple(row) for row in matrix.tolist())


def _front(
    labelled: LabelledScores, crossed: CrossFit, plans: Sequence[Plan]
) -> tuple[SmallerPanel, ...]:
    """Each panel with its rho and cost, by cost; an unknown cost is on no front."""
    figures = [(crossed.rho(plan), _price(labelled, plan)) for plan in plans]
    panels = []
    for plan, (rho, cost) in zip(plans, figures, strict=True):
        beaten = any(
            other >= rho and price <= cost and (other > rho or price < cost)
            for other, price in figures
        )
        panels.append(
            SmallerPanel(
                members=tuple(
                    member.name
                    for member, used in zip(labelled.members, plan.members, strict=True)
                    if used
                ),
                rho=rho,
                cost_per_1000=cost,
                on_front=not beaten and not np.isnan(cost + rho),
            )
        )
    return tuple(
        sorted(
            panels, key=lambda panel: (np.nan_to_num(panel.cost_per_1000, nan=np.inf), -panel.rho)
        )
    )


def _price(labelled: LabelledScores, plan: Plan) -> float:
    chosen = zip(labelled.members, plan.members, strict=True)
    return float(sum(member.cost_per_1000 for member, used in chosen if used))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value
