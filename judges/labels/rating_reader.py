"""Reads a column of ratings, in which the meaning of a cell may depend on the other cells."""

import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

from judges.labels.values import (
    MAPPED,
    MAX_WORD_LENGTH,
    MISSING,
    NUMBER,
    NUMBER_BY_YES_NO_WORD,
    VERDICT_PAIRS,
    WORD,
    YES_NO,
    YES_NO_PAIRS,
    CellValue,
    Scale,
    WordValues,
    normalize_text,
    normalize_word,
    parse_cell,
)
from judges.tables.problems import UnreadableError, count_text, excerpt

# Words beside ratings, as in "1 - very good". If the lowest rating is called good and the highest
# bad, then 1 is the best rating, as in German school marks.
_GOOD_WORDS = re.compile(
    r"\b(good|excellent|great|best|gut|hervorragend|bien|bonne?|excelente|bueno)\b"
)
_BAD_WORDS = re.compile(
    r"\b(bad|poor|worst|terrible|schlecht|mangelhaft|ungenügend|mauvais|malo)\b"
)
# Matches a word that is known to be a rating, and a text of only signs, such as ★★★.
_RATING_WORD = re.compile(
    rf"{_GOOD_WORDS.pattern}|{_BAD_WORDS.pattern}|"
    r"\b(?:fair|average|okay|mittel|moyen|regular)\b|^\W*$"
)
# Numbers with which surveys mark a missing answer. They are negative or far above the ratings.
_MISSING_CODES = frozenset(map(float, (-9, -1, -88, -98, -99, -999, 88, 98, 99, 888, 999, 9999)))
# Matches a number as Python writes it. A note tells the user how all other numbers were read.
_STANDARD_NUMBER = re.compile(r"-?\d+(\.\d+)?|True|False|nan|-?inf", re.ASCII)
# Matches a number such as 1,234, whose comma or point may be a decimal mark or separate thousands.
_AMBIGUOUS_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}(?!\d)", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", re.ASCII)
# The largest number of words in a message, and of ratings in a flag --values that reverses them.
_MAX_LISTED_WORDS, _MAX_REVERSED_RATINGS = 6, 11


