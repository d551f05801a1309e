"""Finds the columns of ratings on each dimension: one column, or one column per annotator."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from dspy_judges.column_names import name_key
from judges import catalog
from judges.labels.cells import DOT
from judges.labels.columns import NESTED_COLUMNS, VOTE_COLUMNS, Columns
from judges.labels.names import is_source_or_output, map_flag, tokens
from judges.labels.values import is_missing_value, is_yes_or_no
from judges.tables.problems import Problems, joined_names

NON_RATING_NAMES = ("id", "group", "system", *NESTED_COLUMNS)
_RESERVED = (*NON_RATING_NAMES, "annotator")
_ANNOTATOR_COLUMN = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
# Words for school marks, and German words that show that a file is in German.
_MARK_WORDS = frozenset({"note", "noten", "schulnote", "zensur"})
_GERMAN_WORDS = frozenset({"frage", "anfrage", "antwort", "eingabe", "ausgabe", "zusammenfassung"})
# Words for a label in a column's name, and words that may accompany them, as in `human label`.
_LABEL_WORDS = {
    *("label", "verdict", "rating", "grade", "score", "judgement", "judgment", "correct", "pass"),
    *("passed", "ok", "thumbs", "truth", "accepted", "approved", "bewertung", "urteil"),
    *("étiquette", "etiqueta"),
}
_LABEL_QUALIFIERS = {
    *("ground", "human", "expert", "gold", "golden", "true", "annotator", "manual", "final"),
    *("overall", "is", "quality"),
}
# The upper end of usual scales. With fewer rows than this, all ratings may differ by chance.
_MAX_RATING, _MIN_ROWS = 100, 6

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")

# Names of columns.
Headers = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """The columns in which a table has ratings.

    `nested` are columns of objects {dimension: rating}; if two rate the same dimension, the later
    one counts. `keys` are the dimensions in these objects. `flat` maps each other dimension to its
    column, or to several columns with one annotator each. `groups` are such groups of columns that
    the names of columns show. `numbers` are all columns of numbers, and `guesses` those that are
    read as ratings although nobody said that they are.
    """

    nested: Headers = ()
    keys: Headers = ()
    flat: Mapping[str, Headers] = field(default_factory=dict)
    groups: Mapping[str, Headers] = field(default_factory=dict)
    numbers: Headers = ()
    guesses: Headers = ()

    def all(self) -> set[str]:
        return {*self.nested}.union(*self.flat.values())


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return the columns of ratings on these dimensions, or on all dimensions if None.

    A column that nobody named holds ratings if its cells are numbers, or words for yes and no. A
    column that the user maps to a name holds ratings unless its cells, or the name, are those of a
    text.
    """
    if columns.is_long:
        return RatingColumns()
    nested, used = columns.find_all(NESTED_COLUMNS), columns.used_columns(_RESERVED)
    numbers = tuple(columns.of_kind(columns.columns_except(used), "rating"))
    groups, guesses = _annotator_groups(numbers), Headers()
    if dimensions is None:
        flat = _mapped_ratings(columns)
        if not (flat or nested):
            guesses = _guess_ratings(columns, numbers, groups)
            flat = {**groups, **{column: (column,) for column in guesses}}
    else:
        headers = {name: _find_headers(columns, name, groups) for name in dimensions}
        flat = {name: own_headers for name, own_headers in headers.items() if own_headers}
    keys = (key for key in columns.nested_names if columns.outer_column(key) in nested)
    return RatingColumns(
        nested=nested,
        keys=tuple(key.partition(DOT)[2] for key in keys if key not in columns.comments),
        flat=flat,
        groups=groups,
        numbers=numbers,
        guesses=guesses,
    )


