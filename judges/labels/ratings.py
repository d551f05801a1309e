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

NOT_RATED = ("id", "group", "system", *NESTED)
_MARKED = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
_MARKS = frozenset({"note", "noten", "schulnote", "zensur"})
_GERMAN = frozenset({"frage", "anfrage", "antwort", "eingabe", "ausgabe", "zusammenfassung"})
# What people call their label where it goes by no dimension's name, and what may stand beside it.
_LABELS = """label verdict rating grade score judgement judgment correct pass passed ok thumbs truth
accepted approved bewertung urteil étiquette etiqueta"""
_OF_LABELS = "ground human expert gold golden true annotator manual final overall is quality"
# A name whose yes may well be bad.
_BAD = re.compile(
    r"(?!.*\b(?:no|not|non|free|without|keine?)\b).*\b(?:bad\b|bugs?\b|harm(?!less)|halluc|toxi|"
    r"unsafe|danger|error|mistake|wrong|fail|fals|incorrect|inaccura|spam|offens|violat|abus|hate|"
    r"insult|inappropriate|bias|defect|leak|fabricat|problem|issue|flag|irrelevan|fehler|schädlich)"
)
# Thumbs, where there is nothing else.
_THUMBS = {"1": 1.0, "1.0": 1.0, "+1": 1.0, "-1": 0.0, "-1.0": 0.0}
# No usual scale goes further; fewer rows may well have no two ratings alike.
_MAX_RATING, _MIN_ROWS = 100, 6

# dimension -> annotator -> rating
Ratings = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller asks of a file; a scale under the name "*" is every other dimension's.

    `texts` are required, and no other; None: every text of a usual name is. `values` are the
    caller's words and what they count, `map` our names and the file's columns, `annotations` a
    long file of ratings. Not `labelled`: labels are passed over, and none is needed.
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

    A dimension in several flat columns has one annotator in each: `groups` are those that the
    columns' names tell. `guessed` are columns of numbers that nobody named, `candidates` all.
    """

    nested: tuple[str, ...]
    flat: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]
    guessed: tuple[str, ...]
    candidates: tuple[str, ...]

    def all(self) -> set[str]:
        return {*self.nested}.union(*self.flat.values())


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return a table's rating columns: those of the dimensions or the mapping, or what may be some.

    What nobody named is a rating by its values: numbers, or words for yes and no. A column mapped
    to a name of the user's own is a text only where its cells read as one.
    """
    if columns.is_long:
        return RatingColumns((), {}, {}, (), ())
    nested = tuple(column for name in NESTED if (column := columns.find(name)) is not None)
    used = columns.used((*NOT_RATED, "annotator"))
    flat = {
        name: mapped
        for name, mapped in columns.mapping.items()
        if name not in (*NOT_RATED, "annotator")
        and all(columns.has(column) for column in mapped)
        and (name in dimensions if dimensions is not None else _are_ratings(columns, name, mapped))
    }
    candidates = tuple(
        column
        for column in columns.table.columns
        if column not in used and columns.kind(column) == "rating"
    )
    groups = _annotator_groups(candidates)
    by_key = {name_key(name): group for name, group in groups.items()}
    guessed: tuple[str, ...] = ()
    for name in [name for name in dimensions or () if name not in flat]:
        column = columns.own_name(name)
        if columns.has(column) and column not in columns.mapping:
            flat[name] = (column,)
        elif name_key(name) in by_key:
            flat[name] = by_key[name_key(name)]
        elif not nested:
            labels = tuple(_label_columns(columns, name, candidates))
            flat |= {name: labels} if len(labels) == 1 else {}
    if dimensions is None and not (flat or nested):
        grouped = {column for group in groups.values() for column in group}
        guessed = tuple(column for column in candidates if column not in grouped)
        # Beside other numbers, one column of a label's name, or like ratings, is the label.
        named = tuple(c for c in _label_columns(columns, "label", ()) if c in guessed)
        likely = named or tuple(c for c in guessed if _are_like_ratings(columns, c))
        guessed = likely if len(likely) == 1 else guessed
        flat |= {**groups, **{column: (column,) for column in guessed}}
    return RatingColumns(nested, flat, groups, guessed, candidates)


