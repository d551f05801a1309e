"""Which column of a table means what, and the numbers that stand in it."""

import difflib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from data.tables.problems import NO_VALUE, Problems, excerpt, joined_names
from data.tables.read import Table
from data.tables.text import TableRow

Scale = tuple[float, float]
# A longer list of numbers is no set of ratings but, say, an embedding.
MOST_ANNOTATORS = 100

# Not float(), which takes "nan", "1_000" and other alphabets' digits.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Fault(NamedTuple):
    """Why a cell is no rating; the caller knows where it stands."""

    kind: str
    what: str
    advice: str
    value: object = NO_VALUE


class CellRatings(NamedTuple):
    """The ratings of one cell and who gave them; no annotators where it is one bare number."""

    ratings: tuple[float, ...] = ()
    annotators: tuple[str, ...] = ()


NO_RATINGS = CellRatings()


def is_blank(value: object) -> bool:
    """Whether a cell says nothing: null, or nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def is_number(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a number; in an untyped file every cell is a string."""
    if isinstance(value, str):
        return not typed and bool(_NUMBER.fullmatch(value.strip()))
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a rating: a number, or a short list with one per annotator."""
    if not typed and isinstance(value, str) and value.lstrip()[:1] == "[":
        value = read_json(value)
        typed = True
    if not isinstance(value, list | tuple):
        return is_number(value, typed=typed)
    given = [one for one in value if not is_blank(one)]
    return len(value) <= MOST_ANNOTATORS and all(is_number(one, typed=typed) for one in given)


def read_cell_ratings(value: object, scale: Scale | None) -> CellRatings | Fault:
    """Read one dimension's cell: a number, a list with one per annotator, or {annotator: number}.

    A null among them is an annotator who gave none. A string holds a number, or JSON.
    """
    if is_blank(value):
        return NO_RATINGS
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        value = read_json(value)
        if isinstance(value, Fault):
            return value
    if isinstance(value, Mapping):
        return _by_annotator([(str(name), value[name]) for name in sorted(value, key=str)], scale)
    if isinstance(value, list | tuple):
        return _by_annotator([(str(place), one) for place, one in enumerate(value, 1)], scale)
    number = read_number(value, scale)
    return number if isinstance(number, Fault) else CellRatings((number,))


def read_json(text: str) -> object | Fault:
    """Parse a cell that holds JSON."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return Fault("bad-json", "is not JSON", "write it as JSON, or give flat columns", text)
    return value


