"""Weights of labelled documents that were drawn with unequal chances."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from judges.labels.cells import is_blank
from judges.labels.columns import Columns
from judges.labels.rows import SAMPLING
from judges.labels.types import LabelledSet
from judges.tables.problems import Problems, excerpt

# One over a document's chance, and the number of documents that it was drawn from.
Draw = tuple[float, ...]
# Documents that were drawn with equal chances from all; these came first.
AT_RANDOM: Draw = (1.0, math.inf)


def document_weights(draws: Mapping[str, Draw]) -> dict[str, float]:
    """Return each labelled document's weight in a mean over all documents, 1 on average.

    Each draw estimates this mean: earlier labels count for themselves, and its own labels stand for
    all documents that it was drawn from. Draws are averaged by their numbers of labels.
    """
    weights, before = dict.fromkeys(draws, 0.0), list[str]()
    for size in sorted({size for _, size in draws.values()}, reverse=True):
        own = {document: weight for document, (weight, of) in draws.items() if of == size}
        total, share = sum(own.values()), 1 / (1 + len(before) / size)
        for document in before:
            weights[document] += len(own) * (1 - share) / len(before)
        for document, weight in own.items():
            weights[document] += len(own) * share * weight / total
        before += own
    return weights


def _positive(cell: object) -> float:
    """A positive number in a cell; NaN for anything else."""
    with suppress(ValueError):
        number = float(str(cell))
        return number if 0 < number < math.inf else math.nan
    return math.nan


def weigh(labelled: LabelledSet, columns: Columns, problems: Problems) -> LabelledSet:
    """Return the set with the weights of a table's sampling columns, or as it is without them."""
    documents = {output.id: output.document_id for output in labelled.outputs if output.ratings}
    draws: dict[str, Draw] = {}
    advice = f"mend {' and '.join(SAMPLING)}, or take both out: all count alike then"
    for row in columns.table.rows:
        cells = [row.cells.get(name) for name in SAMPLING]
        document = documents.get(columns.item_key(row), "")
        if not document or all(map(is_blank, cells)):
            continue
        draw = tuple(map(_positive, cells))
        if any(map(math.isnan, draw)):
            fault = "are no two numbers above 0"
            problems.add("sampling", fault, advice, line=row.line, value=cells)
        elif draws.setdefault(document, draw) != draw:
            fault = f"differ in another row of {excerpt(document)}"
            problems.add("sampling", fault, advice, line=row.line, value=cells)
    if problems or not draws:
        return labelled
    weights = document_weights(dict.fromkeys(documents.values(), AT_RANDOM) | draws)
    outputs = (replace(o, weight=weights.get(o.document_id, 1.0)) for o in labelled.outputs)
    note = "documents were drawn with unequal chances: verify and estimate weigh them"
    return replace(labelled, outputs=tuple(outputs), notes=(*labelled.notes, note))
