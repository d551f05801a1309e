"""Count calls, tokens and dollars as they happen, and keep within a budget.

A request is reserved at its worst (every byte of the prompt a token, every reply `max_tokens` long)
before it is sent and settled at what it took, so no limit is ever passed.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.engine.prices import Price, most_tokens
from judges.models.protocol import Completion, Message, Sampling


class BudgetSpentError(RuntimeError):
    """The budget is used up: the run ends here, and can be resumed with a larger one."""


@dataclass(slots=True)
class Purse:
    """What several ledgers spend from together: one budget for judge and proposer."""

    max_calls: int | None
    max_cost: float | None
    calls: int = 0
    cost: float = 0.0
    reserved: float = 0.0
    in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Ledger:
    """What one model was asked for, within a budget that other models may share.

    `calls` counts requests sent, retries among them. `cost` is in US dollars and None where the
    price is unknown. `cost_unconfirmed` is what requests may have cost whose answer never came; it
    counts against the budget.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        price: Price | None = None,
        *,
        purse: Purse | None = None,
    ) -> None:
        self.purse = purse or Purse(max_calls=max_calls, max_cost=max_cost)
        if self.purse.max_cost is not None and price is None:
            raise ValueError(
                "max_cost needs the model's price, which is unknown; give a price or max_calls"
            )
        self.price = price
        self.calls = 0
        self.tokens_in = 0
        self.tokens_out = 0
        self.cost_unconfirmed = 0.0
        self._cost = 0.0

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self._cost

    def sharing(self, price: Price | None = None) -> "Ledger":
        """Open a second ledger, for another model, that spends from the same budget."""
        return Ledger(price=price, purse=self.purse)

    def reserve(self, messages: Sequence[Message], sampling: Sampling) -> float | None:
        """Set aside the most that one request can cost, in dollars, and count the call.

        None: it does not fit now, but may once requests in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        worst = self._worst(messages, sampling)
        purse = self.purse
        with purse.lock:
            if purse.max_calls is not None and purse.calls >= purse.max_calls:
                raise BudgetSpentError(
                    f"the budget of {purse.max_calls} calls is spent; raise it and resume"
                )
            if purse.max_cost is not None and purse.cost + purse.reserved + worst > purse.max_cost:
                if purse.in_flight:
                    return None
                raise BudgetSpentError(
                    f"${purse.cost:.4f} of the budget of ${purse.max_cost:g} is spent and the next"
                    f" request may cost ${worst:.4f}; raise it and resume"
                )
            purse.calls += 1
            purse.reserved += worst
            purse.in_flight += 1
            self.calls += 1
        return worst

    def settle(self, reserved: float, completion: Completion) -> None:
        """Replace a reservation by what the request took."""
        tokens_in, tokens_out = completion.tokens_in, completion.tokens_out
        cost = self.price.cost(tokens_in, tokens_out) if self.price else 0.0
        with self.purse.lock:
            self._release(reserved, cost)
            self._cost += cost
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out

    def forfeit(self, reserved: float, *, billed: bool) -> None:
        """Close a reservation that brought nothing, at its full worth where it may be billed."""
        with self.purse.lock:
            self._release(reserved, reserved if billed else 0.0)
            self.cost_unconfirmed += reserved if billed else 0.0

    def _release(self, reserved: float, cost: float) -> None:
        purse = self.purse
        purse.cost += cost
        purse.in_flight -= 1
        purse.reserved = purse.reserved - reserved if purse.in_flight else 0.0

    def _worst(self, messages: Sequence[Message], sampling: Sampling) -> float:
        if self.price is None or self.purse.max_cost is None:
            return 0.0
        return self.price.cost(most_tokens(messages), sampling.n * sampling.max_tokens)
