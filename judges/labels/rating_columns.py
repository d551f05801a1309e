"""Finds the columns of ratings on each dimension: one column, or one for each annotator."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from itertools import chain

from dspy_judges.column_names import name_key
from judges import catalog
from judges.labels.cells import KEY_SEPARATOR, without_keys
from judges.labels.columns import NESTED_COLUMNS, OUTPUT_ROLES, VOTE_COLUMNS, Columns
from judges.labels.names import is_source_or_output, is_text_name, judge_name, map_flag, name_words
from judges.labels.rating_reader import is_rating_word
from judges.labels.values import is_yes_or_no, normalize_word
from judges.tables.problems import Problems, joined_names

# A column name such as `relevance (annotator 1)`; the first group is the dimension.
_ANNOTATOR_COLUMN_NAME = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
# A column of school marks has one of these words in its name.
SCHOOL_MARK_WORDS = frozenset({"note", "noten", "schulnote", "zensur"})
# A file is in German if the name of any column has one of these words.
_GERMAN_WORDS = frozenset({"frage", "anfrage", "antwort", "eingabe", "ausgabe", "zusammenfassung"})
# Words that name a column of labels, and words that may be added to them, as in `human label`.
_LABEL_WORDS = {
    *("label", "verdict", "rating", "grade", "score", "judgement", "judgment", "correct", "pass"),
    *("passed", "ok", "thumbs", "truth", "accepted", "approved", "bewertung", "urteil"),
    *("étiquette", "etiqueta"),
}
_LABEL_QUALIFIERS = {
    *("ground", "human", "expert", "gold", "golden", "true", "annotator", "manual", "final"),
    *("overall", "is", "quality"),
}
# No usual scale goes beyond this number.
_MAX_RATING = 100
# Fewer numbers than this may all differ without being row numbers.
_MIN_ROW_NUMBERS = 6

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")

# The exact names of one or several columns.
ColumnTuple = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """The columns in which a table has ratings.

    Attributes:
        columns: All columns of the table.
        dimensions: The dimensions that are read; None for all.
        nested: Columns of objects {dimension: rating}. If two of them rate the same
            dimension, the later column counts.
        nested_dimensions: The dimensions in these objects.
        by_dimension: Maps every other dimension to its columns: one, or one per annotator.
        annotator_groups: Maps a dimension to its columns `relevance (annotator 1)` and so on.
        numeric: All columns whose cells look like ratings.
        guessed: The numeric columns that are read as ratings although neither the user nor
            a column's name says that they are.
    """

    columns: Columns
    dimensions: Collection[str] | None
    nested: ColumnTuple = ()
    nested_dimensions: ColumnTuple = ()
    by_dimension: Mapping[str, ColumnTuple] = field(default_factory=dict)
    annotator_groups: Mapping[str, ColumnTuple] = field(default_factory=dict)
    numeric: ColumnTuple = ()
    guessed: ColumnTuple = ()

    def columns_by_name(self) -> dict[str, ColumnTuple]:
        """Map each dimension (or column of objects, or `rating` in a long table) to columns."""
        if self.columns.is_long:
            return {"rating": self.columns.find_all(["rating"])}
        return {column: (column,) for column in self.nested} | dict(self.by_dimension)

    def only_named_by_user(self) -> "RatingColumns":
        """Return the columns that the user names, and no others."""
        columns = self.columns
        requested = {name: (columns.exact_name(name),) for name in self.dimensions or ()}
        by_dimension = {
            name: headers
            for name, headers in self.by_dimension.items()
            if name in columns.mapping or requested.get(name) == headers
        }
        return replace(self, by_dimension=by_dimension, numeric=(), guessed=())


def find_rating_columns(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return the columns of ratings on `dimensions`, or on all dimensions if None.

    A column in the user's mapping holds ratings unless its cells are texts or it is mapped to a
    usual name of a text. Any other column holds ratings if its cells are numbers or mean yes or no.
    """
    if columns.is_long:
        return RatingColumns(columns=columns, dimensions=dimensions)
    used_columns = columns.used_columns(OUTPUT_ROLES) | columns.judge_score_columns
    numeric_columns = tuple(columns.of_kind(columns.columns_except(used_columns), "rating"))
    annotator_groups = _annotator_groups(numeric_columns)
    nested_columns, guessed_columns = columns.find_all(NESTED_COLUMNS), ColumnTuple()
    by_dimension = _mapped_rating_columns(columns)
    if dimensions is not None:
        headers = {name: _find_columns(columns, name, annotator_groups) for name in dimensions}
        by_dimension = {name: names for name, names in headers.items() if names}
    elif not (by_dimension or nested_columns):
        guessed_columns = _guess_rating_columns(columns, numeric_columns, annotator_groups)
        by_dimension = annotator_groups | {column: (column,) for column in guessed_columns}
    nested_rating_keys = [key for key in columns.rating_keys if key not in columns.comment_columns]
    return RatingColumns(
        columns=columns,
        dimensions=dimensions,
        nested=nested_columns,
        nested_dimensions=tuple(key.partition(KEY_SEPARATOR)[2] for key in nested_rating_keys),
        by_dimension=by_dimension,
        annotator_groups=annotator_groups,
        numeric=numeric_columns,
        guessed=guessed_columns,
    )


