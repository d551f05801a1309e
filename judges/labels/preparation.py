"""Prepares the rows of a table: removes sums and replaced labels, and merges rows of one output."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product

from judges.labels.cells import is_blank, value_at
from judges.labels.columns import ROW_NUMBER_COLUMN, Columns
from judges.labels.flags import read_scale
from judges.labels.values import Scale, is_missing_value, looks_like_number, normalize_word
from judges.tables.formats import Table
from judges.tables.problems import Problems, count_text, excerpt, joined_names
from judges.tables.text import TableRow

# The columns that say how a document was sampled: 1 / its probability, and the number of documents
# from which it was drawn.
SAMPLING_COLUMNS = ("sampling_weight", "sampling_from")
# The column that `verify --changed` adds to rows on which two judges differ, for people to label.
SWAP_SAMPLE_COLUMN = "drawn_for_swap"
# The columns that the page of `dspy-judges label` adds: the label's time, whether the annotator
# changed it after seeing others' labels, and the scale.
_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN = "labelled_at", "changed_after", "rating_scale"
# The columns in which this page says that the annotator skipped an output or was unsure of it.
_FLAG_COLUMNS = ("skipped", "unsure")
# Matches the name of a row of means or sums at the end of a sheet.
_FOOTER_NAME = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)
# The names for columns with an output's document and system, or with a pair's two systems.
_ORIGIN_ROLES = ("group", "system", "system_a", "system_b")


def without_footers(table: Table) -> Table:
    """Return the table without rows of means or sums at its end, and a note on each such row."""
    rows, notes = [*table.rows], list[str]()
    while not table.is_typed and len(rows) > 1 and (footer_name := _footer_name(rows[-1])):
        notes.insert(0, f"{excerpt(footer_name)} in the last row is not an output: it is left out")
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _footer_name(row: TableRow) -> str | None:
    """Return the name of a row of means or sums, such as `average`; None for any other row."""
    present_values = [str(value) for value in row.cells.values() if not is_blank(value)]
    words = [value for value in present_values if not looks_like_number(value)]
    return words[0] if len(words) == 1 and _FOOTER_NAME.match(words[0].strip()) else None


def with_latest_labels(columns: Columns) -> Columns:
    """Return a table's columns with only the latest label of each annotator on each output.

    In a table with the column `labelled_at`, a later row is a later label. The columns that the
    page of `dspy-judges label` adds are no longer listed, but the rows keep their cells.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    removed_columns = {_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN, *SAMPLING_COLUMNS}
    if _TIME_COLUMN in table.columns:
        removed_columns.update(_FLAG_COLUMNS)
        rows = tuple({_label_owner(columns, row): row for row in rows}.values())
    if n_changed := sum(not is_blank(row.cells.get(_CHANGE_COLUMN)) for row in rows):
        notes += (
            f"{count_text(n_changed, 'label')} changed after the annotator saw others' labels: "
            "agreement is not blind",
        )
    kept_columns = tuple(columns.columns_except(removed_columns))
    return replace(columns, table=replace(table, columns=kept_columns, rows=rows, notes=notes))


def _label_owner(columns: Columns, row: TableRow) -> tuple[str, str, str]:
    """Return the output, annotator and dimension of a row's label."""
    # If a row names no annotator, its number makes it differ from all other rows.
    annotator = columns.find_cell(row, "annotator") or f"{ROW_NUMBER_COLUMN} {row.line}"
    dimension = columns.find_cell(row, "dimension")
    return columns.item_id(row), str(annotator).strip(), str(dimension).strip()


def label_page_scales(columns: Columns) -> dict[str, Scale]:
    """Map each dimension to its scale, if a label page wrote the same scale into all rows."""
    scales: dict[str, Scale | None] = {}
    for row in columns.table.rows:
        dimension = str(columns.find_cell(row, "dimension")).strip()
        scale = read_scale(str(row.cells.get(_SCALE_COLUMN)))
        if scales.setdefault(dimension, scale) != scale:
            scales[dimension] = None
    return {dimension: scale for dimension, scale in scales.items() if scale}


