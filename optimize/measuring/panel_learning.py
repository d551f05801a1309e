"""How several judges' scores are joined, and whether people's labels show that joining helps.

A linear function brings the scores of each judge (a member of the panel) to mean 0 over all outputs
and standard deviation 1 within documents (for pairs: over all pairs). A panel's score is a weighted
mean of these standardised scores. Weights are learned (`optimize.statistics.panel_weights`), and
shrunk towards a prior: half of the weight goes to the member that is best on these labels (JSON
calls it `own`), and the other half in equal shares to all members.

Few documents are not enough to learn weights, and hardly enough to find the best of many members:
with 12 documents, a panel does worse than a single judge. So the panel ships only if it does better
than the best member by more than a standard error. To measure this, documents and systems are
scored with weights and a best member that were learned from other documents and systems.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from optimize.inputs.flags import MAX_FAILED_SHARE, SettingsError
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Codes, Mask, Matrix, Vector
from optimize.statistics.panel_weights import fit_joining_weights, subtract_group_means

PanelKind = Literal["own", "learned"]
N_DOCUMENT_FOLDS, N_SYSTEM_FOLDS, N_REPEATS = 5, 4, 3
# With fewer systems, a fold or the systems outside the fold would be too few to rank.
MIN_SYSTEMS_FOR_FOLDS = 6
# A smaller standard deviation, relative to the largest score, is a rounding error of a sum.
MIN_RELATIVE_SD = 1e-6


class WeightedMember(NamedTuple):
    """A member with its weight; `intercept + slope * score` is its score on the panel's scale."""

    name: str
    weight: float
    slope: float = 1.0
    intercept: float = 0.0


