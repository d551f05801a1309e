"""Coverage, focus, support and truth: what a text says, held against its source."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.source import Source, is_negated
from judges.models.embedded.text import Sentence, Text, stem, weight
from judges.models.embedded.words import FUNCTION, OPPOSITES

# Each look goes through the whole source.
MOST_LOOKED = 6
_OPPOSITE: dict[str, set[str]] = {}
for _one, _other in OPPOSITES:
    _OPPOSITE.setdefault(stem(_one), set()).add(stem(_other))
    _OPPOSITE.setdefault(stem(_other), set()).add(stem(_one))


def coverage(seen: Evidence) -> float:
    """How much of what matters in the document is told."""
    source = seen.document
    if source is None or not source.salience:
        return 0.0
    told = set(seen.text.stems)
    recall = math.fsum(source.salience.get(one, 0.0) for one in told)
    key = math.fsum(
        source.key.get(pair, 0.0)
        for pair in {pair for s in seen.text.sentences for pair in pairwise(s.stems)}
    )
    points = math.fsum(
        source.points[place][0] * min(1.0, shared / source.points[place][1])
        for place, shared in seen.touched.items()
    )
    return (
        0.15 * scaled(recall, 0.5, 0.2)
        + 0.1 * scaled(key, 0.2, 0.17)
        + 0.2 * scaled(points, 0.55, 0.17)
        + 0.2 * scaled(_overlap(told, source), 0.38, 0.16)
        + 0.35 * scaled(_likeness(seen.text.stems, source), 0.45, 0.11)
    )


def _likeness(stems: Sequence[str], source: Source) -> float:
    """1 - the Jensen-Shannon divergence of the stems told from the source's, in bits.

    Of measures that need no reference it ranks summarizers most like people's judgements of
    content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    if not stems:
        return 0.0
    told = Counter(stems)
    apart = 1.0
    for one, n in told.items():
        ours, theirs = n / len(stems), source.share.get(one, 0.0)
        if theirs:
            both = ours + theirs
            apart += 0.5 * (ours * math.log2(ours / both) + theirs * math.log2(theirs / both))
    return 1.0 - apart


def _overlap(told: set[str], source: Source) -> float:
    """How alike (F1) the stems told and those of the key sentences are: a summary in the rough."""
    both = math.fsum(weight(one) for one in told & source.core)
    sizes = math.fsum(map(weight, told)) + math.fsum(map(weight, source.core))
    return 2 * both / sizes if sizes else 0.0


def focus(seen: Evidence) -> float:
    """How much of what is told matters in the document."""
    source = seen.document
    stems = seen.text.stems
    if source is None or not source.salience or not stems:
        return 0.0
    values = [min(2.5, source.salience.get(one, 0.3 * source.mean) / source.mean) for one in stems]
    worst = min(
        (
            math.fsum(source.salience.get(one, 0.0) for one in s.stems) / len(s.stems) / source.mean
            for s in seen.text.sentences
            if len(s.stems) > 2
        ),
        default=0.6,
    )
    return (
        0.45 * scaled(math.fsum(values) / len(values), 0.85, 0.25)
        + 0.2 * scaled(worst, 0.6, 0.3)
        + 0.15 * scaled(_standing(seen, source), 0.5, 0.25)
        + 0.2 * scaled(_returning(stems, source), 1.0, 0.18)
    )


def _returning(stems: Sequence[str], source: Source) -> float:
    """How often what is told comes back in the document, whose subject returns again and again."""
    kinds = set(stems)
    return math.fsum(math.log1p(len(source.where.get(one, ()))) for one in kinds) / len(kinds)


def _standing(seen: Evidence, source: Source) -> float:
    """How much the places that the text's sentences come from matter, beside the one most so."""
    most = max(part for part, _ in source.points) or 1.0
    parts = [
        source.points[m.place][0] / most if 0 <= m.place < len(source.points) else 0.0
        for m in seen.matches
    ]
    return math.fsum(parts) / max(1, len(parts))


def support(seen: Evidence) -> float:
    """How far the source says what the text says, in its words and their order."""
    source = seen.ground
    if source is None or not source.salience or not seen.text.n_words:
        return 0.0
    pairs = [pair for sentence in seen.text.sentences for pair in sentence.pairs]
    triples = seen.text.triples
    hits = sum(pair in source.pairs for pair in pairs)
    runs = sum(three in source.triples for three in triples)
    sizes = [len(sentence.stems) for sentence in seen.text.sentences]
    total = sum(sizes) or 1
    found = sum(m.found * n for m, n in zip(seen.matches, sizes, strict=True)) / total
    near = sum(m.near * n for m, n in zip(seen.matches, sizes, strict=True)) / total
    least = min((m.near for m, n in zip(seen.matches, sizes, strict=True) if n > 1), default=near)
    return (
        0.2 * scaled(found, 0.85, 0.12)
        + 0.1 * scaled(near, 0.65, 0.2)
        + 0.2 * scaled(least, 0.5, 0.25)
        + 0.1 * scaled(seen.met, 0.75, 0.2)
        + 0.15 * scaled(hits / max(1, len(pairs)), 0.6, 0.25)
        + 0.1 * scaled(runs / max(1, len(triples)), 0.45, 0.28)
        + 0.15 * scaled(math.log1p(_run(seen.text, source)), 2.6, 0.7)
    )


