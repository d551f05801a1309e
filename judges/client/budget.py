"""Count the requests, tokens and US dollars of a run, and keep them within the run's budget.

Before a request is sent, its worst-case cost is booked: the cost if every byte of the prompt is a
token and every reply has `max_tokens` tokens. When the request is answered, its real cost replaces
the worst-case cost. Because of these bookings, a run never exceeds its limits. If a request is
never answered, its worst-case cost stays booked. A run's store keeps this cost for later starts.
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
    """The requests, tokens and dollars that a run spent on one purpose, such as "test".

    `cost_usd` includes the worst-case cost of unanswered requests. An unknown cost is None.
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
    """How many requests one model got for one purpose, with their tokens and costs.

    `calls` counts the requests that were sent, including retries; `open_calls` counts the requests
    in flight. `answered_cost` is the real cost of answered requests. `lost_cost` is the worst-case
    cost of unanswered requests, and `open_cost` that of requests in flight.
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
        """The real cost of answered requests plus the worst-case cost of unanswered requests."""
        return self.answered_cost + self.lost_cost

    @property
    def cost_unconfirmed(self) -> float:
        """The worst-case cost of requests that were never answered or are still in flight."""
        return self.lost_cost + self.open_cost

    @property
    def cache_note(self) -> str | None:
        """A line that says how many requests the reply cache answered; None if it answered none."""
        if not self.cached_calls:
            return None
        n_requests = self.cached_calls + self.calls
        return f"reply cache: {self.cached_calls:,} of {n_requests:,} requests answered, for free"

    @classmethod
    def sum(cls, summands: Iterable["Counts"]) -> "Counts":
        """Add several Counts, field by field."""
        all_counts = list(summands)
        return cls(**{name: sum(getattr(c, name) for c in all_counts) for name in cls.__slots__})


class Budget:
    """Limits on the calls and the US dollars of a run. Each of the run's models has an account.

    The limits hold for the sum of all these accounts. Retries count as calls. If the run has a
    `store`, the requests of earlier starts of the run count, too.
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
        self.cost_ratio = 1.0
        # The calls and dollars that `set_aside` keeps for a later step of the run.
        self._calls_set_aside = self._cost_set_aside = 0.0
        # Maps the name of an account to the account's counts, by purpose.
        self.counts: dict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
        for request_total in self.store.totals() if self.store else ():
            counts = self.counts[request_total.role][request_total.purpose]
            if request_total.state == CACHED:
                counts.cached_calls += request_total.n_requests
                continue
            counts.calls += request_total.n_requests
            counts.tokens_in += request_total.tokens_in
            counts.tokens_out += request_total.tokens_out
            if request_total.state == ANSWERED:
                counts.answered_cost += request_total.cost
            else:
                counts.lost_cost += request_total.cost

    def account(self, name: str = "model", token_price: Price | None = None) -> "Account":
        """Return the account `name`; raises OptionError if `max_cost` is set without a price."""
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
        # The lists are copies, since another thread may add an account or a purpose meanwhile.
        return Counts.sum(c for account in [*self.counts.values()] for c in [*account.values()])

    @property
    def calls(self) -> int:
        """The calls so far, over all accounts and purposes."""
        return self.total.calls

    @property
    def spent(self) -> float:
        """The US dollars spent, including the worst-case cost of unanswered requests."""
        return self.total.spent

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Reserve calls and US dollars for a later step, in place of what was reserved before."""
        with self.lock:
            self._calls_set_aside, self._cost_set_aside = calls, cost

    def may_spend(self, cost: float) -> bool:
        """Return whether the limits now allow a request that may cost `cost` US dollars.

        A request that is not allowed now may be allowed later, since requests in flight may cost
        less than their worst case. Raises BudgetSpentError if the request can never be allowed.
        """
        total, calls_set_aside = self.total, round(self._calls_set_aside)
        if calls_set_aside or self._cost_set_aside:
            advice = "; the rest is reserved for later steps of the run"
        elif self.store is None:
            advice = "; each start has the whole limit"
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
    """The requests to one model and their costs, over a run and the run's earlier starts.

    New requests are counted under `purpose`. `token_price` is None if the model's price is unknown.
    """

    def __init__(self, budget: Budget, name: str, token_price: Price | None) -> None:
        self.budget, self.name, self.token_price, self.purpose = budget, name, token_price, ""
        self._counts = budget.counts[name]
        # The number of answered requests. If dollars are limited, at most twice as many may be in
        # flight, since only an answer shows whether the endpoint respects max_tokens.
        self._n_answered = 0

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
        """Reserve the worst-case cost of a request; None if the budget does not allow it yet."""
        budget, purpose = self.budget, self.purpose
        max_tokens_out = sampling.n * sampling.max_tokens
        price = self.token_price or FREE
        worst_cost = price.worst_cost(max_prompt_tokens(messages), max_tokens_out)
        with budget.lock:
            reserved_cost = worst_cost * budget.cost_ratio
            max_open_calls = max(1, 2 * self._n_answered)
            is_cost_limited = worst_cost > 0 and budget.max_cost is not None
            if is_cost_limited and self.total.open_calls >= max_open_calls:
                return None
            if not budget.may_spend(reserved_cost):
                return None
            store, request_id = budget.store, None
            if store and key:
                request_id = store.record_sent(key, self.name, purpose, reserved_cost)
            counts = self._counts[purpose]
            counts.calls += 1
            counts.open_calls += 1
            counts.open_cost += reserved_cost
            return Booking(reserved_cost, worst_cost, purpose, request_id)

    def settle(self, booking: Booking, usage_or_error: Usage | ModelError) -> None:
        """Replace a request's booking by its real tokens and cost, and store its replies.

        A failed request counts at its worst-case cost if the provider may bill it, and else at 0.
        """
        budget, usage, request_cost = self.budget, None, 0.0
        with budget.lock:
            counts = self._counts[booking.purpose]
            if isinstance(usage_or_error, Usage):
                request_state, usage = ANSWERED, usage_or_error
                request_cost = (self.token_price or FREE).cost_of(usage)
                counts.answered_cost += request_cost
                counts.tokens_in += usage.tokens_in
                counts.tokens_out += usage.tokens_out
                self._n_answered += 1
                if request_cost > booking.worst_cost > 0:
                    budget.cost_ratio = max(budget.cost_ratio, request_cost / booking.worst_cost)
            elif usage_or_error.may_be_billed:
                request_state, request_cost = LOST, booking.reserved_cost
                counts.lost_cost += request_cost
            else:
                request_state = REFUSED
            counts.open_calls -= 1
            # Without open calls, `open_cost` is exactly 0. Subtraction leaves a rounding error.
            open_cost = counts.open_cost - booking.reserved_cost
            counts.open_cost = open_cost if counts.open_calls else 0.0
            if booking.request_id is not None and budget.store:
                budget.store.record_outcome(booking.request_id, request_state, request_cost, usage)

    def record_cached(self, key: bytes, completion: Completion) -> None:
        """Copy an answer from the user's reply cache to the run's store."""
        with self.budget.lock:
            self._counts[self.purpose].cached_calls += 1
            if self.budget.store:
                self.budget.store.put(key, completion, self.name, self.purpose)
