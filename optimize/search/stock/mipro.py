"""MIPROv2: a Bayesian search over our proposed instructions and our demonstration sets."""

from typing import Any

import dspy

from optimize.search.stock.program import metric
from optimize.search.stock.supplies import Scored, Supplies, nobody

MOST_TRIALS = 200
# DSPy's own "heavy" setting searches eighteen of each, for which it needs the calls.
HEAVY, ENOUGH_FOR_HEAVY = 18, 60


def search_mipro(given: Supplies) -> Scored:
    """Every trial is a full evaluation; what the bench has scored before is free."""
    usual = given.plan.proposals + given.plan.demo_sets
    number = max(usual, HEAVY) if given.evaluations() >= ENOUGH_FOR_HEAVY else usual

    class Mipro(dspy.MIPROv2):  # type: ignore[misc]
        """MIPROv2 with our proposer and demonstration pool, so that only the search differs."""

        def _bootstrap_fewshot_examples(self, *_: Any, **__: Any) -> dict[int, list[Any]]:
            sets = given.demo_sets(number)
            return {0: [[], *([dspy.Example(**demo) for demo in one.demos] for one in sets)]}

        def _propose_instructions(self, *_: Any, **__: Any) -> dict[int, list[str]]:
            seed = given.bench.seed.instruction
            return {0: [seed, *given.proposed(seed, given.mistakes(number), 1)]}

    lm = nobody()
    optimizer = Mipro(
        metric=metric,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=number,
        num_threads=1,
        max_errors=10**6,
        # DSPy takes a seed of 0 for none.
        seed=given.plan.seed + 1,
    )
    program = optimizer.compile(
        given.program(),
        trainset=given.learn,
        valset=given.value,
        num_trials=min(MOST_TRIALS, 2 * given.evaluations()),
        # DSPy fails once every combination it met on minibatches has had its full evaluation.
        minibatch=False,
    )
    return given.scored((one["score"] / 100, one["program"]) for one in program.candidate_programs)
