"""Which judge agrees best with people, how sure that is, and which ones nothing beats.

Figures are `optimize.verify`'s, on the outputs that all judges have.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data.types import LabelledPairs
from dspy_judges.errors import JudgesError
from optimize.figures import DIGITS, Cell, cell_by_convention, json_number, value_cell
from optimize.items import Vector, correlation, data_counts
from optimize.measuring.entries import Outcome
from optimize.measuring.measure import Measured, is_tuned_on, measure_scores, pair_figures
from optimize.measuring.sources import ScoredItems
from optimize.run.labels import AnyLevel, Labelled
from optimize.search.evaluator import contrast
from optimize.search.gate import Gain, gains
from optimize.statistics.accuracy import contrast_accuracy
from optimize.statistics.bootstrap import Interval, stream
from optimize.statistics.difference import Contrast
from optimize.statistics.levels import Level
from optimize.statistics.scale import scale_use


class ComparisonError(JudgesError):
    """There is nothing to compare; the message says why."""


def compare_judges(
    outcomes: Sequence[Outcome],
    dimension: str,
    labelled: Labelled,
    *,
    level: AnyLevel = "auto",
    seed: int = 0,
) -> dict[str, Any]:
    """What `dspy-judges compare --json` prints of the judges; the best comes first.

    Differences are from the best one. A judge whose judgements have all failed is left out. Raises
    ComparisonError where no judge was measured, or their outputs have nothing in common.
    """
    outcomes = [_without_score(outcome) for outcome in outcomes]
    measured = {o.entry.name: o.scored for o in outcomes if o.scored is not None}
    if not measured:
        raise ComparisonError("; ".join(f"{o.entry.name}: {o.reason}" for o in outcomes))
    pairs = isinstance(labelled, LabelledPairs)
    common = _common(measured)
    figures = {
        name: measure_scores(name, dimension, labelled, scored, level=level, seed=seed)
        for name, scored in common.items()
    }
    level = next(iter(figures.values())).level
    values = {name: _value(result, pairs) for name, result in figures.items()}
    # Of equals, the one that was named first.
    order = sorted(values, key=lambda name: math.inf if (v := values[name]) != v else -v)
    differences = _differences(common, order, level, seed, pairs)
    by_name = {outcome.entry.name: outcome for outcome in outcomes}
    costs = {name: by_name[name].usage["cost_per_1000_rows"] for name in order}
    priced = {
        n: (costs[n], values[n]) for n in order if costs[n] is not None and values[n] == values[n]
    }
    front = pareto_front(priced)
    items = next(iter(common.values())).items
    rows = []
    for name in order:
        outcome, result, gain = by_name[name], figures[name], differences.get(name)
        rows.append(
            {
                **_entry_cell(outcome),
                "tuned_on_these_labels": is_tuned_on(outcome.entry.judge, labelled.sha256),
                "correlations": [cell_by_convention(c) for c in result.every_correlation],
                "order": dict(result.order),
                **(pair_figures(result.scored_items) if pairs else {}),
                "ties": _ties(common[name], pairs),
                "difference": _difference_cell(gain),
                "standing": _standing(gain),
                "on_front": name in front if name in priced else None,
                **outcome.usage,
                **_on_all(measured[name], len(items), level, pairs, seed),
            }
        )
    spent = [outcome.usage["cost_usd"] for outcome in outcomes if outcome.usage["plan"] is not None]
    return {
        "dimension": dimension,
        "kind": "pairwise" if pairs else "rating",
        "level": level,
        "seed": seed,
        "data": data_counts(labelled, items),
        "n_labelled": max(len(scored.items) + scored.n_unjudged for scored in measured.values()),
        "reference": order[0],
        "judges": rows,
        "left_out": [
            {**_entry_cell(o), "why": o.reason, **o.usage} for o in outcomes if o.scored is None
        ],
        "cost_usd": None if None in spent else round(math.fsum(spent), DIGITS),
    }


def _without_score(outcome: Outcome) -> Outcome:
    """The outcome; left out where all of its judgements failed, which ranks it nowhere."""
    scored = outcome.scored
    if scored is None or not np.isnan(scored.scores).all():
        return outcome
    reasons = Counter(judgement.failure for judgement in scored.judgements)
    reason, count = reasons.most_common(1)[0]
    return replace(
        outcome,
        scored=None,
        reason=f"none of {len(scored.items):,} judgements has a score; {count:,} of them: {reason}",
    )


def _common(measured: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Every judge's scores on the items that all have, in one order; raises ComparisonError."""
    first, *others = measured.values()
    shared = set.intersection(*({i.id for i in s.items.items} for s in (first, *others)))
    if not shared:
        counts = ", ".join(f"{name} {len(scored.items):,}" for name, scored in measured.items())
        raise ComparisonError(f"no labelled output has a score by every judge: {counts} outputs")
    ids = [item.id for item in first.items.items if item.id in shared]
    return {name: _selected(scored, ids) for name, scored in measured.items()}


