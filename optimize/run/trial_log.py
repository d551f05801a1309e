"""What a run leaves as it goes: trials.jsonl, and a line on stderr now and then."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from optimize.run.run_folder import TRIALS, as_json
from optimize.search.problem import Record

SECONDS_BETWEEN_LINES = 10.0


class TrialLog:
    """Writes every trial as it is made; a resumed run makes the same again, so it starts afresh."""

    def __init__(self, folder: Path, print_line: Callable[[str], None]) -> None:
        path = folder / TRIALS
        # In another's folder a link would empty the file it leads to, and a pipe wait for ever.
        path.unlink(missing_ok=True)
        self._file = path.open("x", encoding="utf-8")
        self.print_line = print_line
        self._started_at = self._last_line_at = time.monotonic()
        self._judged = self._failed = self._number = 0
        self._round: int | None = None
        self._leader = 0.0

    def __enter__(self) -> "TrialLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            # What could not be written has been told.
            self._file.close()

    def record(self, trial: Record) -> None:
        self._write(trial)
        self._number += 1
        gain = trial.get("gain")
        if trial["stage"] == "race" and isinstance(gain, float):
            self._leader = max(self._leader, gain)
        number = trial["round"]
        if isinstance(number, int) and number != self._round:
            if self._round is not None:
                self._print_progress(f"round {self._round} ended")
            self._round, self._leader = number, 0.0
        if trial["stage"] in ("dev", "train"):
            self._print_progress(f"{trial['stage']}: {trial['candidate']} gains {gain}")

    def tried_plan(self, candidate: str, fields: Mapping[str, Any]) -> None:
        """A sampling plan tried on the judge that ships, or left out."""
        self._number += 1
        head = {"trial": self._number, "stage": "plan", "round": None, "candidate": candidate}
        self._write({**head, **fields})

    def step(self, failed: bool) -> None:
        """One item judged, or looked up in the journal."""
        self._judged += 1
        self._failed += failed
        if time.monotonic() - self._last_line_at > SECONDS_BETWEEN_LINES:
            self._print_progress(f"round {self._round}" if self._round else "judging")

    def _write(self, trial: Mapping[str, Any]) -> None:
        try:
            self._file.write(as_json(trial) + "\n")
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._file.name) from error

    def _print_progress(self, text: str) -> None:
        self._last_line_at = time.monotonic()
        seconds = self._last_line_at - self._started_at
        failed = f", {self._failed:,} failed" if self._failed else ""
        self.print_line(f"{text}: {self._judged:,} judged{failed}, {seconds:.0f} s")
