"""Count calls, tokens and dollars, and keep them within limits.

Before a request is sent, it is booked at its worst-case cost: every byte of the prompt is a token,
and every reply has `max_tokens` tokens. When its answer has come, it is settled at its real cost.
So no limit is ever exceeded. A request whose answer never came stays booked at its worst-case cost;
if the run has a store, also in every later start of the run.
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
    """The budget is spent. The run ends; it can be continued with a larger budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The requests and tokens for one purpose.

    `cost_usd` counts unanswered requests at their worst-case cost; None if the price is unknown.
    """

    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Booking:
    """The booking of one request, before it is sent.

    `cost` is the amount in US dollars that is reserved for it. `worst_cost` is the most that it can
    cost if the endpoint respects max_tokens. `number` is the request's number in the store.
    """

    cost: float
    worst_cost: float
    purpose: str
    number: int | None


@dataclass(slots=True)
class Counts:
    """The counts of an account's requests for one purpose, retries included.

    `cached` counts the requests that were answered from the cache and not sent. `lost_cost` is the
    worst-case cost of requests that got no answer, and `open_cost` that of requests in flight.
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
        counts = list(entries)  # a copy, since another thread may add an entry
        return cls(**{name: sum(getattr(c, name) for c in counts) for name in cls.__slots__})


@dataclass(eq=False, repr=False)
class Budget:
    """Limits on calls and on US dollars for all accounts of a run together.

    Retries count as calls, and dollars are counted at the worst case. Requests in the run's `store`
    count as well; without a store, every start of the run has the whole limits again.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}
        # The largest ratio of a real cost to the worst-case cost: some endpoints ignore max_tokens.
        self.excess_ratio = 1.0
        # What `set_aside` keeps for later.
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
        """The account with this name; it is opened if it does not exist.

        Raises OptionError if dollars are limited and the model's price is unknown.
        """
        if self.max_cost is not None and price is None:
            raise OptionError(
                "max_cost needs the model's price, which is unknown: give the price (--price "
                "IN,OUT), or limit calls by max_calls (--max-calls) instead"
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
        """US dollars spent, with unanswered requests at their worst-case cost."""
        roles = [*self.counts.values()]  # copies, since another thread may add entries
        return sum(c.cost + c.lost_cost for counts in roles for c in [*counts.values()])

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep these calls and dollars for a later step; replaces what was set aside before."""
        with self.lock:
            self._later_calls, self._later_cost = calls, cost

    def fits(self, cost: float) -> bool:
        """Whether a request that may cost so many US dollars fits into the limits now.

        False means that it may fit when requests in flight are settled. Raises BudgetSpentError if
        it cannot fit any more.
        """
        advice = "the same command with a larger one goes on"
        if self.store is None:
            advice = "the limit holds for one start: the same command has the whole limit again"
        if self.max_calls is not None:
            calls, later = self.calls, round(self._later_calls)
            if calls >= self.max_calls:
                raise BudgetSpentError(f"the budget of {self.max_calls} calls is spent; {advice}")
            if calls >= self.max_calls - later:
                raise BudgetSpentError(
                    f"{calls} of the budget of {self.max_calls} calls are spent and {later} are "
                    f"kept for what comes after; {advice}"
                )
        if self.max_cost is None:
            return True
        later_cost, total = self._later_cost, self.total
        spent = total.cost + total.lost_cost
        if spent + total.open_cost + cost <= self.max_cost - later_cost:
            return True
        if total.open_calls:
            return False
        if self.max_cost == 0:
            raise BudgetSpentError(
                "with a limit of $0 nothing may be spent: only free models, recorded replies and "
                "replies in the cache are used"
            )
        later_part = f", ${later_cost:.4f} are kept for what comes after" if later_cost else ""
        raise BudgetSpentError(
            f"${spent:.4f} of the budget of ${self.max_cost:g} is spent{later_part} and the next "
            f"request may cost ${cost:.4f}; {advice}"
        )


