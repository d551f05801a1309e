"""Open a model with its runner, journal and budget from what a user asked for."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from judges.runner import Runner


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


@contextmanager
def open_runner(
    lm: str,
    *,
    api_base: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    concurrency: int = 64,
    journal: Path | str | None = None,
) -> Iterator["Runner"]:
    """Open what asks `lm`, and close it whatever happens."""
    from judges.journal import Journal
    from judges.ledger import Ledger
    from judges.models import open_model
    from judges.prices import find_price
    from judges.runner import Runner

    with ExitStack() as stack:
        ledger = Ledger(max_calls=max_calls, max_cost=max_cost, price=find_price(lm))
        kept = stack.enter_context(Journal(Path(journal))) if journal else None
        model = open_model(lm, api_base=api_base)
        runner = Runner(model, journal=kept, ledger=ledger, concurrency=concurrency)
        yield stack.enter_context(runner)