def _mapped_ratings(columns: Columns) -> dict[str, Headers]:
    """The entries of the mapping whose columns may hold ratings, even if some cells are faulty."""
    not_rated = {*_RESERVED, *VOTE_COLUMNS}
    return {
        name: headers
        for name, headers in columns.mapping.items()
        if not (name in not_rated or is_source_or_output(name))
        and (len(headers) > 1 or columns.kind(headers[0]) != "text")
    }


def _annotator_groups(numbers: Headers) -> dict[str, Headers]:
    """Map each dimension to its columns `relevance (annotator 1)` and so on, if it has several."""
    groups: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_ANNOTATOR_COLUMN.fullmatch, numbers)):
        groups[name_key(match[1])].append(match)
    several = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in several}


def _find_headers(columns: Columns, name: str, groups: Mapping[str, Headers]) -> Headers:
    """Find the columns of a dimension.

    They are mapped to the dimension, called like it, a group of annotators' columns, or else the
    only column whose name is that of labels.
    """
    column = columns.exact_name(name)
    if name in columns.mapping or columns.has(column):
        return columns.mapping.get(name, (column,))
    by_key = {name_key(group): headers for group, headers in groups.items()}
    if name_key(name) in by_key:
        return by_key[name_key(name)]
    labels = () if columns.find_all(NESTED_COLUMNS) else tuple(_label_columns(columns, name))
    return labels if len(labels) == 1 else ()


def _guess_ratings(columns: Columns, numbers: Headers, groups: Mapping[str, Headers]) -> Headers:
    """The only column with a name of labels, else all columns of numbers that are in no group."""
    members = set[str]().union(*groups.values())
    single = tuple(column for column in numbers if column not in members)
    labels = tuple(filter(single.__contains__, _label_columns(columns, "label")))
    return labels if len(labels) == 1 else single


def _label_columns(columns: Columns, dimension: str) -> list[str]:
    """Return the columns that may hold the labels on a dimension that no column is called like.

    Their names consist of words for labels and words of the dimension. If the dimension's name may
    be a misspelling of another, there are none.
    """
    words, used = (
        {*tokens(dimension)} | _LABEL_WORDS,
        columns.used_columns((*NON_RATING_NAMES, *VOTE_COLUMNS)),
    )
    named = (*columns.columns_except(used), *columns.nested_names)
    with_words = (c for c in named if c not in used and _has_label_name(c, words))
    labels = columns.of_kind(with_words, "rating", "label")
    other_names = {*columns.table.columns}.difference(labels) | {*catalog.names()}
    is_misspelled = dimension not in catalog.names() and close_names(dimension, other_names)
    return [] if is_misspelled else labels


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return [the name of which `name` may be a misspelling], or [] if there is none."""
    return get_close_matches(name, [*names], 1, 0.85)


def _has_label_name(column: str, words: set[str]) -> bool:
    """Whether a column's name has one of these words, and else only qualifiers of labels."""
    name_words = {*tokens(column.rpartition(DOT)[2])}
    return not name_words.isdisjoint(words) and name_words <= words | _LABEL_QUALIFIERS


def check_ratings(
    columns: Columns, layout: RatingColumns, dimensions: Collection[str] | None, problems: Problems
) -> list[str]:
    """Add a problem if it is unclear which columns hold ratings; return notes on those that do."""
    if columns.is_long or layout.nested or not columns.labelled:
        return []
    if layout.guesses:
        _check_guesses(columns, layout, problems)
    for name in dimensions or ():
        if name not in columns.mapping:
            _check_dimension(columns, layout, name, problems)
    notes: list[str] = []
    for name, headers in layout.flat.items():
        if headers in layout.groups.values():
            notes.append(f"{name} is read from {joined_names(headers)}: one annotator per column")
        elif name not in columns.mapping and name_key(name) != name_key(headers[0]):
            notes.append(f"no column is called {name}: its labels are read from {headers[0]!r}")
    return notes


