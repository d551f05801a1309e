"""Reads files of human labels. If a file has problems, LabelError lists all of them."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from dspy_judges.startup import PROJECT_FOLDER
from judges.labels.cells import without_keys
from judges.labels.columns import VOTE_COLUMNS, Columns, without_missing_columns
from judges.labels.conversations import table_with_texts
from judges.labels.export_reader import convert_tool_export
from judges.labels.names import is_text_name
from judges.labels.options import MappingValue, ReadOptions, read_options
from judges.labels.outputs import no_labels_error, read_outputs
from judges.labels.pairs import read_pair_rows
from judges.labels.preparation import with_latest_labels, with_weights_and_scales, without_footers
from judges.labels.ratings import TableRatings, read_ratings
from judges.labels.roles import ItemKind, Roles, infer_roles
from judges.labels.rows import check_unique_ids
from judges.labels.types import AnyLabels, LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale, WordValues
from judges.tables.formats import Table, read_table
from judges.tables.in_memory import Rows, is_in_memory, table_name
from judges.tables.problems import Problem, Problems, UnreadableError, joined_names

# Maps names such as `document` to the file's columns, or is a mapping file's path. Three keys name
# no column: `values` holds the numbers for words, `scale` the scale, `turns` is "last" or "all".
ColumnMapping = Mapping[str, MappingValue] | str | Path
FileOrRows = str | Path | Rows
# The roles of columns that rows have before people label them.
_UNLABELLED_ROLES = ("id", "group", "system", "system_a", "system_b", "response_a", "response_b")


def read_labels(
    path: FileOrRows,
    *,
    map: ColumnMapping | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: WordValues | None = None,
) -> LabelledSet:
    """Read labelled outputs from a file or from rows in memory.

    Args:
        path: A JSONL, JSON, CSV, TSV, .xlsx (`FILE.xlsx:SHEET`) or Parquet file; a data set
            `hf:owner/name` or `hf:owner/name:split`; or rows in memory: a DataFrame of
            pandas or polars, a Hugging Face Dataset or a list of dicts.
        map: Maps names such as `document` to the file's columns, or is the path of a mapping file.
            A column `a.b` is the key `b` of the objects in the column `a`. A dimension may be
            mapped to a list of columns, if each holds the ratings of one annotator.
        dimensions: The dimensions to read; by default, all dimensions.
        scales: Maps dimensions to their scales (low, high). The key "*" is for all dimensions
            without a scale of their own.
        texts: Names of texts that must be in every row; by default, those of the file
            that have a usual name, such as `document`.
        annotations: A second file with the columns id, dimension, annotator and rating. Its labels
            replace those in the first file.
        values: Maps words to their numbers, as in `{"good": 3, "n/a": None}` (None: no rating).

    Raises:
        LabelError: If the file has problems; `problems` holds all of them.
    """
    options = replace(
        read_options(map, values, scales),
        dimensions=dimensions,
        texts=texts,
        annotations=annotations,
    )
    labelled_set = read_labelled_items(path, options, item_kind="outputs")
    assert isinstance(labelled_set, LabelledSet)
    return labelled_set


def read_pairs(
    path: FileOrRows,
    *,
    map: ColumnMapping | None = None,
    texts: Sequence[str] | None = None,
    values: WordValues | None = None,
) -> LabelledPairs:
    """Read labelled pairs from a file or from rows in memory.

    The two outputs of a pair are in the columns `response_a` and `response_b`, or in two columns
    such as `answer_a` and `answer_b`, or `answer_1` and `answer_2`. People's votes are in the
    column `votes` (a list), `vote`, `preferred`, `preference` or `winner`. A vote is A, B, tie, 1,
    2 or 1.5 (a tie). The votes on a pair may be in several columns, or in several annotators' rows.
    Pairs without a vote are left out, and a note says how many.

    Args:
        path: A file or rows in memory, as for `read_labels`.
        map: Maps names such as `prompt` to the file's columns, or is the path of a mapping file.
        texts: Names of texts that must be in every row; by default, those of the file
            that have a usual name, such as `document`.
        values: Maps further words to votes, such as `{"left": "A"}`.

    Raises:
        LabelError: If the file has problems; `problems` holds all of them.
    """
    options = replace(read_options(map, values), texts=texts)
    labelled_pairs = read_labelled_items(path, options, item_kind="pairs")
    assert isinstance(labelled_pairs, LabelledPairs)
    return labelled_pairs


def read_items(
    path: FileOrRows, *, map: ColumnMapping | None = None, pairwise: bool = False
) -> AnyLabels:
    """Read outputs, or pairs if `pairwise`, that people have yet to label.

    `path` and `map` are as for `read_labels`. Labels in the file are not read. Columns of labels,
    comments and reference answers are not among the texts, since they may reveal the label.
    """
    options = replace(read_options(map), reads_labels=False)
    return read_labelled_items(path, options, item_kind="pairs" if pairwise else "outputs")


def read_labelled_items(
    path: FileOrRows, options: ReadOptions, *, item_kind: ItemKind
) -> AnyLabels:
    """Return the labels in a file; raises LabelError with the file's most important problems.

    `read_labels` and `read_pairs` call this function, which takes all options in one object.
    """
    labelled_items, problems = check_file(path, options, item_kind=item_kind)
    if labelled_items is not None and not problems:
        return labelled_items
    shown_problems = [problem for problem in problems if problem.line is None] or problems[:1]
    message = "; ".join(map(str, shown_problems))
    if n_more := len(problems) - len(shown_problems):
        # If the user asks for certain texts, `check` would not report the same problems.
        can_check = not (options.texts or is_in_memory(path))
        command = f": dspy-judges check {shlex.quote(str(path))}" if can_check else ""
        message += f" (and {n_more:,} more{command})"
    raise LabelError(message, problems)


def check_file(
    path: FileOrRows, options: ReadOptions, *, item_kind: ItemKind = ""
) -> tuple[AnyLabels | None, tuple[Problem, ...]]:
    """Return a file's labels (None if they cannot be read), and all problems in the file.

    For the `item_kind` "", a file is read as outputs if `options` name dimensions or a file of
    annotations, else as its columns suggest.
    """
    problems, annotation_problems = Problems(table_name(path)), Problems(str(options.annotations))
    table = read_table(STARTER_FILE_BY_NAME.get(problems.file, path), problems)
    annotations = _read_annotations_file(options, annotation_problems)
    labelled_items: AnyLabels | None = None
    if table is not None and (annotations is not None or not options.annotations):
        if problems.file in STARTER_FILE_BY_NAME:
            table = replace(table, name=problems.file)
        if not item_kind and (options.dimensions or options.annotations):
            item_kind = "outputs"
        with problems.collect():
            labelled_items = _read_items(table, options, item_kind, annotations, problems)
    if annotations is not None and isinstance(labelled_items, LabelledSet):
        labelled_items = with_weights_and_scales(labelled_items, annotations.roles, problems)
        both_hashes = f"{labelled_items.sha256}{annotations.roles.columns.table.sha256}"
        sha256 = hashlib.sha256(both_hashes.encode()).hexdigest()
        labelled_items = replace(labelled_items, sha256=sha256)
    if labelled_items is not None:
        other_notes = [f"{annotation_problems.file}: {note}" for note in annotation_problems.notes]
        labelled_items = replace(labelled_items, notes=(*problems.notes, *other_notes))
    return labelled_items, (*annotation_problems, *problems)


def _read_items(
    table: Table,
    options: ReadOptions,
    item_kind: ItemKind,
    annotations: TableRatings | None,
    problems: Problems,
) -> AnyLabels:
    """Read a table as outputs or pairs. Raises UnreadableError for pairs if outputs are needed."""
    table = _plain_table(table, options, problems)
    if not options.reads_labels:
        options = _without_missing_labels(table, options, problems)
    if annotations is not None:
        # With --map, the user may name columns of both files.
        names_in_other_file = annotations.roles.columns.by_name.keys()
        options = without_missing_columns(options, table, names_in_other_file)
    roles = infer_roles(with_latest_labels(table, options, problems), options, item_kind)
    if not roles.is_pairwise and annotations is None:
        _check_outputs(roles)
    problems.extend(roles.problems)
    problems.notes += roles.notes
    if roles.is_pairwise:
        return read_pair_rows(roles, problems)
    return with_weights_and_scales(read_outputs(roles, problems, annotations), roles, problems)


def _check_outputs(roles: Roles) -> None:
    """Raise UnreadableError if the rows of a table of outputs seem to be pairs.

    If the table has ratings and no votes, the user must name columns or dimensions.
    """
    columns, options = roles.columns, roles.options
    ratings_are_named = (
        options.dimensions is not None or columns.by_name or columns.is_long or columns.nested
    )
    if roles.responses and (roles.look_like_pairs or not ratings_are_named):
        fault = f"holds pairs of outputs, {joined_names(roles.responses.columns)}"
        advice = (
            "name the votes with --map votes=COLUMN, and the judge of pairs with --pairwise NAME; "
            "or name a column of ratings with --dimension COLUMN"
        )
        if not options.reads_labels:
            advice = "plan cannot plan pairs; label them by dspy-judges label FILE --pairwise NAME"
        raise UnreadableError("pairs", fault, advice)


def _without_missing_labels(table: Table, options: ReadOptions, problems: Problems) -> ReadOptions:
    """Return the options without each --map of a missing column of labels, and add a note on it.

    A mapping file may name columns that the rows will only have once people have labelled them.
    """
    user_columns = Columns(table, options).by_name
    label_names = [n for n in user_columns if not (is_text_name(n) or n in _UNLABELLED_ROLES)]
    options = without_missing_columns(options, table, label_names)
    for name, columns in without_keys(user_columns, options.columns_by_name).items():
        problems.notes.append(f"{name} is not read: there is no column {joined_names(columns)}")
    return options


def _plain_table(table: Table, options: ReadOptions, problems: Problems) -> Table:
    """Convert a tool's export and conversations to plain rows; leave out rows of means or sums."""
    table = without_footers(convert_tool_export(table, options, problems), problems)
    return table_with_texts(table, options, problems.notes)


