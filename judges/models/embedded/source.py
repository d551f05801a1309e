"""What a source text is about: salience of its words, its key sentences, its word sequences."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from judges.models.embedded.text import Sentence, Text, weight
from judges.models.embedded.words import NEGATIONS

Pair = tuple[str, str]

# Writers put what matters early: the first sentence counts well over twice a late one.
EARLY = 4.0
# The key sentences are a summary in the rough, of this many words.
KEY_WORDS = 110
# Where a word comes back more often, its later places tell nothing.
MOST_PLACES = 100
# A sentence counts as told where this share of its weight is, in long ones this much.
TELLING, TELLING_MOST = 0.4, 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """One source text, indexed once and used for every candidate.

    `salience` sums to 1 over the heaviest stems, `mean` is their mean; `where` lists the sentences
    of a stem; `key` holds neighbouring stems in the sentences that matter most, with the share each
    carries, `core` all their stems; `points` has for each sentence its part of the whole and
    the weight that tells it; `share` is how often each stem comes, of all.
    """

    text: Text
    salience: dict[str, float]
    mean: float
    where: dict[str, list[int]]
    pairs: frozenset[str]
    triples: frozenset[str]
    key: dict[Pair, float]
    core: frozenset[str]
    points: tuple[tuple[float, float], ...]
    words: frozenset[str]
    negated: frozenset[int]
    share: dict[str, float]


def read_source(text: Text) -> Source:
    """Index a source text; an empty one gives an index where nothing is found."""
    where: dict[str, list[int]] = defaultdict(list)
    count: Counter[str] = Counter()
    for place, sentence in enumerate(text.sentences):
        for stem in sentence.stems:
            count[stem] += 1
            places = where[stem]
            if not places or (places[-1] != place and len(places) < MOST_PLACES):
                places.append(place)
    raw = {
        stem: weight(stem) * (0.5 + math.log1p(n)) * (1 + 1.5 * math.exp(-where[stem][0] / EARLY))
        for stem, n in count.items()
    }
    most = max(6, min(60, len(raw) // 4))
    heaviest = sorted(raw.values(), reverse=True)[:most]
    total = math.fsum(heaviest) or 1.0
    salience = {stem: value / total for stem, value in raw.items()}
    pairs, triples = _sequences(text)
    key, core = _key_pairs(text, salience)
    return Source(
        text=text,
        salience=salience,
        mean=1 / max(1, len(heaviest)),
        where=dict(where),
        pairs=pairs,
        triples=triples,
        key=key,
        core=core,
        points=_points(text, salience),
        words=frozenset(word for sentence in text.sentences for word in sentence.words),
        negated=frozenset(i for i, s in enumerate(text.sentences) if is_negated(s)),
        share={stem: n / max(1, count.total()) for stem, n in count.items()},
    )


def is_negated(sentence: Sentence) -> bool:
    return not NEGATIONS.isdisjoint(sentence.words)


def _sequences(text: Text) -> tuple[frozenset[str], frozenset[str]]:
    pairs: set[str] = set()
    triples: set[str] = set()
    for sentence in text.sentences:
        pairs.update(sentence.pairs)
        triples.update(sentence.triples)
    return frozenset(pairs), frozenset(triples)


def _key_pairs(text: Text, salience: dict[str, float]) -> tuple[dict[Pair, float], frozenset[str]]:
    """Neighbouring stems, and all stems, of the most salient sentences, early ones preferred."""
    merits = []
    for place, sentence in enumerate(text.sentences):
        kinds = set(sentence.stems)
        if len(kinds) < 3:
            continue
        mean = math.fsum(salience[stem] for stem in kinds) / (len(kinds) + 3)
        merits.append((mean * (1 + math.exp(-place / EARLY)), -place))
    merits.sort(reverse=True)
    key: dict[Pair, float] = defaultdict(float)
    core: dict[str, float] = {}
    n_words = 0
    for rank, (_, place) in enumerate(merits):
        if n_words >= KEY_WORDS:
            break
        n_words += len(text.sentences[-place].words)
        for pair in set(pairwise(text.sentences[-place].stems)):
            key[pair] += 1.0 / (1 + 0.5 * rank)
        core.update(dict.fromkeys(text.sentences[-place].stems, 1.0))
    total = math.fsum(key.values()) or 1.0
    return {pair: value / total for pair, value in key.items()}, frozenset(core)


def _points(text: Text, salience: dict[str, float]) -> tuple[tuple[float, float], ...]:
    """Each sentence's part of what the text says, and how much shared weight tells it."""
    parts = []
    for sentence in text.sentences:
        kinds = set(sentence.stems)
        told = min(TELLING_MOST, TELLING * math.fsum(weight(stem) for stem in kinds))
        part = math.fsum(salience[stem] for stem in kinds) if len(kinds) > 1 else 0.0
        parts.append((part, max(1.0, told)))
    total = math.fsum(part for part, _ in parts) or 1.0
    return tuple((part / total, told) for part, told in parts)


def join(texts: tuple[Text, ...]) -> Text:
    """Several texts as one."""
    if len(texts) == 1:
        return texts[0]
    return Text(
        tuple(sentence for text in texts for sentence in text.sentences),
        sum(text.n_words for text in texts),
        sum(text.lines for text in texts),
        any(text.cased for text in texts),
    )