def _mapped_rating_columns(columns: Columns) -> dict[str, ColumnTuple]:
    """Return the entries of --map whose columns may hold ratings, even if some cells are faulty."""
    excluded_names = {*OUTPUT_ROLES, *VOTE_COLUMNS}
    return {
        name: headers
        for name, headers in columns.mapping.items()
        if not (name in excluded_names or is_source_or_output(name))
        and (len(headers) > 1 or columns.kind(headers[0]) not in ("text", "name"))
    }


def _annotator_groups(numeric_columns: ColumnTuple) -> dict[str, ColumnTuple]:
    """Map each dimension to its annotators' columns, if it has two or more of them."""
    groups: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_ANNOTATOR_COLUMN_NAME.fullmatch, numeric_columns)):
        groups[name_key(match[1])].append(match)
    groups_of_several = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in groups_of_several}


def _find_columns(
    columns: Columns, dimension: str, annotator_groups: Mapping[str, ColumnTuple]
) -> ColumnTuple:
    """Return the columns with ratings on a dimension; () if there are none.

    The first of these rules that applies decides: the user's mapping, a column with the dimension's
    name, the only column from whose name the dimension's is made, a group of annotators' columns,
    and the only column that is named like labels.
    """
    column = columns.exact_name(dimension)
    for name in (dimension, *columns.mapping):
        if name in columns.mapping and dimension in (name, judge_name(name)):
            return columns.mapping[name]
    if columns.has(column):
        return () if column in columns.judge_score_columns else (column,)
    # A judge's name is made from a column's, as `helpful` from `Helpful?`.
    if len(named_columns := [c for c in columns.table.columns if judge_name(c) == dimension]) == 1:
        return (named_columns[0],)
    groups_by_key = {name_key(group): headers for group, headers in annotator_groups.items()}
    if name_key(dimension) in groups_by_key:
        return groups_by_key[name_key(dimension)]
    label_columns = (
        () if columns.find_all(NESTED_COLUMNS) else tuple(_label_columns(columns, dimension))
    )
    return label_columns if len(label_columns) == 1 else ()


def _guess_rating_columns(
    columns: Columns, numeric_columns: ColumnTuple, annotator_groups: Mapping[str, ColumnTuple]
) -> ColumnTuple:
    """Return the one numeric column that is named like labels, else all outside the groups."""
    group_members = set[str]().union(*annotator_groups.values())
    ungrouped = tuple(column for column in numeric_columns if column not in group_members)
    label_columns = tuple(filter(ungrouped.__contains__, _label_columns(columns, "label")))
    return label_columns if len(label_columns) == 1 else ungrouped


