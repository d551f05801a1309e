"""What the cells of a column of ratings count, decided by all of them: numbers, shares, words."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from data.tables.problems import CellError, excerpt
from data.types import Vote

Scale = tuple[float, float]
# A user's words and what they count: a rating, a choice, or None where they say nothing.
Values = Mapping[str, float | Vote | None]

# What people are commonly given, the narrowest first.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

Kind = Literal["number", "percent", "share", "truth", "mapped", "missing", "word"]
_KINDS: Mapping[Kind, str] = {
    "number": "plain numbers",
    "percent": "percentages",
    "share": "shares such as 4/5",
    "truth": "words for yes and no",
}
# One and nought, as a column writes them; it does not mix two of these ways.
_TRUTHS = (
    *("true/false", "yes/no", "y/n", "pass/fail", "passed/failed", "good/bad", "correct/incorrect"),
    *("right/wrong", "ok/not ok", "wahr/falsch", "richtig/falsch", "ja/nein", "gut/schlecht"),
    *("bestanden/nicht bestanden", "vrai/faux", "oui/non", "correct/faux", "bon/mauvais"),
    *("verdadero/falso", "sí/no", "si/no", "correcto/incorrecto", "bueno/malo", "vero/falso"),
)
_TRUTH_WORDS = {w: float(1 - i) for pair in _TRUTHS for i, w in enumerate(pair.split("/"))}
_MISSING = frozenset(
    (
        *("n/a", "na", "n.a.", "#n/a", "#nv", "nan", "null", "none", "-", "--", "–", "—", "?"),
        *(
            "not applicable",
            "not rated",
            "no answer",
            "missing",
            "skipped",
            "don't know",
            "unknown",
        ),
        *("k.a.", "k. a.", "keine angabe", "entfällt", "weiß nicht", "sans réponse", "s.o.", "s/o"),
        *("non applicable", "no aplica", "sin respuesta", "n.d.", "nd"),
    )
)
# What the ends of a scale are called: who calls 1 very good counts downwards, as German marks do.
_GOOD = re.compile(r"\b(good|excellent|great|best|gut|hervorragend|bien|bonne?|excelente|bueno)\b")
_BAD = re.compile(r"\b(bad|poor|worst|terrible|schlecht|mangelhaft|ungenügend|mauvais|malo)\b")
_NOT = re.compile(r"\b(not|no|nicht|keine?|pas|non)\b")
# A spreadsheet makes a date of 4/5.
_MONTH = re.compile(
    r"(jan|feb|m[aä]r|a[pb]r|ma[iy]|jun|jul|aug|ago|sep|o[ck]t|nov|de[cz]|dic)\w*\.?"
)
# What surveys write for no answer: so far above the ratings, or negative where none is.
_CODES = frozenset(
    {-9.0, -1.0, -88.0, -98.0, -99.0, -999.0, 88.0, 98.0, 99.0, 888.0, 999.0, 9999.0}
)

_DATE = re.compile(
    rf"\d+[-./]\d+[-./]\d+.*|\d+[-. /]*{_MONTH.pattern}|{_MONTH.pattern}[-. /]*\d+", re.I
)
_NUMBER = r"[+-]?\d+(?:[.,]\d+)?"
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d*,\d+", re.ASCII)
# A comma or a point before three digits may set thousands apart.
_OPEN = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}(?!\d)", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+)", re.ASCII)
_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.(\d{1,2}|\d{4,})|0\.\d+)", re.ASCII)
_SHARE = re.compile(rf"({_NUMBER})\s*(?:/|out of|of|von|sur|de)\s*({_NUMBER})", re.ASCII | re.I)
_LABELLED = re.compile(
    # "4 - good", "4: good", "4. good", "(4) good", "4 (good)", then "good (4)", "good - 4".
    rf"[(\[]?({_NUMBER})\s*(?:[)\]]?\s*[-–—:=|)\]]|\.\s)\s*([^\W\d]\D*)"
    rf"|({_NUMBER})\s*\(([^\W\d]\D*)\)"
    rf"|([^\W\d]\D*?)\s*(?:[(\[]({_NUMBER})[)\]]|\s[-–—]\s+({_NUMBER})|[:=]\s*({_NUMBER}))"
)
_INVISIBLE = str.maketrans("−", "-", "\ufeff\u200b\u200e\u200f\u2060")
_NOTHING = _MISSING | {""}
_MAX_WORDS, _MAX_WORD = 6, 40


class _Cell(NamedTuple):
    """What one cell may be: its kind, its number, and the whole of a share or a number's label."""

    kind: Kind
    number: float = math.nan
    detail: str = ""


