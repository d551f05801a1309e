"""Reads a column of ratings, numbers, shares or words, by what all of its cells are."""

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
# A user's words and what they count: a rating, a vote, or None for no rating.
Values = Mapping[str, float | Vote | None]

# The usual scales, the narrowest first.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

# The kinds of cells; a share's kind includes its whole, which is 100 for percentages.
_NUMBER, _SHARE, _TRUTH = "plain numbers", "shares of ", "yes and no"
_MAPPED, _MISSING, _WORD = "mapped", "missing", "word"
# Pairs of a good and a bad word; whether yes is good depends on the question.
VERDICTS = (
    *("pass/fail", "passed/failed", "good/bad", "correct/incorrect", "right/wrong", "ok/not ok"),
    *("richtig/falsch", "gut/schlecht", "bestanden/durchgefallen", "bestanden/nicht bestanden"),
    *("thumbs up/thumbs down", "thumbs_up/thumbs_down", "up/down", "👍/👎", "okay/not okay"),
    *("accept/reject", "accepted/rejected", "approved/rejected", "acceptable/unacceptable"),
)
# Words for 1 and 0; a column of `good`, `ok` and `bad` has three values, and is not read by these.
_TRUTHS = (
    *VERDICTS,
    *("true/false", "yes/no", "y/n", "wahr/falsch", "ja/nein", "vrai/faux", "oui/non"),
    *("verdadero/falso", "sí/no", "si/no"),
)
_PAIRS = [tuple(pair.split("/")) for pair in _TRUTHS]
_TRUTH_WORDS = {good: 1.0 for good, _ in _PAIRS} | {bad: 0.0 for _, bad in _PAIRS}
_NOTHING = frozenset(
    (
        *("", "n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "-", "--", "–", "—", "?"),
        *("not applicable", "not rated", "no answer", "missing", "skipped", "don't know"),
        *("unknown", "k.a.", "k. a.", "keine angabe", "sans réponse", "sin respuesta"),
    )
)

# Labels at the ends of a scale: if 1 is called very good, it counts downwards, like German marks.
_GOOD = re.compile(r"\b(good|excellent|great|best|gut|hervorragend|bien|bonne?|excelente|bueno)\b")
_BAD = re.compile(r"\b(bad|poor|worst|terrible|schlecht|mangelhaft|ungenügend|mauvais|malo)\b")
# Survey codes for no answer: far above the ratings, or negative where ratings are not.
_CODES = frozenset(map(float, (-9, -1, -88, -98, -99, -999, 88, 98, 99, 888, 999, 9999)))

_DIGITS = r"[+-]?\d+(?:[.,]\d+)?"
_PLAIN_POINT = re.compile(r"-?\d+(\.\d+)?|True|False|nan|-?inf", re.ASCII)
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d*,\d+", re.ASCII)
# A comma or a point before three digits may set thousands apart.
_OPEN = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}(?!\d)", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", re.ASCII)
# A share such as 04/05, which may be a date that a spreadsheet made of 4/5.
_DATE = re.compile(r"0\d.*/|.*/\s*0\d")
_SHARE_OF = re.compile(rf"({_DIGITS})\s*(?:/|out of|of|von|sur|de)\s*({_DIGITS})", re.ASCII | re.I)
# "4 - good", "4: good", "(4) good", "4 (good)".
_LABELLED = re.compile(rf"[(\[]?({_DIGITS})(?:\s+[-–—]\s|\s*[:=|)\](])\s*([^\W\d][^\d)]*)\)?")
_INVISIBLE = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
_MAX_WORDS, _MAX_WORD = 6, 40


@dataclass(frozen=True, slots=True)
class _Cell:
    """How a cell reads on its own: its kind, its number, and its word or the number's label.

    Of a column's cells, `value` is what the file has, and `count` how many cells have it.
    """

    kind: str
    number: float = math.nan
    word: str = ""
    value: object = None
    count: int = 0

    @property
    def text(self) -> str:
        """The text of a cell that is a string; empty for other values."""
        return plain_text(self.value) if isinstance(self.value, str) else ""

    @property
    def spelling(self) -> str:
        """The word for the cell's number."""
        return f"{self.number:g}" if self.kind == _NUMBER else self.word


