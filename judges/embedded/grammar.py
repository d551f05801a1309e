"""Rate how severe the faults of a sentence are, in grammar and in form, for the embedded model."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise, product, starmap

from judges.embedded.text import FUNCTION_WORDS, WORD_CLASSES, Sentence

# A sentence of more than MAX_SENTENCE_WORDS is too long; each extra word adds this severity.
MAX_SENTENCE_WORDS, EXTRA_WORD_SEVERITY = 25, 0.04
_ARTICLES, _DETERMINERS = WORD_CLASSES["articles"], WORD_CLASSES["determiners"]
_SUBJECT_PRONOUNS, _OBJECT_PRONOUNS = WORD_CLASSES["subjects"], WORD_CLASSES["objects"]
_FINITE_VERBS, _MODAL_VERBS = WORD_CLASSES["finite"], WORD_CLASSES["modals"]
_PREPOSITIONS, _CONJUNCTIONS = WORD_CLASSES["strict-prepositions"], WORD_CLASSES["conjunctions"]
_NEVER_NOUNS = (
    _FINITE_VERBS | _MODAL_VERBS | _SUBJECT_PRONOUNS | _OBJECT_PRONOUNS | _CONJUNCTIONS | _ARTICLES
)
# Each row has words, words that may not directly follow them, and the severity of this fault. If a
# pair of words is in several rows, the first row counts.
_WORD_PAIR_FAULTS: tuple[tuple[AbstractSet[str], AbstractSet[str], float], ...] = (
    (_DETERMINERS, _NEVER_NOUNS | {"to", "of", "at", "from"}, 1.0),
    (_PREPOSITIONS, _SUBJECT_PRONOUNS | _FINITE_VERBS | _MODAL_VERBS, 0.8),
    (_MODAL_VERBS, _MODAL_VERBS | _FINITE_VERBS | _ARTICLES, 0.8),
    (_FINITE_VERBS, _FINITE_VERBS, 0.8),
    (_SUBJECT_PRONOUNS, _SUBJECT_PRONOUNS | _ARTICLES | _PREPOSITIONS, 0.8),
    (_CONJUNCTIONS - {"nor"}, _CONJUNCTIONS - {"nor"}, 0.5),
    ({"he", "she", "it"}, {"are", "were", "have", "do", "am"}, 0.7),
    ({"we", "they", "you"}, {"is", "was", "has", "does", "am"}, 0.8),
    ({"i"}, {"is", "are", "has", "does"}, 0.8),
)
_SEVERITY_BY_WORD_PAIR = {
    word_pair: severity
    for words, next_words, severity in reversed(_WORD_PAIR_FAULTS)
    for word_pair in product(words, next_words)
}
_VERBS = WORD_CLASSES["auxiliaries"] | WORD_CLASSES["verbs"]
# Words that cannot be the first word of a statement, or the last word of a sentence.
_NOT_FIRST_WORDS = _FINITE_VERBS | {"said", "says", "told"}
_NOT_LAST_WORDS = _ARTICLES | _PREPOSITIONS | _CONJUNCTIONS | {"my", "your", "our", "their", "its"}
_STRAY_CHARACTERS = frozenset({*"�<>|\\^~*_{}@", "UNK", "unk"})
_CLOSING_MARKS = frozenset(",;:.!?")


def grammar_severity(sentence: Sentence) -> float:
    """Return the total severity of the faults of grammar in a sentence."""
    words = sentence.words
    severity = EXTRA_WORD_SEVERITY * max(0, min(30, len(words) - MAX_SENTENCE_WORDS))
    severity += sum(starmap(_word_pair_severity, pairwise(words)))
    severity += 0.8 * (len(words) > 3 and not any(map(_may_be_verb, words)))
    severity += 1.2 * (words[-1] in _NOT_LAST_WORDS)
    severity += 0.7 * (words[0] in _NOT_FIRST_WORDS and "?" not in sentence.tokens)
    if len(words) > 7:
        # If a long sentence has few function words, it lacks articles and prepositions.
        severity += 3 * max(0.0, 0.24 - n_function_words(words) / len(words))
    return severity + _repetition_severity(sentence.stems)


def n_function_words(words: Iterable[str]) -> int:
    return sum(map(FUNCTION_WORDS.__contains__, words))


@lru_cache(maxsize=1 << 15)
def _word_pair_severity(word: str, next_word: str) -> float:
    if word == next_word and word.isalpha() and word not in WORD_CLASSES["doubled"]:
        return 1.0
    return _SEVERITY_BY_WORD_PAIR.get((word, next_word), 0.0)


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Return whether a word may be a verb by its form; this is true of many nouns in -s, too."""
    return (
        word in _VERBS
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _repetition_severity(stems: Sequence[str]) -> float:
    """Return the total severity of content words that recur within eight content words."""
    severity = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in (recent_stems := stems[max(0, index - 8) : index]):
            severity += 0.35 if stem in recent_stems[-3:] else 0.2
    return min(1.0, severity)


def form_severity(sentence: Sentence) -> float:
    """Return the total severity of a sentence's faults of punctuation, capitals and characters."""
    tokens = sentence.tokens
    severity = 0.25 * (not sentence.has_end_mark and len(sentence.words) > 3)
    severity += 0.4 * (tokens[0] in _CLOSING_MARKS) + 0.5 * (tokens[-1] in ",;:")
    severity += 0.5 * (tokens.count("(") != tokens.count(")")) + 0.35 * tokens[0][0].islower()
    severity += 0.6 * sum([token in _STRAY_CHARACTERS for token in tokens])
    for mark, next_token in pairwise(tokens):
        if mark in _CLOSING_MARKS:
            is_double_mark = next_token in _CLOSING_MARKS and next_token != mark
            severity += 0.4 * (is_double_mark or (mark == "." and next_token[0].islower()))
    return min(2.0, severity)
