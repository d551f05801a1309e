"""Measure ten facets of a text's quality, and find which of them a prompt asks for."""

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
    FUNCTION_WORDS,
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
# The most sentences of a text that are compared with its source and with each other.
MAX_SENTENCES = 60


class Match(NamedTuple):
    """The source sentence that is most similar to a sentence.

    `source_index` is the index of the source sentence, or -1 if no stem is shared. `share` is the
    part of the sentence's weight whose stems are in it. `weights` has the shared weight for each
    source sentence.
    """

    source_index: int
    share: float
    weights: dict[int, float]


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text that is judged, with its sources.

    document: the text that it was made from. turns: the conversation that it answers. last_turn:
    the last of the turns. knowledge: the facts that it should use. source: all of these together.
    sentences: the first MAX_SENTENCES. stems: the count of each stem. matches: for each sentence,
    the source sentence that is most similar.
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
    """The match of a sentence: the first source sentence with almost the largest shared weight."""
    shared_weights: dict[int, float] = defaultdict(float)
    total = 0.0
    for stem in dict.fromkeys(sentence.stems):
        stem_weight = weight(stem)
        total += stem_weight
        for index in source.sentence_indices.get(stem, ()):
            shared_weights[index] += stem_weight
    if not shared_weights:
        return Match(-1, 0.0, shared_weights)
    # Articles state a point briefly and repeat it later, so that the first of near equals is taken.
    enough = 0.85 * max(shared_weights.values())
    best = min([index for index, value in shared_weights.items() if value >= enough])
    return Match(best, shared_weights[best] / total, shared_weights)


def _content(output: OutputText, document: Source) -> Iterable[float]:
    """The similarity to the document, the share of the document covered, and the mean salience.

    The similarity is 1 minus the Jensen-Shannon divergence in bits, over the stems of the text.
    Among measures that need no reference text, it ranks summarizers most like people's judgements
    of content (Louis and Nenkova 2013, doi:10.1162/COLI_a_00123).
    """
    n_stems, frequency = len(output.text.stems), document.frequency
    similarity = salience = 0.0
    for stem, n in output.stems.items():
        if stem in frequency:
            p, q = n / n_stems, frequency[stem] / document.n_stems
            similarity -= 0.5 * (p * math.log2(p / (p + q)) + q * math.log2(q / (p + q)))
            salience += p * min(2.5, document.salience[stem] * document.n_salient)
    shared_weights: dict[int, float] = defaultdict(float)
    for match in output.matches:
        for index, value in match.weights.items():
            shared_weights[index] = max(shared_weights[index], value)
    coverage = sum(
        [
            document.points[index][0] * min(1.0, shared_weight / document.points[index][1])
            for index, shared_weight in shared_weights.items()
            # The source may have more sentences than the document, which comes first in it.
            if index < len(document.points)
        ]
    )
    return similarity, coverage, salience


def _support(output: OutputText, source: Source) -> Iterable[float]:
    """The shares of sentences and word pairs that the source supports, new pairs, and new names.

    A number, or a name (a capitalised word within a sentence), is new if the source lacks it.
    """
    sizes = [len(sentence.stems) for sentence in output.sentences]
    support = sum([match.share * n for match, n in zip(output.matches, sizes, strict=True)])
    bigrams = output.text.bigrams
    known_pairs = sum([bigram in source.bigrams for bigram in bigrams]) / max(1, len(bigrams))
    faults = 0.0
    for sentence in output.sentences:
        new_names = 0.0
        for token in sentence.tokens[1:]:
            if token[0].isdigit() or token[0].isupper():
                word = token.lower()
                if not (
                    word in source.words
                    or word in FUNCTION_WORDS
                    or stem_of(word) in source.frequency
                ):
                    new_names += 1.0 if word[0].isdigit() else 0.5
        faults += min(2.0, new_names)
    # Above 30 %, a higher share of new word pairs makes no difference.
    new_pairs = min(1 - known_pairs, 0.3)
    return support / (sum(sizes) or 1), known_pairs, new_pairs, faults / (len(sizes) + 1)


def _answer(output: OutputText, turns: Source) -> Iterable[float]:
    """The content of a turn, its uptake of the last turn, and its use of facts new to the turns."""
    stems, salience = output.stems, (output.last_turn or turns).salience
    uptake = sum([salience.get(stem, 0.0) for stem in stems]) / (sum(salience.values()) or 1.0)
    facts = (output.knowledge or output.document or turns).frequency
    mentioned = turns.frequency
    use = total_weight([stem for stem in stems if stem in facts and stem not in mentioned])
    return math.log1p(total_weight(stems)), uptake, math.log1p(use)


