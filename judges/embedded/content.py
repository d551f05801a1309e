"""Facets of what a text says: held against its source, and in what order and connection.

Each measure is higher for better; it blends z-scores, and so lies between -3 and 3 unless its line
says otherwise.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import combinations, pairwise

from judges.embedded.source import JudgedText, Match, Source, clipped_z_score, total_weight
from judges.embedded.text import DEMONSTRATIVES, ENGLISH, FUNCTION, Sentence, Text, stem_of

# Bounds on what takes long: looking through the whole source, comparing every two sentences.
MAX_LOOKUPS, MAX_SENTENCES = 6, 60
# The share of bigrams of a text's own from which on more says nothing.
NEW_WORDING = 0.3
_OPPOSITE_STEMS: dict[str, set[str]] = defaultdict(set)
for _first, _second in (map(stem_of, pair.split("/")) for pair in ENGLISH["opposites"]):
    _OPPOSITE_STEMS[_first].add(_second)
    _OPPOSITE_STEMS[_second].add(_first)


def coverage(judged: JudgedText, document: Source) -> float:
    """How much of what matters in the document the text says: a summary's first task."""
    if not document.salience:
        return 0.0
    stems = set(judged.text.stems)
    recall = math.fsum(document.salience.get(stem, 0.0) for stem in stems)
    pairs = {pair for sentence in judged.text.sentences for pair in pairwise(sentence.stems)}
    key_pairs = math.fsum(document.key_pairs.get(pair, 0.0) for pair in pairs)
    points = math.fsum(
        document.points[index][0] * min(1.0, shared / document.points[index][1])
        for index, shared in judged.shared_weights.items()
    )
    # F1 of the stems and those of the key sentences: a summary in the rough.
    sizes = total_weight(stems) + total_weight(document.key_stems)
    f1 = 2 * total_weight(stems & document.key_stems) / sizes if sizes else 0.0
    return (
        0.15 * clipped_z_score(recall, 0.5, 0.2)
        + 0.1 * clipped_z_score(key_pairs, 0.2, 0.17)
        + 0.2 * clipped_z_score(points, 0.55, 0.17)
        + 0.2 * clipped_z_score(f1, 0.38, 0.16)
        + 0.35 * clipped_z_score(_similarity(judged.text.stems, document), 0.45, 0.11)
    )


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
    """How much of what the text says matters in the document: the rest takes up its room."""
    stems, mean = judged.text.stems, 1 / document.n_salient
    if not document.salience or not stems:
        return 0.0
    saliences = [min(2.5, document.salience.get(stem, 0.3 * mean) / mean) for stem in stems]
    min_salience = min(
        (
            math.fsum(document.salience.get(stem, 0.0) for stem in s.stems) / len(s.stems) / mean
            for s in judged.text.sentences
            if len(s.stems) > 2
        ),
        default=0.6,
    )
    # How much the source sentences that they come from matter, beside the one that matters most.
    main_point = max(part for part, _ in document.points) or 1.0
    points = [
        document.points[match.index][0] / main_point
        if 0 <= match.index < len(document.points)
        else 0.0
        for match in judged.matches
    ]
    # How often it comes back in the document, whose subject returns again and again.
    returns = [math.log1p(len(document.sentences_with.get(stem, ()))) for stem in set(stems)]
    return (
        0.45 * clipped_z_score(math.fsum(saliences) / len(saliences), 0.85, 0.25)
        + 0.2 * clipped_z_score(min_salience, 0.6, 0.3)
        + 0.15 * clipped_z_score(math.fsum(points) / max(1, len(points)), 0.5, 0.25)
        + 0.2 * clipped_z_score(math.fsum(returns) / len(returns), 1.0, 0.18)
    )


