"""Weights of a panel's members: non-negative, and drawn towards equal ones."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from optimize.panel.maps import Codes, codes
from optimize.panel.members import LabelledScores, Mask
from optimize.statistics.coefficients import Matrix, Vector

PanelKind = Literal["own", "mean", "learned"]

# A member that would get less, or less than half of an equal weight where there are very many, is
# left out: it would cost more than it says.
LEAST_WEIGHT = 0.02
# How far learned weights are drawn to equal ones: of their penalty and what labels say, the
# penalty's part.
SHRINKAGE = 0.5


@dataclass(frozen=True, slots=True)
class Moments:
    """How members' mapped scores vary together, and with people's ranks, within groups."""

    gram: Matrix
    with_people: Vector

    def weights(self, shrinkage: float, members: Mask) -> Vector:
        """Weights of these members, 0 for others; they sum to 1.

        Least squares of people's ranks on members' scores, with a penalty on what the weights
        differ from the best equal ones: shrinkage / (1 - shrinkage) for an error of a member's
        variance. A member that goes against people has no part in it; where all do, weights are
        equal.
        """
        equal: Vector = members / members.sum()
        agreeing = members & (self.with_people > 0)
        n = int(agreeing.sum())
        if shrinkage >= 1 or n == 0:
            return equal
        gram, with_people = self.gram[np.ix_(agreeing, agreeing)], self.with_people[agreeing]
        level = float(with_people.sum()) / max(float(gram.sum()), 1e-12)
        penalty = shrinkage / (1 - shrinkage)
        solution = nonnegative_solution(gram + penalty * np.eye(n), with_people + penalty * level)
        weights = np.zeros(members.size)
        weights[agreeing] = solution / solution.sum()
        weights[weights < min(LEAST_WEIGHT, 0.5 / n)] = 0
        shares: Vector = weights / weights.sum()
        return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A way to weights of the `members`: equal ones (shrinkage 1), or learned and shrunk."""

    kind: PanelKind
    shrinkage: float
    members: tuple[bool, ...]

    def weights(self, moments: Moments) -> Vector:
        """Its weights by what is known of members and people."""
        return moments.weights(self.shrinkage, np.array(self.members))


def moments_of(labelled: LabelledScores, rows: Codes) -> Moments:
    """The moments on these rows; groups that people rate alike have no part in them."""
    people = labelled.ranks(labelled.human[rows], rows)
    group = codes(labelled.group[rows])
    informative = np.bincount(group, np.abs(people))[group] > 0
    rows, people = rows[informative], people[informative]
    scores = labelled.centred(rows)
    n = max(len(rows), 1)
    return Moments(scores.T @ scores / n, scores.T @ people / n)


def nonnegative_solution(gram: Matrix, moments: Vector) -> Vector:
    """The w >= 0 with the least w'Gw / 2 - m'w; G positive definite."""
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    lower = np.linalg.cholesky(gram)
    weights: Vector = nnls(lower.T, solve_triangular(lower, moments, lower=True))[0]
    return weights


def weighted_mean(mapped: Matrix, weights: Vector) -> Vector:
    """The mean over columns by weight, NaN where one is missing; a weight of 0 needs no column."""
    used = weights > 0
    # To 12 digits, because the order of a sum must not break a tie.
    mean: Vector = np.round(mapped[:, used] @ weights[used], 12)
    return mean
