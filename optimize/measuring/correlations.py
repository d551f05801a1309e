"""All correlations of one verification, and what they owe to how replies are read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from judges.judgement import Verdict
from judges.parsing.recorded import Reading
from optimize.items import Items
from optimize.measuring.sources import ScoredItems
from optimize.run.final_table import Cell, cell_by_convention
from optimize.search.objective import Level
from optimize.statistics.agreement import (
    Correlation,
    Undefined,
    dataset_level,
    pair_accuracy,
    summary_level,
    system_level,
)
from optimize.statistics.bootstrap import stream
from optimize.statistics.coefficients import Coefficient

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "kendall", "pearson")
CONVENTIONS: tuple[Undefined, ...] = get_args(Undefined)


def all_correlations(
    verified: ScoredItems, seed: int, *, level: Level | None = None, pairs: bool = False
) -> list[Correlation]:
    """Every level that the data has, every coefficient, by every convention; the primary one first.

    `level` is put first. Pairs have the dataset level only: within a document there are few
    margins, and no systems.
    """
    levels: tuple[Level, ...] = ("dataset",) if pairs else levels_of(verified.items)
    return [
        one
        for name in sorted(levels, key=lambda name: name != level)
        for coefficient in COEFFICIENTS
        for one in _by_convention(verified, name, coefficient, seed)
    ]


def _by_convention(
    verified: ScoredItems, level: Level, coefficient: Coefficient, seed: int
) -> list[Correlation]:
    first, *others = CONVENTIONS
    primary = _correlate(verified, level, coefficient, first, seed)
    if level != "summary" and abs(primary.value) > 0:
        # Only documents can be undefined one by one: one figure, whatever the convention.
        return [primary, *(replace(primary, undefined=other) for other in others)]
    return [primary, *(_correlate(verified, level, coefficient, one, seed) for one in others)]


def correlations(verified: ScoredItems, seed: int, level: Level | None = None) -> list[Cell]:
    """All of them, for JSON."""
    pairs = bool(verified.verdicts)
    return [
        cell_by_convention(one)
        for one in all_correlations(verified, seed, level=level, pairs=pairs)
    ]


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels that labels have, the most telling first."""
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)


def _correlate(
    verified: ScoredItems, level: Level, coefficient: Coefficient, undefined: Undefined, seed: int
) -> Correlation:
    items, scores = verified.items, verified.scores
    documents = [item.document_id for item in items.items]
    rng = stream(seed, "verify", level)
    if level == "summary":
        return summary_level(
            scores, items.human, documents, coefficient=coefficient, undefined=undefined, rng=rng
        )
    if level == "system":
        systems = [item.system or "" for item in items.items]
        return system_level(
            scores,
            items.human,
            systems,
            documents,
            coefficient=coefficient,
            undefined=undefined,
            rng=rng,
        )
    return dataset_level(
        scores, items.human, documents, coefficient=coefficient, undefined=undefined, rng=rng
    )


def pair_figures(verified: ScoredItems) -> dict[str, Any]:
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin), as runs and reports have
    it. The orders taken alone are told apart by which output came first, and their mean is what
    some tables call accuracy; `order_agreement` is the share of pairs with the same answer in both,
    failed pairs left out.
    """
    items = verified.items
    together = pair_accuracy(
        verified.scores, items.human, [item.document_id for item in items.items]
    )
    decided = [
        (one, "A" if margin > 0 else "B")
        for one, margin in zip(verified.verdicts, items.human, strict=True)
        if margin != 0 and one.failure is None
    ]
    orders = {
        name: [_right(_in_order(one, name), wanted) for one, wanted in decided]
        for name in ("order_ab", "order_ba")
    }
    # Both orders were asked of every pair: where neither has a preference, both called it a tie.
    both = [one for one in verified.verdicts if one.failure is None]
    interval = together.interval
    return {
        "accuracy": None if math.isnan(together.value) else round(together.value, 6),
        "accuracy_low": round(interval.low, 6) if interval else None,
        "accuracy_high": round(interval.high, 6) if interval else None,
        "accuracy_mean_of_orders": _mean([right for order in orders.values() for right in order]),
        **{f"accuracy_{name}": _mean(right) for name, right in orders.items()},
        "order_agreement": _mean([float(one.order_ab == one.order_ba) for one in both]),
        "n_pairs": len(verified.verdicts),
        "n_decided": together.n_decided,
        "n_ties": together.n_ties,
        "n_documents": together.n_documents,
        "n_failed": together.n_failed,
    }


def _in_order(one: Verdict, name: str) -> str | None:
    return one.order_ab if name == "order_ab" else one.order_ba


def _right(said: str | None, wanted: str) -> float:
    return 0.5 if said is None else float(said == wanted)


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None


OTHERS: tuple[Reading, ...] = tuple(one for one in get_args(Reading) if one != "strict")


def other_readings(
    verified: ScoredItems, scale: Sequence[int], read: Callable[[Reading], ScoredItems]
) -> list[dict[str, Any]]:
    """For each lenient reading: how many scores differ from the strict ones, and rho with it.

    Published tables were often made with such readings, which find a number in nearly any reply
    and sometimes a wrong one (judges/parsing/lenient.py). They know single digits only: other
    scales have none to compare with. Summary-level rho is there by both conventions, the published
    one ("left_out") to compare with such tables.
    """
    if min(scale) < 0 or max(scale) > 9:
        return []
    told = []
    for reading in OTHERS:
        other = read(reading)
        same = np.isclose(other.scores, verified.scores, equal_nan=True)
        documents = [item.document_id for item in other.items.items]
        human = other.items.human
        over = summary_level(other.scores, human, documents)
        published = summary_level(other.scores, human, documents, undefined="left_out")
        told.append(
            {
                "reading": reading,
                "n_different": int((~same).sum()),
                "dataset_level_spearman": _known(dataset_level(other.scores, human).value),
                "summary_level_spearman": _known(over.value),
                "n_documents": over.n_documents,
                "summary_level_spearman_left_out": _known(published.value),
                "n_documents_left_out": published.n_documents,
            }
        )
    return told


def reading_lines(readings: Sequence[dict[str, Any]]) -> list[str]:
    """One line a reading that makes a difference."""
    return [
        f"read as {one['reading']}, as in older tables, {one['n_different']} scores differ: "
        f"dataset-level rho {_shown(one['dataset_level_spearman'])}, summary-level rho "
        f"{_shown(one['summary_level_spearman'])} (n={one['n_documents']} documents), as most "
        f"published tables {_shown(one['summary_level_spearman_left_out'])} "
        f"(n={one['n_documents_left_out']})"
        for one in readings
        if one["n_different"]
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
