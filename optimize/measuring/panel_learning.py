"""How several judges' scores are joined, and whether people's labels say that joining helps.

Each member's scores get a straight line: mean 0 over all outputs, standard deviation 1 within
documents (of pairs: within all). A panel's score is a weighted mean of the lines. Weights are
learned (`optimize.statistics.joining`), and drawn to a prior that gives half to the own judge, the
best member by these labels, and shares the other half among all.

Few documents cannot tell weights apart, and hardly which of many members is the best: a panel that
trusts 12 documents for either loses to the judge one had. So it is taken only where it does better
than the own judge by more than a standard error, on documents and systems that taught neither the
weights nor which judge is the own one.
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
DOCUMENT_FOLDS, SYSTEM_FOLDS, DEALS = 5, 4, 3
# With fewer there is no telling an order among those left, nor among those left out.
FEWEST_SYSTEMS = 6
# What varies less than this, beside the largest score, is the order of a sum.
LEAST_SPREAD = 1e-6


class Part(NamedTuple):
    """A member of what ships; `intercept + slope * score` is its score on the panel's scale."""

    name: str
    weight: float
    slope: float = 1.0
    intercept: float = 0.0


class PanelGain(NamedTuple):
    """A difference of rho on n documents that taught nothing, and its standard error."""

    value: float
    error: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFit:
    """What ships, as a weighted mean of `parts`, and the evidence for it.

    By these labels, `alone` is each member's rho, `own` the best of them, `gain` the panel's on it,
    shipped or not, and `adds` what the panel loses without a member. `passed_over` says why others
    can have no part.
    """

    kind: Kind
    own: str
    parts: tuple[Part, ...]
    gain: PanelGain
    alone: Mapping[str, float]
    adds: Mapping[str, PanelGain]
    passed_over: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """What ships, and the gain that decided it."""
        return {"own": self.own, "shipped": self.kind, "gain": self.gain._asdict()}

    def scores(self, by_name: Mapping[str, Vector]) -> Vector:
        """What ships says of rows that its members scored; NaN where one of them failed."""
        lines = [p.weight * (p.intercept + p.slope * by_name[p.name]) for p in self.parts]
        # To 12 digits, because the order of a sum must not break a tie.
        scores: Vector = np.round(np.sum(lines, axis=0), 12)
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
    """The panel of these members that people's labels support, or the best of them alone.

    Vectors are parallel; a failed judgement is NaN. Of pairs all are margins for A, in [-1, 1]; so
    is a panel's, which changes its sign where A and B change places. Raises SettingsError where
    there is nothing to learn.
    """
    document, system = (np.unique(names, return_inverse=True)[1] for names in (documents, systems))
    if pairs:
        # In both orders, so that nothing hangs on which of the two is called A.
        scores = {name: np.concatenate([margins, -margins]) for name, margins in scores.items()}
        human = np.concatenate([human, -human])
        document, system = np.tile(document, 2), np.zeros(human.size, np.intp)
    group = np.zeros_like(document) if pairs or level == "dataset" else document
    passed_over = {n: why for n in scores if (why := _passed_over(scores[n], group))}
    names = sorted(scores.keys() - passed_over.keys())
    if not names:
        name, why = next(iter(passed_over.items()))
        raise SettingsError(f"no member can have a part: {name} {why}; give other judges")
    lines = np.array([_line(scores[name], group) for name in names])
    on_lines = np.stack([scores[name] for name in names], axis=1) * lines[:, 0] + lines[:, 1]
    complete = ~np.isnan(on_lines).any(axis=1)
    labelled = _Labelled(
        *(vector[complete] for vector in (on_lines, human, document, system, group))
    )
    everyone = np.ones(len(names), bool)
    without = [everyone & (np.arange(len(names)) != place) for place in range(len(names))]
    gain, *adds = labelled.gains([everyone, *(without if len(names) > 1 else [])], rng)
    if not np.isfinite(gain.error):
        raise SettingsError(
            "in fewer than two documents people tell outputs apart: there is nothing to learn "
            "weights from; label more documents"
        )
    training = labelled.training(np.ones(labelled.human.size, bool))
    own, weights = training.own(everyone), training.weights(everyone)
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
    """The members that have a weight, the largest first, on people's scale."""
    scale, shift = 1 / lines[:, 0].max(), 0.0
    if not pairs:
        # A rating can be read on people's scale: scores have their mean and spread.
        joined = labelled.on_lines @ weights
        scale = labelled.human.std() / joined.std()
        shift = labelled.human.mean() - scale * joined.mean()
    rows = np.column_stack([weights, lines * scale + (0, shift)]).tolist()
    order = [k for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
    return tuple(Part(names[k], *rows[k]) for k in order)


def _passed_over(scores: Vector, group: Codes) -> str:
    """Why these scores can have no part; empty where they can."""
    failed = float(np.isnan(scores).mean())
    if failed > MOST_FAILED:
        return f"fails on {failed:.0%} of the outputs"
    return "" if _line(scores, group)[0] else "tells no two outputs apart"


def _line(scores: Vector, group: Codes) -> tuple[float, float]:
    """The slope and the intercept of a member's line; 0 where it tells no group's outputs apart."""
    has_score = ~np.isnan(scores)
    spread = float(np.sqrt(np.mean(centred(scores[has_score, None], group[has_score]) ** 2)))
    if spread <= LEAST_SPREAD * max(1.0, float(np.abs(scores[has_score]).max())):
        return 0.0, 0.0
    return 1 / spread, -float(scores[has_score].mean()) / spread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training:
    """What labelled rows teach: each member's rho, and people's ranks beside members' lines."""

    alone: Vector
    on_lines: Matrix
    people: Vector

    def own(self, members: Mask) -> int:
        """The best of these members alone."""
        return int(np.argmax(np.where(members, self.alone, -np.inf)))

    def weights(self, members: Mask) -> Vector:
        """Weights of these members, 0 for the others; they sum to 1.

        A member that goes against people has none, unless all do.
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
    """Outputs that all members scored: their lines (outputs, members) beside people's labels.

    `group` numbers what is ranked together: a document's outputs, or all of them.
    """

    on_lines: Matrix
    human: Vector
    document: Codes
    system: Codes
    group: Codes

    def training(self, rows: Mask) -> _Training:
        """What these rows teach."""
        group, on_lines = self.group[rows], self.on_lines[rows]
        ranks = _ranks(np.column_stack([self.human[rows], on_lines]), group)
        # Documents that people rate alike say nothing of members.
        varied = pd.Series(np.abs(ranks[:, 0])).groupby(group).transform("max").to_numpy() > 0
        people, members = ranks[varied, :1], ranks[varied, 1:]
        products = pd.DataFrame(members * people).groupby(group[varied]).mean()
        return _Training(
            alone=np.nan_to_num(products.mean().to_numpy()),
            on_lines=centred(on_lines, group)[varied],
            people=people[:, 0],
        )

    def gains(self, panels: Sequence[Mask], rng: np.random.Generator) -> list[PanelGain]:
        """The gain of the first panel on the own judge, then on each of the other panels.

        Every output is scored by weights from other documents and systems, and the own judge is
        that of those; of several deals into folds the mean.
        """
        level: Level = "summary" if self.group.any() else "dataset"
        deals = []
        for _ in range(DEALS):
            sides = np.full((1 + len(panels), self.human.size), np.nan)
            for held_out, rows in self._folds(rng):
                training, on_lines = self.training(rows), self.on_lines[held_out]
                weights = [
                    np.eye(len(on_lines.T))[training.own(panels[0])],
                    *map(training.weights, panels),
                ]
                sides[:, held_out] = np.round(on_lines @ np.stack(weights, axis=1), 12).T
            own, whole, *others = sides
            contrasts = [
                contrast_judges(whole, base, self.human, self.document, level=level)
                for base in (own, *others)
            ]
            deals.append([(each.value, each.error, len(each.documents)) for each in contrasts])
        means = np.mean(deals, axis=0).tolist()
        return [PanelGain(value, error, round(number)) for value, error, number in means]

    def _folds(self, rng: np.random.Generator) -> Iterator[tuple[Mask, Mask]]:
        """Rows to score, and the rows that share neither document nor system with them."""
        n_documents, n_systems = (int(codes.max()) + 1 for codes in (self.document, self.system))
        fold = rng.permutation(n_documents)[self.document] % DOCUMENT_FOLDS
        n_parts = min(SYSTEM_FOLDS, n_systems // 2) if n_systems >= FEWEST_SYSTEMS else 1
        part = rng.permutation(n_systems)[self.system] % n_parts
        for number in range(DOCUMENT_FOLDS):
            for place in range(n_parts):
                held_out = (fold == number) & (part == place)
                rows = (fold != number) & ((part != place) | (n_parts == 1))
                if held_out.any() and rows.any():
                    yield held_out, rows


def _ranks(values: Matrix, group: Codes) -> Matrix:
    """Mid-ranks within groups with mean 0 and variance 1; 0 where all are equal."""
    ranks = centred(pd.DataFrame(values).groupby(group).rank().to_numpy(), group)
    spread = np.sqrt(pd.DataFrame(ranks**2).groupby(group).transform("mean").to_numpy())
    standard: Matrix = np.divide(ranks, spread, out=np.zeros_like(ranks), where=spread > 0)
    return standard