class PanelGain(NamedTuple):
    """A difference in rho on `n` held-out documents, and its standard error."""

    value: float
    error: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFit:
    """The judge that ships, a panel or the best member alone, and the evidence for the choice.

    `gain` is the panel's rho minus the best member's, even if the panel does not ship. `rho_alone`
    and `rho_added` have each judge's rho, and how much rho the panel loses without the judge.
    """

    kind: PanelKind
    best_member: str
    members: tuple[WeightedMember, ...]
    gain: PanelGain
    rho_alone: Mapping[str, float]
    rho_added: Mapping[str, PanelGain]
    why_excluded: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Return which judge ships, and the gain by which it was chosen."""
        return {"own": self.best_member, "shipped": self.kind, "gain": self.gain._asdict()}

    def scores(self, scores_by_name: Mapping[str, Vector]) -> Vector:
        """Return the scores of the judge that ships; NaN if one of its members failed."""
        weighted_scores = [
            member.weight * (member.intercept + member.slope * scores_by_name[member.name])
            for member in self.members
        ]
        # Rounded, so that equal scores stay equal, whatever the order of summation.
        scores: Vector = np.round(np.sum(weighted_scores, axis=0), 12)
        return scores


def learn_panel(
    scores: Mapping[str, Vector],
    human: Vector,
    documents: Sequence[str],
    systems: Sequence[str],
    *,
    level: Level,
    pairs: bool = False,
    rng: np.random.Generator,
) -> PanelFit:
    """Learn a panel of these members; the best member alone ships if the panel does not help.

    All vectors have a value for each output. With `pairs`, scores and labels are margins for A, in
    [-1, 1], and so are the panel's scores. Raises SettingsError if no judge can be a member, or if
    labels differ on too few documents to learn from them.
    """
    document, system = (np.unique(names, return_inverse=True)[1] for names in (documents, systems))
    if pairs:
        # Each pair is used in both orders, so that it does not matter which output is called A.
        scores = {name: np.concatenate([margins, -margins]) for name, margins in scores.items()}
        human = np.concatenate([human, -human])
        document, system = np.tile(document, 2), np.zeros(human.size, np.intp)
    group = np.zeros_like(document) if pairs or level == "dataset" else document
    transform_by_name, why_excluded = _standardising_transforms(scores, group)
    if not transform_by_name:
        name, reason = next(iter(why_excluded.items()))
        raise SettingsError(f"no judge can be a member: {name} {reason}; give other judges")
    names = sorted(transform_by_name)
    transforms = np.array([transform_by_name[name] for name in names])
    columns = np.stack([scores[name] for name in names], axis=1)
    standardised = columns * transforms[:, 0] + transforms[:, 1]
    is_complete = ~np.isnan(standardised).any(axis=1)
    labelled = _MemberScores(
        *(vector[is_complete] for vector in (standardised, human, document, system, group))
    )
    all_members = np.ones(len(names), bool)
    all_but_one: list[Mask] = [*~np.eye(len(names), dtype=bool)] if len(names) > 1 else []
    gain, *rho_added = labelled.gains([all_members, *all_but_one], rng)
    if not np.isfinite(gain.error):
        raise SettingsError(
            "people rate outputs differently in fewer than two documents, so there is nothing to "
            "learn weights from: label more documents"
        )
    rhos, (weights,) = labelled.learn(np.ones(labelled.human.size, bool), [all_members])
    best_member = names[rhos.argmax()]
    kind: PanelKind = "learned" if gain.value > gain.error else "own"
    members: tuple[WeightedMember, ...] = (WeightedMember(best_member, 1),)
    if kind == "learned":
        members = _weighted_members(names, weights, transforms, labelled, pairs)
    return PanelFit(
        kind=kind,
        best_member=best_member,
        members=members,
        gain=gain,
        rho_alone=dict(zip(names, rhos.tolist(), strict=True)),
        rho_added=dict(zip(names, rho_added or [gain], strict=True)),
        why_excluded=why_excluded,
    )


def _standardising_transforms(
    scores: Mapping[str, Vector], group: Codes
) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return each member's slope and intercept, and why other judges cannot be members."""
    transform_by_name, why_excluded = dict[str, tuple[float, float]](), dict[str, str]()
    for name, vector in scores.items():
        has_score = ~np.isnan(vector)
        defined_scores, failed_share = vector[has_score], float(np.isnan(vector).mean())
        if failed_share > MAX_FAILED_SHARE:
            why_excluded[name] = f"fails on {failed_share:.0%} of the outputs"
            continue
        differences = subtract_group_means(defined_scores[:, None], group[has_score])
        deviation = float(np.sqrt(np.mean(differences**2)))
        if deviation > MIN_RELATIVE_SD * max(1.0, float(np.abs(defined_scores).max())):
            transform_by_name[name] = 1 / deviation, -float(defined_scores.mean()) / deviation
        else:
            why_excluded[name] = "tells no two outputs apart"
    return transform_by_name, why_excluded


def _weighted_members(
    names: Sequence[str], weights: Vector, transforms: Matrix, scores: "_MemberScores", pairs: bool
) -> tuple[WeightedMember, ...]:
    """Return the members with a weight above 0, the largest first, on people's scale."""
    if pairs:
        # A margin keeps its sign: its mean is 0 up to rounding, because each pair counts both ways.
        slopes_and_intercepts = transforms / transforms[:, 0].max() * (1, 0)
    else:
        # The panel's scores get the mean and standard deviation of people's ratings.
        panel = scores.standardised @ weights
        scale = scores.human.std() / panel.std()
        slopes_and_intercepts = transforms * scale + (0, scores.human.mean() - scale * panel.mean())
    member_values = np.column_stack([weights, slopes_and_intercepts]).tolist()
    order = [member for member in np.argsort(-weights, kind="stable") if weights[member] > 0]
    return tuple(WeightedMember(names[member], *member_values[member]) for member in order)


