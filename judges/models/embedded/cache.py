"""Keep what was computed lately, within a bound on its weight, so that long runs do not grow."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """The lately used results of `make`, at most `most` in total weight."""

    def __init__(
        self,
        make: Callable[[Key], Value],
        most: int,
        weigh: Callable[[Key], int] = lambda _: 1,
    ) -> None:
        self._make = make
        self._most = most
        self._weigh = weigh
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0

    def __call__(self, key: Key) -> Value:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
        # Two threads may make the same value; they make it equal.
        value, weight = self._make(key), self._weigh(key)
        with self._lock:
            if weight <= self._most and key not in self._kept:
                self._kept[key] = value, weight
                self.weight += weight
            while self.weight > self._most:
                _, (_, freed) = self._kept.popitem(last=False)
                self.weight -= freed
        return value

    def __len__(self) -> int:
        return len(self._kept)
