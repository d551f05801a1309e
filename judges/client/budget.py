"""Count calls, tokens and dollars, and keep within limits by the worst case.

A request is booked at its worst cost (every byte of the prompt a token, every reply `max_tokens`
long) before it is sent, and settled at its real cost, so that no limit is ever passed. A request
whose answer never came stays at its worst cost, with a store in every later start of the run, too.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges.errors import JudgesError, OptionError
from judges.client.prices import Price, token_bound
from judges.client.store import ANSWERED, CACHED, LOST, REFUSED, Store
from judges.protocol import Completion, Message, ModelError, Sampling, Usage


class BudgetSpentError(JudgesError, RuntimeError):
    """The budget is spent: the run ends, and can go on with a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The requests and tokens of one purpose ("" where none was named).

    `cost` is in US dollars, with lost requests at their worst; None where the price is unknown.
    """

    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Booking:
    """A request's place in the budget: its dollars at worst, and its number in the store.

    `worst` is the most that it can cost if the endpoint heeds max_tokens; `cost` is set aside.
    """

    cost: float
    worst: float
    purpose: str
    number: int | None


@dataclass(slots=True)
class Counts:
    """An account's requests for one purpose, retries included; `cached` ones were not sent.

    `lost_cost`, of requests without an answer, and `open_cost`, of those in flight, are at worst.
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
        """The sum of several counts."""
        rows = list(entries)  # a copy, since another thread may add one
        return cls(**{name: sum(getattr(row, name) for row in rows) for name in cls.__slots__})