def _label_columns(columns: Columns, dimension: str) -> list[str]:
    """Return the columns that may hold a dimension's labels although they have other names.

    The name of such a column consists of words for labels and of words in the dimension's name.
    Returns [] if the dimension may be a misspelling of another column or of a catalogue judge.
    """
    label_words = {*name_words(dimension)} | _LABEL_WORDS
    used_columns = (
        columns.used_columns((*OUTPUT_ROLES, *VOTE_COLUMNS)) | columns.judge_score_columns
    )
    unused_columns = (*columns.columns_except(used_columns), *columns.nested_keys)
    named_like_labels = (
        c for c in unused_columns if c not in used_columns and _has_label_name(c, label_words)
    )
    label_columns = columns.of_kind(named_like_labels, "rating", "label")
    other_names = {*columns.table.columns}.difference(label_columns) | {*catalog.names()}
    is_misspelled = dimension not in catalog.names() and similar_name(dimension, other_names)
    return [] if is_misspelled else label_columns


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that `name` may be a misspelling of; None if none is similar."""
    return next(iter(get_close_matches(name, [*names], 1, 0.85)), None)


def _has_label_name(column: str, label_words: set[str]) -> bool:
    """Return whether a name has a word in `label_words`, and besides only usual qualifiers."""
    words = {*name_words(column.rpartition(KEY_SEPARATOR)[2])}
    return not words.isdisjoint(label_words) and words <= label_words | _LABEL_QUALIFIERS


def check_rating_columns(rating_columns: RatingColumns, problems: Problems) -> list[str]:
    """Add a problem if it is unclear which columns hold ratings.

    Returns notes on the columns of ratings that are not named after their dimension.
    """
    columns, dimensions = rating_columns.columns, rating_columns.dimensions or ()
    if columns.is_long or not columns.reads_labels:
        return []
    _check_mapped_labels(columns, dimensions, problems)
    if rating_columns.nested:
        return []
    if rating_columns.guessed:
        _check_guessed_columns(rating_columns, problems)
    for name in dimensions:
        if name not in columns.mapping:
            _check_dimension(rating_columns, name, problems)
    notes = (_source_note(rating_columns, *entry) for entry in rating_columns.by_dimension.items())
    return [*filter(None, notes)]


def _source_note(rating_columns: RatingColumns, name: str, headers: ColumnTuple) -> str:
    """Return a note on the columns that a dimension is read from; "" if their names say it."""
    if headers in rating_columns.annotator_groups.values():
        return f"{name} is read from {joined_names(headers)}: one annotator per column"
    is_named = name in rating_columns.columns.mapping or name_key(name) == name_key(headers[0])
    return (
        "" if is_named else f"no column is called {name}: its labels are read from {headers[0]!r}"
    )


def _check_mapped_labels(columns: Columns, dimensions: Collection[str], problems: Problems) -> None:
    """Add a problem for labels that are mapped to texts, or to another name's column."""
    for name, headers in columns.mapping.items():
        is_label = _has_label_name(name, _LABEL_WORDS) and not is_text_name(name)
        if not is_label and name not in (*dimensions, *catalog.names()):
            continue
        other_columns = set[str]().union(*without_keys(columns.mapping, [name]).values())
        if columns.of_kind(headers, "text", "name") or not other_columns.isdisjoint(headers):
            names_text = joined_names(headers)
            fault = f"is mapped to {names_text}, which has texts or another name in --map"
            advice = f"map it to a column of labels alone, as in --map {name}=COLUMN"
            problems.add("no-rating", fault, advice, field=name)


def _check_dimension(rating_columns: RatingColumns, dimension: str, problems: Problems) -> None:
    """Add a problem if it is unclear which columns hold the ratings on a dimension."""
    headers = rating_columns.by_dimension.get(dimension, ())
    # A column whose name contains the dimension's words may hold another annotator's ratings.
    dimension_words = {*name_words(dimension)}
    named_like_dimension = [
        c for c in rating_columns.numeric if dimension_words and dimension_words <= {*name_words(c)}
    ]
    possible_columns = [*dict.fromkeys((*headers, *named_like_dimension))]
    if len(headers) < 2 <= len(possible_columns):
        fault = f"{joined_names(possible_columns)} may each be one annotator's ratings"
        all_flag, one_flag = (
            map_flag(dimension, names) for names in (possible_columns, possible_columns[:1])
        )
        advice = f"read all of them with {all_flag}, or only one with {one_flag}"
        problems.add("annotators", fault, advice, field=dimension)
    elif not headers and (label_columns := _likely_label_columns(rating_columns, dimension)):
        fault = f"no column has this name, but {joined_names(label_columns)} may hold its labels"
        # The advice offers each of the first three columns alone, and all of them together.
        choices = (*zip(label_columns[:3]), label_columns)
        flags = dict.fromkeys(map_flag(dimension, choice) for choice in choices)
        problems.add("labels", fault, f"say which: {' or '.join(flags)}", field=dimension)


def _likely_label_columns(rating_columns: RatingColumns, dimension: str) -> list[str]:
    """Return the columns that may hold the labels on a dimension that no column is named after.

    These are the columns that are named like labels. Without them, these are the numeric columns,
    unless the dimension is in the catalogue or may be misspelt.
    """
    columns, catalog_names = rating_columns.columns, {*catalog.names()}
    label_columns = _label_columns(columns, dimension)
    known_names = catalog_names.union(columns.table.columns)
    if label_columns or dimension in catalog_names or similar_name(dimension, known_names):
        return label_columns
    return [column for column in rating_columns.numeric if column.casefold() not in catalog_names]


