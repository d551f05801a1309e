"""Reads labelled outputs from a table, and collects problems and notes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from judges.labels.cells import without_keys
from judges.labels.columns import Columns, check_mapping, mapping_advice
from judges.labels.names import map_flag, tokens
from judges.labels.rating_columns import (
    NON_RATING_NAMES,
    RatingColumns,
    check_ratings,
    close_names,
    find_ratings,
)
from judges.labels.ratings import Ratings, ReadOptions, TableRatings, read_ratings
from judges.labels.rows import Comments, ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet
from judges.labels.values import RatingCells
from judges.tables.problems import Problems, count, excerpt, joined_names

ROLES = (*NON_RATING_NAMES, "annotator")


def read_outputs(
    columns: Columns, problems: Problems, options: ReadOptions, other: TableRatings | None = None
) -> LabelledSet:
    """Read labelled outputs from a table, wide or long.

    `other` are the ratings in a second file. They replace the table's own ratings on the same
    dimensions.
    """
    check_mapping(columns, problems)
    layout = find_ratings(columns, options.dimensions)
    notes: list[str] = []
    if other is None:
        notes = check_ratings(columns, layout, options.dimensions, problems)
    else:
        # The second file has the ratings, so only columns that the caller names are ratings here.
        named = {name: (columns.exact_name(name),) for name in options.dimensions or ()}
        flat = {n: h for n, h in layout.flat.items() if n in columns.mapping or named.get(n) == h}
        layout = replace(layout, flat=flat, guesses=(), numbers=())
    roles = [*ROLES, "dimension", "rating"] if columns.is_long else [*ROLES]
    reader = RowReader(
        columns, problems, roles=roles, rated=layout.all(), judged=options.texts, candidates={}
    )
    ratings = read_ratings(columns, layout, options, problems)
    comments = _comments(columns, layout, options)
    if other is not None:
        ratings = _replace_ratings(ratings, other)
        for item, by_name in _comments(other.columns, layout, options).items():
            comments.setdefault(item, {}).update(by_name)
    outputs = tuple(
        _output(fields, ratings.by_item.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if not problems:
        notes += _check_ids(outputs, problems, other)
    if not problems and options.labelled:
        _check_rated(outputs, problems, options, columns, layout)
    rating_columns = {name: (name,) for name in layout.nested} | dict(layout.flat)
    if columns.is_long:
        rating_columns = {"rating": columns.find_all(["rating"])}
    dimensions = _dimensions(outputs) if options.dimensions is None else options.dimensions
    notes += _unrated_notes(outputs, dimensions)
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes, *ratings.notes),
        reading=reader.reading(rating_columns),
        words=ratings.words,
    )


def _dimensions(outputs: Iterable[LabelledOutput]) -> list[str]:
    return sorted({dimension for output in outputs for dimension in output.ratings})


def _unrated_notes(outputs: Sequence[LabelledOutput], dimensions: Iterable[str]) -> list[str]:
    """Return a note for each dimension on which some outputs have no rating."""
    n_rated = Counter(name for output in outputs for name in output.ratings)
    total = count(len(outputs), "output")
    return [
        f"no rating on {name}: {len(outputs) - n_rated[name]:,} of {total}"
        for name in dimensions
        if n_rated[name] < len(outputs)
    ]


def _replace_ratings(first: TableRatings, second: TableRatings) -> TableRatings:
    """Return the first file's ratings, replaced on every dimension that the second file rates."""
    replaced = {name for by_name in second.by_item.values() for name in by_name}
    by_item = dict(second.by_item)
    for item, by_name in first.by_item.items():
        by_item[item] = without_keys(by_name, replaced) | by_item.get(item, {})
    words = without_keys(first.words, replaced) | second.words
    return replace(first, by_item=by_item, words=words)


