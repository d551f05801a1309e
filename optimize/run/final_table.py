"""The final table: seed and tuned judge on dev, test and unseen systems, with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimize.figures import interval_cell, json_number
from optimize.items import Items, Vector
from optimize.search.objective import Level
from optimize.statistics.accuracy import pair_accuracy
from optimize.statistics.agreement import (
    PRIMARY,
    Correlation,
    Undefined,
    dataset_level,
    summary_level,
    system_level,
)
from optimize.statistics.bootstrap import stream
from optimize.statistics.coefficients import Coefficient
from optimize.statistics.difference import paired_difference

Cell = dict[str, Any]
# To which JSON files round figures.
DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One judge's scores on one split."""

    items: Items
    scores: Vector


def correlation(
    judged: Scores,
    level: Level,
    rng: np.random.Generator,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
) -> Correlation:
    """One level's correlation; without `undefined` by the primary convention, as everywhere."""
    options: Any = {"coefficient": coefficient, "undefined": undefined, "rng": rng}
    human = judged.items.human
    documents = [item.document_id for item in judged.items.items]
    if level == "summary":
        return summary_level(judged.scores, human, documents, **options)
    if level == "system":
        systems = [item.system or "" for item in judged.items.items]
        return system_level(judged.scores, human, systems, documents, **options)
    return dataset_level(judged.scores, human, documents, **options)


def cell(statistic: Correlation) -> Cell:
    """A correlation as summary.json has it."""
    return {
        "coefficient": statistic.coefficient,
        "level": statistic.level,
        "value": json_number(statistic.value, DIGITS),
        **interval_cell(statistic.interval, DIGITS),
        "n_outputs": statistic.n_outputs,
        "n_documents": statistic.n_documents,
        "n_undefined": statistic.n_undefined,
        "n_failed": statistic.n_failed,
    }


def cell_by_convention(statistic: Correlation) -> Cell:
    """The same beside the other conventions: which it is, and how many documents count 0 by it."""
    return {**cell(statistic), "n_zero": statistic.n_zero, "undefined": statistic.undefined}


def cells_by_split(
    splits: Mapping[str, Scores | None], level: Level, seed: int
) -> dict[str, Cell | None]:
    """One judge's cells; the same draws for every judge, and for `verify` of the same rows."""
    return {
        name: cell(correlation(scores, level, stream(seed, "verify", level))) if scores else None
        for name, scores in splits.items()
    }


def gain(tuned: Scores, seed_judge: Scores, level: Level, seed: int) -> Cell:
    """The tuned judge's rho less the seed's, on the outputs that both scored."""
    items = tuned.items
    systems = [item.system or "" for item in items.items] if level == "system" else None
    difference = paired_difference(
        tuned.scores,
        seed_judge.scores,
        items.human,
        [item.document_id for item in items.items],
        level=level,
        system=systems,
        rng=stream(seed, "gain"),
    )
    return {
        "value": json_number(difference.value, DIGITS),
        **interval_cell(difference.interval, DIGITS),
    }


def accuracy(judged: Scores) -> float | None:
    """Share of the pairs people decided that the judge decides alike; its ties are half right."""
    documents = [item.document_id for item in judged.items.items]
    return json_number(pair_accuracy(judged.scores, judged.items.human, documents).value, DIGITS)
