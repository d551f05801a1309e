"""Finds the columns with the ratings on each dimension: one column, or one for each annotator."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from judges import catalog
from judges.labels.cells import KEY_SEPARATOR, without_keys
from judges.labels.columns import COMMENT_NAME, OUTPUT_ROLES, VOTE_COLUMNS, Columns
from judges.labels.names import is_source_or_output, judge_name, map_flag, name_key, name_words
from judges.tables.problems import joined_names

# Matches a column name such as `relevance (annotator 1)`. The first group is the dimension.
_ANNOTATOR_COLUMN_NAME = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
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

# The exact names of one or several columns.
ColumnTuple = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """The columns in which a table has ratings, except columns of objects {dimension: rating}.

    Attributes:
        columns: All columns of the table.
        by_dimension: Maps each dimension to its columns: one, or one per annotator.
        uncertain_columns: Maps a dimension to the columns that may hold its labels, if it is not
            certain which do. The key "" stands for an unknown dimension.
    """

    columns: Columns
    by_dimension: Mapping[str, ColumnTuple] = field(default_factory=dict)
    uncertain_columns: Mapping[str, ColumnTuple] = field(default_factory=dict)

    def listed_columns(self) -> dict[str, ColumnTuple]:
        """Map each dimension to its columns, and each column of objects to itself, for `check`."""
        if self.columns.is_long_table:
            return {"rating": self.columns.find_columns(["rating"])}
        return {name: (name,) for name in self.columns.nested_columns} | dict(self.by_dimension)


def find_rating_columns(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return the columns of ratings on `dimensions`, or on all dimensions if None."""
    if columns.is_long_table:
        return RatingColumns(columns=columns)
    if dimensions is None:
        return _find_all_rating_columns(columns)
    certain_columns, uncertain_columns = dict[str, ColumnTuple](), dict[str, ColumnTuple]()
    for dimension in dimensions:
        column_names, is_certain = _find_columns(columns, dimension)
        if not is_certain:
            uncertain_columns[dimension] = column_names
        elif column_names:
            certain_columns[dimension] = column_names
    return RatingColumns(
        columns=columns,
        by_dimension=certain_columns,
        uncertain_columns={} if columns.nested_columns else uncertain_columns,
    )


def _find_columns(columns: Columns, dimension: str) -> tuple[ColumnTuple, bool]:
    """Return the columns that may hold ratings on a dimension, and whether they certainly do."""
    for name, user_columns in columns.columns_by_name.items():
        if dimension in (name, judge_name(name)):
            return user_columns, True
    named_columns, dimension_words = _named_columns(columns, dimension), {*name_words(dimension)}
    for name, annotator_columns in _annotator_columns(columns).items():
        if name_key(name) == name_key(dimension) and not named_columns:
            return annotator_columns, True
    similar_columns = [c for c in columns.number_columns if dimension_words <= {*name_words(c)}]
    possible_columns = tuple(dict.fromkeys((*sorted(named_columns), *similar_columns)))
    if named_columns or len(possible_columns) > 1:
        return possible_columns, len(possible_columns) == 1
    label_columns = _label_columns(columns, dimension)
    if dimension not in catalog.SUBJECT_BY_NAME:
        known_names = {*catalog.SUBJECT_BY_NAME, *columns.table.columns}.difference(label_columns)
        if similar_name(dimension, known_names):
            return (), True  # the dimension is probably misspelt
        if not label_columns:
            return columns.number_columns, not columns.number_columns
    return label_columns, len(label_columns) < 2


def _named_columns(columns: Columns, dimension: str) -> set[str]:
    """Return the column with a dimension's name, else those whose `judge_name` is this name."""
    exact_name = columns.exact_name(dimension)
    if columns.has_column(exact_name):
        return {exact_name} - columns.judge_score_columns
    # The judge `helpful` may have been named after a column `Helpful?`.
    return {name for name in columns.table.columns if judge_name(name) == dimension}


def _annotator_columns(columns: Columns) -> dict[str, ColumnTuple]:
    """Map each dimension with several columns such as `tone (rater 1)` to these columns."""
    matches_by_key: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_ANNOTATOR_COLUMN_NAME.fullmatch, columns.number_columns)):
        matches_by_key[name_key(match[1])].append(match)
    return {
        matches[0][1]: tuple(match[0] for match in matches)
        for matches in matches_by_key.values()
        if len(matches) > 1
    }


def _find_all_rating_columns(columns: Columns) -> RatingColumns:
    """Return the columns that the user names, else those that certainly or possibly have ratings.

    Columns certainly have ratings if all of them are named after judges of the catalogue. One
    column of numbers up to 100 certainly has ratings if no column has labels in words.
    """
    columns_by_dimension = _user_rating_columns(columns)
    if columns_by_dimension or columns.nested_columns:
        return RatingColumns(columns=columns, by_dimension=columns_by_dimension)
    columns_by_dimension = _annotator_columns(columns)
    annotator_columns = set[str]().union(*columns_by_dimension.values())
    other_columns = [name for name in columns.number_columns if name not in annotator_columns]
    label_columns = _label_columns(columns, "label")
    named_columns = [name for name in other_columns if name in label_columns]
    likely_columns = named_columns or other_columns
    has_all_labels = {*likely_columns} == {*label_columns}
    word_columns = [] if has_all_labels else _word_columns(columns, label_columns)
    is_certain = {*map(str.casefold, likely_columns)} <= {*catalog.SUBJECT_BY_NAME}
    if len(likely_columns) == 1 and not (word_columns or columns_by_dimension):
        is_certain |= columns.describe_column(likely_columns[0]).holds_scale_numbers
    possible_columns = tuple(dict.fromkeys((*word_columns, *likely_columns)))
    return RatingColumns(
        columns=columns,
        by_dimension=columns_by_dimension | {name: (name,) for name in likely_columns},
        uncertain_columns={} if is_certain else {"": possible_columns},
    )


