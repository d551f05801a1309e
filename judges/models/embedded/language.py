"""Facets of how a text is written: grammar, form, style, length, tone and how it answers."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from judges.models.embedded.source import JudgedText, Source, scaled
from judges.models.embedded.text import (
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
    STRICT_PREPOSITIONS,
    SUBJECTS,
    SUBORDINATORS,
    VERBS,
    Sentence,
    Text,
    weight,
    word_set,
)

# Of a longer text only so much is read.
MOST_SENTENCES, MOST_WORDS = 400, 3000
# Below this share of English small words a text is not judged by English grammar.
ENGLISH = 0.1
# From how many words on a sentence runs on, and the fault that each more is.
LONG, RUN_ON = 25, 0.04
# Words that may be doubled.
_DOUBLED = word_set("that had very so no really her is bye ha many much far long")
_SINGULAR = word_set("he she it")
_PLURAL = word_set("we they you")
_AN_SOUNDS = ("hour", "honest", "honor", "honour", "heir")
_A_SOUNDS = ("uni", "use", "usu", "eu", "one", "once", "ufo", "uk", "u.", "ut")
_NOT_AFTER_DETERMINER = (
    FINITE | MODALS | SUBJECTS | OBJECTS | CONJUNCTIONS | ARTICLES | {"to", "of", "at", "from"}
)
# Words that open a clause, that say or think another clause, and that leave a sentence open.
_OPENERS = word_set("that who which when while because if whether although though where")
_REPORTING = word_set(
    "said says say told tells tell thinks think thought believes believe hopes claims claimed knew"
    " revealed heard reports reported added explained insists insisted know means feels felt"
)
_NEEDS_MORE = ARTICLES | STRICT_PREPOSITIONS | CONJUNCTIONS
_OPEN = _NEEDS_MORE | {"my", "your", "our", "their", "its", "every", "than"}
_UNKNOWN = re.compile(r"\A(?:unk|unknown_token)\Z", re.IGNORECASE)
_STRAY = frozenset("�<>|\\^~*_{}@")
_PAIRED = (("(", ")"), ("[", "]"), ("“", "”"))
_CLOSING = frozenset(",;:.!?")
_JOINTS = frozenset({",", ";", ":", "-", "--", "'", "`", "``", "''", '"'})
RUDE = word_set(
    "stupid idiot idiots dumb moron shut damn hell hate crap shit fuck fucking bitch loser ugly"
    " pathetic disgusting worthless trash garbage kill"
)
POLITE = word_set("please thank thanks sorry welcome glad happy appreciate kindly hope understand")
_REFUSALS = (
    *("i cannot", "i can not", "i ca n't", "i am sorry", "as an ai", "i am unable", "unable to"),
    *("i do n't know", "i do not know", "i 'm not sure", "not sure what", "no idea"),
)


def grammar(judged: JudgedText) -> float:
    """How few faults of grammar there are, for the number of sentences."""
    if not _is_english(judged.text):
        return 0.0
    faults = [_grammar_faults(sentence) for sentence in judged.text.sentences[:MOST_SENTENCES]]
    # A reader remembers how many faults there were as well as how dense they stood.
    mean = sum(min(2.5, fault) for fault in faults) / math.sqrt(len(faults))
    return 0.7 * scaled(mean, 0.6, -0.7) + 0.3 * scaled(min(2.5, max(faults)), 0.6, -0.7)


def _is_english(text: Text) -> bool:
    """Whether small words are as common as in English prose."""
    words = [word for sentence in text.sentences[:60] for word in sentence.words]
    return len(words) < 6 or sum(word in FUNCTION for word in words) >= ENGLISH * len(words)


def _grammar_faults(sentence: Sentence) -> float:
    """One sentence's faults, each by its gravity."""
    words = sentence.words
    faults = sum(_clash(first, second) for first, second in pairwise(words))
    faults += _verbless(words) + _ends_open(words) + _starts_headless(sentence)
    faults += sum(_third_person(words, place) for place in range(len(words) - 1))
    faults += _sparse(words) + _echoes(sentence.stems) + _clauses(sentence)
    # A sentence that runs on is hard to follow to its end.
    return faults + RUN_ON * max(0, min(30, len(words) - LONG))


