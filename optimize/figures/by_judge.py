"""Two values side by side: of the untuned and the tuned judge, or of two held-out splits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

JudgeName = Literal["untuned", "tuned"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge(Generic[T]):
    """The same quantity for the untuned judge and for the tuned judge."""

    untuned: T = field(metadata={"json": "seed_judge"})
    tuned: T = field(metadata={"json": "tuned_judge"})

    def for_judge(self, judge: JudgeName) -> T:
        return self.tuned if judge == "tuned" else self.untuned

    def map(self, function: Callable[[T], U]) -> "ByJudge[U]":
        return ByJudge(untuned=function(self.untuned), tuned=function(self.tuned))


@dataclass(frozen=True, slots=True)
class HeldOut(Generic[T]):
    """A value for the test split, and one for the outputs of systems that tuning did not see."""

    test: T
    unseen: T | None = field(default=None, metadata={"json": "test_unseen_systems"})

    @property
    def by_name(self) -> dict[str, T]:
        """The values that are not None, by the name of the split in files."""
        value_by_name = {"test": self.test, "test_unseen_systems": self.unseen}
        return {name: value for name, value in value_by_name.items() if value is not None}

    def map(self, function: Callable[[T], U]) -> "HeldOut[U]":
        unseen = None if self.unseen is None else function(self.unseen)
        return HeldOut(function(self.test), unseen)
