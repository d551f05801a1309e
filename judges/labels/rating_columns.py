"""Finds the columns with the ratings on each dimension: one column, or one for each annotator."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from judges import catalog
from judges.labels.cells import KEY_SEPARATOR, without_keys
from judges.labels.columns import COMMENT_NAME, OUTPUT_ROLES, VOTE_COLUMNS, Columns, ColumnTuple
from judges.labels.names import is_source_or_output, judge_name, map_flag, name_key, name_words
from judges.tables.problems import Problems, joined_names

# Words that name a column of labels, and words that may stand beside them, as in `human label`.
_LABEL_WORDS = {
    *("label", "verdict", "rating", "grade", "score", "judgement", "judgment", "correct", "pass"),
    *("passed", "ok", "thumbs", "truth", "accepted", "approved", "bewertung", "urteil"),
    *("étiquette", "etiqueta"),
}
_LABEL_QUALIFIERS = {
    *("ground", "human", "expert", "gold", "golden", "true", "annotator", "manual", "final"),
    *("overall", "is", "quality"),
}


class RatingColumns(NamedTuple):
    """The columns in which a table has ratings, except columns of objects {dimension: rating}.

    `by_dimension` maps each dimension to its columns: one, or one for each annotator. `uncertain`
    maps a dimension to the columns that may hold its labels, if it is not certain which do; the key
    "" stands for an unknown dimension.
    """

    by_dimension: Mapping[str, ColumnTuple]
    uncertain: Mapping[str, ColumnTuple]


def find_rating_columns(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return the columns of ratings on `dimensions`, or on all dimensions if None."""
    if columns.is_long:
        return RatingColumns({}, {})
    if dimensions is None:
        return _find_all_rating_columns(columns)
    by_dimension, uncertain = dict[str, ColumnTuple](), dict[str, ColumnTuple]()
    for dimension in dimensions:
        user_columns = _user_columns(columns, dimension)
        likely_columns = user_columns or _likely_columns(columns, dimension)
        if user_columns or len(likely_columns) == 1:
            by_dimension[dimension] = likely_columns
        elif possible_columns := likely_columns or _possible_columns(columns, dimension):
            uncertain[dimension] = possible_columns
    return RatingColumns(by_dimension, {} if columns.nested else uncertain)


def _user_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return the columns that the user maps to a dimension, else ()."""
    user_columns = columns.by_name.items()
    return next((c for name, c in user_columns if dimension in (name, judge_name(name))), ())


def _likely_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return the columns with a dimension's name or words, else those named like labels."""
    exact_name, dimension_words = columns.exact_name(dimension), {*name_words(dimension)}
    equal_names = {exact_name} - columns.judge_scores
    if not columns.has(exact_name):
        # The judge `helpful` may have been named after a column `Helpful?`.
        equal_names = {name for name in columns.table.columns if judge_name(name) == dimension}
    similar_names = [name for name in columns.numbers if dimension_words <= {*name_words(name)}]
    if equal_names or len(similar_names) > 1:
        return tuple(dict.fromkeys((*sorted(equal_names), *similar_names)))
    return () if _is_misspelt(columns, dimension) else _label_columns(columns, dimension)


