"""Read a file of human labels, whole, or refuse it with every problem it has."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from data.columns import Columns
from data.flags import map_flags, scale_flags, split_mapping, values_flags
from data.labels import read_outputs
from data.pairs import find_sides, holds_pairs, read_pair_rows
from data.ratings import Ratings, ReadOptions, find_ratings, read_ratings
from data.rows import without_footers
from data.tables.formats import read_table
from data.tables.in_memory import Rows, is_in_memory, name_of
from data.tables.problems import Problem, Problems, joined_names
from data.types import LabelError, LabelledPairs, LabelledSet
from data.values import Scale, Values

# A mapping: our names and the file's columns, with `values` beside them; or the file that has it.
Mapped = Mapping[str, Any] | str | Path


def read_labels(
    path: str | Path | Rows,
    *,
    map: Mapped | None = None,
    dimensions: Sequence[str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    texts: Sequence[str] | None = None,
    annotations: str | Path | None = None,
    values: Values | None = None,
) -> LabelledSet:
    """Read labelled outputs from JSONL, JSON, CSV, TSV, .xlsx, Parquet or a Hugging Face set.

    `path` may be rows in memory (a DataFrame, a Dataset, a list of dicts), a folder made by
    `Dataset.save_to_disk`, or `hf:owner/name`, either with `:split`, or `FILE.xlsx:SHEET`.
    `map` gives our names the file's columns (`{"document": "article"}`), or is a mapping file in
    YAML; `a.b` reaches into a nested column, and a list of columns holds one annotator's ratings in
    each. Rows of several annotators (a column `annotator`) are joined by id. `dimensions` are read
    and no other, and each must be rated somewhere; an output without a rating on one is kept and
    noted. `scales` gives (low, high) by dimension, "*" for all others. `texts` must stand in every
    row, and no other; by default every text of a usual name must. `annotations` is a long file (id,
    dimension, annotator, rating) whose ratings replace the first file's by id and dimension.
    `values` are words and what they count (`{"good": 3, "n/a": None}`), before all that a column's
    cells say. Raises LabelError, whose `problems` are all there are.
    """
    options = read_options(
        map=map,
        dimensions=dimensions,
        scales=scales or {},
        texts=texts,
        annotations=annotations,
        values=values,
    )
    labelled, problems = check_labels(path, options)
    if labelled is None or problems:
        flags = [word for name in dimensions or () for word in ("--dimension", name)]
        flags += [*map_flags(options.map), *scale_flags(scales), *values_flags(options.values)]
        flags += [] if annotations is None else ["--annotations", str(annotations)]
        raise refusal(problems, [] if is_in_memory(path) else [str(path), *flags])
    return labelled


def read_pairs(
    path: str | Path | Rows,
    *,
    map: Mapped | None = None,
    texts: Sequence[str] | None = None,
    values: Values | None = None,
) -> LabelledPairs:
    """Read labelled pairs from any of the formats of `read_labels`.

    The two sides are `response_a` and `response_b`, or another word with `_a`, `_b` or `_1`, `_2`;
    people's choice is `votes` (a list), `preferred` or `preference`, in the words A, B and tie or
    the numbers 1, 2 and 1.5; several columns of votes, or rows of several annotators (a column
    `annotator`), are joined. Pairs without a vote are left out and noted. `values` are other words
    (`{"left": "A", "0": "B"}`). `map` and `texts` as `read_labels`.
    Raises LabelError, whose `problems` are all there are.
    """
    options = read_options(map=map, texts=texts, values=values)
    labelled, problems = check_pairs(path, options)
    if labelled is None or problems:
        flags = [*map_flags(options.map), *values_flags(options.values)]
        raise refusal(problems, [] if is_in_memory(path) else [str(path), *flags])
    return labelled


def read_options(*, map: Mapped | None, values: Values | None, **others: Any) -> ReadOptions:
    """The options with what a mapping file says; raises LabelError where it cannot be read."""
    try:
        columns, words = split_mapping(map, values)
    except ValueError as error:
        raise LabelError(str(error)) from None
    return ReadOptions(map=columns, values=words, **others)


def check_labels(
    path: str | Path | Rows, options: ReadOptions
) -> tuple[LabelledSet | None, tuple[Problem, ...]]:
    """Read as `read_labels`, and return what could be read and all problems."""
    problems = _problems_of(path)
    return _check_outputs(_read_columns(path, problems, options), problems, options)


def check_pairs(
    path: str | Path | Rows, options: ReadOptions
) -> tuple[LabelledPairs | None, tuple[Problem, ...]]:
    """Read as `read_pairs`, and return what could be read and all problems."""
    problems = _problems_of(path)
    return _check_pairs(_read_columns(path, problems, options), problems, options)


def check_either(
    path: str | Path, options: ReadOptions
) -> tuple[LabelledSet | LabelledPairs | None, tuple[Problem, ...]]:
    """The same for what the file looks like; with dimensions or annotations it holds outputs."""
    problems = _problems_of(path)
    columns = _read_columns(path, problems, options)
    outputs = options.dimensions or options.annotations
    if columns is not None and not outputs and holds_pairs(columns):
        return _check_pairs(columns, problems, options)
    return _check_outputs(columns, problems, options)


def _problems_of(path: str | Path | Rows) -> Problems:
    return Problems(name_of(path) if is_in_memory(path) else str(path))


def _read_columns(
    path: str | Path | Rows, problems: Problems, options: ReadOptions
) -> Columns | None:
    table = read_table(path, problems)
    if table is None:
        return None
    return Columns(without_footers(table), options.map, options.texts or ())


def _check_outputs(
    columns: Columns | None, problems: Problems, options: ReadOptions
) -> tuple[LabelledSet | None, tuple[Problem, ...]]:
    """The outputs, with ratings from a second file if given, and all problems of both files."""
    annotation_problems = Problems(str(options.annotations))
    ratings: dict[str, Ratings] = {}
    annotations_sha256 = ""
    if options.annotations is not None:
        ratings, annotations_sha256 = _read_long_file(
            options.annotations, annotation_problems, options
        )
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
    sides = find_sides(columns)
    named = options.dimensions is not None or columns.mapping or ratings or columns.holds_ratings
    if sides is not None and not named:
        advice = (
            "for pairs name people's choice with --map votes=COLUMN, for outputs what is rated "
            "with --dimension COLUMN"
        )
        fault = f"holds two candidates a row, {joined_names(sides[1:])}"
        problems.add("pairs", fault, advice)
        return None, tuple(problems)
    labelled = read_outputs(columns, problems, options, ratings or None)
    notes = [f"{options.annotations}: {note}" for note in annotation_problems.notes]
    if sides is not None:
        notes.append(
            f"holds two candidates a row, {sides[1]} and {sides[2]}, and was read as one output a "
            "row: for pairs name people's choice with --map votes=COLUMN, else write a row for "
            "each output"
        )
    sha256 = labelled.sha256
    if annotations_sha256:
        sha256 = hashlib.sha256(f"{sha256}{annotations_sha256}".encode()).hexdigest()
    labelled = replace(labelled, notes=(*labelled.notes, *notes), sha256=sha256)
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
    ratings, notes = read_ratings(columns, find_ratings(columns, ()), options, problems)
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
