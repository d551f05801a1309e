"""Reads labelled outputs from a table, with every problem and note."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from judges.labels.cells import without
from judges.labels.columns import Columns, check_mapping, mapping_advice
from judges.labels.names import map_flag, tokens
from judges.labels.rating_columns import (
    NOT_RATED,
    RatingColumns,
    check_ratings,
    close_names,
    find_ratings,
)
from judges.labels.ratings import Ratings, ReadOptions, ReadRatings, read_ratings
from judges.labels.rows import Comments, ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet
from judges.labels.values import RatingCells
from judges.tables.problems import Problems, count, excerpt, joined_names

ROLES = (*NOT_RATED, "annotator")


def read_outputs(
    columns: Columns, problems: Problems, options: ReadOptions, beside: ReadRatings | None = None
) -> LabelledSet:
    """Read a wide or long table; the ratings `beside` it, in another file, replace its own."""
    check_mapping(columns, problems)
    layout = find_ratings(columns, options.dimensions)
    notes: list[str] = []
    if beside is None:
        notes = check_ratings(columns, layout, options.dimensions, problems)
    else:
        # Beside labels, a column that nobody called a rating is none.
        named = {name: (columns.own_name(name),) for name in options.dimensions or ()}
        flat = {n: h for n, h in layout.flat.items() if n in columns.mapping or named.get(n) == h}
        layout = replace(layout, flat=flat, guesses=(), numbers=())
    roles = [*ROLES, "dimension", "rating"] if columns.is_long else [*ROLES]
    reader = RowReader(
        columns, problems, roles=roles, rated=layout.all(), judged=options.texts, candidates={}
    )
    ratings = read_ratings(columns, layout, options, problems)
    comments = _comments(columns, layout, options)
    if beside is not None:
        ratings = _replace_ratings(ratings, beside)
        for item, by_name in _comments(beside.columns, layout, options).items():
            comments.setdefault(item, {}).update(by_name)
    outputs = tuple(
        _output(fields, ratings.by_item.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if not problems:
        notes += _check_ids(outputs, problems, beside)
    if not problems and options.labelled:
        _check_rated(outputs, problems, options, columns, layout)
    rated_in = {name: (name,) for name in layout.nested} | dict(layout.flat)
    if columns.is_long:
        rated_in = {"rating": columns.find_all(["rating"])}
    dimensions = _dimensions(outputs) if options.dimensions is None else options.dimensions
    notes += _unrated_notes(outputs, dimensions)
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


def _unrated_notes(outputs: Sequence[LabelledOutput], dimensions: Iterable[str]) -> list[str]:
    """A note on each dimension on which some outputs have no rating."""
    n_rated = Counter(name for output in outputs for name in output.ratings)
    total = count(len(outputs), "output")
    return [
        f"no rating on {name}: {len(outputs) - n_rated[name]:,} of {total}"
        for name in dimensions
        if n_rated[name] < len(outputs)
    ]


def _replace_ratings(own: ReadRatings, beside: ReadRatings) -> ReadRatings:
    """A file's ratings, but those beside it on every dimension that these rate."""
    replaced = {name for by_name in beside.by_item.values() for name in by_name}
    by_item = dict(beside.by_item)
    for item, by_name in own.by_item.items():
        by_item[item] = without(by_name, replaced) | by_item.get(item, {})
    return replace(own, by_item=by_item, words=without(own.words, replaced) | beside.words)


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


def _comments(columns: Columns, layout: RatingColumns, options: ReadOptions) -> Comments:
    """People's comments on their labels, by the output's id and the dimension.

    A comment is on the dimensions in its column's name, or else on all that its row rates.
    """
    if not options.labelled:
        return {}
    if columns.is_long:
        return read_comments(columns, lambda _, row: [str(columns.cell(row, "dimension")).strip()])
    names = [*(options.dimensions or (*layout.flat, *layout.keys))]
    # The dimension by the words of its columns; none for a dimension that is not read.
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
    own = {name for of_name, name in by_words.items() if of_name and words.issuperset(of_name)}
    return sorted(own - {""}) if own else names


def _check_ids(
    outputs: Iterable[LabelledOutput], problems: Problems, beside: ReadRatings | None
) -> list[str]:
    """Return a note if a second file rates outputs that the first lacks.

    Adds a problem if the first lacks all of them.
    """
    rated = set(beside.by_item) if beside else set()
    unknown = sorted(rated - {output.id for output in outputs})
    if unknown and len(unknown) == len(rated):
        fault = "is rated, and no output has this or any other id that is rated"
        advice = "give the file of outputs that was rated"
        problems.add("no-output", fault, advice, field="id", value=unknown[0])
    elif unknown:
        number = count(len(unknown), "rated id")
        return [f"{number} without an output left out, such as {excerpt(unknown[0])}"]
    return []


def _check_rated(
    outputs: Iterable[LabelledOutput],
    problems: Problems,
    options: ReadOptions,
    columns: Columns,
    layout: RatingColumns,
) -> None:
    """Add a problem for each of the caller's dimensions without a rating, or if none has any."""
    dimensions, table = _dimensions(outputs), columns.table
    in_rows = columns.values(str(columns.find("dimension"))) if columns.is_long else ()
    known = {*layout.numbers, *layout.keys, *map(str, in_rows)}
    for dimension in sorted({*(options.dimensions or ())}.difference(dimensions)):
        fault = f"no output has a rating on it; there are ratings on {joined_names(sorted(known))}"
        if near := close_names(dimension, table.columns):
            fault += f" (did you mean {near[0]}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not dimensions and not options.dimensions:
        fault = f"no column is known for labels; there are {joined_names(table.columns)}"
        problems.add("no-rating", fault, _label_advice(columns))


def _label_advice(columns: Columns) -> str:
    """How to say which column holds labels, or which of its two words is good."""
    free = columns.unused({*columns.used(ROLES), *columns.comments})
    leaves = columns.of_kind(columns.nested_names, "rating")
    likely = leaves or columns.of_kind(free, "label")
    cells = map(RatingCells, map(columns.values, likely))
    pairs = [of_column.values_flag for of_column in cells if of_column.is_unknown_pair]
    if len(pairs) == 1:
        return f"say which word is good, as in {pairs[0]} (or the other way round)"
    flags = " or ".join(map_flag("label", [name]) for name in likely[:3] or ["COLUMN"])
    return f"name one, as in {flags}, or give labels: dspy-judges label FILE --dimension NAME"