def _output(
    fields: ItemFields, ratings: Ratings, comments: Mapping[str, tuple[str, ...]]
) -> LabelledOutput:
    return LabelledOutput(
        id=fields.id,
        document_id=fields.document_id,
        system=fields.systems[0],
        texts=fields.texts,
        ratings={name: tuple(by_annotator.values()) for name, by_annotator in ratings.items()},
        annotators={
            name: tuple(map(str, by_annotator))
            for name, by_annotator in ratings.items()
            if None not in by_annotator
        },
        comments=comments,
        draw=fields.draw,
    )


def _comments(columns: Columns, layout: RatingColumns, options: ReadOptions) -> Comments:
    """Return people's comments on their labels, by the output's id and the dimension.

    If the name of a comment's column contains dimensions, the comment is on these, else on all
    dimensions that are read.
    """
    if not options.labelled:
        return {}
    if columns.is_long:
        return read_comments(columns, lambda _, row: [str(columns.cell(row, "dimension")).strip()])
    names = [*(options.dimensions or (*layout.flat, *layout.keys))]
    # Maps the words of a column's name to its dimension, or to "" for one that is not read.
    by_words = {tokens(column): "" for column in layout.numbers}
    by_words |= {tokens(name): name for name in names}
    for name, headers in layout.flat.items():
        by_words |= dict.fromkeys(map(tokens, headers), name)
    dimensions = {column: _dimensions_in(column, by_words, names) for column in columns.comments}
    return read_comments(columns, lambda column, _: dimensions[column])


def _dimensions_in(
    column: str, by_words: Mapping[tuple[str, ...], str], names: list[str]
) -> list[str]:
    words = {*tokens(column)}
    named = {n for name_words, n in by_words.items() if name_words and words.issuperset(name_words)}
    return sorted(named - {""}) if named else names


def _check_ids(
    outputs: Iterable[LabelledOutput], problems: Problems, other: TableRatings | None
) -> list[str]:
    """Return a note if the second file rates outputs that the first file does not have.

    Adds a problem if the first file has none of the rated outputs.
    """
    rated = set(other.by_item) if other else set()
    unknown = sorted(rated - {output.id for output in outputs})
    if unknown and len(unknown) == len(rated):
        fault = "is rated, but no output has this id or any other rated id"
        advice = "give the file of outputs that was rated"
        problems.add("no-output", fault, advice, field="id", value=unknown[0])
    elif unknown:
        number = count(len(unknown), "rated id")
        return [f"left out {number} without an output, such as {excerpt(unknown[0])}"]
    return []


def _check_rated(
    outputs: Iterable[LabelledOutput],
    problems: Problems,
    options: ReadOptions,
    columns: Columns,
    layout: RatingColumns,
) -> None:
    """Add a problem for each requested dimension without a rating, or if there are no ratings."""
    dimensions, table = _dimensions(outputs), columns.table
    named_in_rows = columns.values(str(columns.find("dimension"))) if columns.is_long else ()
    known = {*layout.numbers, *layout.keys, *map(str, named_in_rows)}
    for dimension in sorted({*(options.dimensions or ())}.difference(dimensions)):
        fault = f"no output has a rating on it; there are ratings on {joined_names(sorted(known))}"
        if near := close_names(dimension, table.columns):
            fault += f" (did you mean {near[0]}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not dimensions and not options.dimensions:
        fault = (
            f"no column has a known name for labels; the columns are {joined_names(table.columns)}"
        )
        problems.add("no-rating", fault, _label_advice(columns))


def _label_advice(columns: Columns) -> str:
    """Return advice on how to say which column holds labels, or which of its two words is good."""
    free = columns.columns_except({*columns.used_columns(ROLES), *columns.comments})
    nested_ratings = columns.of_kind(columns.nested_names, "rating")
    likely = nested_ratings or columns.of_kind(free, "label")
    readers = map(RatingCells, map(columns.values, likely))
    pair_flags = [reader.values_flag for reader in readers if reader.is_unknown_pair]
    if len(pair_flags) == 1:
        return f"say which word is good, as in {pair_flags[0]} (or the other way round)"
    flags = " or ".join(map_flag("label", [name]) for name in likely[:3] or ["COLUMN"])
    return f"name one, as in {flags}, or give labels: dspy-judges label FILE --dimension NAME"
