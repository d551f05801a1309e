"""Open models with their runners, one journal and one budget, from what a user asked for."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from judges.errors import OptionError
from judges.protocol import is_embedded

if TYPE_CHECKING:
    from judges.inference.budget import Ledger
    from judges.inference.runner import Runner
    from judges.protocol import Model


class Options(TypedDict, total=False):
    """How a judge is run over many rows; everything may be left out.

    `lm` and `api_base` name the model, `max_calls` and `max_cost` (US dollars) bound what it may
    take, `journal` is a file that keeps every reply so that none is paid twice, `order` and `seed`
    are for pairs, `mapping` says which column holds which text, `progress` shows a line on stderr.
    """

    lm: str | None
    api_base: str | None
    max_calls: int | None
    max_cost: float | None
    concurrency: int
    seed: int
    order: Literal["both", "random"]
    journal: Path | str | None
    mapping: dict[str, str] | None
    progress: bool


class Session:
    """Runners by model name, opened when first asked for; they share journal and budget.

    `models` are open already and stand for their names. `budget_file` holds what an unfinished run
    has spent, so that the next one on it counts on; beside the journal, where there are limits.
    Unless `keep_going`, a run whose judgements fail, almost all of them, ends with FailingRunError.
    """

    def __init__(
        self,
        *,
        api_base: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        concurrency: int = 64,
        journal: Path | str | None = None,
        budget_file: Path | None = None,
        keep_going: bool = True,
        models: "Mapping[str, Model] | None" = None,
    ) -> None:
        from judges.inference.budget import SharedBudget

        check_limits(max_calls=max_calls, max_cost=max_cost, concurrency=concurrency)
        self.ledgers: dict[str, Ledger] = {}
        self._api_base = api_base
        self._concurrency = concurrency
        self._journal_path = journal
        if budget_file is None and journal is not None and (max_calls or max_cost):
            budget_file = budget_file_of(journal)
        self._budget = SharedBudget(max_calls, max_cost, budget_file)
        self._keep_going = keep_going
        self._models = models or {}
        self._runners: dict[str, Runner] = {}
        self._open = ExitStack()

    def runner(self, lm: str) -> "Runner":
        """What asks `lm`; the same one every time."""
        if lm not in self._runners:
            self._runners[lm] = self._open_runner(lm)
        return self._runners[lm]

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._open.close()
        finally:
            self._budget.close(finished=error is None)

    def _open_runner(self, lm: str) -> "Runner":
        from judges.inference.budget import Ledger
        from judges.inference.runner import FailureMonitor, Runner
        from judges.models.journal import Journal
        from judges.models.prices import find_price

        ledger = Ledger(price=find_price(lm), budget=self._budget, name=lm)
        journal = (
            self._open.enter_context(Journal(self._journal_path)) if self._journal_path else None
        )
        runner = Runner(
            self._models.get(lm) or open_named(lm, self._api_base),
            journal=journal,
            ledger=ledger,
            concurrency=self._concurrency,
            monitor=None if self._keep_going else FailureMonitor(),
        )
        self.ledgers[lm] = ledger
        return self._open.enter_context(runner)


def budget_file_of(journal: Path | str) -> Path:
    """Where an unfinished run's spending is kept: beside its replies."""
    return Path(f"{journal}.budget.json")


def check_limits(**limits: object) -> None:
    """Raise ValueError for a limit that is no number above 0; all but `max_cost` are whole."""
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue
        kind = Real if name == "max_cost" else Integral
        if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:  # type: ignore[operator]
            what = "number" if name == "max_cost" else "whole number"
            raise OptionError(f"{name} {value!r}: expected a {what} above 0")


def check_options(options: Mapping[str, object]) -> None:
    """Raise TypeError for an option that there is none of, and ValueError for a wrong value."""
    for name in options:
        if name not in Options.__annotations__:
            known = ", ".join(Options.__annotations__)
            raise TypeError(f"no option {name!r}; there are {known}")
    if options.get("order", "both") not in ("both", "random"):
        raise OptionError(f"order {options['order']!r}: choose from both, random")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")


@contextmanager
def open_runner(lm: str, **opening: object) -> Iterator["Runner"]:
    """Open what asks one model, and close it whatever happens; options as for Session."""
    journal = opening.get("journal")
    with ExitStack() as stack:
        if journal:
            from data.tables.atomic_write import in_use

            path = Path(str(journal))
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(in_use(path))
        yield stack.enter_context(Session(**opening)).runner(lm)  # type: ignore[arg-type]


def open_named(lm: str, api_base: str | None = None) -> "Model":
    """Open a model by name; the embedded one is kept, since its weights take time to read."""
    return _open_embedded(lm) if is_embedded(lm) else _open(lm, api_base)


def _open(lm: str, api_base: str | None = None) -> "Model":
    from judges.models import open_model

    return open_model(lm, api_base=api_base)


_open_embedded = lru_cache(maxsize=2)(_open)
