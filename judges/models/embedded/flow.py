"""Order, connection and repetition: how sentences follow each other."""

import math
from itertools import combinations, pairwise

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.text import Sentence, Text, weight
from judges.models.embedded.words import FUNCTION, LINKING, POINTING

# Comparing every two sentences is quadratic.
COMPARED = 60
# The share of word pairs of a text's own from which on more tells nothing.
OWN_WORDING = 0.3


def order(seen: Evidence) -> float:
    """Whether sentences keep the document's order, start near its start and leap little."""
    document = seen.document
    if document is None or not seen.matches or seen.ground is None:
        return 0.0
    n = max(1, len(seen.ground.text.sentences))
    places = [m.place for m in seen.matches[:COMPARED] if m.place >= 0 and m.share > 0.2]
    if not places:
        return -1.0
    # What opens a document needs nothing before it; what stands late in it leans on the rest.
    early = math.fsum(math.log1p(place) for place in places) / len(places)
    if len(places) == 1:
        return 0.6 * scaled(early, 1.2, -0.7)
    turned = [a > b for a, b in combinations(places, 2)]
    leaps = [min(1.0, abs(b - a - 1) / min(n, 12)) for a, b in pairwise(places)]
    return (
        0.3 * scaled(sum(turned) / len(turned), 0.25, -0.3)
        + 0.3 * scaled(math.fsum(leaps) / len(leaps), 0.4, -0.27)
        + 0.4 * scaled(early, 1.4, -0.7)
    )


def continuity(seen: Evidence) -> float:
    """Whether each sentence tells of one place in the source, and keeps together what it finds.

    One stitched from scraps of several places seldom makes sense, whatever its grammar.
    """
    source = seen.ground
    if source is None or not source.triples or not seen.matches:
        return 0.0
    kept = [m.near / m.found if m.found > 0 else 0.0 for m in seen.matches[:COMPARED]]
    mean = math.fsum(kept) / len(kept)
    return (
        0.3 * scaled(mean, 0.78, 0.15)
        + 0.3 * scaled(min(kept), 0.65, 0.2)
        + 0.4 * scaled(seen.met, 0.75, 0.2)
    )


def unity(seen: Evidence) -> float:
    """Whether a text is told as one piece: every joint between sentences may fail."""
    if not seen.text.sentences:
        return 0.0
    return scaled(math.log(len(seen.text.sentences)), 1.05, -0.4)


def rewording(seen: Evidence) -> float:
    """Whether a text is told anew rather than pasted.

    Sentences taken over whole bring along what pointed elsewhere in the source and take no heed of
    each other. Beyond some wording of its own, more of it tells nothing.
    """
    source = seen.ground
    pairs = [pair for sentence in seen.text.sentences for pair in sentence.pairs]
    if source is None or not source.pairs or not pairs:
        return 0.0
    own = sum(pair not in source.pairs for pair in pairs) / len(pairs)
    return scaled(min(own, OWN_WORDING), 0.14, 0.1)


def connection(seen: Evidence) -> float:
    """Whether each sentence takes up the one before, and the first stands alone."""
    sentences = seen.text.sentences[:COMPARED]
    if not sentences:
        return -2.0
    dangling = 0.0 if seen.turns else _dangles(sentences[0])
    if len(sentences) == 1:
        return -1.0 * dangling
    links = [_linked(a, b) for a, b in pairwise(sentences)]
    words = [_opening(sentence) for sentence in sentences]
    relisted = sum(a == b for a, b in combinations(words, 2)) / len(sentences)
    choppy = sum(len(s.words) < 9 for s in sentences) / len(sentences)
    value = 0.5 * scaled(math.fsum(links) / len(links), 0.5, 0.3)
    if seen.document is not None and seen.matches:
        value = 0.6 * value + 0.35 * scaled(_neighbours(seen), 0.45, 0.35)
        dangling += _orphans(seen) / len(sentences)
    return value - 1.0 * dangling - 0.7 * min(2.0, relisted) - 0.8 * choppy + 0.2


