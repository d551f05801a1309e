"""Checks and merges rows with the same id or the same texts."""

from collections.abc import Mapping, Sequence
from itertools import product

from judges.labels.cells import is_blank, value_at
from judges.labels.names import map_flag
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.roles import Roles, group_rows
from judges.labels.values import is_missing_value, normalize_word
from judges.tables.problems import Problems, count_text, joined_names
from judges.tables.text import TableRow

# The roles of the columns with an output's document and system, or with a pair's two systems.
_ORIGIN_ROLES = ("group", "system", "system_a", "system_b")


def check_unique_ids(
    roles: Roles, problems: Problems, advice: str = "give every row an id of its own"
) -> None:
    """Add a problem for each id that two rows have, unless each row has one annotator's labels.

    `advice` is what the user can do if the two rows are not of different annotators.
    """
    line_by_id = dict[str, int]()
    for row in () if roles.has_row_per_annotator else roles.rows:
        item_id = roles.item_id(row)
        if (first_line := line_by_id.setdefault(item_id, row.line)) != row.line:
            fault = f"is the id of {problems.unit} {first_line} too"
            annotator_flag = map_flag("annotator", ["COLUMN"])
            full_advice = f"{advice}, or name the column of annotators with {annotator_flag}"
            field = roles.columns.find("id")
            problems.add("twice", fault, full_advice, line=row.line, field=field, value=item_id)


def merge_rows_by_id(roles: Roles, problems: Problems) -> tuple[list[TableRow], dict[str, str]]:
    """Merge the rows with the same id into one row; return the rows and the columns of texts.

    A merged row has an output's id, document, system and texts. A problem is added if rows with the
    same id differ in one of these. If a column may be no text, it is left out instead, with a note.
    """
    columns = roles.columns
    origin_columns = columns.find_all(_ORIGIN_ROLES)
    item_columns = [*columns.find_all(["id"]), *origin_columns, *roles.texts.values()]
    if SWAP_SAMPLE_COLUMN in columns.table.columns:
        item_columns.append(SWAP_SAMPLE_COLUMN)
    constant_columns = {*roles.certain_columns, *origin_columns}
    merged_rows: dict[str, TableRow] = {}
    varying_columns: dict[str, None] = {}
    for row in roles.rows:
        item_id, empty_row = roles.item_id(row), row._replace(cells=dict.fromkeys(item_columns))
        merged_cells = merged_rows.setdefault(item_id, empty_row).cells
        for column in item_columns:
            cell = value_at(row.cells, column)
            if is_blank(merged_cells[column]):
                merged_cells[column] = cell
            elif is_blank(cell) or cell == merged_cells[column]:
                continue
            elif column in constant_columns:
                fault = f"differs from another row with the id {item_id!r:.60}"
                advice = "write the same in all its rows, or give each output an id of its own"
                problems.add("two-texts", fault, advice, line=row.line, field=column, value=cell)
            else:
                varying_columns[column] = None
    texts = {name: c for name, c in roles.texts.items() if c not in varying_columns}
    if unread_columns := [column for name, column in roles.texts.items() if name not in texts]:
        names_text = joined_names([f"column {column!r}" for column in unread_columns])
        problems.notes.append(f"left out {names_text}, since rows with one id differ in it")
    n_merged = len(roles.rows) - len(merged_rows)
    if roles.ids_are_numbers and n_merged:
        rows_text = count_text(n_merged, "row")
        problems.notes.append(f"joined {rows_text} without an id to a row of the same texts")
    return [*merged_rows.values()], texts


def check_repeated_rows(roles: Roles, problems: Problems) -> None:
    """Add a note on rows with the same texts and systems, and on differences in their labels.

    Adds a problem if rows with the same texts are probably annotators' ratings of one output.
    """
    rows = roles.rows
    has_several = len(roles.certain_columns) > 1
    text_columns = roles.certain_columns if has_several else {*roles.texts.values()}
    if not text_columns or len({*map(roles.item_id, rows)}) < len(rows):
        return  # the ids in the file say which rows are of one output
    origin_columns = roles.columns.find_all(_ORIGIN_ROLES)
    row_groups = group_rows(rows, [*origin_columns, *text_columns])
    repeated_rows = [same_rows for same_rows in row_groups if len(same_rows) > 1]
    lines = sorted(row.line for same_rows in repeated_rows for row in same_rows[1:])
    if not lines:
        return
    if roles.columns.find("annotator") and 2 * len(lines) >= len(rows) - 1:
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
    differences = [
        difference
        for same_rows, column in product(repeated_rows, sorted(roles.label_columns))
        if (difference := _label_difference(problems, same_rows, column))
    ]
    if differences and roles.options.reads_labels:
        note += f". Labels of the same texts differ: {'; '.join(differences[:10])}"
    problems.notes.append(note)


def _label_difference(problems: Problems, rows: Sequence[TableRow], column: str) -> str:
    """Return the different labels of rows, and the rows' numbers; "" if there is only one label.

    Lists of several annotators' labels are skipped.
    """
    cells = (value_at(row.cells, column) for row in rows)
    single_labels = [cell for cell in cells if not isinstance(cell, list | Mapping)]
    labels = {normalize_word(cell) for cell in single_labels if not is_missing_value(cell)}
    lines_text = problems.lines_text([row.line for row in rows])
    return f"{joined_names(sorted(labels))} ({lines_text})" if len(labels) > 1 else ""