def support(judged: JudgedText, source: Source) -> float:
    """How far the source says what the text says, in its words and order: else it is invented."""
    if not source.salience:
        return 0.0
    text = judged.text
    sizes = [len(sentence.stems) for sentence in text.sentences]
    matches = list(zip(judged.matches, sizes, strict=True))
    total = sum(sizes) or 1
    anywhere = sum(match.anywhere * size for match, size in matches) / total
    nearby = sum(match.nearby * size for match, size in matches) / total
    min_nearby = min((match.nearby for match, size in matches if size > 1), default=nearby)
    return (
        0.2 * clipped_z_score(anywhere, 0.85, 0.12)
        + 0.1 * clipped_z_score(nearby, 0.65, 0.2)
        + 0.2 * clipped_z_score(min_nearby, 0.5, 0.25)
        + 0.1 * clipped_z_score(judged.adjacency, 0.75, 0.2)
        + 0.15 * clipped_z_score(_share_in(source.bigrams, text.bigrams), 0.6, 0.25)
        + 0.1 * clipped_z_score(_share_in(source.trigrams, text.trigrams), 0.45, 0.28)
        + 0.15 * clipped_z_score(math.log1p(fragment_density(text, source)), 2.6, 0.7)
    )


def _share_in(source: Collection[str], ngrams: Sequence[str]) -> float:
    return sum(ngram in source for ngram in ngrams) / max(1, len(ngrams))


def fragment_density(text: Text, source: Source) -> float:
    """The mean over words of the length of the run of 3 or more, copied, that each stands in.

    The density of extractive fragments (Grusky et al. 2018, arXiv:1804.11283).
    """
    runs = [run for sentence in text.sentences for run in source.copied_runs(sentence)]
    return sum(run * run for run in runs if run > 2) / max(1, len(text.words))


def truth(judged: JudgedText, source: Source) -> float:
    """How little contradicts the source: numbers, names, negation, opposites, swapped words.

    A single such fault makes a summary false, however well its words are supported.
    """
    if not source.salience:
        return 0.0
    origins = source.text.sentences
    faults = 0.0
    for sentence, match in zip(judged.text.sentences, judged.matches, strict=True):
        faults += 1.0 * _unsupported_names(sentence, source)
        faults += 0.5 * min(2, _swapped_words(sentence, source))
        if match.index >= 0 and match.share >= 0.5:
            faults += 0.7 * _changes_negation(sentence, origins, match.index)
            faults += 0.7 * _has_opposite(sentence, origins[match.index])
    return clipped_z_score(faults / (len(judged.text.sentences) + 1), 0.35, -0.35)


def _unsupported_names(sentence: Sentence, source: Source) -> float:
    """Numbers that the source has nowhere, and names, which a capital within a sentence shows."""
    faults = 0.0
    for index, token in enumerate(sentence.tokens):
        word, is_number = token.lower(), token[0].isdigit()
        is_name = index > 0 and token[0].isupper() and word not in FUNCTION
        if (is_number or is_name) and not (
            word in source.words or stem_of(word) in source.sentences_with
        ):
            faults += 1.0 if is_number else 0.5
    return min(2.0, faults)


def _swapped_words(sentence: Sentence, source: Source) -> int:
    """Content words, new to the source, between the same neighbours where it has another."""
    words = sentence.words
    n_swapped = lookups = 0
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if word in FUNCTION or word in source.words or lookups >= MAX_LOOKUPS:
            continue
        if before in FUNCTION and after in FUNCTION:
            continue
        lookups += 1
        n_swapped += any(
            trigram.startswith(f"{before} ")
            and trigram.endswith(f" {after}")
            and trigram.split(" ")[1] not in FUNCTION
            for trigram in source.trigrams
        )
    return n_swapped


def _changes_negation(sentence: Sentence, origins: Sequence[Sentence], index: int) -> bool:
    """Whether a negation was put in, or left out of a sentence that is otherwise taken whole."""
    if sentence.is_negated:
        return not any(origin.is_negated for origin in origins[max(0, index - 1) : index + 2])
    origin = origins[index]
    return origin.is_negated and len(origin.words) < 1.4 * len(sentence.words)


def _has_opposite(sentence: Sentence, origin: Sentence) -> bool:
    """Whether a word's opposite stands in the sentence's origin, and the word itself does not."""
    origin_stems = set(map(stem_of, origin.words))
    return any(
        not origin_stems.isdisjoint(_OPPOSITE_STEMS.get(stem, ()))
        for stem in set(map(stem_of, sentence.words)) - origin_stems
    )