@dataclass(frozen=True, slots=True)
class _MemberScores:
    """Labelled outputs that all members scored.

    `standardised` (outputs, members) holds the standardised scores. Outputs with the same number in
    `group` are ranked together: the outputs of a document, or all outputs.
    """

    standardised: Matrix
    human: Vector
    document: Codes
    system: Codes
    group: Codes

    def learn(self, rows: Mask, panels: Sequence[Mask]) -> tuple[Vector, list[Vector]]:
        """Return each member's rho on these rows, and the weights of each panel's members."""
        group, standardised = self.group[rows], self.standardised[rows]
        columns = pd.DataFrame(np.column_stack([self.human[rows], standardised]))
        # Mid-ranks within groups, with mean 0 and variance 1; 0 in a group of equal values.
        ranks = subtract_group_means(columns.groupby(group).rank().to_numpy(), group)
        deviation = np.sqrt(pd.DataFrame(ranks**2).groupby(group).transform("mean").to_numpy())
        ranks = np.divide(ranks, deviation, out=np.zeros_like(ranks), where=deviation > 0)
        # Documents whose outputs people rate alike show nothing about the members.
        has_contrast = pd.Series(np.abs(ranks[:, 0])).groupby(group).transform("max").to_numpy() > 0
        human_ranks, member_ranks = ranks[has_contrast, :1], ranks[has_contrast, 1:]
        products = pd.DataFrame(member_ranks * human_ranks).groupby(group[has_contrast]).mean()
        rhos: Vector = np.nan_to_num(products.mean().to_numpy())
        scores = subtract_group_means(standardised, group)[has_contrast]
        panel_weights: list[Vector] = []
        for members in panels:
            # Members that contradict people get no weight, unless no member agrees with them.
            if (is_positive := members & (rhos > 0)).any():
                members = is_positive
            prior = members / members.sum() / 2
            prior[np.argmax(np.where(members, rhos, -np.inf))] += 0.5
            weights = np.zeros(members.size)
            weights[members] = fit_joining_weights(
                scores[:, members], human_ranks[:, 0], prior[members]
            )
            panel_weights.append(weights)
        return rhos, panel_weights

    def gains(self, panels: Sequence[Mask], rng: np.random.Generator) -> list[PanelGain]:
        """Return the first panel's rho minus the best member's, then minus each further panel's.

        The weights and the best member for an output are learned from other documents and systems.
        The gains are means over several random divisions into folds.
        """
        level: Level = "summary" if self.group.any() else "dataset"
        repeats = []
        for _ in range(N_REPEATS):
            panel_scores = np.full((1 + len(panels), self.human.size), np.nan)
            for held_out, rows in self._folds(rng):
                rhos, panel_weights = self.learn(rows, panels)
                weights = np.stack([np.eye(rhos.size)[rhos.argmax()], *panel_weights], axis=1)
                panel_scores[:, held_out] = np.round(self.standardised[held_out] @ weights, 12).T
            best_member, first_panel, *further_panels = panel_scores
            contrasts = [
                contrast_judges(first_panel, baseline, self.human, self.document, level=level)
                for baseline in (best_member, *further_panels)
            ]
            repeats.append([(each.value, each.error, len(each.documents)) for each in contrasts])
        means = np.mean(repeats, axis=0).tolist()
        return [PanelGain(value, error, round(n_documents)) for value, error, n_documents in means]

    def _folds(self, rng: np.random.Generator) -> Iterator[tuple[Mask, Mask]]:
        """Yield rows to score, and the rows to learn from: other documents and other systems."""
        n_documents, n_systems = (int(codes.max()) + 1 for codes in (self.document, self.system))
        document_fold = rng.permutation(n_documents)[self.document] % N_DOCUMENT_FOLDS
        n_parts = min(N_SYSTEM_FOLDS, n_systems // 2) if n_systems >= MIN_SYSTEMS_FOR_FOLDS else 1
        system_fold = rng.permutation(n_systems)[self.system] % n_parts
        for fold in range(N_DOCUMENT_FOLDS):
            for part in range(n_parts):
                held_out = (document_fold == fold) & (system_fold == part)
                rows = (document_fold != fold) & ((system_fold != part) | (n_parts == 1))
                if held_out.any() and rows.any():
                    yield held_out, rows