def _word_columns(columns: Columns, label_columns: ColumnTuple) -> list[str]:
    """Return the columns of words: those with names such as `label`, else with words like good."""
    unused_columns = columns.columns_except(columns.columns_in_use(OUTPUT_ROLES))
    return columns.columns_of_kind(label_columns, "label") or [
        name for name in unused_columns if columns.describe_column(name).holds_rating_words
    ]


def _user_rating_columns(columns: Columns) -> dict[str, ColumnTuple]:
    """Return the columns of ratings that the user names, even if some of their cells are faulty."""
    columns_by_dimension: dict[str, ColumnTuple] = {}
    role_names = (*OUTPUT_ROLES, *VOTE_COLUMNS, COMMENT_NAME)
    user_columns = without_keys(columns.columns_by_name, role_names)
    for name, (first_column, *other_columns) in user_columns.items():
        is_text = not other_columns and columns.kind_of(first_column) in ("text", "name")
        # A column of texts has ratings only if the user calls it a label or names it after a judge.
        is_label = name in catalog.SUBJECT_BY_NAME or _has_label_name(name, _LABEL_WORDS)
        if not is_source_or_output(name) and (is_label or not is_text):
            columns_by_dimension[name] = user_columns[name]
    return columns_by_dimension


def _label_columns(columns: Columns, dimension: str) -> ColumnTuple:
    """Return the columns with names such as `human label`; () if objects hold the labels."""
    if columns.nested_columns:
        return ()
    label_words = {*name_words(dimension)} | _LABEL_WORDS
    used_columns = columns.columns_in_use((*OUTPUT_ROLES, *VOTE_COLUMNS))
    unused_columns = columns.columns_except(used_columns | columns.judge_score_columns)
    unused_paths = [path for path in columns.nested_key_paths if path not in used_columns]
    possible_columns = [
        name for name in (*unused_columns, *unused_paths) if _has_label_name(name, label_words)
    ]
    return tuple(columns.columns_of_kind(possible_columns, "rating", "label"))


def _has_label_name(column: str, label_words: set[str]) -> bool:
    """Return whether a name has a word in `label_words`, alone or with words such as `human`."""
    column_words = {*name_words(column.rpartition(KEY_SEPARATOR)[2])}
    has_label_word = not column_words.isdisjoint(label_words)
    return has_label_word and column_words <= label_words | _LABEL_QUALIFIERS


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is spelt almost like `name`; None if no name is."""
    return next(iter(get_close_matches(name, [*names], 1, 0.85)), None)


def _shared_name(columns: ColumnTuple) -> str:
    """Return the words that all names share, such as `rating` for `rating_a` and `rating_b`."""
    first_words, *other_words = map(name_words, columns)
    shared_words = filter(str.isalpha, set(first_words).intersection(*other_words))
    return "_".join(sorted(shared_words, key=first_words.index))


def check_rating_columns(rating_columns: RatingColumns) -> None:
    """Add a problem if it is unclear which columns hold ratings.

    Adds a note on each column of ratings that is not named after its dimension.
    """
    columns, problems = rating_columns.columns, rating_columns.columns.problems
    if columns.is_long_table or not columns.options.reads_labels:
        return
    for dimension, column_names in rating_columns.uncertain_columns.items():
        map_flags = [map_flag(dimension or name, [name]) for name in column_names]
        fault, advice = "may hold the labels", f"if it does, say so with {map_flags[0]}"
        if len(column_names) > 1:
            fault, advice = "may each hold the labels", f"name those that do: {' '.join(map_flags)}"
            if dimension:
                advice = f"say which, as in {' or '.join(map_flags[:3])}"
            shared_name = _shared_name(column_names)
            joined_flag = map_flag(dimension or shared_name or "NAME", column_names)
            joining_advice = f"if each column is one annotator's, join them by {joined_flag}"
            # Columns are probably different annotators' if their names share a word.
            advice_parts = (joining_advice, advice) if shared_name else (advice, joining_advice)
            advice = "; or ".join(advice_parts)
        fault = f"{joined_names(column_names)} {fault}"
        problems.add("labels", fault, advice, field=dimension or None)
    unmapped_columns = without_keys(rating_columns.by_dimension, columns.columns_by_name)
    for dimension, column_names in unmapped_columns.items():
        if len(column_names) > 1:
            names_text = joined_names(column_names)
            note = f"{dimension} is read from {names_text}: one annotator per column"
            problems.notes.append(note)
        elif name_key(dimension) != name_key(column_names[0]):
            note = f"no column is called {dimension}: its labels are read from {column_names[0]!r}"
            problems.notes.append(note)
