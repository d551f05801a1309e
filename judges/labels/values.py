"""Reads a column of ratings: numbers, fractions such as 4/5, or words.

How a cell is read depends on all cells of its column.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from typing import TypeGuard

from judges.labels.types import Vote
from judges.tables.problems import UnreadableError, excerpt

Scale = tuple[float, float]
# Maps a user's words to what they stand for: a rating, a vote, or None for a missing rating.
Values = Mapping[str, float | Vote | None]

# The usual scales, the narrowest first.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

# The kinds of cells. The kind of a fraction ends with its denominator (100 for percentages); that
# of a word in `Values` is _MAPPED.
_NUMBER, _FRACTION, _TRUTH = "plain numbers", "shares of ", "yes and no"
_MAPPED, _MISSING, _WORD = "mapped", "missing", "word"
# Pairs of a good and a bad word. Yes and no are not among them: yes may be bad.
VERDICTS = (
    *("pass/fail", "passed/failed", "good/bad", "correct/incorrect", "right/wrong", "ok/not ok"),
    *("richtig/falsch", "gut/schlecht", "bestanden/durchgefallen", "bestanden/nicht bestanden"),
    *("thumbs up/thumbs down", "thumbs_up/thumbs_down", "up/down", "👍/👎", "okay/not okay"),
    *("accept/reject", "accepted/rejected", "approved/rejected", "acceptable/unacceptable"),
)
# Pairs of words for 1 and 0. They do not apply to a column with a third word (good, ok, bad).
_TRUTHS = (
    *VERDICTS,
    *("true/false", "yes/no", "y/n", "wahr/falsch", "ja/nein", "vrai/faux", "oui/non"),
    *("verdadero/falso", "sí/no", "si/no"),
)
_PAIRS = [tuple(pair.split("/")) for pair in _TRUTHS]
_TRUTH_WORDS = {good: 1.0 for good, _ in _PAIRS} | {bad: 0.0 for _, bad in _PAIRS}
# Words for a missing rating.
_MISSING_WORDS = frozenset(
    (
        *("", "n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "-", "--", "–", "—", "?"),
        *("not applicable", "not rated", "no answer", "missing", "skipped", "don't know"),
        *("unknown", "k.a.", "k. a.", "keine angabe", "sans réponse", "sin respuesta"),
    )
)

# Words in the labels at the ends of a scale. If 1 is labelled as good, the scale is reversed, as in
# German marks.
_GOOD = re.compile(r"\b(good|excellent|great|best|gut|hervorragend|bien|bonne?|excelente|bueno)\b")
_BAD = re.compile(r"\b(bad|poor|worst|terrible|schlecht|mangelhaft|ungenügend|mauvais|malo)\b")
# Numbers that surveys use for a missing answer: far above the ratings, or negative.
_MISSING_CODES = frozenset(map(float, (-9, -1, -88, -98, -99, -999, 88, 98, 99, 888, 999, 9999)))

_DIGITS = r"[+-]?\d+(?:[.,]\d+)?"
_PLAIN_POINT = re.compile(r"-?\d+(\.\d+)?|True|False|nan|-?inf", re.ASCII)
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d*,\d+", re.ASCII)
# In these numbers the comma or point may be a decimal mark or separate thousands.
_AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}(?!\d)", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", re.ASCII)
# A fraction such as 04/05, which may be a date that a spreadsheet made of 4/5.
_DATE = re.compile(r"0\d.*/|.*/\s*0\d")
_FRACTION_TEXT = re.compile(
    rf"({_DIGITS})\s*(?:/|out of|of|von|sur|de)\s*({_DIGITS})", re.ASCII | re.I
)
# A number with a label: "4 - good", "4: good", "(4) good", "4 (good)".
_LABELLED_NUMBER = re.compile(
    rf"[(\[]?({_DIGITS})(?:\s+[-–—]\s|\s*[:=|)\](])\s*([^\W\d][^\d)]*)\)?"
)
_INVISIBLE = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
# How many words a message lists, and the maximum length of a word.
_MAX_WORDS, _MAX_WORD_LENGTH = 6, 40


@dataclass(frozen=True, slots=True)
class _Cell:
    """A different value of a column, as it reads on its own.

    `number` is the number that the cell stands for, and `word` the cell's word or its number's
    label. `value` is the value in the file, and `count` the number of cells with this value.
    """

    kind: str
    number: float = math.nan
    word: str = ""
    value: object = None
    count: int = 0

    @property
    def text(self) -> str:
        """The text of a cell that is a string; "" for any other value."""
        return normalize_text(self.value) if isinstance(self.value, str) else ""

    @property
    def number_word(self) -> str:
        """The word that the column uses for the cell's number."""
        return f"{self.number:g}" if self.kind == _NUMBER else self.word


