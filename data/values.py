"""What the cells of a column of ratings count, decided by all of them: numbers, shares, words."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Literal, NamedTuple

from data.tables.problems import CellError, excerpt
from data.types import Vote

Scale = tuple[float, float]
# A user's words and what they count: a rating, a choice, or None where they say nothing.
Values = Mapping[str, float | Vote | None]

# What people are commonly given, the narrowest first.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

# How a number is written: with a decimal mark, with thousands set apart by one, or by either.
Style = Literal["", "point", "comma", "groups", "groups,", "groups.", "either,", "either."]
Kind = Literal["number", "percent", "share", "stars", "truth", "mapped", "missing", "date", "word"]
_KINDS: Mapping[Kind, str] = {
    "number": "plain numbers",
    "percent": "percentages",
    "share": "shares such as 4/5",
    "stars": "stars",
    "truth": "words for yes and no",
}
# Each pair is one way to say true and false, which a column does not mix with another.
_TRUTHS = (
    ("true", "false"),
    ("yes", "no"),
    ("y", "n"),
    ("wahr", "falsch"),
    ("vrai", "faux"),
    ("verdadero", "falso"),
    ("ja", "nein"),
    ("oui", "non"),
    ("sí", "no"),
    ("vero", "falso"),
    ("sì", "no"),
    ("sim", "não"),
    ("waar", "onwaar"),
    ("ja", "nee"),
    ("tak", "nie"),
    ("да", "нет"),
    ("是", "否"),
    ("はい", "いいえ"),
    ("👍", "👎"),
    ("thumbs up", "thumbs down"),
    ("thumbsup", "thumbsdown"),
    (":+1:", ":-1:"),
    (":thumbsup:", ":thumbsdown:"),
    ("✓", "✗"),
    ("✔", "✘"),
    ("✅", "❌"),
    ("☑", "☐"),
)
_TRUTH_WORDS = {word: float(1 - i) for pair in _TRUTHS for i, word in enumerate(pair)}
_UNACCENTED = {"si": "sí", "nao": "não"}
_MISSING = frozenset(
    (
        *("n/a", "na", "n.a.", "n. a.", "#n/a", "#nv", "#na", "nan", "null", "none", "nil", "nd"),
        *("-", "--", "---", "–", "—", ".", "..", "...", "…", "?", "??", "/"),
        *("not applicable", "not rated", "unrated", "no rating", "no answer", "no response"),
        *("missing", "skipped", "skip", "(blank)", "blank", "empty", "prefer not to say"),
        *("don't know", "dont know", "do not know", "dk", "no opinion", "unknown"),
        *("k.a.", "k. a.", "keine angabe", "weiß nicht", "weiss nicht", "sans réponse", "sin dato"),
        *("entfällt", "nicht zutreffend", "s.o.", "s/o", "n.d.", "sans objet", "non applicable"),
        *("no aplica", "no sabe", "non applicabile", "não se aplica"),
    )
)

# What the ends of a scale are called: who calls 1 very good counts downwards, as German marks do.
_GOOD = frozenset(
    (
        *("good", "excellent", "great", "best", "perfect", "gut", "hervorragend", "ausgezeichnet"),
        *("bien", "bon", "bonne", "excelente", "bueno", "buono", "ottimo", "eccellente", "agree"),
    )
)
_BAD = frozenset(
    (
        *("bad", "poor", "worst", "terrible", "awful", "unusable", "schlecht", "mangelhaft"),
        *("ungenügend", "ausreichend", "mauvais", "médiocre", "malo", "pésimo", "cattivo"),
        *("disagree", "pessimo", "scarso"),
    )
)
_NEGATIONS = frozenset({"not", "no", "nicht", "kein", "keine", "pas", "non"})

# A word for yes or no that several languages have.
_SHARED = "no"

# What surveys write for no answer: so far above the ratings, or negative where none is.
_CODES = frozenset(
    (
        *(-9.0, -88.0, -98.0, -99.0, -888.0, -998.0, -999.0, -9999.0),
        *(88.0, 98.0, 99.0, 888.0, 998.0, 999.0, 9999.0),
    )
)
_CODE_ABOVE, _LEAST_CODED = 3.0, 3.0

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(\d*),(\d+)", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([., '])\d{3})+(?:([.,])\d+)?", re.ASCII)
_PERCENT = re.compile(r"(.+?)\s*%")
_UNITS = r"stars?|points?|pts?\.?|sterne?|punkte?|étoiles?|puntos?|estrellas?|★|⭐"
_SHARE = re.compile(
    rf"([+-]?[\d.,]+)\s*(?:/|out of|of|von|sur|de|su)\s*(\d+(?:[.,]\d+)?)\s*(?:{_UNITS})?",
    re.IGNORECASE,
)
_STARS = re.compile(r"([★⭐🌟*]+)\s*☆*")
_UNIT = re.compile(rf"([+-]?[\d.,]+)\s*(?:{_UNITS})", re.IGNORECASE)
_NUMBER = r"[+-]?(?:\d+(?:[.,]\d+)?)"
# "4 - good", "4: good", "(4) good", "4. good", "good (4)", "good - 4", "good: 4".
_LABELLED = re.compile(
    rf"(?:[(\[]\s*({_NUMBER})\s*[)\]]\s*[-–—:=]?|({_NUMBER})\s*(?:[-–—:=|)\]]|[.,]\s))\s*([^\W\d].*)"
    rf"|({_NUMBER})\s*[(\[]\s*([^\W\d].*?)[)\]]"
)
_LABEL_FIRST = re.compile(
    rf"([^\W\d][^\d]*?)(?:\s*[(\[]\s*({_NUMBER})\s*[)\]]|\s+[-–—]\s+({_NUMBER})|\s*[:=]\s*({_NUMBER}))"
)
# As headings are, so that only a column that is asked for has such ratings.
_NUMBERED = re.compile(r"\d+\.\s")
_SPACED = re.compile(rf"({_NUMBER})\s+([^\W\d][^\d]*)")
_MONTHS = r"jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz]"
_DATE = re.compile(
    rf"\d{{4}}-\d\d-\d\d.*|\d{{1,2}}([./-])\d{{1,2}}\1\d{{2,4}}"
    rf"|\d{{1,2}}[-. /]+(?:{_MONTHS})\w*\.?.*"
    rf"|(?:{_MONTHS})\w*[-. /]+\d{{1,4}}|\d{{1,2}}:\d\d(?::\d\d)?",
    re.IGNORECASE | re.ASCII,
)
_PLUSES, _MINUSES = re.compile(r"\s*\++\s*"), re.compile(r"\s*[-–—−]+\s*")
# In any language: #DIV/0!, #REF!, #NAME?, #WERT!.
_FORMULA_ERROR = re.compile(r"#[^\W_][\w/]*[!?]")
_DATE_ADVICE = (
    "a spreadsheet may have made a date of a rating such as 4/5: format the column as text, and "
    "write the rating anew"
)
# Characters that show nothing, and variation selectors and skin tones of pictures.
_INVISIBLE = re.compile("[\ufeff\u200b-\u200f\u2060\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
_MAX_WORDS = 6


class _Cell(NamedTuple):
    """What one cell may be: its kind, the number it states, and what bears on its reading.

    `detail` is the denominator of a share, which pair of words says true and false, or the label
    beside a number. `style` says how the number is written; `other` is what it would be if its
    comma or point set thousands apart.
    """

    kind: Kind
    number: float = math.nan
    detail: str = ""
    style: Style = ""
    other: float = math.nan


def plain_text(value: object) -> str:
    """A cell as text: any digits as 0-9, any space as one plain space, no invisible marks."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        value = int(value)
    text = _INVISIBLE.sub("", str(value))
    if not text.isascii():
        text = "".join(map(_plain_character, text))
    text = " ".join(text.split())
    if (formula := re.fullmatch(r'="(.*)"', text)) is not None:
        text = formula[1]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    # How a spreadsheet marks a text that looks like a number.
    return text.removeprefix("'").strip()