class RatingReader:
    """Reads the cells in one column as ratings.

    All cells of a column must be of the same kind: numbers such as `4` or `4 - good`, fractions
    with the same denominator, percentages, or one pair of words for yes (1) and no (0). `read`
    raises an error for a cell that is not of the most frequent kind, and for a number whose comma
    or point may separate thousands. `value_by_word` has the user's numbers for words in lower case.
    `may_have_decimal_commas` says that decimal commas are likely in the file.
    """

    def __init__(
        self,
        values: Iterable[object],
        value_by_word: WordValues | None = None,
        *,
        may_have_decimal_commas: bool = False,
    ) -> None:
        self._user_values = value_by_word or {}
        self._user_numbers = {
            word: float(n) for word, n in self._user_values.items() if isinstance(n, int | float)
        }
        self._may_have_decimal_commas = may_have_decimal_commas
        n_cells_by_key = Counter(map(_hashable_key, values))
        self._has_plus_signs = any(normalize_word(key[1]) in ("+", "++") for key in n_cells_by_key)
        cell_by_key = {
            key: replace(self._parse_value(key[1]), value=key[1], count=n_cells)
            for key, n_cells in n_cells_by_key.items()
        }
        self._cell_by_key, self._cells = cell_by_key, cell_by_key.values()
        # If the user gives a word a number outside 0 to 1, then `good` is not 1, nor is `bad` 0.
        has_own_scale = any(c.kind == MAPPED and not 0 <= c.number <= 1 for c in self._cells)
        self._yes_no_words = [] if has_own_scale else _find_yes_no_words(self._cells)
        for key, cell in cell_by_key.items():
            if cell.kind == YES_NO and cell.word not in self._yes_no_words:
                cell_by_key[key] = replace(cell, kind=WORD)
        self._kinds = {cell.kind for cell in self._cells}
        plain_numbers = [cell for cell in self._cells if cell.kind == NUMBER]
        self._plain_numbers = sorted(plain_numbers, key=lambda cell: cell.number)

    def _parse_value(self, value: object) -> CellValue:
        """Return the meaning that the user gives to a value, else its most common meaning."""
        word = normalize_word(value)
        if word in self._user_numbers:
            return CellValue(MAPPED, self._user_numbers[word], word)
        if self._user_values.get(word, word) is None:
            return CellValue(MISSING)
        if self._has_plus_signs and word in ("-", "--"):
            return CellValue(WORD)  # beside `+`, the sign `-` is a rating and not a blank
        return parse_cell(value)

    @cached_property
    def _main_kind(self) -> str:
        """The most frequent kind of cells, such as fractions; "" for words of unknown meaning."""
        n_by_kind = Counter[str]()
        for cell in self._cells:
            n_by_kind[cell.kind] += cell.count
        del n_by_kind[MAPPED], n_by_kind[MISSING]
        if not n_by_kind:
            return YES_NO if MAPPED in self._kinds else ""
        main_kind = max(n_by_kind, key=lambda kind: (n_by_kind[kind], kind != WORD))
        return "" if main_kind == WORD else main_kind

    @cached_property
    def _has_decimal_commas(self) -> bool:
        """Whether commas in this column are decimal commas."""
        number_texts = [cell.text.rstrip("% ") for cell in self._cells]
        if any(map(_DECIMAL_COMMA.fullmatch, number_texts)):
            return True
        texts_with_points = [text for text in number_texts if "." in text]
        may_be_thousands = all(map(_AMBIGUOUS_NUMBER.fullmatch, texts_with_points))
        return self._may_have_decimal_commas and may_be_thousands

    @cached_property
    def _codes_for_missing(self) -> set[float]:
        """The numbers in the column that must be codes for a missing answer, such as 99."""
        numbers = {cell.number for cell in self._plain_numbers}
        ratings = numbers - _MISSING_CODES
        if len(ratings) < 2 or min(ratings) < 0:
            return set()
        # On a scale that begins at 0 or has few ratings, -1 may be a rating, too.
        min_rating = -1 if min(ratings) < 1 or max(ratings) < 3 else 0
        possible_codes = numbers & _MISSING_CODES
        return {code for code in possible_codes if not min_rating <= code <= 3 * max(ratings)}

    @cached_property
    def _lowest_is_best(self) -> bool:
        """Whether the word beside the lowest number means good, and that beside the highest bad."""
        words = [cell.word for cell in self._plain_numbers if cell.word]
        return bool(words and _GOOD_WORDS.search(words[0]) and _BAD_WORDS.search(words[-1]))

    @cached_property
    def number_by_word(self) -> dict[str, float]:
        """Maps the column's words for yes and no, and the user's words, to their numbers."""
        numbers = {word: NUMBER_BY_YES_NO_WORD[word] for word in self._yes_no_words}
        return numbers | (self._user_numbers if MAPPED in self._kinds else {})

    @property
    def words_for_1_and_0(self) -> tuple[str, str] | None:
        """The words for 1 and for 0 if these are the only ratings in the column, else None.

        If a column has only one word of a known pair, such as `pass`, the other word is added. A
        column of only the number 1 gives None, because 1 may be the lowest rating on a scale.
        """
        if not self._kinds <= {NUMBER, YES_NO, MAPPED, MISSING}:
            return None
        # Maps each rating to its words, each with the number of cells. An added word has no cells.
        word_counts: dict[float, Counter[str]] = defaultdict(Counter)
        for word, number in self.number_by_word.items():
            word_counts[number][word] = 0
        for cell in self._cells:
            if cell.kind != MISSING:
                word = f"{cell.number:g}" if cell.kind == NUMBER else cell.word
                word_counts[cell.number][word] += cell.count
        if word_counts.keys() != {0, 1}:
            return None
        return word_counts[1].most_common(1)[0][0], word_counts[0].most_common(1)[0][0]

    @property
    def reversal_text(self) -> str:
        """How the user can reverse the column's numbers: with a flag --values, or in the file."""
        number_by_text = {normalize_word(cell.value): cell.number for cell in self._plain_numbers}
        has_only_numbers = NUMBER in self._kinds and self._kinds <= {NUMBER, MISSING}
        if not has_only_numbers or len(number_by_text) > _MAX_REVERSED_RATINGS:
            return " in the file"
        lowest_plus_highest = min(number_by_text.values()) + max(number_by_text.values())
        meanings = [
            f"{_quote_comma(text)}={lowest_plus_highest - n:g}"
            for text, n in number_by_text.items()
        ]
        return f": --values {shlex.quote(','.join(meanings))}"

    @property
    def has_two_unknown_words(self) -> bool:
        """Whether the column holds exactly two words, whose numbers are both unknown."""
        words = {normalize_word(cell.value) for cell in self._cells if cell.kind == WORD}
        return len(words) == 2 and self._kinds <= {WORD, MISSING}

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """Return the rating in a cell, or None for a missing rating.

        Raises UnreadableError if the cell holds no rating, or one that is not on `scale`.
        """
        cell = self._cell_by_key[_hashable_key(value)]
        if cell.kind == MISSING:
            return None
        if fault := self._find_fault(cell):
            raise UnreadableError("not-a-number", fault, self._fault_advice(), value)
        if not math.isfinite(cell.number):
            advice = "leave the cell empty if there is no rating"
            raise UnreadableError("not-finite", "is not a finite number", advice, value)
        min_rating, max_rating = scale or (-math.inf, math.inf)
        if not min_rating <= cell.number <= max_rating:
            fault = f"is off the scale {min_rating:g} to {max_rating:g}"
            advice = "correct the rating, or state the scale that people were given"
            raise UnreadableError("off-scale", fault, advice, value)
        return cell.number

    def _find_fault(self, cell: CellValue) -> str:
        """Return why a cell cannot be read, such as "is not a number"; "" for a readable cell."""
        if cell.kind in (MISSING, MAPPED):
            return ""
        if cell.kind != self._main_kind:
            if self._main_kind == YES_NO:
                return "is not a known word, unlike other cells"
            return "is not a number like the others" if self._main_kind else "is not a number"
        if _AMBIGUOUS_NUMBER.match(cell.text) and self._has_decimal_commas != ("," in cell.text):
            return "may contain a decimal mark or a thousands separator"
        if cell.number in self._codes_for_missing:
            return f"looks like a code for a missing rating (if so, --values={cell.number:g}=)"
        if self._lowest_is_best and cell.word:
            return "is on a scale whose lowest number is the best"
        return ""

    def _fault_advice(self) -> str:
        if not self._main_kind and len(self._cells) > _MAX_LISTED_WORDS:
            return "the column holds texts; name the column of ratings with --map"
        correction = "correct the word" if self._main_kind == YES_NO else "write a plain number"
        return f"{correction}, or give its number: {self.values_flag}"

    @property
    def has_faults(self) -> bool:
        """Whether any cell cannot be read, such as a word of unknown meaning."""
        return any(map(self._find_fault, self._cells))

    @cached_property
    def values_flag(self) -> str:
        """The flag --values for the user to complete, with the words that cannot be read.

        The flag has known words, too, because `good` is not 1 if the column also has `excellent`.
        """
        n_by_word = Counter[str]()
        for cell in self._cells:
            if cell.kind == YES_NO or self._find_fault(cell):
                n_by_word[normalize_word(cell.value)] += cell.count
        words = [
            _quote_comma(word)
            for word, _ in n_by_word.most_common()
            if word.isprintable() and len(word) <= MAX_WORD_LENGTH and "'" not in word
        ]
        numbers = ["1", "0"] if self.has_two_unknown_words else ["NUMBER"] * _MAX_LISTED_WORDS
        number_by_word = dict(zip(words or ["WORD"], numbers, strict=False))
        meanings = [f"{word}={number}" for word, number in number_by_word.items()]
        # After a space, argparse would read a word such as -99 as another flag.
        flag = "--values=" if meanings[0].startswith("-") else "--values "
        return f"{flag}'{','.join(meanings)}{'...' * (len(words) > len(meanings))}'"

    def notes(self) -> Iterator[str]:
        """Yield notes on values whose meaning is not obvious, and on missing ratings."""
        values_with_numbers, missing_words, n_missing = list[str](), list[str](), 0
        for cell in self._cells:
            is_plain = _STANDARD_NUMBER.fullmatch(str(cell.value)) is not None
            if cell.kind == MISSING and normalize_text(cell.value):
                missing_words.append(excerpt(str(cell.value)))
                n_missing += cell.count
            # A plain number needs a note only if the user gave it another meaning.
            elif not math.isnan(cell.number) and is_plain == (cell.kind == MAPPED):
                values_with_numbers.append(f"{excerpt(str(cell.value))} as {cell.number:.12g}")
        if words := self.words_for_1_and_0:
            note = f"{words[0]!r} is a pass (1), and {words[1]!r} is a fail (0)"
            yield note if words in VERDICT_PAIRS else f"{note}; --values can say the reverse"
        elif values_with_numbers:
            yield f"read {_join_sorted(values_with_numbers)}; --values changes this"
        if missing_words:
            cells_text = count_text(n_missing, "cell")
            yield f"{cells_text} without a rating, written {_join_sorted(missing_words)}"