@dataclass(eq=False, repr=False)
class Account:
    """The part of a budget that one model uses, over all starts of a run.

    `price` is None if it is unknown. New requests are counted under `purpose`.
    """

    budget: Budget
    name: str
    price: Price | None
    purpose: str = ""

    def __post_init__(self) -> None:
        # The price if it is known and above 0.
        self._charge = None if self.price is None or self.price.is_free else self.price
        self._counts = self.budget.counts[self.name]
        # Requests that this process has settled. If dollars are limited, at most twice as many are
        # in flight, since only answers show whether the endpoint respects max_tokens.
        self._n_settled = 0

    @contextmanager
    def spending_on(self, purpose: str) -> Iterator[None]:
        """Count the requests within this context under a purpose, unless one is set already.

        Requests that are in flight keep their purpose.
        """
        earlier_purpose = self.purpose
        self.purpose = earlier_purpose or purpose
        try:
            yield
        finally:
            self.purpose = earlier_purpose

    @property
    def total(self) -> Counts:
        """The sum over all purposes."""
        return Counts.sum(self._counts.values())

    @property
    def cost(self) -> float | None:
        """US dollars of all settled requests; None if the price is unknown."""
        return None if self.price is None else self.total.cost

    @property
    def cost_unconfirmed(self) -> float:
        """The worst-case cost in US dollars of requests whose answer never came or is still due."""
        total = self.total
        return total.lost_cost + total.open_cost

    def spending(self) -> list[Spending]:
        """The requests, tokens and dollars for each purpose; "unknown" is that of no name."""
        return [
            Spending(
                purpose=purpose or "unknown",
                calls=counts.calls,
                tokens_in=counts.tokens_in,
                tokens_out=counts.tokens_out,
                cost_usd=None if self.price is None else round(counts.cost + counts.lost_cost, 6),
            )
            for purpose, counts in list(self._counts.items())
            if counts.calls
        ]

    def book(self, key: bytes, messages: Sequence[Message], sampling: Sampling) -> Booking | None:
        """Reserve the most that one request can cost, and count the call.

        Returns None if the request may fit when others in flight are settled. Raises
        BudgetSpentError if it cannot fit any more.
        """
        budget, purpose, worst_cost = self.budget, self.purpose, 0.0
        if self._charge is not None:
            max_tokens_out = sampling.n * sampling.max_tokens
            worst_cost = self._charge.worst_cost(token_bound(messages), max_tokens_out)
        with budget.lock:
            cost = worst_cost * budget.excess_ratio
            has_few_answers = budget.max_cost and self.total.open_calls >= max(
                1, 2 * self._n_settled
            )
            if worst_cost and has_few_answers:
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
            return Booking(cost, worst_cost, purpose, number)

    def settle(self, booking: Booking, outcome: Completion | Usage | ModelError) -> None:
        """Replace a booking by the request's real tokens and cost, and store its replies.

        If the outcome is an error that does not report its tokens, the booking is released.
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
            if cost > booking.worst_cost > 0:
                ratio = cost / booking.worst_cost
                self.budget.excess_ratio = max(self.budget.excess_ratio, ratio)

    def release(self, booking: Booking, *, billed: bool) -> None:
        """Close the booking of an unanswered request; its cost still counts if `billed` is true."""
        with self.budget.lock:
            cost = booking.cost if billed else 0.0
            self._counts[booking.purpose].lost_cost += cost
            self._close(booking, LOST if billed else REFUSED, cost, None)

    def record_cached(self, key: bytes, completion: Completion) -> None:
        """Copy an answer from the user's reply cache to the run's store."""
        with self.budget.lock:
            self._counts[self.purpose].cached += 1
            if self.budget.store:
                self.budget.store.put(key, completion, self.name, self.purpose)

    def _close(
        self, booking: Booking, state: str, cost: float, usage: Completion | Usage | None
    ) -> None:
        counts = self._counts[booking.purpose]
        counts.open_calls -= 1
        # With no open calls it is exactly 0, in spite of rounding errors.
        counts.open_cost = counts.open_cost - booking.cost if counts.open_calls else 0.0
        if booking.number is not None and self.budget.store:
            self.budget.store.settle(booking.number, state, cost, usage)
