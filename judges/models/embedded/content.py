"""Facets of what a text says: held against its source, and in what order and connection."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations, pairwise

from judges.models.embedded.source import JudgedText, Match, Source, is_negated, scaled
from judges.models.embedded.text import (
    CONNECTIVES,
    FUNCTION,
    POINTING,
    Sentence,
    Text,
    stem_of,
    weight,
)

# Bounds on what takes long: looking through the whole source, comparing every two sentences.
MOST_LOOKUPS, MOST_SENTENCES = 6, 60
# The share of bigrams of a text's own from which on more says nothing.
OWN_WORDING = 0.3
_PAIRS = (
    "increase/decrease rise/fall rose/fell more/fewer more/less higher/lower up/down win/lose"
    " won/lost accept/refuse accept/reject agree/refuse open/close start/stop start/end begin/end"
    " first/last before/after always/never with/without good/bad best/worst better/worse early/late"
    " earlier/later old/new buy/sell love/hate allow/ban allow/forbid approve/reject support/oppose"
    " free/fee guilty/innocent alive/dead male/female man/woman husband/wife mother/father"
    " brother/sister son/daughter boy/girl north/south east/west left/right push/pull gain/lose"
    " double/halve halve/treble most/least all/none safe/dangerous cheap/dear cheaper/dearer"
    " hot/cold strong/weak remember/forget succeed/fail pass/fail arrive/leave deny/admit"
    " deny/confirm profit/loss keep/remove keep/drop shorter/longer faster/slower major/minor"
    " public/private morning/evening day/night weeks/months months/years days/weeks"
)
_OPPOSITES: dict[str, set[str]] = {}
for _pair in _PAIRS.split():
    _first, _second = map(stem_of, _pair.split("/"))
    _OPPOSITES.setdefault(_first, set()).add(_second)
    _OPPOSITES.setdefault(_second, set()).add(_first)


def coverage(judged: JudgedText, document: Source) -> float:
    """How much of what matters in the document the text says."""
    if not document.salience:
        return 0.0
    stems = set(judged.text.stems)
    recall = math.fsum(document.salience.get(stem, 0.0) for stem in stems)
    pairs = {pair for sentence in judged.text.sentences for pair in pairwise(sentence.stems)}
    key = math.fsum(document.key_pairs.get(pair, 0.0) for pair in pairs)
    points = math.fsum(
        document.points[place][0] * min(1.0, shared / document.points[place][1])
        for place, shared in judged.shared.items()
    )
    both, sizes = _weight(stems & document.key_stems), _weight(stems) + _weight(document.key_stems)
    return (
        0.15 * scaled(recall, 0.5, 0.2)
        + 0.1 * scaled(key, 0.2, 0.17)
        + 0.2 * scaled(points, 0.55, 0.17)
        # F1 of the stems and those of the key sentences: a summary in the rough.
        + 0.2 * scaled(2 * both / sizes if sizes else 0.0, 0.38, 0.16)
        + 0.35 * scaled(_similarity(judged.text.stems, document), 0.45, 0.11)
    )


def _weight(stems: Collection[str]) -> float:
    return math.fsum(map(weight, stems))


def _similarity(stems: Sequence[str], source: Source) -> float:
    """1 - the Jensen-Shannon divergence of the text's stems from the source's, in bits.

    Of measures that need no reference it ranks summarizers most like people's judgements of
    content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    if not stems:
        return 0.0
    divergence = 1.0
    for stem, n in Counter(stems).items():
        p, q = n / len(stems), source.frequency.get(stem, 0.0)
        if q:
            divergence += 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
    return 1.0 - divergence


