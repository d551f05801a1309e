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
# So many sentences of a text are held against its source and each other.
MAX_SENTENCES = 60


class Match(NamedTuple):
    """Where a sentence comes from.

    `place` is the index of the source sentence that shares most with it (-1: none), `share` the
    part of its weight that stands there, `weights` what each of the source's sentences shares.
    """

    place: int
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
    def stems(self) -> dict[str, int]:
        """How often each stem stands in it, in the order of the text."""
        return Counter(self.text.stems)

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
    """How the text's stems are distributed against the document's, and what part of it is said."""
    said: dict[int, float] = {}
    for match in judged.matches:
        for index, value in match.weights.items():
            if value > said.get(index, 0.0):
                said[index] = value
    points = document.points
    # A turn's source has more sentences than its document.
    parts = [
        points[index][0] * min(1.0, value / points[index][1])
        for index, value in said.items()
        if index < len(points)
    ]
    return _similarity(judged.stems, document), sum(parts)


def _similarity(stems: dict[str, int], source: Source) -> float:
    """1 - the Jensen-Shannon divergence of the text's stems from the source's, in bits.

    Of measures that need no reference it ranks summarizers most like people's judgements of
    content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    similarity, log2, frequency = 0.0, math.log2, source.frequency
    n_text, n_source = sum(stems.values()), len(source.text.stems)
    for stem, n in stems.items():
        if stem in frequency:
            p, q = n / n_text, frequency[stem] / n_source
            similarity -= 0.5 * (p * log2(p / (p + q)) + q * log2(q / (p + q)))
    return similarity


def _amount(judged: JudgedText, _: Source) -> Iterable[float]:
    """How much is said, by the weight of the words."""
    return (math.log1p(total_weight(judged.stems)),)


def _focus(judged: JudgedText, document: Source) -> Iterable[float]:
    """How much a mean stem matters in the document, in means of the document's salient ones."""
    salience, n_salient = document.salience, document.n_salient
    stems = judged.text.stems
    values = [min(2.5, salience.get(stem, 0.0) * n_salient) for stem in stems]
    return (sum(values) / max(1, len(values)),)


_REFUSALS = (
    *("i cannot", "i can not", "i ca n't", "i am sorry", "as an ai", "i am unable", "unable to"),
    *("i do n't know", "i do not know", "i 'm not sure", "not sure what", "no idea"),
)


def _answer(judged: JudgedText, turns: Source) -> Iterable[float]:
    """How much of the last turn is taken up, and whether hardly anything is said to it."""
    words = judged.text.words
    salience = (judged.last_turn or turns).salience
    taken_up = sum([salience.get(stem, 0.0) for stem in judged.stems])
    start = " ".join(words[:40])
    return (
        taken_up / (sum(salience.values()) or 1.0),
        len(words) < 6 or any(refusal in start for refusal in _REFUSALS),
    )


def _support(judged: JudgedText, source: Source) -> Iterable[float]:
    """How much of a mean sentence stands in one of the source's, and how many word pairs do."""
    sizes = [len(sentence.stems) for sentence in judged.sentences]
    shares = [match.share * n for match, n in zip(judged.matches, sizes, strict=True)]
    bigrams, known = judged.text.bigrams, source.bigrams
    n_known = sum([bigram in known for bigram in bigrams])
    return sum(shares) / (sum(sizes) or 1), n_known / max(1, len(bigrams))


def _use(judged: JudgedText, turns: Source) -> Iterable[float]:
    """What a turn takes from the facts given (or else the document) that no turn said before."""
    given = judged.knowledge or judged.document or turns
    old, known = turns.sentences_with, given.sentences_with
    used = total_weight([stem for stem in judged.stems if stem in known and stem not in old])
    taken = [pair for pair in judged.text.bigrams if pair in given.bigrams]
    n_telling = sum([not FUNCTION.issuperset(pair.split(" ")) for pair in taken])
    return math.log1p(used), math.log1p(n_telling)


def _truth(judged: JudgedText, source: Source) -> Iterable[float]:
    """Numbers that the source has nowhere, and names, which a capital within a sentence shows."""
    words, stems, faults = source.words, source.sentences_with, 0.0
    for sentence in judged.sentences:
        new = 0.0
        for token in sentence.tokens[1:]:
            if token[0].isdigit() or token[0].isupper():
                word = token.lower()
                if not (word in words or word in FUNCTION or stem_of(word) in stems):
                    new += 1.0 if word[0].isdigit() else 0.5
        faults += min(2.0, new)
    return (faults / (len(judged.sentences) + 1),)


