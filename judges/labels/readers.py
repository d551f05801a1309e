"""Reads a file of human labels, or raises an error that lists all of its problems."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from dspy_judges.startup import PROJECT_FOLDER
from judges.labels.columns import Columns
from judges.labels.conversations import CONVERSATION, JUDGE_MAPPINGS, with_texts
from judges.labels.flags import MapEntry, pop_scale, split_mapping
from judges.labels.outputs import read_outputs
from judges.labels.pairs import find_candidate_columns, holds_pairs, read_pair_rows
from judges.labels.rating_columns import find_ratings
from judges.labels.ratings import ReadOptions, TableRatings, read_ratings
from judges.labels.rows import latest_labels, stated_scales, without_footers
from judges.labels.tool_exports import as_plain_table
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale, Values, normalize_word
from judges.labels.weights import weigh
from judges.tables.formats import Table, read_table
from judges.tables.in_memory import Rows, is_in_memory, name_of
from judges.tables.problems import Problem, Problems, UnreadableError, joined_names

# Our names with the file's columns, `values` and a `scale`; or the path of such a mapping file.
ColumnMapping = Mapping[str, MapEntry] | str | Path
Source = str | Path | Rows
ItemKind = Literal["outputs", "pairs", ""]
LabelsAndProblems = tuple[LabelledSet | LabelledPairs | None, tuple[Problem, ...]]


def read_labels(
    path: Source,
    *,
    map: ColumnMapping | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: Values | None = None,
) -> LabelledSet:
    """Read labelled outputs from a file or from rows in memory.

    Args:
        path: A JSONL, JSON, CSV, TSV, .xlsx (`FILE.xlsx:SHEET`) or Parquet file; a data set
            `hf:owner/name` or `hf:owner/name:split`; or rows in memory: a pandas DataFrame, a
            Hugging Face Dataset or a list of dicts.
        map: Maps names such as `document` to the file's columns, or is the path of a mapping file.
            A column `a.b` is the key `b` of the objects in the column `a`. A dimension may have a
            list of columns, with one annotator each.
        dimensions: The dimensions to read; all of them by default.
        scales: Maps dimensions to their scales (low, high); the key "*" is for all others.
        texts: Names of texts that must be in every row; by default, those with usual names.
        annotations: A second file with the columns id, dimension, annotator and rating. Its ratings
            replace the first file's.
        values: Maps words to the numbers that they stand for, such as `{"good": 3, "n/a": None}`;
            None is a missing rating.

    Raises:
        LabelError: If the file has problems; `problems` holds all of them.
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
    path: Source,
    *,
    map: ColumnMapping | None = None,
    texts: Sequence[str] | None = None,
    values: Values | None = None,
) -> LabelledPairs:
    """Read labelled pairs from a file or from rows in memory.

    The two outputs of a pair are in `response_a` and `response_b`, or in columns of another name
    with the ends `_a` and `_b`, or `_1` and `_2`. People's votes are in `votes` (a list),
    `preferred` or `preference`. A vote is A, B, tie, 1, 2 or 1.5 (a tie). Votes in several columns,
    or in several annotators' rows, are joined. Pairs without a vote are left out, and a note counts
    them.

    Args:
        path: A file or rows in memory, as for `read_labels`.
        map: Maps names such as `prompt` to the file's columns, or is the path of a mapping file.
        texts: Names of texts that must be in every row; by default, those with usual names.
        values: Maps further words to votes, such as `{"left": "A"}`.

    Raises:
        LabelError: If the file has problems; `problems` holds all of them.
    """
    labelled = _read(path, replace(_read_options(map, values), texts=texts), holds="pairs")
    assert isinstance(labelled, LabelledPairs)
    return labelled


def read_items(
    path: Source, *, map: ColumnMapping | None = None, pairwise: bool = False
) -> LabelledSet | LabelledPairs:
    """Read outputs, or pairs if `pairwise`, that people have yet to label.

    `path` and `map` are those of `read_labels`. The file needs no labels. If it has any, they are
    not read. Columns of labels, of comments and of reference answers are not among the texts, since
    people could tell the label from them. Raises LabelError with all `problems`.
    """
    options = replace(_read_options(map, None), labelled=False)
    return _read(path, options, holds="pairs" if pairwise else "outputs")


def _read_options(
    map: ColumnMapping | None, values: Values | None, scales: Mapping[str, Scale] | None = None
) -> ReadOptions:
    columns, words = split_mapping(map, values)
    scale = pop_scale(columns)
    file_scales = {} if scale is None else {"*": scale}
    return ReadOptions(map=columns, values=words, scales=scales or file_scales)


def _read(path: Source, options: ReadOptions, *, holds: ItemKind) -> LabelledSet | LabelledPairs:
    """Return the labels in a file.

    Raises LabelError, which describes the first problem, counts the others, and names the command
    that lists them.
    """
    labelled, problems = check_file(path, options, holds=holds)
    if labelled is not None and not problems:
        return labelled
    check = "" if is_in_memory(path) else f": dspy-judges check {shlex.quote(str(path))}"
    more = f" (and {len(problems) - 1:,} more{check})" if len(problems) > 1 else ""
    raise LabelError(f"{problems[0]}{more}", problems)


