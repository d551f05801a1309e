"""The record of a search: every trial, numbered, as it happens."""

from collections.abc import Callable, Mapping

import numpy as np

from optimize.search.bench import Bench
from optimize.search.candidates import Candidate
from optimize.search.race import Standing

Told = str | int | float | None | list[str]
Record = Mapping[str, Told]


class Trials:
    """Numbers the trials, and says with each how many calls were spent by then."""

    def __init__(self, bench: Bench, record: Callable[[Record], None]) -> None:
        self._bench, self._record, self._number = bench, record, 0

    def write(self, stage: str, round_number: int | None, **told: Told) -> None:
        self._number += 1
        head: dict[str, Told] = {"trial": self._number, "stage": stage, "round": round_number}
        self._record({**head, **told, "calls": self._bench.budget.spent})

    def raced(self, round_number: int, rung: int, one: Standing) -> None:
        self.write(
            "race",
            round_number,
            rung=rung,
            **_identity(one.candidate),
            value=_rounded(one.value),
            gain=_rounded(one.gain),
            error=_rounded(one.error),
            n_documents=one.n_documents,
        )

    def stock(self, one: Candidate, value: float) -> None:
        self.write("stock", None, **_identity(one), value=_rounded(value))

    def compared(
        self, split: str, one: Candidate, value: float, gain: float, n_documents: int
    ) -> None:
        told = {"value": _rounded(value), "gain": _rounded(gain), "n_documents": n_documents}
        self.write(split, None, **_identity(one), **told)


def _identity(one: Candidate) -> dict[str, Told]:
    return {
        "candidate": one.id,
        "instruction": one.instruction.text,
        "demos": list(one.shown.ids),
        "how": one.shown.how,
    }


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None