def _label_columns(
    columns: Columns, dimension: str, candidates: Iterable[str], others: Sequence[str] = ()
) -> list[str]:
    """The columns that may hold the labels on a dimension which no column is called.

    They go by a label's name or the dimension's; where none does, it is `others`.
    """
    own, used = {*tokens(dimension), *_LABELS.split()}, columns.used((*NOT_RATED, *VOTES))
    labels = []
    for column in (*columns.table.columns, *columns.nested_names):
        words = {*tokens(column.rpartition(DOT)[2])}
        fits = words & own and words <= own | {*_OF_LABELS.split()}
        if fits and column not in used and columns.kind(column) in ("rating", "label"):
            labels.append(column)
    names = catalog.names()
    known = [*names, *(column for column in columns.table.columns if column not in labels)]
    if dimension not in names and get_close_matches(dimension, known, 1, 0.85):
        return []  # The name is misspelled.
    # Several with the dimension's words may be one annotator's each.
    named = [column for column in candidates if {*tokens(dimension)} <= {*tokens(column)}]
    if not labels and (len(named) > 1 or dimension in names):
        return []
    return labels or named or [column for column in others if column.casefold() not in names]


def _annotator_groups(candidates: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Columns such as `relevance (annotator 1)` by their dimension, where there are several."""
    groups: dict[str, list[re.Match[str]]] = {}
    for match in filter(None, map(_MARKED.fullmatch, candidates)):
        groups.setdefault(name_key(match[1]), []).append(match)
    many = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in many}


def check_ratings(
    columns: Columns, found: RatingColumns, options: ReadOptions, problems: Problems
) -> list[str]:
    """Note where numbers may be ratings that were not taken; say which are an annotator's each."""
    if columns.is_long or found.nested or not options.labelled:
        return []
    if found.guessed:
        _ask_about_numbers(columns, found, problems)
    for name in options.dimensions or ():
        words, taken = {*tokens(name)}, found.flat.get(name, ())
        # What has the dimension's words in its name may be a further annotator's.
        more = [c for c in found.candidates if c not in taken and words and words < {*tokens(c)}]
        like = [c for c in found.candidates if _are_like_ratings(columns, c)]
        group, labels = [*taken, *more], _label_columns(columns, name, found.candidates, like)
        if name not in columns.mapping and len(taken) < 2 and more and len(group) > 1:
            fault = f"{joined_names(group)} may be one annotator's each"
            advice = f"take them all by {map_flag(name, group)}, or one alone by "
            problems.add("annotators", fault, advice + map_flag(name, group[:1]), field=name)
        elif not taken and name not in columns.mapping and labels:
            fault = f"no column is called so, and {joined_names(labels)} may be its labels"
            flags = dict.fromkeys(map_flag(name, each) for each in (*zip(labels[:3]), labels))
            problems.add("labels", fault, f"say which: {' or '.join(flags)}", field=name)
    notes = []
    for name, own in found.flat.items():
        if own in found.groups.values():
            notes.append(f"{name} is read from {joined_names(own)}: one annotator in each")
        elif name not in columns.mapping and name_key(name) != name_key(own[0]):
            notes.append(f"no column is called {name}: its labels are those of {own[0]!r}")
    return notes


def _ask_about_numbers(columns: Columns, found: RatingColumns, problems: Problems) -> None:
    """Note columns of numbers which nobody said to be ratings, and how to say what they are.

    One alone is a rating where its numbers are like ratings; so are those of the catalogue's names.
    """
    like = [name for name in found.guessed if _are_like_ratings(columns, name)]
    alone = len(found.guessed) == 1 and not found.groups
    # Of German marks 1 is the best, and nobody says so.
    words = {word for column in columns.table.columns for word in tokens(column)}
    marks = _MARKS & {*tokens(found.guessed[0])} and _GERMAN & words
    # Imported by name, since data stands below the judges and knows only what they are called.
    catalogue = catalog.names()
    sure = all(name.casefold() in catalogue for name in found.guessed)
    if like and not marks if alone else sure:
        return
    # What numbers the rows is no annotator, nor is a mean.
    likely = [name for name in like if not any(map(FOOTER.fullmatch, tokens(name)))]
    likely = _label_columns(columns, "label", ()) or likely or [*found.guessed]
    each = " ".join(map_flag(name, [name]) for name in likely)
    hold = "holds" if len(likely) == 1 else "hold"
    cells = (cell for name in likely for cell in columns.values(name) if not says_nothing(cell))
    what = "labels" if all(map(says_truth, cells)) else "numbers that may not be ratings"
    fault = f"{joined_names(likely)} {hold} {what}"
    advice = f"name what is rated, as in {each}"
    if len(likely) > 1:
        shared = {*tokens(likely[0])}.intersection(*map(tokens, likely))
        join = map_flag("_".join(sorted(shared)) or "NAME", likely)
        advice = f"where each is one annotator's, join them by {join}; else {advice}"
    elif marks:
        advice += "; where 1 is the best, turn it by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    problems.add("annotators", fault, advice)


def _are_like_ratings(columns: Columns, column: str) -> bool:
    """Whether numbers may be ratings: on a usual scale, and no numbering of the rows."""
    texts = [str(value).strip() for value in columns.values(column)]
    numbers = [float(text) for text in texts if re.fullmatch(r"-?\d+(\.\d+)?", text)]
    if any(abs(number) > _MAX_RATING for number in numbers):
        return False
    whole = all(number.is_integer() for number in numbers)
    return not whole or len(numbers) < _MIN_ROWS or len({*numbers}) < len(numbers)


def _are_ratings(columns: Columns, name: str, mapped: tuple[str, ...]) -> bool:
    """Whether what is mapped to a name of the user's own are ratings, sound or faulty."""
    if is_known_text(name) or name in VOTES:
        return False
    return len(mapped) > 1 or columns.kind(mapped[0]) != "text"


class ReadRatings(NamedTuple):
    """The ratings of a table's `columns` by id of the output, and notes on how cells were read.

    `words` are those for 1 and 0, by dimension, where it has these two values alone.
    """

    by_item: dict[str, Ratings]
    notes: list[str]
    words: dict[str, tuple[str, str]]
    columns: Columns


class _Entry(NamedTuple):
    """One rating: of which output, on which dimension, by whom (None: nobody named)."""

    line: int
    item: str
    dimension: str
    column: str
    annotator: str | None
    value: object


def read_ratings(
    columns: Columns, found: RatingColumns, options: ReadOptions, problems: Problems
) -> ReadRatings:
    """Read a table's ratings.

    Rows of one output are several annotators', named or else numbered in the order of the rows.
    """
    several = columns.is_by_annotator
    entries = [*_entries(columns, found, options, problems)] if options.labelled else []
    parts: dict[str, list[object]] = {}
    for entry in entries:
        parts.setdefault(entry.dimension, []).append(entry.value)
    commas = columns.table.delimiter == ";"
    cells = {}
    for name, values in parts.items():
        thumbs = {_THUMBS.get(word_of(v)) for v in values if not says_nothing(v)} == {1, 0}
        is_signed = (options.scale(name) or (0, 1))[0] < 0
        known = {**_THUMBS, **options.values} if thumbs and not is_signed else options.values
        cells[name] = RatingCells(values, known, decimal_commas=commas)
    ratings: dict[str, Ratings] = {}
    for line, item, name, column, by, value in entries:
        try:
            rating = cells[name].read(value, options.scale(name))
        except UnreadableError as error:
            problems.add_error(error, line=line, field=column)
            continue
        if rating is None:
            continue
        by_annotator = ratings.setdefault(item, {}).setdefault(name, {})
        who = str(len(by_annotator) + 1) if by is None and several else by
        if several and who in by_annotator:
            fault = f"is a second rating of {excerpt(item)} on {excerpt(name)} by {excerpt(who)}"
            place = {"line": line, "field": column, "value": value}
            problems.add("twice", fault, "keep one of the two", **place)  # type: ignore[arg-type]
        by_annotator[who] = rating
    for of_item in ratings.values() if several else ():
        # The order of the rows does not matter.
        of_item |= {name: dict(sorted(given.items(), key=str)) for name, given in of_item.items()}
    notes = [f"{name}: {note}" for name, of in cells.items() for note in of.notes()]
    words = {name: two for name, of in cells.items() if (two := of.two_values)}
    for name, (good, bad) in words.items():
        if f"{bad}/{good}" in VERDICTS:
            fault = f"{good!r} counts 1 and {bad!r} 0 by --values, and what counts 1 is good"
            advice = "leave these --values out: TNR is the share of failures that a judge finds"
            problems.add("turned", fault, advice, field=name)
        named = (n for n in (name, *found.flat.get(name, ())) if _BAD.match(" ".join(tokens(n))))
        is_open = {good, bad}.isdisjoint(map(word_of, options.values))
        if is_open and f"{good}/{bad}" not in VERDICTS and (bad_name := next(named, None)):
            flags = [f"--values {good}={i},{bad}={1 - i}" for i in (0, 1)]
            advice = f"say {flags[0]} ({good} is a fail) or {flags[1]}"
            problems.add("which-word", "may name what is bad", advice, value=bad_name)
    return ReadRatings(ratings, notes, words, columns)


def _entries(
    columns: Columns, found: RatingColumns, options: ReadOptions, problems: Problems
) -> Iterator[_Entry]:
    """Every single rating; of a dimension in several places those of the last that has some."""
    id_in, annotator_in = columns.find("id"), columns.find("annotator") or ""
    dimension_in, rating_in = columns.find("dimension") or "", columns.find("rating") or ""
    several = columns.is_by_annotator
    unread = {*columns.used(()), *columns.comments}
    for row in columns.table.rows:
        who = row.cells.get(annotator_in) if several else None
        annotator = None if is_blank(who) else str(who).strip()
        by_dimension: dict[str, list[tuple[str, str | None, object]]] = {}
        if columns.is_long:
            dimension = row.cells.get(dimension_in)
            if not (is_name(dimension) and is_name(row.cells.get(id_in or ""))):
                advice = "say of which output and on which dimension the rating is"
                problems.add("no-name", "has no id, or no dimension", advice, line=row.line)
            elif options.reads(name := str(dimension).strip()):
                by_dimension[name] = [(rating_in, annotator, row.cells.get(rating_in))]
        for column in found.nested:
            cell = value_in(row, column)
            if (by_name := as_object(cell)) is None and not says_nothing(cell):
                fault, advice = "is no object", "write an object of dimensions and their ratings"
                problems.add("no-object", fault, advice, line=row.line, field=column, value=cell)
            for key, value in (by_name or {}).items():
                path = f"{column}{DOT}{key}"
                is_read = options.reads(str(key)) and path not in unread
                if is_read and not says_nothing(value):
                    by_dimension[str(key)] = [(path, annotator, value)]
        for name, mapped in found.flat.items():
            if name in columns.mapping or name not in by_dimension:
                by_dimension[name] = [
                    (column, column if len(mapped) > 1 else annotator, value_in(row, column))
                    for column in mapped
                ]
        for name, values in by_dimension.items():
            for column, by, value in values:
                try:
                    for part_by, part in rating_parts(value):
                        yield _Entry(
                            row.line, item_key(row, id_in), name, column, by or part_by, part
                        )
                except UnreadableError as error:
                    problems.add_error(error, line=row.line, field=column)