def _order(output: OutputText, document: Source) -> Iterable[float]:
    """How the text follows the order of the document, as four measures.

    They are the share of sentence pairs in reversed order, how late in the document its matches
    are, how near the matches of neighbouring sentences are, and the log number of sentences: with
    more sentences, the order can go wrong more often.
    """
    indices = [match.source_index for match in output.matches if match.share > 0.2]
    reversed_pairs = [a > b for a, b in combinations(indices, 2)]
    lateness = sum([math.log1p(index) for index in indices]) / len(indices) if indices else 2.0
    nearness = [
        1 / (1 + abs(b.source_index - a.source_index - 1) / 1.5)
        if min(a.source_index, b.source_index) >= 0
        else 0.0
        for a, b in pairwise(output.matches)
    ]
    return (
        sum(reversed_pairs) / len(reversed_pairs) if reversed_pairs else 0.25,
        lateness,
        sum(nearness) / len(nearness) if nearness else 0.6,
        math.log(len(output.sentences)),
    )


def _wording(output: OutputText, _: str) -> Iterable[float]:
    """The wording of the text, as seven measures.

    They are the strength of links between neighbouring sentences, the share of short sentences,
    the shares of repeated stems and of repeated stem pairs, the log mean length of sentences, the
    variety of stems, and the share of sentences that open with the same word as an earlier one. A
    link is a stem that two sentences share, or a connective at the start of the second.
    """
    text, stems, sentences = output.text, output.text.stems, output.sentences
    links, n_short = [0.4], 0
    if len(sentences) > 1:
        links, n_short = [], sum([len(sentence.words) < 9 for sentence in sentences])
    for first, second in pairwise(sentences):
        second_stems, first_stems = dict.fromkeys(second.stems), set(first.stems)
        shared = [stem for stem in second_stems if stem in first_stems]
        link = 0.5 * min(1.0, total_weight(shared))
        link += 0.5 * (not ENGLISH["connectives"].isdisjoint(second.words[:2]))
        # A sentence that says nothing new does not lead on, so that its link counts half.
        links.append(link * (1.0 if len(second_stems) - len(shared) > 1 else 0.5))
    pairs = list(pairwise(stems))
    return (
        sum(links) / len(links),
        n_short / len(sentences),
        (len(stems) - len(output.stems)) / max(4, len(stems)),
        (len(pairs) - len(set(pairs))) / max(4, len(pairs)),
        math.log(len(text.words) / len(text.sentences) + 1),
        # Types divided by the root of tokens hardly depend on the text's length.
        len(output.stems) / math.sqrt(max(1, len(stems))),
        1 - len({sentence.words[0] for sentence in sentences}) / len(sentences),
    )


# The grammar of a text is judged if at least this share of its words are English function words.
MIN_ENGLISH_SHARE = 0.1
# A sentence is too long above this number of words; each further word is a fault of this severity.
LONG_SENTENCE, RUN_ON_FAULT = 25, 0.04
_ARTICLES, _DETERMINERS = ENGLISH["articles"], ENGLISH["determiners"]
_SUBJECTS, _FINITE, _MODALS = ENGLISH["subjects"], ENGLISH["finite"], ENGLISH["modals"]
_PREPOSITIONS, _CONJUNCTIONS = ENGLISH["strict-prepositions"], ENGLISH["conjunctions"]
_NEVER_NOUNS = _FINITE | _MODALS | _SUBJECTS | ENGLISH["objects"] | _CONJUNCTIONS | _ARTICLES
# Words, words that may not directly follow them, and the severity of the fault. If several lines
# have the same pair of words, the first line counts.
_PAIR_FAULT_TABLE: tuple[tuple[AbstractSet[str], AbstractSet[str], float], ...] = (
    (_DETERMINERS, _NEVER_NOUNS | {"to", "of", "at", "from"}, 1.0),
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
    for first_words, second_words, fault in reversed(_PAIR_FAULT_TABLE)
    for pair in product(first_words, second_words)
}
# Words with which a sentence cannot end.
_CANNOT_END = _ARTICLES | _PREPOSITIONS | _CONJUNCTIONS | {"my", "your", "our", "their", "its"}
_STRAY_CHARACTERS = frozenset({*"�<>|\\^~*_{}@", "UNK", "unk"})
_CLOSING_MARKS = frozenset(",;:.!?")


