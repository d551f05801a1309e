"""All correlations of one verification, and what they owe to how replies are read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from judges.judgement import Verdict
from judges.parsing.recorded import Reading
from optimize.figures import interval_cell, json_number, shown
from optimize.items import Items
from optimize.measuring.sources import ScoredItems
from optimize.run.final_table import DIGITS, Cell, Scores, cell_by_convention, correlation
from optimize.search.objective import Level
from optimize.statistics.accuracy import pair_accuracy
from optimize.statistics.agreement import (
    Correlation,
    Undefined,
    dataset_level,
    summary_level,
)
from optimize.statistics.bootstrap import stream
from optimize.statistics.coefficients import Coefficient

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "kendall", "pearson")
CONVENTIONS: tuple[Undefined, ...] = get_args(Undefined)


def all_correlations(
    scored: ScoredItems, seed: int, *, level: Level | None = None, pairs: bool = False
) -> list[Correlation]:
    """Every level that the data has, every coefficient, by every convention; the primary one first.

    `level` is put first. Pairs have the dataset level only: within a document there are few
    margins, and no systems.
    """
    levels: tuple[Level, ...] = ("dataset",) if pairs else levels_of(scored.items)
    return [
        correlation
        for name in sorted(levels, key=lambda name: name != level)
        for coefficient in COEFFICIENTS
        for correlation in _by_convention(scored, name, coefficient, seed)
    ]


def _by_convention(
    scored: ScoredItems, level: Level, coefficient: Coefficient, seed: int
) -> list[Correlation]:
    first, *other_conventions = CONVENTIONS
    primary = _correlate(scored, level, coefficient, first, seed)
    if level != "summary" and abs(primary.value) > 0:
        # Only documents can be undefined one by one: one figure, whatever the convention.
        return [
            primary,
            *(replace(primary, undefined=convention) for convention in other_conventions),
        ]
    return [
        primary,
        *(
            _correlate(scored, level, coefficient, convention, seed)
            for convention in other_conventions
        ),
    ]


def correlations(scored: ScoredItems, seed: int, level: Level | None = None) -> list[Cell]:
    """All of them, for JSON."""
    pairs = bool(scored.verdicts)
    return [
        cell_by_convention(figure)
        for figure in all_correlations(scored, seed, level=level, pairs=pairs)
    ]


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels that labels have, the most telling first."""
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)


def _correlate(
    scored: ScoredItems, level: Level, coefficient: Coefficient, undefined: Undefined, seed: int
) -> Correlation:
    scores = Scores(items=scored.items, scores=scored.scores)
    return correlation(scores, level, stream(seed, "verify", level), coefficient, undefined)


def pair_figures(scored: ScoredItems) -> dict[str, Any]:
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin), as runs and reports have
    it. The orders taken alone are told apart by which output came first, and their mean is what
    some tables call accuracy; `order_agreement` is the share of pairs with the same answer in both,
    failed pairs left out.
    """
    items = scored.items
    accuracy = pair_accuracy(scored.scores, items.human, [item.document_id for item in items.items])
    decided = [
        (verdict, "A" if margin > 0 else "B")
        for verdict, margin in zip(scored.verdicts, items.human, strict=True)
        if margin != 0 and verdict.failure is None
    ]
    orders = {
        name: [_right(_in_order(verdict, name), preferred) for verdict, preferred in decided]
        for name in ("order_ab", "order_ba")
    }
    # Both orders were asked of every pair: where neither has a preference, both called it a tie.
    judged = [verdict for verdict in scored.verdicts if verdict.failure is None]
    interval = interval_cell(accuracy.interval, DIGITS)
    return {
        "accuracy": json_number(accuracy.value, DIGITS),
        "accuracy_low": interval["low"],
        "accuracy_high": interval["high"],
        "accuracy_mean_of_orders": _mean(
            [is_right for order in orders.values() for is_right in order]
        ),
        **{f"accuracy_{name}": _mean(is_right) for name, is_right in orders.items()},
        "order_agreement": _mean(
            [float(verdict.order_ab == verdict.order_ba) for verdict in judged]
        ),
        "n_pairs": len(scored.verdicts),
        "n_decided": accuracy.n_decided,
        "n_ties": accuracy.n_ties,
        "n_documents": accuracy.n_documents,
        "n_failed": accuracy.n_failed,
    }


def _in_order(verdict: Verdict, name: str) -> str | None:
    return verdict.order_ab if name == "order_ab" else verdict.order_ba


def _right(choice: str | None, preferred: str) -> float:
    return 0.5 if choice is None else float(choice == preferred)


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), DIGITS) if values else None


LENIENT_READINGS: tuple[Reading, ...] = tuple(one for one in get_args(Reading) if one != "strict")


def other_readings(
    scored: ScoredItems, scale: Sequence[int], read: Callable[[Reading], ScoredItems]
) -> list[dict[str, Any]]:
    """For each lenient reading: how many scores differ from the strict ones, and rho with it.

    Published tables were often made with such readings, which find a number in nearly any reply
    and sometimes a wrong one (judges/parsing/recorded.py). They know single digits only: other
    scales have none to compare with. Summary-level rho is there by both conventions, the published
    one ("left_out") to compare with such tables.
    """
    if min(scale) < 0 or max(scale) > 9:
        return []
    rows = []
    for reading in LENIENT_READINGS:
        lenient = read(reading)
        is_same = np.isclose(lenient.scores, scored.scores, equal_nan=True)
        documents = [item.document_id for item in lenient.items.items]
        human = lenient.items.human
        over = summary_level(lenient.scores, human, documents)
        published = summary_level(lenient.scores, human, documents, undefined="left_out")
        rows.append(
            {
                "reading": reading,
                "n_different": int((~is_same).sum()),
                "dataset_level_spearman": json_number(dataset_level(lenient.scores, human).value),
                "summary_level_spearman": json_number(over.value),
                "n_documents": over.n_documents,
                "summary_level_spearman_left_out": json_number(published.value),
                "n_documents_left_out": published.n_documents,
            }
        )
    return rows


def reading_lines(readings: Sequence[dict[str, Any]]) -> list[str]:
    """One line a reading that makes a difference."""
    return [
        f"read as {row['reading']}, as in older tables, {row['n_different']} scores differ: "
        f"dataset-level rho {shown(row['dataset_level_spearman'])}, summary-level rho "
        f"{shown(row['summary_level_spearman'])} (n={row['n_documents']} documents), as most "
        f"published tables {shown(row['summary_level_spearman_left_out'])} "
        f"(n={row['n_documents_left_out']})"
        for row in readings
        if row["n_different"]
    ]
