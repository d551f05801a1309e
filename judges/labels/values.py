"""Reads one cell as a rating, without regard to its column: a number, a fraction or a word."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeGuard

from judges.labels.types import Vote

Scale = tuple[float, float]
# Maps each of the user's words to a rating, to a vote, or to None for a missing rating.
WordValues = Mapping[str, float | Vote | None]

# The usual scales, from narrow to wide.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

# The kinds of cells. The kind of a fraction ends with its denominator, as in `shares of 5`. The
# denominator of percentages is 100. A cell with one of the user's words (`WordValues`) is MAPPED.
NUMBER, FRACTION, YES_NO = "plain numbers", "shares of ", "yes and no"
MAPPED, MISSING, WORD = "mapped", "missing", "word"


def _word_pairs(*slashed_pairs: str) -> list[tuple[str, str]]:
    return [(good, bad) for good, _, bad in (pair.partition("/") for pair in slashed_pairs)]


# Pairs of words for a verdict, the good word first. Yes and no are not here: either may be good.
VERDICT_PAIRS = _word_pairs(
    *("pass/fail", "passed/failed", "good/bad", "correct/incorrect", "right/wrong", "ok/not ok"),
    *("richtig/falsch", "gut/schlecht", "bestanden/durchgefallen", "bestanden/nicht bestanden"),
    *("thumbs up/thumbs down", "thumbs_up/thumbs_down", "up/down", "👍/👎", "okay/not okay"),
    *("accept/reject", "accepted/rejected", "approved/rejected", "acceptable/unacceptable"),
)
# Pairs of words that are read as 1 and 0, unless the column has a third word such as `average`.
YES_NO_PAIRS = VERDICT_PAIRS + _word_pairs(
    *("true/false", "yes/no", "y/n", "wahr/falsch", "ja/nein", "vrai/faux", "oui/non"),
    *("verdadero/falso", "sí/no", "si/no"),
)
NUMBER_BY_YES_NO_WORD = {yes: 1.0 for yes, _ in YES_NO_PAIRS} | {no: 0.0 for _, no in YES_NO_PAIRS}
# Words that people write in place of a missing rating.
_MISSING_WORDS = frozenset(
    (
        *("", "n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "-", "--", "–", "—", "?"),
        *("not applicable", "not rated", "no answer", "missing", "skipped", "don't know"),
        *("unknown", "k.a.", "k. a.", "keine angabe", "sans réponse", "sin respuesta"),
    )
)

_DECIMAL_PATTERN = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d*,\d+", re.ASCII)
_FRACTION = re.compile(
    rf"({_DECIMAL_PATTERN})\s*(?:/|out of|of|von|sur|de)\s*({_DECIMAL_PATTERN})", re.ASCII | re.I
)
# Matches a fraction such as 04/05, which may be a date that a spreadsheet made from 4/5.
_POSSIBLE_DATE = re.compile(r"0\d.*/|.*/\s*0\d")
# Matches a number with a word beside it, such as "4 - good", "4: good", "(4) good" or "4 (good)".
_NUMBER_WITH_WORD = re.compile(
    rf"[(\[]?({_DECIMAL_PATTERN})(?:\s+[-–—]\s|\s*[:=|)\](])\s*([^\W\d][^\d)]*)\)?"
)
_CHARACTER_REPLACEMENTS = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
# A word that stands for a rating has at most this number of characters.
MAX_WORD_LENGTH = 40


@dataclass(frozen=True, slots=True)
class CellValue:
    """A value in a column, with its meaning and with the number of cells that hold it (`count`).

    `number` is the rating that the value means, or NaN if it means none. `word` is the value itself
    or a word beside its number, such as `good` in `4 - good`.
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


def _short_word(value: object) -> str | None:
    """Return a short string in lower case; None for a long string or a value of another type."""
    is_short = isinstance(value, str) and len(value) < MAX_WORD_LENGTH
    return normalize_word(value) if is_short else None


def is_missing_value(value: object) -> bool:
    """Return whether a cell is blank or a word for a missing value, such as `n/a`."""
    return value is None or _short_word(value) in _MISSING_WORDS


def is_yes_or_no(value: object, rating_words: Collection[str]) -> bool:
    """Return whether a cell is a bool, a word such as yes or fail, or one of `rating_words`."""
    word = _short_word(value)
    return isinstance(value, bool) or word in NUMBER_BY_YES_NO_WORD or word in rating_words


def looks_like_number(value: object, *, parse_strings: bool = True) -> bool:
    """Return whether a cell is a number or, with `parse_strings`, a string such as "4/5"."""
    if not isinstance(value, str):
        return _is_number(value)
    may_be_number = parse_strings and len(value) <= MAX_WORD_LENGTH
    return may_be_number and parse_cell(value).kind not in (YES_NO, MISSING, WORD)


def _is_number(value: object) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def parse_cell(value: object) -> CellValue:
    """Return what a cell means, without regard to the other cells in its column."""
    if _is_number(value):
        try:
            return CellValue(NUMBER, float(value))
        except OverflowError:
            return CellValue(NUMBER, math.inf)
    text = normalize_text(value)
    word = text.casefold()
    if word in _MISSING_WORDS:
        return CellValue(MISSING)
    if word in NUMBER_BY_YES_NO_WORD:
        return CellValue(YES_NO, NUMBER_BY_YES_NO_WORD[word], word)
    if _PLAIN_NUMBER.fullmatch(text):
        return CellValue(NUMBER, _parse_decimal(text))
    fraction = _FRACTION.fullmatch(text.replace("%", "/100"))
    if fraction and not _POSSIBLE_DATE.match(text):
        numerator, denominator = map(_parse_decimal, fraction.groups())
        if numerator <= denominator:
            return CellValue(f"{FRACTION}{denominator:g}", numerator)
    if match := _NUMBER_WITH_WORD.fullmatch(text):
        word = match[2].strip().casefold()
        kind = MISSING if word in _MISSING_WORDS else NUMBER
        return CellValue(kind, _parse_decimal(match[1]), word)
    return CellValue(WORD)


def _parse_decimal(number_text: str) -> float:
    return float(number_text.replace(",", "."))
