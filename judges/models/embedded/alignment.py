"""Match the sentences of a judged text with those of its source."""

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from judges.models.embedded.source import Source
from judges.models.embedded.text import Sentence, Text, weight

# Articles tell a thing first in short and later again: of near equals the first is meant.
NEARLY = 0.85


@dataclass(frozen=True, slots=True)
class Match:
    """Where a sentence comes from.

    `place` is the best source sentence (-1: none), `share` the weight of the sentence's stems found
    in it, `near` the same with a neighbour, `found` the weight found anywhere in the source.
    """

    place: int
    share: float
    near: float
    found: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """A match for each sentence, and for each source sentence touched the most weight shared.

    `met` is the share of neighbouring telling words that stand close together in the source too.
    """

    matches: tuple[Match, ...]
    touched: dict[int, float]
    met: float


def align(text: Text, source: Source) -> Alignment:
    """Match every sentence; the source's index makes it cheap."""
    touched: dict[int, float] = defaultdict(float)
    matches = tuple(_match(sentence, source, touched) for sentence in text.sentences)
    return Alignment(matches, dict(touched), _met(text, source))


def _match(sentence: Sentence, source: Source, touched: dict[int, float]) -> Match:
    scores: dict[int, float] = defaultdict(float)
    total = found = 0.0
    for stem in dict.fromkeys(sentence.stems):
        value = weight(stem)
        total += value
        places = source.where.get(stem)
        if places:
            found += value
            for place in places:
                scores[place] += value
    if not scores:
        return Match(-1, 0.0, 0.0, 0.0 if total else 0.5)
    for place, value in scores.items():
        touched[place] = max(touched[place], value)
    enough = NEARLY * max(scores.values())
    best = min(place for place, score in scores.items() if score >= enough)
    near = scores[best]
    for other in (best - 1, best + 1):
        if other in scores:
            both = {*source.text.sentences[best].stems, *source.text.sentences[other].stems}
            near = max(near, math.fsum(weight(stem) for stem in both.intersection(sentence.stems)))
    return Match(best, scores[best] / total, near / total, found / total)


def _met(text: Text, source: Source) -> float:
    together = total = 0
    for sentence in text.sentences:
        for one, other in pairwise(sentence.stems):
            total += 1
            theirs = set(source.where.get(other, ()))
            together += any(
                place in theirs or place + 1 in theirs or place - 1 in theirs
                for place in source.where.get(one, ())
            )
    return together / max(1, total)
