"""Finds the columns with the ratings on each dimension: one column, or one for each annotator."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

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


def find_rating_columns(
    columns: Columns, dimensions: Collection[str] | None = None, problems: Problems | None = None
) -> dict[str, ColumnTuple]:
    """Map each of `dimensions`, or each dimension if None, to its columns: one, or several.

    Several columns are of one annotator each. Columns of objects {dimension: rating} are left out.
    Adds to `problems`, if given, a problem if it is unclear which columns hold ratings, and a note
    on each column that is not named after its dimension.
    """
    problems = Problems("") if problems is None else problems
    if columns.is_long:
        return {}
    if dimensions is None:
        ratings = _find_all_columns(columns, problems)
    else:
        ratings = {name: _find_columns(columns, name, problems) for name in dimensions}
        ratings = {name: names for name, names in ratings.items() if names}
    for dimension, (name, *_) in without_keys(ratings, columns.by_name).items():
        if name_key(dimension) != name_key(name):
            note = f"no column is called {dimension}: its labels are read from {name!r}"
            problems.notes.append(note)
    return ratings


def _find_columns(columns: Columns, dimension: str, problems: Problems) -> ColumnTuple:
    """Return the user's columns for a dimension, else the only one that may have its ratings."""
    for name, user_columns in columns.by_name.items():
        if dimension in (name, judge_name(name)):
            return user_columns
    exact_name, dimension_words = columns.exact_name(dimension), {*name_words(dimension)}
    equal_names = {exact_name} - columns.judge_scores
    if not columns.has(exact_name):
        # The judge `helpful` may have been named after a column `Helpful?`.
        equal_names = {name for name in columns.table.columns if judge_name(name) == dimension}
    likely_ratings = columns.likely_ratings
    similar_names = [name for name in likely_ratings if dimension_words <= {*name_words(name)}]
    possible_columns = tuple(dict.fromkeys((*sorted(equal_names), *similar_names)))
    if not (equal_names or len(similar_names) > 1):
        possible_columns = _label_columns(columns, dimension)
        other_names = {*columns.table.columns}.difference(possible_columns)
        judges = catalog.SUBJECT_BY_NAME
        if dimension not in judges and similar_name(dimension, other_names.union(judges)):
            return ()  # the dimension is probably misspelt
        if dimension not in judges and not possible_columns:
            _ask_for_columns(dimension, likely_ratings, columns, problems)
            return ()
    if len(possible_columns) == 1:
        return possible_columns
    _ask_for_columns(dimension, possible_columns, columns, problems)
    return ()


def _find_all_columns(columns: Columns, problems: Problems) -> dict[str, ColumnTuple]:
    """Return the columns that the user names, else those that certainly or possibly have ratings.

    Columns certainly have ratings if all of them are named after judges of the catalogue. One
    column of numbers up to 100 certainly has ratings if no column has labels in words.
    """
    user_columns = _user_rating_columns(columns)
    if user_columns or columns.nested:
        return user_columns
    label_columns = _label_columns(columns, "label")
    likely_columns = [name for name in columns.likely_ratings if name in label_columns]
    likely_columns = likely_columns or [*columns.likely_ratings]
    word_columns = []
    if {*likely_columns} != {*label_columns}:
        unused_columns = columns.except_for(columns.in_use(OUTPUT_ROLES))
        word_columns = columns.of_kind(label_columns, "label") or [
            name for name in unused_columns if columns.column(name).holds_rating_words
        ]
    is_certain = {*map(str.casefold, likely_columns)} <= {*catalog.SUBJECT_BY_NAME}
    if len(likely_columns) == 1 and not word_columns:
        is_certain |= columns.column(likely_columns[0]).holds_scale_numbers
    if not is_certain:
        _ask_for_columns("", dict.fromkeys((*word_columns, *likely_columns)), columns, problems)
    return {name: (name,) for name in likely_columns}


def _ask_for_columns(
    dimension: str, names: Iterable[str], columns: Columns, problems: Problems
) -> None:
    """Add the problem that columns may hold the labels of a dimension, whose name may be ""."""
    column_names = [*names]
    if columns.nested or not column_names:
        return
    map_flags = [map_flag(dimension or name, [name]) for name in column_names]
    advice = f"name those that do, as in {' or '.join(map_flags[:3])}"
    if len(column_names) > 1:
        joined_flag = map_flag(dimension or "NAME", column_names)
        advice += f"; or if each column is one annotator's, join them by {joined_flag}"
    fault = f"{joined_names(column_names)} may hold the labels"
    problems.add("labels", fault, advice, field=dimension or None)


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