def plain_text(value: object) -> str:
    """Return a cell as text, with single plain spaces and without invisible marks."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = " ".join(str(value).translate(_INVISIBLE).split())
    # Spreadsheets mark a text that looks like a number with an apostrophe.
    return text.removeprefix("'").strip()


def word_of(value: object) -> str:
    """Return a cell as a word, in small letters and with single spaces."""
    return plain_text(value).casefold()


def says_nothing(value: object) -> bool:
    """Whether a cell is blank or a word for a missing rating."""
    return value is None or _short_word(value) in _NOTHING


def says_truth(value: object, words: Collection[str] = ()) -> bool:
    """Whether a cell says yes or no, true or false, pass or fail, or one of these words."""
    word = _short_word(value)
    return isinstance(value, bool) or word in _TRUTH_WORDS or word in words


def _short_word(value: object) -> str | None:
    """The word in a cell; None for other values and, for speed, for longer texts."""
    return word_of(value) if isinstance(value, str) and len(value) < _MAX_WORD else None


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell states a number by itself; in a typed file strings do not."""
    if isinstance(value, str):
        is_short = not typed and len(value) <= _MAX_WORD
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
    text = plain_text(value)
    word = text.casefold()
    if word in _NOTHING:
        return _Cell(_MISSING)
    if word in _TRUTH_WORDS:
        return _Cell(_TRUTH, _TRUTH_WORDS[word], word)
    if _PLAIN.fullmatch(text):
        return _Cell(_NUMBER, _decimal(text))
    return _parse_share(text) or _parse_labelled(text) or _Cell(_WORD)


def _parse_share(text: str) -> _Cell | None:
    """Read a share such as 4/5 or 85%; None for any other text."""
    share = _SHARE_OF.fullmatch(text.replace("%", "/100"))
    if share is None or _DATE.match(text):
        return None
    number, whole = map(_decimal, share.groups())
    return _Cell(f"{_SHARE}{whole:g}", number) if number <= whole else None


def _parse_labelled(text: str) -> _Cell | None:
    """Read a number with a label, such as 4 - good; None for any other text."""
    match = _LABELLED.fullmatch(text)
    if match is None:
        return None
    label = match[2].strip().casefold()
    return _Cell(_MISSING if label in _NOTHING else _NUMBER, _decimal(match[1]), label)


def _decimal(digits: str) -> float:
    return float(digits.replace(",", "."))


