"""How several judges' scores are joined, and whether people's labels show that joining helps.

A linear function brings the scores of each judge (a member of the panel) to mean 0 over all outputs
and standard deviation 1 within documents (for pairs: over all pairs). A panel's score is a weighted
mean of these standardised scores. Weights are learned (`optimize.statistics.joining`), and shrunk
towards a prior: half of the weight for the best member by these labels, which the code calls the
`own` judge, and the other half in equal shares for all members.

Few documents do not suffice to learn weights, and hardly to find the best of many members: a panel
that learns either from 12 documents does worse than the single judge. So the panel ships only if it
does better than the own judge by more than a standard error, on documents and systems from which
neither the weights nor the choice of the own judge were learned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from optimize.inputs.flags import MOST_FAILED, SettingsError
from optimize.statistics.correlations import Codes, Level, Mask, contrast_judges
from optimize.statistics.intervals import Matrix, Vector
from optimize.statistics.joining import centred, joining_weights

Kind = Literal["own", "learned"]
DOCUMENT_FOLDS, SYSTEM_FOLDS, REPEATS = 5, 4, 3
# With fewer systems, those learned from or those held out would be too few to rank.
FEWEST_SYSTEMS = 6
# A smaller standard deviation, relative to the largest score, is a rounding error of a sum.
LEAST_SPREAD = 1e-6


class Part(NamedTuple):
    """A member of the panel or judge that ships.

    Its score on the panel's scale is `intercept + slope * score`.
    """

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
    """What ships, a panel or a single judge, and the evidence for the choice.

    Its score is the weighted mean of `parts`. `alone` holds each member's rho with these labels,
    and `own` names the best member. `gain` is the panel's rho less that of the own judge, also if
    the panel does not ship. `adds` holds for each member how much rho the panel loses without it.
    `passed_over` says for each judge that cannot be a member why not.
    """

    kind: Kind
    own: str
    parts: tuple[Part, ...]
    gain: PanelGain
    alone: Mapping[str, float]
    adds: Mapping[str, PanelGain]
    passed_over: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """What ships, and the gain that decided about it."""
        return {"own": self.own, "shipped": self.kind, "gain": self.gain._asdict()}

    def scores(self, scores_by_name: Mapping[str, Vector]) -> Vector:
        """The scores of what ships, from its members' scores by name; NaN where a member failed."""
        weighted = [
            part.weight * (part.intercept + part.slope * scores_by_name[part.name])
            for part in self.parts
        ]
        # Rounded, because the order of summation must not break a tie.
        scores: Vector = np.round(np.sum(weighted, axis=0), 12)
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

    All vectors have an entry for each output. A failed judgement is NaN. With `pairs`, scores and
    labels are margins for A, in [-1, 1], and so are the panel's scores. They change their sign if
    A and B change places. Raises SettingsError if there is nothing to learn.
    """
    document, system = (np.unique(names, return_inverse=True)[1] for names in (documents, systems))
    if pairs:
        # Each pair in both orders, so that it does not matter which output is called A.
        scores = {name: np.concatenate([margins, -margins]) for name, margins in scores.items()}
        human = np.concatenate([human, -human])
        document, system = np.tile(document, 2), np.zeros(human.size, np.intp)
    group = np.zeros_like(document) if pairs or level == "dataset" else document
    passed_over = {name: reason for name in scores if (reason := _objection(scores[name], group))}
    names = sorted(scores.keys() - passed_over.keys())
    if not names:
        name, reason = next(iter(passed_over.items()))
        raise SettingsError(f"no judge can be a member: {name} {reason}; give other judges")
    lines = np.array([_line(scores[name], group) for name in names])
    on_lines = np.stack([scores[name] for name in names], axis=1) * lines[:, 0] + lines[:, 1]
    is_complete = ~np.isnan(on_lines).any(axis=1)
    labelled = _Labelled(
        *(vector[is_complete] for vector in (on_lines, human, document, system, group))
    )
    all_members = np.ones(len(names), bool)
    all_but_one = [all_members & (np.arange(len(names)) != member) for member in range(len(names))]
    gain, *adds = labelled.gains([all_members, *(all_but_one if len(names) > 1 else [])], rng)
    if not np.isfinite(gain.error):
        raise SettingsError(
            "people rate outputs differently in fewer than two documents, so there is nothing to "
            "learn weights from: label more documents"
        )
    training = labelled.training(np.ones(labelled.human.size, bool))
    own, weights = training.own(all_members), training.weights(all_members)
    is_better = gain.value > gain.error
    parts = _parts(names, weights, lines, labelled, pairs) if is_better else (Part(names[own], 1),)
    return PanelFit(
        kind="learned" if is_better else "own",
        own=names[own],
        parts=parts,
        gain=gain,
        alone=dict(zip(names, training.alone.tolist(), strict=True)),
        adds=dict(zip(names, adds or [gain], strict=True)),
        passed_over=passed_over,
    )


def _parts(
    names: Sequence[str], weights: Vector, lines: Matrix, labelled: "_Labelled", pairs: bool
) -> tuple[Part, ...]:
    """The members with a weight above 0, the largest first, with their lines on people's scale."""
    scale, shift = 1 / lines[:, 0].max(), 0.0
    if not pairs:
        # The panel's scores get the mean and standard deviation of people's ratings.
        joined = labelled.on_lines @ weights
        scale = labelled.human.std() / joined.std()
        shift = labelled.human.mean() - scale * joined.mean()
    rows = np.column_stack([weights, lines * scale + (0, shift)]).tolist()
    order = [member for member in np.argsort(-weights, kind="stable") if weights[member] > 0]
    return tuple(Part(names[member], *rows[member]) for member in order)