def focus(judged: JudgedText, document: Source) -> float:
    """How much of what the text says matters in the document."""
    stems, mean = judged.text.stems, document.mean_salience
    if not document.salience or not stems:
        return 0.0
    values = [min(2.5, document.salience.get(stem, 0.3 * mean) / mean) for stem in stems]
    worst = min(
        (
            math.fsum(document.salience.get(stem, 0.0) for stem in s.stems) / len(s.stems) / mean
            for s in judged.text.sentences
            if len(s.stems) > 2
        ),
        default=0.6,
    )
    # How much the places that the sentences come from matter, beside the one that matters most.
    most = max(part for part, _ in document.points) or 1.0
    parts = [
        document.points[match.place][0] / most if 0 <= match.place < len(document.points) else 0.0
        for match in judged.matches
    ]
    # How often it comes back in the document, whose subject returns again and again.
    returns = [math.log1p(len(document.places.get(stem, ()))) for stem in set(stems)]
    return (
        0.45 * scaled(math.fsum(values) / len(values), 0.85, 0.25)
        + 0.2 * scaled(worst, 0.6, 0.3)
        + 0.15 * scaled(math.fsum(parts) / max(1, len(parts)), 0.5, 0.25)
        + 0.2 * scaled(math.fsum(returns) / len(returns), 1.0, 0.18)
    )


def support(judged: JudgedText, source: Source) -> float:
    """How far the source says what the text says, in its words and their order."""
    if not source.salience:
        return 0.0
    text, matches = judged.text, judged.matches
    sizes = [len(sentence.stems) for sentence in text.sentences]
    total = sum(sizes) or 1
    anywhere = sum(m.anywhere * n for m, n in zip(matches, sizes, strict=True)) / total
    nearby = sum(m.nearby * n for m, n in zip(matches, sizes, strict=True)) / total
    least = min((m.nearby for m, n in zip(matches, sizes, strict=True) if n > 1), default=nearby)
    return (
        0.2 * scaled(anywhere, 0.85, 0.12)
        + 0.1 * scaled(nearby, 0.65, 0.2)
        + 0.2 * scaled(least, 0.5, 0.25)
        + 0.1 * scaled(judged.adjacency, 0.75, 0.2)
        + 0.15 * scaled(_share_in(source.bigrams, text.bigrams), 0.6, 0.25)
        + 0.1 * scaled(_share_in(source.trigrams, text.trigrams), 0.45, 0.28)
        + 0.15 * scaled(math.log1p(fragment_density(text, source)), 2.6, 0.7)
    )


def _share_in(source: Collection[str], ngrams: Sequence[str]) -> float:
    return sum(ngram in source for ngram in ngrams) / max(1, len(ngrams))


def fragment_density(text: Text, source: Source) -> float:
    """The mean over words of the length of the run, taken over from the source, that each is in.

    The density of extractive fragments (Grusky et al. 2018, arXiv:1804.11283), with runs put
    together from trigrams.
    """
    total = 0
    for sentence in text.sentences:
        run = 0
        for trigram in (*sentence.trigrams, ""):
            if trigram in source.trigrams:
                run += 1
            elif run:
                total += (run + 2) ** 2
                run = 0
    return total / max(1, text.n_words)


def truth(judged: JudgedText, source: Source) -> float:
    """How little contradicts the source: numbers, names, negation, opposites, swapped words."""
    if not source.salience:
        return 0.0
    faults = 0.0
    for sentence, match in zip(judged.text.sentences, judged.matches, strict=True):
        faults += 1.0 * _strange(sentence, source)
        faults += 0.5 * min(2, _swapped(sentence, source))
        if match.place >= 0 and match.share >= 0.5:
            faults += 0.7 * _denied(sentence, source, match.place)
            faults += 0.7 * _opposed(sentence, source.text.sentences[match.place])
    return scaled(faults / (len(judged.text.sentences) + 1), 0.35, -0.35)


def _strange(sentence: Sentence, source: Source) -> float:
    """Numbers that the source has nowhere, and names, which a capital within a sentence shows."""
    strange = 0.0
    for place, token in enumerate(sentence.tokens):
        word, number = token.lower(), token[0].isdigit()
        name = place > 0 and token[0].isupper() and word not in FUNCTION
        if not (number or name) or word in source.words or stem_of(word) in source.places:
            continue
        strange += 1.0 if number else 0.5
    return min(2.0, strange)


def _swapped(sentence: Sentence, source: Source) -> int:
    """Content words, new to the source, between the same neighbours where it has another."""
    words = sentence.words
    swapped = lookups = 0
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if word in FUNCTION or word in source.words or lookups >= MOST_LOOKUPS:
            continue
        if before in FUNCTION and after in FUNCTION:
            continue
        lookups += 1
        swapped += any(
            trigram.startswith(f"{before} ")
            and trigram.endswith(f" {after}")
            and trigram.split(" ")[1] not in FUNCTION
            for trigram in source.trigrams
        )
    return swapped