def check_file(path: Source, options: ReadOptions, *, holds: ItemKind = "") -> LabelsAndProblems:
    """Return the labels that could be read from a file (None if none could), and all its problems.

    `holds` says whether the file holds outputs or pairs. If it is "", the file holds outputs if
    `options` have dimensions or annotations; else its columns decide.
    """
    problems, long_problems = Problems(name_of(path)), Problems(str(options.annotations))
    table = read_table(SHIPPED_NAMES.get(problems.file, path), problems)
    long = _read_long_file(options, long_problems)
    labelled: LabelledSet | LabelledPairs | None = None
    if table is not None:
        if problems.file in SHIPPED_NAMES:
            table = replace(table, name=problems.file)
        kind = holds or ("outputs" if options.dimensions or options.annotations else "")
        with problems.collect():
            columns = _columns_of(as_plain_table(table, options), options)
            if kind == "pairs" or (not kind and holds_pairs(columns)):
                labelled = _read_pairs(columns, problems, options)
            else:
                labelled = _read_outputs(columns, problems, options, long)
    if long is not None and isinstance(labelled, LabelledSet):
        labelled = _with_long_file(labelled, long, options, long_problems)
    return labelled, (*long_problems, *problems)


def _read_pairs(columns: Columns, problems: Problems, options: ReadOptions) -> LabelledPairs:
    """Read the pairs; UnreadableError if the file has rated outputs and no pairs."""
    if (
        options.labelled
        and find_candidate_columns(columns) is None
        and columns.has_nested_or_long_ratings
    ):
        advice = "read it with read_labels, or tune on it with --dimension"
        raise UnreadableError("outputs", "holds rated outputs, not pairs", advice)
    return read_pair_rows(columns, problems, options)


def _read_outputs(
    columns: Columns, problems: Problems, options: ReadOptions, long: TableRatings | None
) -> LabelledSet:
    """Read the outputs; UnreadableError if the file holds pairs and no long file rates outputs."""
    sides = None if long and long.by_item else find_candidate_columns(columns)
    names_ratings = (
        options.dimensions is not None or columns.mapping or columns.has_nested_or_long_ratings
    )
    if sides is not None and not (names_ratings and not holds_pairs(columns)):
        advice = "give pairs to label with --pairwise NAME; plan does not read pairs"
        if options.labelled:
            advice = "name people's choice with --map votes=COLUMN and tune with --pairwise, or "
            advice += "name a column of ratings with --dimension COLUMN"
        fault = f"holds pairs of candidates, {joined_names(sides.columns)}"
        raise UnreadableError("pairs", fault, advice)
    labelled = weigh(read_outputs(columns, problems, options, long), columns, problems)
    return replace(labelled, scales=stated_scales(columns))


def _with_long_file(
    labelled: LabelledSet, long: TableRatings, options: ReadOptions, problems: Problems
) -> LabelledSet:
    """Add the weights, scales and notes of the long file to the outputs that it rates."""
    labelled = weigh(labelled, long.columns, problems)
    notes = [f"{options.annotations}: {note}" for note in problems.notes]
    both_hashes = f"{labelled.sha256}{long.columns.table.sha256}"
    return replace(
        labelled,
        notes=(*labelled.notes, *notes),
        sha256=hashlib.sha256(both_hashes.encode()).hexdigest(),
        scales=stated_scales(long.columns),
    )


def _columns_of(table: Table, options: ReadOptions) -> Columns:
    """Return the columns of a table that is ready to be read.

    Footers are removed, conversations are texts, and only each annotator's latest label is kept.
    """
    words = [normalize_word(w) for w, n in options.values.items() if isinstance(n, int | float)]
    mapping = {
        name: column for name, column in options.map.items() if (name, column) not in JUDGE_MAPPINGS
    }
    judge_whole = JUDGE_MAPPINGS[1] in options.map.items() or CONVERSATION in (options.texts or ())
    table = with_texts(without_footers(table), mapping, judge_whole=judge_whole)
    return latest_labels(Columns(table, mapping, options.texts or (), words, options.labelled))


def _read_long_file(options: ReadOptions, problems: Problems) -> TableRatings | None:
    """Return the ratings in the file `options.annotations`; None if there is none to read."""
    path = options.annotations
    if path is None or (table := read_table(path, problems)) is None:
        return None
    with problems.collect():
        columns = latest_labels(Columns(as_plain_table(table, options, has_outputs=False)))
        if columns.find("id") is None:
            advice = (
                "give a file with the columns id and label, or id, dimension, annotator, rating"
            )
            raise UnreadableError("no-column", "has no column of ids", advice)
        _check_rated_once(columns, problems)
        layout = find_ratings(columns, options.dimensions)
        ratings = read_ratings(columns, layout, options, problems)
        problems.notes = [*columns.table.notes, *ratings.notes]
        return ratings
    return None


def _check_rated_once(columns: Columns, problems: Problems) -> None:
    """Add a problem for each output that has a second row, unless each row is by one annotator."""
    keys = set[str]()
    for row in () if columns.has_row_per_annotator else columns.table.rows:
        key = columns.item_key(row)
        if key in keys:
            advice = "keep one of the two, or say who gave each in a column annotator"
            problems.add("twice", "is rated twice", advice, line=row.line, field="id", value=key)
        keys.add(key)


_STARTER = PROJECT_FOLDER / "data" / "starter"

SHIPPED_NAMES = {
    "starter": _STARTER / "outputs.jsonl",
    "starter_pairs": _STARTER / "pairs.jsonl",
    "starter_unlabelled": _STARTER / "unlabelled.jsonl",
}


@cache
def is_constructed(sha256: str) -> bool:
    """Whether a file's hash is that of a starter file, whatever the file is called."""
    files = (SHIPPED_NAMES["starter"], SHIPPED_NAMES["starter_pairs"])
    return any(hashlib.sha256(path.read_bytes()).hexdigest() == sha256 for path in files)


def starter() -> LabelledSet:
    """Return the outputs of the starter set. Their ratings are constructed, not given by people."""
    return read_labels("starter")


def starter_pairs() -> LabelledPairs:
    """Return the pairs of the starter set. Their votes are constructed, not given by people."""
    return read_pairs("starter_pairs")