def _quote_comma(word: str) -> str:
    """Return a word as --values takes it, where a comma separates two words."""
    return f'"{word}"' if "," in word else word


def _join_sorted(texts: list[str]) -> str:
    ellipsis = ", ..." if len(texts) > _MAX_LISTED_WORDS else ""
    return ", ".join(sorted(texts)[:_MAX_LISTED_WORDS]) + ellipsis


def is_rating_word(word: str) -> bool:
    """Return whether a word is known to be a rating, such as `good`, or is only signs: ★★★."""
    return _RATING_WORD.search(word) is not None


def _find_yes_no_words(cells: Collection[CellValue]) -> list[str]:
    """Return the words of a column's most frequent yes/no pairs; none if many words are others."""
    n_by_word = Counter[str]()
    for cell in cells:
        if cell.kind == YES_NO:
            n_by_word[cell.word] += cell.count
    n_by_pair = {(yes, no): n_by_word[yes] + n_by_word[no] for yes, no in YES_NO_PAIRS}
    max_count = max(n_by_pair.values())
    if max_count < max(1, 3 * n_by_word.total() / 4):
        return []
    # A list, since the order decides which of several words for a pass is shown.
    return [word for pair in YES_NO_PAIRS if n_by_pair[pair] == max_count for word in pair]


def _hashable_key(value: object) -> tuple[type, object]:
    """Return a hashable key for a cell: its type with its value or, for a list, its text."""
    value = "" if value is None else value
    is_hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if is_hashable else str(value)