def _clash(first: str, second: str) -> float:
    """How badly two neighbouring words go together."""
    if first == second and first not in _DOUBLED and first.isalpha():
        return 1.0
    if first in DETERMINERS and second in _NOT_AFTER_DETERMINER:
        return 1.0
    if first in STRICT_PREPOSITIONS and (
        second in SUBJECTS or second in FINITE or second in MODALS
    ):
        return 0.8
    if first in MODALS and (second in MODALS or second in FINITE or second in ARTICLES):
        return 0.8 if first not in {"'d", "'ll"} or second not in ARTICLES else 0.3
    if first in FINITE and second in FINITE and (first, second) != ("had", "had"):
        return 0.8
    if first in SUBJECTS and (
        second in SUBJECTS or second in ARTICLES or second in STRICT_PREPOSITIONS
    ):
        return 0.8
    if first in CONJUNCTIONS and second in CONJUNCTIONS and "nor" not in (first, second):
        return 0.5
    return max(_disagreement(first, second), _wrong_article(first, second))


def _disagreement(subject: str, verb: str) -> float:
    if subject in _SINGULAR and verb in {"are", "were", "have", "do", "am"}:
        return 0.7
    if subject in _PLURAL and verb in {"is", "was", "has", "does", "am"}:
        return 0.8
    return 0.8 * (subject == "i" and verb in {"is", "are", "has", "does"})


def _wrong_article(article: str, word: str) -> float:
    if article not in {"a", "an"} or not word[0].isalpha() or len(word) < 3:
        return 0.0
    if len(word) < 5 and word[0] in "fhlmnrsx":
        return 0.0  # it may be spoken letter by letter
    vowel = word[0] in "aeiou" and not word.startswith(_A_SOUNDS)
    vowel = vowel or word.startswith(_AN_SOUNDS)
    return 0.5 * (vowel != (article == "an"))


def _third_person(words: Sequence[str], place: int) -> float:
    """Find "he go": a bare verb after a singular subject, unless another verb governs it."""
    if words[place] not in {"he", "she"} or words[place + 1] not in BASES:
        return 0.0
    before = words[max(0, place - 3) : place]
    return 0.7 * (not any(word in AUXILIARIES or word in {"let", "that"} for word in before))


def _verbless(words: Sequence[str]) -> float:
    if len(words) < 4:
        return 0.3 * (len(words) < 3)
    return 0.8 * (not any(map(_verbal, words)))


def _verbal(word: str) -> bool:
    """Whether a word may be a verb: many a verb ends in -s, though so does many a noun."""
    return (
        word in AUXILIARIES
        or word in VERBS
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _ends_open(words: Sequence[str]) -> float:
    """A last word that needs another after it; a list or heading need no full stop."""
    if words[-1] in _OPEN:
        return 1.2
    if words[-1] in {"is", "was", "were", "has", "had", "be", "been"} and len(words) > 3:
        return 0.4
    return 0.2 * (words[-1] in PREPOSITIONS)


def _starts_headless(sentence: Sentence) -> float:
    """A finite verb first, and no question: the subject is missing."""
    first = sentence.words[0]
    question = "?" in sentence.tokens[-2:]
    if (first in FINITE or first in {"said", "says", "told"}) and not question:
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
    joints += sum(token in _JOINTS for token in sentence.tokens)
    joints += sum(word in _REPORTING for word in words)
    return faults + 0.4 * max(0, finite - 1 - joints)


def _sparse(words: Sequence[str]) -> float:
    """A long sentence with hardly a small word has lost its articles and prepositions."""
    if len(words) < 8:
        return 0.0
    small = sum(word in FUNCTION for word in words) / len(words)
    articles = any(word in ARTICLES or word in POSSESSIVES for word in words)
    return 3 * max(0.0, 0.24 - small) + 0.35 * (not articles and len(words) > 13 and small < 0.4)


def _echoes(stems: Sequence[str]) -> float:
    """A content word that comes back within a few words, as no writer lets it."""
    faults = 0.0
    for place, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, place - 8) : place]:
            faults += 0.35 if stem in stems[max(0, place - 3) : place] else 0.2
    return min(1.0, faults)


