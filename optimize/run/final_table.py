"""The final table: both judges on dev, test and unseen systems, with their intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimize.figures import DIGITS, Cell, cell, json_number, value_cell
from optimize.items import Items, Vector
from optimize.run.active_run import ActiveRun
from optimize.search.evaluator import Evaluator
from optimize.search.gate import SearchResult
from optimize.search.objective import Level, correlation
from optimize.statistics.accuracy import pair_accuracy
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import paired_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalTable:
    """Each judge's correlation by split, the gain by split, and for pairs each judge's accuracy."""

    seed: Mapping[str, Cell | None]
    tuned: Mapping[str, Cell | None]
    gain: Mapping[str, Cell]
    accuracy: Mapping[str, float | None]


def measure_finally(
    run: ActiveRun,
    evaluator: Evaluator,
    result: SearchResult,
    *,
    test: bool = True,
) -> FinalTable:
    """Score both judges on test, once, after the choice; on dev, where the choice was made.

    There a judge that shows dev's labels is stood in for by versions that do not show them.
    Without `test` only what is known already is told, and no model is asked.
    """
    labels, level, seed = run.prepared.labels, run.prepared.level, run.prepared.settings.seed
    cross_fit = result.cross_fit
    candidates = {"seed_judge": run.seed, "tuned_judge": result.tuned}
    splits = {
        "dev": Items(()),
        "test": labels.test,
        "test_unseen_systems": labels.unseen or Items(()),
    }
    if not test:
        splits |= {"test": Items(()), "test_unseen_systems": Items(())}
    # The table's share was kept for it; what it takes beyond is the models' own budget's to refuse.
    evaluator.budget = evaluator.budget.renewed(math.inf if test else 0)
    scores = {
        judge: {
            split: cross_fit.scores(evaluator, candidate, items)
            for split, items in splits.items()
            if len(items)
        }
        for judge, candidate in candidates.items()
    }
    # The same draws for every judge, and for `verify` of the same rows.
    cells = {
        judge: {
            split: cell(correlation(by_split[split], items, level, stream(seed, "verify", level)))
            if split in by_split
            else None
            for split, items in splits.items()
        }
        for judge, by_split in scores.items()
    }
    on_test = {judge: by_split["test"] for judge, by_split in scores.items() if "test" in by_split}
    return FinalTable(
        seed=cells["seed_judge"],
        tuned=cells["tuned_judge"],
        gain={
            split: gain(
                scores["tuned_judge"][split],
                scores["seed_judge"][split],
                splits[split],
                level,
                seed,
            )
            for split in ("test", "test_unseen_systems")
            if split in scores["tuned_judge"]
        },
        accuracy={judge: accuracy_of(on_test[judge], labels.test) for judge in on_test}
        if run.judge.kind == "pairwise"
        else {},
    )


def gain(tuned: Vector, seed_judge: Vector, items: Items, level: Level, seed: int) -> Cell:
    """The tuned judge's rho less the untuned one's, on the outputs that both scored."""
    difference = paired_difference(
        tuned,
        seed_judge,
        items.human,
        items.document_ids,
        level=level,
        system=items.system_ids if level == "system" else None,
        rng=stream(seed, "gain"),
    )
    return value_cell(difference.value, difference.interval, DIGITS)


def accuracy_of(scores: Vector, items: Items) -> float | None:
    """Share of the pairs people decided that the judge decides alike; its ties are half right."""
    return json_number(pair_accuracy(scores, items.human, items.document_ids).value, DIGITS)