def _plain_character(letter: str) -> str:
    digit = unicodedata.decimal(letter, None)
    if digit is not None:
        return str(digit)
    if "\uff01" <= letter <= "\uff5e":
        # Of full width, as in ４／５.
        return chr(ord(letter) - 0xFEE0)
    return {"−": "-", "٫": ",", "’": "'"}.get(letter, letter)


def word_of(value: object) -> str:
    """A cell as a word that a user names it by: without regard to case and spaces."""
    return plain_text(value).casefold()


def _parse(value: object) -> _Cell:
    """What a cell may be, on its own."""
    if isinstance(value, bool):
        return _Cell("truth", float(value), "true/false")
    if isinstance(value, int | float | Decimal):
        try:
            return _Cell("number", float(value))
        except OverflowError:
            return _Cell("number", math.inf)
    text = plain_text(value)
    word = text.casefold()
    word = _UNACCENTED.get(word, word)
    if word in _MISSING:
        return _Cell("missing")
    if word in _TRUTH_WORDS:
        pairs = ["/".join(pair) for pair in _TRUTHS if word in pair]
        return _Cell("truth", _TRUTH_WORDS[word], pairs[0] if len(pairs) == 1 else _SHARED)
    if (number := _parse_number(text)) is not None:
        return number
    if (stars := _STARS.fullmatch(text)) is not None:
        return _Cell("stars", float(len(stars[1])))
    if (share := _SHARE.fullmatch(text)) is not None:
        if any(re.match(r"0\d", number) for number in share.groups()):
            return _Cell("date")
        part, whole = _parse_number(share[1]), _parse_number(share[2])
        if part and whole and part.number <= whole.number:
            return part._replace(kind="share", detail=f"{whole.number:g}")
    if (percent := _PERCENT.fullmatch(text)) is not None:
        part = _parse_number(percent[1])
        if part is not None:
            return part._replace(kind="percent")
    if _DATE.fullmatch(text):
        return _Cell("date")
    return _parse_labelled(text)


