"""The final table: seed and tuned judge on dev, test and unseen systems, with their intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimize.items import Items, Vector
from optimize.search.objective import Level
from optimize.statistics.agreement import (
    Correlation,
    dataset_level,
    pair_accuracy,
    summary_level,
    system_level,
)
from optimize.statistics.bootstrap import Interval, stream
from optimize.statistics.coefficients import Coefficient
from optimize.statistics.difference import paired_difference

Cell = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """One judge's scores on one split."""

    items: Items
    scores: Vector


def correlation(
    one: Scores, level: Level, rng: np.random.Generator, coefficient: Coefficient = "spearman"
) -> Correlation:
    """One level's, by the primary convention, as everywhere."""
    human = one.items.human
    documents = [item.document_id for item in one.items.items]
    if level == "summary":
        return summary_level(one.scores, human, documents, coefficient=coefficient, rng=rng)
    if level == "system":
        systems = [item.system or "" for item in one.items.items]
        return system_level(one.scores, human, systems, documents, coefficient=coefficient, rng=rng)
    return dataset_level(one.scores, human, documents, coefficient=coefficient, rng=rng)


def cell(found: Correlation) -> Cell:
    """A correlation as summary.json has it."""
    return {
        "coefficient": found.coefficient,
        "level": found.level,
        "value": _number(found.value),
        **_ends(found.interval),
        "n_outputs": found.n_outputs,
        "n_documents": found.n_documents,
        "n_undefined": found.n_undefined,
        "n_failed": found.n_failed,
    }


def cell_by_convention(found: Correlation) -> Cell:
    """The same beside the other conventions: which it is, and how many documents count 0 by it."""
    return {**cell(found), "n_zero": found.n_zero, "undefined": found.undefined}


def row(splits: Mapping[str, Scores | None], level: Level, seed: int) -> dict[str, Cell | None]:
    """One judge's cells; the same draws for every judge, and for `verify` of the same rows."""
    return {
        name: cell(correlation(one, level, stream(seed, "verify", level))) if one else None
        for name, one in splits.items()
    }


def gain(tuned: Scores, seed_judge: Scores, level: Level, seed: int) -> Cell:
    """The tuned judge's rho less the seed's, on the outputs that both scored."""
    items = tuned.items
    systems = [item.system or "" for item in items.items] if level == "system" else None
    found = paired_difference(
        tuned.scores,
        seed_judge.scores,
        items.human,
        [item.document_id for item in items.items],
        level=level,
        system=systems,
        rng=stream(seed, "gain"),
    )
    return {"value": _number(found.value), **_ends(found.interval)}


def accuracy(one: Scores) -> float | None:
    """Share of the pairs people decided that the judge decides alike; its ties are half right."""
    documents = [item.document_id for item in one.items.items]
    return _number(pair_accuracy(one.scores, one.items.human, documents).value)


def _ends(interval: Interval | None) -> Cell:
    if interval is None:
        return {"low": None, "high": None}
    return {"low": _number(interval.low), "high": _number(interval.high)}


def _number(value: float) -> float | None:
    """JSON has no NaN: what does not exist is null."""
    return None if math.isnan(value) else round(float(value), 6)
