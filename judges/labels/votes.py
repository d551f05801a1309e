"""Reads a column of votes: letters, numbers, names of columns or names of systems.

How a cell is read depends on all cells of its column.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dspy_judges.column_names import name_key
from judges.labels.cells import split_by_annotator
from judges.labels.types import Vote
from judges.labels.values import Values, is_missing_value, normalize_word
from judges.tables.problems import UnreadableError

_WORDS: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIES = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_WORDS |= dict.fromkeys(_TIES.split(), "tie")
# The numbers in AlpacaEval's files.
_NUMBERS: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
# The votes by the sign of a number.
_SIGNED: dict[int, Vote] = {-1: "A", 0: "tie", 1: "B"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)

# The names of the two systems, or of the two columns of candidates.
NamePair = tuple[str | None, str | None]


class VoteCells:
    """Reads the votes of one column; all cells together decide how each is read.

    `values` are the column's cells, `words` maps the user's words to votes, and `columns` are the
    names of the two columns of candidates. Numbers are 1 for A, 2 for B and 1.5 for a tie; if any
    is negative, negative numbers are votes for A, positive ones for B, and 0 is a tie. A column of
    only 0 and 1 is refused, since either may mean A.
    """

    def __init__(self, values: Iterable[object], words: Values, columns: NamePair) -> None:
        self._words = {normalize_word(word): vote for word, vote in words.items()}
        self._columns = columns
        texts: set[str] = set()
        for value in values:
            # A cell that cannot be read is reported by `read`, with its row.
            with suppress(UnreadableError):
                texts.update(normalize_word(part) for _, part in split_by_annotator(value))
        self._numbers = set(map(float, filter(_NUMBER.fullmatch, texts - self._words.keys())))
        self._signed = min(self._numbers, default=0) < 0
        self._by_number: dict[float, Vote] = {}
        if self._signed:
            self._by_number = {n: _SIGNED[(n > 0) - (n < 0)] for n in self._numbers}
        elif self._numbers != {1} or {str(column)[-1:] for column in columns} == {"1", "2"}:
            self._by_number = _NUMBERS if self._numbers <= _NUMBERS.keys() else {}

    def read(self, value: object, systems: NamePair) -> tuple[Vote, ...]:
        """Return all votes in a cell, which may be empty; else raises UnreadableError."""
        parts = [part for _, part in split_by_annotator(value)]
        return tuple(self._vote(part, systems) for part in parts if not self._is_missing(part))

    def notes(self) -> Iterator[str]:
        """Yield a note on how negative numbers were read, if there are any."""
        if self._signed:
            yield "votes: negative numbers are A, positive B, 0 is a tie; --values reverses it"

    def _is_missing(self, part: object) -> bool:
        """Whether a part of a cell is a missing vote, by the user's words or the usual ones."""
        word = normalize_word(part)
        return self._words[word] is None if word in self._words else is_missing_value(part)

    def _vote(self, part: object, systems: NamePair) -> Vote:
        word = normalize_word(part)
        if word in self._words:
            by_word, by_name = self._words[word], None
        else:
            by_word = self._vote_by_word(word)
            by_name = _vote_by_name(word, systems) or _vote_by_name(word, self._columns)
        fault = "is not a vote"
        if by_name and by_word and by_name != by_word:
            fault = f"may be the system's name ({by_name}) or the side ({by_word})"
        elif isinstance(vote := by_name or by_word, str):
            return vote
        meaning = "what it means: --values WORD=A"
        if self._numbers and self._numbers <= {0, 1}:
            meaning = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        advice = f"write A, B or tie, or say {meaning}"
        raise UnreadableError("no-vote", fault, advice, part)

    def _vote_by_word(self, word: str) -> Vote | None:
        """Return the vote that a usual word or a number stands for; None for any other word."""
        if _NUMBER.fullmatch(word):
            return self._by_number.get(float(word))
        return "tie" if word.startswith("tie") else _WORDS.get(word)


def _vote_by_name(word: str, names: NamePair) -> Vote | None:
    """Return the vote for the system or column with this name; None if neither or both have it."""
    first, second = (name_key(normalize_word(name or "")) for name in names)
    votes: dict[str, Vote] = {first: "A", second: "B"}
    return votes.get(name_key(word)) if first != second else None