def _parse_number(text: str) -> _Cell | None:
    """A number alone, and how it is written; None where the text is none."""
    if _PLAIN.fullmatch(text):
        number = float(text)
        whole, point, decimals = text.lstrip("+-").partition(".")
        if point and re.fullmatch(r"\d{3}", decimals) and re.fullmatch(r"[1-9]\d{0,2}", whole):
            return _Cell("number", number, style="either.", other=float(text.replace(".", "")))
        return _Cell("number", number, style="point" if point and decimals else "")
    if (match := _GROUPED.fullmatch(text)) and not re.match(r"[+-]?0", text):
        return _parse_grouped(text, match[1], match[2])
    if _COMMA.fullmatch(text):
        return _Cell("number", float(text.replace(",", ".")), style="comma")
    return None


def _parse_grouped(text: str, mark: str, last: str | None) -> _Cell | None:
    """A number whose `mark` may set thousands apart; `last` is its decimal mark, if any."""
    if last is None and mark == "," and text.count(",") == 1:
        number, other = float(text.replace(",", ".")), float(text.replace(",", ""))
        return _Cell("number", number, style="either,", other=other)
    whole, _, decimals = text.rpartition(last) if last else (text, "", "")
    if mark == last or set(re.findall(r"[^\d+-]", whole)) != {mark}:
        return None
    number = float(f"{re.sub(r'[^0-9+-]', '', whole)}.{decimals}")
    if mark in ",.":
        return _Cell("number", number, style="groups," if mark == "," else "groups.")
    return _Cell("number", number, style="comma" if last == "," else "groups")


def _parse_labelled(text: str) -> _Cell:
    """A number with its label, such as `4 - good`; else a word."""
    if (unit := _UNIT.fullmatch(text)) and (number := _parse_number(unit[1])):
        return number._replace(detail="stars")
    if match := _LABELLED.fullmatch(text):
        written = match[1] or match[2] or match[4]
        label = match[3] or match[5]
    elif match := _LABEL_FIRST.fullmatch(text):
        written, label = match[2] or match[3] or match[4], match[1]
    elif match := _SPACED.fullmatch(text):
        written, label = match[1], f" {match[2]}"
    else:
        return _Cell("word")
    number = _parse_number(written)
    if number is None or re.search(r"\d", label):
        return _Cell("word")
    if label.strip().casefold() in _MISSING:
        return _Cell("missing")
    return number._replace(detail=label.casefold())


