"""Count calls, tokens and dollars as they happen, and keep within a budget.

A request is reserved at its worst (every byte of the prompt a token, every reply `max_tokens` long)
before it is sent and settled at what it took, so no limit is ever passed. A budget with a file
counts on where a killed or interrupted run stopped.
"""

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from judges.errors import JudgesError, OptionError
from judges.models.prices import FREE, Price, most_tokens
from judges.protocol import Completion, Message, Sampling, Usage

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# So many requests tell by how much retries and fresh asks exceed what was planned.
ENOUGH_FOR_OVERHEAD = 50
BLOCK = 512


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


@dataclass(slots=True)
class Account:
    """What one model has taken since the run began, over all its resumes.

    `cost` is of the requests whose usage is known. The `open_` figures are of requests sent and not
    settled; the `lost_` ones of those whose answer never came though it may be billed. Both are
    costs at worst.
    """

    name: str
    calls: int = 0
    answered: int = 0
    characters: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    open_calls: int = 0
    open_characters: int = 0
    open_cost: float = 0.0
    lost_calls: int = 0
    lost_characters: int = 0
    lost_cost: float = 0.0

    def send(self, reservation: Reservation) -> None:
        self.calls += 1
        self.open_calls += 1
        self.open_characters += reservation.characters
        self.open_cost += reservation.cost

    def close(self, reservation: Reservation) -> None:
        self.open_calls -= 1
        self.open_characters -= reservation.characters
        # Sums of floats do not cancel exactly.
        self.open_cost = self.open_cost - reservation.cost if self.open_calls else 0.0

    def lose(self, reservation: Reservation) -> None:
        self.lost_calls += 1
        self.lost_characters += reservation.characters
        self.lost_cost += reservation.cost

    def lose_open(self) -> None:
        """Count what was under way when the process died as lost: it may have been billed."""
        self.lost_calls += self.open_calls
        self.lost_characters += self.open_characters
        self.lost_cost += self.open_cost
        self.open_calls, self.open_characters, self.open_cost = 0, 0, 0.0

    def likely_lost(self, price: Price) -> float:
        """What the lost requests have likely cost, told by those whose usage is known."""
        if not self.answered or not self.characters:
            return self.lost_cost
        tokens_in = self.lost_characters * self.tokens_in / self.characters
        tokens_out = self.lost_calls * self.tokens_out / self.answered
        return tokens_in * price.per_token_in + tokens_out * price.per_token_out


COUNTS = tuple(field.name for field in fields(Account) if field.name != "name")
_counts_of = attrgetter(*COUNTS)
_RECORD = ": {" + ", ".join(f'"{name}": %r' for name in COUNTS) + "}"


def _record(account: Account) -> str:
    """An account's entry in the file."""
    return json.dumps(account.name) + _RECORD % _counts_of(account)


def _account(name: str, record: dict[str, Any]) -> Account:
    """An account as written; raises ValueError where it holds no counts."""
    for count in COUNTS:
        value = record.get(count)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise ValueError(f"{count} is {value!r}")
    return Account(name, **record)


