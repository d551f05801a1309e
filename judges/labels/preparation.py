"""Prepares a table: removes rows of sums at its end, and labels that a later row replaces."""

import re
from collections import defaultdict
from dataclasses import replace

from judges.labels.cells import is_blank
from judges.labels.columns import ROW_NUMBER_COLUMN, Columns
from judges.labels.flags import read_scale
from judges.labels.values import Scale, looks_like_number
from judges.tables.formats import Table
from judges.tables.problems import count, excerpt
from judges.tables.text import TableRow

# The columns that say how a document was sampled: one over its probability to be drawn, and the
# number of documents from which it was drawn.
SAMPLING_COLUMNS = ("sampling_weight", "sampling_from")
# A column of the rows that `verify --changed` writes for people to label.
SWAP_COLUMN = "drawn_for_swap"
# Columns that a label page adds: the time of the label, whether the annotator changed it after
# seeing others' labels, and the scale.
_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN = "labelled_at", "changed_after", "rating_scale"
# The columns of a label page for an output that the annotator skipped or was unsure of.
_FLAG_COLUMNS = ("skipped", "unsure")
# Matches the name of a row of means or sums at the end of a sheet.
_FOOTER_NAME = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)


def without_footers(table: Table) -> Table:
    """Return the table without rows of means or sums at its end, and a note on each such row."""
    rows, notes = [*table.rows], list[str]()
    while not table.is_typed and len(rows) > 1 and (footer_name := _footer_name(rows[-1])):
        notes.insert(
            0, f"{excerpt(footer_name)} in the last row is not an output: the row is left out"
        )
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _footer_name(row: TableRow) -> str | None:
    """Return the label of a row of means or sums, such as `average`; None for any other row."""
    present_values = [str(value) for value in row.cells.values() if not is_blank(value)]
    words = [value for value in present_values if not looks_like_number(value)]
    return words[0] if len(words) == 1 and _FOOTER_NAME.match(words[0].strip()) else None


def with_latest_labels(columns: Columns) -> Columns:
    """Return the columns of a table with only the latest label of each annotator on each output.

    Only a table with the column `labelled_at` says which label is later. The columns that describe
    labels are removed from the table's columns, but their cells stay in the rows.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    if _TIME_COLUMN in table.columns and columns.find("id") and columns.find("annotator"):
        rows = tuple({_label_key(columns, row): row for row in rows}.values())
    if n_changed := sum(not is_blank(row.cells.get(_CHANGE_COLUMN)) for row in rows):
        notes += (
            f"{count(n_changed, 'label')} changed after the annotator saw others' labels: "
            "agreement is not blind",
        )
    removed_columns = (
        *(_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN),
        *SAMPLING_COLUMNS,
        *(_FLAG_COLUMNS if _TIME_COLUMN in table.columns else ()),
    )
    kept_columns = tuple(columns.columns_except(removed_columns))
    return columns.with_table(
        replace(table, columns=kept_columns, rows=rows, notes=notes), columns.mapping
    )


def _label_key(columns: Columns, row: TableRow) -> tuple[str, str, str]:
    # A row that names no annotator gets a key of its own, so it never replaces another row.
    annotator = columns.cell(row, "annotator") or f"{ROW_NUMBER_COLUMN} {row.line}"
    return (
        columns.item_key(row),
        str(annotator).strip(),
        str(columns.cell(row, "dimension")).strip(),
    )


def stated_scales(columns: Columns) -> dict[str, Scale]:
    """Map each dimension to its scale, if a label page wrote the same one into all of its rows."""
    scales: dict[str, set[Scale | None]] = defaultdict(set)
    for row in columns.table.rows:
        dimension = str(columns.cell(row, "dimension")).strip()
        scales[dimension].add(read_scale(str(row.cells.get(_SCALE_COLUMN))))
    return {
        name: scale for name, (scale, *other_scales) in scales.items() if scale and not other_scales
    }
