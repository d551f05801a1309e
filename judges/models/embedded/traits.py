"""Traits of a text: plain counts, neither good nor bad until demonstrations give them a sense.

Facets are bounded and know which way is up; traits are not, and so tell texts apart more finely:
how long a text is, how marked and how repetitive, what of its source it says, how much it copies
and in what runs, and how its sentences are made of those they come from.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from judges.models.embedded.source import JudgedText, Match, Source
from judges.models.embedded.text import AUXILIARIES, FUNCTION, VERBS, Sentence, Text, stem_of

# How many traits each kind has; those beside a source are 0 where there is none.
KINDS = {
    **{"size": 7, "marks": 13, "repetition": 8},
    **{"extractiveness": 11, "rewriting": 17, "position": 15, "content": 9},
}
N_TRAITS = sum(KINDS.values())
# Bounds on what is looked at.
MOST_WORDS, MOST_SENTENCES, MOST_IN_ORDER = 4000, 80, 80
# A sentence much shorter than the one it comes from is cut to this share of it at least.
LEAST_CUT = 0.05
# So many sentences are the lead of an article.
LEAD = 3
_QUOTES = ('"', "``", "''", "'", "`", "“", "”")
_DASHES = ("-", "--", "–", "—", ":", ";")
_USUAL = frozenset({*_QUOTES, *_DASHES, *".,!?()", "…"})


def read_traits(judged: JudgedText) -> NDArray[np.float64]:
    """All traits of one judged text that has words, in the order of KINDS."""
    text, source = _beginning(judged.text), judged.source
    traits = [*_size(text), *_marks(text), *_repetition(text)]
    if source is not None and source.salience:
        traits += _extractiveness(text, source)
        traits += _rewriting(text, judged.matches, source)
        traits += [*_position(judged.matches[:MOST_SENTENCES], source), judged.adjacency]
        traits += _content(text, source)
    traits += [0.0] * (N_TRAITS - len(traits))
    return np.asarray(np.nan_to_num(np.array(traits)))


def _beginning(text: Text) -> Text:
    """The text, or its beginning where it is much longer than what systems write."""
    sentences: list[Sentence] = []
    n_words = 0
    for sentence in text.sentences[:MOST_SENTENCES]:
        n_words += len(sentence.words)
        if sentences and n_words > MOST_WORDS:
            break
        sentences.append(sentence)
    return Text(tuple(sentences), text.lines, text.cased)


def _size(text: Text) -> tuple[float, ...]:
    lengths = [len(sentence.words) for sentence in text.sentences]
    return (
        math.log1p(text.n_words),
        math.log(len(lengths)),
        math.log1p(text.n_words / len(lengths)),
        math.log1p(max(lengths)),
        math.log1p(min(lengths)),
        math.log1p(lengths[-1]),
        sum(map(len, text.words)) / text.n_words,
    )


def _marks(text: Text) -> tuple[float, ...]:
    tokens = [token for sentence in text.sentences for token in sentence.tokens]
    count, n = Counter(tokens), len(tokens)
    inner = [token for sentence in text.sentences for token in sentence.tokens[1:]]
    starts = [sentence.tokens[0][0] for sentence in text.sentences]
    return (
        count[","] / n,
        sum(count[mark] for mark in _QUOTES) / n,
        (count["("] + count[")"]) / n,
        sum(count[mark] for mark in _DASHES) / n,
        float(count["?"] > 0),
        float(count["!"] > 0),
        _share(token[0].isdigit() for token in tokens),
        _share(token[0].isupper() for token in inner),
        _share(start.isupper() or not start.isalpha() for start in starts),
        _share(sentence.ended for sentence in text.sentences),
        float(text.sentences[-1].ended),
        _share(not (token[0].isalnum() or "'" in token or token in _USUAL) for token in tokens),
        sum("." in sentence.tokens[:-1] for sentence in text.sentences) / len(text.sentences),
    )


def _repetition(text: Text) -> tuple[float, ...]:
    stems, stem_sets = text.stems, [set(sentence.stems) for sentence in text.sentences]
    links = [len(a & b) / max(1, min(len(a), len(b))) for a, b in pairwise(stem_sets)]
    doubled = sum(a == b for s in text.sentences for a, b in pairwise(s.words))
    return (
        *(1 - len(set(ngrams)) / max(1, len(ngrams)) for ngrams in (stems, text.bigrams)),
        1 - len(set(text.trigrams)) / max(1, len(text.trigrams)),
        math.log1p(max(Counter(stems).values(), default=0)),
        _mean(links),
        max(links, default=0.0),
        len(set(stems)) / math.sqrt(max(1, len(stems))),
        doubled / text.n_words,
    )


def _extractiveness(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's wording the text keeps, and in runs of what length."""
    runs_of = [_runs(sentence, source) for sentence in text.sentences]
    runs = [run for own in runs_of for run in own]
    whole = [
        max(own, default=0) >= len(sentence.words) - 1
        for own, sentence in zip(runs_of, text.sentences, strict=True)
    ]
    return (
        _share(word not in source.words for word in text.words),
        _share(bigram not in source.bigrams for bigram in text.bigrams),
        _share(trigram not in source.trigrams for trigram in text.trigrams),
        # The density of Grusky et al. (2018, arXiv:1804.11283), without its search for the longest.
        math.log1p(sum(run * run for run in runs) / text.n_words),
        sum(runs) / text.n_words,
        math.log1p(len(runs)),
        len(runs) / len(text.sentences),
        math.log1p(max(runs, default=0)),
        _share(whole),
        math.log((text.n_words + 1) / (source.text.n_words + 1)),
        _share(not own for own in runs_of),
    )


