"""How several judges' scores are joined, and whether people's labels say that joining helps.

Each member's scores get a straight line: mean 0 over all outputs, standard deviation 1 within
documents (of pairs: within all). What joins them is a weighted mean of the lines:

- below 40 labelled documents, and for pairs, half the weight is the best member's by these labels
  (the own judge) and half is shared equally by all;
- from 40 documents on, the weights are half what non-negative least squares of people's ranks on
  the lines give, and half equal.

Fewer documents cannot tell members' weights apart, and hardly tell which of many is the best: a
panel that trusts 12 documents for either loses to the judge one had. So the panel is taken only
where it does better than the own judge by more than one standard error on documents and systems
that taught neither the weights nor which judge is the own one. Otherwise the own judge stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from optimize.run.settings import SettingsError
from optimize.statistics.correlations import Codes, Level, Mask, contrast_judges
from optimize.statistics.intervals import Matrix, Vector

Kind = Literal["own", "half", "learned"]
LEAST_DOCUMENTS_FOR_WEIGHTS = 40
DOCUMENT_FOLDS, SYSTEM_FOLDS, DEALS = 5, 4, 3
# With fewer there is no telling an order among those left, nor among those left out.
FEWEST_SYSTEMS = 6
# A member that fails on more of the outputs has no part: where it fails, the panel would.
MOST_FAILED = 0.1
# What varies less than this, beside the largest score, is the order of a sum.
LEAST_SPREAD = 1e-6


class Part(NamedTuple):
    """A member of what ships; `intercept + slope * score` is its score on the panel's scale."""

    name: str
    weight: float
    slope: float = 1.0
    intercept: float = 0.0


class Gain(NamedTuple):
    """A difference of rho on documents and systems that taught nothing, and its standard error."""

    value: float
    error: float
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """What one member does: its rho alone, its weight in the panel, and what the panel loses
    without it. The panel is the one that was compared with the own judge, shipped or not.
    """

    name: str
    alone: float
    weight: float
    adds: Gain


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFit:
    """What ships, as a weighted mean of `parts`, and the evidence for it.

    `own` is the best member alone by these labels, and `gain` the panel's on it. `passed_over`
    says why a member can have no part.
    """

    kind: Kind
    own: str
    parts: tuple[Part, ...]
    gain: Gain
    members: tuple[MemberValue, ...]
    passed_over: Mapping[str, str]

    def scores(self, by_name: Mapping[str, Vector]) -> Vector:
        """What ships says of rows that its members scored; NaN where one of them failed."""
        lines = [p.weight * (p.intercept + p.slope * by_name[p.name]) for p in self.parts]
        return _rounded(np.sum(lines, axis=0))


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
    if np.ptp(human) == 0:
        raise SettingsError(
            f"every label that weights are learned from is {human[0]:g}: there is no order to "
            "learn; give more labels"
        )
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
    lines = [_line(scores[name], group) for name in names]
    mapped = np.stack(
        [a + b * scores[name] for name, (b, a) in zip(names, lines, strict=True)], axis=1
    )
    scored = ~np.isnan(mapped).any(axis=1)
    labelled = _Labelled(
        mapped=mapped[scored],
        human=human[scored],
        document=document[scored],
        system=system[scored],
        group=group[scored],
        learns=not pairs and np.unique(document).size >= LEAST_DOCUMENTS_FOR_WEIGHTS,
    )
    everyone = np.ones(len(names), bool)
    others = [everyone & (np.arange(len(names)) != place) for place in range(len(names))]
    gain, *adds = labelled.gains(everyone, others if len(names) > 1 else [], rng)
    taught = labelled.taught(np.ones(labelled.human.size, bool))
    own, weights = taught.own(everyone), taught.weights(everyone)
    shipped = gain.value > gain.error
    parts = (Part(names[own], 1.0),)
    if shipped:
        joined = labelled.mapped @ weights
        scale, shift = 1 / max(slope for slope, _ in lines), 0.0
        if not pairs:
            # On people's scale, which a rating can be read on: with their mean and spread.
            scale = float(labelled.human.std() / joined.std())
            shift = float(labelled.human.mean() - scale * joined.mean())
        parts = tuple(
            Part(names[k], float(weights[k]), scale * lines[k][0], scale * lines[k][1] + shift)
            for k in np.argsort(-weights, kind="stable")
        )
    kind: Kind = "learned" if labelled.learns else "half"
    return PanelFit(
        kind=kind if shipped else "own",
        own=names[own],
        parts=parts,
        gain=gain,
        members=tuple(
            MemberValue(name=name, alone=float(alone), weight=float(weight), adds=added)
            for name, alone, weight, added in zip(
                names, taught.alone, weights, adds or [gain], strict=True
            )
        ),
        passed_over=passed_over,
    )


