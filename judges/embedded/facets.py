"""The ten facets of quality: how each is measured, and how much of each a prompt asks for."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from judges.embedded.text import (
    ENGLISH,
    FUNCTION,
    Sentence,
    Source,
    Text,
    read_source,
    read_table,
    read_text,
    remember,
    stem_of,
    total_weight,
    weight,
)

Vector = NDArray[np.float64]
# So many sentences of a text are compared with each other and with its source.
MAX_SENTENCES = 60


class Match(NamedTuple):
    """Where a sentence comes from.

    `index` is the source sentence that shares most with it (-1: none), `share` the part of its
    weight that stands there; `weights` holds what each of the source's sentences shares with it.
    """

    index: int
    share: float
    weights: dict[int, float]


@dataclass(frozen=True)
class JudgedText:
    """A judged text with what it was made from (`document`) or answers (`turns`).

    `last_turn` is the last of the turns, `knowledge` the facts given, `source` all of them.
    """

    text: Text
    document: Source | None
    turns: Source | None
    last_turn: Source | None
    knowledge: Source | None
    source: Source | None

    @cached_property
    def sentences(self) -> Sequence[Sentence]:
        return self.text.sentences[:MAX_SENTENCES]

    @cached_property
    def matches(self) -> list[Match]:
        """Where its sentences come from; empty without a source."""
        source = self.source
        return [] if source is None else [_match(sentence, source) for sentence in self.sentences]


def _match(sentence: Sentence, source: Source) -> Match:
    """The first source sentence that shares nearly the most weight of stems."""
    shared: dict[int, float] = defaultdict(float)
    total = 0.0
    for stem in dict.fromkeys(sentence.stems):
        stem_weight = weight(stem)
        total += stem_weight
        for index in source.sentences_with.get(stem, ()):
            shared[index] += stem_weight
    if not shared:
        return Match(-1, 0.0, shared)
    # Articles say a thing first in short and later again: of near equals the first is meant.
    enough = 0.85 * max(shared.values())
    best = min([index for index, value in shared.items() if value >= enough])
    return Match(best, shared[best] / total, shared)


def _coverage(judged: JudgedText, document: Source) -> Iterable[float]:
    stems = set(judged.text.stems)
    said: dict[int, float] = {}
    for match in judged.matches:
        for index, value in match.weights.items():
            if value > said.get(index, 0.0):
                said[index] = value
    points = [document.points[index] for index in said if index < len(document.points)]
    sizes = total_weight(stems) + total_weight(document.key_stems)
    return (
        _similarity(judged.text.stems, document),
        2 * total_weight(stems & document.key_stems) / (sizes or 1.0),
        math.fsum(
            part * min(1.0, value / enough)
            for (part, enough), value in zip(points, said.values(), strict=False)
        ),
    )


def _similarity(stems: Sequence[str], source: Source) -> float:
    """1 - the Jensen-Shannon divergence of the text's stems from the source's, in bits.

    Of measures that need no reference it ranks summarizers most like people's judgements of
    content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    similarity, frequency = 0.0, source.frequency
    for stem, n in Counter(stems).items():
        if n_source := frequency.get(stem):
            p, q = n / len(stems), n_source / len(source.text.stems)
            similarity -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
    return similarity


def _amount(judged: JudgedText, _: Source) -> Iterable[float]:
    return (math.log1p(total_weight(set(judged.text.stems))), math.log(len(judged.text.words) + 2))


def _focus(judged: JudgedText, document: Source) -> Iterable[float]:
    salience, mean = document.salience, 1 / document.n_salient
    shares = [
        [min(2.5, salience.get(stem, 0.0) / mean) for stem in sentence.stems]
        for sentence in judged.sentences
    ]
    values = [value for sentence in shares for value in sentence]
    least = min([sum(s) / len(s) for s in shares if len(s) > 2], default=0.6)
    return sum(values) / max(1, len(values)), least


def _answer(judged: JudgedText, turns: Source) -> Iterable[float]:
    words = judged.text.words
    salience = (judged.last_turn or turns).salience
    taken_up = math.fsum([salience.get(stem, 0.0) for stem in set(judged.text.stems)])
    start = " ".join(words[:40])
    return (
        taken_up / (math.fsum(salience.values()) or 1.0),
        len(words) < 6 or any(refusal in start for refusal in _REFUSALS),
    )


