"""From a table to labelled outputs, with every problem and every note on the way."""

from collections.abc import Mapping
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
    """Read a wide or long table; `annotations`, another file's ratings, replace a dimension's."""
    check_mapping(columns, problems)
    found = find_ratings(columns, options.dimensions)
    notes = check_ratings(columns, found, options, problems)
    roles = [*ROLES, "dimension", "rating"] if columns.is_long else [*ROLES]
    reader = RowReader(columns, problems, roles=roles, rated=found.all(), judged=options.texts)
    comments = _read_comments(columns, found, options) if options.labelled else {}
    ratings, rating_notes, words, _ = read_ratings(columns, found, options, problems)
    more = annotations or ReadRatings({}, [], {}, columns)
    replaced = {name for of_item in more.by_item.values() for name in of_item}
    for item in {*ratings, *more.by_item}:
        own = {name: of for name, of in ratings.get(item, {}).items() if name not in replaced}
        ratings[item] = own | more.by_item.get(item, {})
    for item, said in _read_comments(more.columns, found, options).items() if annotations else ():
        comments[item] = comments.get(item, {}) | said
    words = {name: two for name, two in words.items() if name not in replaced} | more.words
    outputs = tuple(
        _output(fields, ratings.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if options.labelled and not problems:
        _check_rated(outputs, problems, options, columns, found)
    unknown = sorted({*more.by_item} - {output.id for output in outputs})
    if unknown and not problems:
        fault = f"is rated, but no output has this id ({count(len(unknown), 'such id')})"
        advice = "give the file of outputs that was rated"
        problems.add("no-output", fault, advice, field="id", value=unknown[0])
    rated = sorted({dimension for output in outputs for dimension in output.ratings})
    for name in rated if options.dimensions is None else options.dimensions:
        if n_without := sum(name not in output.ratings for output in outputs):
            notes.append(f"no rating on {name}: {n_without:,} of {count(len(outputs), 'output')}")
    rated_in = {name: (name,) for name in found.nested} | dict(found.flat)
    if columns.is_long:
        rated_in = {"rating": (columns.find("rating") or "",)}
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes, *rating_notes),
        reading=reader.reading(rated_in),
        words=words,
    )


def _output(
    fields: ItemFields, ratings: Ratings, comments: Mapping[str, tuple[str, ...]]
) -> LabelledOutput:
    named = {name: given for name, given in ratings.items() if None not in given}
    return LabelledOutput(
        id=fields.id,
        document_id=fields.document_id,
        system=fields.systems[0],
        texts=fields.texts,
        ratings={name: tuple(given.values()) for name, given in ratings.items()},
        annotators={name: tuple(map(str, given)) for name, given in named.items()},
        comments=comments,
        draw=fields.draw,
    )


def _read_comments(
    columns: Columns, found: RatingColumns, options: ReadOptions
) -> dict[str, dict[str, tuple[str, ...]]]:
    """What people said of their labels, by the output's id and the dimension.

    A comment is on the dimensions in its column's name, or else on all that its row rates.
    """
    dimension_in = columns.find("dimension") or ""
    rated = [name for name in columns.nested_names if name not in columns.comments]
    nested = [name.partition(DOT)[2] for name in rated if found.nested]
    names = [*(options.dimensions or (*found.flat, *nested))]
    # Of a dimension that is not read, nothing is said.
    by_words = {tokens(column): "" for column in found.candidates}
    by_words |= {tokens(name): name for name in names}
    by_words |= {tokens(c): name for name, group in found.flat.items() for c in group}
    own: dict[str, list[str]] = {}
    for column in columns.comments:
        words = {*tokens(column)}
        named = {name for of, name in by_words.items() if of and {*of} <= words}
        own[column] = sorted(named - {""}) if named else names

    if columns.is_long:
        return read_comments(columns, lambda _, row: [str(row.cells.get(dimension_in)).strip()])
    return read_comments(columns, lambda column, _: own[column])


def _check_rated(
    outputs: tuple[LabelledOutput, ...],
    problems: Problems,
    options: ReadOptions,
    columns: Columns,
    found: RatingColumns,
) -> None:
    """Add a problem for each dimension asked for without a rating, or where nothing is rated."""
    rated = {dimension for output in outputs for dimension in output.ratings}
    nested = {name.partition(DOT)[2] for name in columns.nested_names if found.nested}
    of_long = map(str, columns.values(str(columns.find("dimension"))) if columns.is_long else ())
    known = joined_names(sorted({*found.candidates, *nested, *of_long}))
    for dimension in sorted({*(options.dimensions or ())} - rated):
        fault = f"no output has a rating on it; there are ratings on {known}"
        if near := get_close_matches(dimension, columns.table.columns, 1, 0.85):
            fault += f" (did you mean {near[0]}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not rated and not options.dimensions:
        used = {*columns.used(ROLES), *columns.comments}
        used |= {name.partition(DOT)[0] for name in columns.nested_names}
        labels = [c for c in columns.table.columns if c not in used and columns.kind(c) == "label"]
        leaves = [name for name in columns.nested_names if columns.kind(name) == "rating"]
        likely = leaves or labels
        flags = [map_flag("label", [name]) for name in likely[:3]]
        fault = f"no column is known for labels; there are {joined_names(columns.table.columns)}"
        advice = f"name one, as in {' or '.join(flags) or '--map label=COLUMN'}"
        advice += ", or give labels: dspy-judges label FILE --dimension NAME"
        cells = (RatingCells(columns.values(name)) for name in likely)
        if len(pairs := [of.values_flag() for of in cells if of.is_unknown_pair]) == 1:
            advice = f"say which word is good, as in {pairs[0]} (or the other way round)"
        problems.add("no-rating", fault, advice)
