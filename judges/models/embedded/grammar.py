"""Grammar, by word classes: which small words may stand beside which, and what a sentence needs."""

import math
from collections.abc import Sequence
from itertools import pairwise

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.text import Sentence, Text
from judges.models.embedded.words import (
    ARTICLES,
    AUXILIARIES,
    BASES,
    CONJUNCTIONS,
    DETERMINERS,
    FINITE,
    FUNCTION,
    MODALS,
    OBJECTS,
    POSSESSIVES,
    PREPOSITIONS,
    STRICT,
    SUBJECTS,
    SUBORDINATORS,
    VERBS,
    word_set,
)

# Below this share of English small words a text is not judged by English grammar.
ENGLISH = 0.1
# From how many words on a sentence runs on, and the fault that each more is.
LONG, RUN_ON = 25, 0.04
_DOUBLED = word_set("that had very so no really her is bye ha many much far long")
_SINGULAR = word_set("he she it")
_PLURAL = word_set("we they you")
_AN_SOUNDS = ("hour", "honest", "honor", "honour", "heir")
_A_SOUNDS = ("uni", "use", "usu", "eu", "one", "once", "ufo", "uk", "u.", "ut")
_NOT_AFTER_DETERMINER = (
    FINITE | MODALS | SUBJECTS | OBJECTS | CONJUNCTIONS | ARTICLES | {"to", "of", "at", "from"}
)
_OPENERS = word_set("that who which when while because if whether although though where")
_SAYING = word_set(
    "said says say told tells tell thinks think thought believes believe hopes claims claimed knew"
    " revealed heard reports reported added explained insists insisted know means feels felt"
)
_OPEN = ARTICLES | STRICT | CONJUNCTIONS | {"my", "your", "our", "their", "its", "every", "than"}


def grammar(seen: Evidence) -> float:
    """How few faults of grammar there are, for the number of sentences."""
    text = seen.text
    if not text.sentences or not is_english(text):
        return 0.0
    faults = [faults_of(sentence) for sentence in text.sentences[:400]]
    # A reader remembers how many faults there were as well as how dense they stood.
    mean = sum(min(2.5, fault) for fault in faults) / math.sqrt(len(faults))
    worst = max(faults)
    return 0.7 * scaled(mean, 0.6, -0.7) + 0.3 * scaled(min(2.5, worst), 0.6, -0.7)


def style(seen: Evidence) -> float:
    """Full sentences and a choice of words, as marks of a practised writer (essay scoring)."""
    text = seen.text
    if not text.sentences:
        return -3.0
    words = [word for s in text.sentences for word in s.words][:3000]
    length = math.log(len(words) / len(text.sentences) + 1)
    letters = sum(map(len, words)) / len(words)
    # Types per root of tokens hardly depend on length.
    stems = text.stems[:3000]
    variety = len(set(stems)) / math.sqrt(max(1, len(stems)))
    again = 1 - len(set(stems)) / max(1, len(stems))
    openings = [sentence.words[0] for sentence in text.sentences]
    monotony = 1 - len(set(openings)) / len(openings)
    return (
        0.35 * scaled(length, 2.85, 0.35)
        + 0.1 * scaled(letters, 4.6, 0.5)
        + 0.15 * scaled(variety, 4.5, 1.0)
        + 0.2 * scaled(again, 0.13, -0.09)
        + 0.2 * scaled(monotony, 0.15, -0.2)
    )


def is_english(text: Text) -> bool:
    """Whether small words are as common as in English prose."""
    words = [word for sentence in text.sentences[:60] for word in sentence.words]
    return len(words) < 6 or sum(word in FUNCTION for word in words) >= ENGLISH * len(words)


def faults_of(sentence: Sentence) -> float:
    """Count one sentence's faults, each by its gravity."""
    words = sentence.words
    faults = sum(_clash(one, other) for one, other in pairwise(words))
    faults += _verbless(words) + _ends_open(sentence) + _starts_headless(sentence)
    faults += sum(_third_person(words, place) for place in range(len(words) - 1))
    faults += _sparse(words) + _echoes(sentence) + _clauses(sentence)
    # A sentence that runs on is hard to follow to its end.
    return faults + RUN_ON * max(0, min(30, len(words) - LONG))


