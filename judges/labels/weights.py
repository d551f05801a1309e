"""Weights for labelled documents that were sampled with unequal probabilities."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from judges.labels.cells import is_blank
from judges.labels.columns import Columns
from judges.labels.rows import SAMPLING_COLUMNS
from judges.labels.types import LabelledSet
from judges.tables.problems import Problems, excerpt

# 1 / the probability that a document was drawn, and the number of documents it was drawn from.
Draw = tuple[float, ...]
# The draw of documents that were sampled first, with equal probabilities.
AT_RANDOM: Draw = (1.0, math.inf)


def document_weights(draws: Mapping[str, Draw]) -> dict[str, float]:
    """Return each labelled document's weight in a mean over all documents, 1 on average.

    Documents with the same number in `Draw` were sampled together, in one round. Each round gives
    an estimate of the mean: earlier labelled documents count only for themselves, and the round's
    own documents represent all documents that they were drawn from. The weights average these
    estimates by each round's number of documents.
    """
    weights, earlier = dict.fromkeys(draws, 0.0), list[str]()
    for size in sorted({size for _, size in draws.values()}, reverse=True):
        drawn = {document: weight for document, (weight, n) in draws.items() if n == size}
        total, share = sum(drawn.values()), 1 / (1 + len(earlier) / size)
        for document in earlier:
            weights[document] += len(drawn) * (1 - share) / len(earlier)
        for document, weight in drawn.items():
            weights[document] += len(drawn) * share * weight / total
        earlier += drawn
    return weights


def _positive_number(cell: object) -> float:
    """Return the positive number in a cell; NaN for any other cell."""
    with suppress(ValueError):
        number = float(str(cell))
        return number if 0 < number < math.inf else math.nan
    return math.nan


def weigh(labelled: LabelledSet, columns: Columns, problems: Problems) -> LabelledSet:
    """Set the weights of outputs from a table's sampling columns; without these nothing changes."""
    documents = {output.id: output.document_id for output in labelled.outputs if output.ratings}
    draws: dict[str, Draw] = {}
    advice = (
        f"correct {' and '.join(SAMPLING_COLUMNS)}, or remove both: then all documents count alike"
    )
    for row in columns.table.rows:
        cells = [row.cells.get(name) for name in SAMPLING_COLUMNS]
        document = documents.get(columns.item_key(row), "")
        if not document or all(map(is_blank, cells)):
            continue
        draw = tuple(map(_positive_number, cells))
        if any(map(math.isnan, draw)):
            fault = "are not two numbers above 0"
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