def form(judged: JudgedText) -> float:
    """How clean capitals, punctuation and characters are, sentence by sentence."""
    cased = judged.text.cased
    faults = [_form_faults(sentence, cased) for sentence in judged.text.sentences[:MOST_SENTENCES]]
    mean = sum(min(2.0, fault) for fault in faults) / len(faults)
    return 0.8 * scaled(mean, 0.25, -0.3) + 0.2 * scaled(min(2.0, max(faults)), 0.4, -0.6)


def _form_faults(sentence: Sentence, cased: bool) -> float:
    tokens = sentence.tokens
    count = Counter(tokens)
    # Full stops with a small letter after them, where sentences begin with capitals.
    lowered = sum(
        second == "." and third[0].islower() and len(first) > 3
        for first, second, third in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )
    faults = 1.0 * sum(_UNKNOWN.match(token) is not None for token in tokens)
    faults += 0.4 * sum(count[token] for token in _STRAY if token in count)
    faults += 0.5 * sum(count[a] != count[b] for a, b in _PAIRED)
    faults += 0.3 * (count['"'] % 2) + 0.35 * (cased and lowered)
    faults += _punctuation_faults(tokens)
    faults += 0.35 * (cased and tokens[0][0].islower() and len(tokens) > 2)
    faults += 0.25 * (not sentence.ended and len(sentence.words) > 3)
    faults += 0.4 * sum(map(_garbled, tokens))
    return faults


def _punctuation_faults(tokens: Sequence[str]) -> float:
    """Marks after marks, a mark at the start, and a lone mark where an end should be."""
    faults = 0.4 * (tokens[0] in _CLOSING)
    for first, second in pairwise(tokens):
        if first in _CLOSING and second in _CLOSING and not (first == second and first in ".!?"):
            faults += 0.4
    return faults + 0.5 * (tokens[-1] in ",;:")


@lru_cache(maxsize=1 << 15)
def _garbled(token: str) -> bool:
    """No vowel in a word of small letters, or one letter many times."""
    if len(token) < 4 or not token.isalpha() or not token.isascii():
        return False
    letters = set(token.lower())
    if token.islower() and letters.isdisjoint("aeiouy"):
        return True
    return any(letter * 4 in token.lower() for letter in letters)


def completeness(judged: JudgedText) -> float:
    """Whether the text ends where a sentence ends, and says anything at all."""
    sentences, last = judged.text.sentences, judged.text.sentences[-1]
    cut = not last.ended and (len(last.words) > 2 or len(sentences) > 1)
    short = sum(len(sentence.words) < 4 for sentence in sentences) / len(sentences)
    few = judged.text.n_words < 3
    return 0.5 - 0.7 * cut - 1.5 * (last.words[-1] in _NEEDS_MORE) - 0.8 * short - 0.8 * few


def style(judged: JudgedText) -> float:
    """Full sentences and a choice of words, as marks of a practised writer (essay scoring)."""
    sentences = judged.text.sentences
    words, stems = judged.text.words[:MOST_WORDS], judged.text.stems[:MOST_WORDS]
    length = math.log(len(words) / len(sentences) + 1)
    letters = sum(map(len, words)) / len(words)
    # Types per root of tokens hardly depend on length.
    variety = len(set(stems)) / math.sqrt(max(1, len(stems)))
    again = 1 - len(set(stems)) / max(1, len(stems))
    monotony = 1 - len({sentence.words[0] for sentence in sentences}) / len(sentences)
    return (
        0.35 * scaled(length, 2.85, 0.35)
        + 0.1 * scaled(letters, 4.6, 0.5)
        + 0.15 * scaled(variety, 4.5, 1.0)
        + 0.2 * scaled(again, 0.13, -0.09)
        + 0.2 * scaled(monotony, 0.15, -0.2)
    )


def readability(judged: JudgedText) -> float:
    """Short sentences of short words."""
    sentences, words = judged.text.sentences, judged.text.words
    return (
        0.4 * scaled(len(words) / len(sentences), 18.0, -8.0)
        + 0.3 * scaled(sum(map(len, words)) / len(words), 4.7, -0.7)
        + 0.3 * scaled(max(len(s.words) for s in sentences), 28.0, -14.0)
    )


