"""Finds the columns of ratings on each dimension: one column, or one for each annotator."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from dspy_judges.column_names import name_key
from judges import catalog
from judges.labels.cells import KEY_SEPARATOR, without_keys
from judges.labels.columns import NESTED_COLUMNS, OUTPUT_ROLES, VOTE_COLUMNS, Columns
from judges.labels.names import is_source_or_output, judge_name, map_flag, name_words
from judges.labels.rating_reader import is_rating_word
from judges.labels.values import NUMBER, is_missing_value, normalize_word, parse_cell
from judges.tables.problems import Problems, joined_names

# A column name such as `relevance (annotator 1)`; the first group is the dimension.
_ANNOTATOR_COLUMN_NAME = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
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
        number_columns: All columns whose cells look like ratings.
        candidates: Maps each dimension whose columns are not certain to the columns that may hold
            its labels. If it is not certain which columns hold labels at all, the key is "".
    """

    columns: Columns
    dimensions: Collection[str] | None
    nested: ColumnTuple = ()
    nested_dimensions: ColumnTuple = ()
    by_dimension: Mapping[str, ColumnTuple] = field(default_factory=dict)
    number_columns: ColumnTuple = ()
    candidates: Mapping[str, ColumnTuple] = field(default_factory=dict)

    def columns_by_name(self) -> dict[str, ColumnTuple]:
        """Map each dimension (or column of objects, or `rating` in a long table) to columns."""
        if self.columns.is_long_table:
            return {"rating": self.columns.find_columns(["rating"])}
        return {column: (column,) for column in self.nested} | dict(self.by_dimension)


def find_rating_columns(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return the columns of ratings on `dimensions`, or on all dimensions if None."""
    if columns.is_long_table:
        return RatingColumns(columns=columns, dimensions=dimensions)
    used_columns = columns.columns_in_use(OUTPUT_ROLES) | columns.judge_score_columns
    number_columns = tuple(columns.columns_of_kind(columns.columns_except(used_columns), "rating"))
    nested = columns.find_columns(NESTED_COLUMNS)
    by_dimension, candidates = _mapped_rating_columns(columns), dict[str, ColumnTuple]()
    if dimensions is not None:
        by_dimension = {}
        for name in dimensions:
            headers, are_certain = _find_columns(columns, name, number_columns)
            target = by_dimension if are_certain else candidates
            if headers:
                target[name] = headers
    elif not (by_dimension or nested):
        groups = _annotator_groups(number_columns)
        headers, are_certain = _guess_columns(columns, number_columns, groups)
        by_dimension = groups | {
            column: (column,) for column in headers if column in number_columns
        }
        candidates = {} if are_certain else {"": headers}
    rating_key_paths = [
        key for key in columns.rating_key_paths if key not in columns.comment_columns
    ]
    return RatingColumns(
        columns=columns,
        dimensions=dimensions,
        nested=nested,
        nested_dimensions=tuple(key.partition(KEY_SEPARATOR)[2] for key in rating_key_paths),
        by_dimension=by_dimension,
        number_columns=number_columns,
        candidates={} if nested else candidates,
    )


def _mapped_rating_columns(columns: Columns) -> dict[str, ColumnTuple]:
    """Return the entries of --map whose columns hold ratings, even if some cells are faulty.

    A column of texts counts as ratings only if its name is usual for labels or a catalogue name.
    """
    by_dimension: dict[str, ColumnTuple] = {}
    for name, headers in without_keys(
        columns.columns_by_name, {*OUTPUT_ROLES, *VOTE_COLUMNS}
    ).items():
        are_texts = len(headers) == 1 and columns.describe_column(headers[0]).kind in (
            "text",
            "name",
        )
        is_label = name in catalog.judge_names() or _has_label_name(name, _LABEL_WORDS)
        if not is_source_or_output(name) and (is_label or not are_texts):
            by_dimension[name] = headers
    return by_dimension


def _annotator_groups(number_columns: ColumnTuple) -> dict[str, ColumnTuple]:
    """Map each dimension with two or more annotators' columns to these columns."""
    groups: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_ANNOTATOR_COLUMN_NAME.fullmatch, number_columns)):
        groups[name_key(match[1])].append(match)
    groups_of_several = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in groups_of_several}