_REFUSALS = (
    *("i cannot", "i can not", "i ca n't", "i am sorry", "as an ai", "i am unable", "unable to"),
    *("i do n't know", "i do not know", "i 'm not sure", "not sure what", "no idea"),
)


def _support(judged: JudgedText, source: Source) -> Iterable[float]:
    sizes = [len(sentence.stems) for sentence in judged.sentences]
    shares = [match.share for match in judged.matches]
    trigrams, known = judged.text.trigrams, source.trigrams
    return (
        sum([share * n for share, n in zip(shares, sizes, strict=True)]) / (sum(sizes) or 1),
        min([share for share, n in zip(shares, sizes, strict=True) if n > 1], default=0.5),
        sum([trigram in known for trigram in trigrams]) / max(1, len(trigrams)),
        _closeness(judged, source),
    )


def _closeness(judged: JudgedText, source: Source) -> float:
    """The share of neighbouring content words that stand close together in the source too."""
    sentences_with = source.sentences_with
    pairs = [pair for sentence in judged.sentences for pair in pairwise(sentence.stems)]
    together = 0
    for first, second in pairs:
        if (ones := sentences_with.get(first)) and (others := sentences_with.get(second)):
            near = {place for other in others for place in (other - 1, other, other + 1)}
            together += not near.isdisjoint(ones)
    return together / max(1, len(pairs))


def _use(judged: JudgedText, turns: Source) -> Iterable[float]:
    given = judged.knowledge or judged.document or turns
    new = set(judged.text.stems).difference(turns.sentences_with)
    used = total_weight(new.intersection(given.sentences_with))
    taken = [b for b in judged.text.bigrams if b in given.bigrams and not FUNCTION.issuperset(b)]
    return math.log1p(used), used / (total_weight(new) or 1.0), math.log1p(len(taken))


def _truth(judged: JudgedText, source: Source) -> Iterable[float]:
    """Numbers that the source has nowhere, and names, which a capital within a sentence shows."""
    faults = 0.0
    for sentence in judged.sentences:
        new = 0.0
        for token in sentence.tokens[1:]:
            if (token[0].isdigit() or token[0].isupper()) and token.lower() not in source.words:
                word = token.lower()
                if word not in FUNCTION and stem_of(word) not in source.sentences_with:
                    new += 1.0 if word[0].isdigit() else 0.5
        faults += min(2.0, new)
    return (faults / (len(judged.sentences) + 1),)


def _order(judged: JudgedText, document: Source) -> Iterable[float]:
    places = [match.index for match in judged.matches if match.share > 0.2]
    lateness = math.fsum([math.log1p(place) for place in places]) / max(1, len(places))
    if len(places) < 2:
        return 0.25, 0.4, lateness if places else 2.0
    back = [a > b for a, b in combinations(places, 2)]
    far = min(12, len(document.text.sentences))
    leaps = [min(1.0, abs(b - a - 1) / far) for a, b in pairwise(places)]
    return sum(back) / len(back), sum(leaps) / len(leaps), lateness


def _connection(judged: JudgedText) -> Iterable[float]:
    sentences, n = judged.sentences, len(judged.sentences)
    if n == 1:
        return 0.4, 0.0, 0.0
    links = [_link(a, b) for a, b in pairwise(sentences)]
    openings = Counter(
        tuple([word for word in sentence.words[:4] if word not in FUNCTION][:2])
        for sentence in sentences
    )
    return (
        sum(links) / len(links),
        sum([k * (k - 1) / 2 for k in openings.values()]) / n,
        sum([len(sentence.words) < 9 for sentence in sentences]) / n,
    )


def _link(first: Sentence, second: Sentence) -> float:
    """How a sentence takes up the one before: by a shared word, or by one that points back."""
    stems, next_stems = set(first.stems), set(second.stems)
    connects = not ENGLISH["connectives"].isdisjoint(second.words[:2])
    link = 0.5 * min(1.0, total_weight(stems & next_stems)) + 0.5 * connects
    return link * (1.0 if len(next_stems - stems) > 1 else 0.5)


