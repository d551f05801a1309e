"""Count calls, tokens and dollars as they happen, and keep within a budget.

A request is reserved at its worst (every byte of the prompt a token, every reply `max_tokens` long)
before it is sent and settled at what it took, so no limit is ever passed. A budget with a file
counts on where a killed or interrupted run stopped.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Struct

from judges.errors import JudgesError, OptionError
from judges.models.prices import FREE, Price, token_bound
from judges.protocol import Completion, Message, Sampling, Usage

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# So many requests tell by how much retries and fresh asks exceed what was planned.
ENOUGH_FOR_OVERHEAD = 50
BLOCK = 512

Count = Annotated[int, Meta(ge=0)]
Dollars = Annotated[float, Meta(ge=0)]


class BudgetSpentError(JudgesError, RuntimeError):
    """The budget is used up: the run ends here, and can be resumed with a larger one."""


class BudgetFileError(JudgesError, ValueError):
    """What a run has spent so far cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """One request's place in the budget: its worst cost in dollars, and its prompt's characters.

    `excess` is the factor on the worst that was known when it was made; `cost` is with it.
    """

    cost: float = 0.0
    characters: int = 0
    excess: float = 1.0


class Counts(Struct, forbid_unknown_fields=True):
    """An account's entry in the budget's file.

    `cost` is of the requests whose usage is known. The `open_` figures are of requests sent and not
    settled; the `lost_` ones of those whose answer never came though it may be billed. Both are
    costs at worst.
    """

    calls: Count
    answered: Count
    characters: Count
    tokens_in: Count
    tokens_out: Count
    cost: Dollars
    open_calls: Count
    open_characters: Count
    open_cost: Dollars
    lost_calls: Count
    lost_characters: Count
    lost_cost: Dollars


