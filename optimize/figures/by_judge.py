"""A pair of values, for the untuned judge and for the tuned judge."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from optimize.figures.as_json import JsonObject, to_json

# The names in JSON of the untuned judge ("seed") and the tuned judge.
JudgeName = Literal["seed", "tuned"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge(Generic[T]):
    """A pair of values, for the untuned judge and for the tuned judge."""

    untuned: T
    tuned: T

    def __iter__(self) -> Iterator[T]:
        return iter((self.untuned, self.tuned))

    def of(self, judge: JudgeName) -> T:
        return self.tuned if judge == "tuned" else self.untuned

    def map(self, function: Callable[[T], U]) -> "ByJudge[U]":
        return ByJudge(untuned=function(self.untuned), tuned=function(self.tuned))

    def to_json(self) -> JsonObject:
        return {"seed_judge": to_json(self.untuned), "tuned_judge": to_json(self.tuned)}
