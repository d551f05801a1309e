"""Reads votes, written as letters, columns, systems or the user's words."""

import math

from dspy_judges.column_names import name_key
from judges.labels.cells import rating_parts
from judges.labels.types import Vote
from judges.labels.values import Values, says_nothing, word_of
from judges.tables.problems import UnreadableError

_WORDS: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIES = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_WORDS |= dict.fromkeys([*_TIES.split(), "tie (bothbad)"], "tie")

# The names of two columns or systems, A's first.
Sides = tuple[str, str]


def read_votes(value: object, words: Values, *names: Sides) -> list[Vote]:
    """Return every vote in a cell, which may have none; raises UnreadableError.

    `words` are the user's, in small letters, and go before usual ones and `names`.
    """
    votes = (_vote(part, words, names) for _, part in rating_parts(value))
    return [vote for vote in votes if vote is not None]


def _vote(part: object, words: Values, names: tuple[Sides, ...]) -> Vote | None:
    """One person's vote; None where they gave none."""
    word = word_of(part)
    meaning = words.get(word, None if says_nothing(part) else math.nan)
    if meaning is None or isinstance(meaning, str):
        return meaning
    votes = {_WORDS.get(word), *(_side_of(word, pair) for pair in names)} - {None}
    if len(votes) == 1:
        return votes.pop()
    fault = "may be a name of one side and a word for the other" if votes else "is no vote"
    advice = "write A, B or tie, or say what each word means, as in --values 1=A,2=B,0=tie"
    raise UnreadableError("no-vote", fault, advice, part)


def _side_of(word: str, names: Sides) -> Vote | None:
    """The side that has this name; None for neither or both."""
    first, second = (name_key(word_of(name)) for name in names)
    sides: dict[str, Vote] = {first: "A", second: "B"}
    return sides.get(name_key(word)) if first != second else None
