"""Read a file of human labels, whole, or refuse it with every problem it has."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from data.column_groups import joined_choices
from data.columns import ColumnNames, Columns
from data.flags import map_flags, read_values, scale_flags, values_flags
from data.labels import find_sides, holds_pairs, read_outputs, read_pair_rows
from data.ratings import Ratings, ReadOptions, read_long
from data.tables.formats import read_table
from data.tables.in_memory import Rows, is_in_memory, name_of
from data.tables.problems import Problem, Problems, excerpt, joined_names
from data.types import LabelError, LabelledPairs, LabelledSet, Vote
from data.values import Scale, Values


def read_labels(
    path: str | Path | Rows,
    *,
    map: Mapping[str, ColumnNames] | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: Values | None = None,
    remembered: Mapping[str, object] | None = None,
) -> LabelledSet:
    """Read labelled outputs from JSONL, JSON, CSV, TSV, .xlsx, Parquet or a Hugging Face set.

    `path` may be rows in memory (a DataFrame, a Dataset, a list of dicts), a folder made by
    `Dataset.save_to_disk`, or `hf:owner/name`, either with `:split`, or `FILE.xlsx:SHEET`.
    `map` gives our names the file's columns (`{"document": "article"}`); `a.b` reaches into a
    nested one, and a list of columns holds one annotator's ratings in each. Rows of several
    annotators (a column `annotator`) are joined by id. `dimensions` are read and no other, and
    each must be rated somewhere; an output without a rating on one is kept and noted. `scales`
    gives (low, high) by dimension, "*" for all others. `texts` must stand in every row, and no
    other; by default every text of a usual name must. `annotations` is a long file (id, dimension,
    annotator, rating) whose ratings replace the first file's by id and dimension. `values` are
    words and what they count (`{"good": 3, "n/a": None}`), before all that a column's cells say.
    `remembered` is an earlier file's mapping and words (`Reading.record`), used where they fit.
    Raises LabelError, whose `problems` are all there are.
    """
    labelled, problems = check_labels(
        path,
        map=map,
        dimensions=dimensions,
        scales=scales,
        texts=texts,
        annotations=annotations,
        values=values,
        remembered=remembered,
    )
    if labelled is None or problems:
        flags = [*_flags("--dimension", dimensions), *map_flags(map), *scale_flags(scales)]
        flags += [*values_flags(values), *_flags("--text", texts)]
        flags += _flags("--annotations", None if annotations is None else [str(annotations)])
        raise refusal(problems, [] if is_in_memory(path) else [str(path), *flags])
    return labelled


def read_pairs(
    path: str | Path | Rows,
    *,
    map: Mapping[str, ColumnNames] | None = None,
    texts: Sequence[str] | None = None,
    values: Values | None = None,
    remembered: Mapping[str, object] | None = None,
) -> LabelledPairs:
    """Read labelled pairs from any of the formats of `read_labels`.

    The two sides are `response_a` and `response_b`, or another word with `_a`, `_b` or `_1`, `_2`;
    people's choice is `votes` (a list), `preferred` or `preference`, in the words A, B and tie or
    the numbers 1, 2 and 1.5; several columns of votes, or rows of several annotators (a column
    `annotator`), are joined. Pairs without a vote are left out and noted. `values` are other words
    (`{"left": "A", "0": "B"}`). `texts` as `read_labels`.
    Raises LabelError, whose `problems` are all there are.
    """
    labelled, problems = check_pairs(
        path, map=map, texts=texts, values=values, remembered=remembered
    )
    if labelled is None or problems:
        flags = ["--pairs", *map_flags(map), *values_flags(values), *_flags("--text", texts)]
        raise refusal(problems, [] if is_in_memory(path) else [str(path), *flags])
    return labelled


def _name(source: str | Path | Rows) -> str:
    return name_of(source) if is_in_memory(source) else str(source)


def _flags(flag: str, values: Sequence[str] | None) -> list[str]:
    return [word for value in values or () for word in (flag, value)]


def check_labels(
    path: str | Path | Rows,
    *,
    map: Mapping[str, ColumnNames] | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: Values | None = None,
    remembered: Mapping[str, object] | None = None,
) -> tuple[LabelledSet | None, tuple[Problem, ...]]:
    """Read as `read_labels`, and return what could be read and all problems."""
    problems = Problems(_name(path))
    options = ReadOptions(
        dimensions=dimensions, scales=scales or {}, texts=texts, values=values or {}
    )
    columns, options = _read_columns(path, problems, map, options, remembered)
    return _check_outputs(columns, problems, options, annotations)


def check_pairs(
    path: str | Path | Rows,
    *,
    map: Mapping[str, ColumnNames] | None = None,
    texts: Sequence[str] | None = None,
    values: Values | None = None,
    remembered: Mapping[str, object] | None = None,
) -> tuple[LabelledPairs | None, tuple[Problem, ...]]:
    """Read as `read_pairs`, and return what could be read and all problems."""
    problems = Problems(_name(path))
    options = ReadOptions(texts=texts, values=values or {})
    columns, options = _read_columns(path, problems, map, options, remembered)
    return _check_pairs(columns, problems, options)


def check_either(
    path: str | Path,
    *,
    map: Mapping[str, ColumnNames],
    options: ReadOptions,
    annotations: str | Path | None = None,
) -> tuple[LabelledSet | LabelledPairs | None, tuple[Problem, ...]]:
    """The same for what the file looks like; with dimensions or annotations it holds outputs."""
    problems = Problems(str(path))
    columns, options = _read_columns(path, problems, map, options)
    outputs = options.dimensions or annotations
    if columns is not None and not outputs and holds_pairs(columns):
        return _check_pairs(columns, problems, options)
    return _check_outputs(columns, problems, options, annotations)


def _read_columns(
    path: str | Path | Rows,
    problems: Problems,
    mapping: Mapping[str, ColumnNames] | None,
    options: ReadOptions,
    remembered: Mapping[str, object] | None = None,
) -> tuple[Columns | None, ReadOptions]:
    """The file's columns, with the `remembered` mapping and words where they fit; the options."""
    table = read_table(path, problems)
    if table is None:
        return None, options
    table, mapping = joined_choices(table, mapping or {}, options.dimensions or ())
    file_columns = Columns(table, mapping)
    old_mapping, old_values = remembered_reading(remembered or {})
    if not (old_mapping or old_values):
        return file_columns, options
    old_columns = Columns(table, old_mapping).mapping
    read_from = {
        name: f"{name} from {' and '.join(excerpt(column) for column in columns)}"
        for name, columns in old_columns.items()
        if name not in file_columns.mapping
    }
    names = ", ".join(read_from.values())
    fitting = file_columns.with_remembered(old_mapping)
    if fitting is None:
        file_columns.notes = (f"the judge's own labels were read otherwise: {names}",)
        return file_columns, options
    words = " ".join(values_flags({} if options.values else old_values)).replace("--values ", "")
    if how := "; ".join(part for part in (names, words) if part):
        note = f"read as the judge's own labels were: {how}; --map and --values beat it"
        fitting.notes = (note,)
    return fitting, replace(options, values=options.values or old_values)


