"""Index what a judged text was made from or answers, and match the text's sentences with it."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from cachetools import LRUCache, cached

from judges.models.embedded.text import NEGATIONS, Sentence, Text, read_text, weight

# Writers put what matters early: the first sentence counts well over twice a late one.
EARLY = 4.0
# The key sentences are a summary in the rough, of this many words.
KEY_WORDS = 110
# Where a word comes back more often, its later places say nothing.
MOST_PLACES = 100
# A text says what a sentence says where it shares this part of its weight, of long ones this much.
ENOUGH, MOST_ENOUGH = 0.4, 5.0
# Articles say a thing first in short and later again: of near equals the first is meant.
NEARLY = 0.85
# Bound on the sources remembered, in characters.
MOST_CHARACTERS = 800_000


@dataclass(frozen=True, slots=True)
class Source:
    """Source texts as one, indexed once and used for every judged text.

    `salience` of stems sums to 1 over the heaviest, whose mean is `mean_salience`; `places` lists
    the sentences of a stem, `frequency` is its part of all stems. `key_pairs` holds neighbouring
    stems of the sentences that matter most, with the share each carries, `key_stems` all their
    stems. `points` has for each sentence its part of the whole, and the weight that a text must
    share with it to say the same.
    """

    text: Text
    characters: int
    salience: dict[str, float]
    mean_salience: float
    places: dict[str, list[int]]
    frequency: dict[str, float]
    key_pairs: dict[tuple[str, str], float]
    key_stems: frozenset[str]
    points: tuple[tuple[float, float], ...]
    words: frozenset[str]
    bigrams: frozenset[str]
    trigrams: frozenset[str]
    negated: frozenset[int]


@cached(LRUCache(MOST_CHARACTERS, lambda source: source.characters + 200), lock=Lock())
def read_source(*texts: str) -> Source:
    """Index source texts; without any words in them nothing is found there."""
    text = _join([read_text(text) for text in texts])
    places: dict[str, list[int]] = defaultdict(list)
    count = Counter(text.stems)
    for place, sentence in enumerate(text.sentences):
        for stem in dict.fromkeys(sentence.stems):
            if len(places[stem]) < MOST_PLACES:
                places[stem].append(place)
    raw = {
        stem: weight(stem) * (0.5 + math.log1p(n)) * (1 + 1.5 * math.exp(-places[stem][0] / EARLY))
        for stem, n in count.items()
    }
    heaviest = sorted(raw.values(), reverse=True)[: max(6, min(60, len(raw) // 4))]
    total = math.fsum(heaviest) or 1.0
    salience = {stem: value / total for stem, value in raw.items()}
    key_pairs, key_stems = _key_content(text, salience)
    return Source(
        text=text,
        characters=sum(map(len, texts)),
        salience=salience,
        mean_salience=1 / max(1, len(heaviest)),
        places=dict(places),
        frequency={stem: n / count.total() for stem, n in count.items()},
        key_pairs=key_pairs,
        key_stems=key_stems,
        points=_points(text, salience),
        words=frozenset(text.words),
        bigrams=frozenset(text.bigrams),
        trigrams=frozenset(text.trigrams),
        negated=frozenset(i for i, s in enumerate(text.sentences) if is_negated(s)),
    )


def is_negated(sentence: Sentence) -> bool:
    return not NEGATIONS.isdisjoint(sentence.words)


def _key_content(
    text: Text, salience: Mapping[str, float]
) -> tuple[dict[tuple[str, str], float], frozenset[str]]:
    """Neighbouring stems, and all stems, of the most salient sentences, early ones preferred."""
    merits = []
    for place, sentence in enumerate(text.sentences):
        stems = set(sentence.stems)
        if len(stems) >= 3:
            mean = math.fsum(salience[stem] for stem in stems) / (len(stems) + 3)
            merits.append((-mean * (1 + math.exp(-place / EARLY)), place))
    pairs: dict[tuple[str, str], float] = defaultdict(float)
    key_stems: set[str] = set()
    n_words = 0
    for rank, (_, place) in enumerate(sorted(merits)):
        if n_words >= KEY_WORDS:
            break
        sentence = text.sentences[place]
        n_words += len(sentence.words)
        for pair in set(pairwise(sentence.stems)):
            pairs[pair] += 1.0 / (1 + 0.5 * rank)
        key_stems.update(sentence.stems)
    total = math.fsum(pairs.values()) or 1.0
    return {pair: value / total for pair, value in pairs.items()}, frozenset(key_stems)


def _points(text: Text, salience: Mapping[str, float]) -> tuple[tuple[float, float], ...]:
    """Each sentence's part of what the text says, and how much shared weight says the same."""
    parts = []
    for sentence in text.sentences:
        stems = set(sentence.stems)
        enough = min(MOST_ENOUGH, ENOUGH * math.fsum(map(weight, stems)))
        part = math.fsum(salience[stem] for stem in stems) if len(stems) > 1 else 0.0
        parts.append((part, max(1.0, enough)))
    total = math.fsum(part for part, _ in parts) or 1.0
    return tuple((part / total, enough) for part, enough in parts)


