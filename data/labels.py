"""From a table to labelled outputs or pairs, with every problem and every note on the way."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from data.cells import DOT, as_object, is_blank, value_in
from data.column_groups import ask_for_annotators, two_sides
from data.columns import (
    NESTED,
    OUTPUTS,
    SOURCES,
    Columns,
    add_missing_column,
    check_mapping,
    check_shared,
    is_known_text,
    mapping_advice,
    only_text,
)
from data.documents import document_notes, how_grouped, source_name
from data.ratings import (
    RatingColumns,
    RatingReader,
    Ratings,
    ReadOptions,
    find_ratings,
    read_annotator_rows,
    read_long,
)
from data.rows import RowReader, give_ids, item_key, merge_rows
from data.tables.problems import CellError, Problems, count, excerpt, joined_names
from data.tables.text import TableRow
from data.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet, Reading, Vote
from data.votes import VoteCells

_OUTPUT_ROLES = ("id", "group", "system", *NESTED, "annotator")
_SIDES = (("_a", "_b"), ("_A", "_B"), ("_1", "_2"))
_CHOICES = ("votes", "preferred", "preference", "winner")
_PAIR_ROLES = ("id", "group", "system_a", "system_b", "annotator")
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
    # Another file knows rows by ids of their own alone.
    if annotations is None:
        columns = columns.with_ids()
    file_columns, file_rating_columns = columns, find_ratings(columns, options.dimensions)
    check_shared(columns, problems, file_rating_columns.flat)
    if options.dimensions is None and not (columns.is_long or file_rating_columns.nested):
        guessed = [name for name in file_rating_columns.flat if name not in columns.mapping]
        ask_for_annotators(columns, guessed, problems)
    columns, file_ratings, notes = _join_annotators(columns, file_rating_columns, problems, options)
    rating_columns = find_ratings(columns, options.dimensions)
    ratings_by_id = {**(file_ratings or {})}
    for item, ratings in (annotations or {}).items():
        ratings_by_id[item] = ratings_by_id.get(item, {}) | ratings
    texts = columns.texts(columns.used(_OUTPUT_ROLES), rating_columns.all())
    row_reader = RowReader(
        columns, problems, texts, _required_texts(columns, problems, texts, options.texts)
    )
    if texts or options.texts is None or options.texts:
        row_reader.check(JOIN if file_columns.is_long else WIDE)
    rating_reader = RatingReader(columns, rating_columns, problems, options)
    system = columns.find("system")
    outputs = tuple(
        output
        for row in columns.table.rows
        if (output := _output(row, row_reader, rating_reader, system, ratings_by_id))
    )
    notes += row_reader.notes()
    if not problems:
        _check_rated(outputs, problems, options, columns)
    if annotations is not None or file_ratings is not None:
        notes += _join_notes(outputs, ratings_by_id, problems)
    if n_conflicting := rating_reader.n_conflicting:
        notes.append(
            f"{count(n_conflicting, 'rating')} unlike its annotations' mean, which counts; "
            "--map NAME=ratings.NAME reads the ratings instead"
        )
    notes += _column_notes(file_columns)
    notes += rating_reader.notes()
    notes += _output_notes(outputs, options)
    notes += document_notes(outputs) if row_reader.group is not None else []
    notes += _unread_notes(file_columns, file_rating_columns, texts, outputs, options)
    return LabelledSet(
        name=columns.table.name,
        sha256=columns.table.sha256,
        outputs=outputs,
        grouped_by=how_grouped(row_reader.group, texts),
        notes=(*columns.table.notes, *notes),
        reading=replace(
            _outputs_reading(file_columns, file_rating_columns, texts),
            map=file_columns.own_mapping,
            values=options.values,
        ),
    )


def _column_notes(columns: Columns) -> list[str]:
    """Which columns go by another name than the user gave, and where ids come from."""
    notes = [
        f"{excerpt(written)} was matched with column {excerpt(column)}"
        for written, column in columns.renamed.items()
    ]
    if columns.makes_ids:
        several = columns.is_long or columns.has_annotator_rows
        which = "the first row of its texts" if several else "its row"
        notes.append(f"no column holds ids: each is the number of {which}")
    return [*columns.notes, *notes]


def _join_annotators(
    columns: Columns, rating_columns: RatingColumns, problems: Problems, options: ReadOptions
) -> tuple[Columns, dict[str, Ratings] | None, list[str]]:
    """One row an output, where each annotator has a row; their ratings by id (else None); notes."""
    texts = columns.texts(columns.used(_OUTPUT_ROLES), rating_columns.all())
    # Surely an output's own, and no annotator's.
    own_texts = {
        name: column
        for name, column in texts.items()
        if is_known_text(name)
        or name in ("input", *(options.texts or ()))
        or name in columns.mapping
    }
    columns = give_ids(columns, problems, own_texts)
    rated: set[str] = set()
    notes: list[str] = []
    if columns.is_long:
        ratings, notes = read_long(columns, problems, options)
    elif columns.has_annotator_rows and columns.find("id") is not None:
        rating_reader = RatingReader(columns, rating_columns, problems, options)
        ratings = read_annotator_rows(columns, problems, rating_reader)
        notes = rating_reader.notes()
        rated = rating_columns.all() | {column.partition(DOT)[0] for column in rating_columns.all()}
    else:
        return columns, None, []
    columns, more_notes = merge_rows(columns, problems, rated=rated, texts=own_texts.values())
    return columns, ratings, notes + more_notes


def _required_texts(
    columns: Columns,
    problems: Problems,
    texts: Mapping[str, str],
    required: Collection[str] | None,
) -> Collection[str]:
    """The texts that every row must have; a problem for each that no column holds.

    Without `required` they are those of the usual names; else also what tells documents apart.
    """
    if required is None:
        return {*SOURCES, *OUTPUTS}
    if (only := only_text(texts, required)) is not None:
        return (only,)
    for name in required:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", and the judge reads it")
    source = source_name(texts)
    groups_by_text = source is not None and columns.find("group") is None
    return (*required, source) if groups_by_text and source is not None else tuple(required)


def _output(
    row: TableRow,
    row_reader: RowReader,
    rating_reader: RatingReader,
    system_column: str | None,
    ratings_by_id: Mapping[str, Ratings],
) -> LabelledOutput | None:
    """One row as a labelled output; None where its texts, id or document are unusable."""
    system = row_reader.name(row, system_column)
    fields = row_reader.read(row)
    ratings = rating_reader.read(row)
    if fields is None:
        return None
    ratings |= {
        dimension: by_annotator
        for dimension, by_annotator in ratings_by_id.get(fields.id, {}).items()
        if rating_reader.options.reads(dimension)
    }
    return LabelledOutput(
        id=fields.id,
        document_id=fields.document_id,
        system=system,
        texts=fields.texts,
        ratings={
            dimension: tuple(by_annotator.values()) for dimension, by_annotator in ratings.items()
        },
        annotators={
            dimension: tuple(name for name in by_annotator if name is not None)
            for dimension, by_annotator in ratings.items()
            if None not in by_annotator
        },
    )


def _check_rated(
    outputs: tuple[LabelledOutput, ...], problems: Problems, options: ReadOptions, columns: Columns
) -> None:
    """Add a problem for each dimension asked for without a rating, or where nothing is rated."""
    rated = sorted({dimension for output in outputs for dimension in output.ratings})
    for dimension in options.dimensions or ():
        if dimension not in rated:
            if dimension in find_ratings(columns, [dimension]).flat:
                fault = (
                    "no output has a rating on it: each cell is empty, or says that there is none"
                )
                advice = "give a column of ratings, or say what its words count with --values"
                problems.add("no-rating", fault, advice, field=dimension)
                continue
            nested = {name.partition(DOT)[2] for name in columns.nested_names}
            known = sorted({*find_ratings(columns, None).flat, *nested})
            others = (
                f"; there are ratings on {joined_names(known)}" if known else ", or on any other"
            )
            problems.add(
                "no-rating",
                f"no output has a rating on it{others}",
                mapping_advice(columns, dimension, dimension),
                field=dimension,
            )
    if not rated and not options.dimensions:
        advice = "add a column named as the dimension, or name yours with --map DIMENSION=COLUMN"
        used = columns.used(_OUTPUT_ROLES)
        labels: dict[str, str] = {}
        for column in columns.table.columns:
            value = next((value for value in columns.values(column) if not is_blank(value)), None)
            text = is_known_text(column) or columns.is_prose(column)
            label = value is not None and as_object(value) is None
            if label and column not in used and not text:
                labels[column] = f"{excerpt(column)} has {excerpt(value)}"
        fault = "no output has a rating"
        if labels:
            fault += f" that is a number ({'; '.join([*labels.values()][:3])})"
            names = [column if column.isprintable() else "NAME" for column in [*labels][:3]]
            flags = " or ".join(f"--dimension {shlex.quote(name)}" for name in names)
            advice = f"name the column that holds ratings, as in {flags}, or add one"
        named_by = [
            (column, names)
            for column in labels
            if len(names := _columns_named_in(columns, column)) == 2
        ]
        if named_by:
            column, (first, second) = named_by[0]
            pairs = (f"response_a={first}", f"response_b={second}", f"votes={column}")
            flags = " ".join(f"--map {shlex.quote(pair)}" for pair in pairs if pair.isprintable())
            advice = f"a file of pairs names its texts and votes, as in {flags}"
        if columns.inner_ratings:
            path = columns.inner_ratings[0]
            path = path if path.isprintable() else f"NAME{DOT}NAME"
            flag = shlex.quote(f"{path.rpartition(DOT)[2]}={path}")
            advice = f"name the ratings that stand inside others, as in --map {flag}"
        problems.add("no-rating", fault, advice)


def _columns_named_in(columns: Columns, column: str) -> list[str]:
    """The columns whose names stand in the cells of this one: whose text won, in a pair."""
    words = {str(value).strip().casefold() for value in columns.values(column)}
    return [other for other in columns.table.columns if other.casefold() in words]


def _join_notes(
    outputs: tuple[LabelledOutput, ...], ratings_by_id: Mapping[str, Ratings], problems: Problems
) -> list[str]:
    """How many outputs the annotations lack; a problem where they rate an id of no output."""
    ids = {output.id for output in outputs}
    unknown_ids = [item for item in ratings_by_id if item not in ids]
    if unknown_ids and not problems:
        problems.add(
            "no-output",
            f"is rated, but no output has this id ({count(len(unknown_ids), 'such id')})",
            "give the file of outputs that was rated",
            field="id",
            value=unknown_ids[0],
        )
    n_without = sum(output.id not in ratings_by_id for output in outputs)
    outputs_text = count(len(outputs), "output")
    return [f"not in the annotations: {n_without:,} of {outputs_text}"] if n_without else []


def _output_notes(outputs: tuple[LabelledOutput, ...], options: ReadOptions) -> list[str]:
    """How many outputs have no rating, for each dimension, and how many name no system."""
    rated = dict.fromkeys(name for output in outputs for name in output.ratings)
    outputs_text = count(len(outputs), "output")
    notes = []
    for dimension in rated if options.dimensions is None else options.dimensions:
        if n_without := sum(dimension not in output.ratings for output in outputs):
            notes.append(f"no rating on {dimension}: {n_without:,} of {outputs_text}")
    n_anonymous = sum(output.system is None for output in outputs)
    if 0 < n_anonymous < len(outputs):
        notes.append(f"no system: {n_anonymous:,} of {outputs_text}")
    return notes


def _unread_notes(
    columns: Columns,
    rating_columns: RatingColumns,
    texts: Mapping[str, str],
    outputs: tuple[LabelledOutput, ...],
    options: ReadOptions,
) -> list[str]:
    """Say what a reader of the file might take for read, and is not."""
    rated = {dimension for output in outputs for dimension in output.ratings}
    known = {*texts, *rated, *rating_columns.flat, *_OUTPUT_ROLES, "dimension", "rating"}
    notes = [
        f"--map {name}={mapped[0]} is not used: {name} is nothing that is read"
        for name, mapped in columns.mapping.items()
        if name not in known
    ]
    used = {*columns.used(_OUTPUT_ROLES), *rating_columns.all(), *texts.values()}
    counts = {name: why for name, why in columns.counts.items() if name not in used}
    if options.dimensions is not None or columns.is_long or rating_columns.nested:
        return notes  # which columns hold the ratings is said, not guessed
    if counts:
        name_list = ", ".join(f"{excerpt(name)} {why}" for name, why in counts.items())
        first = next((name for name in counts if name.isprintable()), "NAME")
        notes.append(
            f"numbers read as no ratings: {name_list}; --dimension NAME reads one, as in "
            f"--dimension {shlex.quote(first)}"
        )
    for name, column in texts.items():
        if not is_known_text(name) and (n_numbers := columns.count_numbers(column)):
            notes.append(
                f"column {column!r} was read as a text, though {count(n_numbers, 'cell')} of it "
                f"hold numbers; --dimension {column} reads it as ratings"
            )
    for name, column in texts.items():
        words = [str(value).strip() for value in columns.values(column) if not is_blank(value)]
        few = 0 < 2 * len(set(words)) <= len(words) and not columns.is_prose(column)
        if few and not is_known_text(name) and column not in columns.mapping.get(name, ()):
            first = column if column.isprintable() else "NAME"
            notes.append(
                f"column {column!r} holds a few words ({excerpt(words[0])}, ...) and was read as a "
                f"text; --dimension {shlex.quote(first)} reads it as ratings"
            )
    return notes


def _outputs_reading(
    columns: Columns, rating_columns: RatingColumns, texts: Mapping[str, str]
) -> Reading:
    """Which columns the parts, the texts and the ratings were read from."""
    roles = ["id", "group", "system"]
    roles += ["annotator"] if columns.has_annotator_rows else []
    if not columns.is_long:
        ratings = {name: (name,) for name in rating_columns.nested} | dict(rating_columns.flat)
        return _reading(columns, roles, texts, ratings)
    ratings = {columns.find("dimension") or "": (columns.find("rating") or "",)}
    long = (columns.find("dimension"), columns.find("annotator"))
    return _reading(columns, roles, texts, ratings, used=long)


def _reading(
    columns: Columns,
    roles: Iterable[str],
    texts: Mapping[str, str],
    ratings: Mapping[str, tuple[str, ...]],
    *,
    noun: str = "text",
    used: Iterable[str | None] = (),
) -> Reading:
    """Which column was read as what; `used` are columns read beside."""
    rows: dict[str, tuple[str, ...]] = {}
    for role in roles:
        column = columns.find(role)
        if role == "id" and columns.numbers_rows:
            several = columns.is_long or columns.has_annotator_rows
            rows[role] = (f"the first line of each {noun}" if several else "the line's number",)
        elif column is not None:
            rows[role] = (column,)
    read = {column for names in (*rows.values(), *ratings.values()) for column in names}
    read |= {*texts.values(), *(column or "" for column in used)}
    read |= {column.partition(DOT)[0] for column in read}
    unread = tuple(column for column in columns.table.columns if column not in read)
    return Reading(rows=rows, texts=texts, ratings=ratings, unread=unread)


def find_sides(columns: Columns) -> tuple[str, str, str] | None:
    """Return the candidate's word and the two columns that hold the candidates."""
    first, second = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if first is not None and second is not None:
        return "response", first[0], second[0]
    known = columns.table.columns
    for word in ("response", *OUTPUTS):
        for first_end, second_end in _SIDES:
            if {word + first_end, word + second_end} <= {*known}:
                return word, word + first_end, word + second_end
    for column in known:
        word, end = column[:-2], {"_a": "_b", "_1": "_2"}.get(column[-2:])
        if end and f"{word}{end}" in known and word not in ("system", "model", "generator"):
            other = f"{word}{end}"
            if not (columns.is_numeric(column) or columns.is_numeric(other)):
                return word, column, other
    sides = two_sides(columns)
    return None if sides is None else ("response", *sides)


