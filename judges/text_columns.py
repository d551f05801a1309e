"""Finds the columns of a table that hold the texts that a judge reads."""

from collections.abc import Callable, Collection, Mapping, Sequence

from dspy_judges.errors import JudgesError
from judges.dimension import Subject
from judges.labels.cells import KEY_SEPARATOR, MAX_INSPECTED_ROWS, as_object
from judges.labels.names import name_key, only_text_name
from judges.tables.text import TableRow

# Usual names of the column with the prompt in files of pairs.
SHARED_TEXT_COLUMNS = ("prompt", "document", "post", "query")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column for a text that the judge reads, or several columns of one name."""


def match_columns(
    subject: Subject, column_by_name: Mapping[str, str], rows: Sequence[Mapping[str, object]]
) -> dict[str, str]:
    """Map the name of each text to its column; texts without a column are left out.

    `column_by_name` maps accepted names of texts to the columns that the user chose. The user may
    also choose `a.b`, the key `b` of the objects in the column `a`. If the user chose no column for
    a text, it is the first column with an accepted name, or the only one with a similar name, or
    the column that `check` and `tune` would read as this text. A column without a usual name for
    texts is recognised by its cells in the first rows.
    """
    table_columns, column_by_text = _text_columns(rows), dict[str, str]()
    texts_to_find: list[str] = []
    for text_name in subject.texts:
        accepted_names = accepted_column_names(subject, text_name)
        chosen_columns = [column_by_name[name] for name in accepted_names if name in column_by_name]
        column = _find_similar_column(chosen_columns[:1] or accepted_names, table_columns)
        if column is not None:
            column_by_text[text_name] = column
        elif not chosen_columns:
            texts_to_find.append(text_name)
        elif chosen_columns[0].partition(".")[0] in table_columns:
            column_by_text[text_name] = chosen_columns[0]
    if texts_to_find:
        label_columns = _match_as_labels(subject, table_columns, rows[:MAX_INSPECTED_ROWS])
        column_by_text |= {n: label_columns[n] for n in texts_to_find if n in label_columns}
    return column_by_text


def _find_similar_column(names: Collection[str], table_columns: Collection[str]) -> str | None:
    """Return the first of `names` that is a column, else the only column with a similar name."""
    for name in names:
        if name in table_columns:
            return name
    name_keys = {*map(name_key, names)}
    similar_columns = [column for column in table_columns if name_key(column) in name_keys]
    return similar_columns[0] if len(similar_columns) == 1 else None


def _match_as_labels(
    subject: Subject, table_columns: Collection[str], rows: Sequence[Mapping[str, object]]
) -> dict[str, str]:
    """Map the name of each text to the column that it has in a table of labels, if any."""
    # These imports are slow, and tables with the judge's own names of texts do not need them.
    from judges.labels.options import ReadOptions
    from judges.labels.roles import infer_roles
    from judges.tables.formats import Table

    table_rows = tuple(TableRow(line=n, cells=dict(row)) for n, row in enumerate(rows, 1))
    table = Table(name="", sha256="", is_typed=False, columns=tuple(table_columns), rows=table_rows)
    roles = infer_roles(table, ReadOptions(reads_labels=False), "outputs")
    responses = roles.responses.columns if subject.is_pairwise and roles.responses else ()
    column_by_text = {name: c for name, c in roles.texts.items() if c not in responses}
    if only_text := only_text_name(column_by_text, subject.inputs):
        (input_name,) = subject.inputs
        column_by_text[input_name] = column_by_text[only_text]
    return column_by_text | dict(zip(subject.fields, responses, strict=False))


def find_columns(
    subject: Subject,
    column_by_name: Mapping[str, str],
    rows: Sequence[Mapping[str, object]],
    print_note: Callable[[str], object],
) -> dict[str, str]:
    """Return the column of each text that the judge reads; see `match_columns`.

    Prints a note on columns that neither the user nor a usual name gives. Raises MissingColumnError
    if a text has no column.
    """
    column_by_text = match_columns(subject, column_by_name, rows)
    if missing_texts := [name for name in subject.texts if name not in column_by_text]:
        missing_columns = [repr(column_by_name.get(name, name)) for name in missing_texts]
        map_flags = " ".join(f"--map {name}=COLUMN" for name in missing_texts)
        raise MissingColumnError(
            f"no column {' or '.join(missing_columns)}, which the judge {subject.name!r} reads; "
            f"columns: {', '.join(sorted(_text_columns(rows))) or 'none'}. Name one by {map_flags} "
            f"or, in Python, map={dict.fromkeys(missing_texts, 'COLUMN')}"
        )
    phrases = [
        f"{name} from {column}"
        for name, column in column_by_text.items()
        if column not in column_by_name.values()
        and name_key(column) not in map(name_key, accepted_column_names(subject, name))
    ]
    if phrases:
        print_note(f"note: {subject.name} reads {' and '.join(phrases)}")
    return column_by_text


def _text_columns(rows: Sequence[Mapping[str, object]]) -> dict[str, None]:
    """Return the rows' columns, and the paths of texts in objects, such as `inputs.question`."""
    columns: dict[str, None] = {}
    for row in rows[:MAX_INSPECTED_ROWS]:
        columns |= dict.fromkeys(row)
        for column, cell in row.items():
            for key, value in (as_object(cell) or {}).items():
                if isinstance(value, str):
                    columns[f"{column}{KEY_SEPARATOR}{key}"] = None
    return columns


def accepted_column_names(subject: Subject, text_name: str) -> list[str]:
    """Return the names that a text's column may have; for pairs, also names such as `prompt`."""
    if not subject.is_pairwise:
        return [text_name]
    if text_name in subject.fields:
        return [text_name, f"response{text_name[-2:]}"]
    return [text_name, *SHARED_TEXT_COLUMNS] if len(subject.inputs) == 1 else [text_name]
