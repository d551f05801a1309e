"""Finds the columns of a table that hold texts, and the text by which outputs are grouped."""

from collections.abc import Collection, Mapping

from judges.labels.cells import without_keys
from judges.labels.column_kinds import Column
from judges.labels.columns import ROLE_NAMES, Columns
from judges.labels.names import (
    OUTPUT_NAMES,
    is_reference_name,
    is_source_or_output,
    is_text_name,
    name_key,
    name_words,
    source_name,
)


def find_texts(
    columns: Columns, used_columns: Collection[str], label_columns: Collection[str]
) -> dict[str, str]:
    """Map the name of each text to the column that holds it.

    `used_columns` have another role, as those of ids and comments do. A column that the user names
    with --map is a text, unless it holds labels or the user maps it to one of `ROLE_NAMES`.
    """
    user_texts, other_texts = dict[str, str](), dict[str, str]()
    for name, (column, *_) in without_keys(columns.by_name, ROLE_NAMES).items():
        holds_strings = columns.kind_of(column) in ("text", "label", "name")
        if column not in label_columns and (holds_strings or is_source_or_output(name)):
            user_texts[name] = column
    # A text by which the user groups the outputs, such as their source, is still a text.
    group_texts = columns.of_kind(columns.by_name.get("group", ()), "text")
    role_columns = {*used_columns}.difference(group_texts)
    outer_columns = {*map(columns.outer_name, (*used_columns, *label_columns))}
    for column in columns.except_for(role_columns.union(label_columns)):
        name = _text_name(columns, column)
        # If the objects in a column hold ids or labels, the column itself is not a text.
        is_unused = is_text_name(column) or column not in outer_columns
        if is_unused and _holds_texts(columns, column) and name not in columns.by_name:
            other_texts[name] = column
    # Beside longer texts, short repeated values may reveal which system wrote the output.
    if columns.of_kind((*other_texts.values(), *user_texts.values()), "text"):
        other_texts = {n: c for n, c in other_texts.items() if not columns.column(c).is_category}
    return other_texts | user_texts


def _holds_texts(columns: Columns, column: str) -> bool:
    """Return whether a column holds long texts, or short ones that cannot be labels."""
    # A short reference answer, such as the cells of `ground truth`, may be the label.
    may_be_label = is_reference_name(column) or not columns.options.reads_labels
    return columns.kind_of(column) in (("text",) if may_be_label else ("text", "label"))


def _text_name(columns: Columns, column: str) -> str:
    """Return the name of a column's text, such as `user_input` for the column `User Input`."""
    column_key, standard_name = name_key(column), "_".join(name_words(column))
    if not is_text_name(column) or columns.exact_name(column_key) != column:
        return column
    if standard_name.isascii():
        return standard_name
    return "output" if column_key in OUTPUT_NAMES else "input"


def find_source_text(texts: Mapping[str, Column]) -> str | None:
    """Return the name of the source text, by which outputs are grouped; None without one.

    The source text is the one whose name is first in `SOURCE_NAMES`, else a text that repeats. It
    is preferably in a column without blank cells, and with at least two different values.
    """
    varied_texts = [name for name, column in texts.items() if column.is_filled_and_varied]
    if named_source := source_name(varied_texts) or source_name(texts):
        return named_source
    max_distinct = max((column.n_distinct for column in texts.values()), default=0)
    source_names = [name for name, column in texts.items() if column.may_be_source(max_distinct)]
    return max(source_names, key=lambda name: texts[name].n_distinct, default=None)
