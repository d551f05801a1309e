"""Order, connection and repetition: how sentences follow each other."""

import math
from collections import Counter
from itertools import combinations, pairwise

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.text import Sentence, Text, weight
from judges.models.embedded.words import FUNCTION, LINKING, POINTING

# Comparing every two sentences is quadratic.
COMPARED = 60


def order(seen: Evidence) -> float:
    """Whether sentences keep the document's order, start near its start and leap little."""
    document = seen.document
    if document is None or not seen.matches or seen.ground is None:
        return 0.0
    n = max(1, len(seen.ground.text.sentences))
    places = [m.place for m in seen.matches[:COMPARED] if m.place >= 0 and m.share > 0.2]
    if not places:
        return -1.0
    start = math.log1p(places[0])
    if len(places) == 1:
        return 0.5 * scaled(start, 1.0, 0.8) * -1
    turned = [a > b for a, b in combinations(places, 2)]
    leaps = [min(1.0, abs(b - a - 1) / min(n, 12)) for a, b in pairwise(places)]
    return (
        0.35 * scaled(sum(turned) / len(turned), 0.25, -0.3)
        + 0.35 * scaled(math.fsum(leaps) / len(leaps), 0.4, -0.27)
        + 0.3 * scaled(start, 1.0, -0.8)
    )


def connection(seen: Evidence) -> float:
    """Whether neighbours share words or refer back, and the first sentence stands alone."""
    sentences = seen.text.sentences[:COMPARED]
    if not sentences:
        return -2.0
    dangling = _dangles(sentences[0], first=True)
    if len(sentences) == 1:
        return 0.2 - 1.2 * dangling
    links = [_linked(a, b) for a, b in pairwise(sentences)]
    chains = Counter(stem for sentence in sentences for stem in set(sentence.stems))
    held = sum(any(chains[stem] > 1 for stem in s.stems) for s in sentences) / len(sentences)
    return (
        0.5 * scaled(math.fsum(links) / len(links), 0.55, 0.3)
        + 0.3 * scaled(held, 0.7, 0.3)
        - 1.0 * dangling
    )


def repetition(seen: Evidence) -> float:
    """How little is said twice: high where nothing is."""
    sentences = seen.text.sentences[:COMPARED]
    if not sentences:
        return 0.0
    twice = _share_twice(seen.text)
    alike = max((_alike(a, b) for a, b in combinations(sentences, 2)), default=0.0)
    stems = seen.text.stems[:2000]
    # Beyond a few words, some come back in any text: allow the one per eight that is usual.
    excess = max(0.0, 1 - len(set(stems)) / max(1, len(stems)) - 0.12)
    return (
        1.0
        - 4.0 * min(0.5, twice)
        - 1.5 * max(0.0, alike - 0.35)
        - 3.0 * min(0.5, excess)
    )


def _share_twice(text: Text) -> float:
    """The share of three-word runs, small words alone apart, that came before."""
    seen: set[tuple[str, ...]] = set()
    again = total = 0
    for sentence in text.sentences:
        words = sentence.words
        for three in zip(words, words[1:], words[2:], strict=False):
            if all(word in FUNCTION for word in three):
                continue
            total += 1
            again += three in seen
            seen.add(three)
    return again / max(4, total)


def _alike(one: Sentence, other: Sentence) -> float:
    first, second = set(one.stems), set(other.stems)
    if len(first) < 2 or len(second) < 2:
        return 0.0
    shared = math.fsum(weight(stem) for stem in first & second)
    return shared / min(
        math.fsum(weight(stem) for stem in first), math.fsum(weight(stem) for stem in second)
    )


def _linked(one: Sentence, other: Sentence) -> float:
    """How a sentence takes up the one before: by its words, or by a word that points back."""
    shared = set(one.stems) & set(other.stems)
    value = min(1.0, 0.6 * math.fsum(weight(stem) for stem in shared))
    first = other.words[:3]
    pointing = any(word in POINTING or word in LINKING for word in first[:2])
    return max(value, 0.7 * pointing)


def _dangles(sentence: Sentence, *, first: bool) -> float:
    """Whether a first sentence needs one before it."""
    if not first:
        return 0.0
    opening = sentence.words[0]
    if opening in {"he", "she", "they", "his", "her", "their", "him", "them"}:
        return 1.0
    if opening in {"but", "and", "however", "so", "also", "therefore", "or", "this", "these"}:
        return 0.7
    early = sentence.words[:4]
    return 0.4 * any(word in {"he", "she", "they", "his", "her"} for word in early)