def _unity(judged: JudgedText, _: Source) -> Iterable[float]:
    """How close in the document neighbouring sentences stand, and how many joints may fail."""
    steps = [
        1 / (1 + abs(b.index - a.index - 1) / 1.5) if min(a.index, b.index) >= 0 else 0.0
        for a, b in pairwise(judged.matches)
    ]
    proximity = sum(steps) / len(steps) if steps else 0.6
    return proximity, math.log(len(judged.sentences))


def _rewording(judged: JudgedText, document: Source) -> Iterable[float]:
    bigrams, known = judged.text.bigrams, document.bigrams
    new = sum([bigram not in known for bigram in bigrams]) / max(1, len(bigrams))
    # Beyond some wording of its own, more of it says nothing.
    return (min(new, 0.3) if bigrams else 0.14,)


def _repetition(judged: JudgedText) -> Iterable[float]:
    stem_sets = [set(sentence.stems) for sentence in judged.sentences]
    overlaps = [
        total_weight(both) / min(total_weight(a), total_weight(b))
        for a, b in combinations(stem_sets, 2)
        if min(len(a), len(b)) > 1 and (both := a & b)
    ]
    stems = judged.text.stems
    trigrams = [three for three in judged.text.trigrams if not FUNCTION.issuperset(three)]
    return (
        _repeated(stems),
        _repeated(list(pairwise(stems))),
        _repeated(trigrams),
        max(overlaps, default=0.0),
    )


def _repeated(items: Sequence[object]) -> float:
    """The share of items that were there before."""
    return (len(items) - len(set(items))) / max(4, len(items))


def _echo(judged: JudgedText, turns: Source) -> Iterable[float]:
    trigrams, known = judged.text.trigrams, turns.trigrams
    return (sum([trigram in known for trigram in trigrams]) / max(3, len(trigrams)),)


# Below this share of English small words a text is not judged by English grammar.
MIN_ENGLISH_SHARE = 0.1
# From how many words on a sentence runs on, and the fault that each more is.
LONG, RUN_ON = 25, 0.04
_ARTICLES, _DETERMINERS = ENGLISH["articles"], ENGLISH["determiners"]
_SUBJECTS, _FINITE, _MODALS = ENGLISH["subjects"], ENGLISH["finite"], ENGLISH["modals"]
_PREPOSITIONS, _CONJUNCTIONS = ENGLISH["strict-prepositions"], ENGLISH["conjunctions"]
# Words that are a fault where the second follows the first, and its gravity; of several lines for
# the same two words the first counts.
_PAIR_FAULT_TABLE: tuple[tuple[AbstractSet[str], AbstractSet[str], float], ...] = (
    (
        _DETERMINERS,
        _FINITE
        | _MODALS
        | _SUBJECTS
        | ENGLISH["objects"]
        | _CONJUNCTIONS
        | _ARTICLES
        | {"to", "of", "at", "from"},
        1.0,
    ),
    (_PREPOSITIONS, _SUBJECTS | _FINITE | _MODALS, 0.8),
    ({"'d", "'ll"}, _ARTICLES, 0.3),
    (_MODALS, _MODALS | _FINITE | _ARTICLES, 0.8),
    ({"had"}, {"had"}, 0.0),
    (_FINITE, _FINITE, 0.8),
    (_SUBJECTS, _SUBJECTS | _ARTICLES | _PREPOSITIONS, 0.8),
    (_CONJUNCTIONS - {"nor"}, _CONJUNCTIONS - {"nor"}, 0.5),
    ({"he", "she", "it"}, {"are", "were", "have", "do", "am"}, 0.7),
    ({"we", "they", "you"}, {"is", "was", "has", "does", "am"}, 0.8),
    ({"i"}, {"is", "are", "has", "does"}, 0.8),
)
_PAIR_FAULTS = {
    pair: fault
    for firsts, seconds, fault in reversed(_PAIR_FAULT_TABLE)
    for pair in product(firsts, seconds)
}
_NEEDS_MORE = _ARTICLES | _PREPOSITIONS | _CONJUNCTIONS | {"my", "your", "our", "their", "its"}
_STRAY = frozenset("�<>|\\^~*_{}@")
_CLOSING = frozenset(",;:.!?")


