"""Which columns of a table hold ratings on a dimension, one column or one for each annotator."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from dspy_judges.column_names import name_key
from judges import catalog
from judges.labels.cells import DOT
from judges.labels.columns import NESTED, VOTES, Columns
from judges.labels.names import is_known_text, map_flag, tokens
from judges.labels.values import says_nothing, says_truth
from judges.tables.problems import Problems, joined_names

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
_LABELS = {
    *("label", "verdict", "rating", "grade", "score", "judgement", "judgment", "correct", "pass"),
    *("passed", "ok", "thumbs", "truth", "accepted", "approved", "bewertung", "urteil"),
    *("étiquette", "etiqueta"),
}
_OF_LABELS = {
    *("ground", "human", "expert", "gold", "golden", "true", "annotator", "manual", "final"),
    *("overall", "is", "quality"),
}
# The upper end of usual scales; fewer rows may well have no two equal ratings.
_MAX_RATING, _MIN_ROWS = 100, 6

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")

# The names of columns.
Headers = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingColumns:
    """Where a table keeps its ratings; `nested` is in rising order of precedence.

    A dimension in several flat columns has one annotator in each; `groups` are those that show in
    the columns' names. `numbers` are all columns of numbers, `guesses` the others that are read
    although nobody named them, and `keys` the names inside nested columns.
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
    """Return where a table keeps the ratings on these dimensions, or on any where None.

    A column that nobody named holds ratings if its cells are numbers or words for yes and no. A
    column mapped to a name of the user's own is a text only if its cells read as one.
    """
    if columns.is_long:
        return RatingColumns()
    nested, used = columns.find_all(NESTED), columns.used(_RESERVED)
    numbers = tuple(columns.of_kind(columns.unused(used), "rating"))
    groups, guesses = _annotator_groups(numbers), Headers()
    if dimensions is None:
        flat = _mapped_ratings(columns)
        if not (flat or nested):
            guesses = _guess_ratings(columns, numbers, groups)
            flat = {**groups, **{column: (column,) for column in guesses}}
    else:
        headers = {name: _headers_of(columns, name, groups) for name in dimensions}
        flat = {name: own for name, own in headers.items() if own}
    keys = (key for key in columns.nested_names if columns.root_of(key) in nested)
    return RatingColumns(
        nested=nested,
        keys=tuple(key.partition(DOT)[2] for key in keys if key not in columns.comments),
        flat=flat,
        groups=groups,
        numbers=numbers,
        guesses=guesses,
    )


def _mapped_ratings(columns: Columns) -> dict[str, Headers]:
    """The mapping of all names whose columns may hold ratings, sound or faulty."""
    others = {*_RESERVED, *VOTES}
    return {
        name: headers
        for name, headers in columns.mapping.items()
        if not (name in others or is_known_text(name))
        and (len(headers) > 1 or columns.kind(headers[0]) != "text")
    }


def _annotator_groups(numbers: Headers) -> dict[str, Headers]:
    """Columns such as `relevance (annotator 1)` by their dimension, where there are several."""
    groups: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_MARKED.fullmatch, numbers)):
        groups[name_key(match[1])].append(match)
    several = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in several}


def _headers_of(columns: Columns, name: str, groups: Mapping[str, Headers]) -> Headers:
    """The columns mapped to a dimension, called like it or like its annotators', or of labels."""
    column = columns.own_name(name)
    if name in columns.mapping or columns.has(column):
        return columns.mapping.get(name, (column,))
    by_key = {name_key(group): headers for group, headers in groups.items()}
    if name_key(name) in by_key:
        return by_key[name_key(name)]
    labels = () if columns.find_all(NESTED) else tuple(_label_columns(columns, name))
    return labels if len(labels) == 1 else ()


def _guess_ratings(columns: Columns, numbers: Headers, groups: Mapping[str, Headers]) -> Headers:
    """The one column that is called a label, else all columns of numbers outside of groups."""
    members = set[str]().union(*groups.values())
    single = tuple(column for column in numbers if column not in members)
    labels = tuple(filter(single.__contains__, _label_columns(columns, "label")))
    return labels if len(labels) == 1 else single


