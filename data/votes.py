"""Whom people preferred: by letter, number, column, system or phrase, decided by all cells."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from data.cells import is_blank, read_json
from data.tables.problems import CellError, excerpt
from data.types import Vote
from data.values import Values, says_nothing, word_of

_NOUNS = (
    r"(?:response|answer|output|option|model|assistant|system|candidate|summary|text|choice|"
    r"version|reply|completion|generation|translation|side|antwort|réponse)"
)
_A = rf"(?:{_NOUNS}[ _-]?(?:a|1|one)|a|(?:first|1st|left|links|gauche|izquierda)(?: {_NOUNS})?)"
_B = rf"(?:{_NOUNS}[ _-]?(?:b|2|two)|b|(?:second|2nd|right|rechts|droite|derecha)(?: {_NOUNS})?)"
_DEGREE = r"(?:(?:much|slightly|clearly|significantly|somewhat|strongly|far|definitely) )?"
_PHRASE = re.compile(
    rf"(?:(?:i )?{_DEGREE}prefers? )?(?:the )?(?:(?P<a>{_A})|(?P<b>{_B}))"
    rf"(?:(?: is| was)? {_DEGREE}(?:better|best|preferred|wins|won)"
    rf"(?: (?:than|over|to) (?:the )?(?:(?P<than_a>{_A})|(?P<than_b>{_B})))?)?"
)
_COMPARED = re.compile(
    rf"(?:(?P<a>{_A}|1)|{_B}|2) ?(?P<sign>>+|<+|=+|≈|~) ?(?:(?P<than_a>{_A}|1)|{_B}|2)"
)
_TIES = frozenset(
    (
        *("tie", "tied", "ties", "draw", "equal", "equally good", "equally bad", "same"),
        *("the same", "about the same", "both", "neither", "no preference", "similar", "[[c]]"),
        *("both good", "both bad", "both are good", "both are bad", "both equal", "bothbad"),
        *("beide", "gleich gut", "keine präferenz", "égalité", "égal", "empate", "igual", "pari"),
        *("tie (bothbad)", "tie (both bad)", "tie (both good)", "unentschieden", "gleich"),
    )
)
# AlpacaEval's numbers.
_NUMBERS: Mapping[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
_PLAIN = frozenset({"a", "b", "tie"})


@dataclass(slots=True)
class VoteCells:
    """Reads the votes of one column by what all of its cells are.

    `values` are all of the column's, `words` what its user says that some mean, and `sides` the two
    columns of candidates. Numbers are 1 and 2 (1.5: a tie), or from -n to n, where a negative one
    prefers A; a 0 or 1 that may mean either is refused.
    """

    values: Iterable[object]
    words: Values
    sides: tuple[str, str]
    _read: dict[str, str] = field(default_factory=dict, init=False)
    _numbers: frozenset[float] = field(default=frozenset(), init=False)
    _has_systems: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.words = {word_of(word): vote for word, vote in self.words.items()}
        texts: set[str] = set()
        for value in self.values:
            # What cannot be read is refused where it stands.
            with suppress(CellError):
                words = (word for word in self._words_of(value) if not isinstance(word, bool))
                texts |= {word_of(word) for word in words} - self.words.keys()
        self._numbers = frozenset(float(text) for text in texts if _NUMBER.fullmatch(text))

    def read(self, value: object, systems: tuple[str | None, str | None]) -> tuple[Vote, ...]:
        """Every vote of a cell, none where nobody voted; raises CellError."""
        votes: list[Vote] = []
        for word in self._words_of(value):
            if is_blank(word) or self._is_missing(word):
                continue
            vote = None if isinstance(word, bool) else self._vote(word, systems)
            if vote is None:
                raise CellError("no-vote", "is no vote", self._advice(word), word)
            votes.append(vote)
            if word_of(word) not in _PLAIN:
                self._read.setdefault(excerpt(word), vote)
        return tuple(votes)

    def notes(self) -> Iterator[str]:
        """Say how words that are no plain A, B or tie were read."""
        if self._signed:
            yield "votes: negative numbers prefer A, positive ones B, 0 is a tie; --values turns it"
        elif self._read:
            pairs = [f"{word} as {vote}" for word, vote in self._read.items()]
            more = ", ..." if len(pairs) > 6 else ""
            yield f"votes: read {', '.join(pairs[:6])}{more}"

    @property
    def _signed(self) -> bool:
        return any(number < 0 for number in self._numbers)

    def _is_missing(self, word: object) -> bool:
        text = word_of(word)
        if text in self.words:
            return self.words[text] is None
        return text not in ("none", "nil") and says_nothing(word)

    def _words_of(self, value: object) -> Iterator[object]:
        """A cell's votes as written: a list, a JSON list, words with separators, or one vote."""
        if isinstance(value, str) and re.match(r"\s*\[(?!\[)", value):
            try:
                value = read_json(value)
            except CellError:
                if _vote_of(word_of(value)) is None:
                    raise
        if isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, str):
            parts = [part for part in re.split(r"[,;|\s]+", value.strip()) if part]
            plain = [word_of(part) in {*_PLAIN, "1", "2", "1.5", *self.words} for part in parts]
            yield from parts if len(parts) > 1 and all(plain) else [value]
        else:
            yield value

    def _vote(self, word: object, systems: tuple[str | None, str | None]) -> Vote | None:
        text = word_of(word)
        if text in self.words:
            counted = self.words[text]
            return counted if isinstance(counted, str) else None
        self._has_systems = None not in systems
        by_name = self._by_name(text, systems)
        by_word = self._by_number(float(text)) if _NUMBER.fullmatch(text) else _vote_of(text)
        if by_name and by_word and by_name != by_word:
            fault = f"may be the system's name ({by_name}) or the side ({by_word})"
            raise CellError("no-vote", fault, self._advice(word), word)
        return by_name or by_word

    def _by_name(self, text: str, systems: tuple[str | None, str | None]) -> Vote | None:
        """The side whose system, column or column's ending goes by this name, if one does."""
        ends = tuple(column.rpartition("_")[2] for column in self.sides)
        numbers = all(end.isdigit() for end in ends)
        for names in (systems, self.sides, ends if numbers else ()):
            keys = [None if name is None else _key(name) for name in names]
            if len(set(keys)) == 2 and _key(text) in keys:
                return "A" if keys[0] == _key(text) else "B"
        return None

    def _by_number(self, number: float) -> Vote | None:
        if self._signed:
            return "A" if number < 0 else "B" if number > 0 else "tie"
        known = self._numbers <= _NUMBERS.keys() and self._numbers != {1}
        return _NUMBERS.get(number) if known else None

    def _advice(self, word: object) -> str:
        text = word_of(word)
        if _NUMBER.fullmatch(text):
            numbers = sorted(self._numbers)
            if self._numbers <= {0, 1}:
                return "write A, B or tie, or say which is which: --values 0=A,1=B (or 0=B,1=A)"
            pairs = ",".join(f"{number:g}=..." for number in numbers[:6])
            return f"write A, B or tie, or say which is which: --values {pairs}"
        if self._has_systems:
            return "write A, B, tie, or the name of one of the pair's two systems as they are named"
        plain = "WORD" if len(text) > 40 or not text.isprintable() or "'" in text else text
        return f"write A, B or tie, or say what it means: --values '{plain}=A' (or B, or tie)"


def _key(name: str) -> str:
    return re.sub(r"[\s_]+", "", word_of(name))


def _vote_of(text: str) -> Vote | None:
    """The vote that a word or phrase names; None where it is none."""
    if text in _TIES or re.fullmatch(r"tie \(.*\)", text):
        return "tie"
    text = text.strip(" .!")
    if (bracketed := re.fullmatch(r"\[\[(.+)\]\]|\((.+)\)|\[(.+)\]", text)) is not None:
        text = (bracketed[1] or bracketed[2] or bracketed[3]).strip()
    if text in _TIES:
        return "tie"
    if (match := _COMPARED.fullmatch(text)) is not None:
        if (match["a"] is None) == (match["than_a"] is None):
            return None
        if match["sign"][0] not in "<>":
            return "tie"
        return "A" if (match["sign"][0] == ">") == (match["a"] is not None) else "B"
    if (match := _PHRASE.fullmatch(text)) is not None:
        side: Vote = "A" if match["a"] else "B"
        if match["than_a" if side == "A" else "than_b"]:
            return None
        return side
    return None
