"""Pairs of summaries for `tldr_concise`, with three votes each by construction."""

import random
from collections.abc import Mapping
from itertools import combinations
from typing import Literal

from data.construct.compose import Summary
from data.construct.documents import Source
from data.construct.rate import coverage, details, n_repeats

Vote = Literal["A", "B", "tie"]

# What one needless sentence costs, to a lenient, a moderate and a strict voter.
COST = (0.05, 0.1, 0.2)
# Nearer than this, a voter cannot tell two summaries apart.
INDIFFERENT = 0.06
# Pairs further apart than this are not asked about.
OBVIOUS = 0.4


def value(source: Source, summary: Summary, cost: float) -> float:
    """The share of the important points that is told truly, less what needless sentences cost."""
    needless = details(summary) + n_repeats(summary)
    return coverage(source, summary, wrong=0) - cost * needless


def votes(source: Source, summary_a: Summary, summary_b: Summary) -> tuple[Vote, ...]:
    """One vote a voter, most lenient first."""
    gaps = [value(source, summary_a, cost) - value(source, summary_b, cost) for cost in COST]
    return tuple("tie" if abs(gap) < INDIFFERENT else "A" if gap > 0 else "B" for gap in gaps)


def preferred(cast: tuple[Vote, ...]) -> Vote:
    """What more than half of the voters chose, else a tie."""
    return next((vote for vote in ("A", "B") if 2 * cast.count(vote) > len(cast)), "tie")


def choose(
    source: Source, summaries: Mapping[str, Summary], rng: random.Random
) -> list[tuple[str, str]]:
    """Two pairs of systems, each pair as A and B.

    Once the better summary is the longer one and once the shorter, once it is A and once B, so
    that neither length nor place tells a judge anything; a tie may take the place of either.
    """
    rest = [rng.sample(pair, 2) for pair in combinations(sorted(summaries), 2)]
    rng.shuffle(rest)
    better = rng.sample(["A", "B"], 2)
    chosen: list[tuple[str, str]] = []
    for longer_wins, place in zip((True, False), better, strict=True):
        for pair in rest:
            by_length = sorted(pair, key=lambda system: _n_words(summaries[system]))
            loser, winner = by_length if longer_wins else reversed(by_length)
            a, b = (winner, loser) if place == "A" else (loser, winner)
            if _worth_asking(source, summaries[a], summaries[b], place):
                chosen.append((a, b))
                rest.remove(pair)
                break
    return chosen


def _worth_asking(source: Source, summary_a: Summary, summary_b: Summary, place: str) -> bool:
    """Whether the one at `place` is preferred, or neither, and not by so much as to be obvious."""
    moderate = COST[1]
    gap = value(source, summary_a, moderate) - value(source, summary_b, moderate)
    vote = preferred(votes(source, summary_a, summary_b))
    return vote in (place, "tie") and abs(gap) <= OBVIOUS


def _n_words(summary: Summary) -> int:
    return sum(sentence.n_words for sentence in summary)