def _selected(scored: ScoredItems, ids: Sequence[str]) -> ScoredItems:
    index = {item.id: row for row, item in enumerate(scored.items.items)}
    rows = [index[name] for name in ids]
    return replace(
        scored,
        items=scored.items.of_rows(rows),
        scores=scored.scores[rows],
        judgements=tuple(scored.judgements[row] for row in rows),
    )


def _value(result: Measured, pairs: bool) -> float:
    """What judges are ranked by: rho by the primary convention, of pairs the accuracy."""
    if not pairs:
        return result.rho.value
    accuracy = pair_figures(result.scored_items)["accuracy"]
    return math.nan if accuracy is None else float(accuracy)


def _differences(
    scored: Mapping[str, ScoredItems],
    order: Sequence[str],
    level: Level,
    seed: int,
    pairs: bool,
) -> dict[str, Gain]:
    """Each judge less the best, with intervals that hold together.

    The best one was chosen by the figures themselves, so that every two judges count as compared.
    """
    compared = [(b, a) for a, b in itertools.combinations(order, 2)]
    reference = order[0]
    items = scored[reference].items

    def difference(a: Vector, b: Vector) -> Contrast:
        if pairs:
            return contrast_accuracy(a, b, items.human, items.document_ids)
        return contrast(a, b, items, level)

    contrasts = [difference(scored[a].scores, scored[b].scores) for a, b in compared]
    intervals = gains(contrasts, stream(seed, "compare", level)) if contrasts else []
    return {a: gain for (a, b), gain in zip(compared, intervals, strict=True) if b == reference}


def pareto_front(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Those of (cost, value) that no other beats, by being as cheap and better or the reverse."""
    return {
        name
        for name, (cost, value) in points.items()
        if not any(
            other_cost <= cost and other >= value and (other_cost, other) != (cost, value)
            for other_cost, other in points.values()
        )
    }


def _standing(gain: Gain | None) -> str:
    """Where a judge stands by its interval; the best is what the others are held against."""
    if gain is None:
        return "best"
    return "better" if gain.low > 0 else "worse" if gain.high < 0 else "unclear"


def _ties(scored: ScoredItems, pairs: bool) -> float | None:
    """The share of two outputs of a document that are scored alike; of pairs, the judge's ties."""
    if pairs:
        margins = scored.scores[~np.isnan(scored.scores)]
        return json_number(float((margins == 0).mean()), DIGITS) if margins.size else None
    documents = scored.items.document_ids
    if len(set(documents)) == len(documents):
        documents = [""] * len(documents)
    return json_number(scale_use(scored.scores, documents, (0.0,)).tied, DIGITS)


def _entry_cell(outcome: Outcome) -> Cell:
    entry = outcome.entry
    return {"name": entry.name, "source": entry.source, "lm": entry.lm or None}


def _difference_cell(gain: Gain | None) -> Cell | None:
    if gain is None:
        return None
    cell = value_cell(gain.value, Interval(gain.low, gain.high), DIGITS)
    return {**cell, "n_documents": gain.n_documents}


def _on_all(scored: ScoredItems, n_compared: int, level: Level, pairs: bool, seed: int) -> Cell:
    """The judge's own figure on all outputs that it has, where others lack some of them."""
    if len(scored.items) == n_compared:
        return {}
    figure = correlation(scored.scores, scored.items, level, stream(seed, "verify", level))
    return {"on_all": {**cell_by_convention(figure), **(pair_figures(scored) if pairs else {})}}