def _possible_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return all columns of numbers for a dimension that has its name from the user."""
    is_known = dimension in catalog.SUBJECT_BY_NAME or _is_misspelt(columns, dimension)
    return () if is_known else columns.numbers


def _is_misspelt(columns: Columns, dimension: str) -> bool:
    """Return whether a dimension has almost the name of a column or of a judge in the catalogue."""
    if dimension in catalog.SUBJECT_BY_NAME:
        return False
    other_columns = {*columns.table.columns}.difference(_label_columns(columns, dimension))
    return similar_name(dimension, other_columns.union(catalog.SUBJECT_BY_NAME)) is not None


def _find_all_rating_columns(columns: Columns) -> RatingColumns:
    """Return the columns that the user names, else those that certainly or possibly have ratings.

    Columns certainly have ratings if all of them are named after judges of the catalogue. One
    column of numbers up to 100 certainly has ratings if no column has labels in words.
    """
    by_dimension = _user_rating_columns(columns)
    if by_dimension or columns.nested:
        return RatingColumns(by_dimension, {})
    label_columns = _label_columns(columns, "label")
    likely_columns = [c for c in columns.numbers if c in label_columns] or [*columns.numbers]
    word_columns = []
    if {*likely_columns} != {*label_columns}:
        unused_columns = columns.except_for(columns.in_use(OUTPUT_ROLES))
        word_columns = columns.of_kind(label_columns, "label") or [
            name for name in unused_columns if columns.column(name).holds_rating_words
        ]
    is_certain = {*map(str.casefold, likely_columns)} <= {*catalog.SUBJECT_BY_NAME}
    if len(likely_columns) == 1 and not word_columns:
        is_certain |= columns.column(likely_columns[0]).holds_scale_numbers
    possible_columns = tuple(dict.fromkeys((*word_columns, *likely_columns)))
    by_dimension = {name: (name,) for name in likely_columns}
    return RatingColumns(by_dimension, {} if is_certain else {"": possible_columns})


def _user_rating_columns(columns: Columns) -> dict[str, ColumnTuple]:
    """Return the columns of ratings that the user names, even if some of their cells are faulty."""
    columns_by_dimension: dict[str, ColumnTuple] = {}
    role_names = (*OUTPUT_ROLES, *VOTE_COLUMNS, COMMENT_NAME)
    for name, user_columns in without_keys(columns.by_name, role_names).items():
        is_text = len(user_columns) == 1 and columns.kind_of(user_columns[0]) in ("text", "name")
        # A column of texts has ratings only if the user calls it a label or names it after a judge.
        is_label = name in catalog.SUBJECT_BY_NAME or _has_label_name(name, _LABEL_WORDS)
        if not is_source_or_output(name) and (is_label or not is_text):
            columns_by_dimension[name] = user_columns
    return columns_by_dimension


def _label_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return the columns with names such as `human label`; () if objects hold the labels."""
    if columns.nested:
        return ()
    label_words = {*name_words(dimension)} | _LABEL_WORDS
    used_columns = columns.in_use((*OUTPUT_ROLES, *VOTE_COLUMNS)) | columns.judge_scores
    possible_columns = [
        name
        for name in (*columns.table.columns, *columns.key_paths)
        if name not in used_columns and _has_label_name(name, label_words)
    ]
    return tuple(columns.of_kind(possible_columns, "rating", "label"))


def _has_label_name(column: str, label_words: set[str]) -> bool:
    """Return whether a name has a word in `label_words`, alone or with words such as `human`."""
    column_words = {*name_words(column.rpartition(KEY_SEPARATOR)[2])}
    has_label_word = not column_words.isdisjoint(label_words)
    return has_label_word and column_words <= label_words | _LABEL_QUALIFIERS


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is spelt almost like `name`; None if no name is."""
    return next(iter(get_close_matches(name, [*names], 1, 0.85)), None)


def check_rating_columns(
    rating_columns: RatingColumns, columns: Columns, problems: Problems
) -> None:
    """Add a problem if it is unclear which columns hold ratings.

    Adds a note on each column of ratings that is not named after its dimension.
    """
    for dimension, names in rating_columns.uncertain.items():
        map_flags = [map_flag(dimension or name, [name]) for name in names]
        advice = f"say which do, as in {' or '.join(map_flags[:3])}"
        if len(names) > 1:
            joined_flag = map_flag(dimension or "NAME", names)
            advice += f"; or if each column is one annotator's, join them by {joined_flag}"
        fault = f"{joined_names(names)} may hold the labels"
        problems.add("labels", fault, advice, field=dimension or None)
    for dimension, names in without_keys(rating_columns.by_dimension, columns.by_name).items():
        if name_key(dimension) != name_key(names[0]):
            problems.notes.append(
                f"no column is called {dimension}: its labels are read from {names[0]!r}"
            )
