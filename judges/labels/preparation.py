"""Leaves out rows of sums and replaced labels, and reads what a label page wrote beside labels."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from judges.labels.cells import is_blank
from judges.labels.columns import Columns
from judges.labels.options import ReadOptions, read_scale
from judges.labels.roles import Roles
from judges.labels.types import LabelledSet
from judges.labels.values import Scale, looks_like_number, parse_cell
from judges.tables.formats import Table
from judges.tables.problems import Problems, count_text, excerpt
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


def without_footers(table: Table, problems: Problems) -> Table:
    """Leave out rows of means or sums at the end of the table, with a note on each such row."""
    rows = [*table.rows]
    while not table.is_typed and len(rows) > 1:
        present_values = [str(value) for value in rows[-1].cells.values() if not is_blank(value)]
        non_numbers = [value for value in present_values if not looks_like_number(value)]
        if len(non_numbers) != 1 or not _FOOTER_NAME.match(non_numbers[0].strip()):
            break
        note = f"the last row ({excerpt(non_numbers[0])}) is not an output and is left out"
        problems.notes.append(note)
        rows.pop()
    return replace(table, rows=tuple(rows))


def with_latest_labels(table: Table, options: ReadOptions, problems: Problems) -> Table:
    """Return a table with only the latest label of each annotator on each output.

    If the table has the column `labelled_at`, a label in a later row replaces an earlier one; in
    any other table, all rows stay. The columns that the page of `dspy-judges label` adds are
    dropped, but the rows keep their cells.
    """
    rows, columns = table.rows, Columns(table, options)
    removed_columns = {_TIME_COLUMN, _CHANGE_COLUMN, _SCALE_COLUMN, *SAMPLING_COLUMNS}
    if _TIME_COLUMN in table.columns:
        removed_columns.update(_FLAG_COLUMNS)
        latest_row_by_label: dict[tuple[str, ...], TableRow] = {}
        for row in rows:
            cells = [columns.cell(row, role) for role in ("id", "annotator", "dimension")]
            # A label without an id or an annotator replaces no other label.
            location = [row.line] if is_blank(cells[0]) or is_blank(cells[1]) else []
            label_key = tuple(str(value).strip() for value in (*cells, *location))
            latest_row_by_label[label_key] = row
        rows = tuple(latest_row_by_label.values())
    if n_changed := sum(not is_blank(row.cells.get(_CHANGE_COLUMN)) for row in rows):
        labels_text = count_text(n_changed, "label")
        reason = "after the annotator saw others' labels: agreement is not blind"
        problems.notes.append(f"{labels_text} changed {reason}")
    return replace(table, rows=rows, columns=tuple(columns.except_for(removed_columns)))


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


def with_weights_and_scales(
    labelled_set: LabelledSet, roles: Roles, problems: Problems
) -> LabelledSet:
    """Return the labelled set with the weights and scales that a label page wrote into columns."""
    labelled_set = replace(labelled_set, scales=_label_page_scales(roles))
    document_by_output = {o.id: o.document_id for o in labelled_set.outputs if o.ratings}
    sampling_by_document = dict[str, DocumentSampling]()
    column_names = " and ".join(SAMPLING_COLUMNS)
    advice = f"correct {column_names}, or remove both: then all documents count alike"
    for row in roles.rows:
        sampling_cells = [row.cells.get(column) for column in SAMPLING_COLUMNS]
        document = document_by_output.get(roles.item_id(row))
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


def _label_page_scales(roles: Roles) -> dict[str, Scale]:
    """Map each dimension to its scale, if a label page wrote the same scale into all rows."""
    scale_by_dimension: dict[str, Scale | None] = {}
    for row in roles.rows:
        dimension = str(roles.columns.cell(row, "dimension")).strip()
        scale = read_scale(str(row.cells.get(_SCALE_COLUMN)))
        if scale_by_dimension.setdefault(dimension, scale) != scale:
            scale_by_dimension[dimension] = None
    return {dimension: scale for dimension, scale in scale_by_dimension.items() if scale}