def plain_text(value: object) -> str:
    """A cell as text: any space as one plain space, no invisible marks."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = str(value)
    text = " ".join((text if text.isascii() else text.translate(_INVISIBLE)).split())
    # How a spreadsheet marks a text that looks like a number.
    return text.removeprefix("'").strip()


def word_of(value: object) -> str:
    """A cell as a word that a user names it by: without regard to case and spaces."""
    return plain_text(value).casefold()


def says_nothing(value: object) -> bool:
    """Whether a cell is blank or a word for a rating that there is not."""
    # No such word is longer, and most cells are texts.
    is_short = isinstance(value, str) and len(value) < _MAX_WORD
    return value is None or (is_short and word_of(value) in _NOTHING)


def says_truth(value: object) -> bool:
    """Whether a cell says yes or no, true or false, pass or fail."""
    is_short = isinstance(value, str) and len(value) < _MAX_WORD
    return isinstance(value, bool) or (is_short and word_of(value) in _TRUTH_WORDS)


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell states a number by itself; in a typed file strings do not."""
    if isinstance(value, str):
        # `1. Introduction` is a heading.
        if typed or len(value) > _MAX_WORD or re.match(r"\s*\d+\.\s", value):
            return False
        return _parse(value).kind in ("number", "percent", "share")
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _parse(value: object) -> _Cell:
    """What a cell may be, on its own."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            return _Cell("number", float(value))
        except OverflowError:
            return _Cell("number", math.inf)
    text = plain_text(value)
    word = text.casefold()
    if word in _MISSING:
        return _Cell("missing")
    if word in _TRUTH_WORDS:
        return _Cell("truth", _TRUTH_WORDS[word], word)
    if _PLAIN.fullmatch(text):
        return _Cell("number", _float(text))
    if text.endswith("%") and _PLAIN.fullmatch(text[:-1].rstrip()):
        return _Cell("percent", _float(text[:-1]))
    if (share := _SHARE.fullmatch(text)) is not None:
        # Of 04/05 a spreadsheet made a date.
        dated = any(re.match(r"0\d", number) for number in share.groups())
        whole = _float(share[2])
        if not dated and _float(share[1]) <= whole:
            return _Cell("share", _float(share[1]), f"{whole:g}")
    if (label := _LABELLED.fullmatch(text)) is not None:
        named = (label[2] or label[4] or label[5]).strip().casefold()
        if named in _MISSING:
            return _Cell("missing")
        if _MONTH.fullmatch(named):
            return _Cell("word")
        return _Cell(
            "number", _float(label[1] or label[3] or label[6] or label[7] or label[8]), named
        )
    return _Cell("word")


def _float(text: str) -> float:
    return float(text.replace(",", "."))


class RatingCells:
    """Reads the cells of one column by what all of them are.

    `values` are all of the column's, `words` what the user says that some count. A column is of one
    kind: plain numbers (which may have labels), percentages, shares of one whole, or one pair of
    words for yes (1) and no (0). What is of another kind is refused, and so is a number whose comma
    or point may set thousands apart. `decimal_commas`: other columns of the file have some.
    """

    def __init__(
        self,
        values: Iterable[object],
        words: Values | None = None,
        *,
        decimal_commas: bool = False,
    ) -> None:
        self._words = {word_of(word): number for word, number in (words or {}).items()}
        self._counts = Counter(_key(value) for value in values if not _is_blank(value))
        self._cells = {key: self._parse(key[1]) for key in self._counts}
        kinds: Counter[Kind] = Counter()
        wholes: Counter[str] = Counter()
        for key, cell in self._cells.items():
            kinds[cell.kind] += self._counts[key]
            wholes[cell.detail] += self._counts[key] * (cell.kind == "share")
        readable = [kind for kind in kinds if kind in _KINDS]
        self._kind: Kind = max(readable, key=lambda kind: kinds[kind]) if readable else "number"
        self._whole = max(wholes, key=lambda whole: wholes[whole], default="")
        truths = {cell.detail for cell in self._cells.values() if cell.kind == "truth"}
        self._one_truth = any(truths <= {*pair.split("/")} for pair in _TRUTHS)
        texts = [plain_text(key[1]).rstrip("% ") for key in self._cells if isinstance(key[1], str)]
        commas = any(map(DECIMAL_COMMA.fullmatch, texts))
        points = any(map(_DECIMAL_POINT.fullmatch, texts))
        self._commas = commas or (decimal_commas and not points)
        self._turned = self._find_turned()
        self._codes = self._find_codes()

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """The rating in a cell, None where it has none; raises CellError."""
        if _is_blank(value):
            return None
        if not isinstance(value, str | bool | int | float | Decimal):
            raise _not_a_number("is not a number", "write a plain number, or null", value)
        cell = self._cells.get(_key(value)) or self._parse(value)
        if cell.kind == "missing":
            return None
        if cell.kind != "mapped":
            self._check(cell, value, scale)
        if not math.isfinite(cell.number):
            advice = "leave it empty where there is none"
            raise CellError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= cell.number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "mend the rating, or state the scale that people were given"
            raise CellError("off-scale", fault, advice, value)
        return cell.number

    @property
    def holds(self) -> str:
        """What the column holds, in words; empty where nothing tells."""
        if all(cell.kind not in _KINDS for cell in self._cells.values()):
            return ""
        return f"shares of {self._whole}" if self._kind == "share" else _KINDS[self._kind]

    def is_like(self, other: "RatingCells") -> bool:
        """Whether the numbers of two columns may be averaged, as far as their form tells."""
        if "" in (self.holds, other.holds) or self.holds == other.holds:
            return True
        cells = [*self._cells.values(), *other._cells.values()]
        ones = all(cell.number in (0, 1) for cell in cells if cell.kind == "number")
        return {self._kind, other._kind} == {"number", "truth"} and ones

    def notes(self) -> Iterator[str]:
        """Say what was understood that does not go without saying."""
        texts = {str(key[1]): cell for key, cell in self._cells.items() if cell.kind != "word"}
        if self._kind == "truth":
            counts = [f"{text} as {c.number:g}" for text, c in texts.items() if c.kind == "truth"]
            yield f"read {', '.join(sorted(counts))}; --values says otherwise"
        if mapped := [
            f"{excerpt(t)} as {c.number:g}" for t, c in texts.items() if c.kind == "mapped"
        ]:
            yield f"read {', '.join(mapped[:_MAX_WORDS])}, as --values says"
        odd = [
            f"read {excerpt(text)} as {cell.number:.12g}"
            for text, cell in texts.items()
            if cell.kind in ("percent", "share")
            or (cell.kind == "number" and (cell.detail or "," in text))
        ]
        yield from odd[:1]
        if missing := [text for text, cell in texts.items() if cell.kind == "missing"]:
            n_missing = sum(n for key, n in self._counts.items() if str(key[1]) in missing)
            words = ", ".join(map(excerpt, missing[:_MAX_WORDS]))
            yield f"{n_missing:,} without a rating, which say {words}"

    def _parse(self, value: object) -> _Cell:
        counted = self._words.get(word_of(value), "")
        if counted is None:
            return _Cell("missing")
        return _parse(value) if isinstance(counted, str) else _Cell("mapped", float(counted))

    def _check(self, cell: _Cell, value: object, scale: Scale | None) -> None:
        """Raise CellError where a cell states no number, or none of the column's kind."""
        text = plain_text(value)
        if cell.kind == "word" and _DATE.fullmatch(text):
            advice = (
                "a spreadsheet may have made one of 4/5: format the column as text, write it anew"
            )
            raise _not_a_number("is a date, and no number", advice, value)
        if cell.kind == "word":
            words = [str(key[1]) for key, other in self._cells.items() if other.kind == "word"]
            advice = f"write a plain number, or say what the words count: {_values_flag(words)}"
            raise _not_a_number("is not a number", advice, value)
        alike = self._kind == cell.kind and (cell.kind != "share" or cell.detail == self._whole)
        if not alike or (cell.kind == "truth" and not self._one_truth):
            usual = f"shares of {self._whole}" if self._kind == "share" else _KINDS[self._kind]
            advice = f"write all in one way, or say what it counts: {_values_flag([text])}"
            raise _not_a_number(f"stands among {usual}", advice, value)
        if isinstance(value, str) and _OPEN.match(text) and self._commas != ("," in text):
            advice = f"write it without the mark, or say which: {_values_flag([text])}"
            raise _not_a_number("may have a decimal mark or one of thousands", advice, value)
        if cell.number in self._codes and scale is None:
            advice = f"say that it is one by --values={text}= or a rating by --values={text}={text}"
            fault = "looks like a code for a missing rating, unlike all others"
            raise _not_a_number(fault, advice, value)
        if self._turned and cell.detail:
            ends = f"from {excerpt(self._turned[0])} to {excerpt(self._turned[1])}"
            words = [str(key[1]) for key, other in self._cells.items() if other.detail]
            advice = f"say what each counts, the best the most: {_values_flag(words)}"
            raise _not_a_number(f"is on a scale that counts downwards, {ends}", advice, value)

    def _find_turned(self) -> tuple[str, str] | None:
        """The texts of the lowest and highest number, where the lowest is called good."""
        labels = {
            c.number: (key[1], c.detail) for key, c in self._cells.items() if c.kind == "number"
        }
        named = [number for number, (_, detail) in labels.items() if detail]
        if len(named) < 2:
            return None
        (low, first), (high, last) = labels[min(named)], labels[max(named)]
        turned = _GOOD.search(first) and _BAD.search(last) and not _NOT.search(f"{first} {last}")
        return (str(low), str(high)) if turned else None

    def _find_codes(self) -> frozenset[float]:
        """The numbers that surveys write for no answer, where no rating can be like them."""
        numbers = {cell.number for cell in self._cells.values() if cell.kind == "number"}
        ratings = numbers - _CODES
        if self._kind != "number" or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        codes = {code for code in numbers & _CODES if code < 0 or code > 3 * max(ratings)}
        # Beside a 0, or on a short scale, -1 is a rating.
        signed = min(ratings) < 1 or max(ratings) < 3
        return frozenset(codes - {-1.0} if signed else codes)


def _key(value: object) -> tuple[type, object]:
    hashable = isinstance(value, str | bool | int | float | Decimal)
    return type(value), value if hashable else str(value)


def _not_a_number(fault: str, advice: str, value: object) -> CellError:
    return CellError("not-a-number", fault, advice, value)


def _values_flag(words: Iterable[str]) -> str:
    """The flag that says what words count, for its user to complete."""
    short = sorted({plain_text(word) for word in words if len(word) <= 40}, key=str.casefold)
    names = [f'"{word}"' if "," in word else word for word in short if word.isprintable()]
    names = [name for name in names if "'" not in name] or ["WORD"]
    more = "..." if len(names) > _MAX_WORDS else ""
    return "--values '" + ",".join(f"{name}=NUMBER" for name in names[:_MAX_WORDS]) + f"{more}'"


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not plain_text(value))