def _clash(one: str, other: str) -> float:
    """How badly two neighbouring words go together."""
    if one == other and one not in _DOUBLED and one.isalpha():
        return 1.0
    if one in DETERMINERS and other in _NOT_AFTER_DETERMINER:
        return 1.0
    if one in STRICT and (other in SUBJECTS or other in FINITE or other in MODALS):
        return 0.8
    if one in MODALS and (other in MODALS or other in FINITE or other in ARTICLES):
        return 0.8 if one not in {"'d", "'ll"} or other not in ARTICLES else 0.3
    if one in FINITE and other in FINITE and (one, other) != ("had", "had"):
        return 0.8
    if one in SUBJECTS and (other in SUBJECTS or other in ARTICLES or other in STRICT):
        return 0.8
    if one in CONJUNCTIONS and other in CONJUNCTIONS and "nor" not in (one, other):
        return 0.5
    return max(_disagreement(one, other), _wrong_article(one, other))


def _disagreement(one: str, other: str) -> float:
    if one in _SINGULAR and other in {"are", "were", "have", "do", "am"}:
        return 0.7
    if one in _PLURAL and other in {"is", "was", "has", "does", "am"}:
        return 0.8
    return 0.8 * (one == "i" and other in {"is", "are", "has", "does"})


def _wrong_article(one: str, other: str) -> float:
    if one not in {"a", "an"} or not other[0].isalpha() or len(other) < 3:
        return 0.0
    if len(other) < 5 and other[0] in "fhlmnrsx":
        return 0.0  # it may be spoken letter by letter
    vowel = other[0] in "aeiou"
    vowel = (vowel and not other.startswith(_A_SOUNDS)) or other.startswith(_AN_SOUNDS)
    return 0.5 * (vowel != (one == "an"))


def _third_person(words: Sequence[str], place: int) -> float:
    """Find "he go": a bare verb after a singular subject, unless another verb governs it."""
    if words[place] not in {"he", "she"} or words[place + 1] not in BASES:
        return 0.0
    before = words[max(0, place - 3) : place]
    return 0.7 * (not any(word in AUXILIARIES or word in {"let", "that"} for word in before))


def _verbless(words: Sequence[str]) -> float:
    if len(words) < 4:
        return 0.3 * (len(words) < 3)
    for word in words:
        # Many a verb ends in -s, and so does many a noun: only without any is it sure.
        if _verbal(word):
            return 0.0
    return 0.8


def _ends_open(sentence: Sentence) -> float:
    """A last word that needs another after it; a list or heading need no full stop."""
    last = sentence.words[-1]
    if last in _OPEN:
        return 1.2
    if last in {"is", "was", "were", "has", "had", "be", "been"} and len(sentence.words) > 3:
        return 0.4
    return 0.2 * (last in PREPOSITIONS)


def _starts_headless(sentence: Sentence) -> float:
    """A finite verb first, and no question: the subject is missing."""
    first = sentence.words[0]
    asks = "?" in sentence.tokens[-2:]
    if (first in FINITE or first in {"said", "says", "told"}) and not asks:
        return 0.7
    return 0.3 * (first in {"of", "than", "nor"})


def _clauses(sentence: Sentence) -> float:
    """Clauses opened without a verb of their own, and verbs that share one clause."""
    words = sentence.words
    faults, since = 0.0, -1
    for place, word in enumerate(words):
        if word in _OPENERS and words[place + 1 : place + 2] != ("of",):
            if 0 <= since < place - 1 and not any(map(_verbal, words[since + 1 : place])):
                faults += 0.4
            since = place
    if 0 <= since < len(words) - 1 and not any(map(_verbal, words[since + 1 :])):
        faults += 0.6
    finite = sum(word in FINITE for word in words)
    joints = sum(word in CONJUNCTIONS or word in SUBORDINATORS for word in words)
    joints += sum(
        token in {",", ";", ":", "-", "--", "'", "`", "``", "''", '"'} for token in sentence.tokens
    )
    joints += sum(word in _SAYING for word in words)
    return faults + 0.4 * max(0, finite - 1 - joints)


def _verbal(word: str) -> bool:
    return (
        word in AUXILIARIES
        or word in VERBS
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _sparse(words: Sequence[str]) -> float:
    """A long sentence with hardly a small word has lost its articles and prepositions."""
    if len(words) < 8:
        return 0.0
    small = sum(word in FUNCTION for word in words) / len(words)
    articles = any(word in ARTICLES or word in POSSESSIVES for word in words)
    return 3 * max(0.0, 0.24 - small) + 0.35 * (not articles and len(words) > 13 and small < 0.4)


def _echoes(sentence: Sentence) -> float:
    """A telling word that comes back within a few words, as no writer lets it."""
    stems = sentence.stems
    faults = 0.0
    for place, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, place - 8) : place]:
            faults += 0.35 if stem in stems[max(0, place - 3) : place] else 0.2
    return min(1.0, faults)
