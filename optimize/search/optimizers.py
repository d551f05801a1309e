"""Search with the optimizer of a name: our own, or one of DSPy's."""

from typing import Literal, get_args

from optimize.search.finalists import SearchResult
from optimize.search.problem import SearchProblem
from optimize.search.rank_search import rank_search

Optimizer = Literal["rank", "gepa", "miprov2", "bootstrap"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


def search(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """All learn from train and are chosen on dev, within the evaluator's budget."""
    if optimizer == "rank":
        return rank_search(problem)
    # Here, because DSPy takes half a second to import.
    from optimize.search.dspy_optimizers import stock_search

    return stock_search(optimizer, problem)