def _order(judged: JudgedText, document: Source) -> Iterable[float]:
    """How often the text goes back in the document, how far it leaps, how late it starts."""
    places = [match.place for match in judged.matches if match.share > 0.2]
    lateness = sum([math.log1p(place) for place in places]) / max(1, len(places))
    if len(places) < 2:
        return 0.25, 0.4, lateness if places else 2.0
    back = [a > b for a, b in combinations(places, 2)]
    far = min(12, len(document.text.sentences))
    leaps = [min(1.0, abs(b - a - 1) / far) for a, b in pairwise(places)]
    return sum(back) / len(back), sum(leaps) / len(leaps), lateness


def _connection(judged: JudgedText) -> Iterable[float]:
    """How each sentence takes up the one before, and how many are scraps."""
    sentences = judged.sentences
    scraps = sum([len(sentence.words) < 9 for sentence in sentences]) / len(sentences)
    if len(sentences) == 1:
        return 0.4, 0.0
    links = [_link(a, b) for a, b in pairwise(sentences)]
    return sum(links) / len(links), scraps


def _link(first: Sentence, second: Sentence) -> float:
    """How a sentence takes up the one before: by a shared word, or by one that points back."""
    stems, before = dict.fromkeys(second.stems), set(first.stems)
    shared = [stem for stem in stems if stem in before]
    link = 0.5 * min(1.0, total_weight(shared))
    link += 0.5 * (not ENGLISH["connectives"].isdisjoint(second.words[:2]))
    # Nothing new is no step on.
    return link * (1.0 if len(stems) - len(shared) > 1 else 0.5)


def _unity(judged: JudgedText, _: Source) -> Iterable[float]:
    """How close in the document neighbouring sentences stand, and how many joints may fail."""
    steps = [
        1 / (1 + abs(b.place - a.place - 1) / 1.5) if min(a.place, b.place) >= 0 else 0.0
        for a, b in pairwise(judged.matches)
    ]
    return (sum(steps) / len(steps) if steps else 0.6), math.log(len(judged.sentences))


def _rewording(judged: JudgedText, document: Source) -> Iterable[float]:
    """The share of word pairs that are new; beyond some, more says nothing."""
    bigrams, known = judged.text.bigrams, document.bigrams
    new = sum([bigram not in known for bigram in bigrams]) / max(1, len(bigrams))
    return (min(new, 0.3) if bigrams else 0.14,)


def _repetition(judged: JudgedText) -> Iterable[float]:
    """The shares of stems, and of pairs of neighbouring stems, that were there before."""
    stems = judged.text.stems
    pairs = list(pairwise(stems))
    return (
        (len(stems) - len(judged.stems)) / max(4, len(stems)),
        (len(pairs) - len(set(pairs))) / max(4, len(pairs)),
    )