def _grammar(output: OutputText, _: str) -> Iterable[float]:
    """The severity of faults in grammar and in form, and whether the text breaks off at its end."""
    sentences, words = output.sentences, output.text.words
    faults = [0.0]
    if sum([word in FUNCTION_WORDS for word in words]) >= MIN_ENGLISH_SHARE * len(words):
        faults = [min(2.5, _grammar_faults(sentence)) for sentence in sentences]
    return (
        # Divided by the root, since both the number and the density of faults count.
        sum(faults) / math.sqrt(len(faults)),
        sum([_form_faults(sentence) for sentence in sentences]) / len(sentences),
        not sentences[-1].has_stop and (len(words) > 2 or len(sentences) > 1),
    )


def _grammar_faults(sentence: Sentence) -> float:
    """The severity of all faults of grammar in a sentence."""
    words = sentence.words
    faults = RUN_ON_FAULT * max(0, min(30, len(words) - LONG_SENTENCE))
    faults += sum([_pair_fault(*pair) for pair in pairwise(words)])
    if len(words) > 3 and not any(map(_may_be_verb, words)):
        faults += 0.8
    if words[-1] in _CANNOT_END:
        faults += 1.2
    if (words[0] in _FINITE or words[0] in {"said", "says", "told"}) and "?" not in sentence.tokens:
        faults += 0.7
    if len(words) > 7:
        # If a long sentence has few function words, articles and prepositions are missing.
        faults += 3 * max(0.0, 0.24 - sum([word in FUNCTION_WORDS for word in words]) / len(words))
    return faults + _close_repetitions(sentence.stems)


