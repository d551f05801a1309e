"""The trials of a search as it makes them, in memory or a file."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from judges.prompt import encodable

Trial = Mapping[str, Any]


def as_json(value: object, indent: int | None = None) -> str:
    """JSON without NaN that UTF-8 can hold: a lone surrogate, as in some file names, is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    if encodable(text) == text:
        return text
    return json.dumps(value, indent=indent, allow_nan=False)


class TrialLog:
    """Numbers the trials; `trials` keeps those of a log without a file.

    `n_failed` counts the judgements that failed. A file is begun anew, since a run that goes on
    makes the same trials again.
    """

    def __init__(
        self, path: Path | None = None, print_line: Callable[[str], None] = lambda text: None
    ) -> None:
        self.trials: list[Trial] = []
        self.print_line = print_line
        self._file = None
        if path is not None:
            # In another's folder a link would empty the file it leads to, a pipe wait for ever.
            path.unlink(missing_ok=True)
            self._file = path.open("x", encoding="utf-8")
        self.n_failed = 0
        # Called for each judgement.
        self.counted: Callable[[], object] = lambda: None
        self._n_trials = 0

    def __enter__(self) -> "TrialLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            with suppress(OSError):
                # What could not be written has been reported.
                self._file.close()

    def write(self, stage: str, round_number: int | None = None, **fields: Any) -> None:
        """Add the next trial; `stage` is where in the search it was made."""
        self._n_trials += 1
        trial = {"trial": self._n_trials, "stage": stage, "round": round_number, **fields}
        if self._file is None:
            self.trials.append(trial)
        else:
            try:
                self._file.write(as_json(trial) + "\n")
                self._file.flush()
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._file.name) from error

    def count_judgement(self, failed: bool) -> None:
        """Count one item judged."""
        self.n_failed += failed
        self.counted()
