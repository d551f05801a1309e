"""Facets of how a text is written: grammar, form, style, length, tone and how it answers.

Each measure is higher for better; it blends z-scores, and so lies between -3 and 3 unless its line
says otherwise.
"""

import math
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise, product

from judges.embedded.source import JudgedText, Source, clipped_z_score, total_weight
from judges.embedded.text import (
    ARTICLES,
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    ENGLISH,
    FINITE,
    FUNCTION,
    MODALS,
    STRICT_PREPOSITIONS,
    SUBJECTS,
    VERBS,
    Sentence,
)

# Of a longer text only so much is read.
MAX_SENTENCES, MAX_WORDS = 400, 3000
# Below this share of English small words a text is not judged by English grammar.
MIN_ENGLISH_SHARE = 0.1
# From how many words on a sentence runs on, and the fault that each more is.
LONG, RUN_ON = 25, 0.04
# Words that are a fault where the second follows the first, and its gravity; of several lines for
# the same two words the first counts.
_AFTER_NO_DETERMINER = FINITE | MODALS | SUBJECTS | ENGLISH["objects"] | CONJUNCTIONS | ARTICLES
_PAIR_FAULT_TABLE: tuple[tuple[AbstractSet[str], AbstractSet[str], float], ...] = (
    (DETERMINERS, _AFTER_NO_DETERMINER | {"to", "of", "at", "from"}, 1.0),
    (STRICT_PREPOSITIONS, SUBJECTS | FINITE | MODALS, 0.8),
    ({"'d", "'ll"}, ARTICLES, 0.3),
    (MODALS, MODALS | FINITE | ARTICLES, 0.8),
    ({"had"}, {"had"}, 0.0),
    (FINITE, FINITE, 0.8),
    (SUBJECTS, SUBJECTS | ARTICLES | STRICT_PREPOSITIONS, 0.8),
    (CONJUNCTIONS - {"nor"}, CONJUNCTIONS - {"nor"}, 0.5),
    ({"he", "she", "it"}, {"are", "were", "have", "do", "am"}, 0.7),
    ({"we", "they", "you"}, {"is", "was", "has", "does", "am"}, 0.8),
    ({"i"}, {"is", "are", "has", "does"}, 0.8),
)
_PAIR_FAULTS = {
    pair: fault
    for firsts, seconds, fault in reversed(_PAIR_FAULT_TABLE)
    for pair in product(firsts, seconds)
}
_AN_SOUNDS = ("hour", "honest", "honor", "honour", "heir")
_A_SOUNDS = ("uni", "use", "usu", "eu", "one", "once", "ufo", "uk", "u.", "ut")
_NEEDS_MORE = ARTICLES | STRICT_PREPOSITIONS | CONJUNCTIONS
_STRAY = frozenset("�<>|\\^~*_{}@")
_BRACKETS = (("(", ")"), ("[", "]"), ("“", "”"))
_CLOSING = frozenset(",;:.!?")
_JOINTS = CONJUNCTIONS | ENGLISH["subordinators"] | ENGLISH["reporting"]
_JOINT_MARKS = frozenset({*",;:-'`\"", "--", "``", "''"})
_REFUSALS = (
    *("i cannot", "i can not", "i ca n't", "i am sorry", "as an ai", "i am unable", "unable to"),
    *("i do n't know", "i do not know", "i 'm not sure", "not sure what", "no idea"),
)


def grammar(judged: JudgedText) -> float:
    """How few faults of grammar there are, for the number of sentences; 0 if it is not English.

    A reader remembers how many faults there were as well as how dense they stood.
    """
    sentences = judged.text.sentences
    words = [word for sentence in sentences[:60] for word in sentence.words]
    if len(words) >= 6 and sum(word in FUNCTION for word in words) < MIN_ENGLISH_SHARE * len(words):
        return 0.0
    faults = [min(2.5, _grammar_faults(sentence)) for sentence in sentences[:MAX_SENTENCES]]
    mean = sum(faults) / math.sqrt(len(faults))
    return 0.7 * clipped_z_score(mean, 0.6, -0.7) + 0.3 * clipped_z_score(max(faults), 0.6, -0.7)


