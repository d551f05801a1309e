"""From a table to labelled outputs, with every problem and every note on the way."""

import shlex
from collections.abc import Collection, Iterable, Mapping

from data.cells import DOT, as_object, is_blank
from data.columns import (
    LINE,
    Columns,
    add_missing_column,
    check_mapping,
    is_known_text,
    map_flag,
    mapping_advice,
    only_text,
    source_name,
    tokens,
)
from data.documents import document_notes, how_grouped
from data.ratings import (
    NOT_RATED,
    RatingColumns,
    Ratings,
    ReadOptions,
    check_ratings,
    find_ratings,
    read_ratings,
)
from data.rows import RowReader, check_repeats, item_key, merge_rows
from data.tables.problems import Problems, count, excerpt, joined_names
from data.tables.text import TableRow
from data.types import LabelledOutput, LabelledSet, Reading

OUTPUT_ROLES = (*NOT_RATED, "annotator")
WIDE = "give what systems were given and wrote, as in document and summary"
JOIN = "give it beside the file of outputs: --annotations FILE, or read_labels(annotations=FILE)"


def read_outputs(
    columns: Columns,
    problems: Problems,
    options: ReadOptions,
    annotations: Mapping[str, Ratings] | None = None,
) -> LabelledSet:
    """Read a wide or long table; `annotations` are another file's ratings by id, and go first."""
    check_mapping(columns, problems)
    notes: list[str] = []
    rated = find_ratings(columns, options.dimensions).all()
    own_texts = columns.texts(columns.used(OUTPUT_ROLES), rated)
    table_columns = columns
    # Another file knows rows by ids of their own alone.
    if columns.makes_ids and annotations is None and not columns.is_long:
        columns = with_line_numbers(columns)
        notes.append("no column holds ids: each is the number of its row")
    file_columns, rating_columns = columns, find_ratings(columns, options.dimensions)
    notes += check_ratings(columns, rating_columns, options, problems)
    if not problems:
        read = columns.used(OUTPUT_ROLES) | rated | {*own_texts.values(), *columns.comments}
        unread = [column for column in columns.table.columns if column not in read]
        check_repeats(table_columns, problems, own_texts, noun="output", unread=unread)
    comments = _read_comments(columns, rating_columns, options)
    ratings, rating_notes = read_ratings(columns, rating_columns, options, problems)
    several = columns.is_long or (columns.has_annotator_rows and columns.find("id") is not None)
    if several:
        rated |= {column.partition(DOT)[0] for column in rated}
        judged = [c for n, c in own_texts.items() if columns.is_judged(n) or n in columns.mapping]
        columns, more_notes = merge_rows(columns, problems, rated=rated, texts=judged)
        notes += more_notes
    for item, more in (annotations or {}).items():
        ratings[item] = ratings.get(item, {}) | more
    texts = columns.texts(columns.used(OUTPUT_ROLES), rated)
    row_reader = RowReader(
        columns, problems, texts, required_texts(columns, problems, texts, options)
    )
    if texts or options.texts is None or options.texts:
        row_reader.check(JOIN if file_columns.is_long else WIDE)
    system = columns.find("system")
    outputs = tuple(
        output
        for row in columns.table.rows
        if (output := _output(row, row_reader, system, ratings, comments))
    )
    notes += row_reader.notes()
    if not problems:
        _check_rated(outputs, problems, options, file_columns)
    if annotations is not None:
        notes += _join_notes(outputs, annotations, problems)
    notes += rating_notes + _output_notes(outputs, options)
    notes += document_notes(outputs) if row_reader.group is not None else []
    notes += _unread_notes(file_columns, texts, outputs, options)
    grouped_by = how_grouped(row_reader.group, row_reader.source)
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=grouped_by,
        notes=(*columns.table.notes, *notes),
        reading=_outputs_reading(file_columns, options, texts),
    )


def with_line_numbers(columns: Columns) -> Columns:
    """The same columns, with the rows' numbers for ids."""
    return Columns(columns.table, {**columns.mapping, "id": LINE}, columns.judged)


def required_texts(
    columns: Columns, problems: Problems, texts: Mapping[str, str], options: ReadOptions
) -> Collection[str]:
    """The texts that every row must have; a problem for each that no column holds.

    Unless the options say, they are those of the usual names; else also what tells documents apart.
    """
    required, source = options.texts, source_name(texts)
    if required is None:
        # What goes with an instruction is often empty.
        return {name for name in texts if is_known_text(name)} - ({"input"} - {source})
    if (only := only_text(texts, required)) is not None:
        return (only,)
    for name in required:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", and the judge reads it")
    return (*required, *([source] if source and columns.find("group") is None else []))


