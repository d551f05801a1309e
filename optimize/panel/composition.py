"""What each member of a panel does alone, and what the panel does without it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optimize.figures import json_number
from optimize.panel.crossfit import cross_fit
from optimize.panel.learn import PanelFit
from optimize.panel.members import MemberScores, labelled_scores
from optimize.panel.weights import Plan
from optimize.statistics.levels import Level


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
class Composition:
    """A panel's members by weight, with the rho of the whole."""

    rho: float
    n_documents: int
    n_outputs: int
    members: tuple[MemberPart, ...]
    cost_per_1000: float

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
        kind=fit.kind if len(names) > 1 else "mean", shrinkage=fit.shrinkage, members=everyone
    )
    alone = [
        Plan(kind="mean", shrinkage=1.0, members=tuple(i == place for i in range(len(names))))
        for place in range(len(names))
    ]
    without = [
        replace(whole, members=tuple(m and i != place for i, m in enumerate(everyone)))
        for place in range(len(names))
    ]
    plans = [plan for plan in dict.fromkeys([*alone, whole, *without]) if any(plan.members)]
    crossed = cross_fit(labelled, plans, rng)
    parts = []
    for name, weight in zip(fit.members, fit.weights, strict=True):
        place = names.index(name)
        member, rest = labelled.members[place], without[place]
        has_rest = any(rest.members)
        adds = crossed.contrast(whole, rest) if has_rest else crossed.contrast(whole)
        parts.append(
            MemberPart(
                name=name,
                weight=weight,
                rho_alone=crossed.rho(alone[place]),
                rho_without=crossed.rho(rest) if has_rest else np.nan,
                adds=adds.value,
                adds_error=adds.error,
                cost_per_1000=member.cost_per_1000,
                failure_rate=float(np.isnan(member.scores).mean()),
            )
        )
    return Composition(
        rho=crossed.rho(whole),
        n_documents=len(crossed.contrast(whole).documents),
        n_outputs=crossed.n_outputs,
        members=tuple(parts),
        cost_per_1000=float(sum(part.cost_per_1000 for part in parts)),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value
