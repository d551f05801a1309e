"""Faults of grammar: each spoils one sentence in one way, and says how badly."""

import random
from collections.abc import Callable
from dataclasses import dataclass

Words = list[str]

ARTICLES = {"a", "an", "the"}
SMALL_WORDS = {"of", "in", "to", "for", "on", "at", "with", "by"}
DISAGREEING = {
    **{"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has"},
    **{"does": "do", "do": "does", "wants": "want", "asks": "ask", "needs": "need"},
    **{"wonders": "wonder", "says": "say", "fears": "fear", "must": "musts", "will": "wills"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarFault:
    """How a sentence is spoiled. `severity` 1 is unreadable; `loses` means content is gone too.

    `spoil` returns the sentence unchanged where it finds nothing to spoil.
    """

    severity: float
    loses: bool
    spoil: Callable[[Words, random.Random], Words]


def _without(small: set[str]) -> Callable[[Words, random.Random], Words]:
    def spoil(words: Words, rng: random.Random) -> Words:
        kept = [word for word in words if word.lower() not in small]
        return kept if len(words) - len(kept) >= 2 else words

    return spoil


def _disagree(words: Words, rng: random.Random) -> Words:
    return [DISAGREEING.get(word, word) for word in words]


def _double(words: Words, rng: random.Random) -> Words:
    twice = set(rng.sample(range(1, len(words) - 1), k=2)) if len(words) > 6 else set[int]()
    return [word for i, word in enumerate(words) for _ in range(2 if i in twice else 1)]


def _mispunctuate(words: Words, rng: random.Random) -> Words:
    loose = [part for word in words[:-1] for part in _detach(word)]
    return [*loose, words[-1].rstrip("."), rng.choice([",", ". .", ";"])]


def _detach(word: str) -> Words:
    return [word[:-1], ","] if word.endswith(",") else [word]


def _lowercase(words: Words, rng: random.Random) -> Words:
    return [word.lower() for word in words[:-1]] + [words[-1].lower().rstrip(".")]


def _truncate(words: Words, rng: random.Random) -> Words:
    return words[: max(3, int(len(words) * rng.uniform(0.4, 0.7)))]


def _unknown(words: Words, rng: random.Random) -> Words:
    long = sorted(range(len(words)), key=lambda i: -len(words[i]))[: rng.choice([2, 3])]
    return ["[UNK]" if i in long else word for i, word in enumerate(words)]


def _scramble(words: Words, rng: random.Random) -> Words:
    mixed = list(words)
    for _ in range(3):
        at = rng.randrange(1, len(mixed) - 2)
        mixed[at], mixed[at + 1] = mixed[at + 1], mixed[at]
    return mixed


FAULTS: dict[str, GrammarFault] = {
    "articles": GrammarFault(severity=0.5, loses=False, spoil=_without(ARTICLES)),
    "small words": GrammarFault(severity=0.6, loses=False, spoil=_without(SMALL_WORDS)),
    "agreement": GrammarFault(severity=0.45, loses=False, spoil=_disagree),
    "doubled": GrammarFault(severity=0.45, loses=False, spoil=_double),
    "punctuation": GrammarFault(severity=0.3, loses=False, spoil=_mispunctuate),
    "lower case": GrammarFault(severity=0.35, loses=False, spoil=_lowercase),
    "truncated": GrammarFault(severity=0.8, loses=True, spoil=_truncate),
    "unknown": GrammarFault(severity=0.8, loses=True, spoil=_unknown),
    "scrambled": GrammarFault(severity=0.9, loses=True, spoil=_scramble),
}


def spoil(sentence: str, rng: random.Random) -> tuple[str, str]:
    """The sentence with one fault of grammar, and the fault's name."""
    words = sentence.split()
    while True:
        name = rng.choice(sorted(FAULTS))
        spoiled = FAULTS[name].spoil(words, rng)
        if spoiled != words:
            return " ".join(spoiled), name
