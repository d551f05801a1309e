"""Count calls, tokens and dollars as they happen, and keep within a budget.

A request is reserved at its worst (every byte of the prompt a token, every reply `max_tokens` long)
before it is sent and settled at what it took, so no limit is ever passed. One whose answer never
came stays at its worst until others tell what is likely (LOST_FACTOR). Each request is counted
under the purpose that its account has when it is reserved. A budget with a file counts on where a
killed or interrupted run stopped.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Struct

from dspy_judges.errors import JudgesError, OptionError
from judges.client.prices import Price, token_bound
from judges.client.protocol import Completion, Message, Sampling, Usage

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# Between an account's name and a purpose, in the budget's file.
SEPARATOR = "\t"
# So many requests tell by how much retries and fresh asks exceed what was planned.
ENOUGH_FOR_OVERHEAD = 50
BLOCK = 512
# Once so many answers tell what requests take, one whose answer never came is booked at so many
# times as much: at its worst it would take from a resumed run what nobody has been billed.
ENOUGH_ANSWERS, LOST_FACTOR = 20, 1.5

Count = Annotated[int, Meta(ge=0)]
Dollars = Annotated[float, Meta(ge=0)]


class BudgetSpentError(JudgesError, RuntimeError):
    """The budget is used up: the run ends here, and can be resumed with a larger one."""


class BudgetFileError(JudgesError, ValueError):
    """What a run has spent so far cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent on a purpose ("": on none that is known).

    `cost` is in US dollars, None where the price is unknown.
    """

    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """One request's place in the budget: its worst cost in dollars, and its prompt's characters.

    `excess` is the factor on the worst that was known when it was made; `cost` is with it.
    `purpose` is what the request was made for.
    """

    cost: float = 0.0
    characters: int = 0
    excess: float = 1.0
    purpose: str = ""


class Counts(Struct, forbid_unknown_fields=True):
    """An account's entry in the budget's file, for one purpose.

    `cost` is of the requests whose usage is known, `estimated_cost` of those that were answered
    without it, at most. The `open_` figures are of requests sent and not settled; the `lost_` ones
    of those whose answer never came though it may be billed. Both are costs at worst.
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
        self._counts: dict[str, Counts] = {}  # by account and purpose, as the file has them
        self._file: IO[bytes] | None = None
        if path is not None:
            self._open(path)

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

    def counts(self, name: str, purpose: str = "") -> Counts:
        """The entry of an account for a purpose, made where there is none."""
        key = f"{name}{SEPARATOR}{purpose}" if purpose else name
        return self._counts.setdefault(key, Counts(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    def counts_by_purpose(self, name: str) -> dict[str, Counts]:
        """All entries of an account."""
        return {
            purpose: counts
            for key, counts in list(self._counts.items())
            for account, _, purpose in [key.partition(SEPARATOR)]
            if account == name
        }

    @property
    def calls(self) -> int:
        return sum(counts.calls for counts in list(self._counts.values()))

    @property
    def answered(self) -> int:
        return sum(counts.answered for counts in list(self._counts.values()))

    @property
    def cost(self) -> float:
        """Dollars that are gone, or may be."""
        cost = sum(counts.cost + counts.lost_cost for counts in list(self._counts.values()))
        return cost - sum(account.overbooked for account in list(self.accounts.values()))

    @property
    def reserved(self) -> float:
        return sum(counts.open_cost for counts in list(self._counts.values()))

    @property
    def in_flight(self) -> int:
        return sum(counts.open_calls for counts in list(self._counts.values()))

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
    is known. `cost_unconfirmed` is the most that others may have cost: their answer never came, or
    did not tell; it counts against the budget. `purpose` is what requests are made for from now on.
    """

    def __init__(self, budget: Budget, name: str, price: Price | None) -> None:
        self.budget = budget
        self.name = name
        self.price = price
        self.purpose = ""
        self._counts = budget.counts_by_purpose(name) or {"": budget.counts(name)}
        # Requests closed by this process: with a limit on dollars, no more than twice so many are
        # in flight, since only answers tell what requests really cost here.
        self._closed = 0

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
    def calls(self) -> int:
        """Requests sent, retries among them."""
        return sum(counts.calls for counts in self._entries())

    @property
    def in_flight(self) -> int:
        return sum(counts.open_calls for counts in self._entries())

    @property
    def tokens_in(self) -> int:
        return sum(counts.tokens_in for counts in self._entries())

    @property
    def tokens_out(self) -> int:
        return sum(counts.tokens_out for counts in self._entries())

    @property
    def cost(self) -> float | None:
        return None if self.price is None else sum(counts.cost for counts in self._entries())

    @property
    def cost_unconfirmed(self) -> float:
        return sum(counts.lost_cost for counts in self._entries())

    @property
    def overbooked(self) -> float:
        """By how much lost requests at worst exceed what they are booked at: see LOST_FACTOR."""
        entries = self._entries()
        lost = [counts for counts in entries if counts.lost_cost]
        if not lost or sum(counts.answered for counts in entries) < ENOUGH_ANSWERS:
            return 0.0
        likely = sum((self._likely_cost(counts) or 0.0) - _told_cost(counts) for counts in lost)
        return max(0.0, sum(counts.lost_cost for counts in lost) - LOST_FACTOR * likely)

    @property
    def cost_likely(self) -> float | None:
        """`cost`, what requests without usage may have cost, and those without an answer likely."""
        return None if self.price is None else sum(row.cost or 0.0 for row in self.spending())

    def spending(self) -> list[Spending]:
        """What each purpose has taken; the cost as in `cost_likely`."""
        return [
            Spending(
                purpose=purpose,
                calls=counts.calls,
                tokens_in=counts.tokens_in,
                tokens_out=counts.tokens_out,
                cost=self._likely_cost(counts),
            )
            for purpose, counts in list(self._counts.items())
            if counts.calls
        ]

    def count_recorded(self, calls: int, tokens_in: int, tokens_out: int) -> None:
        """Count what a journal holds of a run whose budget kept no file; the first count stands."""
        counts = self._of("")
        if self.calls:
            return
        counts.calls = counts.answered = calls
        counts.tokens_in, counts.tokens_out = tokens_in, tokens_out
        counts.cost = self.price.cost(tokens_in, tokens_out, calls) if self.price else 0.0

    def recall(self, completion: Completion) -> None:
        """Count under its purpose what the journal answers and was counted under none so far."""
        unknown = self._of("")
        if not self.purpose or not unknown.calls:
            return
        with self.budget.lock:
            counts = self._of(self.purpose)
            tokens_in = min(completion.tokens_in, unknown.tokens_in)
            tokens_out = min(completion.tokens_out, unknown.tokens_out)
            cost = self.price.cost(tokens_in, tokens_out, 1) if self.price else 0.0
            cost = min(cost, unknown.cost)
            for entry, sign in ((counts, 1), (unknown, -1)):
                entry.calls += sign
                entry.answered = max(0, entry.answered + sign)
                entry.tokens_in += sign * tokens_in
                entry.tokens_out += sign * tokens_out
                entry.cost += sign * cost

    def plan(self) -> None:
        """Count a request that was bound to come; those sent beyond them are overhead."""
        self.budget.planned += 1

    def reserve(self, messages: Sequence[Message], sampling: Sampling) -> Reservation | None:
        """Set aside the most that one request can cost, in dollars, and count the call.

        None: it does not fit now, but may once requests in flight are settled. Raises
        BudgetSpentError where it cannot fit any more.
        """
        budget, purpose = self.budget, self.purpose
        characters, cost = sum(len(message["content"]) for message in messages), 0.0
        if self.price is not None and not self.price.is_free:
            cost = self.price.worst(token_bound(messages), sampling.n * sampling.max_tokens)
        with budget.lock:
            budget.check_calls()
            few_answers = self.in_flight >= max(1, 2 * self._closed)
            if budget.max_cost is not None and cost > 0 and few_answers:
                return None
            cost *= budget.excess
            if not budget.fits(cost):
                return None
            counts = self._of(purpose)
            budget.sent += 1
            counts.calls += 1
            counts.open_calls += 1
            counts.open_characters += characters
            counts.open_cost += cost
            budget.write()
            return Reservation(cost, characters, budget.excess, purpose)

    def settle(self, reservation: Reservation, usage: Completion | Usage) -> None:
        """Replace a reservation by what the request took."""
        budget, counts = self.budget, self._of(reservation.purpose)
        cost = self.price.cost_of(usage) if self.price else 0.0
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
        counts = self._of(reservation.purpose)
        with self.budget.lock:
            self._close(reservation)
            if billed:
                counts.lost_calls += 1
                counts.lost_characters += reservation.characters
                counts.lost_cost += reservation.cost
            self.budget.write()

    def _close(self, reservation: Reservation) -> None:
        counts = self._of(reservation.purpose)
        self._closed += 1
        counts.open_calls -= 1
        counts.open_characters -= reservation.characters
        # Sums of floats do not cancel exactly.
        left = max(0.0, counts.open_cost - reservation.cost)
        counts.open_cost = left if counts.open_calls else 0.0

    def _of(self, purpose: str) -> Counts:
        """The entry for a purpose."""
        if purpose not in self._counts:
            self._counts[purpose] = self.budget.counts(self.name, purpose)
        return self._counts[purpose]

    def _entries(self) -> list[Counts]:
        # A copy, since another thread may add an entry.
        return list(self._counts.values())

    def _likely_cost(self, counts: Counts) -> float | None:
        """The cost of an entry, with what its requests have likely cost that no answer came to.

        Those of the account whose usage is known tell how many tokens a prompt's characters and a
        reply take, and by how much their kinds make them cheaper or dearer.
        """
        if self.price is None:
            return None
        entries = self._entries()
        answered = sum(entry.answered for entry in entries)
        characters = sum(entry.characters for entry in entries)
        if not answered or not characters:
            return _told_cost(counts) + counts.lost_cost
        tokens_in = counts.lost_characters * self.tokens_in / characters
        tokens_out = counts.lost_calls * self.tokens_out / answered
        plain = self.price.cost(self.tokens_in, self.tokens_out, answered)
        kinds = sum(map(_told_cost, entries)) / plain if plain else 1.0
        return _told_cost(counts) + kinds * self.price.cost(
            tokens_in, tokens_out, counts.lost_calls
        )


def _told_cost(counts: Counts) -> float:
    """Of the requests that were answered."""
    return counts.cost
