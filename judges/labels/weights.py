"""Computes weights for labelled documents that were sampled with unequal probabilities."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from judges.labels.cells import is_blank
from judges.labels.columns import Columns
from judges.labels.preparation import SAMPLING_COLUMNS
from judges.labels.types import LabelledSet
from judges.labels.values import parse_cell
from judges.tables.problems import Problems, excerpt


class DocumentSampling(NamedTuple):
    """How a document was sampled: 1 / its probability, and from how many documents."""

    weight: float
    n_in_pool: float


# The sampling of a document without sampling columns: it was labelled first, and drawn with the
# same probability as any other document.
UNIFORM_SAMPLING = DocumentSampling(1.0, math.inf)


def document_weights(sampling_by_document: Mapping[str, DocumentSampling]) -> dict[str, float]:
    """Return the weight of each labelled document in a mean over all documents, 1 on average.

    Documents that were drawn from equally many documents were sampled in one round. Each round
    gives an estimate of the mean over all documents: the documents that were labelled in earlier
    rounds stand for themselves only, and the documents of this round for all that they were drawn
    from. The final estimate is the mean of the rounds' estimates. Each round counts in proportion
    to the number of documents that were drawn in it.
    """
    weights, earlier_documents = dict.fromkeys(sampling_by_document, 0.0), list[str]()
    rounds: dict[float, dict[str, float]] = defaultdict(dict)
    for document, (weight, n_in_pool) in sampling_by_document.items():
        rounds[n_in_pool][document] = weight
    for n_in_pool in sorted(rounds, reverse=True):
        drawn_in_round = rounds[n_in_pool]
        total_weight = sum(drawn_in_round.values())
        round_share = 1 / (1 + len(earlier_documents) / n_in_pool)
        for document in earlier_documents:
            weights[document] += len(drawn_in_round) * (1 - round_share) / len(earlier_documents)
        for document, weight in drawn_in_round.items():
            weights[document] += len(drawn_in_round) * round_share * weight / total_weight
        earlier_documents += drawn_in_round
    return weights


def with_weights(labelled_set: LabelledSet, columns: Columns, problems: Problems) -> LabelledSet:
    """Return the labelled outputs, with weights if the table has sampling columns."""
    document_by_output = {o.id: o.document_id for o in labelled_set.outputs if o.ratings}
    sampling_by_document: dict[str, DocumentSampling] = {}
    both_columns = " and ".join(SAMPLING_COLUMNS)
    advice = f"correct {both_columns}, or remove both: then all documents count alike"
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
    return replace(labelled_set, outputs=tuple(outputs), notes=(*labelled_set.notes, note))
