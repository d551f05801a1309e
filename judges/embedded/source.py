"""Index what a judged text was made from or answers, and match the text's sentences with it."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock

from cachetools import LRUCache, cached

from judges.embedded.request import Roles
from judges.embedded.text import Sentence, Text, read_text, weight

# Writers put what matters early: the first sentence counts well over twice a late one.
EARLY = 4.0
# The key sentences are a summary in the rough, of this many words.
KEY_WORDS = 110
# Where a word comes back more often, later sentences with it say nothing.
MAX_SENTENCES_PER_STEM = 100
# Names are looked for in so many sentences.
MAX_NAME_SENTENCES = 80
# A text says what a sentence says where it shares this part of its weight, of long ones this much.
ENOUGH, MAX_ENOUGH = 0.4, 5.0
# Articles say a thing first in short and later again: of near equals the first is meant.
NEARLY = 0.85
# Bounds on what is remembered: characters of sources, judged texts (the two of a pair, whose traits
# are measured after their facets), and vectors of facets or traits.
MAX_CHARACTERS, MAX_JUDGED_TEXTS, MAX_VECTORS = 800_000, 2, 20_000


@dataclass(frozen=True)
class Source:
    """Source texts as one, indexed once and used for every judged text.

    Where it has no words the indices are empty, and nothing is found in them.
    """

    text: Text
    characters: int

    @cached_property
    def sentences_with(self) -> dict[str, list[int]]:
        """By stem, the indices of the first MAX_SENTENCES_PER_STEM sentences that hold it."""
        indices: dict[str, list[int]] = defaultdict(list)
        for index, sentence in enumerate(self.text.sentences):
            for stem in dict.fromkeys(sentence.stems):
                if len(indices[stem]) < MAX_SENTENCES_PER_STEM:
                    indices[stem].append(index)
        return dict(indices)

    @cached_property
    def frequency(self) -> dict[str, float]:
        """The part of all stems that each is."""
        return {stem: n / len(self.text.stems) for stem, n in Counter(self.text.stems).items()}

    @cached_property
    def salience(self) -> dict[str, float]:
        """How much each stem matters; sums to 1 over the `n_salient` heaviest."""
        values = {
            stem: weight(stem)
            * (0.5 + math.log1p(n))
            * (1 + 1.5 * math.exp(-self.sentences_with[stem][0] / EARLY))
            for stem, n in Counter(self.text.stems).items()
        }
        total = math.fsum(sorted(values.values(), reverse=True)[: self.n_salient]) or 1.0
        return {stem: value / total for stem, value in values.items()}

    @property
    def n_salient(self) -> int:
        n_stems = len(self.sentences_with)
        return max(1, min(n_stems, max(6, min(60, n_stems // 4))))

    @cached_property
    def sentence_saliences(self) -> list[float]:
        """How much each sentence says of what matters."""
        stems = (set(sentence.stems) for sentence in self.text.sentences)
        return [math.fsum(self.salience[stem] for stem in distinct) for distinct in stems]

    @cached_property
    def key_sentences(self) -> list[Sentence]:
        """The most salient sentences, early ones preferred, best first: a summary in the rough."""
        ranked = sorted(
            (-salience / (n_stems + 3) * (1 + math.exp(-index / EARLY)), index)
            for index, salience in enumerate(self.sentence_saliences)
            if (n_stems := len(set(self.text.sentences[index].stems))) >= 3
        )
        sentences: list[Sentence] = []
        for _, index in ranked:
            if sum(len(sentence.words) for sentence in sentences) >= KEY_WORDS:
                break
            sentences.append(self.text.sentences[index])
        return sentences

    @cached_property
    def key_stems(self) -> frozenset[str]:
        return frozenset(stem for sentence in self.key_sentences for stem in sentence.stems)

    @cached_property
    def key_pairs(self) -> dict[tuple[str, str], float]:
        """Neighbouring stems of the key sentences, with the share that each carries."""
        pairs: dict[tuple[str, str], float] = defaultdict(float)
        for rank, sentence in enumerate(self.key_sentences):
            for pair in set(pairwise(sentence.stems)):
                pairs[pair] += 1.0 / (1 + 0.5 * rank)
        total = math.fsum(pairs.values()) or 1.0
        return {pair: value / total for pair, value in pairs.items()}

    @cached_property
    def points(self) -> list[tuple[float, float]]:
        """Each sentence's part of what is said, and the weight that a text must share to say it."""
        stems = [set(sentence.stems) for sentence in self.text.sentences]
        parts = [
            salience if len(distinct) > 1 else 0.0
            for distinct, salience in zip(stems, self.sentence_saliences, strict=True)
        ]
        total = math.fsum(parts) or 1.0
        enough = [max(1.0, min(MAX_ENOUGH, ENOUGH * total_weight(distinct))) for distinct in stems]
        return [(part / total, least) for part, least in zip(parts, enough, strict=True)]

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(self.text.words)

    @cached_property
    def bigrams(self) -> frozenset[str]:
        return frozenset(self.text.bigrams)

    @cached_property
    def trigrams(self) -> frozenset[str]:
        return frozenset(self.text.trigrams)

    @cached_property
    def names(self) -> frozenset[str]:
        """The words, in lower case, that have a capital wherever they stand within a sentence."""
        tokens = [
            token
            for sentence in self.text.sentences[:MAX_NAME_SENTENCES]
            for token in sentence.tokens[1:]
            if token[0].isalpha()
        ]
        small = {token.lower() for token in tokens if not token[0].isupper()}
        return frozenset(token.lower() for token in tokens) - small

    def copied_runs(self, sentence: Sentence) -> list[int]:
        """The lengths in words of a sentence's runs of neighbours that the source has, too.

        The extractive fragments of Grusky et al. (2018, arXiv:1804.11283), without their search for
        the longest.
        """
        bigrams, trigrams, words = self.bigrams, self.trigrams, sentence.words
        runs, length = [], 0
        for index, bigram in enumerate(sentence.bigrams):
            is_copied = bigram in bigrams
            if is_copied and (not length or f"{words[index - 1]} {bigram}" in trigrams):
                length += 1
                continue
            if length:
                runs.append(length + 1)
            length = int(is_copied)
        return [*runs, length + 1] if length else runs


