"""Reads a column of ratings, numbers, shares or words, by what all of its cells are."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import NamedTuple

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
_PAIRS = [(good, bad) for good, bad in (pair.split("/") for pair in _TRUTHS)]
_TRUTH_WORDS = {word: float(1 - place) for pair in _PAIRS for place, word in enumerate(pair)}
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
_SHARE_OF = re.compile(rf"({_DIGITS})\s*(?:/|out of|of|von|sur|de)\s*({_DIGITS})", re.ASCII | re.I)
# "4 - good", "4: good", "(4) good", "4 (good)"; a spreadsheet makes a date such as 4-May of 4/5.
_LABELLED = re.compile(rf"[(\[]?({_DIGITS})(?:\s+[-–—]\s|\s*[:=|)\](])\s*([^\W\d][^\d)]*)\)?")
_INVISIBLE = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
_MAX_WORDS, _MAX_WORD = 6, 40


class _Cell(NamedTuple):
    """How one cell reads: its kind, its number, and its word or the number's label."""

    kind: str
    number: float = math.nan
    word: str = ""


def plain_text(value: object) -> str:
    """A cell as text: any space as one plain space, no invisible marks."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = str(value)
    text = " ".join((text if text.isascii() else text.translate(_INVISIBLE)).split())
    # How a spreadsheet marks a text that looks like a number.
    return text.removeprefix("'").strip()


def word_of(value: object) -> str:
    """A cell as a word, in small letters and with single spaces."""
    return plain_text(value).casefold()


def says_nothing(value: object) -> bool:
    """Whether a cell is blank or a word for a missing rating."""
    # Checked first for speed: such words are short, and most cells are longer texts.
    is_short = isinstance(value, str) and len(value) < _MAX_WORD
    return value is None or (is_short and word_of(value) in _NOTHING)


def says_truth(value: object, words: Collection[str] = ()) -> bool:
    """Whether a cell says yes or no, true or false, pass or fail, or one of these words."""
    word = word_of(value) if isinstance(value, str) and len(value) < _MAX_WORD else ""
    return isinstance(value, bool) or word in _TRUTH_WORDS or word in words


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell states a number by itself; in a typed file strings do not."""
    if isinstance(value, str):
        is_short = not typed and len(value) <= _MAX_WORD
        return is_short and _parse(value).kind not in (_TRUTH, _MISSING, _WORD)
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _parse(value: object) -> _Cell:
    """Read a cell on its own."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
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
        return _Cell(_NUMBER, float(text.replace(",", ".")))
    if (share := _SHARE_OF.fullmatch(text.replace("%", "/100"))) is not None:
        number, whole = (float(part.replace(",", ".")) for part in share.groups())
        # 04/05 may be a date that a spreadsheet made of 4/5.
        if number <= whole and not re.match(r"0\d.*/|.*/\s*0\d", text):
            return _Cell(f"{_SHARE}{whole:g}", number)
    if (label := _LABELLED.fullmatch(text)) is not None:
        name = label[2].strip().casefold()
        kind = _MISSING if name in _NOTHING else _NUMBER
        return _Cell(kind, float(label[1].replace(",", ".")), name)
    return _Cell(_WORD)


class RatingCells:
    """Reads the cells of one column by what all of them are.

    A column has one kind of cells: plain numbers (which may have labels), shares of one whole,
    percentages, or one pair of words for yes (1) and no (0). Cells of another kind are refused, and
    so are numbers whose comma or point may separate thousands. `values` are all cells, `words` is
    what the user's words count, and `decimal_commas` are usual in a file with semicolons.
    """

    def __init__(
        self, values: Iterable[object], words: Values | None = None, *, decimal_commas: bool = False
    ) -> None:
        self._words = {word_of(word): number for word, number in (words or {}).items()}
        self._counts = Counter(map(_key, values))
        self._cells = {key: self._parse(key[1]) for key in self._counts}
        kinds = Counter[str]()
        for key, cell in self._cells.items():
            kinds[cell.kind] += self._counts[key]
        self._pairs = self._find_pairs()
        # The words that count 1 or 0; the user's own only where a cell has one.
        self._known = {word: _TRUTH_WORDS[word] for pair in self._pairs for word in pair}
        if kinds[_MAPPED]:
            numbers = {w: n for w, n in self._words.items() if isinstance(n, int | float)}
            self._known |= {word: float(number) for word, number in numbers.items()}
        odd = {_MAPPED, _MISSING, _WORD, *(() if self._pairs else (_TRUTH,))}
        # What the column holds, in words; empty if that is unknown.
        default = _TRUTH if kinds[_MAPPED] else ""
        self.holds = max(kinds.keys() - odd, key=lambda kind: (kinds[kind], kind), default=default)
        self._commas = self._has_decimal_commas(default=decimal_commas)
        self._codes = self._find_codes()
        self._turned = self._counts_downwards()
        faults = {key: self._fault(cell, key[1]) for key, cell in self._cells.items()}
        self._faults = {key: fault for key, fault in faults.items() if fault}

    def _find_pairs(self) -> list[tuple[str, str]]:
        """The pairs of words for yes and no to which most of the cells belong."""
        truths = Counter[str]()
        for key, cell in self._cells.items():
            if cell.kind in (_TRUTH, _MAPPED) and cell.number == _TRUTH_WORDS.get(cell.word):
                truths[cell.word] += self._counts[key]
        counts = {pair: truths[pair[0]] + truths[pair[1]] for pair in _PAIRS}
        # Up to a quarter of the cells may be spelt otherwise.
        most = max(1, *counts.values(), 3 * truths.total() / 4)
        return [pair for pair, number in counts.items() if number == most]

    def _has_decimal_commas(self, *, default: bool) -> bool:
        """Whether a comma is the decimal mark: by the cells, or by default if no point is."""
        texts = [plain_text(key[1]).rstrip("% ") for key in self._cells if isinstance(key[1], str)]
        points = any("." in text and not _OPEN.fullmatch(text) for text in texts)
        return any(map(_DECIMAL_COMMA.fullmatch, texts)) or (default and not points)

    @property
    def two_values(self) -> tuple[str, str] | None:
        """The words for 1 and for 0 of a column with these two values; None for other columns.

        A single word of a pair is enough, but 1 without 0 may be the lowest rating of 1 to 5.
        """
        cells = {key: cell for key, cell in self._cells.items() if cell.kind != _MISSING}
        kinds = {cell.kind for cell in cells.values()}
        if not cells or not kinds <= {_NUMBER, _TRUTH, _MAPPED}:
            return None
        # How often each value is written as which word; 0 times if only its pair's other word is.
        spellings: dict[float, Counter[str]] = {1.0: Counter(), 0.0: Counter()}
        for word, number in self._known.items():
            if number in spellings or not self._pairs:
                spellings.setdefault(number, Counter())[word] = 0
        for key, cell in cells.items():
            word = f"{cell.number:g}" if cell.kind == _NUMBER else cell.word
            spellings.setdefault(cell.number, Counter())[word] += self._counts[key]
        if len(spellings) > 2 or not all(spellings.values()):
            return None
        return spellings[1.0].most_common(1)[0][0], spellings[0.0].most_common(1)[0][0]

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """Return the rating in a cell, None if it has none; raises UnreadableError."""
        cell, fault = self._cells[_key(value)], self._faults.get(_key(value))
        if cell.kind == _MISSING:
            return None
        # If a scale is stated, a code is either a rating or off the scale.
        if fault and (scale is None or cell.number not in self._codes):
            mend = "mend the word" if self.holds == _TRUTH else "write a plain number"
            advice = f"{mend}, or say what it counts: {self.values_flag()}"
            raise UnreadableError("not-a-number", fault, advice, value)
        if not math.isfinite(cell.number):
            advice = "leave it empty where there is none"
            raise UnreadableError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= cell.number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "mend the rating, or state the scale that people were given"
            raise UnreadableError("off-scale", fault, advice, value)
        return cell.number

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know about how cells were read."""
        texts = {str(key[1]): cell for key, cell in self._cells.items() if plain_text(key[1])}
        read = [
            f"{excerpt(text)} as {cell.number:.12g}"
            for text, cell in texts.items()
            if cell.kind not in (_MISSING, _MAPPED) and not _PLAIN_POINT.fullmatch(text)
        ]
        if two := self.two_values:
            note = f"{two[0]!r} is a pass and counts 1, {two[1]!r} a fail and 0"
            yield note if "/".join(two) in VERDICTS else f"{note}; --values turns it"
        elif read:
            more = ", ..." if len(read) > _MAX_WORDS else ""
            yield f"read {', '.join(sorted(read[:_MAX_WORDS]))}{more}; --values says otherwise"
        if missing := [text for text, cell in texts.items() if cell.kind == _MISSING]:
            n_missing = sum(n for key, n in self._counts.items() if str(key[1]) in missing)
            words = ", ".join(map(excerpt, missing[:_MAX_WORDS]))
            yield f"{n_missing:,} without a rating, which say {words}"

    def _parse(self, value: object) -> _Cell:
        word = word_of(value)
        meaning = self._words.get(word, "")
        if meaning is None:
            return _Cell(_MISSING)
        return _parse(value) if isinstance(meaning, str) else _Cell(_MAPPED, float(meaning), word)

    def _fault(self, cell: _Cell, value: object) -> str:
        """What is wrong with a cell in this column; empty if nothing is."""
        if cell.kind in (_MISSING, _MAPPED):
            return ""
        if cell.kind != self.holds or (cell.kind == _TRUTH and cell.word not in self._known):
            like = "one of the words" if self.holds == _TRUTH else "a number"
            return f"is not {like}{' like the others' if self.holds else ''}"
        text = plain_text(value) if isinstance(value, str) else ""
        if _OPEN.match(text) and self._commas != ("," in text):
            return "may have a decimal mark or one of thousands"
        if cell.number in self._codes:
            return f"looks like a code for a missing rating (if so, --values={cell.number:g}=)"
        return "is on a scale that counts downwards" if self._turned and cell.word else ""

    @property
    def is_unknown_pair(self) -> bool:
        """Whether the column has just two words, neither of which has a known value."""
        words = {word_of(key[1]) for key, cell in self._cells.items() if cell.kind == _WORD}
        return len(words) == 2 and {c.kind for c in self._cells.values()} <= {_WORD, _MISSING}

    def values_flag(self) -> str:
        """The flag for faulty cells, with a guess of what misspelt and two new words count."""
        counts = Counter[str]()
        for key in self._faults:
            counts[word_of(key[1])] += self._counts[key]
        words = [word for word, _ in counts.most_common()]
        short = [word for word in words if word.isprintable() and len(word) <= _MAX_WORD]
        numbers = dict(zip(words, ("1", "0"), strict=False)) if self.is_unknown_pair else {}
        choices = self._known if self.holds == _TRUTH else {}
        for word in short[:_MAX_WORDS]:
            for close in get_close_matches(word, choices, n=1):
                numbers[word] = f"{choices[close]:g}"
        names = {f'"{w}"' if "," in w else w: w for w in short if "'" not in w} or {"WORD": ""}
        pairs = [f"{name}={numbers.get(word, 'NUMBER')}" for name, word in names.items()]
        # argparse would take a word such as -99 for a flag.
        flag = "--values=" if pairs[0].startswith("-") else "--values "
        return f"{flag}'{','.join(pairs[:_MAX_WORDS])}{'...' * (len(pairs) > _MAX_WORDS)}'"

    def _counts_downwards(self) -> bool:
        """Whether the label of the lowest number is good, and that of the highest bad."""
        labels = {c.number: c.word for c in self._cells.values() if c.kind == _NUMBER and c.word}
        ends = (labels[min(labels)], labels[max(labels)]) if len(labels) > 1 else ("", "")
        return bool(_GOOD.search(ends[0]) and _BAD.search(ends[1]))

    def _find_codes(self) -> frozenset[float]:
        """The survey codes for no answer among the numbers, if they cannot be ratings."""
        numbers = {cell.number for cell in self._cells.values() if cell.kind == _NUMBER}
        ratings = numbers - _CODES
        if self.holds != _NUMBER or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        codes = {code for code in numbers & _CODES if code < 0 or code > 3 * max(ratings)}
        # With a 0 or a short scale, -1 is a rating.
        signed = min(ratings) < 1 or max(ratings) < 3
        return frozenset(codes - {-1.0} if signed else codes)


def _key(value: object) -> tuple[type, object]:
    value = "" if value is None else value
    hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if hashable else str(value)