def _check_dimension(
    columns: Columns, layout: RatingColumns, name: str, problems: Problems
) -> None:
    """Add a problem if columns that nobody mapped may hold (further) ratings on a dimension."""
    headers = layout.flat.get(name, ())
    # A column whose name contains the dimension's words may be another annotator's.
    words = {*tokens(name)}
    named = [column for column in layout.numbers if words and words <= {*tokens(column)}]
    group = [*dict.fromkeys((*headers, *named))]
    if len(headers) < 2 <= len(group):
        fault = f"{joined_names(group)} may each be one annotator's ratings"
        advice = f"read all of them with {map_flag(name, group)}, or only one with "
        problems.add("annotators", fault, advice + map_flag(name, group[:1]), field=name)
    elif not headers and (labels := _likely_labels(columns, layout, name)):
        fault = f"no column has this name, but {joined_names(labels)} may be its labels"
        choices = (*zip(labels[:3]), labels)  # one of the first three, or all of them
        flags = dict.fromkeys(map_flag(name, choice) for choice in choices)
        problems.add("labels", fault, f"say which: {' or '.join(flags)}", field=name)


def _likely_labels(columns: Columns, layout: RatingColumns, name: str) -> list[str]:
    """The columns of labels, else the columns of numbers that may rate the user's own dimension."""
    labels, names = _label_columns(columns, name), {*catalog.names()}
    if labels or name in names or close_names(name, names.union(columns.table.columns)):
        return labels
    return [column for column in layout.numbers if column.casefold() not in names]


def _check_guesses(columns: Columns, layout: RatingColumns, problems: Problems) -> None:
    """Add a problem, with flags to use, unless it is clear that the guessed columns are ratings.

    It is clear for a single column of numbers on a usual scale, and for columns that are called
    like judges of the catalogue.
    """
    # In German marks 1 is the best, and files rarely say so.
    words = {word for column in columns.table.columns for word in tokens(column)}
    has_mark_word = not _MARK_WORDS.isdisjoint(tokens(layout.guesses[0]))
    are_marks = has_mark_word and not _GERMAN_WORDS.isdisjoint(words)
    if len(layout.guesses) > 1 or layout.groups:
        are_clear = {name.casefold() for name in layout.guesses} <= {*catalog.names()}
    else:
        are_clear = not are_marks and _look_like_ratings(columns.values(layout.guesses[0]))
    if not are_clear:
        likely = _label_columns(columns, "label") or [*layout.guesses]
        cells = [
            cell for name in likely for cell in columns.values(name) if not is_missing_value(cell)
        ]
        kind = "labels" if all(map(is_yes_or_no, cells)) else "numbers that may not be ratings"
        fault = f"{joined_names(likely)} {'holds' if len(likely) == 1 else 'hold'} {kind}"
        problems.add("annotators", fault, _guess_advice(likely, are_marks=are_marks))


def _guess_advice(likely: list[str], *, are_marks: bool) -> str:
    """Return advice on how to say what these columns are."""
    flags = " ".join(map_flag(name, [name]) for name in likely)
    advice = f"if they are ratings, say of what, as in {flags}"
    if len(likely) > 1:
        shared_words = set(tokens(likely[0])).intersection(*map(tokens, likely))
        flag = map_flag("_".join(sorted(shared_words)) or "NAME", likely)
        return f"if each column is one annotator's, join them by {flag}; else {advice}"
    reverse = "; if 1 is the best, reverse the scale by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    return advice + reverse if are_marks else advice


def _look_like_ratings(cells: Iterable[object]) -> bool:
    """Whether numbers look like ratings: they are on a usual scale and do not number the rows."""
    texts = [str(cell).strip() for cell in cells]
    numbers = [float(text) for text in texts if _PLAIN_NUMBER.fullmatch(text)]
    all_differ = len(numbers) >= _MIN_ROWS and len({*numbers}) == len(numbers)
    are_row_numbers = all_differ and all(map(float.is_integer, numbers))
    return max(map(abs, numbers), default=0) <= _MAX_RATING and not are_row_numbers
