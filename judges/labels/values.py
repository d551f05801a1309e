"""Reads a column of ratings: numbers, fractions such as 4/5, or words.

What a cell means may depend on the other cells in its column.
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
# Maps each of the user's words to a rating, to a vote, or to None for a missing rating.
Values = Mapping[str, float | Vote | None]

# The usual scales, from narrow to wide.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

# The kinds of cells. The denominator of a fraction is added to its kind, as in `shares of 5`; it is
# 100 for percentages. A cell with one of the user's words (`Values`) has _MAPPED_KIND.
_NUMBER_KIND, _FRACTION_KIND, _YES_NO_KIND = "plain numbers", "shares of ", "yes and no"
_MAPPED_KIND, _MISSING_KIND, _WORD_KIND = "mapped", "missing", "word"
# Pairs of words of which the first is always the good one. Of yes and no, either may be good.
VERDICTS = (
    *("pass/fail", "passed/failed", "good/bad", "correct/incorrect", "right/wrong", "ok/not ok"),
    *("richtig/falsch", "gut/schlecht", "bestanden/durchgefallen", "bestanden/nicht bestanden"),
    *("thumbs up/thumbs down", "thumbs_up/thumbs_down", "up/down", "👍/👎", "okay/not okay"),
    *("accept/reject", "accepted/rejected", "approved/rejected", "acceptable/unacceptable"),
)
# Pairs of words that are read as 1 and 0, unless the column has a third word (good, ok, bad).
_YES_NO_WORDS = (
    *VERDICTS,
    *("true/false", "yes/no", "y/n", "wahr/falsch", "ja/nein", "vrai/faux", "oui/non"),
    *("verdadero/falso", "sí/no", "si/no"),
)
_YES_NO_PAIRS = [tuple(pair.split("/")) for pair in _YES_NO_WORDS]
_NUMBER_BY_YES_NO_WORD = {good: 1.0 for good, _ in _YES_NO_PAIRS} | {
    bad: 0.0 for _, bad in _YES_NO_PAIRS
}
# Cells that mean a missing rating.
_MISSING_WORDS = frozenset(
    (
        *("", "n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "-", "--", "–", "—", "?"),
        *("not applicable", "not rated", "no answer", "missing", "skipped", "don't know"),
        *("unknown", "k.a.", "k. a.", "keine angabe", "sans réponse", "sin respuesta"),
    )
)

# Words in the labels of ratings. If the lowest rating is labelled as good and the highest as bad,
# the scale is reversed, as in German school marks.
_GOOD_WORDS = re.compile(
    r"\b(good|excellent|great|best|gut|hervorragend|bien|bonne?|excelente|bueno)\b"
)
_BAD_WORDS = re.compile(
    r"\b(bad|poor|worst|terrible|schlecht|mangelhaft|ungenügend|mauvais|malo)\b"
)
# Numbers that surveys write for a missing answer; they are negative or far above the ratings.
_MISSING_CODES = frozenset(map(float, (-9, -1, -88, -98, -99, -999, 88, 98, 99, 888, 999, 9999)))

_DECIMAL = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
# A number as Python writes it. A note says how numbers in any other form were read.
_STANDARD_NUMBER = re.compile(r"-?\d+(\.\d+)?|True|False|nan|-?inf", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d*,\d+", re.ASCII)
# Matches a number such as 1,234, whose comma or point may be a decimal mark or separate thousands.
_AMBIGUOUS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}(?!\d)", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", re.ASCII)
# Matches a fraction such as 04/05, which may be a date that a spreadsheet made from 4/5.
_POSSIBLE_DATE = re.compile(r"0\d.*/|.*/\s*0\d")
_FRACTION = re.compile(
    rf"({_DECIMAL})\s*(?:/|out of|of|von|sur|de)\s*({_DECIMAL})", re.ASCII | re.I
)
# Matches a number with a label: "4 - good", "4: good", "(4) good" or "4 (good)".
_LABELLED_NUMBER = re.compile(
    rf"[(\[]?({_DECIMAL})(?:\s+[-–—]\s|\s*[:=|)\](])\s*([^\W\d][^\d)]*)\)?"
)
_CHARACTER_REPLACEMENTS = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
# The largest number of words that a message lists, and the largest length of a word.
_MAX_WORDS, _MAX_WORD_LENGTH = 6, 40


@dataclass(frozen=True, slots=True)
class _CellValue:
    """One of the different values in a column, with what it means.

    Attributes:
        kind: The kind of the value, such as `_NUMBER_KIND`.
        number: The number that the value stands for; NaN if it stands for none.
        word: The value's word or the label of its number, such as `good` in `4 - good`.
        value: The value in the file.
        count: The number of cells with this value.
    """

    kind: str
    number: float = math.nan
    word: str = ""
    value: object = None
    count: int = 0

    @property
    def text(self) -> str:
        """The normalized text of a value that is a string; "" for any other value."""
        return normalize_text(self.value) if isinstance(self.value, str) else ""

    @property
    def number_word(self) -> str:
        """The word or digits that the file has for the value's number."""
        return f"{self.number:g}" if self.kind == _NUMBER_KIND else self.word