@dataclass(eq=False, repr=False)
class Budget:
    """Limits on calls, retries included, and on US dollars at their worst, for several accounts.

    Requests in the run's `store` count; without one, every start has the whole limits again.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}
        # The largest ratio of a cost to its worst case: some endpoints ignore max_tokens.
        self.excess = 1.0
        self._later_calls = self._later_cost = 0.0
        self.counts: dict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
        for total in self.store.totals() if self.store else ():
            counts = self.counts[total.role][total.purpose]
            if total.state == CACHED:
                counts.cached += total.n
                continue
            counts.calls += total.n
            counts.tokens_in += total.tokens_in
            counts.tokens_out += total.tokens_out
            counts.cost += total.cost if total.state == ANSWERED else 0.0
            counts.lost_cost += total.cost if total.state != ANSWERED else 0.0

    def account(self, name: str = "model", price: Price | None = None) -> "Account":
        """The account of this name, which is opened where there is none.

        Raises OptionError where dollars are limited and the model's price is unknown.
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
        """The sum over all accounts."""
        return Counts.sum(counts for role in [*self.counts.values()] for counts in role.values())

    @property
    def calls(self) -> int:
        return self.total.calls

    @property
    def cost(self) -> float:
        """US dollars spent, with lost requests at their worst."""
        roles = [*self.counts.values()]  # copies, since another thread may add one
        return sum(c.cost + c.lost_cost for counts in roles for c in [*counts.values()])

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep so many calls and dollars of the limits for a later step, in place of any before."""
        with self.lock:
            self._later_calls, self._later_cost = calls, cost

    def fits(self, worst: float) -> bool:
        """Whether a request of this worst cost, in US dollars, fits into the limits now.

        False means that it may fit once requests in flight are settled. Raises BudgetSpentError
        where it cannot fit any more.
        """
        again = "the same command with a larger one goes on"
        if self.store is None:
            again = "the limit holds for one start: the same command has the whole limit again"
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
        later_cost, total = self._later_cost, self.total
        cost = total.cost + total.lost_cost
        if cost + total.open_cost + worst <= self.max_cost - later_cost:
            return True
        if total.open_calls:
            return False
        if self.max_cost == 0:
            raise BudgetSpentError(
                "with a limit of $0 nothing may be spent: only free models, recordings and replies "
                "in the cache are used"
            )
        later_part = f", ${later_cost:.4f} are kept for what comes after" if later_cost else ""
        raise BudgetSpentError(
            f"${cost:.4f} of the budget of ${self.max_cost:g} is spent{later_part} and the next "
            f"request may cost ${worst:.4f}; {again}"
        )


@dataclass(eq=False, repr=False)
class Account:
    """One model's part of a budget, over all starts of a run.

    New requests are counted under `purpose`.
    """

    budget: Budget
    name: str
    price: Price | None
    purpose: str = ""

    def __post_init__(self) -> None:
        self._charge = None if self.price is None or self.price.is_free else self.price
        self._counts = self.budget.counts[self.name]
        # With a limit on dollars at most twice as many requests are in flight as this process has
        # settled, since only answers show whether the endpoint heeds max_tokens.
        self._n_settled = 0

    @contextmanager
    def spending_on(self, purpose: str) -> Iterator[None]:
        """Count the requests of a `with` block under a purpose, unless one is set already.

        Requests in flight keep the purpose that they were sent for.
        """
        before = self.purpose
        self.purpose = before or purpose
        try:
            yield
        finally:
            self.purpose = before

    @property
    def total(self) -> Counts:
        """The sum over all purposes."""
        return Counts.sum(self._counts.values())

    @property
    def cost(self) -> float | None:
        """US dollars of all settled requests; None where the price is unknown."""
        return None if self.price is None else self.total.cost

    @property
    def cost_unconfirmed(self) -> float:
        """US dollars, at worst, of requests whose answer never came or has not come yet."""
        total = self.total
        return total.lost_cost + total.open_cost

    def spending(self) -> list[Spending]:
        """The requests, tokens and dollars of each purpose."""
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

        Returns None where the request may fit once others in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        budget, purpose, worst = self.budget, self.purpose, 0.0
        if self._charge is not None:
            worst = self._charge.worst(token_bound(messages), sampling.n * sampling.max_tokens)
        with budget.lock:
            cost = worst * budget.excess
            few_answers = budget.max_cost and self.total.open_calls >= max(1, 2 * self._n_settled)
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

    def settle(self, booking: Booking, outcome: Completion | Usage | ModelError) -> None:
        """Replace a booking by the request's real tokens and cost, and keep its replies.

        An error that does not count its tokens releases it.
        """
        if isinstance(outcome, ModelError):
            if outcome.usage is None:
                self.release(booking, billed=outcome.billed)
                return
            outcome = outcome.usage
        cost = self._charge.cost_of(outcome) if self._charge else 0.0
        state = ANSWERED if isinstance(outcome, Completion) else LOST
        with self.budget.lock:
            counts = self._counts[booking.purpose]
            self._n_settled += 1
            counts.tokens_in += outcome.tokens_in
            counts.tokens_out += outcome.tokens_out
            counts.cost += cost
            self._close(booking, state, cost, outcome)
            if cost > booking.worst > 0:
                self.budget.excess = max(self.budget.excess, cost / booking.worst)

    def release(self, booking: Booking, *, billed: bool) -> None:
        """Close the booking of a request without an answer, at its worst if it may be billed."""
        with self.budget.lock:
            cost = booking.cost if billed else 0.0
            self._counts[booking.purpose].lost_cost += cost
            self._close(booking, LOST if billed else REFUSED, cost, None)

    def keep(self, key: bytes, completion: Completion) -> None:
        """Keep an answer from the user's reply cache in the run's store."""
        with self.budget.lock:
            self._counts[self.purpose].cached += 1
            if self.budget.store:
                self.budget.store.put(key, completion, self.name, self.purpose)

    def _close(
        self, booking: Booking, state: str, cost: float, usage: Completion | Usage | None
    ) -> None:
        counts = self._counts[booking.purpose]
        counts.open_calls -= 1
        # Sums of floats may leave a remainder.
        counts.open_cost = counts.open_cost - booking.cost if counts.open_calls else 0.0
        if booking.number is not None and self.budget.store:
            self.budget.store.settle(booking.number, state, cost, usage)
