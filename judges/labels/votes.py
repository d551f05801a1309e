"""Reads a column of votes: letters, words, numbers, names of columns or names of systems.

What a number means depends on the other numbers in the column.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from judges.labels.cells import split_by_annotator
from judges.labels.names import name_key
from judges.labels.types import Vote
from judges.labels.values import WordValues, is_missing_value, normalize_word
from judges.tables.problems import UnreadableError

_VOTE_BY_WORD: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIE_WORDS = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_VOTE_BY_WORD |= dict.fromkeys(_TIE_WORDS.split(), "tie")
# AlpacaEval's files write votes as these numbers.
_VOTE_BY_NUMBER: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
# In a column with negative numbers, the sign of a number is the vote.
_VOTE_BY_SIGN: dict[int, Vote] = {-1: "A", 0: "tie", 1: "B"}
_NUMBER_PATTERN = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)

# The names of the systems that wrote outputs A and B, or of the columns with outputs A and B.
NamePair = tuple[str | None, str | None]


class VoteReader:
    """Reads the votes in one column.

    The number 1 is a vote for A, 2 for B, and 1.5 is a tie. If any number is negative, its sign is
    the vote. A column of only 0 and 1 cannot be read, because either number may mean A.
    `value_by_word` has the user's votes for words in lower case.
    """

    def __init__(
        self, cells: Iterable[object], value_by_word: WordValues, response_columns: NamePair
    ) -> None:
        self._user_votes = {w: v for w, v in value_by_word.items() if isinstance(v, str | None)}
        self._response_columns, self._usual_votes = response_columns, {**_VOTE_BY_WORD}
        words: set[str] = set()
        for cell in cells:
            # An unreadable cell is skipped here. `read` raises the error for it.
            with suppress(UnreadableError):
                words.update(normalize_word(vote) for _, vote in split_by_annotator(cell))
        number_words = {*filter(_NUMBER_PATTERN.fullmatch, words - self._user_votes.keys())}
        self._numbers = {*map(float, number_words)}
        self.has_negative_numbers = min(self._numbers, default=0) < 0
        if self.has_negative_numbers:
            for word in number_words:
                sign = (float(word) > 0) - (float(word) < 0)
                self._usual_votes[word] = _VOTE_BY_SIGN[sign]
        elif self._numbers <= _VOTE_BY_NUMBER.keys() and self._numbers != {1}:
            self._usual_votes |= {word: _VOTE_BY_NUMBER[float(word)] for word in number_words}

    def read(self, cell: object, systems: NamePair) -> tuple[Vote, ...]:
        """Return all votes in a cell; raises UnreadableError for a value that is not a vote.

        The names of the two `systems` count as votes, too. An empty cell has no votes.
        """
        votes = (self._read_vote(value, systems) for _, value in split_by_annotator(cell))
        return tuple(filter(None, votes))

    def _read_vote(self, value: object, systems: NamePair) -> Vote | None:
        """Return the vote of one annotator; None for a missing vote, such as `n/a`."""
        word = normalize_word(value)
        if word in self._user_votes:
            return self._user_votes[word]
        vote_by_name = _vote_by_name(word, systems) or _vote_by_name(word, self._response_columns)
        usual_vote = self._usual_votes.get("tie" if word.startswith("tie") else word)
        votes = {vote_by_name, usual_vote} - {None}
        if len(votes) == 1 or is_missing_value(value):
            return usual_vote or vote_by_name
        fault = "is not a vote"
        if votes:
            fault = f"may be a system's name ({vote_by_name}) or a usual vote ({usual_vote})"
        what_to_say = "what it means, as in --values WORD=A"
        if self._numbers and self._numbers <= {0, 1}:
            what_to_say = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        elif self._numbers == {0, 1, 2}:
            what_to_say = "which is which: --values 0=tie,1=A,2=B"
        advice = f"write A, B or tie, or say {what_to_say}"
        raise UnreadableError("no-vote", fault, advice, value)


def _vote_by_name(word: str, names: NamePair) -> Vote | None:
    """Return the vote for the system or column called `word`; None if none or both are."""
    name_a, name_b = (name_key(normalize_word(name or "")) for name in names)
    votes: dict[str, Vote] = {name_a: "A", name_b: "B"}
    return votes.get(name_key(word)) if name_a != name_b else None
