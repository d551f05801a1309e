"""Ratings in a table: a column a dimension (wide), or a row an annotator and dimension (long)."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from dspy_judges.column_names import name_key
from judges import catalog
from judges.labels.cells import (
    DOT,
    RatingsByAnnotator,
    as_object,
    is_blank,
    is_name,
    rating_parts,
    value_in,
)
from judges.labels.columns import (
    NESTED,
    VOTES,
    ColumnNames,
    Columns,
    is_known_text,
    map_flag,
    tokens,
)
from judges.labels.rows import FOOTER, item_key
from judges.labels.values import (
    VERDICTS,
    RatingCells,
    Scale,
    Values,
    says_nothing,
    says_truth,
    word_of,
)
from judges.tables.problems import Problems, UnreadableError, excerpt, joined_names
from judges.tables.text import TableRow

NOT_RATED = ("id", "group", "system", *NESTED)
_RESERVED = (*NOT_RATED, "annotator")
_MARKED = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
_MARKS = frozenset({"note", "noten", "schulnote", "zensur"})
_GERMAN = frozenset({"frage", "anfrage", "antwort", "eingabe", "ausgabe", "zusammenfassung"})
# Words for a label in a column's name, and words that may stand beside them.
_LABELS = """label verdict rating grade score judgement judgment correct pass passed ok thumbs truth
accepted approved bewertung urteil étiquette etiqueta"""
_OF_LABELS = "ground human expert gold golden true annotator manual final overall is quality"
# Names of dimensions on which yes is probably bad.
_BAD = re.compile(
    r"(?!.*\b(?:no|not|non|free|without|keine?)\b).*\b(?:bad\b|bugs?\b|harm(?!less)|halluc|toxi|"
    r"unsafe|danger|error|mistake|wrong|fail|fals|incorrect|inaccura|spam|offens|violat|abus|hate|"
    r"insult|inappropriate|bias|defect|leak|fabricat|problem|issue|flag|irrelevan|fehler|schädlich)"
)
# Thumbs, if a column holds nothing else.
_THUMBS = {"1": 1.0, "1.0": 1.0, "+1": 1.0, "-1": 0.0, "-1.0": 0.0}
# The upper end of usual scales; fewer rows may well have no two equal ratings.
_MAX_RATING, _MIN_ROWS = 100, 6

# The names of columns.
Headers = tuple[str, ...]
# dimension -> annotator -> rating
Ratings = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a caller wants a file to be read.

    `map` gives our names the file's columns, and `values` says what the caller's words count. A
    scale under "*" holds for all other dimensions. `texts` must stand in every row (None: every
    text with a usual name must). `annotations` is a long file of ratings. Labels are passed over,
    and none is needed, unless `labelled`.
    """

    map: Mapping[str, ColumnNames] = field(default_factory=dict)
    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    texts: Collection[str] | None = None
    annotations: str | Path | None = None
    values: Values = field(default_factory=dict)
    labelled: bool = True

    def reads(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def scale(self, dimension: str) -> Scale | None:
        return self.scales.get(dimension, self.scales.get("*"))


@dataclass(frozen=True, slots=True)
class RatingColumns:
    """Where a table keeps its ratings; `nested` is in rising order of precedence.

    A dimension in several flat columns has one annotator in each; `groups` are those that show in
    the columns' names. `guesses` are columns of numbers that nobody named, `candidates` are all.
    """

    nested: Headers
    flat: Mapping[str, Headers]
    groups: Mapping[str, Headers]
    guesses: Headers
    candidates: Headers

    def all(self) -> set[str]:
        return {*self.nested}.union(*self.flat.values())


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return where a table keeps the ratings on these dimensions, or on any where None.

    A column that nobody named holds ratings if its cells are numbers or words for yes and no. A
    column mapped to a name of the user's own is a text only if its cells read as one.
    """
    if columns.is_long:
        return RatingColumns((), {}, {}, (), ())
    nested, others = columns.find_all(NESTED), columns.used(_RESERVED)
    unused = (column for column in columns.table.columns if column not in others)
    candidates = tuple(column for column in unused if columns.kind(column) == "rating")
    groups = _annotator_groups(candidates)
    flat, guesses = _mapped_ratings(columns, dimensions), Headers()
    if dimensions is None and not (flat or nested):
        guesses = _guess_ratings(columns, candidates, groups)
        flat = {**groups, **{column: (column,) for column in guesses}}
    for name in dimensions or ():
        headers = flat.get(name) or _headers_of(columns, name, groups)
        labels = [] if headers or nested else _label_columns(columns, name, candidates)
        if headers or len(labels) == 1:
            flat[name] = headers or tuple(labels)
    return RatingColumns(nested, flat, groups, guesses, candidates)


def _mapped_ratings(columns: Columns, dimensions: Collection[str] | None) -> dict[str, Headers]:
    """The mapping of these dimensions to columns, or of all names whose cells may be ratings."""
    flat = {}
    for name, headers in columns.mapping.items():
        is_read = dimensions is None or name in dimensions
        is_rated = dimensions is not None or _are_ratings(columns, name, headers)
        if name not in _RESERVED and is_read and is_rated and all(map(columns.has, headers)):
            flat[name] = headers
    return flat


def _headers_of(columns: Columns, name: str, groups: Mapping[str, Headers]) -> Headers:
    """The column called like a dimension, or else the columns of its annotators, if any."""
    column = columns.own_name(name)
    if columns.has(column) and column not in columns.mapping:
        return (column,)
    return {name_key(group): headers for group, headers in groups.items()}.get(name_key(name), ())


def _guess_ratings(columns: Columns, numbers: Headers, groups: Mapping[str, Headers]) -> Headers:
    """The one column that is called a label or looks like ratings, else all columns of numbers."""
    members = {column for group in groups.values() for column in group}
    guesses = tuple(column for column in numbers if column not in members)
    labels = tuple(c for c in _label_columns(columns, "label", ()) if c in guesses)
    likely = labels or tuple(c for c in guesses if _are_like_ratings(columns, c))
    return likely if len(likely) == 1 else guesses


def _label_columns(
    columns: Columns, dimension: str, candidates: Iterable[str], others: Sequence[str] = ()
) -> list[str]:
    """The columns that may hold the labels on a dimension when no column is called like it.

    Their names have a word for labels or one of the dimension's; if there are none, it is `others`.
    """
    own, reserved = {*tokens(dimension), *_LABELS.split()}, columns.used((*NOT_RATED, *VOTES))
    labels = []
    for column in (*columns.table.columns, *columns.nested_names):
        words = {*tokens(column.rpartition(DOT)[2])}
        fits = words & own and words <= own | {*_OF_LABELS.split()}
        if fits and column not in reserved and columns.kind(column) in ("rating", "label"):
            labels.append(column)
    names = catalog.names()
    headers = [*names, *(column for column in columns.table.columns if column not in labels)]
    if dimension not in names and get_close_matches(dimension, headers, 1, 0.85):
        return []  # The name is misspelled.
    # Several columns with the dimension's words may hold one annotator each.
    similar = [column for column in candidates if {*tokens(dimension)} <= {*tokens(column)}]
    if not labels and (len(similar) > 1 or dimension in names):
        return []
    return labels or similar or [column for column in others if column.casefold() not in names]


def _annotator_groups(candidates: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Columns such as `relevance (annotator 1)` by their dimension, where there are several."""
    groups: dict[str, list[re.Match[str]]] = {}
    for match in filter(None, map(_MARKED.fullmatch, candidates)):
        groups.setdefault(name_key(match[1]), []).append(match)
    many = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in many}


