"""Reads labelled outputs from a table, with every problem and note."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from judges.labels.columns import Columns, check_mapping, mapping_advice
from judges.labels.names import map_flag, tokens
from judges.labels.rating_columns import NOT_RATED, RatingColumns, check_ratings, find_ratings
from judges.labels.ratings import RatingReader, Ratings, ReadOptions, ReadRatings
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet
from judges.labels.values import RatingCells
from judges.tables.problems import Problems, count, excerpt, joined_names

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
    notes: list[str] = []
    if annotations is None:
        notes = check_ratings(columns, layout, options.dimensions, problems)
    else:
        # Beside labels, a column that nobody called a rating is none.
        named = {name: (columns.own_name(name),) for name in options.dimensions or ()}
        flat = {n: h for n, h in layout.flat.items() if n in columns.mapping or named.get(n) == h}
        layout = replace(layout, flat=flat, guesses=(), candidates=())
    roles = [*ROLES, "dimension", "rating"] if columns.is_long else [*ROLES]
    reader = RowReader(columns, problems, roles=roles, rated=layout.all(), judged=options.texts)
    comments = _read_comments(columns, layout, options)
    ratings = RatingReader(columns, layout, options, problems).read()
    if annotations is not None:
        ratings = _replace_ratings(ratings, annotations)
        for item, by_name in _read_comments(annotations.columns, layout, options).items():
            comments[item] = comments.get(item, {}) | by_name
    outputs = tuple(
        _output(fields, ratings.by_item.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if annotations is not None and not problems:
        notes += _check_ids(outputs, problems, annotations)
    if options.labelled and not problems:
        _check_rated(outputs, problems, options, columns, layout)
    dimensions = _dimensions(outputs) if options.dimensions is None else options.dimensions
    rated_in = {name: (name,) for name in layout.nested} | dict(layout.flat)
    if columns.is_long:
        rated_in = {"rating": columns.find_all(["rating"])}
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=reader.grouped_by,
        notes=(
            *columns.table.notes,
            *reader.notes,
            *notes,
            *_note_unrated(outputs, dimensions),
            *ratings.notes,
        ),
        reading=reader.reading(rated_in),
        words=ratings.words,
    )


def _dimensions(outputs: Iterable[LabelledOutput]) -> list[str]:
    return sorted({dimension for output in outputs for dimension in output.ratings})


def _note_unrated(outputs: Sequence[LabelledOutput], dimensions: Collection[str]) -> Iterator[str]:
    """Yield a note on each dimension on which some outputs have no rating."""
    for name in dimensions:
        n_unrated = sum(name not in output.ratings for output in outputs)
        if n_unrated:
            yield f"no rating on {name}: {n_unrated:,} of {count(len(outputs), 'output')}"


def _replace_ratings(own: ReadRatings, annotations: ReadRatings) -> ReadRatings:
    """A file's ratings, but those of `annotations` on every dimension that these rate."""
    replaced = {name for by_name in annotations.by_item.values() for name in by_name}
    by_item = dict(annotations.by_item)
    for item, by_name in own.by_item.items():
        kept = {name: by_name[name] for name in by_name if name not in replaced}
        by_item[item] = kept | by_item.get(item, {})
    words = {name: own.words[name] for name in own.words if name not in replaced}
    return replace(own, by_item=by_item, words=words | annotations.words)


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
    if not options.labelled:
        return {}
    if columns.is_long:
        return read_comments(columns, lambda _, row: [str(columns.cell(row, "dimension")).strip()])
    names = [*(options.dimensions or (*layout.flat, *layout.keys))]
    # The dimension by the words of its columns; none for a dimension that is not read.
    by_words = {tokens(column): "" for column in layout.candidates}
    by_words |= {tokens(name): name for name in names}
    for name, headers in layout.flat.items():
        by_words |= dict.fromkeys(map(tokens, headers), name)
    by_words.pop((), None)
    dimensions = {column: _dimensions_in(column, by_words, names) for column in columns.comments}
    return read_comments(columns, lambda column, _: dimensions[column])


def _dimensions_in(
    column: str, by_words: Mapping[tuple[str, ...], str], names: list[str]
) -> list[str]:
    words = {*tokens(column)}
    in_name = {name for own_words, name in by_words.items() if words.issuperset(own_words)}
    return sorted(in_name - {""}) if in_name else names


def _check_ids(
    outputs: Iterable[LabelledOutput], problems: Problems, annotations: ReadRatings
) -> list[str]:
    """Return a note if a second file rates outputs that the first lacks.

    Adds a problem if the first lacks all of them.
    """
    ids = {output.id for output in outputs}
    unknown = sorted(annotations.by_item.keys() - ids)
    if unknown and ids.isdisjoint(annotations.by_item):
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
    dimensions = _dimensions(outputs)
    of_long = columns.values(str(columns.find("dimension"))) if columns.is_long else ()
    names = joined_names(sorted({*layout.candidates, *layout.keys, *map(str, of_long)}))
    for dimension in sorted({*(options.dimensions or ())}.difference(dimensions)):
        fault = f"no output has a rating on it; there are ratings on {names}"
        if near := get_close_matches(dimension, columns.table.columns, 1, 0.85):
            fault += f" (did you mean {near[0]}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not dimensions and not options.dimensions:
        fault = f"no column is known for labels; there are {joined_names(columns.table.columns)}"
        problems.add("no-rating", fault, _label_advice(columns))


def _label_advice(columns: Columns) -> str:
    reserved = {*columns.used(ROLES), *columns.comments}
    unused = [column for column in columns.table.columns if column not in reserved]
    leaves = [name for name in columns.nested_names if columns.kind(name) == "rating"]
    likely = leaves or [column for column in unused if columns.kind(column) == "label"]
    cells = map(RatingCells, map(columns.values, likely))
    flags = [of_column.values_flag for of_column in cells if of_column.is_unknown_pair]
    if len(flags) == 1:
        return f"say which word is good, as in {flags[0]} (or the other way round)"
    flags = [map_flag("label", [name]) for name in likely[:3]] or ["--map label=COLUMN"]
    advice = f"name one, as in {' or '.join(flags)}"
    return f"{advice}, or give labels: dspy-judges label FILE --dimension NAME"
