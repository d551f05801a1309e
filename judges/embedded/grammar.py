"""The faults of a sentence: of English grammar, and of form; each fault has a severity."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise, product, starmap

from judges.embedded.text import FUNCTION_WORDS, WORDS, Sentence

# A sentence with more words than this is too long; each extra word adds this severity.
MAX_SENTENCE_WORDS, EXTRA_WORD_SEVERITY = 25, 0.04
_ARTICLES, _DETERMINERS = WORDS["articles"], WORDS["determiners"]
_SUBJECTS, _FINITE, _MODALS = (WORDS["subjects"], WORDS["finite"], WORDS["modals"])
_PREPOSITIONS, _CONJUNCTIONS = WORDS["strict-prepositions"], WORDS["conjunctions"]
_NEVER_NOUNS = _FINITE | _MODALS | _SUBJECTS | WORDS["objects"] | _CONJUNCTIONS | _ARTICLES
# Each row has words, words that may not directly follow them, and the severity of this fault. If a
# pair of words is in several rows, the first row counts.
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
_VERBS = WORDS["auxiliaries"] | WORDS["verbs"]
# Words that cannot be the first word of a statement, or the last word of a sentence.
_NOT_FIRST_WORDS = _FINITE | {"said", "says", "told"}
_NOT_LAST_WORDS = _ARTICLES | _PREPOSITIONS | _CONJUNCTIONS | {"my", "your", "our", "their", "its"}
_STRAY_CHARACTERS = frozenset({*"�<>|\\^~*_{}@", "UNK", "unk"})
_CLOSING_MARKS = frozenset(",;:.!?")


def grammar_severity(sentence: Sentence) -> float:
    """Return the total severity of the faults of grammar in a sentence."""
    words = sentence.words
    faults = EXTRA_WORD_SEVERITY * max(0, min(30, len(words) - MAX_SENTENCE_WORDS))
    faults += sum(starmap(_pair_severity, pairwise(words)))
    faults += 0.8 * (len(words) > 3 and not any(map(_may_be_verb, words)))
    faults += 1.2 * (words[-1] in _NOT_LAST_WORDS)
    faults += 0.7 * (words[0] in _NOT_FIRST_WORDS and "?" not in sentence.tokens)
    if len(words) > 7:
        # If a long sentence has few function words, it lacks articles and prepositions.
        faults += 3 * max(0.0, 0.24 - n_function_words(words) / len(words))
    return faults + _repetition_severity(sentence.stems)


def n_function_words(words: Iterable[str]) -> int:
    return sum(map(FUNCTION_WORDS.__contains__, words))


@lru_cache(maxsize=1 << 15)
def _pair_severity(first: str, second: str) -> float:
    """Return the severity of `second` directly after `first`; 0 if that is no fault."""
    if first == second and first.isalpha() and first not in WORDS["doubled"]:
        return 1.0
    return _PAIR_FAULTS.get((first, second), 0.0)


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Return whether a word may be a verb by its form; many nouns in -s are included."""
    return (
        word in _VERBS
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _repetition_severity(stems: Sequence[str]) -> float:
    """Return the total severity of content words that recur within eight content words."""
    faults = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in (recent_stems := stems[max(0, index - 8) : index]):
            faults += 0.35 if stem in recent_stems[-3:] else 0.2
    return min(1.0, faults)


def form_severity(sentence: Sentence) -> float:
    """Return the total severity of a sentence's faults of punctuation, capitals and characters."""
    tokens = sentence.tokens
    faults = 0.25 * (not sentence.has_end_mark and len(sentence.words) > 3)
    faults += 0.4 * (tokens[0] in _CLOSING_MARKS) + 0.5 * (tokens[-1] in ",;:")
    faults += 0.5 * (tokens.count("(") != tokens.count(")")) + 0.35 * tokens[0][0].islower()
    faults += 0.6 * sum([token in _STRAY_CHARACTERS for token in tokens])
    for mark, next_token in pairwise(tokens):
        if mark in _CLOSING_MARKS:
            is_double = next_token in _CLOSING_MARKS and next_token != mark
            faults += 0.4 * (is_double or (mark == "." and next_token[0].islower()))
    return min(2.0, faults)
