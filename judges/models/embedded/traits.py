"""Traits of a text: plain counts, neither good nor bad until demonstrations give them a sense.

Facets are bounded and know which way is up; traits are not, and so tell finer: how long, in what
words, how marked, how repetitive, how much is copied and in what runs, from where in the source.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from judges.models.embedded.evidence import Evidence
from judges.models.embedded.facets import Vector
from judges.models.embedded.source import Source
from judges.models.embedded.text import Sentence, Text, weight
from judges.models.embedded.words import (
    CONJUNCTIONS,
    FUNCTION,
    LINKING,
    NEGATIONS,
    POINTING,
    PRONOUNS,
    SUBORDINATORS,
    word_set,
)

# How many traits each kind has; those held against a source are 0 where there is none.
KINDS = {"size": 7, "words": 13, "marks": 13, "again": 8, "kept": 11, "places": 15, "told": 9}
N_TRAITS = sum(KINDS.values())
# Bounds on what is looked at.
MOST_SENTENCES, MOST_WORDS = 80, 4000

_PERSONAL = word_set("i me my you your")
_QUOTES = ('"', "``", "''", "'", "`", "“", "”")
_DASHES = ("-", "--", "–", "—", ":", ";")
_USUAL = frozenset({*_QUOTES, *_DASHES, *".,!?()", "…"})
_LEAD = 3


def read_traits(seen: Evidence) -> Vector:
    """All traits of one judged text that has words."""
    text, source = _cut(seen.text), seen.ground
    traits = [*_size(text), *_words(text), *_marks(text), *_again(text)]
    if source is not None and source.salience:
        traits += [*_kept(text, source), *_places(seen, source), *_told(text, source)]
    traits += [0.0] * (N_TRAITS - len(traits))
    return np.asarray(np.nan_to_num(np.array(traits)))


def _cut(text: Text) -> Text:
    """The text, or its beginning where it is much longer than what systems write."""
    if text.n_words <= MOST_WORDS and len(text.sentences) <= MOST_SENTENCES:
        return text
    kept: list[Sentence] = []
    n_words = 0
    for sentence in text.sentences[:MOST_SENTENCES]:
        n_words += len(sentence.words)
        if kept and n_words > MOST_WORDS:
            break
        kept.append(sentence)
    return Text(tuple(kept), sum(len(one.words) for one in kept), text.lines, text.cased)


def _size(text: Text) -> tuple[float, ...]:
    lengths = [len(sentence.words) for sentence in text.sentences]
    letters = sum(len(word) for sentence in text.sentences for word in sentence.words)
    return (
        math.log1p(text.n_words),
        math.log(len(lengths)),
        math.log1p(text.n_words / len(lengths)),
        math.log1p(max(lengths)),
        math.log1p(min(lengths)),
        math.log1p(lengths[-1]),
        letters / max(1, text.n_words),
    )


def _words(text: Text) -> tuple[float, ...]:
    words = [word for sentence in text.sentences for word in sentence.words]
    first = [sentence.words[0] for sentence in text.sentences]
    weights = [weight(stem) for stem in text.stems]
    kinds = (FUNCTION, PRONOUNS, CONJUNCTIONS, SUBORDINATORS, NEGATIONS, _PERSONAL)
    return (
        *(_share(word in kind for word in words) for kind in kinds),
        float(first[0] in PRONOUNS),
        _share(word in POINTING for word in first),
        _share(word in LINKING for word in first),
        _mean(weights),
        _share(value < 0.5 for value in weights),
        _share(word.endswith("ed") for word in words),
        _share(word.endswith("ing") for word in words),
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


def _again(text: Text) -> tuple[float, ...]:
    stems = text.stems
    links = [
        len({*one.stems} & {*other.stems}) / max(1, min(len({*one.stems}), len({*other.stems})))
        for one, other in pairwise(text.sentences)
    ]
    doubled = sum(one == other for s in text.sentences for one, other in pairwise(s.words))
    return (
        _told_twice(stems),
        _told_twice([pair for sentence in text.sentences for pair in sentence.pairs]),
        _told_twice(text.triples),
        math.log1p(max(Counter(stems).values(), default=0)),
        _mean(links),
        max(links, default=0.0),
        len(set(stems)) / math.sqrt(max(1, len(stems))),
        doubled / max(1, text.n_words),
    )


def _kept(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's wording is kept, and in runs of what length."""
    words = [word for sentence in text.sentences for word in sentence.words]
    pairs = [pair for sentence in text.sentences for pair in sentence.pairs]
    triples = text.triples
    runs_of = [_runs(s.pairs, s.triples, source) for s in text.sentences]
    runs = [run for own in runs_of for run in own]
    n = max(1, len(words))
    whole = [
        max(own, default=0) >= len(sentence.words) - 1
        for own, sentence in zip(runs_of, text.sentences, strict=True)
    ]
    return (
        _share(word not in source.words for word in words),
        _share(pair not in source.pairs for pair in pairs),
        _share(three not in source.triples for three in triples),
        # The density of Grusky et al. (2018, arXiv:1804.11283), without its search for the longest.
        math.log1p(sum(run * run for run in runs) / n),
        sum(runs) / n,
        math.log1p(len(runs)),
        len(runs) / len(text.sentences),
        math.log1p(max(runs, default=0)),
        _share(whole),
        math.log((text.n_words + 1) / (source.text.n_words + 1)),
        _share(not run for run in runs_of),
    )