def remembered_reading(
    record: Mapping[str, object],
) -> tuple[dict[str, ColumnNames], dict[str, float | Vote | None]]:
    """The mapping and words of `Reading.record`, as a judge's file has it, which may be anybody's.

    What is none is left out.
    """
    mapping, values = record.get("map"), record.get("values")
    columns: dict[str, ColumnNames] = {}
    for name, named in mapping.items() if isinstance(mapping, Mapping) else ():
        many = [named] if isinstance(named, str) else named
        if isinstance(many, list) and many and all(isinstance(one, str) for one in many):
            columns[str(name)] = named if isinstance(named, str) else many
    try:
        return columns, read_values(values if isinstance(values, Mapping) else {})
    except ValueError:
        return columns, {}


def _check_outputs(
    columns: Columns | None,
    problems: Problems,
    options: ReadOptions,
    annotations: str | Path | None,
) -> tuple[LabelledSet | None, tuple[Problem, ...]]:
    """The outputs, with ratings from `annotations` if given, and all problems of both files."""
    annotation_problems = Problems(str(annotations))
    ratings: dict[str, Ratings] = {}
    annotations_sha256 = ""
    if annotations is not None:
        ratings, annotations_sha256 = _read_long_file(annotations, annotation_problems, options)
    if columns is None:
        return None, (*problems, *annotation_problems)
    if not ratings and holds_pairs(columns):
        advice = "read it with read_pairs, or tune on it with --pairwise"
        problems.add("pairs", "holds pairs of candidates and votes, not rated outputs", advice)
        return None, tuple(problems)
    if {"chosen", "rejected"} <= {*columns.table.columns} and find_sides(columns) is None:
        advice = (
            "write them as response_a and response_b in an order drawn at random, and the chosen "
            "one's letter as preferred"
        )
        problems.add("pairs", "holds chosen and rejected texts", advice)
        return None, tuple(problems)
    labelled = read_outputs(columns, problems, options, ratings or None)
    if (sides := find_sides(columns)) is not None:
        note = (
            f"holds two candidates a row, {sides[1]} and {sides[2]}, and was read as one output a "
            "row: for pairs name people's choice with --map votes=COLUMN, else write a row for "
            "each output"
        )
        labelled = replace(labelled, notes=(*labelled.notes, note))
        named = options.dimensions is not None or columns.mapping.keys() & labelled.dimensions
        if not (named or ratings or columns.is_long or columns.holds_ratings):
            advice = (
                "for pairs name people's choice with --map votes=COLUMN, for outputs what is rated "
                "with --dimension COLUMN"
            )
            candidates = joined_names(sides[1:])
            problems.add("pairs", f"holds two candidates a row, {candidates}", advice)
    if annotation_problems.notes:
        notes = [f"{annotations}: {note}" for note in annotation_problems.notes]
        labelled = replace(labelled, notes=(*labelled.notes, *notes))
    if annotations_sha256:
        both = hashlib.sha256(f"{labelled.sha256}{annotations_sha256}".encode()).hexdigest()
        labelled = replace(labelled, sha256=both)
    return labelled, (*problems, *annotation_problems)


