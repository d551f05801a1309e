"""Rate and compare summaries by what was done to them; the starter README says it in words."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Literal

from starter.compose import FAULTS, Sentence, Summary
from starter.documents import Source

# A summary need not tell everything: this share of the points' weight earns full marks.
ENOUGH = 0.8
# A gist tells several points in few words, hence less of each.
IN_PASSING = 0.85


def ratings(source: Source, summary: Summary) -> dict[str, float]:
    """The four ratings, in quarters from 1 to 5."""
    return {
        "coherence": _quarters(coherence(source, summary)),
        "consistency": _quarters(consistency(summary)),
        "fluency": _quarters(fluency(summary)),
        "relevance": _quarters(relevance(source, summary)),
    }


def relevance(source: Source, summary: Summary) -> float:
    covered = min(1.0, coverage(source, summary, wrong=0.5) / ENOUGH)
    return 1 + 4 * covered - 0.6 * details(summary) - 0.25 * n_repeats(summary)


def consistency(summary: Summary) -> float:
    n_words = sum(sentence.n_words for sentence in summary)
    untrue = sum(sentence.n_words * _untruth(sentence) for sentence in summary)
    return 5 - 6 * untrue / n_words - 0.25 * n_dangling(summary)


def fluency(summary: Summary) -> float:
    spoiled = sum(_severity(sentence) for sentence in summary)
    return 5 - 5 * spoiled / max(2, len(summary))


def coherence(source: Source, summary: Summary) -> float:
    lost = (
        2.5 * inversions(summary)
        + 0.5 * n_dangling(summary)
        + 0.5 * n_repeats(summary)
        + 0.25 * n_interruptions(summary)
        + 0.25 * n_jumps(summary)
        + 0.5 * _starts_late(summary)
        + 0.5 * (len(summary) == 1)
        + 0.25 * sum(_loses(sentence) for sentence in summary)
    )
    if summary[0].role == "extract" and source.kind == "dialogue":
        lost += 1
    return 5 - lost


def coverage(source: Source, summary: Summary, *, wrong: float) -> float:
    """The share of the points' weight that is told, a contradicted point counting `wrong`."""
    n_points = len(source.points)
    credit = [0.0] * n_points
    for sentence in summary:
        earned = 1.0 if len(sentence.covers) == 1 or sentence.role == "extract" else IN_PASSING
        earned *= (wrong if sentence.wrong else 1) * (0.5 if _loses(sentence) else 1)
        for i in sentence.covers:
            credit[i] = max(credit[i], earned)
    weights = range(n_points, 0, -1)
    return sum(w * c for w, c in zip(weights, credit, strict=True)) / sum(weights)


def details(summary: Summary) -> float:
    """How many sentences tell nothing important; an extracted one counts three fifths."""
    strays = sum(sentence.role in ("trivia", "invented") for sentence in summary)
    return strays + 0.6 * sum(s.role == "extract" and not s.covers for s in summary)


def n_repeats(summary: Summary) -> int:
    """Sentences all of whose points an earlier one has told."""
    seen: set[int] = set()
    repeats = 0
    for sentence in summary:
        repeats += bool(sentence.covers) and seen.issuperset(sentence.covers)
        seen.update(sentence.covers)
    return repeats


def inversions(summary: Summary) -> float:
    """The share of pairs of sentences that stand in the wrong order."""
    order = [min(sentence.covers) for sentence in _telling(summary)]
    pairs = list(combinations(order, 2))
    return sum(first > second for first, second in pairs) / len(pairs) if pairs else 0.0


def n_dangling(summary: Summary) -> int:
    """Continuations that do not follow what they continue."""
    orphans = bool(summary[0].linked)
    return orphans + sum(
        after.linked and before.covers != (after.covers[0] - 1,)
        for before, after in pairwise(summary)
    )


def n_interruptions(summary: Summary) -> float:
    """Stray sentences, those at the very end counting half."""
    strays = [sentence.role in ("trivia", "invented") for sentence in summary]
    return sum(strays[:-1]) + 0.5 * strays[-1]


def n_jumps(summary: Summary) -> int:
    """Steps over a point that was never told, or over sentences of the document."""
    covered = {i for sentence in summary for i in sentence.covers}
    jumps = sum(
        any(i not in covered for i in range(max(before.covers) + 1, min(after.covers)))
        for before, after in pairwise(_telling(summary))
    )
    extracts = [sentence.place for sentence in summary if sentence.role == "extract"]
    return jumps + sum(after - before > 1 for before, after in pairwise(extracts))


def _telling(summary: Summary) -> Sequence[Sentence]:
    return [s for s in summary if s.role == "point" and not s.repeat]


def _starts_late(summary: Summary) -> bool:
    """Whether the first sentence, extracts apart, tells anything but the main point."""
    first = summary[0]
    return first.role != "extract" and 0 not in first.covers


def _untruth(sentence: Sentence) -> float:
    if sentence.wrong or sentence.role == "invented":
        return 1.0
    return 0.2 if _loses(sentence) else 0.0


def _severity(sentence: Sentence) -> float:
    if sentence.fault:
        return FAULTS[sentence.fault].severity
    # Headings and other fragments, copied as they stand.
    return 0.0 if sentence.text.endswith((".", "!", "?", '"')) else 0.25


def _loses(sentence: Sentence) -> bool:
    return sentence.fault is not None and FAULTS[sentence.fault].loses


def _quarters(rating: float) -> float:
    return round(4 * min(5.0, max(1.0, rating))) / 4


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