def _find_columns(
    columns: Columns, dimension: str, number_columns: ColumnTuple
) -> tuple[ColumnTuple, bool]:
    """Return the columns that may hold the ratings on a dimension, and whether this is certain.

    These are the first columns that exist, without the judge's own scores:

    1. The columns in the user's mapping.
    2. The annotators' columns of the dimension, if no column has the dimension's own name.
    3. The column with the dimension's name, and columns of numbers with its words in their names.
    4. The columns that are named like labels.
    5. All columns of numbers, unless the dimension is in the catalogue or may be misspelt.
    """
    for name, headers in columns.columns_by_name.items():
        if dimension in (name, judge_name(name)):
            return headers, True
    column, words = columns.exact_name(dimension), {*name_words(dimension)}
    # A judge's name is made from a column's, as `helpful` from `Helpful?`.
    named_columns = [c for c in columns.table.columns if judge_name(c) == dimension]
    if columns.has_column(column):
        named_columns = [] if column in columns.judge_score_columns else [column]
    groups = {
        name_key(name): headers for name, headers in _annotator_groups(number_columns).items()
    }
    if name_key(dimension) in groups and not named_columns:
        return groups[name_key(dimension)], True
    similar_columns = [c for c in number_columns if words <= {*name_words(c)}]
    possible_columns = tuple(dict.fromkeys((*named_columns, *similar_columns)))
    if named_columns or len(possible_columns) > 1:
        return possible_columns, len(possible_columns) == 1
    label_columns = _label_columns(columns, dimension)
    if label_columns or similar_name(dimension, {*catalog.judge_names(), *columns.table.columns}):
        return label_columns, len(label_columns) < 2
    return number_columns, False


def _guess_columns(
    columns: Columns, number_columns: ColumnTuple, groups: Mapping[str, ColumnTuple]
) -> tuple[ColumnTuple, bool]:
    """Return the columns that may hold ratings if the user names none, and whether this is certain.

    The guess is the only column of numbers that is named like labels, or else all columns of
    numbers outside the `groups`. The guess is certain if all these columns have names of catalogue
    judges. It is also certain if it is one column on a usual scale, and no column has labels in
    words.
    """
    group_members = set[str]().union(*groups.values())
    ungrouped_columns = tuple(column for column in number_columns if column not in group_members)
    label_columns = _label_columns(columns, "label")
    named_columns = tuple(column for column in ungrouped_columns if column in label_columns)
    guess = named_columns if len(named_columns) == 1 else ungrouped_columns
    if {*map(str.casefold, guess)} <= {*catalog.judge_names()}:
        return guess, True
    in_words: list[str] = []
    if {*guess} != {*label_columns}:
        in_words = columns.columns_of_kind(label_columns, "label") or _columns_of_rating_words(
            columns
        )
    is_one = len(guess) == 1 and not (in_words or groups)
    if is_one and _look_like_ratings(columns.cells_in(guess[0])):
        return guess, True
    return tuple(dict.fromkeys((*in_words, *(named_columns or guess)))), False


def _columns_of_rating_words(columns: Columns) -> list[str]:
    """Return the unused columns of a few values, half of which are words such as good and bad."""
    word_columns: list[str] = []
    for name in columns.columns_except(columns.columns_in_use(OUTPUT_ROLES)):
        cells = (cell for cell in columns.cells_in(name) if not is_missing_value(cell))
        words = {*map(normalize_word, cells)}
        if columns.describe_column(name).is_category and 2 * sum(map(is_rating_word, words)) >= len(
            words
        ):
            word_columns.append(name)
    return word_columns


