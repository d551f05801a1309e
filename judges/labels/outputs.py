"""Reads outputs with people's ratings and comments from a table."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from judges.labels.cells import is_blank
from judges.labels.columns import OUTPUT_ROLES, Columns
from judges.labels.names import map_flag, name_words
from judges.labels.rating_columns import similar_name
from judges.labels.rating_reader import RatingReader
from judges.labels.ratings import RatingsByDimension, TableRatings, read_ratings
from judges.labels.roles import Roles
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledOutput, LabelledSet, rated_dimensions
from judges.tables.problems import Problems, UnreadableError, count_text, excerpt, joined_names


def read_outputs(
    roles: Roles, problems: Problems, annotation_ratings: TableRatings | None = None
) -> LabelledSet:
    """Return the labelled outputs in a wide or long table, and add a problem for each bad row.

    If a second file has the labels (`annotation_ratings`), labels in this table are not read.
    """
    options, unread_labels = roles.options, [*roles.all_rating_columns, *roles.comments]
    if annotation_ratings is not None and unread_labels:
        problems.notes.append(
            f"the labels in this file ({joined_names(unread_labels)}) are not read, since a "
            "second file has the labels; to use these labels, too, add them to that file"
        )
    row_reader = RowReader(roles, problems)
    ratings = annotation_ratings or read_ratings(roles, problems)
    comments = _read_comments(ratings.roles)
    outputs = tuple(
        _make_output(item, ratings.by_output.get(item.id, {}), comments.get(item.id, {}))
        for item in row_reader.read_rows()
    )
    if not problems:
        _check_rated_ids(outputs, problems, annotation_ratings)
    if not problems and options.reads_labels:
        file_phrase = "" if annotation_ratings is None else " in the file of --annotations"
        _check_has_ratings(outputs, ratings, problems, file_phrase)
    dimensions = rated_dimensions(outputs) if options.dimensions is None else options.dimensions
    n_rated = Counter(name for output in outputs for name in output.ratings)
    for name in dimensions:
        if n_unrated := len(outputs) - n_rated[name]:
            n_outputs_text = count_text(len(outputs), "output")
            problems.notes.append(f"no rating on {name}: {n_unrated:,} of {n_outputs_text}")
    reading = row_reader.file_reading()
    if annotation_ratings is not None:
        reading = replace(reading, ratings={}, comments=())
    return LabelledSet(
        name=roles.columns.table.name,
        sha256=roles.columns.table.sha256,
        outputs=outputs,
        grouped_by=row_reader.grouped_by,
        reading=reading,
        words=ratings.verdict_words,
    )


def _make_output(
    item: ItemFields, ratings: RatingsByDimension, comments: Mapping[str, tuple[str, ...]]
) -> LabelledOutput:
    return LabelledOutput(
        id=item.id,
        document_id=item.document_id,
        system=item.systems[0],
        texts=item.texts,
        ratings={name: tuple(rating_by_name.values()) for name, rating_by_name in ratings.items()},
        annotators={
            name: tuple(map(str, rating_by_name))
            for name, rating_by_name in ratings.items()
            if None not in rating_by_name
        },
        comments=comments,
        draw=item.sampling_cells,
    )


def _read_comments(roles: Roles) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return people's comments on each output, by the output's id and the dimension.

    A comment is on the dimensions that its column's name contains, or else on all dimensions.
    """
    columns, rating_columns = roles.columns, roles.rating_columns
    all_dimensions = roles.options.dimensions or (*rating_columns, *roles.nested_dimensions)
    # Maps the words in names of dimensions and their columns to dimensions; "" for an unread one.
    dimension_by_words = dict.fromkeys(map(name_words, columns.likely_ratings), "")
    dimension_by_words |= {name_words(name): name for name in all_dimensions}
    for name, dimension_columns in rating_columns.items():
        dimension_by_words |= dict.fromkeys(map(name_words, dimension_columns), name)
    comments_by_output: dict[str, dict[str, tuple[str, ...]]] = {}
    for row, column, comment in read_comments(roles):
        column_words = {*name_words(column)}
        matches = {name for words, name in dimension_by_words.items() if column_words >= {*words}}
        dimensions: Collection[str] = sorted(matches - {""}) if matches else all_dimensions
        if columns.is_long:
            dimensions = [roles.options.dimension_in(columns.cell(row, "dimension"))]
        comments_by_dimension = comments_by_output.setdefault(roles.item_id(row), {})
        for dimension in dimensions:
            earlier_comments = comments_by_dimension.get(dimension, ())
            comments_by_dimension[dimension] = (*earlier_comments, comment)
    return comments_by_output


