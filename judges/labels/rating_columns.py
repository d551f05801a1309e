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
    the columns' names. `guesses` are columns of numbers that nobody named, `candidates` are all,
    and `keys` are the names inside nested columns.
    """

    nested: Headers = ()
    keys: Headers = ()
    flat: Mapping[str, Headers] = field(default_factory=dict)
    groups: Mapping[str, Headers] = field(default_factory=dict)
    guesses: Headers = ()
    candidates: Headers = ()

    def all(self) -> set[str]:
        return {*self.nested}.union(*self.flat.values())


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return where a table keeps the ratings on these dimensions, or on any where None.

    A column that nobody named holds ratings if its cells are numbers or words for yes and no. A
    column mapped to a name of the user's own is a text only if its cells read as one.
    """
    if columns.is_long:
        return RatingColumns()
    nested, others = columns.find_all(NESTED), columns.used(_RESERVED)
    unused = [column for column in columns.table.columns if column not in others]
    candidates = tuple(column for column in unused if columns.kind(column) == "rating")
    groups, flat, guesses = _annotator_groups(candidates), dict[str, Headers](), Headers()
    if dimensions is not None:
        headers = {name: _headers_of(columns, name, groups) for name in dimensions}
        flat = {name: names for name, names in headers.items() if names}
    elif mapped := _mapped_ratings(columns):
        flat = mapped
    elif not nested:
        guesses = _guess_ratings(columns, candidates, groups)
        flat = {**groups, **{column: (column,) for column in guesses}}
    leaves = [name for name in columns.nested_names if columns.root_of(name) in nested]
    return RatingColumns(
        nested=nested,
        keys=tuple(leaf.partition(DOT)[2] for leaf in leaves if leaf not in columns.comments),
        flat=flat,
        groups=groups,
        guesses=guesses,
        candidates=candidates,
    )


def _mapped_ratings(columns: Columns) -> dict[str, Headers]:
    """The mapping of all names whose columns may hold ratings, sound or faulty."""
    others = {*_RESERVED, *VOTES}
    mapping = {name: columns.mapping[name] for name in columns.mapping if name not in others}
    return {
        name: headers
        for name, headers in mapping.items()
        if not is_known_text(name) and (len(headers) > 1 or columns.kind(headers[0]) != "text")
    }


def _headers_of(columns: Columns, name: str, groups: Mapping[str, Headers]) -> Headers:
    """The columns mapped to a dimension, called like it or like its annotators', or of labels."""
    if name in columns.mapping:
        return columns.mapping[name]
    column = columns.own_name(name)
    if columns.has(column):
        return (column,)
    by_key = {name_key(group): headers for group, headers in groups.items()}
    labels = () if columns.find_all(NESTED) else tuple(_label_columns(columns, name))
    return by_key.get(name_key(name)) or (labels if len(labels) == 1 else ())


def _guess_ratings(columns: Columns, numbers: Headers, groups: Mapping[str, Headers]) -> Headers:
    """The one column that is called a label, else all columns of numbers."""
    members = set[str]().union(*groups.values())
    guesses = tuple(column for column in numbers if column not in members)
    labels = tuple(filter(guesses.__contains__, _label_columns(columns, "label")))
    return labels if len(labels) == 1 else guesses


def _label_columns(columns: Columns, dimension: str) -> list[str]:
    """The columns that may hold the labels on a dimension when no column is called like it.

    Their names have a word for labels or one of the dimension's, which is not misspelled.
    """
    words, reserved = {*tokens(dimension)} | _LABELS, columns.used((*NOT_RATED, *VOTES))
    free = [c for c in (*columns.table.columns, *columns.nested_names) if c not in reserved]
    called = [column for column in free if _is_called(column, words)]
    labels = [column for column in called if columns.kind(column) in ("rating", "label")]
    return [] if _is_misspelled(columns, dimension, labels) else labels


def _is_called(column: str, words: set[str]) -> bool:
    """Whether a column, or a key inside one, has one of these words and none of another sense."""
    own = {*tokens(column.rpartition(DOT)[2])}
    return not own.isdisjoint(words) and own <= words | _OF_LABELS


def _is_misspelled(columns: Columns, dimension: str, labels: Collection[str]) -> bool:
    """Whether a name is nearly that of the catalogue or of a column beside the labels."""
    names = catalog.names()
    headers = [*names, *(column for column in columns.table.columns if column not in labels)]
    return dimension not in names and bool(get_close_matches(dimension, headers, 1, 0.85))


def _named_after(dimension: str, candidates: Iterable[str]) -> list[str]:
    words = {*tokens(dimension)}
    return [column for column in candidates if words and words <= {*tokens(column)}]


def _annotator_groups(candidates: Iterable[str]) -> dict[str, Headers]:
    """Columns such as `relevance (annotator 1)` by their dimension, where there are several."""
    groups: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_MARKED.fullmatch, candidates)):
        groups[name_key(match[1])].append(match)
    several = [group for group in groups.values() if len(group) > 1]
    return {group[0][1]: tuple(match[0] for match in group) for group in several}


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
    headers = layout.flat.get(name, ())
    # A column with the dimension's words in its name may be another annotator's.
    group = [*dict.fromkeys((*headers, *_named_after(name, layout.candidates)))]
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
    labels, names = _label_columns(columns, name), catalog.names()
    if labels or name in names or _is_misspelled(columns, name, labels):
        return labels
    return [column for column in layout.candidates if column.casefold() not in names]


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
        are_clear = not is_mark and _are_like_ratings(columns, layout.guesses[0])
    if not are_clear:
        likely = _label_columns(columns, "label") or [*layout.guesses]
        cells = [cell for name in likely for cell in columns.values(name) if not says_nothing(cell)]
        kind = "labels" if all(map(says_truth, cells)) else "numbers that may not be ratings"
        fault = f"{joined_names(likely)} {'holds' if len(likely) == 1 else 'hold'} {kind}"
        problems.add("annotators", fault, _guess_advice(likely, is_mark=is_mark))


def _guess_advice(likely: list[str], *, is_mark: bool) -> str:
    flags = " ".join(map_flag(name, [name]) for name in likely)
    advice = f"name what is rated, as in {flags}"
    if len(likely) > 1:
        common = set(tokens(likely[0])).intersection(*map(tokens, likely))
        join = map_flag("_".join(sorted(common)) or "NAME", likely)
        return f"where each is one annotator's, join them by {join}; else {advice}"
    turn = "; where 1 is the best, turn it by --values 1=6,2=5,3=4,4=3,5=2,6=1"
    return advice + turn if is_mark else advice


def _are_like_ratings(columns: Columns, column: str) -> bool:
    """Whether numbers may be ratings: on a usual scale, and not the numbers of the rows."""
    texts = [str(value).strip() for value in columns.values(column)]
    numbers = [float(text) for text in texts if _PLAIN_NUMBER.fullmatch(text)]
    if any(abs(number) > _MAX_RATING for number in numbers):
        return False
    are_whole = all(map(float.is_integer, numbers))
    return not are_whole or len(numbers) < _MIN_ROWS or len({*numbers}) < len(numbers)
