"""Count the requests, tokens and US dollars of a run, and keep them within the run's budget.

Before a request is sent, its worst-case cost is booked: the cost if every byte of the prompt is a
token and every reply has `max_tokens` tokens. When the request is answered, its real cost replaces
the worst-case cost. So a run never exceeds its limits. The worst-case cost of a request that is
never answered stays booked. If the run has a store, it also counts in later starts of the run.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dspy_judges.errors import JudgesError, OptionError
from judges.client.prices import FREE, Price, max_prompt_tokens
from judges.client.store import ANSWERED, CACHED, LOST, REFUSED, Store
from judges.protocol import Completion, Message, ModelError, Sampling, Usage


class BudgetSpentError(JudgesError, RuntimeError):
    """The budget is spent; the run can be continued with a larger budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The requests, tokens and dollars that were spent on one purpose, such as "test".

    `cost_usd` includes the worst-case cost of unanswered requests; None if the price is unknown.
    """

    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Booking:
    """The dollars that are reserved for one request until it is answered.

    `worst_cost` is the most that the request can cost if the endpoint respects `max_tokens`.
    """

    reserved_cost: float
    worst_cost: float
    purpose: str
    request_id: int | None


@dataclass(slots=True)
class Counts:
    """The numbers of an account's requests for one purpose, with their tokens and costs.

    `calls` counts the requests that were sent, including retries, and `open_calls` the requests in
    flight. `answered_cost` is the real cost of answered requests, `lost_cost` the worst-case cost
    of unanswered requests, and `open_cost` the worst-case cost of requests in flight.
    """

    calls: int = 0
    cached_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    answered_cost: float = 0.0
    lost_cost: float = 0.0
    open_calls: int = 0
    open_cost: float = 0.0

    @property
    def spent(self) -> float:
        """The real cost of answered requests and the worst-case cost of unanswered ones."""
        return self.answered_cost + self.lost_cost

    @property
    def cost_unconfirmed(self) -> float:
        """The worst-case cost of requests that were never answered or are still in flight."""
        return self.lost_cost + self.open_cost

    @property
    def cache_note(self) -> str | None:
        """A line on how many requests the reply cache answered; None if it answered no request."""
        if not self.cached_calls:
            return None
        n_requests = self.cached_calls + self.calls
        return f"reply cache: {self.cached_calls:,} of {n_requests:,} requests answered, for free"

    @classmethod
    def sum(cls, summands: Iterable["Counts"]) -> "Counts":
        """Return the sum of several counts, field by field."""
        all_counts = list(summands)
        return cls(**{name: sum(getattr(c, name) for c in all_counts) for name in cls.__slots__})


class Budget:
    """Limits on the calls and the US dollars of a run. Each of the run's models has an account.

    The limits hold for all accounts together. Retries count as calls, and so do the requests of
    earlier starts in the run's `store`. Without a store, the limits hold for each start separately.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        store: Store | None = None,
    ) -> None:
        self.max_calls, self.max_cost, self.store = max_calls, max_cost, store
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}
        # The largest ratio so far of a request's real cost to its worst-case cost. The ratio is
        # above 1 if the endpoint ignores max_tokens.
        self.excess_ratio = 1.0
        # The calls and dollars that `set_aside` keeps for a later step of the run.
        self._calls_set_aside = self._cost_set_aside = 0.0
        # The counts, by the account's name and the purpose.
        self.counts: dict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
        for total in self.store.totals() if self.store else ():
            counts = self.counts[total.role][total.purpose]
            if total.state == CACHED:
                counts.cached_calls += total.n_requests
                continue
            counts.calls += total.n_requests
            counts.tokens_in += total.tokens_in
            counts.tokens_out += total.tokens_out
            if total.state == ANSWERED:
                counts.answered_cost += total.cost
            else:
                counts.lost_cost += total.cost

    def account(self, name: str = "model", token_price: Price | None = None) -> "Account":
        """Return the account of this name; raises OptionError if `max_cost` needs a price."""
        if self.max_cost is not None and token_price is None:
            raise OptionError(
                "max_cost needs the model's price, which is unknown: give the price (--price "
                "IN,OUT), or limit calls by max_calls (--max-calls) instead"
            )
        with self.lock:
            if name not in self.accounts:
                self.accounts[name] = Account(self, name, token_price)
            return self.accounts[name]

    @property
    def total(self) -> Counts:
        """The sum of all counts, over all accounts and purposes."""
        # Copies, since another thread may add an account or a purpose meanwhile.
        return Counts.sum(c for account in [*self.counts.values()] for c in [*account.values()])

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep calls and US dollars for a later step, in place of any amount set aside before."""
        with self.lock:
            self._calls_set_aside, self._cost_set_aside = calls, cost

    def may_spend(self, cost: float) -> bool:
        """Return whether the limits now allow a request that may cost `cost` US dollars.

        A request that is not allowed now may be allowed later, since requests in flight may cost
        less than their worst case. Raises BudgetSpentError if it can never be allowed.
        """
        total, calls_set_aside = self.total, round(self._calls_set_aside)
        if calls_set_aside or self._cost_set_aside:
            advice = "; the rest is kept for later steps"
        elif self.store is None:
            advice = "; the limit holds for one start: the same command has the whole limit again"
        else:
            advice = "; run the same command again with a larger budget to continue"
        if self.max_calls is not None and total.calls >= self.max_calls - calls_set_aside:
            raise BudgetSpentError(f"the budget of {self.max_calls} calls is spent{advice}")
        cost_so_far = total.spent + total.open_cost
        if self.max_cost is None or cost_so_far + cost <= self.max_cost - self._cost_set_aside:
            return True
        if total.open_calls:
            return False
        message = f"${total.spent:.4f} of the budget of ${self.max_cost:g} is spent"
        if total.lost_cost:
            message += f" (at most ${total.lost_cost:.4f} of it for unanswered requests)"
        raise BudgetSpentError(f"{message} and the next request may cost ${cost:.4f}{advice}")


class Account:
    """One model's account in a budget: its requests and costs over a run and its earlier starts.

    New requests are counted under `purpose`. An unknown `token_price` is None.
    """

    def __init__(self, budget: Budget, name: str, token_price: Price | None) -> None:
        self.budget, self.name, self.token_price, self.purpose = budget, name, token_price, ""
        self._counts = budget.counts[name]
        # The number of settled requests. If dollars are limited, at most twice as many are in
        # flight, since only answers show whether the endpoint respects max_tokens.
        self._n_settled = 0

    @contextmanager
    def spending_on(self, purpose: str) -> Iterator[None]:
        """Count requests within this context under `purpose`, unless an outer context set one."""
        outer_purpose = self.purpose
        self.purpose = outer_purpose or purpose
        try:
            yield
        finally:
            self.purpose = outer_purpose

    @property
    def total(self) -> Counts:
        """The sum of this account's counts over all purposes."""
        return Counts.sum([*self._counts.values()])

    def spending(self) -> list[Spending]:
        """Return the spending for each purpose; requests without a purpose count as "unknown"."""
        return [
            Spending(
                purpose=purpose or "unknown",
                calls=counts.calls,
                tokens_in=counts.tokens_in,
                tokens_out=counts.tokens_out,
                cost_usd=None if self.token_price is None else round(counts.spent, 6),
            )
            for purpose, counts in list(self._counts.items())
            if counts.calls
        ]

    def book(self, key: bytes, messages: Sequence[Message], sampling: Sampling) -> Booking | None:
        """Reserve a request's worst-case cost; None if the budget does not allow it yet."""
        budget, purpose = self.budget, self.purpose
        max_tokens = max_prompt_tokens(messages), sampling.n * sampling.max_tokens
        worst_cost = (self.token_price or FREE).worst_cost(*max_tokens)
        with budget.lock:
            cost = worst_cost * budget.excess_ratio
            max_open_calls = max(1, 2 * self._n_settled)
            cost_is_limited = worst_cost > 0 and budget.max_cost is not None
            if cost_is_limited and self.total.open_calls >= max_open_calls:
                return None
            if not budget.may_spend(cost):
                return None
            store, request_id = budget.store, None
            if store and key:
                request_id = store.record_sent(key, self.name, purpose, cost)
            counts = self._counts[purpose]
            counts.calls += 1
            counts.open_calls += 1
            counts.open_cost += cost
            return Booking(cost, worst_cost, purpose, request_id)

    def settle(self, booking: Booking, usage_or_error: Usage | ModelError) -> None:
        """Replace a request's booking by its real tokens and cost, and store its replies.

        A failed request costs its worst case if the provider may bill the request, else nothing.
        """
        budget, usage, cost = self.budget, None, 0.0
        with budget.lock:
            counts = self._counts[booking.purpose]
            if isinstance(usage_or_error, Usage):
                request_state, usage = ANSWERED, usage_or_error
                cost = (self.token_price or FREE).cost_of(usage)
                counts.answered_cost += cost
                counts.tokens_in += usage.tokens_in
                counts.tokens_out += usage.tokens_out
                self._n_settled += 1
                if cost > booking.worst_cost > 0:
                    budget.excess_ratio = max(budget.excess_ratio, cost / booking.worst_cost)
            elif usage_or_error.may_be_billed:
                request_state, cost = LOST, booking.reserved_cost
                counts.lost_cost += cost
            else:
                request_state = REFUSED
            counts.open_calls -= 1
            # With no open call, the open cost is exactly 0: subtracting leaves a rounding error.
            open_cost = counts.open_cost - booking.reserved_cost
            counts.open_cost = open_cost if counts.open_calls else 0.0
            if booking.request_id is not None and budget.store:
                budget.store.record_outcome(booking.request_id, request_state, cost, usage)

    def record_cached(self, key: bytes, completion: Completion) -> None:
        """Copy an answer from the user's reply cache to the run's store."""
        with self.budget.lock:
            self._counts[self.purpose].cached_calls += 1
            if self.budget.store:
                self.budget.store.put(key, completion, self.name, self.purpose)
