"""Reads votes, written as letters, numbers, columns or systems, by what all cells are."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from judges.labels.cells import rating_parts
from judges.labels.types import Vote
from judges.labels.values import Values, says_nothing, word_of
from judges.tables.problems import UnreadableError

_WORDS: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIES = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_WORDS |= dict.fromkeys(_TIES.split(), "tie")
# AlpacaEval's numbers.
_NUMBERS: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
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
                texts |= {word_of(part) for _, part in rating_parts(value)} - self._words.keys()
        self._numbers = {float(text) for text in texts if _NUMBER.fullmatch(text)}
        self._signed = any(number < 0 for number in self._numbers)
        numbered = {str(side)[-1:] for side in sides} == {"1", "2"} or self._numbers != {1}
        self._one_or_two = numbered and self._numbers <= _NUMBERS.keys()

    def read(self, value: object, systems: Sides) -> tuple[Vote, ...]:
        """Return every vote in a cell, which may have none; raises UnreadableError."""
        parts = [part for _, part in rating_parts(value)]
        parts = [part for part in parts if self._words.get(word_of(part), "") is not None]
        answers = [part for part in parts if word_of(part) in self._words or not says_nothing(part)]
        return tuple(self._vote(part, systems) for part in answers)

    def notes(self) -> Iterator[str]:
        """Yield a note on which side negative numbers prefer."""
        if self._signed:
            yield "votes: negative numbers prefer A, positive ones B, 0 is a tie; --values turns it"

    def _vote(self, part: object, systems: Sides) -> Vote:
        text = word_of(part)
        by_word = self._words.get(text, "tie" if text.startswith("tie") else _WORDS.get(text))
        if text not in self._words and _NUMBER.fullmatch(text):
            number = float(text)
            by_word = _NUMBERS.get(number) if self._one_or_two else None
            if self._signed:
                by_word = "A" if number < 0 else "B" if number > 0 else "tie"
        by_name = text not in self._words and (
            _by_name(text, systems) or _by_name(text, self._sides)
        )
        fault = "is no vote"
        if by_name and by_word and by_name != by_word:
            fault = f"may be the system's name ({by_name}) or the side ({by_word})"
        elif isinstance(vote := by_name or by_word, str) and not isinstance(part, bool):
            return vote
        which = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        bare = self._numbers and self._numbers <= {0, 1}
        advice = f"write A, B or tie, or say {which if bare else 'what it means: --values WORD=A'}"
        raise UnreadableError("no-vote", fault, advice, part)


def _by_name(text: str, names: Sides) -> Vote | None:
    """The side whose system or column has this name; None for neither or both."""
    keys = [re.sub(r"[\s_]+", "", word_of(name or "")) for name in names]
    key = re.sub(r"[\s_]+", "", text)
    return None if keys[0] == keys[1] or key not in keys else "A" if keys[0] == key else "B"
