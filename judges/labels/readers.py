"""Read a file of human labels, whole, or refuse it with every problem it has."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from dspy_judges.startup import HOME
from judges.labels.columns import Columns
from judges.labels.conversations import CONVERSATION, JUDGED, with_texts
from judges.labels.flags import MapEntry, pop_scale, split_mapping
from judges.labels.outputs import read_outputs
from judges.labels.pairs import find_sides, holds_pairs, read_pair_rows
from judges.labels.rating_columns import find_ratings
from judges.labels.ratings import ReadOptions, ReadRatings, read_ratings
from judges.labels.rows import latest_labels, stated_scales, without_footers
from judges.labels.tool_exports import as_plain_table
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale, Values, word_of
from judges.labels.weights import weigh
from judges.tables.formats import Table, read_table
from judges.tables.in_memory import Rows, is_in_memory, name_of
from judges.tables.problems import Problem, Problems, UnreadableError, joined_names

# The file's columns by our names, with `values` and a `scale`; or a mapping file with these.
Mapped = Mapping[str, MapEntry] | str | Path
AnySource = str | Path | Rows
Held = Literal["outputs", "pairs", ""]
Reading = tuple[LabelledSet | LabelledPairs | None, tuple[Problem, ...]]


def read_labels(
    path: AnySource,
    *,
    map: Mapped | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: Values | None = None,
) -> LabelledSet:
    """Read labelled outputs; LabelError has all `problems`.

    `path` is JSONL, JSON, CSV, TSV, .xlsx (`FILE.xlsx:SHEET`), Parquet, `hf:owner/name` (or
    `hf:owner/name:split`), or rows in memory: a DataFrame, a Dataset, a list of dicts. `map` gives
    our names the file's columns, or is a mapping file; `a.b` reaches into a nested column, a list
    of columns has one annotator in each. `dimensions` are read and no other. `scales` gives (low,
    high) by dimension, "*" for all others. `texts` must stand in every row; by default, every text
    of a usual name must. `annotations` is a long file (id, dimension, annotator, rating) whose
    ratings replace the first file's. `values` are words and what they count (`{"good": 3, "n/a":
    None}`).
    """
    options = replace(
        _read_options(map, values, scales),
        dimensions=dimensions,
        texts=texts,
        annotations=annotations,
    )
    labelled = _read(path, options, holds="outputs")
    assert isinstance(labelled, LabelledSet)
    return labelled


def read_pairs(
    path: AnySource,
    *,
    map: Mapped | None = None,
    texts: Sequence[str] | None = None,
    values: Values | None = None,
) -> LabelledPairs:
    """Read labelled pairs from any of the formats of `read_labels`; LabelError has all `problems`.

    The two sides are `response_a` and `response_b`, or another word with `_a`, `_b` or `_1`, `_2`;
    people's choice is `votes` (a list), `preferred` or `preference`: A, B, tie, 1, 2 or 1.5, or
    other words by `values` (`{"left": "A"}`). Several columns of votes, or rows of several
    annotators, are joined. Pairs without a vote are left out and noted.
    """
    labelled = _read(path, replace(_read_options(map, values), texts=texts), holds="pairs")
    assert isinstance(labelled, LabelledPairs)
    return labelled


def read_items(
    path: AnySource, *, map: Mapped | None = None, pairwise: bool = False
) -> LabelledSet | LabelledPairs:
    """Read outputs, or pairs, for somebody who is to label them; LabelError has all `problems`.

    Files and names are those of `read_labels`. No label is needed; those of the file are passed
    over, and neither they nor comments nor what may tell of them are among the texts.
    """
    options = replace(_read_options(map, None), labelled=False)
    return _read(path, options, holds="pairs" if pairwise else "outputs")


def _read_options(
    map: Mapped | None, values: Values | None, scales: Mapping[str, Scale] | None = None
) -> ReadOptions:
    columns, words = split_mapping(map, values)
    scale = pop_scale(columns)
    of_file = {} if scale is None else {"*": scale}
    return ReadOptions(map=columns, values=words, scales=scales or of_file)


def _read(path: AnySource, options: ReadOptions, *, holds: Held) -> LabelledSet | LabelledPairs:
    """The labels; LabelError names the first problem, how many follow, and what lists them."""
    labelled, problems = check_file(path, options, holds=holds)
    if labelled is not None and not problems:
        return labelled
    check = "" if is_in_memory(path) else f": dspy-judges check {shlex.quote(str(path))}"
    more = f" (and {len(problems) - 1:,} more{check})" if len(problems) > 1 else ""
    raise LabelError(f"{problems[0]}{more}", problems)


def check_file(path: AnySource, options: ReadOptions, *, holds: Held = "") -> Reading:
    """Return what could be read of a file, and all its problems.

    `holds` is "outputs" or "pairs"; if empty, the file decides, unless dimensions or annotations
    say that it holds outputs.
    """
    problems, long_problems = Problems(name_of(path)), Problems(str(options.annotations))
    table = read_table(SHIPPED_NAMES.get(problems.file, path), problems)
    long = _read_long_file(options, long_problems)
    labelled: LabelledSet | LabelledPairs | None = None
    if table is not None:
        if problems.file in SHIPPED_NAMES:
            table = replace(table, name=problems.file)
        named = holds or ("outputs" if options.dimensions or options.annotations else "")
        with problems.collect():
            columns = _columns_of(as_plain_table(table, options), options)
            if named == "pairs" or (not named and holds_pairs(columns)):
                labelled = _read_pairs(columns, problems, options)
            else:
                labelled = _read_outputs(columns, problems, options, long)
    if long is not None and isinstance(labelled, LabelledSet):
        labelled = _with_long_file(labelled, long, options, long_problems)
    return labelled, (*long_problems, *problems)


def _read_pairs(columns: Columns, problems: Problems, options: ReadOptions) -> LabelledPairs:
    """The pairs; UnreadableError where labels of outputs show that the file holds none."""
    if options.labelled and find_sides(columns) is None and columns.has_ratings_without_flags:
        advice = "read it with read_labels, or tune on it with --dimension"
        raise UnreadableError("outputs", "holds rated outputs, not pairs", advice)
    return read_pair_rows(columns, problems, options)


def _read_outputs(
    columns: Columns, problems: Problems, options: ReadOptions, long: ReadRatings | None
) -> LabelledSet:
    """The outputs; UnreadableError where the file holds pairs, unless a long file rates outputs."""
    sides = None if long and long.by_item else find_sides(columns)
    has_names = (
        options.dimensions is not None or columns.mapping or columns.has_ratings_without_flags
    )
    if sides is not None and not (has_names and not holds_pairs(columns)):
        advice = "label takes pairs by --pairwise NAME, plan takes none"
        if options.labelled:
            advice = "name people's choice with --map votes=COLUMN and tune with --pairwise, or "
            advice += "name a column of ratings with --dimension COLUMN"
        fault = f"holds pairs of candidates, {joined_names(sides.columns)}"
        raise UnreadableError("pairs", fault, advice)
    labelled = weigh(read_outputs(columns, problems, options, long), columns, problems)
    return replace(labelled, scales=stated_scales(columns))


def _with_long_file(
    labelled: LabelledSet, long: ReadRatings, options: ReadOptions, problems: Problems
) -> LabelledSet:
    """The outputs with the weights, scales and notes of the long file that rates them."""
    labelled = weigh(labelled, long.columns, problems)
    notes = [f"{options.annotations}: {note}" for note in problems.notes]
    both = f"{labelled.sha256}{long.columns.table.sha256}"
    return replace(
        labelled,
        notes=(*labelled.notes, *notes),
        sha256=hashlib.sha256(both.encode()).hexdigest(),
        scales=stated_scales(long.columns),
    )


def _columns_of(table: Table, options: ReadOptions) -> Columns:
    """The table's columns: conversations as texts, without footers, with each latest label."""
    words = [word_of(w) for w, n in options.values.items() if isinstance(n, int | float)]
    mapping = {name: own for name, own in options.map.items() if (name, own) not in JUDGED}
    whole = JUDGED[1] in options.map.items() or CONVERSATION in (options.texts or ())
    table = with_texts(without_footers(table), mapping, whole=whole)
    return latest_labels(Columns(table, mapping, options.texts or (), words, options.labelled))


def _read_long_file(options: ReadOptions, problems: Problems) -> ReadRatings | None:
    """A long file's ratings; None where there is no such file."""
    path = options.annotations
    if path is None or (table := read_table(path, problems)) is None:
        return None
    with problems.collect():
        columns = latest_labels(Columns(as_plain_table(table, options, is_beside=True)))
        if columns.find("id") is None:
            advice = (
                "give a file with the columns id and label, or id, dimension, annotator, rating"
            )
            raise UnreadableError("no-column", "has no column of ids", advice)
        _check_once(columns, problems)
        layout = find_ratings(columns, options.dimensions)
        ratings = read_ratings(columns, layout, options, problems)
        problems.notes = [*columns.table.notes, *ratings.notes]
        return ratings
    return None


def _check_once(columns: Columns, problems: Problems) -> None:
    """Add a problem for a second row of an output, unless each row is one annotator's."""
    keys = set[str]()
    for row in () if columns.has_row_per_annotator else columns.table.rows:
        key = columns.item_key(row)
        if key in keys:
            advice = "keep one of the two, or name who gave each in a column annotator"
            problems.add("twice", "is rated twice", advice, line=row.line, field="id", value=key)
        keys.add(key)


_STARTER = HOME / "data" / "starter"

SHIPPED_NAMES = {
    "starter": _STARTER / "outputs.jsonl",
    "starter_pairs": _STARTER / "pairs.jsonl",
    "starter_unlabelled": _STARTER / "unlabelled.jsonl",
}


@cache
def is_constructed(sha256: str) -> bool:
    """Whether a file has the bytes of the starter set, whatever it is called."""
    files = (SHIPPED_NAMES["starter"], SHIPPED_NAMES["starter_pairs"])
    return any(hashlib.sha256(path.read_bytes()).hexdigest() == sha256 for path in files)


def starter() -> LabelledSet:
    """Return the starter outputs, whose ratings are constructed, not given by people."""
    return read_labels("starter")


def starter_pairs() -> LabelledPairs:
    """Return the starter pairs, whose votes are constructed, not given by people."""
    return read_pairs("starter_pairs")