def normalize_text(value: object) -> str:
    """Return a cell as text, with single spaces and without invisible characters."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = " ".join(str(value).translate(_INVISIBLE).split())
    # In spreadsheets, an apostrophe marks a text that looks like a number.
    return text.removeprefix("'").strip()


def normalize_word(value: object) -> str:
    """Return a cell as a word, in lower case and with single spaces."""
    return normalize_text(value).casefold()


def is_missing_value(value: object) -> bool:
    """Whether a cell is blank or a word for a missing rating."""
    return value is None or _short_word(value) in _MISSING_WORDS


def is_yes_or_no(value: object, words: Collection[str] = ()) -> bool:
    """Whether a cell is a known word such as yes, true or fail, a bool, or one of `words`."""
    word = _short_word(value)
    return isinstance(value, bool) or word in _TRUTH_WORDS or word in words


def _short_word(value: object) -> str | None:
    """The word in a cell; None for longer texts (they would be slow) and values of other types."""
    return (
        normalize_word(value) if isinstance(value, str) and len(value) < _MAX_WORD_LENGTH else None
    )


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell reads as a number on its own; in a `typed` format a string never does."""
    if isinstance(value, str):
        is_short = not typed and len(value) <= _MAX_WORD_LENGTH
        return is_short and _parse(value).kind not in (_TRUTH, _MISSING, _WORD)
    return _is_number(value)


def _is_number(value: object) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _parse(value: object) -> _Cell:
    """Read a cell on its own."""
    if _is_number(value):
        try:
            return _Cell(_NUMBER, float(value))
        except OverflowError:
            return _Cell(_NUMBER, math.inf)
    text = normalize_text(value)
    word = text.casefold()
    if word in _MISSING_WORDS:
        return _Cell(_MISSING)
    if word in _TRUTH_WORDS:
        return _Cell(_TRUTH, _TRUTH_WORDS[word], word)
    if _PLAIN.fullmatch(text):
        return _Cell(_NUMBER, _decimal(text))
    return _parse_fraction(text) or _parse_labelled(text) or _Cell(_WORD)


def _parse_fraction(text: str) -> _Cell | None:
    """Read a fraction such as 4/5 or 85%; None for any other text."""
    fraction = _FRACTION_TEXT.fullmatch(text.replace("%", "/100"))
    if fraction is None or _DATE.match(text):
        return None
    numerator, denominator = map(_decimal, fraction.groups())
    return _Cell(f"{_FRACTION}{denominator:g}", numerator) if numerator <= denominator else None


def _parse_labelled(text: str) -> _Cell | None:
    """Read a number with a label, such as `4 - good`; None for any other text."""
    match = _LABELLED_NUMBER.fullmatch(text)
    if match is None:
        return None
    label = match[2].strip().casefold()
    return _Cell(_MISSING if label in _MISSING_WORDS else _NUMBER, _decimal(match[1]), label)


def _decimal(digits: str) -> float:
    return float(digits.replace(",", "."))


