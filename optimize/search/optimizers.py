"""Search with the optimizer of a name: our own, or one of DSPy's."""

from collections.abc import Callable
from typing import Literal, get_args

from optimize.items import Items
from optimize.search.evaluator import Evaluator
from optimize.search.generator import Propose, SearchPlan
from optimize.search.objective import Level
from optimize.search.rank_search import Record, SearchResult, rank_search

Optimizer = Literal["rank", "gepa", "miprov2", "bootstrap"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


def search(
    optimizer: Optimizer,
    *,
    evaluator: Evaluator,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: SearchPlan,
    record: Callable[[Record], None],
) -> SearchResult:
    """All learn from train and are chosen on dev, within the evaluator's budget."""
    if optimizer == "rank":
        return rank_search(
            evaluator=evaluator,
            propose=propose,
            train=train,
            dev=dev,
            level=level,
            plan=plan,
            record=record,
        )
    # Here, because DSPy takes half a second to import.
    from optimize.search.dspy_optimizers import stock_search

    return stock_search(
        optimizer,
        evaluator=evaluator,
        propose=propose,
        train=train,
        dev=dev,
        level=level,
        plan=plan,
        record=record,
    )
