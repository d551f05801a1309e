"""From a table to labelled outputs, with every problem and every note on the way."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from data.columns import (
    DOT,
    LINE,
    Columns,
    Scale,
    check_mapping,
    is_blank,
    is_known_text,
    way_to_name,
)
from data.ratings import (
    RatingColumns,
    RatingReader,
    Ratings,
    find_ratings,
    fold,
    has_annotator_rows,
    identify,
    is_long,
    read_annotator_rows,
    read_long,
)
from data.rows import RowReader, document_notes, how_grouped, required_texts
from data.tables.problems import Problems, count, excerpt, joined_names
from data.tables.text import TableRow
from data.types import LabelledOutput, LabelledSet, Reading

_ROLES = ("id", "group", "system", "ratings", "annotations", "annotator")
WIDE = "give what systems were given and wrote, as in document and summary"
JOIN = "give it beside the file of outputs: --annotations FILE, or read_labels(annotations=FILE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller asks of a file; a scale under the name "*" is every other dimension's."""

    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    # None: every text that goes by a usual name is required; else these alone.
    texts: Collection[str] | None = None


def read_outputs(
    columns: Columns, problems: Problems, options: ReadOptions, joined: Ratings | None = None
) -> LabelledSet:
    """Read a wide or long table; `joined` are ratings from another file, by id."""
    check_mapping(columns, problems)
    unfolded = columns
    notes: list[str] = []
    long = is_long(columns)
    rating_columns = find_ratings(columns, options.dimensions)
    known = _own_texts(columns, rating_columns, options)
    columns = identify(columns, problems, known)
    own: Ratings | None = None
    if long:
        own = read_long(columns, problems, options.scales)
        columns = fold(columns, problems, texts=known.values(), notes=notes)
    elif has_annotator_rows(columns) and columns.find("id") is not None:
        reading = RatingReader(
            columns, rating_columns, problems, options.dimensions, options.scales
        )
        own = read_annotator_rows(columns, problems, lambda row: reading.read(row, ""))
        spent = {column.partition(DOT)[0] for column in rating_columns.taken}
        columns = fold(columns, problems, spent=spent, texts=known.values(), notes=notes)
    rated_in = rating_columns
    if own is not None:
        rating_columns = find_ratings(columns, options.dimensions)
        joined = {item: own.get(item, {}) | (joined or {}).get(item, {}) for item in own} | {
            item: rated for item, rated in (joined or {}).items() if item not in own
        }
    texts = columns.texts(columns.taken(_ROLES), ratings=rating_columns.taken)
    required = required_texts(columns, problems, texts, options.texts)
    reader = RowReader(columns, problems, texts, required)
    if texts or options.texts is None or options.texts:
        reader.check(JOIN if long else WIDE)
    ratings = RatingReader(
        columns, rating_columns, problems, options.dimensions, options.scales, joined
    )
    system = columns.find("system")
    outputs = tuple(
        output
        for row in columns.table.rows
        if (output := _output(row, reader, ratings, system)) is not None
    )
    if not problems:
        _check_rated(outputs, problems, options, columns)
    notes += [] if joined is None else _join_notes(outputs, joined, problems)
    if ratings.n_differing:
        notes.append(
            f"{count(ratings.n_differing, 'rating')} unlike its annotations' mean, which counts; "
            "--map NAME=ratings.NAME reads the ratings instead"
        )
    notes += reader.notes()
    notes += _notes(outputs, options, grouped=reader.group is not None)
    notes += _unread(unfolded, rated_in, texts, outputs, options)
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=how_grouped(reader.group, texts),
        notes=tuple(notes),
        reading=_reading(unfolded, rated_in, texts),
    )


def _own_texts(
    columns: Columns, rating_columns: RatingColumns, options: ReadOptions
) -> dict[str, str]:
    """The texts that are surely an output's own, and no annotator's: name -> column."""
    texts = columns.texts(columns.taken(_ROLES), ratings=rating_columns.taken)
    return {
        name: column
        for name, column in texts.items()
        if is_known_text(name)
        or name in ("input", *(options.texts or ()))
        or name in columns.mapping
    }


def _output(
    row: TableRow, reader: RowReader, ratings: RatingReader, system: str | None
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
        ratings={dimension: cell.ratings for dimension, cell in rated.items()},
        annotators={
            dimension: cell.annotators for dimension, cell in rated.items() if cell.annotators
        },
    )


