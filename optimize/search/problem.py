"""What a search is given: labels, a model to score candidates with, limits, and a log of trials."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from judges.judgement import NoScoreError
from optimize.items import Items
from optimize.search.candidates import Candidate, Instruction, TextGuard
from optimize.search.evaluator import Evaluator
from optimize.search.objective import Level
from optimize.search.race import RaceResult

# (instruction, mistakes, history best first, round) -> one text for each entry of mistakes; None
# or NoScoreError, which says why, where no reply could be read.
History = Sequence[tuple[str, float]]
Propose = Callable[[str, Sequence[str], History, int], Sequence[str | NoScoreError | None]]
RecordValue = str | int | float | None | list[str]
Record = Mapping[str, RecordValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How wide and how long to search."""

    seed: int = 0
    rounds: int = 8
    proposals: int = 4
    demo_sets: int = 6
    demo_sizes: tuple[int, ...] = (4, 8, 16)
    # Characters of demonstrated texts: every later call pays for them again.
    longest_demos: int = 40_000
    finalists: int = 3
    # Rounds without a new leader before the search ends.
    patience: int = 3


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """Find instructions and demonstrations on `train` that rank `dev` as people do.

    The search spends the evaluator's budget, and `record` receives every trial.
    """

    evaluator: Evaluator
    propose: Propose
    train: Items
    dev: Items
    level: Level
    plan: SearchPlan
    record: Callable[[Record], None] = lambda record: None

    @cached_property
    def seed(self) -> Candidate:
        """The judge as it is before the search."""
        return Candidate(instruction=Instruction(text=self.evaluator.seed.instruction))

    @cached_property
    def labelled(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))

    @cached_property
    def guard(self) -> TextGuard:
        return TextGuard(text for item in self.labelled.items for text in item.texts.values())

    @cached_property
    def trials(self) -> "TrialRecorder":
        return TrialRecorder(self.evaluator, self.record)


class TrialRecorder:
    """Numbers the trials, and says with each how many calls were spent by then."""

    def __init__(self, evaluator: Evaluator, record: Callable[[Record], None]) -> None:
        self._evaluator, self._record, self._number = evaluator, record, 0

    def write(self, stage: str, round_number: int | None, **fields: RecordValue) -> None:
        self._number += 1
        head: dict[str, RecordValue] = {
            "trial": self._number,
            "stage": stage,
            "round": round_number,
        }
        self._record({**head, **fields, "calls": self._evaluator.budget.spent})

    def raced(self, round_number: int, rung: int, result: RaceResult) -> None:
        self.write(
            "race",
            round_number,
            rung=rung,
            **_identity(result.candidate),
            value=_rounded(result.value),
            gain=_rounded(result.gain),
            error=_rounded(result.error),
            n_documents=result.n_documents,
        )

    def optimizer_result(self, candidate: Candidate, value: float) -> None:
        self.write("stock", None, **_identity(candidate), value=_rounded(value))

    def compared(
        self, split: str, candidate: Candidate, value: float, gain: float, n_documents: int
    ) -> None:
        fields = {"value": _rounded(value), "gain": _rounded(gain), "n_documents": n_documents}
        self.write(split, None, **_identity(candidate), **fields)


def _identity(candidate: Candidate) -> dict[str, RecordValue]:
    return {
        "candidate": candidate.id,
        "instruction": candidate.instruction.text,
        "demos": list(candidate.demo_set.ids),
        "how": candidate.demo_set.kind,
    }


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None