def _denied(sentence: Sentence, source: Source, place: int) -> bool:
    """Whether a negation was put in, or left out of a sentence that is otherwise taken whole."""
    if is_negated(sentence):
        return source.negated.isdisjoint((place - 1, place, place + 1))
    whole = len(source.text.sentences[place].words) < 1.4 * len(sentence.words)
    return whole and place in source.negated


def _opposed(sentence: Sentence, origin: Sentence) -> bool:
    """Whether a word's opposite stands in the sentence's origin, and the word itself does not."""
    there = set(map(stem_of, origin.words))
    return any(
        stem not in there and not there.isdisjoint(_OPPOSITES.get(stem, ()))
        for stem in map(stem_of, sentence.words)
    )


def knowledge(judged: JudgedText, _: Source) -> float:
    """How far the text uses the facts given, or else the document, beyond what was said before."""
    source = judged.knowledge or judged.document
    if source is None or not source.salience:
        return 0.0
    fresh = set(judged.text.stems).difference(judged.turns.places if judged.turns else ())
    used = _weight([stem for stem in fresh if stem in source.places])
    bigrams = sum(
        bigram in source.bigrams and not FUNCTION.issuperset(bigram.split(" "))
        for bigram in judged.text.bigrams
    )
    return (
        0.4 * scaled(math.log1p(used), 1.2, 0.7)
        + 0.3 * scaled(used / (_weight(fresh) or 1.0), 0.45, 0.3)
        + 0.3 * scaled(math.log1p(bigrams), 1.2, 0.9)
    )


def closeness(judged: JudgedText, source: Source) -> float:
    """How far the text keeps the source's wording."""
    if not source.trigrams:
        return 0.0
    return scaled(_share_in(source.trigrams, judged.text.trigrams), 0.4, 0.3)


def rewording(judged: JudgedText, _: Source) -> float:
    """Whether a text says it anew rather than pastes it.

    Sentences taken over whole bring along what pointed elsewhere in the source and take no heed of
    each other. Beyond some wording of its own, more of it says nothing.
    """
    source, bigrams = judged.source, judged.text.bigrams
    if source is None or not source.bigrams or not bigrams:
        return 0.0
    own = sum(bigram not in source.bigrams for bigram in bigrams) / len(bigrams)
    return scaled(min(own, OWN_WORDING), 0.14, 0.1)


def order(judged: JudgedText, _: Source) -> float:
    """Whether sentences keep the document's order, start near its start and leap little."""
    places = [m.place for m in judged.matches[:MOST_SENTENCES] if m.place >= 0 and m.share > 0.2]
    if not places or judged.source is None:
        return -1.0
    n = max(1, len(judged.source.text.sentences))
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


def continuity(judged: JudgedText, source: Source) -> float:
    """Whether each sentence comes from one place in the source, and keeps its words together.

    One stitched from scraps of several places seldom makes sense, whatever its grammar.
    """
    if not source.trigrams:
        return 0.0
    matches = judged.matches[:MOST_SENTENCES]
    unbroken = [m.nearby / m.anywhere if m.anywhere else 0.0 for m in matches]
    return (
        0.3 * scaled(math.fsum(unbroken) / len(unbroken), 0.78, 0.15)
        + 0.3 * scaled(min(unbroken), 0.65, 0.2)
        + 0.4 * scaled(judged.adjacency, 0.75, 0.2)
    )


def unity(judged: JudgedText, _: Source) -> float:
    """Whether a text is one piece: every joint between sentences may fail."""
    return scaled(math.log(len(judged.text.sentences)), 1.05, -0.4)