def _check_rated(
    outputs: tuple[LabelledOutput, ...], problems: Problems, options: ReadOptions, columns: Columns
) -> None:
    rated = sorted({dimension for output in outputs for dimension in output.ratings})
    for dimension in options.dimensions or ():
        if dimension not in rated:
            problems.add(
                "no-rating",
                f"no output has a rating on it; there are ratings on {_rated_on(columns)}",
                way_to_name(columns, dimension, dimension),
                field=dimension,
            )
    if not rated and not options.dimensions:
        advice = "add a column named as the dimension, or name yours with --map DIMENSION=COLUMN"
        labels = [
            f"{excerpt(column)} has {excerpt(value)}"
            for column in columns.table.columns
            if column not in columns.taken(_ROLES)
            and not is_known_text(column)
            and not columns.is_prose(column)
            for value in [next((one for one in columns.cells(column) if not is_blank(one)), None)]
            if value is not None
        ]
        what = f"no output has a rating that is a number ({'; '.join(labels[:3])})"
        what = what if labels else "no output has a rating"
        problems.add("no-rating", what, advice)


def _rated_on(columns: Columns) -> str:
    """The dimensions that a table seems to rate, for people."""
    rating_columns = find_ratings(columns, None)
    inside = {name.partition(DOT)[2] for name in columns.nested_names()}
    return (
        joined_names(sorted({*rating_columns.flat, *inside}))
        if rating_columns.flat or inside
        else "nothing"
    )


def _reading(
    columns: Columns,
    rating_columns: RatingColumns,
    texts: Mapping[str, str],
) -> Reading:
    """Which column was read as what."""
    read: dict[str, tuple[str, ...]] = {}
    for name in ("id", "group", "system", "annotator"):
        column = columns.find(name)
        if name == "id" and columns.mapping.get("id") == (LINE,):
            several = is_long(columns) or has_annotator_rows(columns)
            read[name] = ("the first line of each text",) if several else ("the line's number",)
        elif column is not None and (name != "annotator" or has_annotator_rows(columns)):
            read[name] = (column,)
    rated: dict[str, tuple[str, ...]] = {}
    if is_long(columns):
        rated[columns.find("dimension") or ""] = (columns.find("rating") or "",)
    else:
        rated.update({name: (name,) for name in rating_columns.nested})
        rated.update(rating_columns.flat)
    used = {column for names in (*read.values(), *rated.values()) for column in names}
    used |= {*texts.values()} | {column.partition(DOT)[0] for column in used}
    if is_long(columns):
        used |= {columns.find("dimension") or "", columns.find("annotator") or ""}
    return Reading(
        rows=read,
        texts=texts,
        ratings=rated,
        unread=tuple(column for column in columns.table.columns if column not in used),
    )


def _unread(
    columns: Columns,
    rating_columns: RatingColumns,
    texts: Mapping[str, str],
    outputs: tuple[LabelledOutput, ...],
    options: ReadOptions,
) -> list[str]:
    """Say what a reader of the file might take for read, and is not."""
    rated = {dimension for output in outputs for dimension in output.ratings}
    notes = []
    for name, mapped in columns.mapping.items():
        known = name in texts or name in rated or name in rating_columns.flat
        if not known and name not in (*_ROLES, "dimension", "rating"):
            notes.append(f"--map {name}={mapped[0]} is not used: {name} is nothing that is read")
    if options.dimensions is None:
        for name, column in texts.items():
            numbers = 0 if is_known_text(name) else columns.holds_numbers(column)
            if numbers:
                notes.append(
                    f"column {column!r} was read as a text, though {count(numbers, 'cell')} of it "
                    f"hold numbers; --dimension {column} reads it as ratings"
                )
    return notes


def _notes(
    outputs: tuple[LabelledOutput, ...], options: ReadOptions, *, grouped: bool
) -> list[str]:
    dimensions = {name: None for output in outputs for name in output.ratings}
    notes = []
    for dimension in dimensions if options.dimensions is None else options.dimensions:
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
    unknown_ids = [item for item in joined if item not in ids]
    if unknown_ids and not problems:
        problems.add(
            "no-output",
            f"is rated, but no output has this id ({count(len(unknown_ids), 'such id')})",
            "give the file of outputs that was rated",
            field="id",
            value=unknown_ids[0],
        )
    without = sum(output.id not in joined for output in outputs)
    return (
        [f"not in the annotations: {without:,} of {count(len(outputs), 'output')}"]
        if without
        else []
    )
