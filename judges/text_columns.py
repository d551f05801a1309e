"""Find the columns of a table that hold the texts that a judge reads."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Subject
from judges.labels.conversations import as_texts

# Common column names in label files of pairs: for the text that both outputs answer, and for the
# outputs themselves (followed by _a and _b).
SHARED_TEXT_NAMES = ("prompt", "document", "post", "query")
OUTPUT_NAMES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column, or several columns of one name, for a text that the judge reads."""


def find_columns(
    subject: Subject, available_columns: Collection[str], mapping: Mapping[str, str] = {}
) -> dict[str, str]:
    """The column of each text that the judge reads, by the text's name.

    A text's column is the one that `mapping` gives, else the one with the text's name. For a pair,
    names that are common in label files are found as well (`prompt`, `response_a`). Raises
    MissingColumnError if a text has no column.
    """
    column_by_text: dict[str, str] = {}
    for name in subject.texts:
        names = [mapping[name]] if name in mapping else _accepted_names(subject, name)
        if (column := _find_column(names, available_columns)) is not None:
            column_by_text[name] = column
    if missing_texts := [name for name in subject.texts if name not in column_by_text]:
        column_names = " or ".join(repr(mapping.get(name, name)) for name in missing_texts)
        flags = " ".join(f"--map {name}=COLUMN" for name in missing_texts)
        raise MissingColumnError(
            f"no column {column_names}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(available_columns)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={dict.fromkeys(missing_texts, 'COLUMN')}"
        )
    return column_by_text


def texts_of(
    subject: Subject,
    column_names: Sequence[str],
    records: Iterable[Sequence[object]],
    mapping: Mapping[str, str],
) -> list[dict[str, object]]:
    """The texts that the judge reads, for each record of a table; a record may hold a chat.

    Raises MissingColumnError if a text has no column, or several columns of one name.
    """
    rows = [as_texts(dict(zip(column_names, record, strict=True))) for record in records]
    column_by_text = find_columns(subject, {*column_names, *chain.from_iterable(rows)}, mapping)
    if duplicate_columns := [
        name for name in column_by_text.values() if column_names.count(name) > 1
    ]:
        raise MissingColumnError(f"two columns are called {duplicate_columns[0]!r}; rename one")
    return [{name: row.get(column) for name, column in column_by_text.items()} for row in rows]


def _find_column(accepted_names: Sequence[str], available_columns: Collection[str]) -> str | None:
    """The column with an accepted name, else the only column with a similar name."""
    if exact_matches := [name for name in accepted_names if name in available_columns]:
        return exact_matches[0]
    name_keys = set(map(name_key, accepted_names))
    similar_columns = [column for column in available_columns if name_key(column) in name_keys]
    return similar_columns[0] if len(similar_columns) == 1 else None


def _accepted_names(subject: Subject, text_name: str) -> list[str]:
    """The column names of a text; those of pairs include names that are common in label files."""
    if not isinstance(subject, Comparison):
        return [text_name]
    if text_name in subject.fields:
        return [text_name, *(f"{output_name}{text_name[-2:]}" for output_name in OUTPUT_NAMES)]
    return [text_name, *SHARED_TEXT_NAMES] if len(subject.inputs) == 1 else [text_name]