def _grammar_faults(sentence: Sentence) -> float:
    """One sentence's faults, each by its gravity."""
    words = sentence.words
    faults = sum(_pair_fault(first, second) for first, second in pairwise(words))
    faults += _missing_verb(words) + _unfinished_end(words) + _missing_subject(sentence)
    faults += sum(_uninflected_verb(words, index) for index in range(len(words) - 1))
    faults += (
        _missing_small_words(words) + _close_repetitions(sentence.stems) + _clause_faults(sentence)
    )
    # A sentence that runs on is hard to follow to its end.
    return faults + RUN_ON * max(0, min(30, len(words) - LONG))


def _pair_fault(first: str, second: str) -> float:
    """How badly two neighbouring words go together."""
    if first == second and first not in ENGLISH["doubled"] and first.isalpha():
        return 1.0
    if first in {"a", "an"} and (first, second) not in _PAIR_FAULTS:
        return _article_fault(first, second)
    return _PAIR_FAULTS.get((first, second), 0.0)


def _article_fault(article: str, word: str) -> float:
    """A fault where "a" stands before the sound of a vowel, or "an" before another."""
    # A short word may be spoken letter by letter.
    if not word[0].isalpha() or len(word) < 3 or (len(word) < 5 and word[0] in "fhlmnrsx"):
        return 0.0
    vowel = word[0] in "aeiou" and not word.startswith(_A_SOUNDS)
    return 0.5 * ((vowel or word.startswith(_AN_SOUNDS)) != (article == "an"))


def _uninflected_verb(words: Sequence[str], index: int) -> float:
    """A base verb after a singular subject, unless an auxiliary governs it: "he go"."""
    if words[index] not in {"he", "she"} or words[index + 1] not in ENGLISH["base-verbs"]:
        return 0.0
    governors = words[max(0, index - 3) : index]
    return 0.7 * (not any(word in AUXILIARIES or word in {"let", "that"} for word in governors))


def _missing_verb(words: Sequence[str]) -> float:
    if len(words) < 4:
        return 0.3 * (len(words) < 3)
    return 0.8 * (not any(map(_may_be_verb, words)))