def _runs(sentence: Sentence, source: Source) -> list[int]:
    """The lengths in words of a sentence's runs of neighbours that the source has, too."""
    trigrams = sentence.trigrams
    runs, length = [], 0
    for place, bigram in enumerate(sentence.bigrams):
        copied = bigram in source.bigrams
        if copied and (not length or trigrams[place - 1] in source.trigrams):
            length += 1
            continue
        if length:
            runs.append(length + 1)
        length = int(copied)
    return [*runs, length + 1] if length else runs


def _rewriting(text: Text, matches: Sequence[Match], source: Source) -> tuple[float, ...]:
    """How the sentences are made of those they come from: cut, joined, or put anew."""
    sentences, origins = text.sentences, source.text.sentences
    extracted, of_origin, cuts = [], [], []
    for sentence, match in zip(sentences, matches, strict=False):
        words, origin = sentence.words, origins[match.place].words if match.place >= 0 else ()
        start, origin_start = words[:MOST_IN_ORDER], origin[:MOST_IN_ORDER]
        common = common_subsequence(start, origin_start)
        extracted.append(common / len(start))
        of_origin.append(common / max(1, len(origin_start)))
        cuts.append(max(LEAST_CUT, len(words) / len(origin)) if origin else LEAST_CUT)
    joined = [match.anywhere - match.share for match in matches]
    openings = {sentence.words[:2] for sentence in origins}
    endings = {sentence.words[-2:] for sentence in origins}
    fresh = [word for word in text.words if word not in source.words]
    n = text.n_words
    return (
        _lost_capitals(text, source),
        _share(sentence.words[:2] in openings for sentence in sentences),
        _share(sentence.words[-2:] in endings for sentence in sentences),
        float(sentences[0].words[:2] == origins[0].words[:2]),
        float(matches[0].place == 0),
        _mean(extracted),
        min(extracted),
        _share(value > 0.99 for value in extracted),
        _mean(of_origin),
        _mean([math.log(cut) for cut in cuts]),
        min(cuts),
        _mean(joined),
        max(joined),
        sum(word in FUNCTION for word in fresh) / n,
        sum(word in AUXILIARIES for word in fresh) / n,
        sum(word in VERBS or word.endswith(("ed", "ing", "s")) for word in fresh) / n,
        sum(word not in FUNCTION and stem_of(word) in source.places for word in fresh) / n,
    )


def _lost_capitals(text: Text, source: Source) -> float:
    """The share of names, always with a capital in the source, that have lost it; ½ of none."""
    always: dict[str, bool] = {}
    for sentence in source.text.sentences[:MOST_SENTENCES]:
        for token in sentence.tokens[1:]:
            if token[0].isalpha():
                word = token.lower()
                always[word] = always.get(word, True) and token[0].isupper()
    lowered = [
        token[0].islower()
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if always.get(token.lower(), False)
    ]
    return _share(lowered) if lowered else 0.5


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, by bits (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    whole = (1 << len(first)) - 1
    row = whole
    for word in second:
        both = row & places.get(word, 0)
        row = ((row + both) | (row - both)) & whole
    return len(first) - row.bit_count()


def _position(matches: Sequence[Match], source: Source) -> tuple[float, ...]:
    """Where in the source the sentences come from, and how surely."""
    places = [match.place for match in matches if match.place >= 0]
    steps = [b - a for a, b in pairwise(places)]
    return (
        _mean([math.log1p(place) for place in places]),
        math.log1p(places[0]) if places else 0.0,
        math.log1p(max(places, default=0)),
        _mean(places) / len(source.text.sentences),
        _share(place == 0 for place in places),
        _share(place < LEAD for place in places),
        _share(step == 1 for step in steps) if steps else 0.5,
        _share(step == 0 for step in steps),
        _share(step < 0 for step in steps),
        _mean([math.log1p(abs(step)) for step in steps]),
        _mean([match.share for match in matches]),
        min(match.share for match in matches),
        _mean([match.anywhere for match in matches]),
        min(match.anywhere for match in matches),
    )


def _content(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's content the text says, and what of the text's is not the source's."""
    stems, distinct = text.stems, set(text.stems)
    first, lead = (
        {stem for sentence in source.text.sentences[:n] for stem in sentence.stems}
        for n in (1, LEAD)
    )
    fresh = [
        token
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if token.lower() not in source.words
    ]
    return (
        math.fsum(source.salience.get(stem, 0.0) for stem in distinct),
        _mean([min(2.5, source.salience.get(s, 0.0) / source.mean_salience) for s in stems]),
        math.fsum(
            min(n / len(stems), source.frequency.get(stem, 0.0))
            for stem, n in Counter(stems).items()
        ),
        len(distinct & first) / max(1, len(first)),
        len(distinct & lead) / max(1, len(lead)),
        len(distinct & source.key_stems) / max(1, len(distinct)),
        len(distinct & source.key_stems) / max(1, len(source.key_stems)),
        min(3.0, sum(token[0].isdigit() for token in fresh)),
        min(4.0, sum(token[0].isupper() for token in fresh)),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _share(truths: Iterable[bool]) -> float:
    """The share of truths among them; 0 of none."""
    listed = list(truths)
    return sum(listed) / len(listed) if listed else 0.0
