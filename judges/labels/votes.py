"""Reads a column of votes: letters, words, numbers, names of columns or names of systems.

What a number means depends on the other numbers in the column.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dspy_judges.column_names import name_key
from judges.labels.cells import split_by_annotator
from judges.labels.types import Vote
from judges.labels.values import WordValues, is_missing_value, normalize_word
from judges.tables.problems import UnreadableError

_VOTE_BY_WORD: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIE_WORDS = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_VOTE_BY_WORD |= dict.fromkeys(_TIE_WORDS.split(), "tie")
# AlpacaEval's files write votes as these numbers.
_VOTE_BY_NUMBER: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)

# The names of the systems of outputs A and B, or of the columns with outputs A and B.
NamePair = tuple[str | None, str | None]


class VoteReader:
    """Reads the votes in one column.

    The number 1 is a vote for A, 2 for B, and 1.5 is a tie. If any number is negative, the sign is
    the vote. A column of only 0 and 1 cannot be read, since either number may mean A. A column of
    only 1 can be read if the names of the columns of candidates end with 1 and 2.
    """

    def __init__(
        self, values: Iterable[object], words: WordValues, candidate_columns: NamePair
    ) -> None:
        self._user_votes = {normalize_word(word): vote for word, vote in words.items()}
        self._columns = candidate_columns
        cell_words: set[str] = set()
        for value in values:
            # `read` raises the error for an unreadable cell, when the row is known.
            with suppress(UnreadableError):
                cell_words.update(normalize_word(entry) for _, entry in split_by_annotator(value))
        numbers = filter(_NUMBER.fullmatch, cell_words - self._user_votes.keys())
        self._numbers = set(map(float, numbers))
        self._has_negative_numbers = min(self._numbers, default=0) < 0
        is_clear = self._numbers != {1} or [str(name)[-1:] for name in candidate_columns] == [
            "1",
            "2",
        ]
        self._vote_by_number: dict[float, Vote] = {}
        if self._has_negative_numbers:
            for number in self._numbers:
                self._vote_by_number[number] = "tie" if number == 0 else "A" if number < 0 else "B"
        elif self._numbers <= _VOTE_BY_NUMBER.keys() and is_clear:
            self._vote_by_number = _VOTE_BY_NUMBER

    def read(self, value: object, systems: NamePair) -> tuple[Vote, ...]:
        """Return all votes in a cell; raise UnreadableError for an entry that is not a vote.

        The names of the two `systems` count as votes, too. An empty cell has no votes.
        """
        votes = (self._read_vote(entry, systems) for _, entry in split_by_annotator(value))
        return tuple(vote for vote in votes if vote is not None)

    def notes(self) -> Iterator[str]:
        """Yield a note on what negative numbers mean, if the column has any."""
        if self._has_negative_numbers:
            yield "votes: negative numbers are A, positive B, 0 is a tie; --values reverses it"

    def _read_vote(self, entry: object, systems: NamePair) -> Vote | None:
        """Return the vote in an entry; None for a missing vote, such as `n/a`."""
        word = normalize_word(entry)
        is_users_word = word in self._user_votes
        if is_users_word:
            by_name, by_word = None, self._user_votes[word]
        else:
            by_name = _vote_by_name(word, systems) or _vote_by_name(word, self._columns)
            by_word = self._usual_vote(word)
        if not (by_name or by_word) and (is_users_word or is_missing_value(entry)):
            return None
        fault = "is not a vote"
        if by_name and by_word and by_name != by_word:
            fault = f"may be a system's name ({by_name}) or a usual vote ({by_word})"
        elif isinstance(vote := by_name or by_word, str):
            return vote
        meaning = "what it means, as in --values WORD=A"
        if self._numbers and self._numbers <= {0, 1}:
            meaning = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        advice = f"write A, B or tie, or say {meaning}"
        raise UnreadableError("no-vote", fault, advice, entry)

    def _usual_vote(self, word: str) -> Vote | None:
        """Return the vote for a usual word or a number; None for any other word."""
        if _NUMBER.fullmatch(word):
            return self._vote_by_number.get(float(word))
        return "tie" if word.startswith("tie") else _VOTE_BY_WORD.get(word)


def _vote_by_name(word: str, names: NamePair) -> Vote | None:
    """Return the vote for the system or column called `word`; None unless exactly one is."""
    name_a, name_b = (name_key(normalize_word(name or "")) for name in names)
    votes: dict[str, Vote] = {name_a: "A", name_b: "B"}
    return votes.get(name_key(word)) if name_a != name_b else None