def _orphans(seen: Evidence) -> float:
    """Sentences that point back, taken from a place whose sentence before was left out."""
    orphans = 0.0
    for place in range(1, min(len(seen.matches), COMPARED)):
        if not any(word in POINTING for word in seen.text.sentences[place].words[:2]):
            continue
        here, before = seen.matches[place], seen.matches[place - 1]
        far = here.place - before.place
        orphans += here.share > 0.5 and here.place > 0 and not 0 <= far <= 2
    return orphans


def _neighbours(seen: Evidence) -> float:
    """How close together in the document the matches of neighbouring sentences stand."""
    places = [m.place for m in seen.matches[:COMPARED]]
    gaps = [b - a if min(a, b) >= 0 else 99 for a, b in pairwise(places)]
    return math.fsum(1 / (1 + abs(gap - 1) / 1.5) for gap in gaps) / len(gaps)


def _opening(sentence: Sentence) -> tuple[str, ...]:
    """The first telling words: a text that names its subject anew each time is a list."""
    return tuple(word for word in sentence.words[:4] if word not in FUNCTION)[:2]


def repetition(seen: Evidence) -> float:
    """How little is said twice: high where nothing is."""
    sentences = seen.text.sentences[:COMPARED]
    if not sentences:
        return 0.0
    twice = _share_twice(seen.text)
    known = [
        max(_alike(sentence, before) for before in sentences[:place])
        for place, sentence in enumerate(sentences)
        if place
    ]
    alike, usual = max(known, default=0.0), math.fsum(known) / max(1, len(known))
    stems = seen.text.stems[:2000]
    # Beyond a few words, some come back in any text: allow the one per eight that is usual.
    excess = max(0.0, 1 - len(set(stems)) / max(1, len(stems)) - 0.12)
    return (
        1.0
        - 4.0 * min(0.5, twice)
        - 1.0 * max(0.0, alike - 0.35)
        - 1.5 * max(0.0, usual - 0.2)
        - 3.0 * min(0.5, excess)
        - 4.0 * min(0.5, _named_again(seen.text))
        - 1.0 * _told_again(seen)
    )


def _named_again(text: Text) -> float:
    """The share of neighbouring telling words, full names above all, that came before together."""
    pairs = [pair for sentence in text.sentences for pair in pairwise(sentence.stems)]
    return 1 - len(set(pairs)) / max(4, len(pairs)) if len(pairs) > 3 else 0.0


def _told_again(seen: Evidence) -> float:
    """The share of sentences that come from a place which another came from before."""
    places = [m.place for m in seen.matches[:COMPARED] if m.place >= 0 and m.share > 0.5]
    return (len(places) - len(set(places))) / max(1, len(places))


def _share_twice(text: Text) -> float:
    """The share of three-word runs, small words alone apart, that came before."""
    seen: set[str] = set()
    again = total = 0
    for three in text.triples:
        if FUNCTION.issuperset(three.split(" ")):
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
    """How a sentence takes up the one before: by a shared word, or by one that points back."""
    shared = math.fsum(weight(stem) for stem in set(one.stems) & set(other.stems))
    fresh = len(set(other.stems) - set(one.stems)) > 1
    pointing = any(word in POINTING or word in LINKING for word in other.words[:2])
    return (0.5 * min(1.0, shared) + 0.5 * pointing) * (1.0 if fresh else 0.5)


def _dangles(sentence: Sentence) -> float:
    """How much a first sentence needs one before it."""
    opening = sentence.words[0]
    if opening in {"he", "she", "they", "his", "her", "their", "him", "them"}:
        return 1.0
    if opening in {"but", "and", "however", "so", "also", "therefore", "or", "this", "these"}:
        return 0.7
    early = sentence.words[:4]
    return 0.4 * any(word in {"he", "she", "they", "his", "her"} for word in early)
