"""Form and completeness: capitals, punctuation, spacing, stray characters, cut-off ends."""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

from judges.models.embedded.evidence import Evidence, scaled
from judges.models.embedded.text import Sentence, Text
from judges.models.embedded.words import ARTICLES, CONJUNCTIONS, STRICT

_UNKNOWN = re.compile(r"\A(?:unk|unknown_token)\Z", re.IGNORECASE)
_STRAY = frozenset("�<>|\\^~*_{}@")
_PAIRED = (("(", ")"), ("[", "]"), ("“", "”"))
_CLOSING = frozenset(",;:.!?")


def form(seen: Evidence) -> float:
    """How clean the writing is, sentence by sentence."""
    text = seen.text
    if not text.sentences:
        return -3.0
    faults = [_faults(sentence, text) for sentence in text.sentences[:400]]
    mean = sum(min(2.0, fault) for fault in faults) / len(faults)
    return 0.8 * scaled(mean, 0.25, -0.3) + 0.2 * scaled(min(2.0, max(faults)), 0.4, -0.6)


def completeness(seen: Evidence) -> float:
    """Whether the text ends where a sentence ends, and says anything at all."""
    text = seen.text
    if not text.sentences:
        return -3.0
    last = text.sentences[-1]
    open_end = last.words[-1] in ARTICLES | CONJUNCTIONS | STRICT
    cut = not last.ended and (len(last.words) > 2 or len(text.sentences) > 1)
    short = sum(len(sentence.words) < 4 for sentence in text.sentences) / len(text.sentences)
    return 0.5 - 0.7 * cut - 1.5 * open_end - 0.8 * short - 0.8 * (text.n_words < 3)


def _faults(sentence: Sentence, text: Text) -> float:
    tokens = sentence.tokens
    count = Counter(tokens)
    faults = 1.0 * sum(_UNKNOWN.match(token) is not None for token in tokens)
    faults += 0.4 * sum(count[token] for token in _STRAY if token in count)
    faults += 0.5 * sum(count[a] != count[b] for a, b in _PAIRED)
    faults += 0.3 * (count['"'] % 2) + 0.35 * _lowered(tokens, cased=text.cased)
    faults += _punctuation(tokens)
    faults += 0.35 * (text.cased and tokens[0][:1].islower() and len(tokens) > 2)
    faults += 0.25 * (not sentence.ended and len(sentence.words) > 3)
    faults += 0.4 * sum(_garbled(token) for token in tokens)
    return faults


def _punctuation(tokens: tuple[str, ...]) -> float:
    """Marks after marks, a mark at the start, and a lone mark where an end should be."""
    faults = 0.4 * (tokens[0] in _CLOSING)
    for one, other in pairwise(tokens):
        if one in _CLOSING and other in _CLOSING and not (one == other and one in ".!?"):
            faults += 0.4
        elif one == other == ",":
            faults += 0.5
    return faults + 0.5 * (tokens[-1] in ",;:")


def _lowered(tokens: tuple[str, ...], *, cased: bool) -> int:
    """Full stops with a small letter after them, where sentences begin with capitals."""
    return sum(
        one == "." and other[0].islower() and len(before) > 3
        for before, one, other in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if cased
    )


@lru_cache(maxsize=1 << 15)
def _garbled(token: str) -> bool:
    """No vowel, one letter many times, or letters and digits mixed at random."""
    if len(token) < 4 or not token.isalpha() or not token.isascii():
        return False
    low = token.lower()
    if token.islower() and not set(low) & set("aeiouy"):
        return True
    return any(letter * 4 in low for letter in set(low))