def knowledge(judged: JudgedText, _: Source) -> float:
    """How far the text uses the facts given, or else the document, beyond what was said before.

    A turn of talk that brings in what is known gives the other side something to go on with.
    """
    source = judged.knowledge or judged.document
    if source is None or not source.salience:
        return 0.0
    new_stems = set(judged.text.stems).difference(
        judged.turns.sentences_with if judged.turns else ()
    )
    used = total_weight([stem for stem in new_stems if stem in source.sentences_with])
    bigrams = sum(
        bigram in source.bigrams and not FUNCTION.issuperset(bigram.split(" "))
        for bigram in judged.text.bigrams
    )
    return (
        0.4 * clipped_z_score(math.log1p(used), 1.2, 0.7)
        + 0.3 * clipped_z_score(used / (total_weight(new_stems) or 1.0), 0.45, 0.3)
        + 0.3 * clipped_z_score(math.log1p(bigrams), 1.2, 0.9)
    )


def closeness(judged: JudgedText, source: Source) -> float:
    """How far the text keeps the source's wording: what is copied is seldom wrong."""
    if not source.trigrams:
        return 0.0
    return clipped_z_score(_share_in(source.trigrams, judged.text.trigrams), 0.4, 0.3)


def rewording(judged: JudgedText, _: Source) -> float:
    """Whether a text says it anew rather than pastes it.

    Sentences taken over whole bring along what pointed elsewhere in the source and take no heed of
    each other. Beyond some wording of its own, more of it says nothing.
    """
    source, bigrams = judged.source, judged.text.bigrams
    if source is None or not source.bigrams or not bigrams:
        return 0.0
    new = sum(bigram not in source.bigrams for bigram in bigrams) / len(bigrams)
    return clipped_z_score(min(new, NEW_WORDING), 0.14, 0.1)


def order(judged: JudgedText, _: Source) -> float:
    """Whether sentences keep the document's order, start near its start and leap little.

    What opens a document needs nothing before it; what stands late in it leans on the rest.
    """
    indices = [m.index for m in judged.matches[:MAX_SENTENCES] if m.index >= 0 and m.share > 0.2]
    if not indices or judged.source is None:
        return -1.0
    lateness = math.fsum(math.log1p(index) for index in indices) / len(indices)
    if len(indices) == 1:
        return 0.6 * clipped_z_score(lateness, 1.2, -0.7)
    reversals = [a > b for a, b in combinations(indices, 2)]
    far = min(max(1, len(judged.source.text.sentences)), 12)
    leaps = [min(1.0, abs(b - a - 1) / far) for a, b in pairwise(indices)]
    return (
        0.3 * clipped_z_score(sum(reversals) / len(reversals), 0.25, -0.3)
        + 0.3 * clipped_z_score(math.fsum(leaps) / len(leaps), 0.4, -0.27)
        + 0.4 * clipped_z_score(lateness, 1.4, -0.7)
    )


def continuity(judged: JudgedText, source: Source) -> float:
    """Whether each sentence comes from one place in the source, and keeps its words together.

    One stitched from scraps of several places seldom makes sense, whatever its grammar.
    """
    if not source.trigrams:
        return 0.0
    matches = judged.matches[:MAX_SENTENCES]
    unbroken = [m.nearby / m.anywhere if m.anywhere else 0.0 for m in matches]
    return (
        0.3 * clipped_z_score(math.fsum(unbroken) / len(unbroken), 0.78, 0.15)
        + 0.3 * clipped_z_score(min(unbroken), 0.65, 0.2)
        + 0.4 * clipped_z_score(judged.adjacency, 0.75, 0.2)
    )


def unity(judged: JudgedText, _: Source) -> float:
    """Whether a text is one piece: every joint between sentences may fail."""
    return clipped_z_score(math.log(len(judged.text.sentences)), 1.05, -0.4)


def connection(judged: JudgedText) -> float:
    """Whether each sentence takes up the one before, and the first stands alone; -5 to 3.

    A text whose sentences could be shuffled is a list, not an argument.
    """
    sentences = judged.text.sentences[:MAX_SENTENCES]
    dangling = 0.0 if judged.turns else _points_back(sentences[0])
    if len(sentences) == 1:
        return -1.0 * dangling
    links = [_link(a, b) for a, b in pairwise(sentences)]
    # A text that names its subject anew each time is a list.
    openings = [tuple(word for word in s.words[:4] if word not in FUNCTION)[:2] for s in sentences]
    repeated_openings = sum(a == b for a, b in combinations(openings, 2)) / len(sentences)
    choppiness = sum(len(s.words) < 9 for s in sentences) / len(sentences)
    value = 0.5 * clipped_z_score(math.fsum(links) / len(links), 0.5, 0.3)
    if judged.document is not None and judged.matches:
        matches = judged.matches[:MAX_SENTENCES]
        value = 0.6 * value + 0.35 * clipped_z_score(_proximity(matches), 0.45, 0.35)
        dangling += _n_unresolved(sentences, matches) / len(sentences)
    return value - 1.0 * dangling - 0.7 * min(2.0, repeated_openings) - 0.8 * choppiness + 0.2