def _output(
    row: TableRow,
    row_reader: RowReader,
    system_column: str | None,
    ratings_by_id: Mapping[str, Ratings],
    comments: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> LabelledOutput | None:
    """One row as a labelled output; None where its texts, id or document are unusable."""
    system = row_reader.name(row, system_column)
    fields = row_reader.read(row)
    if fields is None:
        return None
    ratings = {name: given for name, given in ratings_by_id.get(fields.id, {}).items() if given}
    return LabelledOutput(
        id=fields.id,
        document_id=fields.document_id,
        system=system,
        texts=fields.texts,
        ratings={name: tuple(given.values()) for name, given in ratings.items()},
        annotators={
            name: tuple(annotator for annotator in given if annotator is not None)
            for name, given in ratings.items()
            if None not in given
        },
        comments=comments.get(fields.id, {}),
    )


def _read_comments(
    columns: Columns, rating_columns: RatingColumns, options: ReadOptions
) -> dict[str, dict[str, tuple[str, ...]]]:
    """What people said of their labels, by the output's id and the dimension.

    A comment is on the dimensions in its column's name, or else on all that its row rates.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    id_in, dimension_in = columns.find("id"), columns.find("dimension") or ""
    nested = [name.partition(DOT)[2] for name in columns.nested_names if rating_columns.nested]
    names = [*(options.dimensions or (*rating_columns.flat, *nested))]
    by_column: dict[str, str | None] = dict.fromkeys(rating_columns.candidates)
    by_column |= {name: name for name in names}
    by_column |= {c: name for name, group in rating_columns.flat.items() for c in group}
    for column in columns.comments:
        words = {*tokens(column)}
        named = {name for of, name in by_column.items() if tokens(of) and {*tokens(of)} <= words}
        own = sorted(name for name in named if name) if named else names
        for row in columns.table.rows:
            comment = row.cells.get(column)
            if not isinstance(comment, str) or is_blank(comment):
                continue
            by_dimension = found.setdefault(str(item_key(row, id_in)), {})
            for name in [str(row.cells.get(dimension_in)).strip()] if columns.is_long else own:
                by_dimension[name] = (*by_dimension.get(name, ()), comment.strip())
    return found


def _check_rated(
    outputs: tuple[LabelledOutput, ...], problems: Problems, options: ReadOptions, columns: Columns
) -> None:
    """Add a problem for each dimension asked for without a rating, or where nothing is rated."""
    rated = sorted({dimension for output in outputs for dimension in output.ratings})
    everything = find_ratings(columns, None)
    for dimension in options.dimensions or ():
        if dimension in rated:
            continue
        if dimension in find_ratings(columns, [dimension]).flat:
            fault = "no output has a rating on it: each cell is empty, or says that there is none"
            advice = "give a column of ratings, or say what its words count with --values"
        else:
            nested = {name.partition(DOT)[2] for name in columns.nested_names}
            known = sorted({*everything.candidates, *(nested if everything.nested else ())})
            others = (
                f"; there are ratings on {joined_names(known)}" if known else ", or on any other"
            )
            fault = f"no output has a rating on it{others}"
            advice = mapping_advice(columns, dimension, dimension)
            if len(everything.candidates) > 1 and "did you mean" not in advice:
                flag = map_flag(dimension, everything.candidates)
                advice += f", or several where they are annotators of it, as in {flag}"
        problems.add("no-rating", fault, advice, field=dimension)
    if not rated and not options.dimensions:
        used = {*columns.used(OUTPUT_ROLES), *columns.comments}
        labels: dict[str, str] = {}
        for column in columns.table.columns:
            value = next((value for value in columns.values(column) if not is_blank(value)), None)
            text = is_known_text(column) or columns.is_prose(column)
            if value is not None and as_object(value) is None and column not in used and not text:
                labels[column] = f"{excerpt(column)} has {excerpt(value)}"
        fault = "no output has a rating"
        advice = "add a column named as the dimension, or name yours with --map DIMENSION=COLUMN"
        if labels:
            fault += f" that is a number ({'; '.join([*labels.values()][:3])})"
            names = [column if column.isprintable() else "NAME" for column in [*labels][:3]]
            flags = " or ".join(f"--dimension {shlex.quote(name)}" for name in names)
            advice = f"name the column that holds ratings, as in {flags}, or add one"
        inner = [name for name in columns.nested_names if name.partition(DOT)[0] not in used]
        if inner and not labels:
            flags = map_flag(inner[0].rpartition(DOT)[2], inner[:1])
            advice = f"name the ratings that stand inside others, as in {flags}"
        problems.add("no-rating", fault, advice)


def _join_notes(
    outputs: tuple[LabelledOutput, ...],
    annotations: Mapping[str, Ratings],
    problems: Problems,
) -> list[str]:
    """How many outputs the annotations lack; a problem where they rate an id of no output."""
    ids = {output.id for output in outputs}
    unknown_ids = [item for item in annotations if item not in ids]
    if unknown_ids and not problems:
        problems.add(
            "no-output",
            f"is rated, but no output has this id ({count(len(unknown_ids), 'such id')})",
            "give the file of outputs that was rated",
            field="id",
            value=unknown_ids[0],
        )
    n_without = len(ids - annotations.keys())
    total = count(len(outputs), "output")
    return [f"not in the annotations: {n_without:,} of {total}"] if n_without else []


def _output_notes(outputs: tuple[LabelledOutput, ...], options: ReadOptions) -> list[str]:
    """How many outputs have no rating, for each dimension."""
    rated = dict.fromkeys(name for output in outputs for name in output.ratings)
    total = count(len(outputs), "output")
    notes = []
    for dimension in rated if options.dimensions is None else options.dimensions:
        if n_without := sum(dimension not in output.ratings for output in outputs):
            notes.append(f"no rating on {dimension}: {n_without:,} of {total}")
    return notes


def _unread_notes(
    columns: Columns,
    texts: Mapping[str, str],
    outputs: tuple[LabelledOutput, ...],
    options: ReadOptions,
) -> list[str]:
    """Say what a reader of the file might take for read, and is not."""
    rated = {dimension for output in outputs for dimension in output.ratings}
    flat = find_ratings(columns, options.dimensions).flat
    known = {*texts, *rated, *flat, *OUTPUT_ROLES, "dimension", "rating"}
    notes = [
        f"--map {name}={mapped[0]} is not used: {name} is nothing that is read"
        for name, mapped in columns.mapping.items()
        if name not in known
    ]
    if options.dimensions is not None or columns.holds_ratings:
        return notes  # which columns hold the ratings is said, not guessed
    for name, column in texts.items():
        words = [str(value).strip() for value in columns.values(column) if not is_blank(value)]
        few = 0 < 2 * len(set(words)) <= len(words) and not columns.is_prose(column)
        if few and not is_known_text(name) and column not in columns.mapping.get(name, ()):
            flag = f"--dimension {shlex.quote(column if column.isprintable() else 'NAME')}"
            notes.append(
                f"column {column!r} holds a few words ({excerpt(words[0])}, ...) and was read as a "
                f"text; {flag} reads it as ratings"
            )
    return notes


def _outputs_reading(columns: Columns, options: ReadOptions, texts: Mapping[str, str]) -> Reading:
    """Which columns the parts, the texts and the ratings were read from."""
    roles = ["id", "group", "system"]
    roles += ["annotator"] if columns.has_annotator_rows else []
    found = find_ratings(columns, options.dimensions)
    if not columns.is_long:
        ratings = {name: (name,) for name in found.nested} | dict(found.flat)
        return reading_of(columns, roles, texts, ratings)
    roles += [role for role in ("dimension", "annotator") if columns.find(role)]
    return reading_of(columns, roles, texts, {"rating": (columns.find("rating") or "",)})


def reading_of(
    columns: Columns,
    roles: Iterable[str],
    texts: Mapping[str, str],
    ratings: Mapping[str, tuple[str, ...]],
) -> Reading:
    """Which column was read as what."""
    rows = {role: (column,) for role in roles if (column := columns.find(role)) is not None}
    if columns.numbers_rows:
        rows["id"] = (LINE,)
    read = {column for names in (*rows.values(), *ratings.values()) for column in names}
    read |= {*texts.values(), *columns.comments}
    read |= {column.partition(DOT)[0] for column in read}
    unread = tuple(column for column in columns.table.columns if column not in read)
    return Reading(
        rows=rows, texts=texts, ratings=ratings, comments=columns.comments, unread=unread
    )
