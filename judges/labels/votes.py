"""Reads votes, written as letters, numbers, columns or systems, by what all cells are."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dspy_judges.column_names import name_key
from judges.labels.cells import rating_parts
from judges.labels.types import Vote
from judges.labels.values import Values, says_nothing, word_of
from judges.tables.problems import UnreadableError

_WORDS: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIES = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_WORDS |= dict.fromkeys(_TIES.split(), "tie")
# AlpacaEval's numbers.
_NUMBERS: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
# Votes by the sign of a number.
_SIGNED: dict[int, Vote] = {-1: "A", 0: "tie", 1: "B"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)

Sides = tuple[str | None, str | None]


class VoteCells:
    """Reads the votes of one column by what all of its cells are.

    `values` are all cells, `words` is what the user's words mean, and `sides` are the two columns
    of candidates. Numbers are 1 and 2 (1.5 is a tie), or -n to n, where negative ones prefer A; a 0
    or 1 that may mean either side is refused.
    """

    def __init__(self, values: Iterable[object], words: Values, sides: Sides) -> None:
        self._words = {word_of(word): vote for word, vote in words.items()}
        self._sides = sides
        texts: set[str] = set()
        for value in values:
            # `read` refuses what cannot be read, with its row.
            with suppress(UnreadableError):
                texts.update(word_of(part) for _, part in rating_parts(value))
        self._numbers = set(map(float, filter(_NUMBER.fullmatch, texts - self._words.keys())))
        self._signed = min(self._numbers, default=0) < 0
        self._by_number: dict[float, Vote] = {}
        if self._signed:
            self._by_number = {n: _SIGNED[(n > 0) - (n < 0)] for n in self._numbers}
        elif self._numbers != {1} or {str(side)[-1:] for side in sides} == {"1", "2"}:
            self._by_number = _NUMBERS if self._numbers <= _NUMBERS.keys() else {}

    def read(self, value: object, systems: Sides) -> tuple[Vote, ...]:
        """Return every vote in a cell, which may have none; raises UnreadableError."""
        parts = [part for _, part in rating_parts(value)]
        return tuple(self._vote(part, systems) for part in parts if not self._is_missing(part))

    def notes(self) -> Iterator[str]:
        """Yield a note on which side negative numbers prefer."""
        if self._signed:
            yield "votes: negative numbers prefer A, positive ones B, 0 is a tie; --values turns it"

    def _is_missing(self, part: object) -> bool:
        """Whether somebody gave no vote, by the user's words or else by the usual ones."""
        word = word_of(part)
        return self._words[word] is None if word in self._words else says_nothing(part)

    def _vote(self, part: object, systems: Sides) -> Vote:
        word = word_of(part)
        if word in self._words:
            by_word, by_name = self._words[word], None
        else:
            by_word = self._side_of(word)
            by_name = _by_name(word, systems) or _by_name(word, self._sides)
        fault = "is no vote"
        if by_name and by_word and by_name != by_word:
            fault = f"may be the system's name ({by_name}) or the side ({by_word})"
        elif isinstance(vote := by_name or by_word, str):
            return vote
        which = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        bare = self._numbers and self._numbers <= {0, 1}
        advice = f"write A, B or tie, or say {which if bare else 'what it means: --values WORD=A'}"
        raise UnreadableError("no-vote", fault, advice, part)

    def _side_of(self, word: str) -> Vote | None:
        """The vote that a usual word or a number is; None for others."""
        if _NUMBER.fullmatch(word):
            return self._by_number.get(float(word))
        return "tie" if word.startswith("tie") else _WORDS.get(word)


def _by_name(word: str, names: Sides) -> Vote | None:
    """The side whose system or column has this name; None for neither or both."""
    first, second = (name_key(word_of(name or "")) for name in names)
    sides: dict[str, Vote] = {first: "A", second: "B"}
    return sides.get(name_key(word)) if first != second else None