def _points_back(sentence: Sentence) -> float:
    """How much a first sentence needs one before it, in [0, 1]."""
    opening = sentence.words[0]
    if opening in {"he", "she", "they", "his", "her", "their", "him", "them"}:
        return 1.0
    if opening in {"but", "and", "however", "so", "also", "therefore", "or", "this", "these"}:
        return 0.7
    return 0.4 * any(word in {"he", "she", "they", "his", "her"} for word in sentence.words[:4])


def _link(first: Sentence, second: Sentence) -> float:
    """How a sentence takes up the one before: by a shared word, or by one that points back."""
    stems, next_stems = set(first.stems), set(second.stems)
    connects = not ENGLISH["connectives"].isdisjoint(second.words[:2])
    link = 0.5 * min(1.0, total_weight(stems & next_stems)) + 0.5 * connects
    return link * (1.0 if len(next_stems - stems) > 1 else 0.5)


def _proximity(matches: Sequence[Match]) -> float:
    """How close together in the source the matches of neighbouring sentences stand."""
    gaps = [b.index - a.index if min(a.index, b.index) >= 0 else 99 for a, b in pairwise(matches)]
    return math.fsum(1 / (1 + abs(gap - 1) / 1.5) for gap in gaps) / len(gaps)


def _n_unresolved(sentences: Sequence[Sentence], matches: Sequence[Match]) -> int:
    """Sentences that point back, taken from a place whose sentence before was left out."""
    return sum(
        not DEMONSTRATIVES.isdisjoint(sentence.words[:2])
        and match.share > 0.5
        and match.index > 0
        and not 0 <= match.index - previous.index <= 2
        for sentence, (previous, match) in zip(sentences[1:], pairwise(matches), strict=True)
    )


def repetition(judged: JudgedText) -> float:
    """How little is said twice, -10 to 1: a repeated sentence wastes the reader's time."""
    text, sentences = judged.text, judged.text.sentences[:MAX_SENTENCES]
    overlaps = [
        max(_overlap(sentence, earlier) for earlier in sentences[:index])
        for index, sentence in enumerate(sentences)
        if index
    ]
    mean_overlap = math.fsum(overlaps) / max(1, len(overlaps))
    trigrams = [three for three in text.trigrams if not FUNCTION.issuperset(three.split(" "))]
    stems = text.stems[:2000]
    # Beyond a few words, some come back in any text: allow the one per eight that is usual.
    repeated_stems = max(0.0, 1 - len(set(stems)) / max(1, len(stems)) - 0.12)
    # Full names above all: no writer gives them twice.
    pairs = [pair for sentence in text.sentences for pair in pairwise(sentence.stems)]
    repeated_pairs = 1 - len(set(pairs)) / max(4, len(pairs)) if len(pairs) > 3 else 0.0
    matches = judged.matches[:MAX_SENTENCES]
    indices = [match.index for match in matches if match.index >= 0 and match.share > 0.5]
    return (
        1.0
        - 4.0 * min(0.5, (len(trigrams) - len(set(trigrams))) / max(4, len(trigrams)))
        - 1.0 * max(0.0, max(overlaps, default=0.0) - 0.35)
        - 1.5 * max(0.0, mean_overlap - 0.2)
        - 3.0 * min(0.5, repeated_stems)
        - 4.0 * min(0.5, repeated_pairs)
        - 1.0 * (len(indices) - len(set(indices))) / max(1, len(indices))
    )


def _overlap(first: Sentence, second: Sentence) -> float:
    """The shared part of the lighter sentence's weight."""
    a, b = set(first.stems), set(second.stems)
    if len(a) < 2 or len(b) < 2:
        return 0.0
    return total_weight(a & b) / min(total_weight(a), total_weight(b))