@lru_cache(maxsize=1 << 15)
def _pair_fault(first: str, second: str) -> float:
    """The severity of the fault that two neighbouring words are; 0 if they are correct."""
    if first == second and first.isalpha() and first not in ENGLISH["doubled"]:
        return 1.0
    return _PAIR_FAULTS.get((first, second), 0.0)


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Whether a word may be a verb; a word in -s counts, though it may also be a noun."""
    return (
        word in ENGLISH["auxiliaries"]
        or word in ENGLISH["verbs"]
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _close_repetitions(stems: Sequence[str]) -> float:
    """The severity of content words that are repeated within eight words."""
    if len(set(stems)) == len(stems):
        return 0.0
    faults = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, index - 8) : index]:
            faults += 0.35 if stem in stems[max(0, index - 3) : index] else 0.2
    return min(1.0, faults)


def _form_faults(sentence: Sentence) -> float:
    """The severity of all faults of form in a sentence: in punctuation, capitals and characters."""
    tokens = sentence.tokens
    faults = 0.25 * (not sentence.has_stop and len(sentence.words) > 3)
    faults += 0.4 * (tokens[0] in _CLOSING_MARKS) + 0.5 * (tokens[-1] in ",;:")
    faults += 0.5 * (tokens.count("(") != tokens.count(")")) + 0.35 * tokens[0][0].islower()
    faults += 0.6 * sum([token in _STRAY_CHARACTERS for token in tokens])
    for mark, after in pairwise(tokens):
        if mark in _CLOSING_MARKS:
            is_double = after in _CLOSING_MARKS and after != mark
            faults += 0.4 * (is_double or (mark == "." and after[0].islower()))
    return min(2.0, faults)


class Facet(NamedTuple):
    """The role of a facet in the overall impression that a text makes.

    is_content: whether the facet is about what is said; otherwise it is about how it is said.
    document_weight: its weight for a text that was made from a document. talk_weight: its weight
    for a turn of a conversation or an answer. bonus: how much a text gains that is better than
    usual, if one that is as much worse loses 1; qualities that readers take for granted gain
    little.
    """

    is_content: bool
    document_weight: float
    talk_weight: float
    bonus: float


FACETS = {
    # The text says what matters in the document; in a conversation: it says much.
    "coverage": Facet(True, 0.8, 0.6, 1.0),
    # The text says only what matters in the document; in a conversation: it takes up the last turn.
    "focus": Facet(True, 0.3, 0.4, 1.0),
    # The source supports what the text says; in a conversation: the text uses the source.
    "support": Facet(True, 0.2, 0.4, 1.0),
    # The text has no numbers and names that the source lacks.
    "truth": Facet(True, 0.1, 0.1, 1.0),
    # The sentences keep the document's order and begin near its beginning.
    "order": Facet(False, 0.4, 0.0, 0.3),
    # Each sentence is linked to the one before, so that the sentences could not be shuffled.
    "connection": Facet(False, 0.5, 0.1, 0.3),
    # The text has words of its own: sentences that are copied are not fitted to each other.
    "rewording": Facet(False, 0.8, 0.0, 1.0),
    # Nothing is said twice.
    "repetition": Facet(False, 0.5, 0.4, 0.3),
    # There are no faults of grammar, punctuation and characters.
    "grammar": Facet(False, 0.6, 0.6, 0.2),
    # The sentences are full and the words varied, as those of a practised writer.
    "style": Facet(False, 1.0, 0.6, 0.3),
}
NAMES = tuple(FACETS)
FACET_INDEX = {name: index for index, name in enumerate(NAMES)}
_IS_CONTENT, _DOCUMENT_WEIGHTS, _TALK_WEIGHTS, _BONUS = np.array(
    list(FACETS.values()), dtype=np.float64
).T


class Part(NamedTuple):
    """One measure of a facet: its mean and SD in ordinary texts, and its share in the facet.

    The SD is negative if a smaller value is better.
    """

    facet: str
    mean: float
    sd: float
    share: float


class Measure(NamedTuple):
    """A function that measures `n_parts` parts of facets, if the text has the `source` it needs."""

    function: Callable[..., Iterable[float]]
    source: Literal["", "document", "turns", "source"]
    n_parts: int


MEASURES = (
    Measure(_content, "document", 3),
    Measure(_order, "document", 4),
    Measure(_support, "source", 4),
    Measure(_answer, "turns", 3),
    Measure(_wording, "", 7),
    Measure(_grammar, "", 3),
)
# The parts of all facets, in the order in which MEASURES returns them.
PARTS = (
    # With a document: similarity, coverage, salience; reversed pairs, lateness, nearness, number.
    Part("coverage", 0.5, 0.12, 0.6),
    Part("coverage", 0.6, 0.17, 0.4),
    Part("focus", 0.8, 0.2, 0.6),
    Part("order", 0.25, -0.3, 0.6),
    Part("order", 1.2, -0.7, 0.6),
    Part("connection", 0.55, 0.35, 0.7),
    Part("connection", 1.05, -0.4, 0.6),
    # With any source: supported sentences and word pairs; new word pairs; new names.
    Part("support", 0.65, 0.25, 0.6),
    Part("support", 0.6, 0.25, 0.6),
    Part("rewording", 0.14, 0.1, 1.0),
    Part("truth", 0.05, -0.3, 1.0),
    # With turns: content, uptake of the last turn, use of facts.
    Part("coverage", 1.8, 0.6, 1.0),
    Part("focus", 0.15, 0.2, 0.6),
    Part("support", 0.8, 0.8, 1.0),
    # Always: links, short sentences; repeated stems and pairs; length of sentences, variety, equal
    # openings; faults of grammar, faults of form, a broken end.
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
_MEANS, _SDS, PART_SHARES = np.array([part[1:] for part in PARTS]).T
# The index of the facet that each part belongs to.
FACET_OF = np.array([FACET_INDEX[part.facet] for part in PARTS])
# Parts are clipped at MAX_SDS SDs; all parts of a text without words have the value EMPTY_VALUE.
MAX_SDS, EMPTY_VALUE = 3.0, -2.0
# The most characters of texts whose parts are cached; longer ones would fill the memory.
CACHE_CHARACTERS = 20_000


def measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, in SDs of ordinary texts; a source is "" if there is none."""
    n = len(text) + len(document) + len(turns) + len(knowledge)
    function = _measure if n <= CACHE_CHARACTERS else _measure.__wrapped__
    return function(text, document, turns, knowledge)


@lru_cache(maxsize=4096)
def _measure(text: str, document: str, turns: str, knowledge: str) -> Vector:
    """The parts of all facets, cached, since a search judges the same texts with many prompts."""
    whole_text = read_text(text)
    if not whole_text.sentences:
        return np.full(len(PARTS), EMPTY_VALUE)
    sentences = whole_text.sentences[:MAX_SENTENCES]
    source = read_source("\n".join(filter(None, (document, turns, knowledge))))
    output = OutputText(
        text=whole_text,
        sentences=sentences,
        stems=Counter(whole_text.stems),
        matches=[_match(sentence, source) for sentence in sentences] if source else [],
        document=read_source(document),
        turns=read_source(turns),
        last_turn=read_source(turns.strip().rpartition("\n")[2]),
        knowledge=read_source(knowledge),
        source=source,
    )
    values: list[float] = []
    for function, source_name, n_parts in MEASURES:
        needed_source = getattr(output, source_name) if source_name else text
        values += function(output, needed_source) if needed_source else [math.nan] * n_parts
    standardised = np.nan_to_num((np.array(values) - _MEANS) / _SDS).clip(-MAX_SDS, MAX_SDS)
    return np.asarray(np.where(standardised > 0, _BONUS[FACET_OF], 1.0) * standardised)


