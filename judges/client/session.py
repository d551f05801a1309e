"""Open models with their runners, journals and one budget, as a user asked for them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from dspy_judges.errors import OptionError
from judges.client.open import TIMEOUT, open_model
from judges.client.protocol import EMBEDDED, is_embedded

if TYPE_CHECKING:
    from judges.client.cache import ReplyCache
    from judges.client.client import Client
    from judges.client.prices import Price
    from judges.client.protocol import Model


class ModelOptions(TypedDict, total=False):
    """How a model is opened; everything may be left out.

    `lm` (the embedded model) and `api_base` name it, `max_calls` and `max_cost` (US dollars) bound
    what it may take, `concurrency` is how many requests are under way at once, `journal` is a file
    that keeps every reply so that none is paid twice. `cache` is the folder of the replies that
    runs share (the user's own unless given; "none": no such). `api_key_env` names the environment
    variable with the key, `price` is in US dollars for a million tokens read and written, where no
    table knows it; `max_tokens` of a reply and `reasoning_effort` are the model's own unless given.
    """

    lm: str | None
    api_base: str | None
    max_calls: int | None
    max_cost: float | None
    concurrency: int
    journal: Path | str | None
    cache: Path | str | None
    api_key_env: str | None
    price: tuple[float, float] | None
    max_tokens: int | None
    reasoning_effort: str | None


class Options(ModelOptions, total=False):
    """How a judge is run over many rows: its model, and the rows.

    `order` and `seed` are for pairs, `map` says which column holds which text, `progress` shows a
    line on stderr.
    """

    seed: int
    order: Literal["both", "random"]
    map: dict[str, str] | None
    progress: bool


class Session:
    """Runners, opened when first asked for; they share one budget, and are closed together.

    `models` are open already, by their names or their roles. `budget_file` holds what an
    unfinished run has spent, so that the next one on it counts on (beside the journal, where there
    are limits); what has finished leaves it behind only with `keep_budget_file`. Unless
    `keep_going`, a run whose judgements fail, almost all of them, ends with FailingRunError.
    """

    def __init__(
        self,
        *,
        keep_going: bool = True,
        budget_file: Path | None = None,
        keep_budget_file: bool = False,
        models: "Mapping[str, Model] | None" = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        from judges.client.budget import Budget

        self._options = ModelOptions(**{"concurrency": 64, **options})
        max_calls, max_cost = options.get("max_calls"), options.get("max_cost")
        check_limits(
            max_calls=max_calls,
            max_cost=max_cost,
            concurrency=self._options["concurrency"],
            max_tokens=options.get("max_tokens"),
        )
        journal = options.get("journal")
        if budget_file is None and journal is not None and (max_calls or max_cost):
            budget_file = budget_file_of(journal)
        self.budget = Budget(max_calls, max_cost, budget_file)
        self._keep_budget_file = keep_budget_file
        self._keep_going = keep_going
        self._models = models or {}
        self._clients: dict[str, Client] = {}
        self._open = ExitStack()
        # That of all runners, once one of them asks a model elsewhere.
        self.cache: ReplyCache | None = None
        self._cache_opened = False

    def client(
        self,
        lm: str,
        *,
        role: str | None = None,
        api_base: str | None = None,
        journal: Path | str | None = None,
        keep_going: bool | None = None,
        api_key_env: str | None = None,
        price: "tuple[float, float] | Price | None" = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        free: bool = False,
    ) -> "Client":
        """What asks `lm`; the same one every time for a role, which its account is named by.

        What is not said here is as the session's options say; an `api_base` of "" is the
        provider's own. What is `free` takes nothing of the session's limits.
        """
        from judges.client.budget import Budget
        from judges.client.client import (
            ATTEMPTS,
            Client,
            FailureMonitor,
            is_cacheable,
        )
        from judges.client.journal import Journal
        from judges.client.prices import find_price, price_of

        role = role or lm
        if role not in self._clients:
            options = self._options
            budget = Budget() if free else self.budget
            account = budget.account(
                role, price_of(price or options.get("price")) or find_price(lm)
            )
            journal = journal or options.get("journal")
            keep_going = self._keep_going if keep_going is None else keep_going
            named_base = options.get("api_base") if api_base is None else api_base or None
            api_key_env = api_key_env or options.get("api_key_env")
            key: Any = {"api_key_env": api_key_env} if api_key_env else {}
            model = (
                self._models.get(role)
                or self._models.get(lm)
                or open_model(lm, api_base=named_base, **key)
            )
            client = Client(
                model,
                journal=self._open.enter_context(Journal(journal)) if journal else None,
                cache=self._shared_cache() if is_cacheable(model) else None,
                account=account,
                concurrency=options["concurrency"],
                monitor=None if keep_going else FailureMonitor(),
                timeout=getattr(model, "timeout", None) or TIMEOUT,
                attempts=max(ATTEMPTS, 1 + getattr(model, "num_retries", 0)),
                max_tokens=max_tokens
                or options.get("max_tokens")
                or getattr(model, "max_tokens", None),
                reasoning_effort=reasoning_effort or options.get("reasoning_effort"),
            )
            self._clients[role] = self._open.enter_context(client)

            def open_sibling(other: str, base: str | None) -> Client:
                """What asks another model; a price given is this one's, where no table knows it."""
                if (other, base) in ((lm, api_base or None), (lm, named_base)):
                    return client
                own_role = other if base is None else f"{other} at {base}"
                return self.client(
                    other,
                    role=own_role if role == lm else f"{role}: {own_role}",
                    api_base=base or "",
                    journal=journal,
                    keep_going=keep_going,
                    api_key_env=api_key_env,
                    price=find_price(other) or price,
                    max_tokens=max_tokens,
                    reasoning_effort=reasoning_effort,
                    free=is_embedded(other),
                )

            client.open_sibling = open_sibling
        return self._clients[role]

    def _shared_cache(self) -> "ReplyCache | None":
        from judges.client.cache import open_cache

        if not self._cache_opened:
            self._cache_opened = True
            self.cache = open_cache(self._options.get("cache"))
            if self.cache is not None:
                self._open.callback(self.cache.close)
        return self.cache

    def waiting(self) -> str:
        """What a client waits for, and for how long; empty where none does."""
        return next(filter(None, (client.waiting for client in list(self._clients.values()))), "")

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._open.close()
        finally:
            self.budget.close(finished=error is None and not self._keep_budget_file)


@contextmanager
def open_client(
    *,
    keep_going: bool = True,
    models: "Mapping[str, Model] | None" = None,
    **options: Unpack[ModelOptions],
) -> Iterator["Client"]:
    """Open what asks one model, and close it whatever happens; its journal is kept to it alone.

    `models` are open already and stand for their names.
    """
    with ExitStack() as stack:
        if journal := options.get("journal"):
            from data.tables.atomic_write import in_use

            path = Path(journal)
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(in_use(path))
        session = stack.enter_context(Session(keep_going=keep_going, models=models, **options))
        yield session.client(options.get("lm") or EMBEDDED)


def budget_file_of(journal: Path | str) -> Path:
    """Where an unfinished run's spending is kept: beside its replies."""
    return Path(f"{journal}.budget.json")


def check_limits(**limits: object) -> None:
    """Raise OptionError for a limit that is no number above 0; all but `max_cost` are integers."""
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue
        kind = Real if name == "max_cost" else Integral
        if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:  # type: ignore[operator]
            expected = "number" if name == "max_cost" else "whole number"
            raise OptionError(f"{name} {value!r}: expected a {expected} above 0")


def pop_map(options: Any) -> dict[str, str]:
    """Take `map` out of the options; empty where there is none."""
    return options.pop("map", None) or {}


def check_options(options: Mapping[str, object]) -> None:
    """Raise TypeError for an option that there is none of, and OptionError for a wrong value."""
    for name in options:
        if name not in Options.__annotations__:
            known = ", ".join(Options.__annotations__)
            raise TypeError(f"no option {name!r}; there are {known}")
    if options.get("order", "both") not in ("both", "random"):
        raise OptionError(f"order {options['order']!r}: choose from both, random")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")