def connection(judged: JudgedText) -> float:
    """Whether each sentence takes up the one before, and the first stands alone."""
    sentences = judged.text.sentences[:MOST_SENTENCES]
    dangling = 0.0 if judged.turns else _dangles(sentences[0])
    if len(sentences) == 1:
        return -1.0 * dangling
    links = [_linked(a, b) for a, b in pairwise(sentences)]
    # A text that names its subject anew each time is a list.
    openings = [tuple(word for word in s.words[:4] if word not in FUNCTION)[:2] for s in sentences]
    relisted = sum(a == b for a, b in combinations(openings, 2)) / len(sentences)
    choppy = sum(len(s.words) < 9 for s in sentences) / len(sentences)
    value = 0.5 * scaled(math.fsum(links) / len(links), 0.5, 0.3)
    if judged.document is not None and judged.matches:
        matches = judged.matches[:MOST_SENTENCES]
        value = 0.6 * value + 0.35 * scaled(_proximity(matches), 0.45, 0.35)
        dangling += _orphans(sentences, matches) / len(sentences)
    return value - 1.0 * dangling - 0.7 * min(2.0, relisted) - 0.8 * choppy + 0.2


def _dangles(sentence: Sentence) -> float:
    """How much a first sentence needs one before it."""
    opening = sentence.words[0]
    if opening in {"he", "she", "they", "his", "her", "their", "him", "them"}:
        return 1.0
    if opening in {"but", "and", "however", "so", "also", "therefore", "or", "this", "these"}:
        return 0.7
    return 0.4 * any(word in {"he", "she", "they", "his", "her"} for word in sentence.words[:4])


def _linked(first: Sentence, second: Sentence) -> float:
    """How a sentence takes up the one before: by a shared word, or by one that points back."""
    before, here = set(first.stems), set(second.stems)
    pointing = any(word in POINTING or word in CONNECTIVES for word in second.words[:2])
    link = 0.5 * min(1.0, _weight(before & here)) + 0.5 * pointing
    return link * (1.0 if len(here - before) > 1 else 0.5)


def _proximity(matches: Sequence[Match]) -> float:
    """How close together in the source the matches of neighbouring sentences stand."""
    gaps = [b.place - a.place if min(a.place, b.place) >= 0 else 99 for a, b in pairwise(matches)]
    return math.fsum(1 / (1 + abs(gap - 1) / 1.5) for gap in gaps) / len(gaps)


def _orphans(sentences: Sequence[Sentence], matches: Sequence[Match]) -> int:
    """Sentences that point back, taken from a place whose sentence before was left out."""
    return sum(
        not POINTING.isdisjoint(sentence.words[:2])
        and here.share > 0.5
        and here.place > 0
        and not 0 <= here.place - before.place <= 2
        for sentence, (before, here) in zip(sentences[1:], pairwise(matches), strict=True)
    )


def repetition(judged: JudgedText) -> float:
    """How little is said twice: high where nothing is."""
    sentences = judged.text.sentences[:MOST_SENTENCES]
    overlaps = [
        max(_overlap(sentence, before) for before in sentences[:place])
        for place, sentence in enumerate(sentences)
        if place
    ]
    most, mean = max(overlaps, default=0.0), math.fsum(overlaps) / max(1, len(overlaps))
    trigrams = [
        three for three in judged.text.trigrams if not FUNCTION.issuperset(three.split(" "))
    ]
    stems = judged.text.stems[:2000]
    # Beyond a few words, some come back in any text: allow the one per eight that is usual.
    excess = max(0.0, 1 - len(set(stems)) / max(1, len(stems)) - 0.12)
    # Full names above all: no writer gives them twice.
    pairs = [pair for sentence in judged.text.sentences for pair in pairwise(sentence.stems)]
    pairs_again = 1 - len(set(pairs)) / max(4, len(pairs)) if len(pairs) > 3 else 0.0
    matches = judged.matches[:MOST_SENTENCES]
    places = [match.place for match in matches if match.place >= 0 and match.share > 0.5]
    return (
        1.0
        - 4.0 * min(0.5, (len(trigrams) - len(set(trigrams))) / max(4, len(trigrams)))
        - 1.0 * max(0.0, most - 0.35)
        - 1.5 * max(0.0, mean - 0.2)
        - 3.0 * min(0.5, excess)
        - 4.0 * min(0.5, pairs_again)
        - 1.0 * (len(places) - len(set(places))) / max(1, len(places))
    )


def _overlap(first: Sentence, second: Sentence) -> float:
    """The shared part of the lighter sentence's weight."""
    a, b = set(first.stems), set(second.stems)
    if len(a) < 2 or len(b) < 2:
        return 0.0
    return _weight(a & b) / min(_weight(a), _weight(b))