def _label_columns(columns: Columns, dimension: str) -> list[str]:
    """The columns that may hold the labels on a dimension when no column is called like it.

    Their names have a word for labels or one of the dimension's, which is not misspelled.
    """
    words, used = {*tokens(dimension)} | _LABELS, columns.used((*NOT_RATED, *VOTES))
    named = (*columns.unused(used), *columns.nested_names)
    called = (column for column in named if column not in used and _is_called(column, words))
    labels = columns.of_kind(called, "rating", "label")
    others = {*columns.table.columns}.difference(labels) | {*catalog.names()}
    is_misspelled = dimension not in catalog.names() and close_names(dimension, others)
    return [] if is_misspelled else labels


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the name of which this one may be a misspelling, alone in a list."""
    return get_close_matches(name, [*names], 1, 0.85)


def _is_called(column: str, words: set[str]) -> bool:
    """Whether a column, or a key inside one, has one of these words and none of another sense."""
    own = {*tokens(column.rpartition(DOT)[2])}
    return not own.isdisjoint(words) and own <= words | _OF_LABELS


def check_ratings(
    columns: Columns, layout: RatingColumns, dimensions: Collection[str] | None, problems: Problems
) -> list[str]:
    """Add a problem where other columns may hold ratings; return notes on those that are read."""
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
            notes.append(f"{name} is read from {joined_names(headers)}: one annotator in each")
        elif name not in columns.mapping and name_key(name) != name_key(headers[0]):
            notes.append(f"no column is called {name}: its labels are those of {headers[0]!r}")
    return notes


def _check_dimension(
    columns: Columns, layout: RatingColumns, name: str, problems: Problems
) -> None:
    """Add a problem where columns that nobody mapped may hold (more) ratings on a dimension."""
    headers = layout.flat.get(name, ())
    # A column with the dimension's words in its name may be another annotator's.
    words = {*tokens(name)}
    named = [column for column in layout.numbers if words and words <= {*tokens(column)}]
    group = [*dict.fromkeys((*headers, *named))]
    if len(headers) < 2 <= len(group):
        fault = f"{joined_names(group)} may be one annotator's each"
        advice = f"take them all by {map_flag(name, group)}, or one alone by "
        problems.add("annotators", fault, advice + map_flag(name, group[:1]), field=name)
    elif not headers and (labels := _likely_labels(columns, layout, name)):
        fault = f"no column is called so, and {joined_names(labels)} may be its labels"
        flags = dict.fromkeys(map_flag(name, each) for each in (*zip(labels[:3]), labels))
        problems.add("labels", fault, f"say which: {' or '.join(flags)}", field=name)


def _likely_labels(columns: Columns, layout: RatingColumns, name: str) -> list[str]:
    """The columns of labels, or else those of numbers that may be a dimension of the user's own."""
    labels, names = _label_columns(columns, name), {*catalog.names()}
    if labels or name in names or close_names(name, names.union(columns.table.columns)):
        return labels
    return [column for column in layout.numbers if column.casefold() not in names]


def _check_guesses(columns: Columns, layout: RatingColumns, problems: Problems) -> None:
    """Add a problem, with the flags to use, unless it is clear that numbers are ratings.

    It is clear of a single column of numbers on a usual scale, and of the catalogue's names.
    """
    # German marks: 1 is best, and files rarely say so.
    words = {word for column in columns.table.columns for word in tokens(column)}
    is_mark = not _MARKS.isdisjoint(tokens(layout.guesses[0])) and not _GERMAN.isdisjoint(words)
    if len(layout.guesses) > 1 or layout.groups:
        are_clear = {name.casefold() for name in layout.guesses} <= {*catalog.names()}
    else:
        are_clear = not is_mark and _are_like_ratings(columns.values(layout.guesses[0]))
    if not are_clear:
        likely = _label_columns(columns, "label") or [*layout.guesses]
        cells = [cell for name in likely for cell in columns.values(name) if not says_nothing(cell)]
        kind = "labels" if all(map(says_truth, cells)) else "numbers that may not be ratings"
        fault = f"{joined_names(likely)} {'holds' if len(likely) == 1 else 'hold'} {kind}"
        problems.add("annotators", fault, _guess_advice(likely, is_mark=is_mark))


def _guess_advice(likely: list[str], *, is_mark: bool) -> str:
    advice = f"name what is rated, as in {' '.join(map_flag(name, [name]) for name in likely)}"
    if len(likely) > 1:
        common = set(tokens(likely[0])).intersection(*map(tokens, likely))
        join = map_flag("_".join(sorted(common)) or "NAME", likely)
        return f"where each is one annotator's, join them by {join}; else {advice}"
    turn = "; where 1 is the best, turn it by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    return advice + turn if is_mark else advice


def _are_like_ratings(cells: Iterable[object]) -> bool:
    """Whether numbers may be ratings: on a usual scale, and not the numbers of the rows."""
    texts = [str(cell).strip() for cell in cells]
    numbers = [float(text) for text in texts if _PLAIN_NUMBER.fullmatch(text)]
    are_different = len(numbers) >= _MIN_ROWS and len({*numbers}) == len(numbers)
    is_number_of_row = are_different and all(map(float.is_integer, numbers))
    return max(map(abs, numbers), default=0) <= _MAX_RATING and not is_number_of_row
