"""The ten facets of quality: how each is measured, and how much of each a prompt asks for."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
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


@dataclass(frozen=True, slots=True)
class JudgedText:
    """A judged text with what it was made from (`document`) or answers (`turns`).

    last_turn, knowledge: the last of the turns, the facts given. source: all of these.
    stems: how often each stem stands in it, in the order of the text.
    """

    text: Text
    sentences: list[Sentence]
    stems: Counter[str]
    matches: list[Match]
    document: Source | None
    turns: Source | None
    last_turn: Source | None
    knowledge: Source | None
    source: Source | None


def _match(sentence: Sentence, source: Source) -> Match:
    """The first source sentence that shares nearly the most weight of stems."""
    shared: dict[int, float] = defaultdict(float)
    total = 0.0
    for stem in dict.fromkeys(sentence.stems):
        stem_weight = weight(stem)
        total += stem_weight
        for index in source.places.get(stem, ()):
            shared[index] += stem_weight
    if not shared:
        return Match(-1, 0.0, shared)
    # Articles say a thing first in short and later again: of near equals the first is meant.
    enough = 0.85 * max(shared.values())
    best = min([index for index, value in shared.items() if value >= enough])
    return Match(best, shared[best] / total, shared)


def _content(judged: JudgedText, document: Source) -> Iterable[float]:
    """How like the document's the text's stems are, what part it says, and how salient they are.

    The likeness is 1 - the Jensen-Shannon divergence in bits, summed over the text's stems. Of
    measures that need no reference it ranks summarizers most like people's judgements of content
    (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    n_stems, frequency = len(judged.text.stems), document.frequency
    likeness = salience = 0.0
    for stem, n in judged.stems.items():
        if stem in frequency:
            p, q = n / n_stems, frequency[stem] / document.n_stems
            likeness -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
            salience += p * min(2.5, document.salience[stem] * document.n_salient)
    shared: dict[int, float] = defaultdict(float)
    for match in judged.matches:
        for index, value in match.weights.items():
            shared[index] = max(shared[index], value)
    # Where facts are given, too, the source has more sentences than its document.
    pairs = [(n, *document.points[at]) for at, n in shared.items() if at < len(document.points)]
    said = [says * min(1.0, n / enough) for n, says, enough in pairs]
    return likeness, sum(said), salience


def _support(judged: JudgedText, source: Source) -> Iterable[float]:
    """What of a mean sentence, and what of the word pairs, the source has, or has not; new names.

    Names, which a capital within a sentence shows, and numbers count as new where it has them
    nowhere.
    """
    sizes = [len(sentence.stems) for sentence in judged.sentences]
    found = sum([match.share * n for match, n in zip(judged.matches, sizes, strict=True)])
    bigrams = judged.text.bigrams
    known = sum([bigram in source.bigrams for bigram in bigrams]) / max(1, len(bigrams))
    faults = 0.0
    for sentence in judged.sentences:
        new = 0.0
        for token in sentence.tokens[1:]:
            if token[0].isdigit() or token[0].isupper():
                word = token.lower()
                if not (
                    word in source.words or word in FUNCTION or stem_of(word) in source.frequency
                ):
                    new += 1.0 if word[0].isdigit() else 0.5
        faults += min(2.0, new)
    # Of new word pairs, beyond some more say nothing.
    return found / (sum(sizes) or 1), known, min(1 - known, 0.3), faults / (len(sizes) + 1)


def _answer(judged: JudgedText, turns: Source) -> Iterable[float]:
    """How much a turn says, takes up of the last one, and uses of the facts that no turn said."""
    stems, salience = judged.stems, (judged.last_turn or turns).salience
    taken_up = sum([salience.get(stem, 0.0) for stem in stems]) / (sum(salience.values()) or 1.0)
    given, old = (judged.knowledge or judged.document or turns).frequency, turns.frequency
    used = total_weight([stem for stem in stems if stem in given and stem not in old])
    return math.log1p(total_weight(stems)), taken_up, math.log1p(used)


def _order(judged: JudgedText, document: Source) -> Iterable[float]:
    """How often the text goes back in the document, how late it starts, how near its steps are.

    Last, how many joints of two sentences may fail.
    """
    places = [match.place for match in judged.matches if match.share > 0.2]
    back = [a > b for a, b in combinations(places, 2)]
    lateness = sum([math.log1p(place) for place in places]) / len(places) if places else 2.0
    steps = [
        1 / (1 + abs(b.place - a.place - 1) / 1.5) if min(a.place, b.place) >= 0 else 0.0
        for a, b in pairwise(judged.matches)
    ]
    return (
        sum(back) / len(back) if back else 0.25,
        lateness,
        sum(steps) / len(steps) if steps else 0.6,
        math.log(len(judged.sentences)),
    )


def _wording(judged: JudgedText, _: str) -> Iterable[float]:
    """Links from sentence to sentence, scraps; what was said before; fullness, variety, openings.

    A link is a word shared with the sentence before, or one that points back to it.
    """
    text, stems, sentences = judged.text, judged.text.stems, judged.sentences
    links, scraps = [0.4], 0
    if len(sentences) > 1:
        links, scraps = [], sum([len(sentence.words) < 9 for sentence in sentences])
    for first, second in pairwise(sentences):
        kinds, before = dict.fromkeys(second.stems), set(first.stems)
        shared = [stem for stem in kinds if stem in before]
        link = 0.5 * min(1.0, total_weight(shared))
        link += 0.5 * (not ENGLISH["connectives"].isdisjoint(second.words[:2]))
        # Nothing new is no step on.
        links.append(link * (1.0 if len(kinds) - len(shared) > 1 else 0.5))
    pairs = list(pairwise(stems))
    return (
        sum(links) / len(links),
        scraps / len(sentences),
        (len(stems) - len(judged.stems)) / max(4, len(stems)),
        (len(pairs) - len(set(pairs))) / max(4, len(pairs)),
        math.log(len(text.words) / len(text.sentences) + 1),
        # Types per root of tokens hardly depend on length.
        len(judged.stems) / math.sqrt(max(1, len(stems))),
        1 - len({sentence.words[0] for sentence in sentences}) / len(sentences),
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
    (_MODALS, _MODALS | _FINITE | _ARTICLES, 0.8),
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


def _grammar(judged: JudgedText, _: str) -> Iterable[float]:
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


class Facet(NamedTuple):
    """What a facet weighs in any overall impression, and what more of it earns.

    is_content: whether it is of what is said, of which the rest tells how. halo: what it weighs for
    a text made from a document; talk: for a turn or an answer. bonus: what being better than usual
    earns where being worse costs 1; what readers take for granted earns little.
    """

    is_content: bool
    halo: float
    talk: float
    bonus: float


FACETS = {
    # How much of what matters in the document the text says; in talk, how much it says at all.
    "coverage": Facet(True, 0.8, 0.6, 1.0),
    # How much of what the text says matters in the document; in talk, how it takes up the turn.
    "focus": Facet(True, 0.3, 0.4, 1.0),
    # How far the source says what the text says; in talk, how much of the source it uses.
    "support": Facet(True, 0.2, 0.4, 1.0),
    # How few numbers and names stand in the text and nowhere in the source.
    "truth": Facet(True, 0.1, 0.1, 1.0),
    # How far sentences keep the document's order and start near its start.
    "order": Facet(False, 0.4, 0.0, 0.3),
    # How each sentence takes up the one before: what could be shuffled is a list.
    "connection": Facet(False, 0.5, 0.1, 0.3),
    # How far a text says it anew: pasted sentences take no heed of each other.
    "rewording": Facet(False, 0.8, 0.0, 1.0),
    # How little is said twice: a repeated sentence wastes the reader's time.
    "repetition": Facet(False, 0.5, 0.4, 0.3),
    # How few faults of grammar, marks and characters there are.
    "grammar": Facet(False, 0.6, 0.6, 0.2),
    # How full the sentences and how varied the words are, as marks of a practised writer.
    "style": Facet(False, 1.0, 0.6, 0.3),
}
NAMES = tuple(FACETS)
INDEX = {name: index for index, name in enumerate(NAMES)}
_CONTENT, _HALO, _TALK, _BONUS = np.array(list(FACETS.values()), dtype=np.float64).T


class Part(NamedTuple):
    """A figure of a facet: the mean and SD of ordinary texts, and what one SD of it counts for.

    The SD is below 0 where less is better.
    """

    facet: str
    mean: float
    sd: float
    share: float


class Measure(NamedTuple):
    """A function that gives `n` parts: nothing without the source that it needs."""

    function: Callable[..., Iterable[float]]
    needs: Literal["", "document", "turns", "source"]
    n: int


MEASURES = (
    Measure(_content, "document", 3),
    Measure(_order, "document", 4),
    Measure(_support, "source", 4),
    Measure(_answer, "turns", 3),
    Measure(_wording, "", 7),
    Measure(_grammar, "", 3),
)
PARTS = (
    # Of a document: likeness, part said, mean salience; steps back, lateness, nearness, joints.
    Part("coverage", 0.5, 0.12, 0.6),
    Part("coverage", 0.6, 0.17, 0.4),
    Part("focus", 0.8, 0.2, 0.6),
    Part("order", 0.25, -0.3, 0.6),
    Part("order", 1.2, -0.7, 0.6),
    Part("connection", 0.55, 0.35, 0.7),
    Part("connection", 1.05, -0.4, 0.6),
    # Of all sources: sentences and word pairs that they have, pairs and names that they have not.
    Part("support", 0.65, 0.25, 0.6),
    Part("support", 0.6, 0.25, 0.6),
    Part("rewording", 0.14, 0.1, 1.0),
    Part("truth", 0.05, -0.3, 1.0),
    # Of a turn: how much is said, taken up and used.
    Part("coverage", 1.8, 0.6, 1.0),
    Part("focus", 0.15, 0.2, 0.6),
    Part("support", 0.8, 0.8, 1.0),
    # Of any text: links, scraps; stems, pairs said twice; fullness, variety, openings; faults of
    # grammar, of form, a broken end.
    Part("connection", 0.4, 0.3, 0.5),
    Part("connection", 0.1, -0.2, 0.4),
    Part("repetition", 0.12, -0.1, 1.0),
    Part("repetition", 0.02, -0.08, 1.0),
    Part("style", 2.9, 0.35, 0.7),
    Part("style", 4.8, 1.0, 0.5),
    Part("style", 0.1, -0.2, 0.4),
    Part("grammar", 0.2, -0.7, 1.4),
    Part("grammar", 0.07, -0.3, 0.8),
    Part("grammar", 0.1, -0.7, 0.4),
)
_MEANS, _SDS, SHARES = np.array([part[1:] for part in PARTS]).T
# The index of the facet that each part belongs to.
FACET_OF = np.array([INDEX[part.facet] for part in PARTS])
# No part counts beyond so many spreads; a text without words has nothing good: this on every part.
FARTHEST, EMPTY = 3.0, -2.0
# What is remembered of texts longer in sum would fill the memory.
MAX_REMEMBERED = 20_000


def measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, in spreads of ordinary texts; "" stands for a source not given."""
    n = len(text) + len(document) + len(turns) + len(knowledge)
    measured = _measure if n <= MAX_REMEMBERED else _measure.__wrapped__
    return measured(text, document, turns, knowledge)


@lru_cache(maxsize=4096)
def _measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The same, remembered: a search asks of the same texts by many prompts."""
    read = read_text(text)
    if not read.sentences:
        return np.full(len(PARTS), EMPTY)
    sentences = read.sentences[:MAX_SENTENCES]
    source = read_source("\n".join(filter(None, (document, turns, knowledge))))
    judged = JudgedText(
        text=read,
        sentences=sentences,
        stems=Counter(read.stems),
        matches=[_match(sentence, source) for sentence in sentences] if source else [],
        document=read_source(document),
        turns=read_source(turns),
        last_turn=read_source(turns.strip().rpartition("\n")[2]),
        knowledge=read_source(knowledge),
        source=source,
    )
    values: list[float] = []
    for function, needs, n in MEASURES:
        needed = getattr(judged, needs) if needs else text
        values += function(judged, needed) if needed else [math.nan] * n
    spreads = np.nan_to_num((np.array(values) - _MEANS) / _SDS).clip(-FARTHEST, FARTHEST)
    return np.asarray(np.where(spreads > 0, _BONUS[FACET_OF], 1.0) * spreads)


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
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
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
    for text, part in texts:
        amounts = read_amounts(text)
        grown = np.sign(amounts) * np.abs(amounts) ** GROWTH
        requested += part * grown / (np.abs(grown).sum() or 1.0)
    requested /= np.abs(requested).sum() or 1.0
    amounts = np.abs(requested)
    impression = IMPRESSION * (1 - CHECKING * amounts[_CHECKED].sum())
    if is_talk:
        weights = requested + impression * _TALK / _TALK.sum()
    else:
        # Content colours a judgement in the measure that content is asked for.
        part = (amounts @ _CONTENT) if amounts.any() else 1.0
        weights = requested + impression * np.where(_CONTENT, part * _HALO, _HALO) / _HALO.sum()
    return np.asarray(weights)


def read_amounts(text: str) -> Vector:
    """How much of each facet a text names."""
    total = np.zeros(len(FACETS))
    text = text.lower()
    named = [_PHRASE_SHARES[(m.lastindex or 1) - 1] for m in _PHRASE.finditer(text)]
    named += [_shares_of(m[0]) for m in _WORD.finditer(_PHRASE.sub("\n", text))]
    for shares in named:
        for index, share in shares.items():
            total[index] += share
    return total


def _shares_of(word: str) -> Shares:
    """What a word names: it is listed, or else its longest beginning is."""
    if word in _WORDS:
        return _WORDS[word]
    for end in range(min(len(word) - 1, _MAX_BEGINNING), _MIN_BEGINNING - 1, -1):
        if word[:end] in _BEGINNINGS:
            return _BEGINNINGS[word[:end]]
    return {}
