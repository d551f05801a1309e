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
# Sentences of a text that are compared with its source and each other.
MAX_SENTENCES = 60


class Match(NamedTuple):
    """The source sentence that a sentence comes from.

    `place` is the index of the source sentence that shares most with it (-1: none), `share` the
    part of its weight that is there, and `weights` the weight shared with each source sentence.
    """

    place: int
    share: float
    weights: dict[int, float]


@dataclass(frozen=True, slots=True)
class OutputText:
    """A text under judgement with the text that it was made from (`document`) or answers (`turns`).

    last_turn, knowledge: the last of the turns, the facts to use. source: all of these together.
    stems: the count of each stem, in the order of the text.
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
    overlap: dict[int, float] = defaultdict(float)
    total = 0.0
    for stem in dict.fromkeys(sentence.stems):
        stem_weight = weight(stem)
        total += stem_weight
        for index in source.places.get(stem, ()):
            overlap[index] += stem_weight
    if not overlap:
        return Match(-1, 0.0, overlap)
    # Articles state a point briefly and repeat it later: among near equals take the first.
    enough = 0.85 * max(overlap.values())
    best = min([index for index, value in overlap.items() if value >= enough])
    return Match(best, overlap[best] / total, overlap)


def _content(output: OutputText, document: Source) -> Iterable[float]:
    """The similarity of the text's stems to the document's, the part it covers, its salience.

    The similarity is 1 - the Jensen-Shannon divergence in bits, over the text's stems. Among
    measures without a reference it ranks summarizers closest to people's judgements of content
    (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    n_stems, frequency = len(output.text.stems), document.frequency
    likeness = salience = 0.0
    for stem, n in output.stems.items():
        if stem in frequency:
            p, q = n / n_stems, frequency[stem] / document.n_stems
            likeness -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
            salience += p * min(2.5, document.salience[stem] * document.n_salient)
    overlap: dict[int, float] = defaultdict(float)
    for match in output.matches:
        for index, value in match.weights.items():
            overlap[index] = max(overlap[index], value)
    # With facts, the source has more sentences than the document.
    points = [(n, *document.points[at]) for at, n in overlap.items() if at < len(document.points)]
    coverage = sum([importance * min(1.0, n / enough) for n, importance, enough in points])
    return likeness, coverage, salience


def _support(output: OutputText, source: Source) -> Iterable[float]:
    """The shares of sentences and of word pairs that the source has; new word pairs; new names.

    A number, or a name (a capital within a sentence), is new if the source has it nowhere.
    """
    sizes = [len(sentence.stems) for sentence in output.sentences]
    support = sum([match.share * n for match, n in zip(output.matches, sizes, strict=True)])
    bigrams = output.text.bigrams
    old_pairs = sum([bigram in source.bigrams for bigram in bigrams]) / max(1, len(bigrams))
    faults = 0.0
    for sentence in output.sentences:
        new = 0.0
        for token in sentence.tokens[1:]:
            if token[0].isdigit() or token[0].isupper():
                word = token.lower()
                if not (
                    word in source.words or word in FUNCTION or stem_of(word) in source.frequency
                ):
                    new += 1.0 if word[0].isdigit() else 0.5
        faults += min(2.0, new)
    # More than 30 % of new word pairs make no further difference.
    new_pairs = min(1 - old_pairs, 0.3)
    return support / (sum(sizes) or 1), old_pairs, new_pairs, faults / (len(sizes) + 1)


def _answer(output: OutputText, turns: Source) -> Iterable[float]:
    """How much a turn says, takes up of the last one, and uses of facts that no turn mentioned."""
    stems, salience = output.stems, (output.last_turn or turns).salience
    uptake = sum([salience.get(stem, 0.0) for stem in stems]) / (sum(salience.values()) or 1.0)
    facts, old = (output.knowledge or output.document or turns).frequency, turns.frequency
    use = total_weight([stem for stem in stems if stem in facts and stem not in old])
    return math.log1p(total_weight(stems)), uptake, math.log1p(use)


def _order(output: OutputText, document: Source) -> Iterable[float]:
    """Steps back in the document, lateness, nearness of steps, and the number of joints.

    A joint is between two sentences, where an order may fail.
    """
    places = [match.place for match in output.matches if match.share > 0.2]
    back = [a > b for a, b in combinations(places, 2)]
    lateness = sum([math.log1p(place) for place in places]) / len(places) if places else 2.0
    steps = [
        1 / (1 + abs(b.place - a.place - 1) / 1.5) if min(a.place, b.place) >= 0 else 0.0
        for a, b in pairwise(output.matches)
    ]
    return (
        sum(back) / len(back) if back else 0.25,
        lateness,
        sum(steps) / len(steps) if steps else 0.6,
        math.log(len(output.sentences)),
    )


def _wording(output: OutputText, _: str) -> Iterable[float]:
    """Links between sentences, scraps, repeated stems and pairs, fullness, variety, openings.

    A link is a word shared with the sentence before, or one that points back to it.
    """
    text, stems, sentences = output.text, output.text.stems, output.sentences
    links, scraps = [0.4], 0
    if len(sentences) > 1:
        links, scraps = [], sum([len(sentence.words) < 9 for sentence in sentences])
    for first, second in pairwise(sentences):
        kinds, before = dict.fromkeys(second.stems), set(first.stems)
        common = [stem for stem in kinds if stem in before]
        link = 0.5 * min(1.0, total_weight(common))
        link += 0.5 * (not ENGLISH["connectives"].isdisjoint(second.words[:2]))
        # A sentence with nothing new does not lead on.
        links.append(link * (1.0 if len(kinds) - len(common) > 1 else 0.5))
    pairs = list(pairwise(stems))
    return (
        sum(links) / len(links),
        scraps / len(sentences),
        (len(stems) - len(output.stems)) / max(4, len(stems)),
        (len(pairs) - len(set(pairs))) / max(4, len(pairs)),
        math.log(len(text.words) / len(text.sentences) + 1),
        # Types per root of tokens hardly depends on length.
        len(output.stems) / math.sqrt(max(1, len(stems))),
        1 - len({sentence.words[0] for sentence in sentences}) / len(sentences),
    )


# Share of English function words from which a text is judged by English grammar.
MIN_ENGLISH_SHARE = 0.1
# Words from which a sentence is too long, and the fault of each further word.
LONG, RUN_ON = 25, 0.04
_ARTICLES, _DETERMINERS = ENGLISH["articles"], ENGLISH["determiners"]
_SUBJECTS, _FINITE, _MODALS = ENGLISH["subjects"], ENGLISH["finite"], ENGLISH["modals"]
_PREPOSITIONS, _CONJUNCTIONS = ENGLISH["strict-prepositions"], ENGLISH["conjunctions"]
_NO_NOUNS = _FINITE | _MODALS | _SUBJECTS | ENGLISH["objects"] | _CONJUNCTIONS | _ARTICLES
# Pairs of words in which the second may not follow the first, and the gravity of the fault; where
# several lines have a pair, the first counts.
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


def _grammar(output: OutputText, _: str) -> Iterable[float]:
    """Faults of grammar, faults of form, and whether the end breaks off."""
    sentences, words = output.sentences, output.text.words
    faults = [0.0]
    if sum([word in FUNCTION for word in words]) >= MIN_ENGLISH_SHARE * len(words):
        faults = [min(2.5, _faults(sentence)) for sentence in sentences]
    return (
        # Both the number and the density of faults count.
        sum(faults) / math.sqrt(len(faults)),
        sum([_careless(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_stop and (len(words) > 2 or len(sentences) > 1),
    )


def _faults(sentence: Sentence) -> float:
    """The gravity of a sentence's faults of grammar."""
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
        # A long sentence with few function words lacks articles and prepositions.
        faults += 3 * max(0.0, 0.24 - sum([word in FUNCTION for word in words]) / len(words))
    return faults + _close_repetitions(sentence.stems)


@lru_cache(maxsize=1 << 15)
def _pair_fault(first: str, second: str) -> float:
    """The gravity of the fault in two neighbouring words."""
    if first == second and first.isalpha() and first not in ENGLISH["doubled"]:
        return 1.0
    return _PAIR_FAULTS.get((first, second), 0.0)


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Whether a word may be a verb; many verbs end in -s, though many nouns do, too."""
    return (
        word in ENGLISH["auxiliaries"]
        or word in ENGLISH["verbs"]
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _close_repetitions(stems: Sequence[str]) -> float:
    """The gravity of content words that are repeated within a few words."""
    if len(set(stems)) == len(stems):
        return 0.0
    faults = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, index - 8) : index]:
            faults += 0.35 if stem in stems[max(0, index - 3) : index] else 0.2
    return min(1.0, faults)


def _careless(sentence: Sentence) -> float:
    """The gravity of a sentence's faults of form: marks and characters."""
    tokens = sentence.tokens
    faults = 0.25 * (not sentence.has_stop and len(sentence.words) > 3)
    faults += 0.4 * (tokens[0] in _CLOSING) + 0.5 * (tokens[-1] in ",;:")
    faults += 0.5 * (tokens.count("(") != tokens.count(")")) + 0.35 * tokens[0][0].islower()
    faults += 0.6 * sum([token in _STRAY for token in tokens])
    for mark, after in pairwise(tokens):
        if mark in _CLOSING:
            is_double = after in _CLOSING and after != mark
            faults += 0.4 * (is_double or (mark == "." and after[0].islower()))
    return min(2.0, faults)


class Facet(NamedTuple):
    """The weight of a facet in the overall impression.

    is_content: whether it is about what is said, and not how. halo: its weight for a text made from
    a document; talk: its weight for a turn or an answer. bonus: what better than usual earns where
    worse costs 1; qualities that readers take for granted earn little.
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
    """A measure of a facet: its mean and SD in ordinary texts, and its share in the facet.

    The SD is negative where less is better.
    """

    facet: str
    mean: float
    sd: float
    share: float


class Measure(NamedTuple):
    """A function that measures `n` parts, if the text has the source that it needs."""

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
# Parts are clipped at so many SDs, and all parts of a text without words have the second value.
FARTHEST, EMPTY = 3.0, -2.0
# Characters of texts whose parts are cached; longer ones would fill the memory.
CACHE_CHARACTERS = 20_000


def measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, in SDs of ordinary texts; "" for a source that there is not."""
    n = len(text) + len(document) + len(turns) + len(knowledge)
    function = _measure if n <= CACHE_CHARACTERS else _measure.__wrapped__
    return function(text, document, turns, knowledge)


@lru_cache(maxsize=4096)
def _measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The same, cached, since a search judges the same texts with many prompts."""
    whole = read_text(text)
    if not whole.sentences:
        return np.full(len(PARTS), EMPTY)
    sentences = whole.sentences[:MAX_SENTENCES]
    source = read_source("\n".join(filter(None, (document, turns, knowledge))))
    output = OutputText(
        text=whole,
        sentences=sentences,
        stems=Counter(whole.stems),
        matches=[_match(sentence, source) for sentence in sentences] if source else [],
        document=read_source(document),
        turns=read_source(turns),
        last_turn=read_source(turns.strip().rpartition("\n")[2]),
        knowledge=read_source(knowledge),
        source=source,
    )
    values: list[float] = []
    for function, needs, n in MEASURES:
        source_text = getattr(output, needs) if needs else text
        values += function(output, source_text) if source_text else [math.nan] * n
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
# Weight of the overall impression beside the requested facets, and how much of it is lost where
# facts are to be checked: an impression colours such analytic work little.
IMPRESSION, CHECKING = 1.3, 0.85
_FACTUAL = np.isin(NAMES, ("support", "truth"))


def emphases(texts: Sequence[tuple[str, float]], *, is_talk: bool) -> Vector:
    """The weights of the facets, by the requests in texts and an overall impression.

    `texts` are pairs of a text and its part in the request. Where no word names a facet, the
    overall impression alone decides.
    """
    request = np.zeros(len(FACETS))
    for text, part in texts:
        amounts = read_amounts(text)
        growth = np.sign(amounts) * np.abs(amounts) ** GROWTH
        request += part * growth / (np.abs(growth).sum() or 1.0)
    request /= np.abs(request).sum() or 1.0
    amounts = np.abs(request)
    impression = IMPRESSION * (1 - CHECKING * amounts[_FACTUAL].sum())
    if is_talk:
        weights = request + impression * _TALK / _TALK.sum()
    else:
        # The impression of content counts as far as the request is about content.
        part = (amounts @ _CONTENT) if amounts.any() else 1.0
        weights = request + impression * np.where(_CONTENT, part * _HALO, _HALO) / _HALO.sum()
    return np.asarray(weights)


def read_amounts(text: str) -> Vector:
    """How much of each facet a text names."""
    total = np.zeros(len(FACETS))
    text = text.lower()
    mentions = [_PHRASE_SHARES[(m.lastindex or 1) - 1] for m in _PHRASE.finditer(text)]
    mentions += [_shares_of(m[0]) for m in _WORD.finditer(_PHRASE.sub("\n", text))]
    for shares in mentions:
        for index, share in shares.items():
            total[index] += share
    return total


def _shares_of(word: str) -> Shares:
    """The facets that a word names, as listed or by its longest listed beginning."""
    if word in _WORDS:
        return _WORDS[word]
    for end in range(min(len(word) - 1, _MAX_BEGINNING), _MIN_BEGINNING - 1, -1):
        if word[:end] in _BEGINNINGS:
            return _BEGINNINGS[word[:end]]
    return {}
