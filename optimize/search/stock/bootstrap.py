"""BootstrapFewShotWithRandomSearch: demonstrations that the judge got right, and labelled ones."""

import dspy

from optimize.search.stock.program import metric
from optimize.search.stock.supplies import Scored, Supplies

# A bootstrapped demonstration comes from an example that the judge ranks about this well.
RANKED_WELL = 0.3
MOST_PROGRAMS = 200


def search_bootstrap(given: Supplies) -> Scored:
    """As many draws as the budget can score; an example bootstraps one output or lends several."""
    number = len(given.learn)
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric,
        metric_threshold=RANKED_WELL,
        max_bootstrapped_demos=max(1, number // 2),
        max_labeled_demos=number,
        # It scores three more: the seed, labels alone, and the examples in order.
        num_candidate_programs=min(MOST_PROGRAMS, max(1, given.evaluations() - 3)),
        num_threads=1,
        max_errors=10**6,
    )
    program = optimizer.compile(given.program(), trainset=given.learn, valset=given.value)
    return given.scored((one["score"] / 100, one["program"]) for one in program.candidate_programs)