class RatingCells:
    """Reads a column's cells as ratings; all cells together decide how each is read.

    A column has one kind of cells: plain numbers (which may have labels), fractions of one
    denominator, percentages, or one pair of words for yes (1) and no (0). Cells of another kind are
    refused, and so are numbers whose comma or point may separate thousands. `values` are the
    column's cells, `words` are the user's words with their numbers, and `decimal_commas` says that
    decimal commas are likely, as in a file with semicolons.
    """

    def __init__(
        self, values: Iterable[object], words: Values | None = None, *, decimal_commas: bool = False
    ) -> None:
        self._words = {normalize_word(word): number for word, number in (words or {}).items()}
        counts = Counter(map(_key, values))
        self._by_key = {
            key: replace(self._parse(key[1]), value=key[1], count=n) for key, n in counts.items()
        }
        self._cells = self._by_key.values()
        kinds = _tally((cell.kind, cell.count) for cell in self._cells)
        pairs = self._find_pairs()
        # The numbers of the column's words. The user's words are among them if any cell has one.
        self._known_words = {word: _TRUTH_WORDS[word] for pair in pairs for word in pair}
        if kinds[_MAPPED]:
            numbers = {w: n for w, n in self._words.items() if isinstance(n, int | float)}
            self._known_words |= {word: float(number) for word, number in numbers.items()}
        # The kind of most cells: numbers, fractions, or words for yes and no; "" if none is known.
        usual_kinds = kinds.keys() - {_MAPPED, _MISSING, _WORD} - ({_TRUTH} if not pairs else set())
        default = _TRUTH if kinds[_MAPPED] else ""
        self._kind = max(usual_kinds, key=lambda kind: (kinds[kind], kind), default=default)
        # The decimal mark is a comma if a cell says so, or by default if none has a point.
        texts = [cell.text.rstrip("% ") for cell in self._cells]
        no_points = not any("." in text and not _AMBIGUOUS.fullmatch(text) for text in texts)
        has_commas = any(map(_DECIMAL_COMMA.fullmatch, texts))
        self._decimal_commas = has_commas or (decimal_commas and no_points)
        self._codes, self._is_reversed = self._find_codes(), self._has_reversed_labels()

    def _parse(self, value: object) -> _Cell:
        """Read a cell by the user's words if it is one of them, else on its own."""
        word = normalize_word(value)
        meaning = self._words.get(word, "")
        if isinstance(meaning, str):
            return _parse(value)
        return _Cell(_MISSING) if meaning is None else _Cell(_MAPPED, float(meaning), word)

    def _find_pairs(self) -> list[tuple[str, ...]]:
        """Return the pairs of words for yes and no to which most cells belong; [] if none do."""
        truths = _tally(
            (cell.word, cell.count)
            for cell in self._cells
            if cell.kind in (_TRUTH, _MAPPED) and cell.number == _TRUTH_WORDS.get(cell.word)
        )
        counts = {pair: truths[pair[0]] + truths[pair[1]] for pair in _PAIRS}
        # Up to a quarter of the cells may be misspelt.
        needed = max(1, *counts.values(), 3 * truths.total() / 4)
        return [pair for pair, number in counts.items() if number == needed]

    @property
    def two_values(self) -> tuple[str, str] | None:
        """The words for 1 and for 0 in a column with only these values; None for other columns.

        A column may have only one word of a pair, such as `pass`. A column of the number 1 alone is
        not one: 1 may be the lowest rating on a scale from 1 to 5.
        """
        rated = [cell for cell in self._cells if cell.kind != _MISSING]
        if not {cell.kind for cell in rated} <= {_NUMBER, _TRUTH, _MAPPED}:
            return None
        # Counts how many cells have each word for a number; 0 for a known word in no cell.
        word_counts: dict[float, Counter[str]] = defaultdict(Counter)
        for word, number in self._known_words.items():
            word_counts[number][word] = 0
        for cell in rated:
            word_counts[cell.number][cell.number_word] += cell.count
        if word_counts.keys() != {0, 1}:
            return None
        return word_counts[1].most_common(1)[0][0], word_counts[0].most_common(1)[0][0]

    @property
    def is_unknown_pair(self) -> bool:
        """Whether the column has exactly two words, and neither has a known number."""
        words = {normalize_word(cell.value) for cell in self._cells if cell.kind == _WORD}
        return len(words) == 2 and {cell.kind for cell in self._cells} <= {_WORD, _MISSING}

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """Return the rating in a cell, None if it is missing; else raises UnreadableError."""
        cell = self._by_key[_key(value)]
        if cell.kind == _MISSING:
            return None
        if fault := self._fault(cell):
            correction = "correct the word" if self._kind == _TRUTH else "write a plain number"
            advice = f"{correction}, or say what it counts: {self.values_flag}"
            if not self._kind and len(self._by_key) > _MAX_WORDS:
                advice = "the column holds texts; name the column with the ratings (--map)"
            raise UnreadableError("not-a-number", fault, advice, value)
        if not math.isfinite(cell.number):
            advice = "leave the cell empty if there is no rating"
            raise UnreadableError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= cell.number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "correct the rating, or state the scale that people were given"
            raise UnreadableError("off-scale", fault, advice, value)
        return cell.number

    def _fault(self, cell: _Cell) -> str:
        """Return what is wrong with a cell in this column; "" if nothing is."""
        if cell.kind in (_MISSING, _MAPPED):
            return ""
        if cell.kind != self._kind or (cell.kind == _TRUTH and cell.word not in self._known_words):
            faults = {"": "is not a number", _TRUTH: "is not a known word, as the others are"}
            return faults.get(self._kind, "is not a number like the others")
        if _AMBIGUOUS.match(cell.text) and self._decimal_commas != ("," in cell.text):
            return "may have a decimal mark or a separator of thousands"
        if cell.number in self._codes:
            return f"looks like a code for a missing rating (if so, --values={cell.number:g}=)"
        return (
            "is on a scale on which the lowest number is the best"
            if self._is_reversed and cell.word
            else ""
        )

    @cached_property
    def values_flag(self) -> str:
        """The flag --values for the words in faulty cells.

        It suggests numbers for misspelt words and for a pair of unknown words, else says NUMBER.
        """
        faulty = filter(self._fault, self._cells)
        counts = _tally((normalize_word(cell.value), cell.count) for cell in faulty)
        words = [word for word, _ in counts.most_common() if _is_plain_word(word)]
        guesses = dict(zip(words, "10", strict=False)) if self.is_unknown_pair else {}
        entries = [
            f"{_quoted(word)}={guesses.get(word) or self._likely_number(word)}"
            for word in words[:_MAX_WORDS] or ["WORD"]
        ]
        # argparse would take a word such as -99 for a flag.
        flag = "--values=" if entries[0].startswith("-") else "--values "
        return f"{flag}'{','.join(entries)}{'...' * (len(words) > _MAX_WORDS)}'"

    def _has_reversed_labels(self) -> bool:
        """Whether the lowest number has a label for good, and the highest a label for bad."""
        labels = {c.number: c.word for c in self._cells if c.kind == _NUMBER and c.word}
        ends = (labels[min(labels)], labels[max(labels)]) if len(labels) > 1 else ("", "")
        return bool(_GOOD.search(ends[0]) and _BAD.search(ends[1]))

    def _find_codes(self) -> frozenset[float]:
        """The column's numbers that are codes for a missing answer, and cannot be ratings."""
        numbers = {cell.number for cell in self._cells if cell.kind == _NUMBER}
        ratings = numbers - _MISSING_CODES
        if self._kind != _NUMBER or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        codes = {code for code in numbers & _MISSING_CODES if code < 0 or code > 3 * max(ratings)}
        # If the scale has a 0 or is short, -1 may be a rating.
        may_be_signed = min(ratings) < 1 or max(ratings) < 3
        return frozenset(codes - {-1.0} if may_be_signed else codes)

    def _likely_number(self, word: str) -> str:
        """The number of the word that this one may misspell, or else "NUMBER"."""
        choices = self._known_words if self._kind == _TRUTH else {}
        close = get_close_matches(word, choices, n=1)
        return f"{choices[close[0]]:g}" if close else "NUMBER"

    def notes(self) -> Iterator[str]:
        """Yield notes on how cells were read, if it is not obvious."""
        cells = {str(cell.value): cell for cell in self._cells if normalize_text(cell.value)}
        missing = {text: cell for text, cell in cells.items() if cell.kind == _MISSING}
        if two := self.two_values:
            note = f"{two[0]!r} is a pass and counts 1, {two[1]!r} a fail and 0"
            yield note if "/".join(two) in VERDICTS else f"{note}; --values reverses it"
        elif read := [
            f"{excerpt(text)} as {cell.number:.12g}"
            for text, cell in cells.items()
            if cell.kind not in (_MISSING, _MAPPED) and not _PLAIN_POINT.fullmatch(text)
        ]:
            more = ", ..." if len(read) > _MAX_WORDS else ""
            yield f"read {', '.join(sorted(read[:_MAX_WORDS]))}{more}; --values changes this"
        if missing:
            words = ", ".join(map(excerpt, [*missing][:_MAX_WORDS]))
            n_missing = sum(cell.count for cell in missing.values())
            yield f"{n_missing:,} without a rating, written {words}"


def _tally(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for word, count in counts:
        total[word] += count
    return total


def _is_plain_word(word: str) -> bool:
    return word.isprintable() and len(word) <= _MAX_WORD_LENGTH and "'" not in word


def _quoted(word: str) -> str:
    return f'"{word}"' if "," in word else word


def _key(value: object) -> tuple[type, object]:
    """Return a hashable key for a cell: its type, and its value or the text of a list or object."""
    value = "" if value is None else value
    hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if hashable else str(value)
