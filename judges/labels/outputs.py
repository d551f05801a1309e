"""Reads labelled outputs from a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from judges.labels.cells import KEY_SEPARATOR, value_at, without_keys
from judges.labels.column_mapping import check_mapping, mapping_advice
from judges.labels.columns import OUTPUT_ROLES, Columns
from judges.labels.names import map_flag, name_words
from judges.labels.pairs import RESPONSE_NAMES
from judges.labels.rating_columns import (
    RatingColumns,
    check_rating_columns,
    find_rating_columns,
    similar_name,
)
from judges.labels.rating_reader import RatingReader
from judges.labels.ratings import RatingsByDimension, ReadOptions, TableRatings, read_ratings
from judges.labels.rows import CommentsByItem, ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet, rated_dimensions
from judges.labels.values import is_missing_value
from judges.tables.problems import Problems, UnreadableError, count, excerpt, joined_names


def read_outputs(
    columns: Columns,
    problems: Problems,
    options: ReadOptions,
    second_ratings: TableRatings | None = None,
) -> LabelledSet:
    """Read labelled outputs from a wide or long table, and add the problems in it to `problems`.

    The ratings in `second_ratings` replace the table's own ratings on each of their dimensions.
    """
    check_mapping(columns, problems)
    rating_columns, notes = find_rating_columns(columns, options.dimensions), list[str]()
    if second_ratings is None:
        notes += check_rating_columns(rating_columns, problems)
    else:
        notes += _replacement_notes(rating_columns, second_ratings)
        rating_columns = rating_columns.only_named_by_user()
    reader = RowReader(
        columns,
        problems,
        roles=[*OUTPUT_ROLES, *(("dimension", "rating") if columns.is_long else ())],
        label_columns=set(rating_columns.nested).union(*rating_columns.by_dimension.values()),
        judge_texts=options.texts,
        candidates={},
    )
    ratings = read_ratings(rating_columns, options, problems)
    comments = _read_comments(rating_columns, options)
    if second_ratings is not None:
        ratings = _merge_ratings(ratings, second_ratings)
        for item_id, by_dimension in _read_comments(second_ratings.rating_columns, options).items():
            comments.setdefault(item_id, {}).update(by_dimension)
    outputs = tuple(
        _make_output(fields, ratings.by_item.get(fields.id, {}), comments.get(fields.id, {}))
        for fields in reader.items()
    )
    if not problems:
        notes += _check_rated_ids(outputs, problems, second_ratings)
    if not problems and options.reads_labels:
        _check_has_ratings(outputs, problems, rating_columns)
    dimensions = rated_dimensions(outputs) if options.dimensions is None else options.dimensions
    notes += _unrated_notes(outputs, dimensions)
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes, *ratings.notes),
        reading=reader.file_reading(rating_columns.columns_by_name()),
        words=ratings.words,
    )


def _unrated_notes(outputs: Sequence[LabelledOutput], dimensions: Iterable[str]) -> list[str]:
    """Return notes that say, for each dimension, how many outputs have no rating on it."""
    n_rated = Counter(name for output in outputs for name in output.ratings)
    n_outputs = count(len(outputs), "output")
    return [
        f"no rating on {name}: {len(outputs) - n_rated[name]:,} of {n_outputs}"
        for name in dimensions
        if n_rated[name] < len(outputs)
    ]


def _replacement_notes(source: RatingColumns, second: TableRatings) -> Iterator[str]:
    """Yield a note on each dimension that both files rate; it counts the outputs left unrated."""
    columns = source.columns
    for name in sorted({*source.by_dimension, *source.nested_dimensions} & second.dimensions):
        nested = (f"{column}{KEY_SEPARATOR}{name}" for column in source.nested)
        headers = (*source.by_dimension.get(name, ()), *nested)
        rated_ids = {
            columns.item_key(row)
            for row in columns.table.rows
            if not all(is_missing_value(value_at(row.cells, header)) for header in headers)
        }
        note = f"{name}: --annotations replaces the ratings in this file"
        if n_lost := sum(name not in second.by_item.get(item_id, ()) for item_id in rated_ids):
            note += (
                f", {n_lost:,} of them on outputs that it does not rate; to count these, too, "
                "give one file with the ids and labels of both"
            )
        yield note


def _merge_ratings(first: TableRatings, second: TableRatings) -> TableRatings:
    """Return the ratings of both files; a dimension in both is read from the second file only."""
    by_item = dict(second.by_item)
    for item_id, ratings in first.by_item.items():
        by_item[item_id] = without_keys(ratings, second.dimensions) | by_item.get(item_id, {})
    words = without_keys(first.words, second.dimensions) | second.words
    return replace(first, by_item=by_item, words=words)


def _make_output(
    fields: ItemFields, ratings: RatingsByDimension, comments: Mapping[str, tuple[str, ...]]
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


def _read_comments(rating_columns: RatingColumns, options: ReadOptions) -> CommentsByItem:
    """Return people's comments on their labels, by the output's id and the dimension.

    A comment is on the dimensions that the name of its column contains. If it contains none, the
    comment is on all dimensions that are read.
    """
    columns = rating_columns.columns
    if not options.reads_labels:
        return {}
    if columns.is_long:
        return read_comments(
            columns, lambda _, row: [options.dimension_in(columns.cell(row, "dimension"))]
        )
    all_dimensions = options.dimensions or (
        *rating_columns.by_dimension,
        *rating_columns.nested_dimensions,
    )
    # The names of each dimension and its columns; the dimension is "" if it is not read.
    names = [
        *((name, "") for name in rating_columns.numeric),
        *((name, name) for name in all_dimensions),
        *((c, name) for name, headers in rating_columns.by_dimension.items() for c in headers),
    ]
    dimension_by_words = {name_words(name): dimension for name, dimension in names}
    dimensions_by_column: dict[str, Iterable[str]] = {}
    for column in columns.comment_columns:
        column_words = {*name_words(column)}
        commented = {
            dimension
            for words, dimension in dimension_by_words.items()
            if words and column_words.issuperset(words)
        }
        dimensions_by_column[column] = sorted(commented - {""}) if commented else all_dimensions
    return read_comments(columns, lambda column, _: dimensions_by_column[column])


def _check_rated_ids(
    outputs: Iterable[LabelledOutput], problems: Problems, second_ratings: TableRatings | None
) -> list[str]:
    """Return a note on the rated ids of the second file that no output of the first file has.

    If the first file has none of these ids, add a problem instead.
    """
    rated_ids = set(second_ratings.by_item) if second_ratings else set()
    unknown_ids = sorted(rated_ids - {output.id for output in outputs})
    if unknown_ids and len(unknown_ids) == len(rated_ids):
        fault = "is rated, but no output has this id or any other rated id"
        advice = "give the file with the outputs that people rated"
        problems.add("no-output", fault, advice, field="id", value=unknown_ids[0])
    elif unknown_ids:
        n_unknown = count(len(unknown_ids), "rated id")
        return [f"left out {n_unknown} without an output, such as {excerpt(unknown_ids[0])}"]
    return []


def _check_has_ratings(
    outputs: Iterable[LabelledOutput], problems: Problems, rating_columns: RatingColumns
) -> None:
    """Add a problem for each requested dimension that no output is rated on.

    If no dimension was requested, add a problem if there are no ratings at all.
    """
    dimensions, columns = rated_dimensions(outputs), rating_columns.columns
    rated_names = {*rating_columns.numeric, *rating_columns.nested_dimensions}
    if columns.is_long:
        rated_names.update(map(str, columns.cells(str(columns.find("dimension")))))
    for dimension in sorted({*(rating_columns.dimensions or ())}.difference(dimensions)):
        rated_text = f"there are ratings on {joined_names(sorted(rated_names))}"
        fault = f"no output has a rating on it; {rated_text}{_scores_remark(columns)}"
        if similar_column := similar_name(dimension, columns.table.columns):
            fault += f" (did you mean {similar_column}?)"
        problems.add("no-rating", fault, mapping_advice(columns, dimension), field=dimension)
    if not dimensions and not rating_columns.dimensions:
        with problems.collect():
            raise no_labels_error(columns)


def no_labels_error(columns: Columns) -> UnreadableError:
    """Return the error that a table has no column of labels, with its columns and advice."""
    column_names = joined_names(columns.table.columns)
    fault = "no column of labels was recognised; the columns are "
    fault += f"{column_names}{_scores_remark(columns)}"
    return UnreadableError("no-rating", fault, _label_advice(columns))


def _scores_remark(columns: Columns) -> str:
    scores = joined_names(sorted(columns.judge_score_columns))
    return f" (a judge's scores, not labels: {scores})" if columns.judge_score_columns else ""


def _label_advice(columns: Columns) -> str:
    """Return advice to name the column of labels, or to say which of its two words is good."""
    used_columns = columns.used_columns(OUTPUT_ROLES).union(columns.comment_columns)
    label_columns = columns.of_kind(columns.nested_keys, "rating")
    label_columns = label_columns or columns.of_kind(columns.columns_except(used_columns), "label")
    for name in label_columns:
        answers = [column for column in columns.table.columns if column in columns.cells(name)]
        if len(answers) == 2:  # the cells name the better one of two other columns
            votes = [c for c in label_columns if not {*answers}.isdisjoint(columns.cells(c))]
            pair_columns = (votes, answers[:1], answers[1:])
            pair_flags = map(map_flag, ("votes", *RESPONSE_NAMES), pair_columns)
            return f"these are pairs: name their columns with {' '.join(pair_flags)}"
    readers = [RatingReader(columns.cells(name)) for name in label_columns]
    word_flags = [reader.values_flag for reader in readers if reader.has_two_unknown_words]
    if len(word_flags) == 1:
        return f"say which word is good, as in {word_flags[0]} (or the other way round)"
    flags = [
        f"{map_flag('label', [name])}{f' {reader.values_flag}' if reader.has_faults else ''}"
        for name, reader in zip(label_columns[:3], readers, strict=False)
    ]
    examples = " or ".join(flags or [map_flag("label", ["COLUMN"])])
    return f"name one, as in {examples}, or give labels: dspy-judges label FILE --dimension NAME"