def _find_choices(columns: Columns) -> tuple[str, ...]:
    """The columns that hold votes: those mapped, before any that is called so."""
    for name in _CHOICES:
        if name in columns.mapping:
            return tuple(column for column in columns.mapping[name] if columns.has(column))
    choices = (column for name in _CHOICES if (column := columns.find(name)) is not None)
    return tuple(choices)[:1]


def holds_pairs(columns: Columns) -> bool:
    """Whether a table holds two candidates and a choice (or nothing but them), and no ratings."""
    if find_sides(columns) is None or columns.holds_ratings:
        return False
    return _find_choices(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(
    columns: Columns, problems: Problems, options: ReadOptions | None = None
) -> LabelledPairs:
    """Read every pair that somebody voted on."""
    options = options or ReadOptions()
    check_mapping(columns, problems)
    columns = columns.with_ids()
    sides, choices = find_sides(columns), _find_choices(columns)
    known = joined_names(columns.table.columns)
    if sides is None:
        advice = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two candidates in {known}", advice)
    if not choices:
        advice = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {known}", advice)
    word, first, second = sides or ("response", "response_a", "response_b")
    roles = columns.used((*_PAIR_ROLES, *_CHOICES, "response_a", "response_b"))
    texts = columns.texts(roles | {first, second, *choices})
    all_texts = {**texts, "response_a": first, "response_b": second}
    reading = _reading(columns, _PAIR_ROLES, all_texts, {"votes": choices}, noun="pair")
    notes: list[str] = []
    votes: dict[int, tuple[Vote, ...] | None] = {}
    check_shared(columns, problems, {"votes": choices, "preferred": choices})
    if sides and choices:
        own_texts = {name: column for name, column in texts.items() if is_known_text(name)}
        own_texts |= {f"{word}_a": first, f"{word}_b": second}
        columns = give_ids(columns, problems, own_texts, noun="pair")
        joined = columns.has_annotator_rows and columns.find("id") is not None
        cells = {
            column: VoteCells(columns.values(column), options.values, (first, second))
            for column in choices
        }
        votes = _read_votes(columns, cells, problems, joined=joined)
        vote_notes = dict.fromkeys(note for reader in cells.values() for note in reader.notes())
        if joined:
            columns, notes = merge_rows(columns, problems, rated=choices, texts=own_texts.values())
            texts = {name: column for name, column in texts.items() if columns.has(column)}
        notes += vote_notes
    row_reader = RowReader(
        columns,
        problems,
        texts,
        _required_texts(columns, problems, texts, options.texts),
        candidates=(first, second),
    )
    if sides is not None:
        row_reader.check("give what both candidates answer, as in prompt, document, post or query")
    system_a, system_b = columns.find("system_a"), columns.find("system_b")
    pairs, n_without = [], 0
    for row in columns.table.rows if votes else ():
        fields = row_reader.read(row)
        response_a, response_b = (
            row_reader.text(row, column, column) for column in (first, second)
        )
        name_a, name_b = row_reader.name(row, system_a), row_reader.name(row, system_b)
        pair_votes = votes[row.line]
        n_without += pair_votes == ()
        if fields is None or response_a is None or response_b is None or not pair_votes:
            continue
        pairs.append(
            LabelledPair(
                id=fields.id,
                document_id=fields.document_id,
                texts=fields.texts,
                response_a=response_a,
                response_b=response_b,
                system_a=name_a,
                system_b=name_b,
                votes=pair_votes,
            )
        )
    notes += [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    notes += _column_notes(columns)
    notes += row_reader.notes()
    if not pairs and not problems:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    notes += document_notes(pairs) if row_reader.group is not None else []
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(pairs),
        candidate=word,
        grouped_by=how_grouped(row_reader.group, texts),
        notes=(*columns.table.notes, *notes),
        reading=replace(reading, map=columns.own_mapping, values=options.values),
    )


def _read_votes(
    columns: Columns, choices: Mapping[str, VoteCells], problems: Problems, *, joined: bool
) -> dict[int, tuple[Vote, ...] | None]:
    """The votes of every pair by its first row's line, all rows of an id `joined` or each alone.

    None where a vote is a fault.
    """
    id_in = columns.find("id")
    first_lines: dict[str | int, int] = {}
    votes: dict[int, tuple[Vote, ...] | None] = {}
    for row in columns.table.rows:
        line = first_lines.setdefault(item_key(row, id_in), row.line) if joined else row.line
        row_votes = _row_votes(columns, row, choices, problems)
        before = votes.setdefault(line, ())
        votes[line] = None if before is None or row_votes is None else before + row_votes
    return votes


def _row_votes(
    columns: Columns, row: TableRow, choices: Mapping[str, VoteCells], problems: Problems
) -> tuple[Vote, ...] | None:
    """The votes in one row's columns; None, and a problem, where a cell cannot be read."""
    votes: list[Vote] = []
    systems = [row.cells.get(columns.find(name) or "") for name in ("system_a", "system_b")]
    name_a, name_b = (None if is_blank(name) else str(name) for name in systems)
    for column, cells in choices.items():
        try:
            votes += cells.read(value_in(row, column), (name_a, name_b))
        except CellError as error:
            problems.add_cell(error, line=row.line, field=column)
            return None
    return tuple(votes)
