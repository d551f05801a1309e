"""All correlations of one verification, and for pairs the accuracy in both orders."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from judges.judgement import Verdict
from optimize.agreement import Correlation, dataset_level, summary_level, system_level
from optimize.run.table import Cell, cell
from optimize.search.chance import stream
from optimize.search.items import Items
from optimize.search.objective import Level
from optimize.statistics.coefficients import Coefficient
from optimize.verifying.sources import Verified

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "kendall", "pearson")
Undefined = Literal["left_out", "zero"]


def all_correlations(
    verified: Verified, seed: int, *, pairs: bool = False
) -> list[tuple[Correlation, Undefined]]:
    """Every level that the data has, every coefficient, undefined left out and counted as 0.

    Pairs have the dataset level only: within a document there are few margins, and no systems.
    """
    levels: tuple[Level, ...] = ("dataset",) if pairs else _levels(verified.items)
    found: list[tuple[Correlation, Undefined]] = []
    for level in levels:
        for coefficient in COEFFICIENTS:
            one = _correlate(verified, level, coefficient, "left_out", seed)
            # Only documents can be undefined one by one: else both conventions find the same.
            if level == "summary":
                zero = _correlate(verified, level, coefficient, "zero", seed)
            else:
                zero = one
            found += [(one, "left_out"), (zero, "zero")]
    return found


def correlations(verified: Verified, seed: int) -> list[Cell]:
    """All of them, for JSON."""
    return cells(all_correlations(verified, seed, pairs=bool(verified.verdicts)))


def cells(found: Iterable[tuple[Correlation, Undefined]]) -> list[Cell]:
    """What is there, for JSON."""
    made = []
    for one, undefined in found:
        made.append({**cell(one), "undefined": undefined})
        # Where every judgement failed the figure is missing, not 0.
        if undefined == "zero" and made[-1]["value"] is None and one.n_outputs:
            made[-1]["value"] = 0.0
    return made


def _levels(items: Items) -> tuple[Level, ...]:
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)


def _correlate(
    verified: Verified, level: Level, coefficient: Coefficient, undefined: Undefined, seed: int
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
            scores, items.human, systems, documents, coefficient=coefficient, rng=rng
        )
    return dataset_level(scores, items.human, documents, coefficient=coefficient, rng=rng)


def pair_figures(verified: Verified) -> dict[str, Any]:
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    The orders are told apart by which output came first; `order_agreement` is the share of pairs
    with the same answer in both, failed pairs left out.
    """
    human = verified.items.human
    decided = [
        (one, "A" if margin > 0 else "B")
        for one, margin in zip(verified.verdicts, human, strict=True)
        if margin != 0 and one.failure is None
    ]
    orders = {
        name: [_right(_in_order(one, name), wanted) for one, wanted in decided]
        for name in ("order_ab", "order_ba")
    }
    # Both orders were asked of every pair: where neither has a preference, both called it a tie.
    both = [one for one in verified.verdicts if one.failure is None]
    return {
        "accuracy": _mean([right for order in orders.values() for right in order]),
        **{f"accuracy_{name}": _mean(right) for name, right in orders.items()},
        "order_agreement": _mean([float(one.order_ab == one.order_ba) for one in both]),
        "n_pairs": len(verified.verdicts),
        "n_decided": len(decided),
        "n_failed": int(np.isnan(verified.scores).sum()),
    }


def _in_order(one: Verdict, name: str) -> str | None:
    return one.order_ab if name == "order_ab" else one.order_ba


def _right(said: str | None, wanted: str) -> float:
    return 0.5 if said is None else float(said == wanted)


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None