@cached(LRUCache(MAX_CHARACTERS, lambda source: source.characters + 200), lock=Lock())
def read_source(*texts: str) -> Source:
    """Index source texts as one."""
    separate = [read_text(text) for text in texts]
    text = Text(
        tuple(sentence for text in separate for sentence in text.sentences),
        sum(text.lines for text in separate),
        any(text.has_capitals for text in separate),
    )
    return Source(text, sum(map(len, texts)))


@dataclass(frozen=True, slots=True)
class Match:
    """Where a sentence comes from.

    `index` is the best source sentence (-1: none), `share` the weight of the sentence's stems that
    stand in it, `nearby` the same with a neighbour, `anywhere` in the whole source (each as a part
    of the weight of all its stems); `weights` holds the weight that each source sentence, by its
    index, shares with it.
    """

    index: int
    share: float
    nearby: float
    anywhere: float
    weights: Mapping[int, float]


@dataclass(frozen=True)
class JudgedText:
    """One judged text, and what it was made from or answers.

    `document` is what it was made from, `turns` what it answers, `last_turn` the last of these,
    `knowledge` the facts given, `source` all of them together; `is_summary` tells whether it is a
    shorter form of the document.
    """

    text: Text
    document: Source | None
    turns: Source | None
    last_turn: Source | None
    knowledge: Source | None
    source: Source | None
    is_summary: bool

    @cached_property
    def matches(self) -> list[Match]:
        """Where in the source its sentences come from."""
        return _matches(self.text, self.source)

    @cached_property
    def shared_weights(self) -> dict[int, float]:
        """For sentences of the document the most weight that one of the text's shares with them."""
        is_all = self.document is self.source
        shared: dict[int, float] = {}
        for match in self.matches if is_all else _matches(self.text, self.document):
            for index, value in match.weights.items():
                shared[index] = max(shared.get(index, 0.0), value)
        return shared

    @cached_property
    def adjacency(self) -> float:
        """The share of neighbouring content words that stand close together in the source too."""
        sentences_with = self.source.sentences_with if self.source else {}
        pairs = [pair for sentence in self.text.sentences for pair in pairwise(sentence.stems)]
        together = 0
        for first, second in pairs:
            with_second = set(sentences_with.get(second, ()))
            together += any(
                not with_second.isdisjoint((index - 1, index, index + 1))
                for index in sentences_with.get(first, ())
            )
        return together / max(1, len(pairs))


