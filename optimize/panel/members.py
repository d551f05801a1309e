"""Members' scores beside people's labels, on one scale: what a panel's weights are learned from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.judgement import LARGEST_SCORE
from optimize.panel.maps import (
    Codes,
    Line,
    centre,
    codes,
    fit_line,
    fit_margin_lines,
    standard_ranks,
)
from optimize.statistics.coefficients import Matrix, Vector

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberScores:
    """One judge's scores, or margins of pairs, parallel to the labels; NaN: it failed there.

    `cost_per_1000` is dollars for 1,000 rows, NaN where unknown.
    """

    name: str
    scores: NDArray[np.float64]
    cost_per_1000: float = 0.0


@dataclass(frozen=True)
class LabelledScores:
    """Members' scores and people's ratings of the same outputs, or margins of the same pairs.

    `group` numbers what is ranked together: documents, or all outputs as one (dataset level).
    `mapped` (outputs, members) has the scores on the common scale; a member that tells no two
    outputs apart has no line, and 0 for each.
    """

    members: tuple[MemberScores, ...]
    human: Vector
    document: Codes
    system: Codes
    group: Codes
    pairs: bool = False
    scores: Matrix = field(init=False)
    lines: tuple[Line | None, ...] = field(init=False)
    mapped: Matrix = field(init=False)

    def __post_init__(self) -> None:
        scores = np.stack([member.scores for member in self.members], axis=1)
        lines = member_lines(self.members, self.group, pairs=self.pairs)
        mapped = np.where(np.isnan(scores), np.nan, 0.0)
        for column, line in enumerate(lines):
            if line is not None:
                mapped[:, column] = line.of(scores[:, column])
        for name, value in (("scores", scores), ("lines", lines), ("mapped", mapped)):
            object.__setattr__(self, name, value)

    @property
    def usable(self) -> Mask:
        """Which members have a line."""
        return np.array([line is not None for line in self.lines])

    def ranks(self, values: Matrix, rows: Codes) -> Matrix:
        """Standardised ranks within groups of each column's values for the rows; NaN stay.

        Of a pair's margin among the margins of all pairs in both orders.
        """
        if not len(rows):
            return values
        columns = values.T.reshape(-1, len(rows))
        group = np.zeros(len(rows), dtype=np.intp) if self.pairs else codes(self.group[rows])
        if self.pairs:
            columns, group = np.hstack([columns, -columns]), np.tile(group, 2)
        apart = np.arange(len(columns))[:, None] * (group.max(initial=0) + 1)
        z = standard_ranks(columns.ravel(), (group + apart).ravel()).reshape(columns.shape)
        ranks: Matrix = z[:, : len(rows)].T.reshape(values.shape)
        return ranks

    def centred(self, rows: Codes) -> Matrix:
        """The rows' mapped scores as far as they tell outputs of a group apart; 0 where missing."""
        mapped = self.mapped[rows]
        if not self.pairs:
            group = codes(self.group[rows])
            mapped = np.stack([centre(column, group) for column in mapped.T], axis=1)
        return np.nan_to_num(mapped)

    def terms(self, values: Matrix, rows: Codes) -> Matrix:
        """What each of the rows adds to rho, by each column of values for them.

        1 - (z - z')² / 2, with z and z' the ranks by values and by people. The mean over a group is
        rho, 0 where all values are equal; NaN where people rate the group alike, and for NaN.
        """
        human = np.where(np.isnan(values), np.nan, self.human[rows].reshape(-1, 1))
        z, people = self.ranks(values, rows), self.ranks(human, rows)
        group = codes(self.group[rows])
        flat, unranked = (
            np.stack(
                [np.bincount(group, np.abs(np.nan_to_num(ranks)))[group] for ranks in side.T], 1
            )
            == 0
            for side in (z, people)
        )
        return np.where(unranked, np.nan, np.where(flat, 0, 1 - (z - people) ** 2 / 2))


def labelled_scores(
    members: Sequence[MemberScores],
    human: ArrayLike,
    documents: ArrayLike,
    systems: ArrayLike | None,
    *,
    ranked_together: bool,
    pairs: bool = False,
) -> LabelledScores:
    """Check what a panel learns from; `ranked_together`: all outputs, not those of a document.

    Raises ValueError where shapes differ, names repeat, labels are not finite, scores infinite, or
    a pair's margin lies beyond [-1, 1].
    """
    ratings = np.asarray(human, dtype=float)
    document = codes(documents)
    system = codes(systems) if systems is not None else np.zeros(ratings.size, dtype=np.intp)
    check_members(members, ratings.size, pairs=pairs)
    for name, vector in (("documents", document), ("systems", system)):
        if ratings.ndim != 1 or vector.shape != ratings.shape:
            raise ValueError(f"ratings and {name} have shapes {ratings.shape} and {vector.shape}")
    if not np.isfinite(ratings).all():
        raise ValueError("every output needs a rating: leave out those that nobody rated")
    together = ranked_together or pairs
    return LabelledScores(
        # By name, so that the order in which they were given decides nothing.
        members=tuple(sorted(members, key=lambda member: member.name)),
        human=ratings,
        document=document,
        system=system,
        group=np.zeros_like(document) if together else document,
        pairs=pairs,
    )


def check_members(members: Sequence[MemberScores], n: int, *, pairs: bool) -> None:
    """Raise ValueError for members that cannot be joined."""
    names = [member.name for member in members]
    if not names:
        raise ValueError("a panel needs a member")
    if not n:
        raise ValueError("a panel needs outputs: there are none")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two members are called {repeated[0]!r}: name them apart")
    for member in members:
        if member.scores.shape != (n,):
            raise ValueError(f"{member.name} has scores {member.scores.shape}, the rows are ({n},)")
        if np.isinf(member.scores).any():
            raise ValueError(f"{member.name} has an infinite score: a failed judgement is NaN")
        if np.nanmax(np.abs(member.scores), initial=0.0) > LARGEST_SCORE:
            raise ValueError(f"{member.name} has a score beyond {LARGEST_SCORE:g}: rescale them")
        if pairs and np.nanmax(np.abs(member.scores), initial=0.0) > 1 + 1e-9:
            raise ValueError(f"{member.name} has a margin beyond [-1, 1]")


def member_lines(
    members: Sequence[MemberScores], group: Codes, *, pairs: bool
) -> tuple[Line | None, ...]:
    """Each member's line to the common scale, from its scores alone."""
    if pairs:
        return fit_margin_lines([member.scores for member in members])
    return tuple(fit_line(member.scores, group) for member in members)
