"""Join several judges' scores in a panel, and test on people's labels whether joining helps.

The judges are the members of the panel. A linear function brings each member's scores to mean 0
over all outputs and standard deviation 1 within documents (for pairs: over all pairs). The panel's
score is a weighted mean of these standardised scores. The weights are learned
(`optimize.statistics.panel_weights`), and shrunk towards a prior: half of the weight goes to the
member that is best on these labels (`own` in JSON), the other half in equal shares to all members.

Few documents are not enough to learn weights, and hardly enough to find the best of many members:
with 12 documents, a panel does worse than a single judge. So the panel ships only if it does better
than the best member by more than a standard error. This is measured by cross-validation: outputs
are scored with weights and a best member that were learned from other documents and systems.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from dspy_judges.errors import SettingsError
from optimize.figures.as_json import JsonObject, fields_json
from optimize.measuring.recorded import judgement_of_score
from optimize.measuring.scored import ScoredItems
from optimize.search.problem import MAX_FAILED_SHARE
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Codes, Mask, Matrix, Vector
from optimize.statistics.panel_weights import fit_joining_weights, group_means

# The numbers of folds in a cross-validation, and of cross-validations with other random folds.
N_DOCUMENT_FOLDS, N_SYSTEM_FOLDS, N_REPEATS = 5, 4, 3
# Fewer systems are not divided into folds, since a fold would have too few systems to rank.
MIN_SYSTEMS_FOR_FOLDS = 6
# With a smaller SD, relative to the largest score, scores differ by rounding errors only.
MIN_RELATIVE_SD = 1e-6


class WeightedMember(NamedTuple):
    """A judge in a panel; `intercept + slope * score` is its score on the panel's scale."""

    name: str
    weight: float
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, slots=True)
class PanelGain:
    """A panel's rho minus another judge's, cross-validated, and its standard error."""

    value: float
    standard_error: float = field(metadata={"json": "error"})
    n_documents: int = field(metadata={"json": "n"})

    def to_json(self) -> JsonObject:
        return fields_json(self, decimals=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFit:
    """The judge that ships, a panel or the best member alone, and the evidence for the choice.

    `gain` is the panel's rho minus the best member's, even if the panel does not ship. `rho_alone`
    has each judge's rho, and `rho_added` how much rho the panel loses without the judge.
    """

    kind: Literal["own", "learned"]
    best_member: str
    members: tuple[WeightedMember, ...]
    gain: PanelGain
    rho_alone: Mapping[str, float]
    rho_added: Mapping[str, PanelGain]
    why_excluded: Mapping[str, str]

    def to_json(self) -> JsonObject:
        """Return which judge ships, and the gain by which it was chosen."""
        return {"own": self.best_member, "shipped": self.kind, "gain": self.gain.to_json()}

    def score(self, scored_by_name: Mapping[str, ScoredItems]) -> ScoredItems:
        """Return the judgements of the judge that ships; one fails if any member has no score."""
        weighted_scores = [
            member.weight * (member.intercept + member.slope * scored_by_name[member.name].scores)
            for member in self.members
        ]
        # Scores are rounded, so that equal scores stay equal, whatever the order of summation.
        scores = np.round(np.sum(weighted_scores, axis=0), 12).tolist()
        best = scored_by_name[self.best_member]
        judgements = [judgement_of_score(score, is_pairwise=best.is_pairwise) for score in scores]
        return replace(best, judgements=tuple(judgements))


def learn_panel(scored_by_name: Mapping[str, ScoredItems], rng: np.random.Generator) -> PanelFit:
    """Learn a panel of judges; the best judge alone ships if the panel does not help.

    For pairs, the panel's scores are margins in favour of A, from -1 to 1.
    """
    is_pairwise = any(scored.is_pairwise for scored in scored_by_name.values())
    members = _standardise(scored_by_name, is_pairwise=is_pairwise)
    names = members.names
    whole_panel = np.ones(len(names), bool)
    smaller_panels = list(~np.eye(len(names), dtype=bool)) if len(names) > 1 else []
    gain, *other_gains = members.gains_on_folds([whole_panel, *smaller_panels], rng)
    if not np.isfinite(gain.standard_error):
        raise SettingsError(
            "label more documents: weights cannot be learned, because people rate outputs "
            "differently in fewer than two documents"
        )
    rhos, (weights,) = members.fit_weights(np.full(members.human.size, True), [whole_panel])
    best_member = names[int(rhos.argmax())]
    is_learned = gain.value > gain.standard_error
    weighted_members = [WeightedMember(best_member, 1)]
    if is_learned:
        if is_pairwise:
            # In both orders of the pairs, margins have mean 0: intercepts are rounding errors.
            slopes, intercepts = members.slopes / members.slopes.max(), np.zeros(len(names))
        else:
            # The panel's scores get the mean and standard deviation of people's ratings.
            people, panel_scores = members.human, members.standardised_scores @ weights
            factor = people.std() / panel_scores.std()
            shift = people.mean() - factor * panel_scores.mean()
            slopes, intercepts = members.slopes * factor, members.intercepts * factor + shift
        columns = np.stack([weights, slopes, intercepts]).tolist()
        weighted_members = sorted(map(WeightedMember, names, *columns), key=lambda one: -one.weight)
    return PanelFit(
        kind="learned" if is_learned else "own",
        best_member=best_member,
        members=tuple(member for member in weighted_members if member.weight > 0),
        gain=gain,
        rho_alone=dict(zip(names, rhos.tolist(), strict=True)),
        rho_added=dict(zip(names, other_gains or [gain], strict=True)),
        why_excluded=members.why_excluded,
    )


def _standardise(scored_by_name: Mapping[str, ScoredItems], *, is_pairwise: bool) -> "_Members":
    """Return the judges that can be members, in the order of names; SettingsError if none can."""
    any_judge = next(iter(scored_by_name.values()))
    scores = pd.DataFrame({name: one.scores for name, one in sorted(scored_by_name.items())})
    human, why_excluded = any_judge.human, dict[str, str]()
    document_codes: Codes = np.unique(any_judge.document_ids, return_inverse=True)[1]
    system_codes: Codes = np.unique(any_judge.system_ids, return_inverse=True)[1]
    if is_pairwise:
        # Each pair is used in both orders, so that it does not matter which output is called A.
        human = np.concatenate([human, -human])
        scores = pd.concat([scores, -scores], ignore_index=True)
        document_codes = np.tile(document_codes, 2)
        system_codes = np.zeros_like(document_codes)
    group_codes = np.zeros_like(document_codes) if any_judge.level == "dataset" else document_codes
    failed_shares, largest_scores = scores.isna().mean(), scores.abs().max().clip(lower=1)
    within_groups = scores - scores.groupby(group_codes).transform("mean")
    sds = (within_groups**2).mean() ** 0.5
    for name in sorted(scored_by_name):
        if failed_shares[name] > MAX_FAILED_SHARE:
            why_excluded[name] = f"fails on {failed_shares[name]:.0%} of the outputs"
        elif sds[name] <= MIN_RELATIVE_SD * largest_scores[name]:
            why_excluded[name] = "tells no two outputs apart"
    scores = scores.drop(columns=[*why_excluded])
    if scores.empty:
        name, reason = next(iter(why_excluded.items()))
        raise SettingsError(f"no judge can be a member: {name} {reason}; give other judges")
    slopes = 1 / sds[scores.columns]
    intercepts = -scores.mean() * slopes
    standardised_scores = (scores * slopes + intercepts).to_numpy()
    has_all_scores = ~np.isnan(standardised_scores).any(axis=1)
    return _Members(
        names=scores.columns.to_list(),
        slopes=slopes.to_numpy(),
        intercepts=intercepts.to_numpy(),
        why_excluded=why_excluded,
        standardised_scores=standardised_scores[has_all_scores],
        human=human[has_all_scores],
        document_codes=document_codes[has_all_scores],
        system_codes=system_codes[has_all_scores],
        group_codes=group_codes[has_all_scores],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    """The members, with their standardised scores on the labelled outputs that all of them scored.

    `standardised_scores` has a row for each output and a column for each member. Outputs with the
    same number in `group_codes` are ranked together: the outputs of a document, or all outputs. A
    panel is given as a boolean mask over the members.
    """

    names: Sequence[str]
    slopes: Vector
    intercepts: Vector
    why_excluded: Mapping[str, str]
    standardised_scores: Matrix
    human: Vector
    document_codes: Codes
    system_codes: Codes
    group_codes: Codes

    def fit_weights(self, rows: Mask, panels: Sequence[Mask]) -> tuple[Vector, Matrix]:
        """Return each member's rho on these rows, and a row with the weights for each panel."""
        group_codes, scores = self.group_codes[rows], self.standardised_scores[rows]
        # Mid-ranks within groups, with mean 0 and variance 1; 0 if all values of a group are equal.
        label_and_scores = pd.DataFrame(np.column_stack([self.human[rows], scores]))
        ranks = label_and_scores.groupby(group_codes).rank().to_numpy()
        ranks = ranks - group_means(ranks, group_codes)
        deviation = np.sqrt(group_means(ranks**2, group_codes))
        ranks = np.divide(ranks, deviation, out=np.zeros_like(ranks), where=deviation > 0)
        # Documents whose outputs people rate alike show nothing about the members.
        has_contrast = deviation[:, 0] > 0
        human_ranks, member_ranks = ranks[has_contrast, :1], ranks[has_contrast, 1:]
        products = pd.DataFrame(member_ranks * human_ranks).groupby(group_codes[has_contrast])
        rhos: Vector = np.nan_to_num(products.mean().mean().to_numpy())
        centred_scores = (scores - group_means(scores, group_codes))[has_contrast]
        panel_weights = np.zeros((len(panels), rhos.size))
        for panel, weights in zip(panels, panel_weights, strict=True):
            # Members with a negative rho get no weight, unless no member has a positive rho.
            is_positive = panel & (rhos > 0)
            has_weight = is_positive if is_positive.any() else panel
            prior = has_weight / has_weight.sum() / 2
            prior[np.argmax(np.where(has_weight, rhos, -np.inf))] += 0.5
            weights[has_weight] = fit_joining_weights(
                centred_scores[:, has_weight], human_ranks[:, 0], prior[has_weight]
            )
        return rhos, panel_weights

    def gains_on_folds(self, panels: Sequence[Mask], rng: np.random.Generator) -> list[PanelGain]:
        """Return the first panel's rho minus the best member's, then minus each further panel's.

        The weights and the best member for an output are learned from other documents and systems.
        The gains are means over several random divisions into folds.
        """
        level: Level = "summary" if self.group_codes.any() else "dataset"
        repeat_gains = []
        for _ in range(N_REPEATS):
            scores = np.full((1 + len(panels), self.human.size), np.nan)
            for fold_rows, learning_rows in self._folds(rng):
                rhos, panel_weights = self.fit_weights(learning_rows, panels)
                weights = np.stack([np.eye(rhos.size)[rhos.argmax()], *panel_weights], axis=1)
                scores[:, fold_rows] = np.round(self.standardised_scores[fold_rows] @ weights, 12).T
            best_member, first_panel, *further_panels = scores
            contrasts = [
                contrast_judges(first_panel, baseline, self.human, self.document_codes, level=level)
                for baseline in (best_member, *further_panels)
            ]
            repeat_gains.append([(one.value, one.error, len(one.documents)) for one in contrasts])
        gains = np.mean(repeat_gains, axis=0).tolist()
        return [PanelGain(value, error, round(n_documents)) for value, error, n_documents in gains]

    def _folds(self, rng: np.random.Generator) -> Iterator[tuple[Mask, Mask]]:
        """Yield the rows to score, and rows of other documents and systems to learn from."""
        n_documents, n_systems = self.document_codes.max() + 1, self.system_codes.max() + 1
        n_system_folds = 1
        if n_systems >= MIN_SYSTEMS_FOR_FOLDS:
            n_system_folds = min(N_SYSTEM_FOLDS, n_systems // 2)
        document_folds = rng.permutation(n_documents)[self.document_codes] % N_DOCUMENT_FOLDS
        system_folds = rng.permutation(n_systems)[self.system_codes] % n_system_folds
        for document_fold, system_fold in product(range(N_DOCUMENT_FOLDS), range(n_system_folds)):
            is_other_system = (system_folds != system_fold) | (n_system_folds == 1)
            fold_rows = (document_folds == document_fold) & (system_folds == system_fold)
            learning_rows = (document_folds != document_fold) & is_other_system
            if fold_rows.any() and learning_rows.any():
                yield fold_rows, learning_rows