class SharedBudget:
    """What several ledgers spend from together: one budget for judge and proposer.

    `path` keeps the count in a file, rewritten before every request and after every answer; a
    budget opened on it goes on from there. `hold` keeps a part of the budget for later.
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
        self.sent = 0
        self.planned = 0
        self._held_calls = 0.0
        self._held_cost = 0.0
        # By how much the dearest request exceeded its worst: some endpoints ignore max_tokens.
        self._excess = 1.0
        # Requests closed by account: with a limit on dollars, no more than twice so many are in
        # flight, since only answers tell what requests really cost here.
        self._closed: dict[int, int] = {}
        self._records: dict[str, str] = {}  # each account as the file has it
        self._file = -1
        if path is not None:
            self._open(path)

    @classmethod
    def spent_anything(cls, path: Path) -> bool:
        """Whether a budget's file tells of an answer."""
        budget = cls(path=path)
        budget.close()
        return any(account.answered for account in budget.accounts.values())

    def account(self, name: str) -> Account:
        """What goes by this name; opened where there is none."""
        with self.lock:
            return self.accounts.setdefault(name, Account(name))

    @property
    def calls(self) -> int:
        return sum(account.calls for account in self.accounts.values())

    @property
    def cost(self) -> float:
        """Dollars that are gone, or may be."""
        return sum(account.cost + account.lost_cost for account in self.accounts.values())

    @property
    def reserved(self) -> float:
        return sum(account.open_cost for account in self.accounts.values())

    @property
    def in_flight(self) -> int:
        return sum(account.open_calls for account in self.accounts.values())

    @property
    def overhead(self) -> float:
        """Requests sent for each one that was planned: retries and fresh asks come on top."""
        if self.planned < ENOUGH_FOR_OVERHEAD:
            return 1.0
        return max(1.0, (self.sent - self.in_flight) / self.planned)

    def hold(self, calls: float = 0.0, cost: float = 0.0) -> None:
        """Keep so many planned calls and dollars for what comes after, and nothing more."""
        with self.lock:
            self._held_calls, self._held_cost = calls, cost

    def reserve(self, account: Account, worst: Reservation) -> Reservation | None:
        """Set the worst aside and count the call; None: not now. Raises BudgetSpentError."""
        with self.lock:
            self._check_calls()
            if self.max_cost is not None and worst.cost > 0:
                closed = self._closed.get(id(account), 0)
                if account.open_calls >= max(1, 2 * closed):
                    return None
            if self._excess > 1.0:
                worst = Reservation(worst.cost * self._excess, worst.characters, self._excess)
            if not self._fits(worst.cost):
                return None
            self.sent += 1
            account.send(worst)
            self._write(account)
        return worst

    def settle(
        self,
        account: Account,
        reservation: Reservation,
        usage: Completion | Usage,
        price: Price | None,
    ) -> None:
        """Replace a reservation by what the request took."""
        cost = price.cost(usage.tokens_in, usage.tokens_out) if price else 0.0
        with self.lock:
            self._close(account, reservation)
            account.answered += 1
            account.characters += reservation.characters
            account.tokens_in += usage.tokens_in
            account.tokens_out += usage.tokens_out
            account.cost += cost
            if cost > reservation.cost > 0:
                # Of its own reservation: those in flight with it exceed the same worst.
                self._excess = max(self._excess, reservation.excess * cost / reservation.cost)
            self._write(account)

    def forfeit(self, account: Account, reservation: Reservation, *, billed: bool) -> None:
        """Close a reservation whose usage nobody told, at its worst where it may be billed."""
        with self.lock:
            self._close(account, reservation)
            if billed:
                account.lose(reservation)
            self._write(account)

    def _close(self, account: Account, reservation: Reservation) -> None:
        account.close(reservation)
        self._closed[id(account)] = self._closed.get(id(account), 0) + 1

    def close(self, *, finished: bool = False) -> None:
        """Close the file; a run that has `finished` needs it no more."""
        with self.lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
                if finished and self.path is not None:
                    self.path.unlink(missing_ok=True)

    def _check_calls(self) -> None:
        if self.max_calls is None:
            return
        calls, held = self.calls, round(self._held_calls * self.overhead)
        if calls >= self.max_calls:
            raise BudgetSpentError(
                f"the budget of {self.max_calls} calls is spent; raise it and resume"
            )
        if calls >= self.max_calls - held:
            raise BudgetSpentError(
                f"{calls} of the budget of {self.max_calls} calls are spent and {held} are kept for"
                " what comes after; raise it and resume"
            )

    def _fits(self, worst: float) -> bool:
        if self.max_cost is None:
            return True
        held = self._held_cost * self.overhead
        spent = self.cost
        if spent + self.reserved + worst <= self.max_cost - held:
            return True
        if self.in_flight:
            return False
        kept = f", ${held:.4f} are kept for what comes after" if held else ""
        raise BudgetSpentError(
            f"${spent:.4f} of the budget of ${self.max_cost:g} is spent{kept} and the next"
            f" request may cost ${worst:.4f}; raise it and resume"
        )

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                self._file = -1
                raise BudgetFileError(
                    f"{path}: another run is spending from this budget; wait for it to end"
                ) from None
        text = path.read_text(encoding="utf-8").strip()
        if not text:
            return
        try:
            self.accounts = {name: _account(name, r) for name, r in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as error:
            os.close(self._file)
            self._file = -1
            raise BudgetFileError(
                f"{path}: what the run has spent so far cannot be read; remove the file to count "
                "from nothing"
            ) from error
        for account in self.accounts.values():
            account.lose_open()
            self._records[account.name] = _record(account)

    def _write(self, account: Account) -> None:
        if self._file < 0:
            return
        self._records[account.name] = _record(account)
        text = "{" + ", ".join(self._records.values()) + "}"
        # One write of a length that never shrinks: a kill leaves the old count or the new one.
        size = -(-(len(text) + 1) // BLOCK) * BLOCK
        data = (text.ljust(size - 1) + "\n").encode()
        if hasattr(os, "pwrite"):
            os.pwrite(self._file, data, 0)
        else:  # pragma: no cover - Windows
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, data)


class Ledger:
    """What one model was asked for, within a budget that other models may share.

    `calls` counts requests sent, retries among them. `cost` is in US dollars and None where the
    price is unknown; it is of the requests whose usage is known. `cost_unconfirmed` is what
    requests may have cost whose answer never came; it counts against the budget.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        price: Price | None = None,
        *,
        budget: SharedBudget | None = None,
        name: str = "model",
    ) -> None:
        self.budget = budget or SharedBudget(max_calls=max_calls, max_cost=max_cost)
        if self.budget.max_cost is not None and price is None:
            raise OptionError(
                "max_cost needs the model's price, which is unknown; give a price or max_calls"
            )
        self.price = price
        self._account = self.budget.account(name)

    @property
    def calls(self) -> int:
        return self._account.calls

    @property
    def tokens_in(self) -> int:
        return self._account.tokens_in

    @property
    def tokens_out(self) -> int:
        return self._account.tokens_out

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self._account.cost

    @property
    def cost_unconfirmed(self) -> float:
        return self._account.lost_cost

    @property
    def cost_likely(self) -> float | None:
        """`cost`, and what requests have likely cost whose answer never came."""
        if self.price is None:
            return None
        return self._account.cost + self._account.likely_lost(self.price)

    def go_on(self, calls: int, tokens_in: int, tokens_out: int) -> None:
        """Count what a journal holds of a run whose budget kept no file; the first count stands."""
        account = self._account
        if account.calls:
            return
        account.calls = account.answered = calls
        account.tokens_in, account.tokens_out = tokens_in, tokens_out
        account.cost = self.price.cost(tokens_in, tokens_out) if self.price else 0.0

    def plan(self, requests: int = 1) -> None:
        """Count requests that were bound to come; those sent beyond them are overhead."""
        self.budget.planned += requests

    def reserve(self, messages: Sequence[Message], sampling: Sampling) -> Reservation | None:
        """Set aside the most that one request can cost, in dollars, and count the call.

        None: it does not fit now, but may once requests in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        return self.budget.reserve(self._account, self._worst(messages, sampling))

    def settle(self, reservation: Reservation, usage: Completion | Usage) -> None:
        """Replace a reservation by what the request took."""
        self.budget.settle(self._account, reservation, usage, self.price)

    def forfeit(self, reservation: Reservation, *, billed: bool) -> None:
        """Close a reservation whose usage nobody told, at its worst where it may be billed."""
        self.budget.forfeit(self._account, reservation, billed=billed)

    def _worst(self, messages: Sequence[Message], sampling: Sampling) -> Reservation:
        characters = sum(len(message["content"]) for message in messages)
        if self.price is None or self.price == FREE:
            return Reservation(characters=characters)
        tokens_out = sampling.n * sampling.max_tokens
        return Reservation(self.price.cost(most_tokens(messages), tokens_out), characters)
