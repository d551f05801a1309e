"""Race candidates on growing sets of train documents, so that poor ones cost little.

A field is halved again and again, and what is left meets about twice as many documents each time
(successive halving, arXiv:1502.07943). The first set is as large as the calls allow: where they
suffice for everybody on all documents, everybody is judged on all of them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optimize.items import Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.search.gate import MOST_FAILED
from optimize.search.objective import Level, contrast, objective

# A candidate that stands this many standard errors below the leader, or the seed, is out.
OUT = 1.5
# On fewer documents than these, chance decides.
FEWEST_DOCUMENTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """How a candidate did: its objective, and its mean gain on the seed over its documents."""

    candidate: Candidate
    value: float
    gain: float
    error: float
    n_documents: int
    # Whether it fails on no more outputs than a judge may that ships.
    readable: bool = True

    @property
    def cautious(self) -> float:
        """The gain less a standard error: what ranks candidates that met different documents."""
        return self.gain - self.error


@dataclass(frozen=True, kw_only=True)
class Track:
    """The train items, and the order in which documents are met."""

    items: Items
    order: tuple[str, ...]
    level: Level
    seed: Candidate
    _fresh: dict[frozenset[str], tuple[str, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def alone(self) -> dict[str, Items]:
        """The items of each document."""
        return {name: self.items.of_documents([name]) for name in self.order}

    def documents(self, candidate: Candidate, size: int) -> tuple[str, ...]:
        """The first documents of the order that the candidate did not learn from."""
        known = candidate.documents
        if known not in self._fresh:
            self._fresh[known] = tuple(name for name in self.order if name not in known)
        return self._fresh[known][:size]

    def part(self, candidate: Candidate, size: int) -> Items:
        return self.items.of_documents(self.documents(candidate, size))


def stand(evaluator: Evaluator, track: Track, candidate: Candidate, size: int) -> RaceResult:
    """Score a candidate and the seed on the candidate's first documents."""
    items = track.part(candidate, size)
    own, base = evaluator.scores(candidate, items), evaluator.scores(track.seed, items)
    gap = contrast(own, base, items, track.level)
    failed, seed_failed = (np.isnan(side).mean() if len(side) else 0.0 for side in (own, base))
    return RaceResult(
        candidate=candidate,
        value=objective(own, items, track.level),
        gain=gap.value if gap.documents else 0.0,
        error=gap.error,
        n_documents=len(items.documents),
        readable=bool(failed <= max(MOST_FAILED, seed_failed)),
    )


class Prices:
    """What it would cost to score each of some candidates, and the seed beside them."""

    def __init__(self, evaluator: Evaluator, track: Track, candidates: Sequence[Candidate]) -> None:
        self._seed = {name: evaluator.cost(track.seed, track.alone[name]) for name in track.order}
        self._met = [track.documents(one, len(track.order)) for one in candidates]
        self._own = [
            [0, *itertools.accumulate(evaluator.cost(one, track.alone[name]) for name in met)]
            for one, met in zip(candidates, self._met, strict=True)
        ]

    def seed(self, size: int) -> int:
        """Calls for the seed alone on the first `size` documents."""
        return sum(itertools.islice(self._seed.values(), size))

    def first(self, number: int, size: int) -> int:
        """Calls for the first so many candidates on their first `size` documents."""
        calls = sum(own[min(size, len(own) - 1)] for own in self._own[:number])
        shared = {name for met in self._met[:number] for name in met[:size]}
        return calls + sum(self._seed[name] for name in shared)

    def race(self, number: int, size: int) -> int:
        """Calls for all of a race of the first so many whose next set has `size` documents.

        Which half goes on is not known yet; the first stand for it.
        """
        calls, paid, longest = 0, 0, len(self._seed)
        while True:
            calls += self.first(number, size) - paid
            if number == 1 or size == longest:
                return calls
            number = math.ceil(number / 2)
            paid = self.first(number, size)
            size = min(2 * size, longest)


def race(
    evaluator: Evaluator,
    track: Track,
    next_candidates: Sequence[Candidate],
    calls: int,
    seen: Callable[[int, RaceResult], None],
) -> list[RaceResult]:
    """Spend at most so many calls; best first, those that went furthest before all others.

    Where not even the fewest documents can be paid for all, the first entrants run.
    """
    end = evaluator.budget.spent + calls
    left = list(next_candidates)
    last: dict[str, tuple[int, RaceResult]] = {}
    rung, met = 0, 0
    fewest = min(FEWEST_DOCUMENTS, len(track.order))
    while left:
        prices, calls = Prices(evaluator, track, left), end - evaluator.budget.spent
        while rung == 0 and len(left) > 1 and prices.first(len(left), fewest) > calls:
            left.pop()
        size = _size(prices, len(left), len(track.order), calls)
        if rung == 0 and size < fewest and prices.first(len(left), fewest) <= calls:
            # The better half will not go far; but all of them have run.
            size = fewest
        if size <= met:
            break
        stood = [stand(evaluator, track, one, size) for one in left]
        for one in stood:
            seen(rung, one)
            last[one.candidate.id] = (rung, one)
        stood.sort(key=lambda one: (-one.gain, one.candidate.id))
        left = [one.candidate for one in _kept(stood)]
        rung, met = rung + 1, size
    ranked = sorted(last.values(), key=lambda pair: (-pair[0], -pair[1].cautious))
    return [race_result for _, race_result in ranked]


def _size(prices: Prices, number: int, longest: int, calls: int) -> int:
    """The most documents the field can meet so that its better half can meet twice as many, ...

    0 where a single document is too dear.
    """
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if prices.race(number, middle) <= calls:
            low = middle
        else:
            high = middle - 1
    return low


def _kept(stood: Sequence[RaceResult]) -> list[RaceResult]:
    """The better half and the best of each kind, less those clearly below the leader or the seed.

    Of each kind, because an instruction and demonstrations that gain little alone may be crossed.
    """
    half = [one for one in stood[: math.ceil(len(stood) / 2)] if one.readable]
    kinds = {_kind(one) for one in half}
    for one in stood:
        if one.readable and _kind(one) not in kinds:
            kinds.add(_kind(one))
            half.append(one)
    best = max((one.cautious for one in half), default=0.0)
    return [one for one in half if one.gain + OUT * one.error >= max(0.0, best)]


def _kind(one: RaceResult) -> tuple[bool, bool]:
    """Whether the instruction is a proposed one, and whether there are demonstrations."""
    return one.candidate.instruction.round > 0, bool(one.candidate.shown.demos)
