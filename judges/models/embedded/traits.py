"""Traits of a text: plain counts, neither good nor bad until demonstrations give them a sense.

Facets are bounded and know which way is up; traits are not, and so tell finer: how long a text is,
how marked and how repetitive, what of its source it tells, how much it copies and in what runs, and
how its sentences are made of those they come from.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from judges.models.embedded.evidence import Evidence
from judges.models.embedded.facets import Vector
from judges.models.embedded.taken import KINDS as TAKEN
from judges.models.embedded.taken import MOST_SENTENCES, mean, read_taken, share
from judges.models.embedded.text import Sentence, Text

# How many traits each kind has; those beside a source are 0 where there is none.
KINDS = {"size": 7, "marks": 13, "again": 8, **TAKEN}
N_TRAITS = sum(KINDS.values())
MOST_WORDS = 4000

_QUOTES = ('"', "``", "''", "'", "`", "“", "”")
_DASHES = ("-", "--", "–", "—", ":", ";")
_USUAL = frozenset({*_QUOTES, *_DASHES, *".,!?()", "…"})


def read_traits(seen: Evidence) -> Vector:
    """All traits of one judged text that has words."""
    text, source = _cut(seen.text), seen.ground
    traits = [*_size(text), *_marks(text), *_again(text)]
    if source is not None and source.salience:
        traits += read_taken(text, seen, source)
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
        share(token[0].isdigit() for token in tokens),
        share(token[0].isupper() for token in inner),
        share(start.isupper() or not start.isalpha() for start in starts),
        share(sentence.ended for sentence in text.sentences),
        float(text.sentences[-1].ended),
        share(not (token[0].isalnum() or "'" in token or token in _USUAL) for token in tokens),
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
        mean(links),
        max(links, default=0.0),
        len(set(stems)) / math.sqrt(max(1, len(stems))),
        doubled / max(1, text.n_words),
    )


def _told_twice(things: Sequence[str]) -> float:
    return 1 - len(set(things)) / max(1, len(things))
