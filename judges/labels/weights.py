"""Computes weights for labelled documents that were sampled with unequal probabilities."""

import math
from collections.abc import Mapping
from dataclasses import replace

from judges.labels.cells import is_blank
from judges.labels.columns import Columns
from judges.labels.preparation import SAMPLING_COLUMNS
from judges.labels.types import LabelledSet
from judges.tables.problems import Problems, excerpt

# How a document was sampled: 1 / its probability, and the number of documents it was drawn from.
DocumentDraw = tuple[float, ...]
# The draw of a document without sampling columns: it was labelled first, and drawn with the same
# probability as any other document.
RANDOM_DRAW: DocumentDraw = (1.0, math.inf)


def document_weights(draws: Mapping[str, DocumentDraw]) -> dict[str, float]:
    """Return the weight of each labelled document in a mean over all documents, 1 on average.

    Documents with the same second number in their `DocumentDraw` were sampled in one round. Each
    round gives an estimate of the mean over all documents: documents that were labelled in earlier
    rounds stand for themselves only, and the documents drawn in the round stand for all documents
    that they were drawn from. The final estimate is the mean of the rounds' estimates, in which
    each round counts in proportion to the number of documents that were drawn in it.
    """
    weights, earlier_documents = dict.fromkeys(draws, 0.0), list[str]()
    for round_size in sorted({round_size for _, round_size in draws.values()}, reverse=True):
        drawn_in_round = {
            document: weight
            for document, (weight, pool_size) in draws.items()
            if pool_size == round_size
        }
        total_weight = sum(drawn_in_round.values())
        round_share = 1 / (1 + len(earlier_documents) / round_size)
        for document in earlier_documents:
            weights[document] += len(drawn_in_round) * (1 - round_share) / len(earlier_documents)
        for document, weight in drawn_in_round.items():
            weights[document] += len(drawn_in_round) * round_share * weight / total_weight
        earlier_documents += drawn_in_round
    return weights


def with_weights(labelled: LabelledSet, columns: Columns, problems: Problems) -> LabelledSet:
    """Return the labelled outputs, with weights if the table has sampling columns."""
    document_by_output = {
        output.id: output.document_id for output in labelled.outputs if output.ratings
    }
    draws: dict[str, DocumentDraw] = {}
    advice = (
        f"correct {' and '.join(SAMPLING_COLUMNS)}, or remove both: then all documents count alike"
    )
    for row in columns.table.rows:
        draw_cells = [row.cells.get(name) for name in SAMPLING_COLUMNS]
        document = document_by_output.get(columns.item_id(row), "")
        if not document or all(map(is_blank, draw_cells)):
            continue
        try:
            draw = tuple(float(str(cell)) for cell in draw_cells)
        except ValueError:
            draw = (math.nan,)
        if not all(0 < number < math.inf for number in draw):
            fault = "are not two numbers above 0"
            problems.add("sampling", fault, advice, line=row.line, value=draw_cells)
        elif draws.setdefault(document, draw) != draw:
            fault = f"differ from another row of the document {excerpt(document)}"
            problems.add("sampling", fault, advice, line=row.line, value=draw_cells)
    if problems or not draws:
        return labelled
    weights = document_weights(dict.fromkeys(document_by_output.values(), RANDOM_DRAW) | draws)
    outputs = (
        replace(output, weight=weights.get(output.document_id, 1.0)) for output in labelled.outputs
    )
    note = "documents were drawn with unequal chances: verify and estimate weight them"
    return replace(labelled, outputs=tuple(outputs), notes=(*labelled.notes, note))
