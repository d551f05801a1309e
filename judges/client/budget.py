"""Count calls, tokens and dollars, and keep within limits by worst case alone.

A request is booked at its worst (every byte of the prompt a token, every reply `max_tokens` long)
before it is sent and settled at what it took, so no limit is ever passed. One whose answer never
came stays at its worst until the run ends: with a store, in every later start of it as well.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges.errors import JudgesError, OptionError
from judges.client.prices import Price, token_bound
from judges.client.store import ANSWERED, CACHED, LOST, REFUSED, Store
from judges.protocol import Completion, Message, Sampling, Usage


class BudgetSpentError(JudgesError, RuntimeError):
    """The budget is used up: the run ends here, and goes on with a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent on a purpose ("": on none that is known).

    `cost` is in US dollars, lost requests at their worst; None where the price is unknown.
    """

    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Booking:
    """A request's place in the budget: its dollars at worst, and its number in the store.

    `worst` is what it may cost where the endpoint heeds max_tokens, `cost` what is set aside.
    """

    cost: float
    worst: float
    purpose: str
    number: int | None


@dataclass(slots=True)
class Counts:
    """An account's requests for one purpose, retries among them; `cached` were not sent.

    `lost` and `open_` costs, of requests without an answer and under way, are at worst.
    """

    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    lost_cost: float = 0.0
    open_calls: int = 0
    open_cost: float = 0.0

    @classmethod
    def sum(cls, entries: Iterable["Counts"]) -> "Counts":
        """All together."""
        rows = list(entries)  # a copy, since another thread may add one
        return cls(**{name: sum(getattr(row, name) for row in rows) for name in cls.__slots__})


class Budget:
    """Limits on calls and dollars, which the accounts of several models spend from together.

    With a `store` it goes on from what earlier starts of the run have spent; without one each start
    has the limits anew. `set_aside` keeps a part for later.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        store: Store | None = None,
    ) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.store = store
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}
        # By how much the dearest request exceeded its worst: some endpoints ignore max_tokens.
        self.excess = 1.0
        self._later_calls = self._later_cost = 0.0
        self.counts: dict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
        for total in store.totals() if store else ():
            counts = self.counts[total.role][total.purpose]
            if total.state == CACHED:
                counts.cached += total.n
                continue
            counts.tokens_in += total.tokens_in
            counts.tokens_out += total.tokens_out
            counts.calls += total.n
            if total.state == ANSWERED:
                counts.cost += total.cost
            else:
                counts.lost_cost += total.cost

    def account(self, name: str = "model", price: Price | None = None) -> "Account":
        """The account of this name, opened where there is none; raises OptionError.

        A limit on dollars needs the price of every model.
        """
        if self.max_cost is not None and price is None:
            raise OptionError(
                "max_cost needs the model's price, and no table has it: give the price (--price "
                "IN,OUT), or max_calls (--max-calls) instead"
            )
        with self.lock:
            if name not in self.accounts:
                self.accounts[name] = Account(self, name, price)
            return self.accounts[name]

    @property
    def total(self) -> Counts:
        """What all accounts have taken."""
        return Counts.sum(counts for role in [*self.counts.values()] for counts in role.values())

    @property
    def calls(self) -> int:
        return self.total.calls

    @property
    def cost(self) -> float:
        """Dollars that are gone, or may be."""
        total = self.total
        return total.cost + total.lost_cost

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep so many planned calls and dollars for what comes after, and nothing more."""
        with self.lock:
            self._later_calls, self._later_cost = calls, cost

    def fits(self, worst: float) -> bool:
        """Whether one more request fits, which costs so many dollars at worst.

        False: not now, but perhaps once requests in flight are settled. BudgetSpentError: no more.
        """
        again = "the same command with a larger one goes on"
        if self.store is None:
            again = "the limit is for one start: the same command begins with all of it again"
        if self.max_calls is not None:
            calls, later = self.calls, round(self._later_calls)
            if calls >= self.max_calls:
                raise BudgetSpentError(f"the budget of {self.max_calls} calls is spent; {again}")
            if calls >= self.max_calls - later:
                raise BudgetSpentError(
                    f"{calls} of the budget of {self.max_calls} calls are spent and {later} are "
                    f"kept for what comes after; {again}"
                )
        if self.max_cost is None:
            return True
        kept_cost, total = self._later_cost, self.total
        cost = total.cost + total.lost_cost
        if cost + total.open_cost + worst <= self.max_cost - kept_cost:
            return True
        if total.open_calls:
            return False
        if self.max_cost == 0:
            raise BudgetSpentError(
                "with a limit of $0 nothing may be spent: only free models, recordings and replies "
                "in the cache are used"
            )
        kept = f", ${kept_cost:.4f} are kept for what comes after" if kept_cost else ""
        raise BudgetSpentError(
            f"${cost:.4f} of the budget of ${self.max_cost:g} is spent{kept} and the next request "
            f"may cost ${worst:.4f}; {again}"
        )


class Account:
    """What one model has taken from a budget since the run began, over all its starts.

    `purpose` is what requests are made for from now on.
    """

    def __init__(self, budget: Budget, name: str, price: Price | None) -> None:
        self.budget = budget
        self.name = name
        self.price = price
        self._paid = None if price is None or price.is_free else price
        self.purpose = ""
        self._counts = budget.counts[name]
        # Of this process; with a limit on dollars no more than twice so many are in flight, since
        # only answers tell whether this endpoint heeds max_tokens.
        self._settled = 0

    @contextmanager
    def spending_on(self, purpose: str) -> Iterator[None]:
        """Count what is asked for in the `with` block under a purpose, unless it has one already.

        Requests under way keep the purpose that they were sent for.
        """
        before = self.purpose
        self.purpose = before or purpose
        try:
            yield
        finally:
            self.purpose = before

    @property
    def total(self) -> Counts:
        """What all its purposes have taken."""
        return Counts.sum(self._counts.values())

    @property
    def cost(self) -> float | None:
        """Dollars of the requests that were settled; None where the price is unknown."""
        return None if self.price is None else self.total.cost

    @property
    def cost_unconfirmed(self) -> float:
        """Dollars at worst of those whose answer never came, or has not come yet."""
        total = self.total
        return total.lost_cost + total.open_cost

    def spending(self) -> list[Spending]:
        """What each purpose has taken."""
        return [
            Spending(
                purpose=purpose,
                calls=counts.calls,
                tokens_in=counts.tokens_in,
                tokens_out=counts.tokens_out,
                cost=None if self.price is None else counts.cost + counts.lost_cost,
            )
            for purpose, counts in list(self._counts.items())
            if counts.calls
        ]

    def book(self, key: bytes, messages: Sequence[Message], sampling: Sampling) -> Booking | None:
        """Set aside the most that one request can cost, and count the call.

        None: it does not fit now, but may once requests in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        budget, purpose, worst = self.budget, self.purpose, 0.0
        if self._paid is not None:
            worst = self._paid.worst(token_bound(messages), sampling.n * sampling.max_tokens)
        with budget.lock:
            cost = worst * budget.excess
            few_answers = budget.max_cost and self.total.open_calls >= max(1, 2 * self._settled)
            if worst and few_answers:
                return None
            is_limited = budget.max_calls is not None or budget.max_cost is not None
            if is_limited and not budget.fits(cost):
                return None
            store = budget.store
            number = store.begin(key, self.name, purpose, cost) if store and key else None
            counts = self._counts[purpose]
            counts.calls += 1
            counts.open_calls += 1
            counts.open_cost += cost
            return Booking(cost, worst, purpose, number)

    def settle(self, booking: Booking, usage: Completion | Usage) -> None:
        """Replace a booking by what the request took, and keep its replies."""
        cost = self._paid.cost_of(usage) if self._paid else 0.0
        state = ANSWERED if isinstance(usage, Completion) else LOST
        with self.budget.lock:
            counts = self._counts[booking.purpose]
            self._settled += 1
            counts.tokens_in += usage.tokens_in
            counts.tokens_out += usage.tokens_out
            counts.cost += cost
            self._close(booking, state, cost, usage)
            if cost > booking.worst > 0:
                self.budget.excess = max(self.budget.excess, cost / booking.worst)

    def release(self, booking: Booking, *, billed: bool) -> None:
        """Close the booking of a request that brought nothing: at its worst if it may be billed."""
        with self.budget.lock:
            cost = booking.cost if billed else 0.0
            self._counts[booking.purpose].lost_cost += cost
            self._close(booking, LOST if billed else REFUSED, cost, None)

    def keep(self, key: bytes, completion: Completion) -> None:
        """Keep an answer of the user's reply cache as one of the run's."""
        with self.budget.lock:
            self._counts[self.purpose].cached += 1
            if self.budget.store:
                self.budget.store.put(key, completion, self.name, self.purpose)

    def _close(
        self, booking: Booking, state: str, cost: float, usage: Completion | Usage | None
    ) -> None:
        counts = self._counts[booking.purpose]
        counts.open_calls -= 1
        # Sums of floats do not cancel exactly.
        counts.open_cost = counts.open_cost - booking.cost if counts.open_calls else 0.0
        if booking.number is not None and self.budget.store:
            self.budget.store.settle(booking.number, state, cost, usage)