def normalize_text(value: object) -> str:
    """Return a cell as a string with single spaces and without invisible characters."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = " ".join(str(value).translate(_CHARACTER_REPLACEMENTS).split())
    # In a spreadsheet, a leading apostrophe marks a number as text.
    return text.removeprefix("'").strip()


def normalize_word(value: object) -> str:
    """Return a cell as a string in lower case, with single spaces."""
    return normalize_text(value).casefold()


def is_missing_value(value: object) -> bool:
    """Whether a cell is blank or a word for a missing value, such as `n/a`."""
    return value is None or _short_word(value) in _MISSING_WORDS


def is_yes_or_no(value: object, words: Collection[str] = ()) -> bool:
    """Whether a cell is a bool, a known word such as yes, true or fail, or one of `words`."""
    word = _short_word(value)
    return isinstance(value, bool) or word in _NUMBER_BY_YES_NO_WORD or word in words


def changes_meaning(word: str, value: float | Vote | None) -> bool:
    """Whether a word stands for a number that it does not stand for anyway."""
    return value is not None and _NUMBER_BY_YES_NO_WORD.get(normalize_word(word)) != value


def _short_word(value: object) -> str | None:
    """Return a short string in lower case; None for a long string or a value of another type."""
    return (
        normalize_word(value) if isinstance(value, str) and len(value) < _MAX_WORD_LENGTH else None
    )


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell can be read as a number. In a `typed` format, a string never can."""
    if isinstance(value, str):
        is_short = not typed and len(value) <= _MAX_WORD_LENGTH
        return is_short and _parse_alone(value).kind not in (
            _YES_NO_KIND,
            _MISSING_KIND,
            _WORD_KIND,
        )
    return _is_number(value)


def _is_number(value: object) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _parse_alone(value: object) -> _CellValue:
    """Read a cell without regard to the other cells in its column."""
    if _is_number(value):
        try:
            return _CellValue(_NUMBER_KIND, float(value))
        except OverflowError:
            return _CellValue(_NUMBER_KIND, math.inf)
    text = normalize_text(value)
    word = text.casefold()
    if word in _MISSING_WORDS:
        return _CellValue(_MISSING_KIND)
    if word in _NUMBER_BY_YES_NO_WORD:
        return _CellValue(_YES_NO_KIND, _NUMBER_BY_YES_NO_WORD[word], word)
    if _PLAIN_NUMBER.fullmatch(text):
        return _CellValue(_NUMBER_KIND, _parse_decimal(text))
    return _parse_fraction(text) or _parse_labelled(text) or _CellValue(_WORD_KIND)


def _parse_fraction(text: str) -> _CellValue | None:
    """Read a fraction such as 4/5 or 85%; None for any other text."""
    fraction = _FRACTION.fullmatch(text.replace("%", "/100"))
    if fraction is None or _POSSIBLE_DATE.match(text):
        return None
    numerator, denominator = map(_parse_decimal, fraction.groups())
    return (
        _CellValue(f"{_FRACTION_KIND}{denominator:g}", numerator)
        if numerator <= denominator
        else None
    )