def _matches(text: Text, source: Source | None) -> list[Match]:
    """The match of each of the text's sentences; empty without a source."""
    if source is None:
        return []
    return [_best_source_sentence(sentence, source) for sentence in text.sentences]


def _best_source_sentence(sentence: Sentence, source: Source) -> Match:
    """The first source sentence that shares nearly the most weight of stems, with the shares."""
    shared: dict[int, float] = defaultdict(float)
    total = anywhere = 0.0
    for stem in dict.fromkeys(sentence.stems):
        stem_weight = weight(stem)
        total += stem_weight
        indices = source.sentences_with.get(stem, ())
        anywhere += stem_weight if indices else 0.0
        for index in indices:
            shared[index] += stem_weight
    if not shared:
        return Match(-1, 0.0, 0.0, 0.0 if total else 0.5, shared)
    threshold = NEARLY * max(shared.values())
    best = min(index for index, value in shared.items() if value >= threshold)
    nearby = shared[best]
    for neighbour in (best - 1, best + 1):
        if neighbour in shared:
            stems = {*source.text.sentences[best].stems, *source.text.sentences[neighbour].stems}
            nearby = max(nearby, total_weight(stems.intersection(sentence.stems)))
    return Match(best, shared[best] / total, nearby / total, anywhere / total, shared)


def _contents(
    roles: Roles, texts: Mapping[str, str], candidate: str
) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]:
    """What a judged text is measured by: itself, its sources, and whether it condenses them."""
    documents, turns, knowledge = (
        tuple(texts.get(name, "") for name in names)
        for names in (roles.documents, roles.turns, roles.knowledge)
    )
    return texts.get(candidate, ""), documents, turns, knowledge, roles.is_summary


def digest(roles: Roles, texts: Mapping[str, str], candidate: str) -> bytes:
    """The key under which what is measured of a judged text is remembered."""
    key = repr(_contents(roles, texts, candidate))
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


@cached(LRUCache(MAX_JUDGED_TEXTS), key=_contents, lock=Lock())
def read_judged_text(roles: Roles, texts: Mapping[str, str], candidate: str) -> JudgedText:
    """Read the text named `candidate` and its sources."""
    text, documents, turns, knowledge, is_summary = _contents(roles, texts, candidate)
    last_lines = [line for line in turns[-1].splitlines() if line.strip()] if turns else []
    return JudgedText(
        read_text(text),
        document=_read(documents),
        turns=_read(turns),
        last_turn=_read(last_lines[-1:]),
        knowledge=_read(knowledge),
        source=_read([*documents, *turns, *knowledge]),
        is_summary=is_summary,
    )


def _read(texts: Sequence[str]) -> Source | None:
    texts = [text for text in texts if text.strip()]
    return read_source(*texts) if texts else None


def total_weight(stems: Collection[str]) -> float:
    return math.fsum(map(weight, stems))


def clipped_z_score(value: float, mean: float, sd: float) -> float:
    """(value - mean) / sd, clipped to [-3, 3]; `mean` and `sd` are those of ordinary texts.

    A negative `sd` turns the score round, for measures of which less is better.
    """
    return max(-3.0, min(3.0, (value - mean) / sd))