def read_number(value: object, scale: Scale | None) -> float | Fault:
    """Read one rating; a Fault where it is no finite number, or off the scale."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value.strip()):
            return Fault("not-a-number", "is not a number", _number_hint(value.strip()), value)
        value = float(value)
    if isinstance(value, bool):
        return Fault("not-a-number", "is not a number", "write 1 for true and 0 for false", value)
    if not isinstance(value, int | float | Decimal):
        return Fault("not-a-number", "is not a number", "write a plain number, or null", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return Fault(
            "not-finite", "is not a finite number", "leave it empty where there is none", value
        )
    if scale is not None and not scale[0] <= number <= scale[1]:
        low, high = scale
        return Fault(
            "off-scale",
            f"is off the scale {low:g} to {high:g}",
            "mend the rating, or state the scale that people were given",
            value,
        )
    return number


def _number_hint(text: str) -> str:
    """How to write as a number what people write for one."""
    word = text.casefold()
    if word in ("true", "yes", "false", "no"):
        return f"write {int(word in ('true', 'yes'))} for {text}"
    if word in ("na", "n/a", "nan", "none", "null", "-", "?"):
        return "leave the cell empty where there is no rating"
    if re.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+", text, re.ASCII):
        without = text.replace(",", "")
        if text.count(",") > 1:
            return f"write {without}, without commas"
        return f"write {without} or {text.replace(',', '.')}, as is meant"
    if re.fullmatch(r"[+-]?\d+,\d+", text, re.ASCII):
        return f"write {text.replace(',', '.')}, with a point"
    if part := re.fullmatch(r"([+-]?\d+(?:\.\d+)?)\s*(?:%|/|out of|of|stars?\b).*", word, re.ASCII):
        return f"write {part[1]} alone, and say the scale with --scale"
    return "write a plain number, or leave it empty"


def _by_annotator(cells: list[tuple[str, object]], scale: Scale | None) -> CellRatings | Fault:
    ratings, annotators = [], []
    for annotator, value in cells:
        if is_blank(value):
            continue
        number = read_number(value, scale)
        if isinstance(number, Fault):
            return number
        ratings.append(number)
        annotators.append(annotator)
    return CellRatings(tuple(ratings), tuple(annotators))


# What systems were given, by the names people use for it, the most telling first.
SOURCES = (
    "document",
    "context",
    "post",
    "query",
    "prompt",
    "article",
    "dialogue",
    "question",
    "instruction",
)
OUTPUTS = ("summary", "response", "output", "answer", "reply", "completion", "generation")
# A dotted name reaches into a nested column.
DOT = "."

_ALIASES = {
    "group": ("document_id", "doc_id", "group_id"),
    "system": ("system_id", "model", "model_id"),
    "system_a": ("model_a", "generator_1"),
    "system_b": ("model_b", "generator_2"),
    "annotator": ("annotator_id", "worker", "worker_id", "rater", "rater_id", "assessor", "coder"),
}
# What is longer, has more words, or comes in more kinds is no label but a text.
_LONGEST_LABEL, _MOST_SPACES, _MOST_LABELS = 40, 5, 12
# `--map id=#line` numbers the rows of a file without ids.
LINE = "#line"


# What a name is read from: one column, or several with one annotator each.
ColumnNames = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's columns and the user's names for some of them."""

    table: Table
    mapping: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, table: Table, mapping: Mapping[str, ColumnNames] | None = None) -> "Columns":
        """Columns under a mapping from our names to one column or to several."""
        several = {
            name: (columns,) if isinstance(columns, str) else tuple(dict.fromkeys(columns))
            for name, columns in (mapping or {}).items()
        }
        return cls(table, several)

    def find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it.

        Names that differ in case alone are the same, as long as one column has it.
        """
        names = (name, *_ALIASES.get(name, ()))
        for column in (*self.mapping.get(name, ())[:1], *names):
            if self.has(column):
                return column
        return next((near for one in names if (near := self.cased(one)) is not None), None)

    def cased(self, name: str) -> str | None:
        """Return the one column that has this name but for its case; None where none or several."""
        wanted = name.casefold()
        alike = [column for column in self.table.columns if _key(column) == wanted]
        return alike[0] if len(alike) == 1 else None

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        known = self.table.columns
        return column in known or (DOT in column and column.partition(DOT)[0] in known)

    def taken(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all that a mapping gave another name."""
        own = (self.find(name) for name in names)
        mapped = {column for columns in self.mapping.values() for column in columns}
        return {column for column in own if column is not None} | mapped

    def texts(self, taken: set[str], *, ratings: Iterable[str] = ()) -> dict[str, str]:
        """Return every text's name and column: all string columns that serve nothing else."""
        spent = taken | set(ratings)
        texts = {}
        for column in self.table.columns:
            name = self._text_name(column)
            if column not in spent and name not in self.mapping and self._is_text(column):
                texts[name] = column
        for name, columns in self.mapping.items():
            column = columns[0]
            if name not in _ROLES and column not in set(ratings) and self._is_text(column):
                texts[name] = column
        return texts

    def is_prose(self, column: str) -> bool:
        """Whether a column's cells read as texts, and not as labels such as `good` or `4/5`."""
        cells = {str(value).strip() for value in self.cells(column) if not is_blank(value)}
        if any(len(one) > _LONGEST_LABEL or one.count(" ") > _MOST_SPACES for one in cells):
            return True
        return len(cells) > _MOST_LABELS and not any(one[:1].isdigit() for one in cells)

    def holds_numbers(self, column: str) -> int:
        """How many of a column's cells are numbers, though most may not be."""
        typed = self.table.typed
        return sum(is_number(value, typed=typed) for value in self.cells(column))

    def nested_names(self) -> tuple[str, ...]:
        """Return every key inside `ratings` and `annotations`, dotted, as a mapping names it."""
        roots = [column for name in ("ratings", "annotations") if (column := self.find(name))]
        names: dict[str, None] = {}
        for root in roots:
            for value in self.cells(root):
                inside = _as_object(value)
                names.update(dict.fromkeys(f"{root}{DOT}{key}" for key in inside or ()))
        return tuple(names)

    def numeric(self, column: str) -> bool:
        """Whether most of a column's cells are ratings; a known text's never are."""
        if is_known_text(column):
            return False
        present = numbers = 0
        for value in self.cells(column):
            if not is_blank(value):
                present += 1
                numbers += is_rating(value, typed=self.table.typed)
        return 2 * numbers >= present > 0

    def cells(self, column: str) -> Iterable[object]:
        return (cell(row, column) for row in self.table.rows)

    def _is_text(self, column: str) -> bool:
        if is_known_text(column):
            return True
        return not self.numeric(column) and any(
            isinstance(value, str) or join_texts(value) is not None for value in self.cells(column)
        )

    def _text_name(self, column: str) -> str:
        """A text's name: the column's own, or the known name that differs in case alone."""
        known = _key(column)
        usual = is_known_text(column) and self.cased(known) == column
        return known if usual else column


