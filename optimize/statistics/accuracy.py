"""How often judge and people order two outputs alike: of pairs, and of scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judges.winrate import share_interval, share_interval_of_sums
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Matrix, Vector, concordances
from optimize.statistics.difference import Contrast, mean_of_differences
from optimize.statistics.levels import Codes, Level, Rows, read_rows

# The size of the two documents that keep a share's interval from being empty at 0 and 1, as a part
# of an average document's: its pairs share outputs, so that they say less than as many alone.
ADDED = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAccuracy:
    """Of the pairs that people decided, the share on which the judge prefers the same side.

    The judge's side is the sign of its margin, both orders together; its ties (`n_ties`) are half
    right. `n_decided` pairs have a verdict and a side that people prefer.
    """

    value: float
    interval: Interval | None
    n_decided: int
    n_ties: int
    n_documents: int
    n_failed: int


def pair_accuracy(margin: ArrayLike, human: ArrayLike, document: ArrayLike) -> PairAccuracy:
    """Accuracy from margins in [-1, 1]: the judge's (NaN: failed), people's; 0 is a tie."""
    judge, human = np.asarray(margin, dtype=float), np.asarray(human, dtype=float)
    decided = (human != 0) & ~np.isnan(judge)
    correct = (1 + np.sign(judge[decided]) * np.sign(human[decided])) / 2
    documents = np.asarray(document)[decided].tolist()
    low, high = share_interval(correct, documents)
    return PairAccuracy(
        value=float(correct.mean()) if correct.size else np.nan,
        interval=None if np.isnan(low) else Interval(low, high),
        n_decided=int(correct.size),
        n_ties=int((judge[decided] == 0).sum()),
        n_documents=len(set(documents)),
        n_failed=int(np.isnan(judge).sum()),
    )


def contrast_accuracy(
    margin_a: ArrayLike, margin_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Accuracy of judge A less judge B's on the decided pairs that both judged, and its test."""
    a, b, people = (np.asarray(side, dtype=float) for side in (margin_a, margin_b, human))
    compared = (people != 0) & ~np.isnan(a + b)
    a, b, people = (np.sign(side[compared]) for side in (a, b, people))
    gaps = (a - b) * people / 2
    names, codes = np.unique(np.asarray(document)[compared], return_inverse=True)
    # A document with many pairs weighs more: the mean over documents is that over pairs.
    sums = np.bincount(codes, gaps, names.size)
    return mean_of_differences(sums * names.size / max(gaps.size, 1), names.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAgreement:
    """Of the pairs of outputs that people order, the share that a judge orders alike, in [0, 1].

    Every such pair weighs the same. A pair that the judge scores alike (one of `n_ties`) is half
    right, as by tossing a coin; those that people rate alike (`n_tied_by_people`) are left out.
    `value` is NaN without a pair; `n_documents` have one.
    """

    value: float
    interval: Interval | None
    n_pairs: int
    n_ties: int
    n_tied_by_people: int
    n_documents: int


@dataclass(slots=True)
class _OrderSums:
    """What each document adds to the share: how many pairs, and how many of them alike."""

    alike: Vector
    pairs: Vector
    n_ties: int = 0
    n_tied_by_people: int = 0

    def add(self, sums: "_OrderSums", documents: Codes) -> None:
        """Count further pairs of `documents`, each of which `sums` has once."""
        self.alike[documents] += sums.alike
        self.pairs[documents] += sums.pairs
        self.n_ties += sums.n_ties
        self.n_tied_by_people += sums.n_tied_by_people

    def agreement(self, degree: int) -> OrderAgreement:
        """The share; with `degree` 2 every pair was counted in both its outputs' documents."""
        has_pair = self.pairs > 0
        alike, pairs = self.alike[has_pair], self.pairs[has_pair]
        low, high = share_interval_of_sums(alike, pairs, added=ADDED, degree=degree)
        return OrderAgreement(
            value=float(alike.sum() / pairs.sum()) if pairs.size else np.nan,
            interval=None if np.isnan(low) else Interval(low, high),
            n_pairs=round(pairs.sum()) // degree,
            n_ties=self.n_ties // degree,
            n_tied_by_people=self.n_tied_by_people // degree,
            n_documents=pairs.size,
        )


def order_agreement(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike, *, level: Level = "summary"
) -> OrderAgreement:
    """How often the judge (NaN: failed) orders two outputs as people do.

    The two are of one document; at dataset level, and where no document has two, any two. It is
    (1 + Somers' D) / 2, given people's order, over all pairs at once. Raises ValueError as
    `read_rows`.
    """
    rows = read_rows(judge, human, document)
    degree = _degree(level, rows.document)
    return _order_sums(rows, degree).agreement(degree)


def order_agreement_of_people(
    judge: ArrayLike, annotations: ArrayLike, document: ArrayLike, *, level: Level = "summary"
) -> tuple[OrderAgreement, OrderAgreement]:
    """How often one annotator orders two outputs as another does, and how often the judge does.

    `annotations` is (outputs, annotators), NaN where unrated. Every annotator is held against every
    other one, and the judge against that other one on the very same pairs, which those are that the
    other one orders. So both shares are comparable, and lower than one against a mean of several.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(annotations, dtype=float)
    documents, codes = np.unique(np.asarray(document), return_inverse=True)
    scored = ~np.isnan(scores)
    rated_twice = scored & ((~np.isnan(ratings)).sum(axis=1) > 1)
    degree = _degree(level, codes[rated_twice])
    people, judged = (
        _OrderSums(np.zeros(documents.size), np.zeros(documents.size)) for _ in range(2)
    )
    for first, second in np.ndindex(ratings.shape[1], ratings.shape[1]):
        rows = np.flatnonzero(scored & ~np.isnan(ratings[:, first] + ratings[:, second]))
        if first == second or not rows.size:
            continue
        present = np.unique(codes[rows])
        for total, side in ((people, ratings[:, first]), (judged, scores)):
            pairs = read_rows(side[rows], ratings[rows, second], codes[rows])
            total.add(_order_sums(pairs, degree), present)
    return people.agreement(degree), judged.agreement(degree)


def order_agreement_of_votes(
    margin: ArrayLike, votes: Sequence[Sequence[float]], document: ArrayLike
) -> tuple[OrderAgreement, OrderAgreement]:
    """As `order_agreement_of_people`, of pairs: votes and the judge's margin by their signs.

    Every vote for a side is held against every other vote on the pair; a tie is half right.
    """
    margins = np.asarray(margin, dtype=float)
    documents, codes = np.unique(np.asarray(document), return_inverse=True)
    people, judged = (
        _OrderSums(np.zeros(documents.size), np.zeros(documents.size)) for _ in range(2)
    )
    for row in np.flatnonzero(~np.isnan(margins)):
        signs = np.sign(np.array(votes[int(row)], dtype=float))
        n_others, sides = signs.size - 1, signs[signs != 0]
        if n_others < 1 or not sides.size:
            continue
        code = [codes[row]]
        # Each side against the sum of all other votes, its own left out.
        alike = float((n_others + sides * (signs.sum() - sides)).sum() / 2)
        n_ties = sides.size * (signs.size - sides.size)
        n_pairs = np.array([float(sides.size * n_others)])
        people.add(_OrderSums(np.array([alike]), n_pairs, n_ties), np.array(code))
        by_judge = float(n_others * (1 + np.sign(margins[row]) * sides).sum() / 2)
        n_ties = int(n_pairs[0]) if margins[row] == 0 else 0
        judged.add(_OrderSums(np.array([by_judge]), n_pairs, n_ties), np.array(code))
    return people.agreement(1), judged.agreement(1)


def _degree(level: Level, document: Codes) -> int:
    """1 where pairs are within documents, 2 where they are of any two outputs."""
    has_pairs = bool((np.bincount(document) > 1).any()) if document.size else True
    return 2 if level == "dataset" or not has_pairs else 1


def _order_sums(rows: Rows, degree: int) -> _OrderSums:
    if degree == 1:
        gaps = _pair_gaps(rows)
        ordered = gaps.human != 0
        alike = (1 + np.sign(gaps.judge[ordered]) * np.sign(gaps.human[ordered])) / 2
        documents = gaps.document[ordered]
        return _OrderSums(
            np.bincount(documents, alike, rows.n_documents).astype(float),
            np.bincount(documents, minlength=rows.n_documents).astype(float),
            int((gaps.judge[ordered] == 0).sum()),
            int((~ordered).sum()),
        )
    # Rounded, because what a sum's order adds to a score must not break a tie.
    judge, human = (np.round(side, 12) for side in (rows.judge, rows.human))
    n_alike_human = _n_equal(human)
    ordered = judge.size - n_alike_human
    alike = (ordered + concordances(judge, human)) / 2
    return _OrderSums(
        np.bincount(rows.document, alike, rows.n_documents).astype(float),
        np.bincount(rows.document, ordered, rows.n_documents).astype(float),
        int(_n_equal(judge).sum() - _n_equal(np.stack([judge, human])).sum()),
        # An output beside itself is no pair.
        int(n_alike_human.sum()) - judge.size,
    )


def _n_equal(values: Vector | Matrix) -> Codes:
    """For each last entry, how many are equal to it, itself among them."""
    _, entry, n = np.unique(values, axis=-1, return_inverse=True, return_counts=True)
    result: Codes = n[entry.ravel()]
    return result


@dataclass(frozen=True, slots=True)
class _PairGaps:
    """Each pair within a document: how far apart both sides put it, and its document."""

    judge: Vector
    human: Vector
    document: Codes


def _pair_gaps(rows: Rows) -> _PairGaps:
    """The differences of every two outputs of one document, on either side, and the document."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    firsts, seconds = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for size in np.unique(sizes[sizes > 1]):
        i, k = np.triu_indices(int(size), 1)
        starts = rows.first_rows[sizes == size][:, None]
        firsts.append((starts + i).ravel())
        seconds.append((starts + k).ravel())
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    # Rounded, because 0.3 - 0.2 and 0.2 - 0.1 are one distance.
    judge, human = (np.round(side[a] - side[b], 12) for side in (rows.judge, rows.human))
    return _PairGaps(judge, human, rows.document[a])
