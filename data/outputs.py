"""From a table to labelled outputs, with every problem and every note on the way."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from data.columns import Columns, cell, check_mapping, missing_column
from data.grouping import document_notes, how_grouped
from data.long import Ratings, fold, is_long, read_long
from data.numbers import Scale
from data.problems import Problems, count, listed
from data.ratings import RatingReader, find_ratings
from data.rows import RowReader
from data.tables import Row
from data.types import LabelledOutput

WIDE = "give what systems were given and wrote, as in document and summary"
JOIN = "give it beside the file of outputs: --annotations FILE, or read_labels(annotations=FILE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the caller asks of a file; a scale under the name "*" is every other dimension's."""

    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    texts: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The outputs of a file, what makes their documents, and what to know about them."""

    outputs: tuple[LabelledOutput, ...]
    grouped_by: str
    notes: tuple[str, ...]


def read_outputs(
    columns: Columns, problems: Problems, wanted: Wanted, joined: Ratings | None = None
) -> Found:
    """Read a wide or long table; `joined` are ratings from another file, by id."""
    check_mapping(columns, problems)
    long = is_long(columns)
    if long:
        joined = read_long(columns, problems, wanted.scales)
        columns = fold(columns, problems)
    found = find_ratings(columns, wanted.dimensions)
    taken = columns.taken(("id", "group", "system", "ratings", "annotations"))
    texts = columns.texts(taken, ratings=found.taken)
    for name in wanted.texts:
        if name not in texts:
            known = tuple(columns.table.columns)
            missing_column(
                known, problems, name, f"--map {name}=COLUMN", ", and the judge reads it"
            )
    reader = RowReader(columns, problems, texts, wanted.texts)
    reader.check(JOIN if long else WIDE)
    ratings = RatingReader(columns, found, problems, wanted.dimensions, wanted.scales, joined)
    system = columns.find("system")
    outputs = tuple(
        output
        for row in columns.table.rows
        if (output := _output(row, reader, ratings, system)) is not None
    )
    if not problems.found:
        _check_rated(outputs, problems, wanted, columns)
    notes = [] if joined is None else _join_notes(outputs, joined, problems)
    if ratings.n_differing:
        notes.append(
            f"{count(ratings.n_differing, 'rating')} unlike its annotations' mean, which counts"
        )
    notes += reader.notes()
    notes += _notes(outputs, wanted, grouped=reader.group is not None)
    return Found(outputs, how_grouped(reader.group, texts), tuple(notes))


def _output(
    row: Row, reader: RowReader, ratings: RatingReader, system: str | None
) -> LabelledOutput | None:
    name = reader.name(row, system)
    common = reader.read(row)
    rated = ratings.read(row, "" if common is None else common.id)
    if common is None:
        return None
    return LabelledOutput(
        id=common.id,
        document_id=common.document_id,
        system=name,
        texts=common.texts,
        ratings={dimension: marks.ratings for dimension, marks in rated.items()},
        annotators={
            dimension: marks.annotators for dimension, marks in rated.items() if marks.annotators
        },
    )


def _check_rated(
    outputs: tuple[LabelledOutput, ...], problems: Problems, wanted: Wanted, columns: Columns
) -> None:
    rated = sorted({dimension for output in outputs for dimension in output.ratings})
    for dimension in wanted.dimensions or ():
        if dimension not in rated:
            problems.add(
                "no-rating",
                f"no output has a rating on it; there are ratings on {_rated_on(columns)}",
                f"name the column that has it with --map {dimension}=COLUMN",
                field=dimension,
            )
    if not rated and not wanted.dimensions:
        way_out = "add a column named as the dimension, or name yours with --map DIMENSION=COLUMN"
        problems.add("no-rating", "no output has a rating", way_out)


def _rated_on(columns: Columns) -> str:
    """The dimensions that a table seems to rate, for people."""
    found = find_ratings(columns, None)
    nested = (cell(row, column) for row in columns.table.rows for column in found.nested)
    inside = {str(name) for one in nested if isinstance(one, Mapping) for name in one}
    return listed(sorted({*found.flat, *inside})) if found.flat or inside else "nothing"


def _notes(outputs: tuple[LabelledOutput, ...], wanted: Wanted, *, grouped: bool) -> list[str]:
    dimensions = {name: None for output in outputs for name in output.ratings}
    notes = []
    for dimension in dimensions if wanted.dimensions is None else wanted.dimensions:
        without = sum(dimension not in output.ratings for output in outputs)
        if without:
            notes.append(
                f"no rating on {dimension}: {without:,} of {count(len(outputs), 'output')}"
            )
    anonymous = sum(output.system is None for output in outputs)
    if 0 < anonymous < len(outputs):
        notes.append(f"no system: {anonymous:,} of {count(len(outputs), 'output')}")
    return notes + (document_notes(outputs) if grouped else [])


def _join_notes(
    outputs: tuple[LabelledOutput, ...], joined: Ratings, problems: Problems
) -> list[str]:
    ids = {output.id for output in outputs}
    strangers = [item for item in joined if item not in ids]
    if strangers and not problems.found:
        problems.add(
            "no-output",
            f"is rated, but no output has this id ({len(strangers)} such ids)",
            "give the file of outputs that was rated",
            field="id",
            value=strangers[0],
        )
    without = sum(output.id not in joined for output in outputs)
    return (
        [f"not in the annotations: {without:,} of {count(len(outputs), 'output')}"]
        if without
        else []
    )
