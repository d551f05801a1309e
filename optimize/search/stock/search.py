"""Run one of DSPy's optimizers on train; its best candidates go to dev and the gate like any."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from judges.engine.ledger import BudgetSpentError
from optimize.search.bench import Bench, Budget, OutOfCallsError
from optimize.search.chance import stream
from optimize.search.crossing import Crossing
from optimize.search.decision import decide, score_both
from optimize.search.entrants import Plan, Propose
from optimize.search.gate import undecided
from optimize.search.items import Items
from optimize.search.loop import Found
from optimize.search.objective import Level
from optimize.search.stock import bootstrap, gepa, mipro
from optimize.search.stock.program import in_order
from optimize.search.stock.supplies import Scored, Supplies
from optimize.search.trials import Record, Trials

SEARCHES: Mapping[str, Callable[[Supplies], Scored]] = {
    "gepa": gepa.search_gepa,
    "miprov2": mipro.search_mipro,
    "bootstrap": bootstrap.search_bootstrap,
}


def stock_search(
    optimizer: str,
    *,
    bench: Bench,
    propose: Propose,
    train: Items,
    dev: Items,
    level: Level,
    plan: Plan,
    record: Callable[[Record], None],
) -> Found:
    """Search within a budget of its own; what the optimizer leaves is dev's as well."""
    trials = Trials(bench, record)
    budget = bench.budget
    reserve = min((1 + plan.finalists) * bench.price(dev), budget.left // 2)
    bench.budget = Budget(budget.left - reserve)
    budget.hold(reserve)
    given = Supplies(bench=bench, propose=propose, train=train, dev=dev, level=level, plan=plan)
    found: Scored = []
    # Where the calls do not even reach for the seed's lessons, there is nothing to choose from.
    with _quietly(), contextlib.suppress(OutOfCallsError, BudgetSpentError):
        found = in_order(SEARCHES[optimizer](given)) if given.learn and given.value else []
    given.shared.raise_stopped()
    budget.hold(0)
    budget.spent += bench.budget.spent
    bench.budget = budget
    for rho, candidate in found:
        trials.stock(candidate, rho)
    base = next((rho for rho, one in found if one.id == given.seed.id), 0.0)
    better = [one for rho, one in found if one.id != given.seed.id and rho > base]
    finalists = better[: plan.finalists]
    # None of theirs shows dev: each judges it itself.
    crossing = Crossing(Items(()), bench.seed, plan)
    n_tried = len(given.shared.tried)
    best, choice = given.seed, undecided(n_tried)
    with contextlib.suppress(BudgetSpentError):
        on_dev = score_both(
            bench=bench,
            crossing=crossing,
            seed=given.seed,
            candidates=finalists,
            items=dev,
            level=level,
            unshown=frozenset(),
            seen=partial(trials.compared, "dev"),
        )
        choice = decide(on_dev, {}, level, n_tried, stream(plan.seed, "gate"))
        best = given.seed if choice.best is None else finalists[choice.best]
    return Found(
        tuned=best,
        crossing=crossing,
        choice=choice,
        n_tried=n_tried,
        n_proposed=given.n_proposed,
        calls=budget.spent,
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The optimizers print, log and draw progress bars; a run tells its own progress."""
    loggers = [logging.getLogger(name) for name in ("dspy", "optuna", "gepa")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