def _check_rated_ids(
    outputs: Iterable[LabelledOutput], problems: Problems, annotation_ratings: TableRatings | None
) -> None:
    """Add a note if the file lacks some of the rated outputs, and a problem if it lacks all."""
    rated_ids = set(annotation_ratings.by_output) if annotation_ratings else set()
    unknown_ids = sorted(rated_ids - {output.id for output in outputs})
    if unknown_ids and len(unknown_ids) == len(rated_ids):
        fault = "is the id of a rated output, but this file has none of the rated outputs"
        advice = "give the file with the outputs that people rated"
        problems.add("no-output", fault, advice, field="id", value=unknown_ids[0])
    elif unknown_ids:
        ids_text = count_text(len(unknown_ids), "rated id")
        note = f"left out {ids_text} without an output, such as {excerpt(unknown_ids[0])}"
        problems.notes.append(note)


def _check_has_ratings(
    outputs: Iterable[LabelledOutput], ratings: TableRatings, problems: Problems, file_phrase: str
) -> None:
    """Add a problem for each requested dimension without ratings, or if nothing is rated."""
    dimensions, columns = rated_dimensions(outputs), ratings.roles.columns
    rated_names = {*columns.likely_ratings, *ratings.roles.nested_dimensions.values()}
    if columns.is_long:
        rated_names.update(str(columns.cell(row, "dimension")) for row in columns.table.rows)
    for dimension in sorted({*(columns.options.dimensions or ())}.difference(dimensions)):
        names_text = joined_names(sorted(rated_names)) + _unusable_text(columns)
        fault = f"no output has a rating on it{file_phrase}; there are ratings on {names_text}"
        other_columns = columns.except_for([columns.exact_name(dimension)])
        if similar_column := similar_name(dimension, other_columns):
            fault += f" (did you mean {similar_column}?)"
        advice = f"name your column with {map_flag(dimension, ['COLUMN'])}"
        problems.add("no-rating", fault, advice, field=dimension)
    if not dimensions and not columns.options.dimensions:
        with problems.collect():
            raise no_labels_error(ratings.roles)


def no_labels_error(roles: Roles) -> UnreadableError:
    """Return the error for a table without a column of labels; the error names all columns.

    The error advises the user to name a column of labels, or to say which of two words is good.
    """
    columns = roles.columns
    unused_columns = columns.except_for(columns.in_use(OUTPUT_ROLES).union(roles.comments))
    label_columns = columns.of_kind(columns.key_paths, "rating")
    label_columns = label_columns or columns.of_kind(unused_columns, "label")
    flags, two_word_flags = list[str](), list[str]()
    for name in label_columns:
        reader = RatingReader(columns.column(name).cells)
        values_flag = f" {reader.values_flag}" if reader.has_faults else ""
        flags.append(map_flag("label", [name]) + values_flag)
        if reader.has_two_unknown_words:
            two_word_flags.append(reader.values_flag)
    flag_text = " or ".join(flags[:3] or [map_flag("label", ["COLUMN"])])
    advice = f"name one, as in {flag_text}, or give labels: dspy-judges label FILE --dimension NAME"
    if len(two_word_flags) == 1:
        advice = f"say which word is good, as in {two_word_flags[0]} (or the other way round)"
    advice += "; for pairs: --map votes=COLUMN --map response_a=COLUMN --map response_b=COLUMN"
    names_text = joined_names(columns.table.columns) + _unusable_text(columns)
    fault = f"no column of labels was recognised; the columns are {names_text}"
    return UnreadableError("no-rating", fault, advice)


def _unusable_text(columns: Columns) -> str:
    """Return remarks that name the columns of a judge's scores, and the columns without values."""
    names = columns.except_for({f"{name}_failure" for name in columns.judge_scores})
    empty_columns = [name for name in names if all(map(is_blank, columns.column(name).cells))]
    text = f" (empty: {joined_names(empty_columns)})" if empty_columns else ""
    if columns.judge_scores:
        text += f" (a judge's scores, not labels: {joined_names(sorted(columns.judge_scores))})"
    return text