@lru_cache(maxsize=1 << 15)
def _may_be_verb(word: str) -> bool:
    """Whether a word may be a verb: many a verb ends in -s, though so does many a noun."""
    return (
        word in AUXILIARIES
        or word in VERBS
        or word.endswith(("ed", "ing", "n't"))
        or (word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")))
    )


def _unfinished_end(words: Sequence[str]) -> float:
    """The last word calls for another after it, as "the" or "of" does.

    Only the word counts: that a list or heading has no full stop is no fault of grammar.
    """
    last = words[-1]
    if last in _NEEDS_MORE or last in {"my", "your", "our", "their", "its", "every", "than"}:
        return 1.2
    if last in {"is", "was", "were", "has", "had", "be", "been"} and len(words) > 3:
        return 0.4
    return 0.2 * (last in ENGLISH["prepositions"])


def _missing_subject(sentence: Sentence) -> float:
    """A finite verb first, and no question."""
    first, is_question = sentence.words[0], "?" in sentence.tokens[-2:]
    if (first in FINITE or first in {"said", "says", "told"}) and not is_question:
        return 0.7
    return 0.3 * (first in {"of", "than", "nor"})


def _clause_faults(sentence: Sentence) -> float:
    """Clauses opened without a verb of their own, and verbs that share one clause."""
    words = sentence.words
    faults, opener = 0.0, -1
    for index, word in enumerate(words):
        if word in ENGLISH["clause-openers"] and words[index + 1 : index + 2] != ("of",):
            if 0 <= opener < index - 1 and not any(map(_may_be_verb, words[opener + 1 : index])):
                faults += 0.4
            opener = index
    if 0 <= opener < len(words) - 1 and not any(map(_may_be_verb, words[opener + 1 :])):
        faults += 0.6
    n_verbs = sum(word in FINITE for word in words)
    n_joints = sum(word in _JOINTS for word in words)
    n_joints += sum(token in _JOINT_MARKS for token in sentence.tokens)
    return faults + 0.4 * max(0, n_verbs - 1 - n_joints)


def _missing_small_words(words: Sequence[str]) -> float:
    """A long sentence with hardly a small word has lost its articles and prepositions."""
    if len(words) < 8:
        return 0.0
    small = sum(word in FUNCTION for word in words) / len(words)
    articles = any(word in ARTICLES or word in ENGLISH["possessives"] for word in words)
    return 3 * max(0.0, 0.24 - small) + 0.35 * (not articles and len(words) > 13 and small < 0.4)


def _close_repetitions(stems: Sequence[str]) -> float:
    """A content word that comes back within a few words, as no writer lets it."""
    faults = 0.0
    for index, stem in enumerate(stems):
        if len(stem) > 3 and stem in stems[max(0, index - 8) : index]:
            faults += 0.35 if stem in stems[max(0, index - 3) : index] else 0.2
    return min(1.0, faults)


def form(judged: JudgedText) -> float:
    """How clean capitals, punctuation and characters are: care shows where it costs least."""
    cased, sentences = judged.text.has_capitals, judged.text.sentences[:MAX_SENTENCES]
    faults = [min(2.0, _form_faults(sentence, cased)) for sentence in sentences]
    mean = sum(faults) / len(faults)
    return 0.8 * clipped_z_score(mean, 0.25, -0.3) + 0.2 * clipped_z_score(max(faults), 0.4, -0.6)


def _form_faults(sentence: Sentence, cased: bool) -> float:
    """One sentence's faults; those of capitals only where the text's sentences begin with them."""
    tokens = sentence.tokens
    count = Counter(tokens)
    small_letters_after_stops = sum(
        second == "." and third[0].islower() and len(first) > 3
        for first, second, third in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )
    faults = 1.0 * sum(token.lower() == "unk" for token in tokens)
    faults += 0.4 * sum(count[token] for token in _STRAY if token in count)
    faults += 0.5 * sum(count[a] != count[b] for a, b in _BRACKETS)
    faults += 0.3 * (count['"'] % 2) + 0.35 * (cased and small_letters_after_stops)
    faults += _punctuation_faults(tokens)
    faults += 0.35 * (cased and tokens[0][0].islower() and len(tokens) > 2)
    faults += 0.25 * (not sentence.has_stop and len(sentence.words) > 3)
    return faults + 0.4 * sum(map(_is_garbled, tokens))


def _punctuation_faults(tokens: Sequence[str]) -> float:
    """Marks after marks, a mark at the start, and a lone mark where an end should be."""
    faults = 0.4 * (tokens[0] in _CLOSING)
    for first, second in pairwise(tokens):
        if first in _CLOSING and second in _CLOSING and not (first == second and first in ".!?"):
            faults += 0.4
    return faults + 0.5 * (tokens[-1] in ",;:")


@lru_cache(maxsize=1 << 15)
def _is_garbled(token: str) -> bool:
    """No vowel in a word of small letters, or one letter many times."""
    if len(token) < 4 or not token.isalpha() or not token.isascii():
        return False
    letters = set(token.lower())
    no_vowel = token.islower() and letters.isdisjoint("aeiouy")
    return no_vowel or any(letter * 4 in token.lower() for letter in letters)


def completeness(judged: JudgedText) -> float:
    """Whether the text ends where a sentence ends, and says anything at all; -3.3 to 0.5.

    What breaks off was cut by a limit of length, and leaves its reader waiting.
    """
    sentences, last = judged.text.sentences, judged.text.sentences[-1]
    is_cut = not last.has_stop and (len(last.words) > 2 or len(sentences) > 1)
    fragments = sum(len(sentence.words) < 4 for sentence in sentences) / len(sentences)
    is_tiny = len(judged.text.words) < 3
    open_end = last.words[-1] in _NEEDS_MORE
    return 0.5 - 0.7 * is_cut - 1.5 * open_end - 0.8 * fragments - 0.8 * is_tiny


def style(judged: JudgedText) -> float:
    """Full sentences and a choice of words, as marks of a practised writer (essay scoring)."""
    sentences = judged.text.sentences
    words, stems = judged.text.words[:MAX_WORDS], judged.text.stems[:MAX_WORDS]
    length = math.log(len(words) / len(sentences) + 1)
    letters = sum(map(len, words)) / len(words)
    # Types per root of tokens hardly depend on length.
    variety = len(set(stems)) / math.sqrt(max(1, len(stems)))
    repeated_stems = 1 - len(set(stems)) / max(1, len(stems))
    repeated_openings = 1 - len({sentence.words[0] for sentence in sentences}) / len(sentences)
    return (
        0.35 * clipped_z_score(length, 2.85, 0.35)
        + 0.1 * clipped_z_score(letters, 4.6, 0.5)
        + 0.15 * clipped_z_score(variety, 4.5, 1.0)
        + 0.2 * clipped_z_score(repeated_stems, 0.13, -0.09)
        + 0.2 * clipped_z_score(repeated_openings, 0.15, -0.2)
    )


def readability(judged: JudgedText) -> float:
    """Short sentences of short words, which any reader follows at the first reading."""
    sentences, words = judged.text.sentences, judged.text.words
    return (
        0.4 * clipped_z_score(len(words) / len(sentences), 18.0, -8.0)
        + 0.3 * clipped_z_score(sum(map(len, words)) / len(words), 4.7, -0.7)
        + 0.3 * clipped_z_score(max(len(s.words) for s in sentences), 28.0, -14.0)
    )


def detail(judged: JudgedText) -> float:
    """How long a text is for its kind, since what is longer tells more.

    Expected is a share of what it condenses, a few words of a turn in a longer dialogue, or 50.
    """
    expected = 50.0
    if judged.is_summary and judged.document is not None:
        expected = max(12.0, min(90.0, 0.5 * math.pow(len(judged.document.text.words), 0.8)))
    elif not judged.is_summary and judged.turns is not None and judged.turns.text.lines > 2:
        expected = 20.0
    return clipped_z_score(math.log((len(judged.text.words) + 2) / (expected + 2)), 0.0, 0.5)


def conciseness(judged: JudgedText) -> float:
    """How few words are used, and how few of them are padding; -3.6 to 3.6."""
    words = judged.text.words
    density = sum(word not in FUNCTION for word in words) / len(words)
    return -0.8 * detail(judged) + 0.4 * clipped_z_score(density, 0.55, 0.08)


def specificity(judged: JudgedText) -> float:
    """Numbers, names and rare words, against everyday ones, which fit any subject."""
    stems = judged.text.stems
    if not stems:
        return -1.5
    weights = total_weight(stems)
    numbers = sum(stem[0].isdigit() for stem in stems)
    return (
        0.4 * clipped_z_score(weights / len(stems), 0.85, 0.2)
        + 0.3 * clipped_z_score(math.log1p(weights), 2.2, 0.8)
        + 0.3 * clipped_z_score(math.log1p(numbers), 0.6, 0.6)
    )


def engagement(judged: JudgedText) -> float:
    """What keeps a talk going: something to say, an own view, a question, some warmth."""
    words, tokens = judged.text.words, set(judged.text.tokens)
    content = math.log1p(total_weight(set(judged.text.stems)))
    return (
        0.6 * clipped_z_score(content, 2.0, 0.7)
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
        earlier = judged.turns.trigrams
        repeated = sum(trigram in earlier for trigram in trigrams) / max(3, len(trigrams))
    spoken = any(word in {"i", "you", "n't", "'s", "'m", "'re", "yeah", "we"} for word in words)
    return 0.3 - 0.35 * abs(detail(judged)) - 1.5 * repeated + 0.3 * spoken


def answer(judged: JudgedText, turns: Source) -> float:
    """How the text takes up what it answers, the last turn above all, and does not refuse."""
    stems = set(judged.text.stems)
    last = judged.last_turn or turns
    recent = math.fsum(last.salience.get(stem, 0.0) for stem in stems)
    common = total_weight([stem for stem in stems if stem in turns.sentences_with])
    return (
        0.45 * clipped_z_score(recent / (math.fsum(last.salience.values()) or 1.0), 0.25, 0.2)
        + 0.35 * clipped_z_score(common / (total_weight(stems) or 1.0), 0.4, 0.25)
        - 0.8 * _refuses(judged.text.words)
        + 0.1
    )


def courtesy(judged: JudgedText) -> float:
    """Polite words, and no rude ones; -2.7 to 1.1."""
    words = judged.text.words
    rude, polite = (
        sum(word in listed for word in words) for listed in (ENGLISH["rude"], ENGLISH["polite"])
    )
    return 0.3 - 1.0 * min(3, rude) + 0.4 * min(2, polite)


def structure(judged: JudgedText) -> float:
    """Lines, lists and paragraphs that show how a longer text is built; 0 of a short one."""
    n_words, lines = len(judged.text.words), judged.text.lines
    return 0.0 if n_words < 40 else clipped_z_score(math.log1p(lines), 1.0, 0.8)