# From the index of a facet to the share that a word or phrase names of it.
Shares = dict[int, float]


def _read_facet_words() -> tuple[dict[str, Shares], dict[str, Shares], dict[str, Shares]]:
    """The facets that words, beginnings of words, and phrases (as patterns) name."""
    words: dict[str, Shares] = {}
    beginnings: dict[str, Shares] = {}
    phrases: dict[str, Shares] = {}
    for row, names in read_table("facet_words.txt"):
        shares = {
            FACET_INDEX[name]: float(part)
            for name, part in (item.split("=") for item in row.split())
        }
        for phrase in re.findall(r'"([^"]+)"', names):
            phrases[phrase] = shares
        for word in re.sub(r'"[^"]+"', "", names).split():
            words[word.removesuffix(".")] = shares
            if not word.endswith("."):
                beginnings[word] = shares
    return words, beginnings, phrases


_WORDS, _BEGINNINGS, _PHRASES = _read_facet_words()
_MIN_BEGINNING, _MAX_BEGINNING = min(map(len, _BEGINNINGS)), max(map(len, _BEGINNINGS))
_PHRASE = re.compile("|".join(rf"(\b{phrase}\b)" for phrase in _PHRASES))
_PHRASE_SHARES = list(_PHRASES.values())
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
# Exponent of the mentions of a facet, by which the tenth mention adds less than the first.
MENTION_EXPONENT = 0.5
# The weight of the overall impression next to the facets that are asked for, and the part of it
# that is lost if the prompt asks to check facts: this depends little on an impression.
IMPRESSION, CHECKING_LOSS = 1.3, 0.85
_FACTUAL = np.isin(NAMES, ("support", "truth"))


def facet_weights(texts: Sequence[tuple[str, float]], *, is_talk: bool) -> Vector:
    """The weights of the facets, from what a prompt's texts ask for and an overall impression.

    `texts` are pairs of a text and its weight. If no word names a facet, the overall impression
    alone decides. `is_talk` is whether the judged text is a turn of a conversation or an answer.
    """
    request = np.zeros(len(FACETS))
    for text, text_weight in texts:
        amounts = read_amounts(text)
        damped_amounts = np.sign(amounts) * np.abs(amounts) ** MENTION_EXPONENT
        request += text_weight * damped_amounts / (np.abs(damped_amounts).sum() or 1.0)
    request /= np.abs(request).sum() or 1.0
    amounts = np.abs(request)
    impression = IMPRESSION * (1 - CHECKING_LOSS * amounts[_FACTUAL].sum())
    if is_talk:
        weights = request + impression * _TALK_WEIGHTS / _TALK_WEIGHTS.sum()
    else:
        # The impression of content counts only as far as the prompt asks about content.
        content_part = (amounts @ _IS_CONTENT) if amounts.any() else 1.0
        weighted = np.where(_IS_CONTENT, content_part * _DOCUMENT_WEIGHTS, _DOCUMENT_WEIGHTS)
        weights = request + impression * weighted / _DOCUMENT_WEIGHTS.sum()
    return np.asarray(weights)


def read_amounts(text: str) -> Vector:
    """How much a text asks for each facet, by the words and phrases that name facets."""
    total = np.zeros(len(FACETS))
    text = text.lower()
    mentions = [_PHRASE_SHARES[(m.lastindex or 1) - 1] for m in _PHRASE.finditer(text)]
    mentions += [_shares_of(m[0]) for m in _WORD.finditer(_PHRASE.sub("\n", text))]
    for shares in mentions:
        for index, share in shares.items():
            total[index] += share
    return total


def _shares_of(word: str) -> Shares:
    """The facets that a word names: those of the word itself, else of its longest beginning."""
    if word in _WORDS:
        return _WORDS[word]
    for end in range(min(len(word) - 1, _MAX_BEGINNING), _MIN_BEGINNING - 1, -1):
        if word[:end] in _BEGINNINGS:
            return _BEGINNINGS[word[:end]]
    return {}
