"""Reads labelled outputs from a table, with every problem and note."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from judges.labels.cells import DOT
from judges.labels.columns import Columns, check_mapping, map_flag, mapping_advice, tokens
from judges.labels.ratings import (
    NOT_RATED,
    RatingColumns,
    Ratings,
    ReadOptions,
    ReadRatings,
    check_ratings,
    find_ratings,
    read_ratings,
)
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet
from judges.labels.values import RatingCells
from judges.tables.problems import Problems, count, joined_names

ROLES = (*NOT_RATED, "annotator")


def read_outputs(
    columns: Columns,
    problems: Problems,
    options: ReadOptions,
    annotations: ReadRatings | None = None,
) -> LabelledSet:
    """Read a wide or long table; the ratings of `annotations`, another file, replace its own."""
    check_mapping(columns, problems)
    layout = find_ratings(columns, options.dimensions)
    notes = check_ratings(columns, layout, options, problems)
    roles = [*ROLES, "dimension", "rating"] if columns.is_long else [*ROLES]
    reader = RowReader(columns, problems, roles=roles, rated=layout.all(), judged=options.texts)
    comments = _read_comments(columns, layout, options) if options.labelled else {}
    ratings = read_ratings(columns, layout, options, problems)
    if annotations is not None:
        ratings = _replace_ratings(ratings, annotations)
        for item, by_name in _read_comments(annotations.columns, layout, options).items():
            comments[item] = comments.get(item, {}) | by_name
    outputs = tuple(
        _output(fields, ratings.by_item.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if options.labelled and not problems:
        _check_rated(outputs, problems, options, columns, layout)
    unknown = (
        sorted({*annotations.by_item} - {output.id for output in outputs}) if annotations else []
    )
    if unknown and not problems:
        fault = f"is rated, but no output has this id ({count(len(unknown), 'such id')})"
        advice = "give the file of outputs that was rated"
        problems.add("no-output", fault, advice, field="id", value=unknown[0])
    for name in _dimensions(outputs) if options.dimensions is None else options.dimensions:
        if n_without := sum(name not in output.ratings for output in outputs):
            notes.append(f"no rating on {name}: {n_without:,} of {count(len(outputs), 'output')}")
    rated_in = {name: (name,) for name in layout.nested} | dict(layout.flat)
    if columns.is_long:
        rated_in = {"rating": (columns.find("rating") or "",)}
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes, *ratings.notes),
        reading=reader.reading(rated_in),
        words=ratings.words,
    )


def _dimensions(outputs: Iterable[LabelledOutput]) -> list[str]:
    return sorted({dimension for output in outputs for dimension in output.ratings})


def _replace_ratings(own: ReadRatings, annotations: ReadRatings) -> ReadRatings:
    """A file's ratings, but those of `annotations` on every dimension that these rate."""
    replaced = {name for by_name in annotations.by_item.values() for name in by_name}
    by_item = {
        item: {name: by for name, by in by_name.items() if name not in replaced}
        for item, by_name in own.by_item.items()
    }
    for item, by_name in annotations.by_item.items():
        by_item[item] = by_item.get(item, {}) | by_name
    words = {name: pair for name, pair in own.words.items() if name not in replaced}
    return own._replace(by_item=by_item, words=words | annotations.words)


def _output(
    fields: ItemFields, ratings: Ratings, comments: Mapping[str, tuple[str, ...]]
) -> LabelledOutput:
    return LabelledOutput(
        id=fields.id,
        document_id=fields.document_id,
        system=fields.systems[0],
        texts=fields.texts,
        ratings={name: tuple(by.values()) for name, by in ratings.items()},
        annotators={n: tuple(map(str, by)) for n, by in ratings.items() if None not in by},
        comments=comments,
        draw=fields.draw,
    )


def _read_comments(
    columns: Columns, layout: RatingColumns, options: ReadOptions
) -> dict[str, dict[str, tuple[str, ...]]]:
    """People's comments on their labels, by the output's id and the dimension.

    A comment is on the dimensions in its column's name, or else on all that its row rates.
    """
    if columns.is_long:
        dimension_in = columns.find("dimension") or ""
        return read_comments(columns, lambda _, row: [str(row.cells.get(dimension_in)).strip()])
    leaves = (name for name in columns.nested_names if name not in columns.comments)
    nested = [name.partition(DOT)[2] for name in leaves if layout.nested]
    names = [*(options.dimensions or (*layout.flat, *nested))]
    # The dimension by the words of its columns; none for a dimension that is not read.
    by_words = {tokens(column): "" for column in layout.candidates}
    by_words |= {tokens(name): name for name in names}
    by_words |= {tokens(c): name for name, group in layout.flat.items() for c in group}
    by_words.pop((), None)
    dimensions: dict[str, list[str]] = {}
    for column in columns.comments:
        words = {*tokens(column)}
        in_name = {name for of_name, name in by_words.items() if words.issuperset(of_name)}
        dimensions[column] = sorted(in_name - {""}) if in_name else names
    return read_comments(columns, lambda column, _: dimensions[column])


def _check_rated(
    outputs: Iterable[LabelledOutput],
    problems: Problems,
    options: ReadOptions,
    columns: Columns,
    layout: RatingColumns,
) -> None:
    """Add a problem for each of the caller's dimensions without a rating, or if none has any."""
    dimensions = _dimensions(outputs)
    nested = {name.partition(DOT)[2] for name in columns.nested_names if layout.nested}
    of_long = map(str, columns.values(str(columns.find("dimension"))) if columns.is_long else ())
    names = joined_names(sorted({*layout.candidates, *nested, *of_long}))
    for dimension in sorted({*(options.dimensions or ())}.difference(dimensions)):
        fault = f"no output has a rating on it; there are ratings on {names}"
        if near := get_close_matches(dimension, columns.table.columns, 1, 0.85):
            fault += f" (did you mean {near[0]}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not dimensions and not options.dimensions:
        fault = f"no column is known for labels; there are {joined_names(columns.table.columns)}"
        problems.add("no-rating", fault, _label_advice(columns))


def _label_advice(columns: Columns) -> str:
    """How to name the labels of a table in which none were found."""
    reserved = {*columns.used(ROLES), *columns.comments}
    reserved |= {name.partition(DOT)[0] for name in columns.nested_names}
    leaves = [name for name in columns.nested_names if columns.kind(name) == "rating"]
    unused = (column for column in columns.table.columns if column not in reserved)
    likely = leaves or [column for column in unused if columns.kind(column) == "label"]
    cells = (RatingCells(columns.values(name)) for name in likely)
    flags = [of_column.values_flag() for of_column in cells if of_column.is_unknown_pair]
    if len(flags) == 1:
        return f"say which word is good, as in {flags[0]} (or the other way round)"
    flags = [map_flag("label", [name]) for name in likely[:3]] or ["--map label=COLUMN"]
    advice = f"name one, as in {' or '.join(flags)}"
    return f"{advice}, or give labels: dspy-judges label FILE --dimension NAME"