def _objection(scores: Vector, group: Codes) -> str:
    """Why a judge with these scores cannot be a member; empty if it can."""
    failed = float(np.isnan(scores).mean())
    if failed > MOST_FAILED:
        return f"fails on {failed:.0%} of the outputs"
    return "" if _line(scores, group)[0] else "tells no two outputs apart"


def _line(scores: Vector, group: Codes) -> tuple[float, float]:
    """The slope and intercept that standardise scores; 0 if they are constant in each group."""
    has_score = ~np.isnan(scores)
    deviation = float(np.sqrt(np.mean(centred(scores[has_score, None], group[has_score]) ** 2)))
    if deviation <= LEAST_SPREAD * max(1.0, float(np.abs(scores[has_score]).max())):
        return 0.0, 0.0
    return 1 / deviation, -float(scores[has_score].mean()) / deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training:
    """What is learned from labelled rows: each member's rho (`alone`), and data for the weights.

    `on_lines` (outputs, members) holds the members' standardised scores, and `people` the ranks of
    people's labels; both are centred within groups.
    """

    alone: Vector
    on_lines: Matrix
    people: Vector

    def own(self, members: Mask) -> int:
        """The number of the member with the best rho, among those of the mask."""
        return int(np.argmax(np.where(members, self.alone, -np.inf)))

    def weights(self, members: Mask) -> Vector:
        """Weights that sum to 1, for the members of the mask; the weight of all others is 0.

        A member whose rho is not above 0 has the weight 0, too, unless that is so for all of them.
        """
        if (agreeing := members & (self.alone > 0)).any():
            members = agreeing
        prior = members / members.sum() / 2
        prior[self.own(members)] += 0.5
        weights = np.zeros(members.size)
        weights[members] = joining_weights(self.on_lines[:, members], self.people, prior[members])
        return weights


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Labelled outputs that all members scored.

    `on_lines` (outputs, members) holds the standardised scores. Outputs with the same number in
    `group` are ranked together: those of a document, or all.
    """

    on_lines: Matrix
    human: Vector
    document: Codes
    system: Codes
    group: Codes

    def training(self, rows: Mask) -> _Training:
        """What is learned from these rows."""
        group, on_lines = self.group[rows], self.on_lines[rows]
        ranks = _ranks(np.column_stack([self.human[rows], on_lines]), group)
        # Documents whose outputs people rate alike show nothing about the members.
        has_contrast = pd.Series(np.abs(ranks[:, 0])).groupby(group).transform("max").to_numpy() > 0
        human_ranks, member_ranks = ranks[has_contrast, :1], ranks[has_contrast, 1:]
        products = pd.DataFrame(member_ranks * human_ranks).groupby(group[has_contrast]).mean()
        return _Training(
            alone=np.nan_to_num(products.mean().to_numpy()),
            on_lines=centred(on_lines, group)[has_contrast],
            people=human_ranks[:, 0],
        )

    def gains(self, panels: Sequence[Mask], rng: np.random.Generator) -> list[PanelGain]:
        """The first panel's rho less the own judge's, then less that of each further panel.

        An output is scored with weights and an own judge that were learned from other documents and
        systems. The gains are means over several random divisions into folds.
        """
        level: Level = "summary" if self.group.any() else "dataset"
        repeats = []
        for _ in range(REPEATS):
            panel_scores = np.full((1 + len(panels), self.human.size), np.nan)
            for held_out, rows in self._folds(rng):
                training, on_lines = self.training(rows), self.on_lines[held_out]
                weights = [
                    np.eye(len(on_lines.T))[training.own(panels[0])],
                    *map(training.weights, panels),
                ]
                panel_scores[:, held_out] = np.round(on_lines @ np.stack(weights, axis=1), 12).T
            own, first_panel, *further_panels = panel_scores
            contrasts = [
                contrast_judges(first_panel, baseline, self.human, self.document, level=level)
                for baseline in (own, *further_panels)
            ]
            repeats.append([(gap.value, gap.error, len(gap.documents)) for gap in contrasts])
        means = np.mean(repeats, axis=0).tolist()
        return [PanelGain(value, error, round(n_documents)) for value, error, n_documents in means]

    def _folds(self, rng: np.random.Generator) -> Iterator[tuple[Mask, Mask]]:
        """Yield rows to score, and all rows that share neither document nor system with them."""
        n_documents, n_systems = (int(codes.max()) + 1 for codes in (self.document, self.system))
        document_fold = rng.permutation(n_documents)[self.document] % DOCUMENT_FOLDS
        n_parts = min(SYSTEM_FOLDS, n_systems // 2) if n_systems >= FEWEST_SYSTEMS else 1
        system_fold = rng.permutation(n_systems)[self.system] % n_parts
        for fold in range(DOCUMENT_FOLDS):
            for part in range(n_parts):
                held_out = (document_fold == fold) & (system_fold == part)
                rows = (document_fold != fold) & ((system_fold != part) | (n_parts == 1))
                if held_out.any() and rows.any():
                    yield held_out, rows


def _ranks(values: Matrix, group: Codes) -> Matrix:
    """Mid-ranks within groups, with mean 0 and variance 1; 0 in a group of equal values."""
    ranks = centred(pd.DataFrame(values).groupby(group).rank().to_numpy(), group)
    deviation = np.sqrt(pd.DataFrame(ranks**2).groupby(group).transform("mean").to_numpy())
    standard: Matrix = np.divide(ranks, deviation, out=np.zeros_like(ranks), where=deviation > 0)
    return standard