# Below this share of English small words a text is not judged by English grammar.
MIN_ENGLISH_SHARE = 0.1
# From how many words on a sentence runs on, and the fault that each more is.
LONG, RUN_ON = 25, 0.04
_ARTICLES, _DETERMINERS = ENGLISH["articles"], ENGLISH["determiners"]
_SUBJECTS, _FINITE, _MODALS = ENGLISH["subjects"], ENGLISH["finite"], ENGLISH["modals"]
_PREPOSITIONS, _CONJUNCTIONS = ENGLISH["strict-prepositions"], ENGLISH["conjunctions"]
_NO_NOUNS = _FINITE | _MODALS | _SUBJECTS | ENGLISH["objects"] | _CONJUNCTIONS | _ARTICLES
# Words that are a fault where the second follows the first, and its gravity; of several lines for
# the same two words the first counts.
_PAIR_FAULT_TABLE: tuple[tuple[AbstractSet[str], AbstractSet[str], float], ...] = (
    (_DETERMINERS, _NO_NOUNS | {"to", "of", "at", "from"}, 1.0),
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
_STRAY = frozenset({*"�<>|\\^~*_{}@", "UNK", "unk"})
_CLOSING = frozenset(",;:.!?")


def _grammar(judged: JudgedText) -> Iterable[float]:
    """Faults of grammar, faults of form, and whether the end breaks off."""
    sentences, words = judged.sentences, judged.text.words
    faults = [0.0]
    if sum([word in FUNCTION for word in words]) >= MIN_ENGLISH_SHARE * len(words):
        faults = [min(2.5, _faults(sentence)) for sentence in sentences]
    return (
        # A reader remembers how many faults there were as well as how dense they stood.
        sum(faults) / math.sqrt(len(faults)),
        sum([_careless(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_stop and (len(words) > 2 or len(sentences) > 1),
    )


def _faults(sentence: Sentence) -> float:
    """One sentence's faults of grammar, each by its gravity."""
    words = sentence.words
    faults = RUN_ON * max(0, min(30, len(words) - LONG))
    faults += sum([_pair_fault(*pair) for pair in pairwise(words)])
    if len(words) > 3 and not any(map(_may_be_verb, words)):
        faults += 0.8
    if words[-1] in _NEEDS_MORE:
        faults += 1.2
    if (words[0] in _FINITE or words[0] in {"said", "says", "told"}) and "?" not in sentence.tokens:
        faults += 0.7
    if len(words) > 7:
        # A long sentence with hardly a small word has lost its articles and prepositions.
        faults += 3 * max(0.0, 0.24 - sum([word in FUNCTION for word in words]) / len(words))
    return faults + _close_repetitions(sentence.stems)


@lru_cache(maxsize=1 << 15)
def _pair_fault(first: str, second: str) -> float:
    """How badly two neighbouring words go together."""
    if first == second and first.isalpha() and first not in ENGLISH["doubled"]:
        return 1.0
    return _PAIR_FAULTS.get((first, second), 0.0)


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
    faults += 0.5 * (tokens.count("(") != tokens.count(")")) + 0.35 * tokens[0][0].islower()
    faults += 0.6 * sum([token in _STRAY for token in tokens])
    for mark, after in pairwise(tokens):
        if mark in _CLOSING:
            doubled = after in _CLOSING and after != mark
            faults += 0.4 * (doubled or (mark == "." and after[0].islower()))
    return min(2.0, faults)


def _style(judged: JudgedText) -> Iterable[float]:
    """Words of a mean sentence, kinds of stems per root of their number, repeated openings."""
    text, n = judged.text, len(judged.text.sentences)
    openings = {sentence.words[0] for sentence in text.sentences}
    return (
        math.log(len(text.words) / n + 1),
        # Types per root of tokens hardly depend on length.
        len(judged.stems) / math.sqrt(max(1, len(text.stems))),
        1 - len(openings) / n,
    )


class Facet(NamedTuple):
    """How one facet of quality is worded.

    `asks` names it in an instruction, after "whether the text", in words that read back as the
    same facet; `strength` and `weakness` name it in a comparison.
    """

    asks: str
    strength: str
    weakness: str


FACETS = {
    # How much of what matters in the document the text says; in talk, how much it says at all.
    "coverage": Facet(
        "covers the main points", "covers more of what matters", "misses main points"
    ),
    # How much of what the text says matters in the document; in talk, how it takes up the turn.
    "focus": Facet(
        "leaves out unimportant details", "keeps to what matters", "dwells on side issues"
    ),
    # How far the source says what the text says; in talk, how much of the source it uses.
    "support": Facet(
        "is supported by the source", "stays with its source", "lacks support in its source"
    ),
    # How few numbers and names stand in the text and nowhere in the source.
    "truth": Facet("contradicts no number, name or fact", "gets the facts right", "alters facts"),
    # How far sentences keep the document's order, start near its start and leap little.
    "order": Facet("follows a logical order", "has a clear order", "jumps about"),
    # How each sentence takes up the one before: what could be shuffled is a list.
    "connection": Facet("connects its sentences", "hangs together", "hangs together badly"),
    # How far a text says it anew: pasted sentences take no heed of each other.
    "rewording": Facet(
        "tells it in its own words", "tells it in its own words", "is pasted from its source"
    ),
    # How little is said twice: a repeated sentence wastes the reader's time.
    "repetition": Facet("avoids repetition", "says nothing twice", "repeats itself"),
    # How few faults of grammar, marks and characters there are.
    "grammar": Facet("is grammatical", "has better grammar", "has broken grammar"),
    # How full the sentences and how varied the words are, as marks of a practised writer.
    "style": Facet(
        "is written in full, varied sentences", "is better written", "is written poorly"
    ),
}
NAMES = tuple(FACETS)
INDEX = {name: index for index, name in enumerate(NAMES)}
# What each facet weighs in any overall impression of a text made from a document, and of a turn or
# an answer; and what being better than usual earns where being worse costs 1. An impression owes
# most to full sentences, and to how much of a document is said, and said anew; one of a turn, to
# what it gives to go on with. Where readers take a facet for granted, more of it earns little.
_HALO, _TALK, _BONUS = np.array(
    [
        (0.8, 0.6, 1.0),  # coverage
        (0.3, 0.4, 1.0),  # focus
        (0.2, 0.4, 1.0),  # support
        (0.1, 0.1, 1.0),  # truth
        (0.4, 0.0, 0.3),  # order
        (0.5, 0.1, 0.3),  # connection
        (0.8, 0.0, 1.0),  # rewording
        (0.5, 0.4, 0.3),  # repetition
        (0.6, 0.6, 0.2),  # grammar
        (1.0, 0.6, 0.3),  # style
    ]
).T
# What is said, of which the rest tells how.
_IS_CONTENT = np.isin(NAMES, ("coverage", "focus", "support", "truth"))


class Measure(NamedTuple):
    """A function that gives parts of a facet: nothing without the source that it needs.

    Of each part stand the mean and SD of ordinary texts (below 0 where less is better), and what
    one SD of it counts for.
    """

    facet: str
    function: Callable[..., Iterable[float]]
    needs: Literal["", "document", "turns", "source"]
    parts: tuple[tuple[float, float, float], ...]


MEASURES = (
    Measure("coverage", _coverage, "document", ((0.5, 0.12, 0.6), (0.6, 0.17, 0.4))),
    Measure("coverage", _amount, "turns", ((1.8, 0.6, 1.0),)),
    Measure("focus", _focus, "document", ((0.8, 0.2, 0.6),)),
    Measure("focus", _answer, "turns", ((0.15, 0.2, 0.6), (0.1, -0.6, 0.6))),
    Measure("support", _support, "source", ((0.65, 0.25, 0.6), (0.6, 0.25, 0.6))),
    Measure("support", _use, "turns", ((0.8, 0.8, 0.7), (0.8, 0.9, 0.5))),
    Measure("truth", _truth, "source", ((0.05, -0.3, 1.0),)),
    Measure(
        "order", _order, "document", ((0.25, -0.3, 0.45), (0.35, -0.27, 0.45), (1.2, -0.7, 0.6))
    ),
    Measure("connection", _connection, "", ((0.4, 0.3, 0.5), (0.1, -0.2, 0.4))),
    Measure("connection", _unity, "document", ((0.55, 0.35, 0.7), (1.05, -0.4, 0.6))),
    Measure("rewording", _rewording, "document", ((0.14, 0.1, 1.0),)),
    Measure("repetition", _repetition, "", ((0.12, -0.1, 1.0), (0.02, -0.08, 1.0))),
    Measure("grammar", _grammar, "", ((0.2, -0.7, 1.4), (0.07, -0.3, 0.8), (0.1, -0.7, 0.4))),
    Measure("style", _style, "", ((2.9, 0.35, 0.7), (4.8, 1.0, 0.5), (0.1, -0.2, 0.4))),
)
_MEANS, _SDS, SHARES = np.array([part for measure in MEASURES for part in measure.parts]).T
# The index of the facet that each part belongs to.
FACET_OF = np.array([INDEX[one.facet] for one in MEASURES for _ in one.parts])
# No part counts beyond so many spreads; a text without words has nothing good: this on every part.
FARTHEST, EMPTY = 3.0, -2.0


@remember(4096)
def measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, in spreads of ordinary texts; "" stands for a source not given."""
    judged = _read(text, document, turns, knowledge)
    values: list[float] = []
    for one in MEASURES if judged.sentences else ():
        source = getattr(judged, one.needs) if one.needs else None
        if source is not None:
            values += one.function(judged, source)
        elif one.needs:
            values += [mean for mean, _, _ in one.parts]
        else:
            values += one.function(judged)
    parts: Vector = np.full(len(_MEANS), EMPTY)
    if values:
        parts = ((np.array(values) - _MEANS) / _SDS).clip(-FARTHEST, FARTHEST)
        parts *= np.where(parts > 0, _BONUS[FACET_OF], 1.0)
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
        part = amounts[_IS_CONTENT].sum() if amounts.any() else 1.0
        weights = requested + impression * np.where(_IS_CONTENT, part * _HALO, _HALO) / _HALO.sum()
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