def _run(text: Text, source: Source) -> float:
    """How many words of its run, taken over from the source in a row, a word stands in on average.

    This is the density of extractive fragments (Grusky et al. 2018, arXiv:1804.11283), with runs
    put together from triples.
    """
    total = 0
    for sentence in text.sentences:
        run = 0
        for three in (*sentence.triples, ""):
            if three in source.triples:
                run += 1
            elif run:
                total += (run + 2) ** 2
                run = 0
    return total / max(1, text.n_words)


def truth(seen: Evidence) -> float:
    """How little contradicts the source: numbers, names, negation, opposites, swapped words."""
    source = seen.ground
    if source is None or not source.salience or not seen.text.sentences:
        return 0.0
    faults = 0.0
    for sentence, found in zip(seen.text.sentences, seen.matches, strict=True):
        faults += 1.0 * _strange(sentence, source)
        faults += 0.5 * min(2, _swapped(sentence, source))
        if found.place >= 0 and found.share >= 0.5:
            faults += 0.7 * _denied(sentence, source, found.place)
            faults += 0.7 * _opposed(sentence, source, found.place)
    return scaled(faults / (len(seen.text.sentences) + 1), 0.35, -0.35)


def _denied(sentence: Sentence, source: Source, place: int) -> bool:
    """Whether a negation was put in, or left out of a sentence that is otherwise taken whole."""
    if is_negated(sentence):
        return source.negated.isdisjoint((place - 1, place, place + 1))
    theirs = source.text.sentences[place]
    whole = len(theirs.words) < 1.4 * len(sentence.words)
    return whole and place in source.negated


def _strange(sentence: Sentence, source: Source) -> float:
    """Numbers that the source has nowhere, and names, where a capital within a sentence tells."""
    strange = 0.0
    for place, token in enumerate(sentence.tokens):
        named = place > 0 and token[:1].isupper() and token.lower() not in FUNCTION
        if not (token[0].isdigit() or named):
            continue
        if stem(token.lower()) not in source.where and token.lower() not in source.words:
            strange += 1.0 if token[0].isdigit() else 0.5
    return min(2.0, strange)


def _swapped(sentence: Sentence, source: Source) -> int:
    """Telling words, new to the source, between the same neighbours where it has another."""
    words = sentence.words
    swapped = looked = 0
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if word in FUNCTION or word in source.words or looked >= MOST_LOOKED:
            continue
        if before in FUNCTION and after in FUNCTION:
            continue
        looked += 1
        swapped += any(
            one.startswith(f"{before} ") and one.endswith(f" {after}") and _telling(one)
            for one in source.triples
        )
    return swapped


def _telling(three: str) -> bool:
    """Whether the middle of three words is more than a small word."""
    return three.split(" ")[1] not in FUNCTION


def _opposed(sentence: Sentence, source: Source, place: int) -> bool:
    """Whether a word's opposite stands in the matching sentence, and the word itself does not."""
    there = {stem(word) for word in source.text.sentences[place].words}
    for word in sentence.words:
        own = stem(word)
        opposites = _OPPOSITE.get(own)
        if opposites and own not in there and not opposites.isdisjoint(there):
            return True
    return False


def knowledge(seen: Evidence) -> float:
    """How far the text uses the facts given, beyond what was said before."""
    source = seen.knowledge or seen.document
    if source is None or not source.salience:
        return 0.0
    before = set(seen.turns.where) if seen.turns else set()
    fresh = {one for one in seen.text.stems if one not in before}
    used = math.fsum(weight(one) for one in fresh if one in source.where)
    pairs = sum(
        pair in source.pairs and not FUNCTION.issuperset(pair.split(" "))
        for sentence in seen.text.sentences
        for pair in sentence.pairs
    )
    share = used / (math.fsum(weight(one) for one in fresh) or 1.0)
    return (
        0.4 * scaled(math.log1p(used), 1.2, 0.7)
        + 0.3 * scaled(share, 0.45, 0.3)
        + 0.3 * scaled(math.log1p(pairs), 1.2, 0.9)
    )


def closeness(seen: Evidence) -> float:
    """How far the text keeps the source's wording."""
    source = seen.ground
    if source is None or not source.triples:
        return 0.0
    triples = seen.text.triples
    kept = sum(three in source.triples for three in triples) / max(1, len(triples))
    return scaled(kept, 0.4, 0.3)
