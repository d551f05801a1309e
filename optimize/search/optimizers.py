"""Search with the optimizer of a name: our own, or one of DSPy's."""

from collections.abc import Callable

from optimize.run.settings import Optimizer
from optimize.search.bench import Bench
from optimize.search.entrants import Plan, Propose
from optimize.search.items import Items
from optimize.search.loop import Found, Record, rank_search
from optimize.search.objective import Level


def search(
    optimizer: Optimizer,
    *,
    bench: Bench,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: Plan,
    record: Callable[[Record], None],
) -> Found:
    """All learn from train and are chosen on dev, within the bench's budget."""
    if optimizer == "rank":
        return rank_search(
            bench=bench,
            propose=propose,
            train=train,
            dev=dev,
            level=level,
            plan=plan,
            record=record,
        )
    # Here, because DSPy takes half a second to import.
    from optimize.search.stock.search import stock_search

    return stock_search(
        optimizer,
        bench=bench,
        propose=propose,
        train=train,
        dev=dev,
        level=level,
        plan=plan,
        record=record,
    )
