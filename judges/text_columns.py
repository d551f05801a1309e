"""Find the column of a table that holds a text that a judge reads."""

from collections.abc import Collection

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Subject

# Common column names in label files of pairs: for the text that both outputs answer, and for the
# outputs themselves (followed by _a and _b).
SHARED_TEXT_NAMES = ("prompt", "document", "post", "query")
OUTPUT_NAMES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column, or several columns of one name, for a text that the judge reads."""


def find_column(
    subject: Subject, text_name: str, available_columns: Collection[str], column: str | None
) -> str | None:
    """The column of a text; `column` is the user's choice, if any. None if there is no column.

    It is the first column with an accepted name, else the only column with a similar name.
    """
    accepted_names = _accepted_names(subject, text_name) if column is None else [column]
    if exact_matches := [name for name in accepted_names if name in available_columns]:
        return exact_matches[0]
    name_keys = set(map(name_key, accepted_names))
    similar_columns = [name for name in available_columns if name_key(name) in name_keys]
    return similar_columns[0] if len(similar_columns) == 1 else None


def _accepted_names(subject: Subject, text_name: str) -> list[str]:
    """The column names of a text; those of pairs include names that are common in label files."""
    if not isinstance(subject, Comparison):
        return [text_name]
    if text_name in subject.fields:
        return [text_name, *(f"{output_name}{text_name[-2:]}" for output_name in OUTPUT_NAMES)]
    return [text_name, *SHARED_TEXT_NAMES] if len(subject.inputs) == 1 else [text_name]