def looks_like_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell states a number by itself; in a typed file strings do not."""
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        if typed or len(value) > 60:
            return False
        if _NUMBERED.match(value.lstrip()):
            return False
        cell = _parse(value)
        return cell.kind in ("number", "percent", "share", "stars") and not (
            cell.detail.startswith(" ") or (cell.kind == "share" and not cell.detail)
        )
    return isinstance(value, int | float | Decimal)


def truth_of(value: object) -> bool | None:
    """Whether a cell says yes (or 1) or no (or 0); None where it says neither."""
    cell = _parse(value)
    is_truth = cell.kind == "truth" or (cell.kind == "number" and cell.number in (0, 1))
    return bool(cell.number) if is_truth else None


def says_nothing(value: object) -> bool:
    """Whether a cell is blank or a word for a rating that there is not."""
    return value is None or (
        isinstance(value, str) and (not plain_text(value) or word_of(value) in _MISSING)
    )


class RatingCells:
    """Reads the cells of one column by what all of them are.

    `values` are all of the column's, `words` what the user says that some count. A column is of one
    kind: plain numbers (which may have labels), percentages, shares of one whole, stars, or one
    pair of words for yes (1) and no (0). What is of another kind is refused, and so is a number
    whose comma or point the column and the scale leave open. `decimal_commas`: other columns of the
    file have some, so that a point is not surely a decimal one.
    """

    def __init__(
        self,
        values: Iterable[object],
        words: Values | None = None,
        *,
        decimal_commas: bool = False,
    ) -> None:
        self._decimal_commas = decimal_commas
        # What the column leaves open, and the scale does not.
        self._by_scale: dict[str, float] = {}
        self._words = {word_of(word): number for word, number in (words or {}).items()}
        self._cells: dict[tuple[type, object], _Cell] = {}
        self._counts: Counter[tuple[type, object]] = Counter()
        for value in values:
            if not _is_blank(value):
                self._counts[type(value), value if _is_hashable(value) else str(value)] += 1
        for key in self._counts:
            self._cells[key] = self._parse(key[1])
        if any(_PLUSES.fullmatch(str(key[1])) for key in self._cells):
            # Beside ++ and +, a - is a rating too.
            minuses = (key for key in self._cells if _MINUSES.fullmatch(str(key[1])))
            own_words = (key for key in minuses if word_of(key[1]) not in self._words)
            self._cells |= dict.fromkeys(own_words, _Cell("word"))
        kinds: Counter[Kind] = Counter()
        details: Counter[str] = Counter()
        for key, number in self._counts.items():
            cell = self._cells[key]
            kinds[cell.kind] += number
            if cell.kind in ("share", "truth"):
                details[cell.detail] += number
        readable = [kind for kind in kinds if kind in _KINDS]
        self._kind: Kind = max(readable, key=lambda kind: kinds[kind]) if readable else "number"
        self._detail = self._usual_detail(details)
        self._styles = {
            cell.style for cell in self._cells.values() if cell.kind == self._kind and cell.style
        }
        self._spaced_labels_agree = self._check_spaced_labels()
        self._codes = self._find_codes()
        self._turned = self._find_turned()

    def read(self, value: object, scale: Scale | None = None) -> float | None:
        """The rating in a cell, None where it has none; raises CellError."""
        if _is_blank(value):
            return None
        if not isinstance(value, str | bool | int | float | Decimal):
            advice = "write a plain number, or null"
            raise CellError("not-a-number", "is not a number", advice, value)
        key = (type(value), value)
        cell = self._cells.get(key) or self._parse(value)
        if cell.kind == "missing":
            return None
        number = self._number(cell, value, scale)
        if not math.isfinite(number):
            advice = "leave it empty where there is none"
            raise CellError("not-finite", "is not a finite number", advice, value)
        if scale is not None and not scale[0] <= number <= scale[1]:
            fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
            advice = "mend the rating, or state the scale that people were given"
            raise CellError("off-scale", fault, advice, value)
        return number

    @property
    def holds(self) -> str:
        """What the column holds, in words; empty where nothing tells."""
        if all(cell.kind not in _KINDS for cell in self._cells.values()):
            return ""
        return f"shares of {self._detail}" if self._kind == "share" else _KINDS[self._kind]

    def is_like(self, other: "RatingCells") -> bool:
        """Whether the numbers of two columns may be averaged, as far as their form tells."""
        if not (self.holds and other.holds) or self.holds == other.holds:
            return True
        sides = (self, other)
        return {"number", "truth"} == {cells._kind for cells in sides} and all(
            cell.number in (0, 1)
            for cells in sides
            for cell in cells._cells.values()
            if cell.kind == "number"
        )

    def notes(self) -> Iterator[str]:
        """Say what was understood that does not go without saying."""
        texts = {
            key[1]: cell
            for key, cell in self._cells.items()
            if isinstance(key[1], str)
            and (cell.kind == "missing" or self._is_readable(cell, key[1]))
        }
        read = {text: cell for text, cell in texts.items() if cell.kind == self._kind}
        truths = {c.number: key[1] for key, c in self._cells.items() if c.kind == "truth"}
        if self._kind == "truth":
            pairs = ", ".join(f"{text} as {number:g}" for number, text in sorted(truths.items()))
            yield f"read {pairs}; --values says otherwise"
        mapped = {key[1]: c.number for key, c in self._cells.items() if c.kind == "mapped"}
        if mapped:
            counts = (f"{excerpt(word)} as {number:g}" for word, number in mapped.items())
            yield f"read {', '.join(islice(counts, _MAX_WORDS))}, as --values says"
        forms = {
            "": self._kind in ("share", "percent", "stars") or None,
            "decimal commas": ("comma", "either,"),
            "thousands set apart": ("groups", "groups,", "groups."),
        }
        for form, styles in forms.items():
            for text, cell in read.items():
                if styles is True or (styles and cell.style in styles):
                    what = f", of {self._detail}" if self._kind == "share" else ""
                    what += f" ({form})" if form else ""
                    yield f"read {excerpt(text)} as {self._number(cell, text):.12g}{what}"
                    break
        for shown, number in islice(self._by_scale.items(), 1):
            yield f"read {shown} as {number:.12g}, since nothing else is on the scale"
        labelled = (text for text, c in read.items() if c.detail and self._kind == "number")
        for text in islice(labelled, 1):
            yield f"read {excerpt(text)} as {self._number(read[text], text):.12g}"
        if missing := [text for text, cell in texts.items() if cell.kind == "missing"]:
            n_missing = sum(self._counts[str, text] for text in missing)
            words = ", ".join(map(excerpt, missing[:_MAX_WORDS]))
            yield f"{n_missing:,} without a rating, which say {words}"

    def _is_readable(self, cell: _Cell, value: object) -> bool:
        try:
            self._number(cell, value)
        except CellError:
            return False
        return True

    def _parse(self, value: object) -> _Cell:
        counted = self._words.get(word_of(value), "")
        if counted is None:
            return _Cell("missing")
        if isinstance(counted, int | float):
            return _Cell("mapped", float(counted))
        return _parse(value)

    def _usual_detail(self, details: Counter[str]) -> str:
        """The whole that shares are of, or the words for yes and no, some several languages'."""
        if set(details) - {_SHARED}:
            details = Counter({name: n for name, n in details.items() if name != _SHARED})
        return max(details, key=lambda name: details[name]) if details else ""

    def _check_spaced_labels(self) -> bool:
        """Whether `4 good` names a number: each label has its own, and each number its label."""
        pairs = {
            (cell.detail, cell.number)
            for cell in self._cells.values()
            if cell.detail.startswith(" ")
        }
        n_labels = len({label for label, _ in pairs})
        n_numbers = len({cell.number for cell in self._cells.values() if cell.kind == "number"})
        return len(pairs) == n_labels == len({number for _, number in pairs}) and n_numbers > 1

    def _number(self, cell: _Cell, value: object, scale: Scale | None = None) -> float:
        """The number of a cell that states one; raises CellError."""
        if cell.kind == "mapped":
            return cell.number
        if cell.kind not in _KINDS:
            raise self._refusal(cell, value)
        if cell.kind != self._kind or (
            cell.kind in ("share", "truth") and cell.detail not in (self._detail, _SHARED)
        ):
            usual = _KINDS[self._kind]
            if cell.kind == self._kind:
                usual = f"{usual} ({self._detail})" if cell.kind == "truth" else f"n/{self._detail}"
            advice = f"write all of a column alike, or say what it counts: {_values_flag([value])}"
            raise CellError("not-a-number", f"stands among {usual}", advice, value)
        if cell.detail.startswith(" ") and not self._spaced_labels_agree:
            advice = f"write {cell.number:g} alone, or say what it counts: {_values_flag([value])}"
            raise CellError("not-a-number", "is not a number", advice, value)
        if self._turned and cell.detail:
            raise self._turned_refusal(value)
        if cell.style in ("either,", "either."):
            return self._open_number(cell, value, scale)
        if cell.number in self._codes and scale is None:
            word = plain_text(value)
            fault = "looks like a code for a missing rating, unlike all others"
            advice = f"say that it is one by --values={word}= or a rating by --values={word}={word}"
            raise CellError("not-a-number", fault, advice, value)
        return cell.number

    def _find_turned(self) -> Mapping[float, str]:
        """Each number and its text, where the lowest is called good and the highest bad."""
        labels = {
            cell.number: (cell.detail.strip(" ."), str(key[1]))
            for key, cell in self._cells.items()
            if cell.kind == "number" and cell.detail
        }
        if len(labels) < 2:
            return {}
        low, high = (labels[end(labels)][0].split() for end in (min, max))
        turned = not _GOOD.isdisjoint(low) and not _BAD.isdisjoint(high)
        negated = any(not _NEGATIONS.isdisjoint(words) for words in (low, high))
        texts = {number: text for number, (_, text) in sorted(labels.items())}
        return texts if turned and not negated else {}

    def _find_codes(self) -> frozenset[float]:
        """The numbers that surveys write for no answer, where no rating can be like them."""
        numbers = {cell.number for cell in self._cells.values() if cell.kind == "number"}
        ratings = numbers - _CODES - {-1}
        if -1 in numbers and min(ratings, default=0) < 1:
            ratings = numbers - _CODES
        if self._kind != "number" or len(ratings) < 2 or min(ratings) < 0:
            return frozenset()
        above = _CODE_ABOVE * max(ratings)
        codes = {code for code in numbers & _CODES if code < 0 or code > above}
        # On a scale with a sign there are 0, or other negative ratings.
        if min(ratings) >= 1 and max(ratings) >= _LEAST_CODED and -1 in numbers:
            codes.add(-1)
        return frozenset(codes)

    def _open_number(self, cell: _Cell, value: object, scale: Scale | None) -> float:
        """A number with one mark before three digits: as the column has it, or as the scale can."""
        if cell.style == "either,":
            groups = "groups," in self._styles
            decimals = not self._styles.isdisjoint({"comma", "groups."})
        else:
            groups = "groups." in self._styles
            # A point is a decimal point, unless the column has decimal commas.
            decimals = not groups and ("point" in self._styles if self._decimal_commas else True)
            decimals = decimals and "comma" not in self._styles
        if groups == decimals and scale is not None:
            groups, decimals = (
                scale[0] <= number <= scale[1] for number in (cell.other, cell.number)
            )
            if groups != decimals:
                number = cell.other if groups else cell.number
                self._by_scale.setdefault(excerpt(value), number)
        if groups == decimals:
            fault = f"is {cell.other:.15g} or {cell.number:.12g}"
            flags = (
                f"--values '\"{plain_text(value)}\"={number}'"
                for number in (f"{cell.number:.12g}", f"{cell.other:.15g}")
            )
            advice = f"give --scale, write the one that is meant, or say {' or '.join(flags)}"
            raise CellError("not-a-number", fault, advice, value)
        return cell.other if groups else cell.number

    def _turned_refusal(self, value: object) -> CellError:
        """Why a scale on which a low number is good is not read as one on which it is bad."""
        lowest, highest = min(self._turned), max(self._turned)
        flags = []
        for counts in (lowest + highest - number for number in self._turned), self._turned:
            pairs = zip(self._turned.values(), counts, strict=True)
            words = (f"{text}={count:g}" for text, count in pairs)
            flags.append(",".join(f'"{word}"' if "," in word else word for word in words))
        best, worst = (excerpt(self._turned[end]) for end in (lowest, highest))
        fault = f"is on a scale that counts downwards, from {best} to {worst}"
        advice = f"turn the scale by --values '{flags[0]}', or keep it by --values '{flags[1]}'"
        return CellError("not-a-number", fault, advice, value)

    def _refusal(self, cell: _Cell, value: object) -> CellError:
        if cell.kind == "date":
            return CellError("not-a-number", "is a date, and no number", _DATE_ADVICE, value)
        words = [key[1] for key, other in self._cells.items() if other.kind == "word"]
        errors = [word for word in words if _FORMULA_ERROR.fullmatch(str(word))]
        if value in errors:
            flag = _values_flag(errors, "")
            advice = f"mend the formula, or say that there is no rating: {flag}"
            return CellError("not-a-number", "is the error of a formula", advice, value)
        words = [word for word in words if word not in errors]
        flag = _values_flag(words if value in words else [value])
        advice = f"write a plain number, or say what the words count: {flag}"
        return CellError("not-a-number", "is not a number", advice, value)


def _values_flag(words: Iterable[object], count: str = "NUMBER") -> str:
    """The flag that says what words count, for its user to complete."""
    short = sorted({plain_text(word) for word in words if len(str(word)) <= 40}, key=str.casefold)
    names = [f'"{word}"' if "," in word else word for word in short if word.isprintable()]
    names = [name for name in names if "'" not in name] or ["WORD"]
    more = "..." if len(names) > _MAX_WORDS else ""
    return "--values '" + ",".join(f"{name}={count}" for name in names[:_MAX_WORDS]) + f"{more}'"


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not _INVISIBLE.sub("", value).strip())


def _is_hashable(value: object) -> bool:
    return isinstance(value, str | bool | int | float | Decimal)