def _grammar(judged: JudgedText) -> Iterable[float]:
    sentences, words = judged.sentences, judged.text.words
    faults = [0.0]
    if sum([word in FUNCTION for word in words]) >= MIN_ENGLISH_SHARE * len(words):
        faults = [min(2.5, _faults(sentence)) for sentence in sentences]
    # A reader remembers how many faults there were as well as how dense they stood.
    return (
        sum(faults) / math.sqrt(len(faults)),
        max(faults),
        sum([_careless(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_stop and (len(words) > 2 or len(sentences) > 1),
    )


def _faults(sentence: Sentence) -> float:
    """One sentence's faults of grammar, each by its gravity."""
    words = sentence.words
    faults = RUN_ON * max(0, min(30, len(words) - LONG))
    for pair in pairwise(words):
        faults += _PAIR_FAULTS.get(pair, 0.0)
        if pair[0] == pair[1] and pair[0].isalpha() and pair[0] not in ENGLISH["doubled"]:
            faults += 1.0
    if len(words) > 3:
        faults += 0.8 * (not any(map(_may_be_verb, words)))
    if words[-1] in _NEEDS_MORE:
        faults += 1.2
    if (words[0] in _FINITE or words[0] in {"said", "says", "told"}) and "?" not in sentence.tokens:
        faults += 0.7
    if len(words) > 7:
        # A long sentence with hardly a small word has lost its articles and prepositions.
        faults += 3 * max(0.0, 0.24 - sum([word in FUNCTION for word in words]) / len(words))
    return faults + _close_repetitions(sentence.stems)


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Whether a word may be a verb: many a verb ends in -s, though so does many a noun."""
    return (
        word in ENGLISH["auxiliaries"]
        or word in ENGLISH["verbs"]
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _close_repetitions(stems: Sequence[str]) -> float:
    """A content word that comes back within a few words, as no writer lets it."""
    if len(set(stems)) == len(stems):
        return 0.0
    faults = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, index - 8) : index]:
            faults += 0.35 if stem in stems[max(0, index - 3) : index] else 0.2
    return min(1.0, faults)


def _careless(sentence: Sentence) -> float:
    """One sentence's faults of form: marks and characters, by their gravity."""
    tokens = sentence.tokens
    faults = 0.25 * (not sentence.has_stop and len(sentence.words) > 3)
    faults += 0.4 * (tokens[0] in _CLOSING) + 0.5 * (tokens[-1] in ",;:")
    faults += 0.5 * (tokens.count("(") != tokens.count(")"))
    faults += 0.35 * tokens[0][0].islower()
    for token, after in zip(tokens, (*tokens[1:], ""), strict=True):
        if token in _STRAY or token in {"UNK", "unk"}:
            faults += 0.6
        elif token in _CLOSING and (
            (after in _CLOSING and after != token) or (token == "." and after[:1].islower())
        ):
            faults += 0.4
    return min(2.0, faults)


def _style(judged: JudgedText) -> Iterable[float]:
    text = judged.text
    words, stems, n = text.words, text.stems, len(text.sentences)
    return (
        math.log(len(words) / n + 1),
        # Types per root of tokens hardly depend on length.
        len(set(stems)) / math.sqrt(max(1, len(stems))),
        sum(map(len, words)) / len(words),
        1 - len({sentence.words[0] for sentence in text.sentences}) / n,
    )


class Part(NamedTuple):
    """What a measure gives for ordinary texts, and its share in the facet; sd < 0: less is better."""

    mean: float
    sd: float
    share: float


class Measure(NamedTuple):
    """A function of a judged text that gives `parts`; without the source that it needs, all 0."""

    function: Callable[..., Iterable[float]]
    needs: Literal["", "document", "turns", "source"]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet of quality: how it is measured, named, and weighed.

    `asks` names it in an instruction, after "whether the text", in words that read back as the
    same facet; `strength` and `weakness` name it in a comparison. `halo` is its part in any overall
    impression of a text made from a document, `talk` in that of a turn or an answer. Being better
    than usual earns `bonus` times what being worse costs. `content` tells what is said from how.
    """

    name: str
    asks: str
    strength: str
    weakness: str
    measures: tuple[Measure, ...]
    halo: float
    talk: float
    bonus: float
    content: bool = False


FACETS = (
    # How much of what matters in the document the text says; in talk, how much it says at all.
    Facet(
        "coverage",
        "covers the main points",
        "covers more of what matters",
        "misses main points",
        (
            Measure(
                _coverage,
                "document",
                (Part(0.5, 0.12, 0.5), Part(0.45, 0.16, 0.25), Part(0.6, 0.17, 0.3)),
            ),
            Measure(_amount, "turns", (Part(1.8, 0.6, 0.8), Part(3.0, 0.5, 0.4))),
        ),
        halo=0.8,
        talk=0.6,
        bonus=1.0,
        content=True,
    ),
    # How much of what the text says matters in the document; in talk, how it takes up the last turn.
    Facet(
        "focus",
        "leaves out unimportant details",
        "keeps to what matters",
        "dwells on side issues",
        (
            Measure(_focus, "document", (Part(0.8, 0.2, 0.5), Part(0.6, 0.25, 0.25))),
            Measure(_answer, "turns", (Part(0.15, 0.2, 0.6), Part(0.1, -0.6, 0.6))),
        ),
        halo=0.3,
        talk=0.4,
        bonus=1.0,
        content=True,
    ),
    # How far the source says what the text says, in its words; in talk, how much it draws on it.
    Facet(
        "support",
        "is supported by the source",
        "stays with its source",
        "lacks support in its source",
        (
            Measure(
                _support,
                "source",
                (
                    *(Part(0.65, 0.25, 0.3), Part(0.5, 0.25, 0.35)),
                    *(Part(0.5, 0.28, 0.35), Part(0.75, 0.2, 0.3)),
                ),
            ),
            Measure(
                _use, "turns", (Part(0.8, 0.8, 0.6), Part(0.35, 0.35, 0.3), Part(0.8, 0.9, 0.4))
            ),
        ),
        halo=0.2,
        talk=0.4,
        bonus=1.0,
        content=True,
    ),
    # How few numbers and names stand in the text and nowhere in the source.
    Facet(
        "truth",
        "contradicts no number, name or fact",
        "gets the facts right",
        "alters facts",
        (Measure(_truth, "source", (Part(0.05, -0.3, 1.0),)),),
        halo=0.1,
        talk=0.1,
        bonus=1.0,
        content=True,
    ),
    # How far sentences keep the document's order, start near its start and leap little.
    Facet(
        "order",
        "follows a logical order",
        "has a clear order",
        "jumps about",
        (
            Measure(
                _order,
                "document",
                (Part(0.25, -0.3, 0.45), Part(0.35, -0.27, 0.45), Part(1.2, -0.7, 0.6)),
            ),
        ),
        halo=0.4,
        talk=0.0,
        bonus=0.3,
    ),
    # How each sentence takes up the one before: what could be shuffled is a list.
    Facet(
        "connection",
        "connects its sentences",
        "hangs together",
        "hangs together badly",
        (
            Measure(
                _connection, "", (Part(0.4, 0.3, 0.5), Part(0.03, -0.1, 0.2), Part(0.1, -0.2, 0.35))
            ),
            Measure(_unity, "document", (Part(0.55, 0.35, 0.7), Part(1.05, -0.4, 0.6))),
        ),
        halo=0.5,
        talk=0.1,
        bonus=0.3,
    ),
    # How far a text says it anew: pasted sentences take no heed of each other.
    Facet(
        "rewording",
        "tells it in its own words",
        "tells it in its own words",
        "is pasted from its source",
        (Measure(_rewording, "document", (Part(0.14, 0.1, 1.0),)),),
        halo=0.8,
        talk=0.0,
        bonus=1.0,
    ),
    # How little is said twice; in talk, how little of it was said in a turn before.
    Facet(
        "repetition",
        "avoids repetition",
        "says nothing twice",
        "repeats itself",
        (
            Measure(
                _repetition,
                "",
                (
                    *(Part(0.12, -0.1, 0.6), Part(0.02, -0.08, 0.7)),
                    *(Part(0.02, -0.08, 0.5), Part(0.3, -0.3, 0.6)),
                ),
            ),
            Measure(_echo, "turns", (Part(0.05, -0.2, 0.5),)),
        ),
        halo=0.5,
        talk=0.4,
        bonus=0.3,
    ),
    # How few faults of grammar, marks and characters there are.
    Facet(
        "grammar",
        "is grammatical",
        "has better grammar",
        "has broken grammar",
        (
            Measure(
                _grammar,
                "",
                (
                    *(Part(0.2, -0.7, 1.4), Part(0.3, -0.7, 0.6)),
                    *(Part(0.07, -0.3, 0.8), Part(0.1, -0.7, 0.4)),
                ),
            ),
        ),
        halo=0.6,
        talk=0.6,
        bonus=0.2,
    ),
    # How full the sentences and how varied the words are, as marks of a practised writer.
    Facet(
        "style",
        "is written in full, varied sentences",
        "is better written",
        "is written poorly",
        (
            Measure(
                _style,
                "",
                (
                    *(Part(2.9, 0.35, 0.6), Part(4.8, 1.0, 0.5)),
                    *(Part(4.6, 0.5, 0.2), Part(0.1, -0.2, 0.4)),
                ),
            ),
        ),
        halo=1.0,
        talk=0.6,
        bonus=0.3,
    ),
)
NAMES = tuple(facet.name for facet in FACETS)
INDEX = {name: index for index, name in enumerate(NAMES)}
_MEASURES = [measure for facet in FACETS for measure in facet.measures]
_PARTS = [part for measure in _MEASURES for part in measure.parts]
_MEANS, _SDS, SHARES = np.array(_PARTS).T
# The index of the facet that each part belongs to.
FACET_OF = np.repeat(
    np.arange(len(FACETS)),
    [sum(len(measure.parts) for measure in facet.measures) for facet in FACETS],
)
_BONUSES = np.array([facet.bonus for facet in FACETS])[FACET_OF]
# No part counts beyond so many spreads; a text without words has nothing good: this on every part.
FARTHEST, EMPTY = 3.0, -2.0


@remember(4096)
def measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, in spreads of ordinary texts; "" stands for a source not given."""
    judged = _read(text, document, turns, knowledge)
    if not judged.sentences:
        parts = np.full(len(_PARTS), EMPTY)
    else:
        values: list[float] = []
        for one in _MEASURES:
            source = getattr(judged, one.needs) if one.needs else None
            if one.needs and source is None:
                values += [math.nan] * len(one.parts)
            else:
                values += one.function(judged, source) if one.needs else one.function(judged)
        parts = np.nan_to_num(((np.array(values) - _MEANS) / _SDS).clip(-FARTHEST, FARTHEST))
        parts = np.where(parts > 0, _BONUSES * parts, parts)
    parts.setflags(write=False)
    return parts


def _read(text: str, document: str, turns: str, knowledge: str) -> JudgedText:
    last_turn = turns.strip().rpartition("\n")[2]
    sources = [source for source in (document, turns, knowledge) if source]
    return JudgedText(
        read_text(text),
        document=read_source(document),
        turns=read_source(turns),
        last_turn=read_source(last_turn),
        knowledge=read_source(knowledge),
        source=read_source("\n".join(sources)),
    )


Shares = dict[int, float]


def _read_names() -> tuple[dict[str, Shares], dict[str, Shares], dict[str, Shares]]:
    """The words, the beginnings of words and the patterns of phrases that name facets."""
    words: dict[str, Shares] = {}
    beginnings: dict[str, Shares] = {}
    phrases: dict[str, Shares] = {}
    for row, names in read_table("facet_words.txt"):
        shares = {INDEX[name]: float(part) for name, part in (x.split("=") for x in row.split())}
        for phrase in re.findall(r'"([^"]+)"', names):
            phrases[phrase] = shares
        for word in re.sub(r'"[^"]+"', "", names).split():
            words[word.removesuffix(".")] = shares
            if not word.endswith("."):
                beginnings[word] = shares
    return words, beginnings, phrases


_WORDS, _BEGINNINGS, _PHRASES = _read_names()
_MIN_BEGINNING, _MAX_BEGINNING = min(map(len, _BEGINNINGS)), max(map(len, _BEGINNINGS))
_PHRASE = re.compile("|".join(rf"(\b{phrase}\b)" for phrase in _PHRASES))
_PHRASE_SHARES = list(_PHRASES.values())
# How much an instruction stresses what follows, until the next such word or the clause's end.
_INTENSITIES = {
    r"above all(?: else)?|most of all|mainly|chiefly|primarily|foremost|first and foremost"
    r"|(?:most|very) heavily|more than anything(?: else)?|decisive\w*": 3.0,
    r"especially|particularly|strongly|heavily|strictly|severely|sharply|closely|very much": 1.8,
    r"also|somewhat|slightly|a little|as well|less|lightly|to a (?:lesser|smaller)"
    r" (?:degree|extent)|secondly|secondarily|in passing": 0.6,
    r"(?:give |put )?(?:very )?little (?:weight|importance|attention)(?: (?:to|on))?"
    r"|hardly|barely|only a little": 0.25,
    r"ignor\w*|disregard\w*|regardless of|irrespective of|leav\w+ aside|never mind"
    r"|(?:do|does|should) not (?:judge|consider|penali[sz]e|weigh|reward|mind)"
    r"|don't (?:judge|consider|penali[sz]e|weigh)"
    r"|(?:no|without any) (?:weight|regard)(?: (?:to|on|for))?"
    r"|(?:do|does) not lower the (?:rating|score) for": 0.0,
}
_INTENSIFIER = re.compile("|".join(rf"(\b(?:{words})\b)" for words in _INTENSITIES))
_FACTORS = list(_INTENSITIES.values())
_CLAUSE_END = re.compile(r"[.;:!?\n]+|\b(?:but|whereas|while|though|although)\b")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
# Ignored facets keep a little, since raters rarely forget a fault.
IGNORED = 0.1
# The tenth mention of a facet adds less than the first.
GROWTH = 0.5
# What any overall impression adds to the facets that are asked for, and what it adds less where
# facts are to be checked: that is analytic work, which an impression colours little.
IMPRESSION, CHECKING = 1.3, 0.85
_HALO: Vector = np.array([facet.halo for facet in FACETS])
_TALK: Vector = np.array([facet.talk for facet in FACETS])
_CONTENT = np.array([facet.content for facet in FACETS])
_CHECKED = np.isin(NAMES, ("support", "truth"))


def emphases(texts: Sequence[tuple[str, float]], *, is_talk: bool) -> Vector:
    """Weights on the facets: what the texts ask for, each by its part, on an overall impression.

    Where no word names a facet, the overall impression alone decides.
    """
    requested = np.zeros(len(FACETS))
    ignored: set[int] = set()
    for text, part in texts:
        amounts, unwanted = read_amounts(text)
        grown = np.sign(amounts) * np.abs(amounts) ** GROWTH
        requested += part * grown / (np.abs(grown).sum() or 1.0)
        ignored |= unwanted
    requested /= np.abs(requested).sum() or 1.0
    amounts = np.abs(requested)
    impression = IMPRESSION * (1 - CHECKING * amounts[_CHECKED].sum())
    if is_talk:
        weights = requested + impression * _TALK / _TALK.sum()
    else:
        # Content colours a judgement in the measure that content is asked for.
        part = amounts[_CONTENT].sum() if amounts.any() else 1.0
        weights = requested + impression * np.where(_CONTENT, part * _HALO, _HALO) / _HALO.sum()
    weights[list(ignored)] *= IGNORED
    return np.asarray(weights)


def read_amounts(text: str) -> tuple[Vector, set[int]]:
    """How much of each facet a text names, and the facets that it says to ignore."""
    total, ignored = np.zeros(len(FACETS)), set()
    for clause in _CLAUSE_END.split(text.lower()):
        intensities = [(m.start(), _FACTORS[_group(m)]) for m in _INTENSIFIER.finditer(clause)]
        clause = _INTENSIFIER.sub(_blank, clause)
        named = [(m.start(), _PHRASE_SHARES[_group(m)]) for m in _PHRASE.finditer(clause)]
        clause = _PHRASE.sub(_blank, clause)
        named += [(m.start(), _shares_of(m[0])) for m in _WORD.finditer(clause)]
        factor = 1.0
        for start, shares in sorted(named, key=lambda item: item[0]):
            while intensities and intensities[0][0] < start:
                factor = intensities.pop(0)[1]
            for index, share in shares.items():
                total[index] += factor * share
                if factor == 0.0 and share >= 0.3:
                    ignored.add(index)
    return total, ignored


def _group(match: re.Match[str]) -> int:
    """The number, from 0, of the alternative that matched."""
    return (match.lastindex or 1) - 1


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _shares_of(word: str) -> Shares:
    """What a word names: it is listed, or else its longest beginning is."""
    if word in _WORDS:
        return _WORDS[word]
    for end in range(min(len(word) - 1, _MAX_BEGINNING), _MIN_BEGINNING - 1, -1):
        if word[:end] in _BEGINNINGS:
            return _BEGINNINGS[word[:end]]
    return {}