def _parse_labelled(text: str) -> _CellValue | None:
    """Read a number with a label, such as `4 - good`; None for any other text."""
    match = _LABELLED_NUMBER.fullmatch(text)
    if match is None:
        return None
    label = match[2].strip().casefold()
    return _CellValue(
        _MISSING_KIND if label in _MISSING_WORDS else _NUMBER_KIND, _parse_decimal(match[1]), label
    )


def _parse_decimal(digits: str) -> float:
    return float(digits.replace(",", "."))


class RatingReader:
    """Reads the cells in one column as ratings.

    All cells of a column must be of the same kind: plain numbers (which may have labels), fractions
    with the same denominator, percentages, or one pair of words for yes (1) and no (0). `read`
    raises an error for a cell of any other kind than the most frequent one, and for a number whose
    comma or point may separate thousands.

    Args:
        values: The column's cells.
        words: The user's words with their numbers.
        decimal_commas: Whether decimal commas are likely, as in a CSV file with semicolons.
    """

    def __init__(
        self, values: Iterable[object], words: Values | None = None, *, decimal_commas: bool = False
    ) -> None:
        self._user_values = {normalize_word(word): number for word, number in (words or {}).items()}
        counts = Counter(map(_hashable_key, values))
        self._cell_by_key = {
            key: replace(self._parse(key[1]), value=key[1], count=n) for key, n in counts.items()
        }
        self._cells = self._cell_by_key.values()
        count_by_kind = _sum_counts((cell.kind, cell.count) for cell in self._cells)
        found_pairs = self._find_pairs()
        # The words with a known number. They include all of the user's words if any cell has one.
        self._number_by_word = {
            word: _NUMBER_BY_YES_NO_WORD[word] for pair in found_pairs for word in pair
        }
        if count_by_kind[_MAPPED_KIND]:
            numbers = {
                word: n for word, n in self._user_values.items() if isinstance(n, int | float)
            }
            self._number_by_word |= {word: float(number) for word, number in numbers.items()}
        # The most frequent kind of cells among numbers, fractions, and words for yes and no.
        usual_kinds = (
            count_by_kind.keys()
            - {_MAPPED_KIND, _MISSING_KIND, _WORD_KIND}
            - ({_YES_NO_KIND} if not found_pairs else set())
        )
        default = _YES_NO_KIND if count_by_kind[_MAPPED_KIND] else ""
        self._main_kind = max(
            usual_kinds, key=lambda kind: (count_by_kind[kind], kind), default=default
        )
        # The decimal mark is a comma if any cell clearly has a decimal comma. In a file with
        # semicolons, it is also a comma if no cell clearly has a decimal point.
        number_texts = [cell.text.rstrip("% ") for cell in self._cells]
        has_no_points = not any(
            "." in text and not _AMBIGUOUS_NUMBER.fullmatch(text) for text in number_texts
        )
        has_commas = any(map(_DECIMAL_COMMA.fullmatch, number_texts))
        self._decimal_commas = has_commas or (decimal_commas and has_no_points)
        self._missing_codes = self._find_missing_codes()
        self._lowest_is_best = self._has_reversed_labels()

    def _parse(self, value: object) -> _CellValue:
        """Read a value as one of the user's words, or else without regard to the column."""
        word = normalize_word(value)
        meaning = self._user_values.get(word, "")
        if isinstance(meaning, str):
            return _parse_alone(value)
        return (
            _CellValue(_MISSING_KIND)
            if meaning is None
            else _CellValue(_MAPPED_KIND, float(meaning), word)
        )

    def _find_pairs(self) -> list[tuple[str, ...]]:
        """Return the pairs of words for yes and no that fit most cells; [] if no pair does."""
        count_by_word = _sum_counts(
            (cell.word, cell.count)
            for cell in self._cells
            if cell.kind in (_YES_NO_KIND, _MAPPED_KIND)
            and cell.number == _NUMBER_BY_YES_NO_WORD.get(cell.word)
        )
        counts = {pair: count_by_word[pair[0]] + count_by_word[pair[1]] for pair in _YES_NO_PAIRS}
        # Up to a quarter of the cells may be misspelt, so that they do not fit the pair.
        needed = max(1, *counts.values(), 3 * count_by_word.total() / 4)
        return [pair for pair, number in counts.items() if number == needed]

    @property
    def two_values(self) -> tuple[str, str] | None:
        """The words for 1 and for 0 in a column with only these two values, else None.

        If a column has only one word of a known pair, such as `pass`, the other word is added. A
        column of only the number 1 gives None, since 1 may be the lowest rating on a scale.
        """
        rated_cells = [cell for cell in self._cells if cell.kind != _MISSING_KIND]
        if not {cell.kind for cell in rated_cells} <= {_NUMBER_KIND, _YES_NO_KIND, _MAPPED_KIND}:
            return None
        # The number of cells with each word, for each rating. It is 0 for a known word in no cell.
        word_counts: dict[float, Counter[str]] = defaultdict(Counter)
        for word, number in self._number_by_word.items():
            word_counts[number][word] = 0
        for cell in rated_cells:
            word_counts[cell.number][cell.number_word] += cell.count
        if word_counts.keys() != {0, 1}:
            return None
        return word_counts[1].most_common(1)[0][0], word_counts[0].most_common(1)[0][0]

    @property
    def is_unknown_pair(self) -> bool:
        """Whether the column holds exactly two words, whose numbers are both unknown."""
        words = {normalize_word(cell.value) for cell in self._cells if cell.kind == _WORD_KIND}
        return len(words) == 2 and {cell.kind for cell in self._cells} <= {
            _WORD_KIND,
            _MISSING_KIND,
        }

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """Return the rating in a cell, or None for a missing rating.

        Raises UnreadableError if the cell holds no rating, or one that is not on `scale`.
        """
        cell = self._cell_by_key[_hashable_key(value)]
        if cell.kind == _MISSING_KIND:
            return None
        if fault := self._find_fault(cell):
            first_advice = (
                "correct the word" if self._main_kind == _YES_NO_KIND else "write a plain number"
            )
            advice = f"{first_advice}, or give its number: {self.values_flag}"
            if not self._main_kind and len(self._cell_by_key) > _MAX_WORDS:
                advice = "the column holds texts; name the column of ratings with --map"
            raise UnreadableError("not-a-number", fault, advice, value)
        if not math.isfinite(cell.number):
            advice = "leave the cell empty if there is no rating"
            raise UnreadableError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= cell.number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "correct the rating, or state the scale that people were given"
            raise UnreadableError("off-scale", fault, advice, value)
        return cell.number

    def _find_fault(self, cell: _CellValue) -> str:
        """Return the end of a sentence on why a cell cannot be read; "" if it can be read."""
        if cell.kind in (_MISSING_KIND, _MAPPED_KIND):
            return ""
        if cell.kind != self._main_kind or (
            cell.kind == _YES_NO_KIND and cell.word not in self._number_by_word
        ):
            fault_by_kind = {
                "": "is not a number",
                _YES_NO_KIND: "is not a known word, but other cells are",
            }
            return fault_by_kind.get(self._main_kind, "is not a number like the others")
        if _AMBIGUOUS_NUMBER.match(cell.text) and self._decimal_commas != ("," in cell.text):
            return "may contain a decimal mark or a thousands separator"
        if cell.number in self._missing_codes:
            return f"looks like a code for a missing rating (if so, --values={cell.number:g}=)"
        return (
            "is on a scale whose lowest number is the best"
            if self._lowest_is_best and cell.word
            else ""
        )

    @cached_property
    def values_flag(self) -> str:
        """The flag --values with the words that cannot be read, for the user to complete.

        It suggests a number for a misspelt word and for two unknown words, and else says NUMBER.
        """
        faulty_cells = filter(self._find_fault, self._cells)
        counts = _sum_counts((normalize_word(cell.value), cell.count) for cell in faulty_cells)
        words = [word for word, _ in counts.most_common() if _can_be_in_flag(word)]
        guessed_numbers = dict(zip(words, "10", strict=False)) if self.is_unknown_pair else {}
        entries = [
            f"{_quote_if_needed(word)}={guessed_numbers.get(word) or self._likely_number(word)}"
            for word in words[:_MAX_WORDS] or ["WORD"]
        ]
        # After a space, argparse would read a word such as -99 as another flag.
        flag = "--values=" if entries[0].startswith("-") else "--values "
        return f"{flag}'{','.join(entries)}{'...' * (len(words) > _MAX_WORDS)}'"

    def _has_reversed_labels(self) -> bool:
        """Whether the lowest number is labelled as good, and the highest one as bad."""
        label_by_number = {
            cell.number: cell.word
            for cell in self._cells
            if cell.kind == _NUMBER_KIND and cell.word
        }
        end_labels = (
            (label_by_number[min(label_by_number)], label_by_number[max(label_by_number)])
            if len(label_by_number) > 1
            else ("", "")
        )
        return bool(_GOOD_WORDS.search(end_labels[0]) and _BAD_WORDS.search(end_labels[1]))

    def _find_missing_codes(self) -> frozenset[float]:
        """The numbers in the column that must be codes for a missing answer, such as 99."""
        numbers = {cell.number for cell in self._cells if cell.kind == _NUMBER_KIND}
        ratings = numbers - _MISSING_CODES
        if self._main_kind != _NUMBER_KIND or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        codes = {code for code in numbers & _MISSING_CODES if code < 0 or code > 3 * max(ratings)}
        # On a scale that has a 0, or is short, -1 may be a rating.
        may_be_signed = min(ratings) < 1 or max(ratings) < 3
        return frozenset(codes - {-1.0} if may_be_signed else codes)

    def _likely_number(self, word: str) -> str:
        """The number for the known word that `word` may misspell; "NUMBER" if none is similar."""
        known_numbers = self._number_by_word if self._main_kind == _YES_NO_KIND else {}
        similar_words = get_close_matches(word, known_numbers, n=1)
        return f"{known_numbers[similar_words[0]]:g}" if similar_words else "NUMBER"

    def notes(self) -> Iterator[str]:
        """Yield notes on cells whose meaning is not obvious, and on missing ratings."""
        cell_by_text = {str(cell.value): cell for cell in self._cells if normalize_text(cell.value)}
        missing_cells = {
            text: cell for text, cell in cell_by_text.items() if cell.kind == _MISSING_KIND
        }
        if good_and_bad := self.two_values:
            note = f"{good_and_bad[0]!r} is a pass and counts 1, {good_and_bad[1]!r} a fail and 0"
            yield note if "/".join(good_and_bad) in VERDICTS else f"{note}; --values reverses it"
        elif readings := [
            f"{excerpt(text)} as {cell.number:.12g}"
            for text, cell in cell_by_text.items()
            if cell.kind not in (_MISSING_KIND, _MAPPED_KIND)
            and not _STANDARD_NUMBER.fullmatch(text)
        ]:
            ellipsis = ", ..." if len(readings) > _MAX_WORDS else ""
            listed = ", ".join(sorted(readings[:_MAX_WORDS]))
            yield f"read {listed}{ellipsis}; --values changes this"
        if missing_cells:
            words = ", ".join(map(excerpt, [*missing_cells][:_MAX_WORDS]))
            n_missing = sum(cell.count for cell in missing_cells.values())
            yield f"{n_missing:,} without a rating, written {words}"


def _sum_counts(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for word, count in counts:
        total[word] += count
    return total


def _can_be_in_flag(word: str) -> bool:
    return word.isprintable() and len(word) <= _MAX_WORD_LENGTH and "'" not in word


def _quote_if_needed(word: str) -> str:
    return f'"{word}"' if "," in word else word


def _hashable_key(value: object) -> tuple[type, object]:
    """Return a hashable key for a cell: its type and its value, or str(value) for a list."""
    value = "" if value is None else value
    hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if hashable else str(value)
