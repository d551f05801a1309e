"""The optimizers by name, and the search with one of them.

A new optimizer is an entry here and its function.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from optimize.search.choices import OptimizerName as OptimizerName
from optimize.search.finalists import Exploration, SearchResult, choose_on_dev
from optimize.search.problem import SearchProblem

# Each function learns from train and leaves finalists, within the evaluator's budget. It is
# imported when its name is chosen, since DSPy takes half a second.
OPTIMIZERS: Mapping[OptimizerName, str] = {
    "rank": "optimize.search.rank_search:explore",
    "gepa": "optimize.search.gepa:explore",
}


def search(optimizer: OptimizerName, problem: SearchProblem) -> SearchResult:
    """Search with the optimizer of this name, and choose among its finalists on dev."""
    module, _, function = OPTIMIZERS[optimizer].partition(":")
    explore: Callable[[SearchProblem], Exploration] = getattr(import_module(module), function)
    return choose_on_dev(problem, explore(problem))