def detail(judged: JudgedText) -> float:
    """How long a text is for its kind: a share of what it condenses, or a few words for a turn."""
    expected = 50.0
    if judged.condenses and judged.document is not None:
        expected = max(12.0, min(90.0, 0.5 * math.pow(judged.document.text.n_words, 0.8)))
    elif not judged.condenses and judged.turns is not None and judged.turns.text.lines > 2:
        expected = 20.0
    return scaled(math.log((judged.text.n_words + 2) / (expected + 2)), 0.0, 0.5)


def conciseness(judged: JudgedText) -> float:
    """How few words are used, and how few of them are padding."""
    words = judged.text.words
    dense = sum(word not in FUNCTION for word in words) / len(words)
    return -0.8 * detail(judged) + 0.4 * scaled(dense, 0.55, 0.08)


def specificity(judged: JudgedText) -> float:
    """Numbers, names and rare words, against everyday ones."""
    stems = judged.text.stems
    if not stems:
        return -1.5
    weights = math.fsum(map(weight, stems))
    numbers = sum(stem[0].isdigit() for stem in stems)
    return (
        0.4 * scaled(weights / len(stems), 0.85, 0.2)
        + 0.3 * scaled(math.log1p(weights), 2.2, 0.8)
        + 0.3 * scaled(math.log1p(numbers), 0.6, 0.6)
    )


def engagement(judged: JudgedText) -> float:
    """What keeps a talk going: something to say, an own view, a question, some warmth."""
    words = judged.text.words
    tokens = {token for sentence in judged.text.sentences for token in sentence.tokens}
    content = math.log1p(math.fsum(map(weight, set(judged.text.stems))))
    return (
        0.6 * scaled(content, 2.0, 0.7)
        + 0.3 * ("?" in tokens)
        + 0.15 * ("!" in tokens)
        + 0.2 * any(word in {"i", "my", "you", "your"} for word in words)
        - 0.6 * (_refuses(words) or len(words) < 6)
        - 0.3
    )


def _refuses(words: Sequence[str]) -> bool:
    start = " ".join(words[:40])
    return any(refusal in start for refusal in _REFUSALS)


def naturalness(judged: JudgedText) -> float:
    """A turn as people speak: neither a word nor a lecture, not said before, in spoken forms."""
    words, trigrams, repeated = judged.text.words, judged.text.trigrams, 0.0
    if judged.turns is not None:
        before = judged.turns.trigrams
        repeated = sum(trigram in before for trigram in trigrams) / max(3, len(trigrams))
    spoken = any(word in {"i", "you", "n't", "'s", "'m", "'re", "yeah", "we"} for word in words)
    return 0.3 - 0.35 * abs(detail(judged)) - 1.5 * repeated + 0.3 * spoken


def answer(judged: JudgedText, turns: Source) -> float:
    """How the text takes up what it answers, the last turn above all, and does not refuse."""
    stems = set(judged.text.stems)
    last = judged.last_turn or turns
    recent = math.fsum(last.salience.get(stem, 0.0) for stem in stems)
    whole = math.fsum(weight(stem) for stem in stems if stem in turns.places)
    return (
        0.45 * scaled(recent / (math.fsum(last.salience.values()) or 1.0), 0.25, 0.2)
        + 0.35 * scaled(whole / (math.fsum(map(weight, stems)) or 1.0), 0.4, 0.25)
        - 0.8 * _refuses(judged.text.words)
        + 0.1
    )


def courtesy(judged: JudgedText) -> float:
    """Polite words, and no rude ones."""
    words = judged.text.words
    rude, polite = (sum(word in listed for word in words) for listed in (RUDE, POLITE))
    return 0.3 - 1.0 * min(3, rude) + 0.4 * min(2, polite)


def structure(judged: JudgedText) -> float:
    """Lines, lists and paragraphs that show how a longer text is built."""
    return 0.0 if judged.text.n_words < 40 else scaled(math.log1p(judged.text.lines), 1.0, 0.8)
