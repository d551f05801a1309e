"""Prepares the rows of a table: removes sums and replaced labels, merges and weights rows."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from judges.labels.cells import is_blank, value_at
from judges.labels.columns import ROW_NUMBER_COLUMN, Columns
from judges.labels.options import read_scale
from judges.labels.types import LabelledSet
from judges.labels.values import (
    Scale,
    is_missing_value,
    looks_like_number,
    normalize_word,
    parse_cell,
)
from judges.tables.problems import Problems, count_text, excerpt, joined_names
from judges.tables.text import TableRow

# How a document was sampled: 1 divided by its probability, and from how many documents.
SAMPLING_COLUMNS = ("sampling_weight", "sampling_from")
# The column that `verify --changed` adds to rows on which two judges differ, for people to label.
SWAP_SAMPLE_COLUMN = "drawn_for_swap"
# The columns that the page of `dspy-judges label` adds: the label's time, whether the annotator
# changed it after seeing others' labels, and the scale.
_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN = "labelled_at", "changed_after", "rating_scale"
# The columns in which that page notes that the annotator skipped an output, or was unsure of it.
_FLAG_COLUMNS = ("skipped", "unsure")
# Matches the name of a row of means or sums at the end of a sheet.
_FOOTER_NAME = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)
# The roles of the columns with an output's document and system, or with a pair's two systems.
_ORIGIN_ROLES = ("group", "system", "system_a", "system_b")


def without_footers(columns: Columns) -> Columns:
    """Leave out rows of means or sums at the end of the table, with a note on each such row."""
    rows = [*columns.table.rows]
    while not columns.table.is_typed and len(rows) > 1:
        present_values = [str(value) for value in rows[-1].cells.values() if not is_blank(value)]
        non_numbers = [value for value in present_values if not looks_like_number(value)]
        if len(non_numbers) != 1 or not _FOOTER_NAME.match(non_numbers[0].strip()):
            break
        note = f"the last row ({excerpt(non_numbers[0])}) is not an output and is left out"
        columns.problems.notes.append(note)
        rows.pop()
    return columns.with_rows(rows)


def with_latest_labels(columns: Columns) -> Columns:
    """Return a table's columns with only the latest label of each annotator on each output.

    If the table has the column `labelled_at`, a label in a later row replaces an earlier one; in
    any other table, all rows stay. The columns that the page of `dspy-judges label` adds are
    dropped, but the rows keep their cells.
    """
    rows = columns.table.rows
    removed_columns = {_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN, *SAMPLING_COLUMNS}
    if _TIME_COLUMN in columns.table.columns:
        removed_columns.update(_FLAG_COLUMNS)
        latest_row_by_label: dict[tuple[str, str, str], TableRow] = {}
        for row in rows:
            # If a row names no annotator, its number makes it differ from all other rows.
            annotator = columns.find_cell(row, "annotator") or f"{ROW_NUMBER_COLUMN} {row.line}"
            dimension = columns.find_cell(row, "dimension")
            label_key = columns.item_id(row), str(annotator).strip(), str(dimension).strip()
            latest_row_by_label[label_key] = row
        rows = tuple(latest_row_by_label.values())
    if n_changed := sum(not is_blank(row.cells.get(_CHANGE_COLUMN)) for row in rows):
        labels_text = count_text(n_changed, "label")
        reason = "after the annotator saw others' labels: agreement is not blind"
        columns.problems.notes.append(f"{labels_text} changed {reason}")
    return columns.with_rows(rows, columns.columns_except(removed_columns))


def merge_rows_by_id(
    columns: Columns, label_columns: Collection[str], text_columns: Collection[str]
) -> Columns:
    """Merge the rows with the same id into one row, and return the new columns.

    A column whose cells differ between rows with the same id is left out, with a note. For a column
    with documents or systems, and for `text_columns`, a problem is added instead.
    """
    label_columns = {*label_columns, *columns.find_columns(("dimension", "annotator", "rating"))}
    outer_columns = map(columns.outer_column, label_columns)
    dropped_columns = label_columns.union(columns.comment_columns, outer_columns)
    item_columns = columns.columns_except(dropped_columns)
    constant_columns = {*text_columns, *columns.find_columns(_ORIGIN_ROLES)}
    problems = columns.problems
    merged_rows: dict[str, TableRow] = {}
    varying_columns: dict[str, None] = {}
    for row in columns.table.rows:
        item_id, empty_row = columns.item_id(row), row._replace(cells=dict.fromkeys(item_columns))
        merged_cells = merged_rows.setdefault(item_id, empty_row).cells
        for name in item_columns:
            cell = row.cells.get(name)
            if is_blank(merged_cells[name]):
                merged_cells[name] = cell
            elif is_blank(cell) or cell == merged_cells[name]:
                continue
            elif name in constant_columns:
                fault = f"differs from another row with the id {item_id!r:.60}"
                advice = "write the same in all its rows, or give each output an id of its own"
                problems.add("two-texts", fault, advice, line=row.line, field=name, value=cell)
            else:
                varying_columns[name] = None
    dropped_columns |= varying_columns.keys()
    mapped_columns = columns.columns_by_name.items()
    user_columns = {name: c for name, c in mapped_columns if dropped_columns.isdisjoint(c)}
    if varying_columns:
        names_text = joined_names([f"column {name!r}" for name in varying_columns])
        problems.notes.append(f"left out {names_text}, since rows with one id differ in it")
    if columns.ids_are_row_numbers and (n_merged := len(columns.table.rows) - len(merged_rows)):
        rows_text = count_text(n_merged, "row")
        problems.notes.append(f"joined {rows_text} without an id to a row of the same texts")
    kept_columns = columns.columns_except(dropped_columns)
    return columns.with_rows(merged_rows.values(), kept_columns).with_user_columns(user_columns)


def check_repeated_rows(
    columns: Columns, text_columns: Collection[str], label_columns: Collection[str]
) -> None:
    """Add a note on rows with the same texts and systems, and on differences in their labels.

    Adds a problem if rows with the same texts are probably annotators' ratings of one output.
    """
    rows, problems = columns.table.rows, columns.problems
    if not text_columns or len({*map(columns.item_id, rows)}) < len(rows):
        return  # the ids in the file say which rows are of one output
    row_groups = columns.group_rows([*columns.find_columns(_ORIGIN_ROLES), *text_columns])
    repeated_rows = [same_rows for same_rows in row_groups if len(same_rows) > 1]
    lines = sorted(row.line for same_rows in repeated_rows for row in same_rows[1:])
    if not lines:
        return
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
    differences = [
        difference
        for same_rows, column in product(repeated_rows, sorted(label_columns))
        if (difference := _label_difference(problems, same_rows, column))
    ]
    if differences and columns.options.reads_labels:
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


class DocumentSampling(NamedTuple):
    """How a document was sampled: 1 divided by its probability, and from how many documents."""

    weight: float
    n_in_pool: float


# The sampling of a document without sampling columns: it was labelled first, and drawn with the
# same probability as any other document.
UNIFORM_SAMPLING = DocumentSampling(1.0, math.inf)


def document_weights(sampling_by_document: Mapping[str, DocumentSampling]) -> dict[str, float]:
    """Return the weight of each labelled document in a mean over all documents, 1 on average.

    Documents that were drawn from equally many documents were sampled in one round. Each round
    gives an estimate of the mean over all documents. In this estimate, a document from an earlier
    round stands for itself only, and the documents drawn in the round stand for all from which they
    were drawn. The final estimate is a mean of these estimates, weighted by the number of documents
    that were drawn in each round.
    """
    weights, earlier_documents = dict.fromkeys(sampling_by_document, 0.0), list[str]()
    weights_by_pool_size: dict[float, dict[str, float]] = defaultdict(dict)
    for document, (weight, pool_size) in sampling_by_document.items():
        weights_by_pool_size[pool_size][document] = weight
    for pool_size in sorted(weights_by_pool_size, reverse=True):
        weight_by_document = weights_by_pool_size[pool_size]
        n_drawn, total_weight = len(weight_by_document), sum(weight_by_document.values())
        pool_share = 1 / (1 + len(earlier_documents) / pool_size)
        for document in earlier_documents:
            weights[document] += n_drawn * (1 - pool_share) / len(earlier_documents)
        for document, weight in weight_by_document.items():
            weights[document] += n_drawn * pool_share * weight / total_weight
        earlier_documents += weight_by_document
    return weights


def with_weights_and_scales(labelled_set: LabelledSet, columns: Columns) -> LabelledSet:
    """Return the labelled set with the weights and scales that a label page wrote into columns."""
    labelled_set = replace(labelled_set, scales=_label_page_scales(columns))
    document_by_output = {o.id: o.document_id for o in labelled_set.outputs if o.ratings}
    sampling_by_document, problems = dict[str, DocumentSampling](), columns.problems
    column_names = " and ".join(SAMPLING_COLUMNS)
    advice = f"correct {column_names}, or remove both: then all documents count alike"
    for row in columns.table.rows:
        sampling_cells = [row.cells.get(column) for column in SAMPLING_COLUMNS]
        document = document_by_output.get(columns.item_id(row))
        if document is None or all(map(is_blank, sampling_cells)):
            continue
        sampling = DocumentSampling(*(parse_cell(cell).number for cell in sampling_cells))
        if not all(0 < number < math.inf for number in sampling):
            fault = "are not two numbers above 0"
            problems.add("sampling", fault, advice, line=row.line, value=sampling_cells)
        elif sampling_by_document.setdefault(document, sampling) != sampling:
            fault = f"differ from another row of the document {excerpt(document)}"
            problems.add("sampling", fault, advice, line=row.line, value=sampling_cells)
    if problems or not sampling_by_document:
        return labelled_set
    uniform_sampling = dict.fromkeys(document_by_output.values(), UNIFORM_SAMPLING)
    weights = document_weights(uniform_sampling | sampling_by_document)
    outputs = [replace(o, weight=weights.get(o.document_id, 1.0)) for o in labelled_set.outputs]
    note = "documents were drawn with unequal chances: verify and estimate weight them"
    problems.notes.append(note)
    return replace(labelled_set, outputs=tuple(outputs))


def _label_page_scales(columns: Columns) -> dict[str, Scale]:
    """Map each dimension to its scale, if a label page wrote the same scale into all rows."""
    scale_by_dimension: dict[str, Scale | None] = {}
    for row in columns.table.rows:
        dimension = str(columns.find_cell(row, "dimension")).strip()
        scale = read_scale(str(row.cells.get(_SCALE_COLUMN)))
        if scale_by_dimension.setdefault(dimension, scale) != scale:
            scale_by_dimension[dimension] = None
    return {dimension: scale for dimension, scale in scale_by_dimension.items() if scale}