def _join(texts: Sequence[Text]) -> Text:
    return Text(
        tuple(sentence for text in texts for sentence in text.sentences),
        sum(text.lines for text in texts),
        any(text.cased for text in texts),
    )


@dataclass(frozen=True, slots=True)
class Match:
    """Where a sentence comes from.

    `place` is the best source sentence (-1: none), `share` the weight of the sentence's stems that
    stand in it, `nearby` the same with a neighbour, `anywhere` in the whole source.
    """

    place: int
    share: float
    nearby: float
    anywhere: float


@dataclass(frozen=True, slots=True)
class JudgedText:
    """One judged text, what it was made from or answers, and where its sentences come from.

    `document` is what it was made from, `turns` what it answers, `last_turn` the last of these,
    `knowledge` the facts given, `source` all of them together; `condenses` tells whether it is a
    shorter form of the document. `matches` are its sentences' in the source. `shared` has for
    sentences of the document the most weight that one sentence of the text shares with them.
    `adjacency` is the share of neighbouring content words that are close in the source too.
    """

    text: Text
    document: Source | None
    turns: Source | None
    last_turn: Source | None
    knowledge: Source | None
    source: Source | None
    condenses: bool
    matches: tuple[Match, ...]
    shared: Mapping[int, float]
    adjacency: float


def read_judged_text(
    text: Text,
    documents: Sequence[str],
    turns: Sequence[str],
    knowledge: Sequence[str],
    *,
    condenses: bool,
) -> JudgedText:
    """Match the text's sentences with its sources."""
    lines = [line for line in turns[-1].splitlines() if line.strip()] if turns else []
    document, source = _source(documents), _source([*documents, *turns, *knowledge])
    matches, shared = _align(text, source) if source else ((), {})
    if document is not source:
        shared = _align(text, document)[1] if document else {}
    return JudgedText(
        text,
        document=document,
        turns=_source(turns),
        last_turn=_source(lines[-1:]),
        knowledge=_source(knowledge),
        source=source,
        condenses=condenses,
        matches=matches,
        shared=shared,
        adjacency=_adjacency(text, source) if source else 0.0,
    )


def _source(texts: Sequence[str]) -> Source | None:
    texts = [text for text in texts if text.strip()]
    return read_source(*texts) if texts else None


def _align(text: Text, source: Source) -> tuple[tuple[Match, ...], dict[int, float]]:
    """A match for every sentence, and the most weight shared with each source sentence."""
    shared: dict[int, float] = defaultdict(float)
    matches = tuple(_match(sentence, source, shared) for sentence in text.sentences)
    return matches, shared


def _match(sentence: Sentence, source: Source, shared: dict[int, float]) -> Match:
    scores: dict[int, float] = defaultdict(float)
    total = anywhere = 0.0
    for stem in dict.fromkeys(sentence.stems):
        value = weight(stem)
        total += value
        places = source.places.get(stem, ())
        anywhere += value if places else 0.0
        for place in places:
            scores[place] += value
    if not scores:
        return Match(-1, 0.0, 0.0, 0.0 if total else 0.5)
    for place, value in scores.items():
        shared[place] = max(shared[place], value)
    enough = NEARLY * max(scores.values())
    best = min(place for place, score in scores.items() if score >= enough)
    nearby = scores[best]
    for neighbour in (best - 1, best + 1):
        if neighbour in scores:
            both = {*source.text.sentences[best].stems, *source.text.sentences[neighbour].stems}
            nearby = max(nearby, math.fsum(map(weight, both.intersection(sentence.stems))))
    return Match(best, scores[best] / total, nearby / total, anywhere / total)


def _adjacency(text: Text, source: Source) -> float:
    """The share of neighbouring content words that stand close together in the source too."""
    together = total = 0
    for sentence in text.sentences:
        for first, second in pairwise(sentence.stems):
            total += 1
            places = set(source.places.get(second, ()))
            together += any(
                not places.isdisjoint((place - 1, place, place + 1))
                for place in source.places.get(first, ())
            )
    return together / max(1, total)


def scaled(value: float, middle: float, spread: float) -> float:
    """How far a measure is from the middle of ordinary texts, in spreads, at most 3 away."""
    return max(-3.0, min(3.0, (value - middle) / spread))
