"""Whom people preferred: by letter, number, column or system, decided by all cells."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from data.cells import is_blank, read_json
from data.tables.problems import CellError, excerpt
from data.types import Vote
from data.values import Values, says_nothing, word_of

_WORDS: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIES = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_WORDS |= dict.fromkeys(_TIES.split(), "tie")
# AlpacaEval's numbers.
_NUMBERS: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)


class VoteCells:
    """Reads the votes of one column by what all of its cells are.

    `values` are all of the column's, `words` what its user says that some mean, and `sides` the two
    columns of candidates. Numbers are 1 and 2 (1.5: a tie), or from -n to n, where a negative one
    prefers A; a 0 or 1 that may mean either is refused.
    """

    def __init__(self, values: Iterable[object], words: Values, sides: tuple[str, str]) -> None:
        self._words = {word_of(word): vote for word, vote in words.items()}
        self._sides = sides
        self._read: dict[str, str] = {}
        texts: set[str] = set()
        for value in values:
            # What cannot be read is refused where it stands.
            with suppress(CellError):
                texts |= {word_of(part) for part in _parts(value)} - self._words.keys()
        self._numbers = frozenset(float(text) for text in texts if _NUMBER.fullmatch(text))
        self._signed = any(number < 0 for number in self._numbers)

    def read(self, value: object, systems: tuple[str | None, str | None]) -> tuple[Vote, ...]:
        """Every vote of a cell, none where nobody voted; raises CellError."""
        votes: list[Vote] = []
        for part in _parts(value):
            text = word_of(part)
            nothing = is_blank(part) or (says_nothing(part) and text != "none")
            if nothing if text not in self._words else self._words[text] is None:
                continue
            vote = self._vote(text, systems)
            if vote is None or isinstance(part, bool):
                raise CellError("no-vote", "is no vote", self._advice(text, systems), part)
            votes.append(vote)
            if text not in ("a", "b", "tie"):
                self._read.setdefault(excerpt(part), vote)
        return tuple(votes)

    def notes(self) -> Iterator[str]:
        """Say how words that are no plain A, B or tie were read."""
        if self._signed:
            yield "votes: negative numbers prefer A, positive ones B, 0 is a tie; --values turns it"
        elif self._read:
            pairs = [f"{word} as {vote}" for word, vote in self._read.items()]
            yield f"votes: read {', '.join(pairs[:6])}{', ...' if len(pairs) > 6 else ''}"

    def _vote(self, text: str, systems: tuple[str | None, str | None]) -> Vote | None:
        if text in self._words:
            vote = self._words[text]
            return vote if isinstance(vote, str) else None
        word: Vote | None = "tie" if text.startswith("tie") else _WORDS.get(text)
        if _NUMBER.fullmatch(text):
            word = self._by_number(float(text))
        name = _by_name(text, systems) or _by_name(text, self._sides)
        if name and word and name != word:
            fault = f"may be the system's name ({name}) or the side ({word})"
            raise CellError("no-vote", fault, self._advice(text, systems), text)
        return name or word

    def _by_number(self, number: float) -> Vote | None:
        if self._signed:
            return "A" if number < 0 else "B" if number > 0 else "tie"
        numbered = {side[-1:] for side in self._sides} == {"1", "2"}
        known = self._numbers <= _NUMBERS.keys() and (numbered or self._numbers != {1})
        return _NUMBERS.get(number) if known else None

    def _advice(self, text: str, systems: tuple[str | None, str | None]) -> str:
        if self._numbers and self._numbers <= {0, 1}:
            return "write A, B or tie, or say which is which: --values 0=A,1=B (or 0=B,1=A)"
        names = "" if None in systems else ", the name of one of the pair's two systems"
        plain = "WORD" if len(text) > 40 or not text.isprintable() or "'" in text else text
        return (
            f"write A, B or tie{names}, or say what it means: --values '{plain}=A' (or B, or tie)"
        )


def _by_name(text: str, names: tuple[str | None, str | None]) -> Vote | None:
    """The side whose system or column goes by this name, if one alone does."""
    keys = [None if name is None else re.sub(r"[\s_]+", "", word_of(name)) for name in names]
    key = re.sub(r"[\s_]+", "", text)
    if keys[0] == keys[1] or key not in keys:
        return None
    return "A" if keys[0] == key else "B"


def _parts(value: object) -> Iterator[object]:
    """A cell's votes as written: a list, a JSON list, or one vote."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json(value)
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, str) and re.fullmatch(
        r"(a|b|tie)(\s*[,;|]\s*(a|b|tie))+", word_of(value)
    ):
        yield from re.split(r"[,;|]", value)
    else:
        yield value
