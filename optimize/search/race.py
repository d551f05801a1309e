"""Race candidates on growing sets of train documents, so that poor ones cost little."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate
from optimize.search.items import Items
from optimize.search.objective import Level, document_terms

# A candidate that stands this many standard errors below the leader, or the seed, is out.
OUT = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a candidate did: its objective, and its mean gain on the seed over its documents."""

    candidate: Candidate
    value: float
    gain: float
    error: float
    n_documents: int

    @property
    def cautious(self) -> float:
        """The gain less a standard error: what ranks candidates that met different documents."""
        return self.gain - self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The train items, the order in which documents are met, and how many at each rung."""

    items: Items
    order: tuple[str, ...]
    rungs: tuple[int, ...]
    level: Level
    seed: Candidate

    def documents(self, candidate: Candidate, rung: int) -> tuple[str, ...]:
        """The first documents of the order that the candidate did not learn from."""
        fresh = [name for name in self.order if name not in candidate.documents]
        return tuple(fresh[: self.rungs[rung]])

    def part(self, candidate: Candidate, rung: int) -> Items:
        return self.items.of_documents(self.documents(candidate, rung))


def rungs(n_documents: int) -> tuple[int, ...]:
    """Documents at each rung: about a fifth, a half, all; never fewer than there are to rank on."""
    sizes = {max(min(6, n_documents), math.ceil(n_documents * share)) for share in (0.2, 0.5, 1.0)}
    return tuple(sorted(sizes))


def stand(bench: Bench, track: Track, candidate: Candidate, rung: int) -> Standing:
    """Score a candidate and the seed on the candidate's documents of this rung."""
    items = track.part(candidate, rung)
    own = document_terms(bench.scores(candidate, items), items, track.level)
    base = document_terms(bench.scores(track.seed, items), items, track.level)
    differences = (own - base)[np.isfinite(own - base)]
    number = len(differences)
    spread = float(differences.std(ddof=1)) if number > 1 else math.inf
    return Standing(
        candidate=candidate,
        value=float(np.nanmean(own)) if np.isfinite(own).any() else math.nan,
        gain=float(differences.mean()) if number else 0.0,
        error=spread / math.sqrt(number) if number else math.inf,
        n_documents=len(track.documents(candidate, rung)),
    )


def cost(bench: Bench, track: Track, candidate: Candidate, rung: int) -> int:
    items = track.part(candidate, rung)
    own = bench.cost(candidate, items)
    return own + (bench.cost(track.seed, items) if candidate.id != track.seed.id else 0)


def race(
    bench: Bench,
    track: Track,
    entrants: Sequence[Candidate],
    left: Callable[[], int],
    seen: Callable[[int, Standing], None],
) -> list[Standing]:
    """Halve the field rung by rung; best first, those that reached the last rung before all others.

    `left` says how many calls may still be spent; a rung that not all can afford takes the best.
    """
    field = list(entrants)
    stood: list[Standing] = []
    last: dict[str, tuple[int, Standing]] = {}
    for rung in range(len(track.rungs)):
        stood = []
        for candidate in field:
            if cost(bench, track, candidate, rung) > left():
                continue
            standing = stand(bench, track, candidate, rung)
            seen(rung, standing)
            stood.append(standing)
            last[candidate.id] = (rung, standing)
        stood.sort(key=lambda one: (-one.gain, one.candidate.id))
        field = [one.candidate for one in _kept(stood)]
    ranked = sorted(last.values(), key=lambda pair: (-pair[0], -pair[1].cautious))
    return [standing for _, standing in ranked]


def _kept(stood: Sequence[Standing]) -> list[Standing]:
    """The better half and the best of each kind, less those clearly below the leader or the seed.

    Of each kind, because an instruction and demonstrations that gain little alone may be crossed.
    """
    half = list(stood[: math.ceil(len(stood) / 2)])
    kinds = {_kind(one) for one in half}
    for one in stood[len(half) :]:
        if _kind(one) not in kinds:
            kinds.add(_kind(one))
            half.append(one)
    best = max((one.cautious for one in half), default=0.0)
    return [one for one in half if one.gain + OUT * one.error >= max(0.0, best)]


def _kind(one: Standing) -> tuple[bool, bool]:
    """Whether the instruction is a proposed one, and whether there are demonstrations."""
    return one.candidate.instruction.round > 0, bool(one.candidate.shown.demos)