def is_known_text(column: str) -> bool:
    """Whether a column goes by a name that people use for what systems get or write."""
    return _key(column) in SOURCES or _key(column) in OUTPUTS


def only_text(texts: Iterable[str], wanted: Collection[str]) -> str | None:
    """The file's one text where a judge reads one too, whatever either is called.

    None where there are several, or one is known for a source and the other for an output.
    """
    names, needed = [*texts], [*wanted]
    if len(names) != 1 or len(needed) != 1:
        return None
    kinds = [(one in SOURCES) - (one in OUTPUTS) for one in (names[0], needed[0])]
    return names[0] if kinds[0] * kinds[1] >= 0 else None


def join_texts(value: object) -> str | None:
    """Several texts of a cell, such as reviews, as one; None where it holds anything else."""
    if not isinstance(value, list | tuple):
        return None
    texts = [one for one in value if isinstance(one, str)]
    if any(one is not None and not isinstance(one, str) for one in value):
        return None
    return "\n\n".join(one for one in texts if one.strip()) or None


def _key(column: str) -> str:
    return column.strip().casefold().replace(" ", "_")


_ROLES = frozenset(
    {"id", "group", "system", "system_a", "system_b", "ratings", "annotations", "votes"}
    | {"preferred", "preference", "response_a", "response_b", "dimension", "annotator", "rating"}
)
_SEVERAL = frozenset({"votes", "preferred", "preference"})


def cell(row: TableRow, column: str) -> object:
    """Return a row's cell; a dotted column that the row lacks reaches into a nested one."""
    if column in row.cells or DOT not in column:
        return row.cells.get(column)
    value: object = row.cells
    for key in column.split(DOT):
        inside = _as_object(value)
        if inside is None:
            return None
        value = inside.get(key)
    return value


def _as_object(value: object) -> Mapping[str, object] | None:
    """An object, also where an untyped file holds it as JSON."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = read_json(value)
    return value if isinstance(value, Mapping) and not isinstance(value, Fault) else None


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Note every mapping to a column that the file does not have, and what may have but one."""
    for name, mapped in columns.mapping.items():
        for column in mapped:
            known = columns.has(column) and (
                column in columns.table.columns
                or any(cell(row, column) is not None for row in columns.table.rows)
            )
            if not known and not (name == "id" and column == LINE):
                missing_column(columns, problems, column, name)
        if len(mapped) > 1 and (is_known_text(name) or name in _ROLES - _SEVERAL):
            problems.add(
                "two-columns",
                f"is mapped to {len(mapped)} columns ({joined_names(mapped)})",
                f"give one --map {name}=COLUMN; only ratings and votes may have a column for each "
                "annotator",
                field=name,
            )


def missing_column(
    columns: Columns, problems: Problems, column: str, name: str, also: str = ""
) -> None:
    """Note that there is no such column for `name`, and which ones there are."""
    problems.add(
        "no-column",
        f"there is no such column{also}; there are {joined_names(columns.table.columns)}",
        way_to_name(columns, name, column),
        field=column,
    )


def way_to_name(columns: Columns, name: str, wanted: str) -> str:
    """How to say which column holds `name`: the one nearest to `wanted`, or how to name any."""
    candidates = {inside.rpartition(DOT)[2]: inside for inside in columns.nested_names()}
    candidates |= {inside: inside for inside in candidates.values()}
    candidates |= {column: column for column in columns.table.columns}
    cased = {_key(one): column for one, column in candidates.items()}
    near = difflib.get_close_matches(_key(wanted.rpartition(DOT)[2]), cased, n=1)
    if near:
        return f"did you mean {excerpt(cased[near[0]])}? name yours with --map {name}=" + (
            cased[near[0]] if cased[near[0]].isprintable() else "COLUMN"
        )
    nested = columns.nested_names()
    inside = (
        f", or --map {name}={joined_names(nested[:1])} for one inside another" if nested else ""
    )
    return f"name yours with --map {name}=COLUMN{inside}"
