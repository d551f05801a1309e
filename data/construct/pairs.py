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
    source: Source, summaries: Mapping[str, Summary], n_pairs: int, rng: random.Random
) -> list[tuple[str, str]]:
    """Names of `n_pairs` pairs of systems, all different; the better one's place is left to chance.

    Half of the time it is the longer summary that loses, so that length tells a judge nothing.
    """
    every = [rng.sample(pair, 2) for pair in combinations(sorted(summaries), 2)]
    rng.shuffle(every)
    chosen: list[tuple[str, str]] = []
    for a, b in every:
        vote = preferred(votes(source, summaries[a], summaries[b]))
        longer = "A" if _n_words(summaries[a]) > _n_words(summaries[b]) else "B"
        wanted = len(chosen) % 2 == 0
        if len(chosen) < n_pairs and (vote == "tie" or (vote == longer) == wanted):
            chosen.append((a, b))
    return chosen


def _n_words(summary: Summary) -> int:
    return sum(sentence.n_words for sentence in summary)