def _check_pairs(
    columns: Columns | None, problems: Problems, options: ReadOptions
) -> tuple[LabelledPairs | None, tuple[Problem, ...]]:
    """The pairs and all problems; no pairs where the file cannot be read or holds rated outputs."""
    if columns is None:
        return None, tuple(problems)
    if find_sides(columns) is None and columns.holds_ratings:
        advice = "read it with read_labels, or tune on it with --dimension"
        problems.add("outputs", "holds rated outputs, not pairs", advice)
        return None, tuple(problems)
    return read_pair_rows(columns, problems, options), tuple(problems)


def refusal(problems: Sequence[Problem], check: Sequence[str] = ()) -> LabelError:
    """One error for a file's problems: the first, how many more there are, and what lists them.

    `check` are the words after `python -m data check` that find the same problems; empty for rows
    in memory, of which LabelError.problems has them all.
    """
    n_more = len(problems) - 1
    list_all = f": python -m data check {shlex.join(check)}" if check else ""
    more = f" (and {n_more:,} more{list_all})" if n_more else ""
    return LabelError(f"{problems[0]}{more}", problems)


def read_annotations(path: str | Path) -> dict[str, Ratings]:
    """Read a long file of ratings (id, dimension, annotator, rating), by id of the output.

    Raises LabelError, whose `problems` are all there are.
    """
    problems = Problems(str(path))
    ratings, _ = _read_long_file(path, problems, ReadOptions())
    if problems:
        raise refusal(problems, [str(path)])
    return ratings


def _read_long_file(
    path: str | Path, problems: Problems, options: ReadOptions
) -> tuple[dict[str, Ratings], str]:
    """A long file's ratings by id of the output, and its sha256."""
    table = read_table(path, problems)
    if table is None:
        return {}, ""
    columns = Columns(table)
    if not columns.is_long or columns.find("id") is None:
        advice = "give a file with the columns id, dimension, annotator, rating"
        problems.add("no-column", "is no long file of ratings", advice)
        return {}, ""
    ratings, notes = read_long(columns, problems, options)
    problems.notes = [*table.notes, *notes]
    return ratings, table.sha256


_STARTER = Path(__file__).with_name("starter")

SHIPPED_NAMES = {"starter": _STARTER / "outputs.jsonl", "starter_pairs": _STARTER / "pairs.jsonl"}


@cache
def is_constructed(sha256: str) -> bool:
    """Whether a file's bytes are those of a set that ships, whatever the file is called."""
    files = SHIPPED_NAMES.values()
    return any(hashlib.sha256(path.read_bytes()).hexdigest() == sha256 for path in files)


def starter() -> LabelledSet:
    """Return the starter outputs, whose ratings are constructed and nobody's."""
    return replace(read_labels(SHIPPED_NAMES["starter"]), name="starter")


def starter_pairs() -> LabelledPairs:
    """Return the starter pairs, whose votes are constructed and nobody's."""
    return replace(read_pairs(SHIPPED_NAMES["starter_pairs"]), name="starter_pairs")