class Budget:
    """Limits on calls and dollars, which the accounts of several models spend from together.

    `path` keeps the count in a file, rewritten before every request and after every answer; a
    budget opened on it goes on from there. `set_aside` keeps a part of the budget for later.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        path: Path | None = None,
    ) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.path = path
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}
        # Requests sent by this process, and how many of them were bound to come.
        self.sent = 0
        self.planned = 0
        # By how much the dearest request exceeded its worst: some endpoints ignore max_tokens.
        self.excess = 1.0
        self._later_calls = 0.0
        self._later_cost = 0.0
        self._counts: dict[str, Counts] = {}  # by account, as the file has them
        self._file: IO[bytes] | None = None
        if path is not None:
            self._open(path)

    def account(self, name: str = "model", price: Price | None = None) -> "Account":
        """The account of this name, opened where there is none; raises OptionError.

        A limit on dollars needs the price of every model.
        """
        if self.max_cost is not None and price is None:
            raise OptionError(
                "max_cost needs the model's price, which is unknown; give a price or max_calls"
            )
        with self.lock:
            if name not in self.accounts:
                counts = self._counts.setdefault(name, Counts(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
                self.accounts[name] = Account(self, counts, price)
            return self.accounts[name]

    @property
    def calls(self) -> int:
        return sum(counts.calls for counts in self._counts.values())

    @property
    def answered(self) -> int:
        return sum(counts.answered for counts in self._counts.values())

    @property
    def cost(self) -> float:
        """Dollars that are gone, or may be."""
        return sum(counts.cost + counts.lost_cost for counts in self._counts.values())

    @property
    def reserved(self) -> float:
        return sum(counts.open_cost for counts in self._counts.values())

    @property
    def in_flight(self) -> int:
        return sum(counts.open_calls for counts in self._counts.values())

    @property
    def overhead(self) -> float:
        """Requests sent for each one that was planned: retries and fresh asks come on top."""
        if self.planned < ENOUGH_FOR_OVERHEAD:
            return 1.0
        return max(1.0, (self.sent - self.in_flight) / self.planned)

    def set_aside(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep so many planned calls and dollars for what comes after, and nothing more."""
        with self.lock:
            self._later_calls, self._later_cost = calls, cost

    def check_calls(self) -> None:
        """Raise BudgetSpentError where no further call may be made."""
        if self.max_calls is None:
            return
        calls, later = self.calls, round(self._later_calls * self.overhead)
        if calls >= self.max_calls:
            raise BudgetSpentError(
                f"the budget of {self.max_calls} calls is spent; raise it and resume"
            )
        if calls >= self.max_calls - later:
            raise BudgetSpentError(
                f"{calls} of the budget of {self.max_calls} calls are spent and {later} are kept "
                "for what comes after; raise it and resume"
            )

    def fits(self, worst: float) -> bool:
        """Whether so many dollars are left; BudgetSpentError where they will not be later either.

        They may be once requests in flight are settled.
        """
        if self.max_cost is None:
            return True
        later, cost = self._later_cost * self.overhead, self.cost
        if cost + self.reserved + worst <= self.max_cost - later:
            return True
        if self.in_flight:
            return False
        reserve = f", ${later:.4f} are kept for what comes after" if later else ""
        raise BudgetSpentError(
            f"${cost:.4f} of the budget of ${self.max_cost:g} is spent{reserve} and the next"
            f" request may cost ${worst:.4f}; raise it and resume"
        )

    def write(self) -> None:
        """Bring the file, where there is one, to the counts as they are."""
        if self._file is None:
            return
        text = msgspec.json.encode(self._counts)
        # One write of a length that never shrinks: a kill leaves the old count or the new one.
        size = -(-(len(text) + 1) // BLOCK) * BLOCK
        self._file.seek(0)
        self._file.write(text.ljust(size - 1) + b"\n")

    def close(self, *, finished: bool = False) -> None:
        """Close the file; a run that has `finished` needs it no more."""
        with self.lock:
            if self._file is None:
                return
            self._file.close()
            self._file = None
            if finished and self.path is not None:
                self.path.unlink(missing_ok=True)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._file = path.open("r+b", buffering=0)
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise BudgetFileError(
                    f"{path}: another run is spending from this budget; wait for it to end"
                ) from None
        text = self._file.read().strip()
        try:
            self._counts = msgspec.json.decode(text or b"{}", type=dict[str, Counts])
        except (msgspec.DecodeError, ValueError) as error:
            self.close()
            raise BudgetFileError(
                f"{path}: what the run has spent so far cannot be read; remove the file to count "
                "from nothing"
            ) from error
        for counts in self._counts.values():
            # What was under way when the process died may have been billed.
            counts.lost_calls += counts.open_calls
            counts.lost_characters += counts.open_characters
            counts.lost_cost += counts.open_cost
            counts.open_calls, counts.open_characters, counts.open_cost = 0, 0, 0.0


class Account:
    """What one model has taken from a budget since the run began, over all its resumes.

    `cost` is in US dollars and None where the price is unknown; it is of the requests whose usage
    is known. `cost_unconfirmed` is what requests may have cost whose answer never came; it counts
    against the budget.
    """

    def __init__(self, budget: Budget, counts: Counts, price: Price | None) -> None:
        self.budget = budget
        self.price = price
        self._counts = counts
        # Requests closed by this process: with a limit on dollars, no more than twice so many are
        # in flight, since only answers tell what requests really cost here.
        self._closed = 0

    @property
    def calls(self) -> int:
        """Requests sent, retries among them."""
        return self._counts.calls

    @property
    def tokens_in(self) -> int:
        return self._counts.tokens_in

    @property
    def tokens_out(self) -> int:
        return self._counts.tokens_out

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self._counts.cost

    @property
    def cost_unconfirmed(self) -> float:
        return self._counts.lost_cost

    @property
    def cost_likely(self) -> float | None:
        """`cost`, and what requests have likely cost whose answer never came.

        Those whose usage is known tell how many tokens a prompt's characters and a reply take.
        """
        counts, price = self._counts, self.price
        if price is None:
            return None
        if not counts.answered or not counts.characters:
            return counts.cost + counts.lost_cost
        tokens_in = counts.lost_characters * counts.tokens_in / counts.characters
        tokens_out = counts.lost_calls * counts.tokens_out / counts.answered
        return counts.cost + (tokens_in * price.per_token_in + tokens_out * price.per_token_out)

    def count_recorded(self, calls: int, tokens_in: int, tokens_out: int) -> None:
        """Count what a journal holds of a run whose budget kept no file; the first count stands."""
        counts = self._counts
        if counts.calls:
            return
        counts.calls = counts.answered = calls
        counts.tokens_in, counts.tokens_out = tokens_in, tokens_out
        counts.cost = self.price.cost(tokens_in, tokens_out) if self.price else 0.0

    def plan(self) -> None:
        """Count a request that was bound to come; those sent beyond them are overhead."""
        self.budget.planned += 1

    def reserve(self, messages: Sequence[Message], sampling: Sampling) -> Reservation | None:
        """Set aside the most that one request can cost, in dollars, and count the call.

        None: it does not fit now, but may once requests in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        budget, counts = self.budget, self._counts
        characters, cost = sum(len(message["content"]) for message in messages), 0.0
        if self.price is not None and self.price != FREE:
            cost = self.price.cost(token_bound(messages), sampling.n * sampling.max_tokens)
        with budget.lock:
            budget.check_calls()
            few_answers = counts.open_calls >= max(1, 2 * self._closed)
            if budget.max_cost is not None and cost > 0 and few_answers:
                return None
            cost *= budget.excess
            if not budget.fits(cost):
                return None
            budget.sent += 1
            counts.calls += 1
            counts.open_calls += 1
            counts.open_characters += characters
            counts.open_cost += cost
            budget.write()
            return Reservation(cost, characters, budget.excess)

    def settle(self, reservation: Reservation, usage: Completion | Usage) -> None:
        """Replace a reservation by what the request took."""
        budget, counts = self.budget, self._counts
        cost = self.price.cost(usage.tokens_in, usage.tokens_out) if self.price else 0.0
        with budget.lock:
            self._close(reservation)
            counts.answered += 1
            counts.characters += reservation.characters
            counts.tokens_in += usage.tokens_in
            counts.tokens_out += usage.tokens_out
            counts.cost += cost
            if cost > reservation.cost > 0:
                # Of its own reservation: those in flight with it exceed the same worst.
                budget.excess = max(budget.excess, reservation.excess * cost / reservation.cost)
            budget.write()

    def forfeit(self, reservation: Reservation, *, billed: bool) -> None:
        """Close a reservation whose usage nobody told, at its worst where it may be billed."""
        counts = self._counts
        with self.budget.lock:
            self._close(reservation)
            if billed:
                counts.lost_calls += 1
                counts.lost_characters += reservation.characters
                counts.lost_cost += reservation.cost
            self.budget.write()

    def _close(self, reservation: Reservation) -> None:
        counts = self._counts
        self._closed += 1
        counts.open_calls -= 1
        counts.open_characters -= reservation.characters
        # Sums of floats do not cancel exactly.
        left = max(0.0, counts.open_cost - reservation.cost)
        counts.open_cost = left if counts.open_calls else 0.0