def _passed_over(scores: Vector, group: Codes) -> str:
    """Why these scores can have no part; empty where they can."""
    failed = float(np.isnan(scores).mean())
    if failed > MOST_FAILED:
        return f"fails on {failed:.0%} of the outputs"
    return "" if _line(scores, group).slope else "tells no two outputs apart"


class _Line(NamedTuple):
    slope: float
    intercept: float


def _line(scores: Vector, group: Codes) -> _Line:
    """To mean 0 and a deviation of 1 within groups; a slope of 0 where no group is told apart."""
    known = ~np.isnan(scores)
    spread = float(np.sqrt(np.mean(_centred(scores[known, None], group[known]) ** 2)))
    if spread <= LEAST_SPREAD * max(1.0, float(np.abs(scores[known]).max())):
        return _Line(0.0, 0.0)
    return _Line(1 / spread, -float(scores[known].mean()) / spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taught:
    """What labelled rows say: each member's rho, and people's ranks on members' lines."""

    alone: Vector
    mapped: Matrix
    people: Vector
    learns: bool

    def own(self, members: Mask) -> int:
        """The best of these members alone."""
        return int(np.argmax(np.where(members, self.alone, -np.inf)))

    def weights(self, members: Mask) -> Vector:
        """Weights of these members by the rule, 0 for the others; they sum to 1."""
        from scipy.optimize import nnls

        told = np.zeros(members.size)
        if self.learns and self.people.size:
            told[members] = nnls(self.mapped[:, members], self.people)[0]
        if not told.any():
            told[self.own(members)] = 1.0
        weights: Vector = (told / told.sum() + members / members.sum()) / 2
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labelled:
    """Outputs that all members scored: their lines (outputs, members) beside people's labels.

    `group` numbers what is ranked together: a document's outputs, or all of them.
    """

    mapped: Matrix
    human: Vector
    document: Codes
    system: Codes
    group: Codes
    learns: bool

    @property
    def level(self) -> Level:
        return "summary" if self.group.any() else "dataset"

    def taught(self, rows: Mask) -> _Taught:
        """What these rows teach."""
        group, mapped = self.group[rows], self.mapped[rows]
        people = _ranks(self.human[rows, None], group)
        # Documents that people rate alike say nothing of members.
        varied = pd.Series(np.abs(people[:, 0])).groupby(group).transform("max").to_numpy() > 0
        group, mapped, people = group[varied], mapped[varied], people[varied]
        products = pd.DataFrame(_ranks(mapped, group) * people).groupby(group).mean()
        return _Taught(
            alone=np.nan_to_num(products.mean().to_numpy()),
            mapped=_centred(mapped, group),
            people=people[:, 0],
            learns=self.learns,
        )

    def gains(self, everyone: Mask, others: Sequence[Mask], rng: np.random.Generator) -> list[Gain]:
        """The panel's gain on the own judge, then on the panel of each of `others`.

        Every output is scored by weights from other documents and systems, and the own judge is
        that of those; of several deals into folds the mean.
        """
        found = []
        for _ in range(DEALS):
            joined = np.full((self.human.size, 1 + len(others)), np.nan)
            own = np.full(self.human.size, np.nan)
            for held_out, rows in self._folds(rng):
                taught = self.taught(rows)
                own[held_out] = self.mapped[held_out, taught.own(everyone)]
                for place, members in enumerate((everyone, *others)):
                    joined[held_out, place] = self.mapped[held_out] @ taught.weights(members)
            found.append([self._contrast(joined[:, 0], base) for base in (own, *joined.T[1:])])
        means = [np.mean(deals, axis=0) for deals in zip(*found, strict=True)]
        return [Gain(float(value), float(error), int(n)) for value, error, n in means]

    def _contrast(self, scores: Vector, base: Vector) -> tuple[float, float, int]:
        contrast = contrast_judges(
            _rounded(scores), _rounded(base), self.human, self.document, level=self.level
        )
        return contrast.value, contrast.error, len(contrast.documents)

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


def _centred(values: Matrix, group: Codes) -> Matrix:
    """Each column less the mean of its group."""
    means = pd.DataFrame(values).groupby(group).transform("mean")
    centred: Matrix = values - means.to_numpy()
    return centred


def _ranks(values: Matrix, group: Codes) -> Matrix:
    """Mid-ranks within groups with mean 0 and variance 1; 0 where all are equal."""
    ranks = _centred(pd.DataFrame(values).groupby(group).rank().to_numpy(), group)
    spread = np.sqrt(pd.DataFrame(ranks**2).groupby(group).transform("mean").to_numpy())
    standard: Matrix = np.divide(ranks, spread, out=np.zeros_like(ranks), where=spread > 0)
    return standard


def _rounded(scores: Vector) -> Vector:
    """To 12 digits, because the order of a sum must not break a tie."""
    rounded: Vector = np.round(scores, 12)
    return rounded
