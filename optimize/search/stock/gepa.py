"""GEPA: instructions alone, each from what the one before got wrong on a few documents."""

from typing import Any

import dspy

from optimize.search.proposals import MISTAKES_SHOWN, mistakes
from optimize.search.stock.program import score
from optimize.search.stock.supplies import Scored, Supplies, nobody

MINIBATCH = 6
# Proposals in a row that brought nothing new: GEPA would spend the whole budget on more.
BARREN = 25


def search_gepa(given: Supplies) -> Scored:
    """Until the budget ends, or the proposer has nothing new to say."""
    bench = given.bench

    def judged(
        gold: Any,
        pred: Any,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,
    ) -> Any:
        rho = score(gold, pred)
        if pred_name is None or pred.scores is None:
            return rho
        feedback = mistakes(pred.scores, gold["items"], bench.seed)
        return dspy.Prediction(score=rho, feedback=feedback)

    rounds = 0

    def proposer(
        candidate: dict[str, str],
        reflective_dataset: dict[str, list[dict[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        nonlocal rounds
        rounds += 1
        new = dict(candidate)
        for name in components_to_update:
            told = dict.fromkeys(
                line
                for record in reflective_dataset[name]
                for line in str(record["Feedback"]).splitlines()
            )
            shown = "\n".join(list(told)[:MISTAKES_SHOWN])
            proposed = given.proposed(candidate[name], [shown], rounds)
            new[name] = proposed[0] if proposed else candidate[name]
        return {name: new[name] for name in components_to_update}

    # What the next iteration needs: a proposal and a minibatch.
    sizes = sorted((len(one["items"]) for one in given.learn), reverse=True)
    least = bench.proposal + sum(sizes[:MINIBATCH])

    def spent(state: Any) -> bool:
        return given.barren >= BARREN or given.shared.spent or bench.budget.left < least

    optimizer = dspy.GEPA(
        metric=judged,
        max_metric_calls=bench.budget.left,
        instruction_proposer=proposer,
        reflection_lm=nobody(),
        reflection_minibatch_size=min(MINIBATCH, len(given.learn)),
        skip_perfect_score=False,
        num_threads=1,
        track_stats=True,
        seed=given.plan.seed,
        gepa_kwargs={"stop_callbacks": spent},
    )
    program = optimizer.compile(given.program(), trainset=given.learn, valset=given.value)
    results = program.detailed_results
    return given.scored(zip(results.val_aggregate_scores, results.candidates, strict=True))