def _read_annotations_file(options: ReadOptions, problems: Problems) -> TableRatings | None:
    """Return the ratings in the file `options.annotations`; None without a readable file."""
    path = options.annotations
    if path is None or (table := read_table(path, problems)) is None:
        return None
    with problems.collect():
        options = replace(options, texts=(), annotations=None)
        table = _plain_table(table, options, problems)
        # With --map, the user may name columns of both files.
        options = without_missing_columns(options, table)
        roles = infer_roles(with_latest_labels(table, options, problems), options, "outputs")
        problems.extend(roles.problems)
        columns = roles.columns
        if columns.find("id") is None:
            fault = f"has no column of ids; the columns are {columns.names_text}"
            raise UnreadableError("no-column", fault, "name the ids with --map id=COLUMN")
        check_unique_ids(roles, problems, "keep one of the two rows")
        ratings = read_ratings(roles, problems)
        vote_columns = columns.find_all(VOTE_COLUMNS)
        if vote_columns and not ratings.by_output:
            column = vote_columns[0]
            fault = f"has votes on pairs ({column}), which are read only from the pairs' own file"
            raise UnreadableError("pairs", fault, f"add the column {column} to that file, by id")
        if not (ratings.by_output or problems or options.dimensions):
            raise no_labels_error(roles)
        return ratings
    return None


_STARTER_FOLDER = PROJECT_FOLDER / "data" / "starter"

# The files of the starter set, by names that a user may give in place of a path.
STARTER_FILE_BY_NAME = {
    "starter": _STARTER_FOLDER / "outputs.jsonl",
    "starter_pairs": _STARTER_FOLDER / "pairs.jsonl",
    "starter_unlabelled": _STARTER_FOLDER / "unlabelled.jsonl",
}


@cache
def is_constructed(sha256: str) -> bool:
    """Return whether a hash is that of a labelled file of the starter set."""
    files = (STARTER_FILE_BY_NAME["starter"], STARTER_FILE_BY_NAME["starter_pairs"])
    return any(hashlib.sha256(path.read_bytes()).hexdigest() == sha256 for path in files)


def starter() -> LabelledSet:
    """Return the starter set's labelled outputs, whose ratings are constructed, not human."""
    return read_labels("starter")


def starter_pairs() -> LabelledPairs:
    """Return the starter set's labelled pairs, whose votes are constructed, not human."""
    return read_pairs("starter_pairs")