class RatingCells:
    """Reads a column's cells as ratings; the values of all cells decide how each is read.

    A column has one kind of cells: plain numbers (which may have labels), shares of one whole,
    percentages, or one pair of words for yes (1) and no (0). Cells of another kind are refused, and
    so are numbers whose comma or point may separate thousands. `values` are all cells, `words` is
    what the user's words count, and `decimal_commas` are usual in a file with semicolons.
    """

    def __init__(
        self, values: Iterable[object], words: Values | None = None, *, decimal_commas: bool = False
    ) -> None:
        self._words = {word_of(word): number for word, number in (words or {}).items()}
        counts = Counter(map(_key, values))
        self._by_key = {
            key: replace(self._parse(key[1]), value=key[1], count=n) for key, n in counts.items()
        }
        self._cells = self._by_key.values()
        kinds = _tally((cell.kind, cell.count) for cell in self._cells)
        pairs = self._find_pairs()
        # What a column's words count; the user's only where a cell has one.
        self._known = {word: _TRUTH_WORDS[word] for pair in pairs for word in pair}
        if kinds[_MAPPED]:
            numbers = {w: n for w, n in self._words.items() if isinstance(n, int | float)}
            self._known |= {word: float(number) for word, number in numbers.items()}
        # What most cells are: numbers, shares, or words for yes and no; empty if none is known.
        usual = kinds.keys() - {_MAPPED, _MISSING, _WORD} - ({_TRUTH} if not pairs else set())
        default = _TRUTH if kinds[_MAPPED] else ""
        self._kind = max(usual, key=lambda kind: (kinds[kind], kind), default=default)
        # The decimal mark is a comma if a cell says so, or by default if none has a point.
        texts = [cell.text.rstrip("% ") for cell in self._cells]
        no_points = not any("." in text and not _OPEN.fullmatch(text) for text in texts)
        has_commas = any(map(_DECIMAL_COMMA.fullmatch, texts))
        self._decimal_commas = has_commas or (decimal_commas and no_points)
        self._codes, self._counts_downwards = self._find_codes(), self._is_downward()

    def _parse(self, value: object) -> _Cell:
        """Read a cell by the user's words, else on its own."""
        word = word_of(value)
        meaning = self._words.get(word, "")
        if isinstance(meaning, str):
            return _parse(value)
        return _Cell(_MISSING) if meaning is None else _Cell(_MAPPED, float(meaning), word)

    def _find_pairs(self) -> list[tuple[str, ...]]:
        """The pairs of words for yes and no to which most of the cells belong."""
        truths = _tally(
            (cell.word, cell.count)
            for cell in self._cells
            if cell.kind in (_TRUTH, _MAPPED) and cell.number == _TRUTH_WORDS.get(cell.word)
        )
        counts = {pair: truths[pair[0]] + truths[pair[1]] for pair in _PAIRS}
        # Up to a quarter of the cells may be spelt otherwise.
        most = max(1, *counts.values(), 3 * truths.total() / 4)
        return [pair for pair, number in counts.items() if number == most]

    @property
    def two_values(self) -> tuple[str, str] | None:
        """The words for 1 and for 0 of a column with these two values; None for other columns.

        A single word of a pair is enough, but 1 without 0 may be the lowest rating of 1 to 5.
        """
        rated = [cell for cell in self._cells if cell.kind != _MISSING]
        if not {cell.kind for cell in rated} <= {_NUMBER, _TRUTH, _MAPPED}:
            return None
        # How often each value is written as which word; 0 times if only its pair's other word is.
        spellings: dict[float, Counter[str]] = defaultdict(Counter)
        for word, number in self._known.items():
            spellings[number][word] = 0
        for cell in rated:
            spellings[cell.number][cell.spelling] += cell.count
        if spellings.keys() != {0, 1}:
            return None
        return spellings[1].most_common(1)[0][0], spellings[0].most_common(1)[0][0]

    @property
    def is_unknown_pair(self) -> bool:
        """Whether the column has just two words, neither of which has a known value."""
        words = {word_of(cell.value) for cell in self._cells if cell.kind == _WORD}
        return len(words) == 2 and {cell.kind for cell in self._cells} <= {_WORD, _MISSING}

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """Return the rating in a cell, None if it has none; raises UnreadableError."""
        cell = self._by_key[_key(value)]
        if cell.kind == _MISSING:
            return None
        if fault := self._fault(cell):
            mend = "mend the word" if self._kind == _TRUTH else "write a plain number"
            advice = f"{mend}, or say what it counts: {self.values_flag}"
            raise UnreadableError("not-a-number", fault, advice, value)
        if not math.isfinite(cell.number):
            advice = "leave it empty where there is none"
            raise UnreadableError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= cell.number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "mend the rating, or state the scale that people were given"
            raise UnreadableError("off-scale", fault, advice, value)
        return cell.number

    def _fault(self, cell: _Cell) -> str:
        """What is wrong with a cell in this column; empty if nothing is."""
        if cell.kind in (_MISSING, _MAPPED):
            return ""
        if cell.kind != self._kind or (cell.kind == _TRUTH and cell.word not in self._known):
            faults = {"": "is not a number", _TRUTH: "is not one of the words like the others"}
            return faults.get(self._kind, "is not a number like the others")
        if _OPEN.match(cell.text) and self._decimal_commas != ("," in cell.text):
            return "may have a decimal mark or one of thousands"
        if cell.number in self._codes:
            return f"looks like a code for a missing rating (if so, --values={cell.number:g}=)"
        return "is on a scale that counts downwards" if self._counts_downwards and cell.word else ""

    @cached_property
    def values_flag(self) -> str:
        """The flag for faulty cells, with a guess of what misspelt and two new words count."""
        faulty = filter(self._fault, self._cells)
        counts = _tally((word_of(cell.value), cell.count) for cell in faulty)
        words = [word for word, _ in counts.most_common() if _is_plain_word(word)]
        numbers = dict(zip(words, "10", strict=False)) if self.is_unknown_pair else {}
        pairs = [
            f"{_quoted(word)}={numbers.get(word) or self._likely_number(word)}"
            for word in words[:_MAX_WORDS] or ["WORD"]
        ]
        # argparse would take a word such as -99 for a flag.
        flag = "--values=" if pairs[0].startswith("-") else "--values "
        return f"{flag}'{','.join(pairs)}{'...' * (len(words) > _MAX_WORDS)}'"

    def _is_downward(self) -> bool:
        """Whether the label of the lowest number is good, and that of the highest bad."""
        labels = {c.number: c.word for c in self._cells if c.kind == _NUMBER and c.word}
        ends = (labels[min(labels)], labels[max(labels)]) if len(labels) > 1 else ("", "")
        return bool(_GOOD.search(ends[0]) and _BAD.search(ends[1]))

    def _find_codes(self) -> frozenset[float]:
        """The survey codes for no answer among the numbers, if they cannot be ratings."""
        numbers = {cell.number for cell in self._cells if cell.kind == _NUMBER}
        ratings = numbers - _CODES
        if self._kind != _NUMBER or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        codes = {code for code in numbers & _CODES if code < 0 or code > 3 * max(ratings)}
        # With a 0 or a short scale, -1 is a rating.
        signed = min(ratings) < 1 or max(ratings) < 3
        return frozenset(codes - {-1.0} if signed else codes)

    def _likely_number(self, word: str) -> str:
        choices = self._known if self._kind == _TRUTH else {}
        close = get_close_matches(word, choices, n=1)
        return f"{choices[close[0]]:g}" if close else "NUMBER"

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know about how cells were read."""
        cells = {str(cell.value): cell for cell in self._cells if plain_text(cell.value)}
        missing = {text: cell for text, cell in cells.items() if cell.kind == _MISSING}
        if two := self.two_values:
            note = f"{two[0]!r} is a pass and counts 1, {two[1]!r} a fail and 0"
            yield note if "/".join(two) in VERDICTS else f"{note}; --values turns it"
        elif read := [
            f"{excerpt(text)} as {cell.number:.12g}"
            for text, cell in cells.items()
            if cell.kind not in (_MISSING, _MAPPED) and not _PLAIN_POINT.fullmatch(text)
        ]:
            more = ", ..." if len(read) > _MAX_WORDS else ""
            yield f"read {', '.join(sorted(read[:_MAX_WORDS]))}{more}; --values says otherwise"
        if missing:
            words = ", ".join(map(excerpt, [*missing][:_MAX_WORDS]))
            n_missing = sum(cell.count for cell in missing.values())
            yield f"{n_missing:,} without a rating, which say {words}"


def _tally(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for word, count in counts:
        total[word] += count
    return total


def _is_plain_word(word: str) -> bool:
    return word.isprintable() and len(word) <= _MAX_WORD and "'" not in word


def _quoted(word: str) -> str:
    return f'"{word}"' if "," in word else word


def _key(value: object) -> tuple[type, object]:
    """A key for a cell, by its type and value; a list or an object is its text."""
    value = "" if value is None else value
    hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if hashable else str(value)