def merge_rows_by_id(
    columns: Columns, problems: Problems, label_columns: Collection[str], texts: Collection[str]
) -> tuple[Columns, list[str]]:
    """Merge the rows with the same id into one row, and return the new columns and notes.

    A column whose cells differ between rows with the same id is left out, with a note. If the
    column is one of the `texts`, or holds documents or systems, a problem is added instead.
    """
    label_columns = {*label_columns, *columns.find_columns(("dimension", "annotator", "rating"))}
    outer_columns = map(columns.outer_column, label_columns)
    dropped_columns = label_columns.union(columns.comment_columns, outer_columns)
    item_columns = columns.columns_except(dropped_columns)
    constant_columns = {*texts, *columns.find_columns(_ORIGIN_ROLES)}
    merged_rows: dict[str, TableRow] = {}
    varying_columns: dict[str, None] = {}
    for row in columns.table.rows:
        item_id = columns.item_id(row)
        first_row = row._replace(cells=dict.fromkeys(item_columns))
        first_cells = merged_rows.setdefault(item_id, first_row).cells
        for name in item_columns:
            cell = row.cells.get(name)
            if is_blank(first_cells[name]):
                first_cells[name] = cell
            elif is_blank(cell) or cell == first_cells[name]:
                continue
            elif name in constant_columns:
                fault = f"differs from another row with the id {item_id!r:.60}"
                advice = "write the same in all its rows, or give each output an id of its own"
                problems.add("two-texts", fault, advice, line=row.line, field=name, value=cell)
            else:
                varying_columns[name] = None
    dropped_columns |= varying_columns.keys()
    kept_columns = tuple(columns.columns_except(dropped_columns))
    table = replace(columns.table, columns=kept_columns, rows=tuple(merged_rows.values()))
    columns_by_name = columns.columns_by_name.items()
    user_columns = {n: names for n, names in columns_by_name if dropped_columns.isdisjoint(names)}
    notes: list[str] = []
    if varying_columns:
        names_text = joined_names([f"column {name!r}" for name in varying_columns])
        notes.append(f"left out {names_text}, since rows of one id differ in it")
    if columns.ids_are_row_numbers and (n_merged := len(columns.table.rows) - len(merged_rows)):
        rows_text = count_text(n_merged, "row")
        notes.append(f"joined {rows_text} without an id to a row of the same texts")
    return replace(columns, table=table).with_user_columns(user_columns), notes


def check_repeated_rows(
    columns: Columns, problems: Problems, texts: Collection[str], label_columns: Collection[str]
) -> list[str]:
    """Return a note on rows with the same texts and systems, and on differences in their labels.

    Adds a problem if such rows are probably annotators' ratings of one output.
    """
    rows = columns.table.rows
    if not texts or len({*map(columns.item_id, rows)}) < len(rows):
        return []  # the file says itself which rows are of one output
    row_groups = columns.group_rows([*columns.find_columns(_ORIGIN_ROLES), *texts])
    repeated_rows = [same_rows for same_rows in row_groups if len(same_rows) > 1]
    lines = sorted(row.line for same_rows in repeated_rows for row in same_rows[1:])
    if not lines:
        return []
    if columns.find_column("annotator") and 2 * len(lines) >= len(rows) - 1:
        first_row, second_row, *_ = repeated_rows[0]
        fault = (
            f"has the same texts as {problems.unit} {first_row.line}, so both may rate one output"
        )
        advice = (
            "name a column with one id for all rows of an output: --map id=COLUMN; or, to join the "
            "rows with the same texts, --map id=#row"
        )
        problems.add("rows-of-annotators", fault, advice, line=second_row.line, field="id")
    repeats_text = "1 row repeats" if len(lines) == 1 else f"{len(lines):,} rows repeat"
    note = f"{repeats_text} another row's texts ({problems.lines_text(lines)})"
    differences: list[str] = []
    for same_rows, column in product(repeated_rows, sorted(label_columns)):
        labels = _distinct_labels(same_rows, column)
        if len(labels) > 1:
            lines_text = problems.lines_text([row.line for row in same_rows])
            differences.append(f"{joined_names(labels)} ({lines_text})")
    if differences and columns.options.reads_labels:
        note += f". Labels of the same texts differ: {'; '.join(differences[:10])}"
    return [note]


def _distinct_labels(rows: Iterable[TableRow], column: str) -> list[str]:
    """Return the different labels in a column; lists of several annotators' labels are skipped."""
    cells = (value_at(row.cells, column) for row in rows)
    single_labels = (cell for cell in cells if not isinstance(cell, list | Mapping))
    return sorted({normalize_word(cell) for cell in single_labels if not is_missing_value(cell)})