def check_ratings(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> list[str]:
    """Add a problem where other columns may hold ratings; return notes on those that are read."""
    if columns.is_long or layout.nested or not options.labelled:
        return []
    if layout.guesses:
        _check_guesses(columns, layout, problems)
    for name in options.dimensions or ():
        if name not in columns.mapping:
            _check_dimension(columns, layout, name, problems)
    notes = []
    for name, headers in layout.flat.items():
        if headers in layout.groups.values():
            notes.append(f"{name} is read from {joined_names(headers)}: one annotator in each")
        elif name not in columns.mapping and name_key(name) != name_key(headers[0]):
            notes.append(f"no column is called {name}: its labels are those of {headers[0]!r}")
    return notes


def _check_dimension(
    columns: Columns, layout: RatingColumns, name: str, problems: Problems
) -> None:
    """Add a problem where columns that nobody mapped may hold (more) ratings on a dimension."""
    words, headers = {*tokens(name)}, layout.flat.get(name, ())
    # A column with the dimension's words in its name may be another annotator's.
    more = [c for c in layout.candidates if c not in headers and words and words < {*tokens(c)}]
    like = [c for c in layout.candidates if _are_like_ratings(columns, c)]
    group, labels = [*headers, *more], _label_columns(columns, name, layout.candidates, like)
    if len(headers) < 2 <= len(group):
        fault = f"{joined_names(group)} may be one annotator's each"
        advice = f"take them all by {map_flag(name, group)}, or one alone by "
        problems.add("annotators", fault, advice + map_flag(name, group[:1]), field=name)
    elif labels and not headers:
        fault = f"no column is called so, and {joined_names(labels)} may be its labels"
        flags = dict.fromkeys(map_flag(name, each) for each in (*zip(labels[:3]), labels))
        problems.add("labels", fault, f"say which: {' or '.join(flags)}", field=name)


def _check_guesses(columns: Columns, layout: RatingColumns, problems: Problems) -> None:
    """Add a problem, with the flags to use, unless it is clear that numbers are ratings.

    It is clear of a single column of numbers on a usual scale, and of the catalogue's names.
    """
    like = [name for name in layout.guesses if _are_like_ratings(columns, name)]
    # German marks: 1 is best, and files rarely say so.
    words = {word for column in columns.table.columns for word in tokens(column)}
    marks = _MARKS & {*tokens(layout.guesses[0])} and _GERMAN & words
    is_single = len(layout.guesses) == 1 and not layout.groups
    are_usual = {name.casefold() for name in layout.guesses} <= {*catalog.names()}
    if (like and not marks) if is_single else are_usual:
        return
    problems.add("annotators", *_guess_advice(columns, layout, like, is_turned=bool(marks)))


def _guess_advice(
    columns: Columns, layout: RatingColumns, like: Sequence[str], *, is_turned: bool
) -> tuple[str, str]:
    """The fault of columns that may hold ratings, and the flags that say what they are."""
    # Row numbers and means are no annotator's ratings.
    likely = [name for name in like if not any(map(FOOTER.fullmatch, tokens(name)))]
    likely = _label_columns(columns, "label", ()) or likely or [*layout.guesses]
    cells = (cell for name in likely for cell in columns.values(name) if not says_nothing(cell))
    kind = "labels" if all(map(says_truth, cells)) else "numbers that may not be ratings"
    fault = f"{joined_names(likely)} {'holds' if len(likely) == 1 else 'hold'} {kind}"
    advice = f"name what is rated, as in {' '.join(map_flag(name, [name]) for name in likely)}"
    if len(likely) > 1:
        common = {*tokens(likely[0])}.intersection(*map(tokens, likely))
        join = map_flag("_".join(sorted(common)) or "NAME", likely)
        advice = f"where each is one annotator's, join them by {join}; else {advice}"
    elif is_turned:
        advice += "; where 1 is the best, turn it by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    return fault, advice


def _are_like_ratings(columns: Columns, column: str) -> bool:
    """Whether numbers may be ratings: on a usual scale, and not the numbers of the rows."""
    texts = [str(value).strip() for value in columns.values(column)]
    numbers = [float(text) for text in texts if re.fullmatch(r"-?\d+(\.\d+)?", text)]
    if any(abs(number) > _MAX_RATING for number in numbers):
        return False
    whole = all(number.is_integer() for number in numbers)
    return not whole or len(numbers) < _MIN_ROWS or len({*numbers}) < len(numbers)


def _are_ratings(columns: Columns, name: str, headers: tuple[str, ...]) -> bool:
    """Whether columns mapped to a name of the user's own hold ratings, sound or faulty."""
    if is_known_text(name) or name in VOTES:
        return False
    return len(headers) > 1 or columns.kind(headers[0]) != "text"


class ReadRatings(NamedTuple):
    """The ratings of a table's `columns` by id of the output, and notes on how cells were read.

    `words` holds the words for 1 and 0 of each dimension that has only these two values.
    """

    by_item: dict[str, Ratings]
    notes: list[str]
    words: dict[str, tuple[str, str]]
    columns: Columns


class _Cell(NamedTuple):
    """A cell of ratings: of which output, on which dimension, by whom (None: nobody is named)."""

    line: int
    item: str
    dimension: str
    column: str
    annotator: str | None
    value: object


def read_ratings(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> ReadRatings:
    """Read a table's ratings.

    Where each row is one annotator's, annotators without a name are numbered in the rows' order.
    """
    several = columns.is_by_annotator
    cells = [*_single_ratings(columns, layout, options, problems)] if options.labelled else []
    values: dict[str, list[object]] = {}
    for cell in cells:
        values.setdefault(cell.dimension, []).append(cell.value)
    commas = columns.table.delimiter == ";"
    readers = {name: _reader(of, options, name, commas) for name, of in values.items()}
    ratings: dict[str, Ratings] = {}
    for line, item, name, column, annotator, value in cells:
        try:
            rating = readers[name].read(value, options.scale(name))
        except UnreadableError as error:
            problems.add_error(error, line=line, field=column)
            continue
        if rating is None:
            continue
        by_annotator = ratings.setdefault(item, {}).setdefault(name, {})
        who = str(len(by_annotator) + 1) if several and annotator is None else annotator
        if several and who in by_annotator:
            fault = f"is a second rating of {excerpt(item)} on {excerpt(name)} by {excerpt(who)}"
            advice = "keep one of the two"
            problems.add("twice", fault, advice, line=line, field=column, value=value)
        by_annotator[who] = rating
    for by_dimension in ratings.values() if several else ():
        # Sorted, so that the order of the rows does not matter.
        by_dimension |= {n: dict(sorted(of.items(), key=str)) for n, of in by_dimension.items()}
    notes = [f"{name}: {note}" for name, reader in readers.items() for note in reader.notes()]
    words = {name: pair for name, reader in readers.items() if (pair := reader.two_values)}
    for name, pair in words.items():
        _check_words((name, *layout.flat.get(name, ())), pair, options.values, problems)
    return ReadRatings(ratings, notes, words, columns)


def _reader(values: list[object], options: ReadOptions, name: str, commas: bool) -> RatingCells:
    """The reader of a dimension's cells; +1 and -1 alone are thumbs, unless a scale is signed."""
    are_thumbs = {_THUMBS.get(word_of(v)) for v in values if not says_nothing(v)} == {1, 0}
    is_signed = (options.scale(name) or (0, 1))[0] < 0
    words = {**_THUMBS, **options.values} if are_thumbs and not is_signed else options.values
    return RatingCells(values, words, decimal_commas=commas)


def _check_words(
    names: Headers, words: tuple[str, str], values: Values, problems: Problems
) -> None:
    """Add a problem where, by the names of dimension and columns, the word for 1 may be bad."""
    good, bad = words
    if f"{bad}/{good}" in VERDICTS:
        fault = f"{good!r} counts 1 and {bad!r} 0 by --values, and what counts 1 is good"
        advice = "leave these --values out: TNR is the share of failures that a judge finds"
        problems.add("turned", fault, advice, field=names[0])
    bad_names = [name for name in names if _BAD.match(" ".join(tokens(name)))]
    is_open = {good, bad}.isdisjoint(map(word_of, values))
    if bad_names and is_open and f"{good}/{bad}" not in VERDICTS:
        flags = [f"--values {good}={i},{bad}={1 - i}" for i in (0, 1)]
        advice = f"say {flags[0]} ({good} is a fail) or {flags[1]}"
        problems.add("which-word", "may name what is bad", advice, value=bad_names[0])


def _single_ratings(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> Iterator[_Cell]:
    """Yield every rating on its own: a cell may hold several, as a list or an object."""
    read_cells = _long_cells if columns.is_long else _wide_cells
    for cell in read_cells(columns, layout, options, problems):
        try:
            parts = rating_parts(cell.value)
        except UnreadableError as error:
            problems.add_error(error, line=cell.line, field=cell.column)
            continue
        for annotator, value in parts:
            yield cell._replace(annotator=cell.annotator or annotator, value=value)


def _long_cells(
    columns: Columns, _: RatingColumns, options: ReadOptions, problems: Problems
) -> Iterator[_Cell]:
    """Yield the cell of every row that names an output and a dimension."""
    id_in, annotator_in = columns.find("id"), columns.find("annotator")
    dimension_in, rating_in = columns.find("dimension") or "", columns.find("rating") or ""
    for row in columns.table.rows:
        dimension = row.cells.get(dimension_in)
        if not (is_name(dimension) and is_name(row.cells.get(id_in or ""))):
            advice = "say of which output and on which dimension the rating is"
            problems.add("no-name", "has no id, or no dimension", advice, line=row.line)
        elif options.reads(name := str(dimension).strip()):
            annotator, value = _annotator(row, annotator_in), row.cells.get(rating_in)
            yield _Cell(row.line, item_key(row, id_in), name, rating_in, annotator, value)


def _wide_cells(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> Iterator[_Cell]:
    """Yield the cells of every row by dimension: a mapped column before nested, nested before any.

    Of several nested columns with a rating on a dimension, the last one counts.
    """
    id_in, annotator_in = columns.find("id"), columns.find("annotator")
    unread = {*columns.used(()), *columns.comments}
    for row in columns.table.rows:
        annotator = _annotator(row, annotator_in)
        nested: dict[str, tuple[str, object]] = {}
        for name, path, value in _nested_cells(row, layout.nested, problems):
            if options.reads(name) and path not in unread and not says_nothing(value):
                nested[name] = path, value
        item = item_key(row, id_in)
        flat = {n: of for n, of in layout.flat.items() if n in columns.mapping or n not in nested}
        for name in [name for name in nested if name not in flat]:
            yield _Cell(row.line, item, name, nested[name][0], annotator, nested[name][1])
        for name, headers in flat.items():
            for column in headers:
                who = column if len(headers) > 1 else annotator
                yield _Cell(row.line, item, name, column, who, value_in(row, column))


def _nested_cells(
    row: TableRow, nested: Iterable[str], problems: Problems
) -> Iterator[tuple[str, str, object]]:
    """Yield the dimension, the dotted name and the value of every rating in a row's objects."""
    for column in nested:
        cell = value_in(row, column)
        by_name = as_object(cell)
        if by_name is None and not says_nothing(cell):
            fault, advice = "is no object", "write an object of dimensions and their ratings"
            problems.add("no-object", fault, advice, line=row.line, field=column, value=cell)
        for name, value in (by_name or {}).items():
            yield str(name), f"{column}{DOT}{name}", value


def _annotator(row: TableRow, column: str | None) -> str | None:
    """Who gave a row's ratings; None where nobody is named."""
    name = None if column is None else row.cells.get(column)
    return None if is_blank(name) else str(name).strip()