def _runs(pairs: Sequence[str], triples: Sequence[str], source: Source) -> list[int]:
    """The lengths in words of a sentence's runs of neighbours that the source has, too."""
    runs, length = [], 0
    for place, pair in enumerate(pairs):
        kept = pair in source.pairs
        if kept and (not length or triples[place - 1] in source.triples):
            length += 1
            continue
        if length:
            runs.append(length + 1)
        length = int(kept)
    return [*runs, length + 1] if length else runs


def _places(seen: Evidence, source: Source) -> tuple[float, ...]:
    """Where in the source the sentences come from, and how surely."""
    matches = seen.matches[:MOST_SENTENCES]
    places = [match.place for match in matches if match.place >= 0]
    steps = [other - one for one, other in pairwise(places)]
    n = len(source.text.sentences)
    return (
        _mean([math.log1p(place) for place in places]),
        math.log1p(places[0]) if places else 0.0,
        math.log1p(max(places, default=0)),
        _mean(places) / n,
        _share(place == 0 for place in places),
        _share(place < _LEAD for place in places),
        _share(step == 1 for step in steps) if steps else 0.5,
        _share(step == 0 for step in steps),
        _share(step < 0 for step in steps),
        _mean([math.log1p(abs(step)) for step in steps]),
        _mean([match.share for match in matches]),
        min((match.share for match in matches), default=0.0),
        _mean([match.found for match in matches]),
        min((match.found for match in matches), default=0.0),
        seen.met,
    )


def _told(text: Text, source: Source) -> tuple[float, ...]:
    """What of the source's content is told, and what of the text's is not the source's."""
    stems, told = text.stems, set(text.stems)
    lead = {stem for sentence in source.text.sentences[:_LEAD] for stem in sentence.stems}
    first = set(source.text.sentences[0].stems)
    fresh = [
        token
        for sentence in text.sentences
        for token in sentence.tokens[1:]
        if token.lower() not in source.words
    ]
    share = Counter(stems)
    alike = math.fsum(min(n / len(stems), source.share.get(one, 0.0)) for one, n in share.items())
    return (
        math.fsum(source.salience.get(one, 0.0) for one in told),
        _mean([min(2.5, source.salience.get(one, 0.0) / source.mean) for one in stems]),
        alike,
        len(told & first) / max(1, len(first)),
        len(told & lead) / max(1, len(lead)),
        len(told & source.core) / max(1, len(told)),
        len(told & source.core) / max(1, len(source.core)),
        min(3.0, sum(token[0].isdigit() for token in fresh)),
        min(4.0, sum(token[0].isupper() for token in fresh)),
    )


def _told_twice(things: Sequence[str]) -> float:
    return 1 - len(set(things)) / max(1, len(things))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _share(truths: Iterable[bool]) -> float:
    """The share of truths among them; 0 of none."""
    told = list(truths)
    return sum(told) / len(told) if told else 0.0