def _check_guessed_columns(rating_columns: RatingColumns, problems: Problems) -> None:
    """Add a problem, with flags to use, unless the guessed columns are clearly ratings.

    A single column of numbers on a usual scale clearly holds ratings unless another column holds
    labels in words, and so do columns that have the names of catalogue judges.
    """
    columns, guessed_columns = rating_columns.columns, rating_columns.guessed
    label_columns = _label_columns(columns, "label")
    word_columns = columns.of_kind(label_columns, "label") or [
        *filter(partial(_holds_rating_words, columns), columns.table.columns)
    ]
    are_in_catalog = {*map(str.casefold, guessed_columns)} <= {*catalog.names()}
    if word_columns and not are_in_catalog and {*guessed_columns} != {*label_columns}:
        possible_columns = [*word_columns, *guessed_columns]
        flags = " or ".join(map_flag(name, [name]) for name in possible_columns[:3])
        fault = f"{joined_names(possible_columns)} may each hold the labels"
        problems.add("labels", fault, f"say which: {flags}")
        return
    are_marks = _are_school_marks(columns, guessed_columns[0])
    if len(guessed_columns) > 1 or rating_columns.annotator_groups:
        are_clearly_ratings = are_in_catalog
    else:
        are_clearly_ratings = not are_marks and _look_like_ratings(
            columns.cells(guessed_columns[0])
        )
    if are_clearly_ratings:
        return
    likely_columns = label_columns or [*guessed_columns]
    cells = chain.from_iterable(columns.column(name).present_cells for name in likely_columns)
    description = "labels" if all(map(is_yes_or_no, cells)) else "numbers that may not be ratings"
    verb = "holds" if len(likely_columns) == 1 else "hold"
    fault = f"{joined_names(likely_columns)} {verb} {description}"
    problems.add("annotators", fault, _guess_advice(likely_columns, are_marks=are_marks))


def _holds_rating_words(columns: Columns, name: str) -> bool:
    """Return whether a column that is not read holds labels of few words, or signs such as ★★★."""
    column = columns.column(name)
    values = {*map(normalize_word, column.present_cells)}
    are_ratings = 2 * sum(map(is_rating_word, values)) >= len(values)
    unused_columns = columns.columns_except(columns.used_columns(OUTPUT_ROLES))
    return name in unused_columns and column.is_category and are_ratings


def _are_school_marks(columns: Columns, column: str) -> bool:
    """Return whether a column probably holds German school marks, of which 1 is the best."""
    file_words = {word for name in columns.table.columns for word in name_words(name)}
    has_mark_word = not SCHOOL_MARK_WORDS.isdisjoint(name_words(column))
    return has_mark_word and not _GERMAN_WORDS.isdisjoint(file_words)


def _guess_advice(likely_columns: list[str], *, are_marks: bool) -> str:
    """Return advice to map the columns, as ratings on one dimension or on several dimensions."""
    flags = " ".join(map_flag(name, [name]) for name in likely_columns)
    advice = f"if they are ratings, name the dimension of each, as in {flags}"
    if len(likely_columns) > 1:
        first_words, *other_words = map(name_words, likely_columns)
        shared_words = set(first_words).intersection(*other_words)
        shared_name = "_".join(sorted(filter(str.isalpha, shared_words)))
        flag = map_flag(shared_name or "NAME", likely_columns)
        return f"if each column is one annotator's, join them by {flag}; else {advice}"
    reversal = "; if 1 is the best, reverse the scale by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    return advice + reversal if are_marks else advice


def _look_like_ratings(cells: Iterable[object]) -> bool:
    """Return whether the numbers in the cells lie on a usual scale and are not row numbers."""
    stripped_cells = [str(cell).strip() for cell in cells]
    numbers = [float(text) for text in stripped_cells if _PLAIN_NUMBER.fullmatch(text)]
    all_differ = len(numbers) >= _MIN_ROW_NUMBERS and len({*numbers}) == len(numbers)
    are_row_numbers = all_differ and all(map(float.is_integer, numbers))
    return max(map(abs, numbers), default=0) <= _MAX_RATING and not are_row_numbers
