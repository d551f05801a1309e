"""Find the columns of a table that hold the texts that a judge reads."""

from collections.abc import Collection, Mapping

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Subject

# Common column names in label files of pairs: for the text that both outputs answer, and for the
# outputs themselves (followed by _a and _b).
SHARED_TEXT_NAMES = ("prompt", "document", "post", "query")
OUTPUT_NAMES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column, or several columns of one name, for a text that the judge reads."""


def match_columns(
    subject: Subject, mapping: Mapping[str, str], columns: Collection[str]
) -> dict[str, str]:
    """Map the name of each text to its column; texts without a column are left out.

    `mapping` has the user's choices, by the text's name or another accepted name. A choice may also
    be `a.b`, the key `b` of the objects in the column `a`. Without a choice, a text is in the first
    column with an accepted name, else in the only column with a similar name.
    """
    column_by_text: dict[str, str] = {}
    for text_name in subject.texts:
        names = column_names_of(subject, text_name)
        chosen_column = next((mapping[name] for name in names if name in mapping), None)
        if chosen_column is not None:
            names = [chosen_column]
        name_keys = set(map(name_key, names))
        exact_matches = [name for name in names if name in columns]
        similar_columns = [column for column in columns if name_key(column) in name_keys]
        if exact_matches:
            column_by_text[text_name] = exact_matches[0]
        elif len(similar_columns) == 1:
            column_by_text[text_name] = similar_columns[0]
        elif chosen_column is not None and chosen_column.partition(".")[0] in columns:
            column_by_text[text_name] = chosen_column
    return column_by_text


def find_columns(
    subject: Subject, mapping: Mapping[str, str], columns: Collection[str]
) -> dict[str, str]:
    """Return the column of each text that the judge reads, as by `match_columns`.

    Raises MissingColumnError if a text has no column.
    """
    column_by_text = match_columns(subject, mapping, columns)
    if missing_texts := [name for name in subject.texts if name not in column_by_text]:
        names = " or ".join(repr(mapping.get(name, name)) for name in missing_texts)
        flags = " ".join(f"--map {name}=COLUMN" for name in missing_texts)
        raise MissingColumnError(
            f"no column {names}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(columns)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={dict.fromkeys(missing_texts, 'COLUMN')}"
        )
    return column_by_text


def column_names_of(subject: Subject, text_name: str) -> list[str]:
    """Return a text's accepted column names; for pairs, also the usual names of label files."""
    if not isinstance(subject, Comparison):
        return [text_name]
    if text_name in subject.fields:
        return [text_name, *(f"{output_name}{text_name[-2:]}" for output_name in OUTPUT_NAMES)]
    return [text_name, *SHARED_TEXT_NAMES] if len(subject.inputs) == 1 else [text_name]