def _label_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return the columns that may hold a dimension's labels although they have other names.

    The name of such a column consists of words for labels and of words in the dimension's name.
    Returns () if the dimension may be a misspelling of another column or of a catalogue judge, or
    if objects have the labels.
    """
    label_words = {*name_words(dimension)} | _LABEL_WORDS
    used_columns = (
        columns.columns_in_use((*OUTPUT_ROLES, *VOTE_COLUMNS)) | columns.judge_score_columns
    )
    named_like_labels = (
        column
        for column in (*columns.table.columns, *columns.nested_key_paths)
        if column not in used_columns and _has_label_name(column, label_words)
    )
    label_columns = columns.columns_of_kind(named_like_labels, "rating", "label")
    other_names = {*columns.table.columns, *catalog.judge_names()}.difference(label_columns)
    is_misspelt = dimension not in catalog.judge_names() and similar_name(dimension, other_names)
    if is_misspelt or columns.find_columns(NESTED_COLUMNS):
        return ()
    return tuple(label_columns)


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name in `names` that `name` may misspell; None if no name is similar."""
    return next(iter(get_close_matches(name, [*names], 1, 0.85)), None)


def _has_label_name(column: str, label_words: set[str]) -> bool:
    """Return whether a name has a word in `label_words`, and otherwise only usual qualifiers."""
    words = {*name_words(column.rpartition(KEY_SEPARATOR)[2])}
    return not words.isdisjoint(label_words) and words <= label_words | _LABEL_QUALIFIERS


def _look_like_ratings(cells: Iterable[object]) -> bool:
    """Return whether the numbers in the cells lie on a usual scale and are not row numbers."""
    numbers = [cell.number for cell in map(parse_cell, cells) if cell.kind == NUMBER]
    all_differ = len(numbers) >= _MIN_ROW_NUMBERS and len({*numbers}) == len(numbers)
    are_row_numbers = all_differ and all(map(float.is_integer, numbers))
    return max(map(abs, numbers), default=0) <= _MAX_RATING and not are_row_numbers


def check_rating_columns(rating_columns: RatingColumns, problems: Problems) -> list[str]:
    """Add a problem if it is unclear which columns hold ratings.

    Returns notes on the columns of ratings that are not named after their dimension.
    """
    columns = rating_columns.columns
    if columns.is_long_table or not columns.reads_labels:
        return []
    for dimension, candidates in rating_columns.candidates.items():
        _ask_for_columns(problems, dimension, candidates)
    notes: list[str] = []
    for name, headers in without_keys(rating_columns.by_dimension, columns.columns_by_name).items():
        if len(headers) > 1:
            notes.append(f"{name} is read from {joined_names(headers)}: one annotator per column")
        elif name_key(name) != name_key(headers[0]):
            notes.append(f"no column is called {name}: its labels are read from {headers[0]!r}")
    return notes


def _ask_for_columns(problems: Problems, dimension: str, candidates: ColumnTuple) -> None:
    """Add the problem that it is uncertain which columns hold labels, with flags for the user.

    There is a flag for each column alone, for the dimension or else as a dimension of its own, and
    one for all columns as annotators' columns. The latter is likely if the names share a word.
    """
    flags = [map_flag(dimension or column, [column]) for column in candidates]
    fault, advice = "may hold the labels", f"if it does, say so with {flags[0]}"
    if len(candidates) > 1:
        first_words, *other_words = map(name_words, candidates)
        shared_words = set(first_words).intersection(*other_words)
        shared_name = "_".join(w for w in first_words if w in shared_words and w.isalpha())
        joined_flag = map_flag(dimension or shared_name or "NAME", candidates)
        fault, advice = "may each hold the labels", f"name those that do: {' '.join(flags)}"
        if dimension:
            first_flags = [*flags[:3], *["..."] * (len(flags) > 3)]
            advice = f"say which: {' or '.join(first_flags)}"
        joining_advice = f"if each is one annotator's, join them by {joined_flag}"
        if shared_name:
            advice = f"{joining_advice}; or {advice}"
        else:
            advice += f"; or, {joining_advice}"
    fault = f"{joined_names(candidates)} {fault}"
    problems.add("labels", fault, advice, field=dimension or None)
