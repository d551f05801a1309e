"""The same value for two judges (untuned and tuned), or for each split that was held out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

# The names in JSON of the untuned judge ("seed") and the tuned judge.
JudgeName = Literal["seed", "tuned"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge(Generic[T]):
    """A pair of values, for the untuned judge and for the tuned judge."""

    untuned: T = field(metadata={"json": "seed_judge"})
    tuned: T = field(metadata={"json": "tuned_judge"})

    def for_judge(self, judge: JudgeName) -> T:
        return self.tuned if judge == "tuned" else self.untuned

    def map(self, function: Callable[[T], U]) -> "ByJudge[U]":
        return ByJudge(untuned=function(self.untuned), tuned=function(self.tuned))


@dataclass(frozen=True, slots=True)
class HeldOut(Generic[T]):
    """A value for each held-out split: `test`, and `unseen` for systems that tuning did not see."""

    test: T
    unseen: T | None = field(default=None, metadata={"json": "test_unseen_systems"})

    @property
    def by_name(self) -> dict[str, T]:
        """The value of each split, by the split's name in files."""
        split_by_name = {"test": self.test, "test_unseen_systems": self.unseen}
        return {name: split for name, split in split_by_name.items() if split is not None}

    def map(self, function: Callable[[T], U]) -> "HeldOut[U]":
        return HeldOut(*map(function, self.by_name.values()))
