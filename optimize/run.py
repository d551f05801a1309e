"""Tune a judge from Python: one function, which does what the command does."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from judges.client import open_lm
from judges.client.dspy import configured_lm
from judges.dimension import Comparison, Dimension
from judges.judge import Judge
from judges.loading import load
from judges.protocol import Model
from judges.tables.formats import read_records
from judges.tables.in_memory import Rows
from judges.terminal import print_error
from optimize.inputs.flags import RISK
from optimize.inputs.labelled import find_subject
from optimize.measuring.tuning_result import TuningResult
from optimize.report.tuning import run_lines
from optimize.search.optimizer import Optimizer, optimizer_name
from optimize.statistics.correlations import Level
from optimize.tuning.folder import JUDGEMENTS, REPORT, TRIALS
from optimize.tuning.pipeline import tune_in_folder
from optimize.tuning.settings import Objective, Ship, read_settings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """A finished run: its folder, and what it ended with; print it for the scorecard."""

    folder: Path
    result: TuningResult

    @property
    def summary(self) -> dict[str, Any]:
        """What its summary.json holds."""
        return self.result.to_json()

    @property
    def judge(self) -> Judge:
        """The frozen judge that ships: the tuned one, or the untuned one."""
        judge = load(self.folder)
        assert isinstance(judge, Judge)  # a panel is never tuned
        return judge

    @property
    def report(self) -> Path:
        """The page that shows how it got there."""
        return self.folder / REPORT

    @property
    def judgements(self) -> "pd.DataFrame":
        """Both judges' scores of the test outputs beside people's, a row each (see `split`)."""
        return self._rows(JUDGEMENTS)

    @property
    def trials(self) -> "pd.DataFrame":
        """What the search tried, in its order, a row each: candidate, stage, value, gain ..."""
        return self._rows(TRIALS)

    def _rows(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame([row for _, row in read_records(self.folder / name)])

    def __repr__(self) -> str:
        return "\n".join(run_lines(self.result, str(self.folder)))


def tune(
    dimension: str | Dimension | Comparison,
    data: str | os.PathLike[str] | Rows | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    map: Mapping[str, str | Sequence[str]] | None = None,
    values: Mapping[str, float | str | None] | None = None,
    annotations: str | os.PathLike[str] | None = None,
    scale: str | tuple[float, float] | None = None,
    lm: str | None = None,
    proposer_lm: str | None = None,
    api_base: str | None = None,
    proposer_api_base: str | None = None,
    api_key_env: str | None = None,
    proposer_api_key_env: str | None = None,
    price: str | tuple[float, float] | None = None,
    proposer_price: str | tuple[float, float] | None = None,
    max_tokens: int | None = None,
    proposer_max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    proposer_reasoning_effort: str | None = None,
    plan: Literal["one", "mean", "weighted"] | None = None,
    samples: int | None = None,
    temperature: float | None = None,
    reasoning: Literal["none", "brief", "steps", "auto"] = "auto",
    concurrency: int = 64,
    cache: str | os.PathLike[str] | None = None,
    optimizer: str | Optimizer = "rank",
    objective: Objective | Literal["auto"] = "auto",
    level: Level | Literal["auto"] = "auto",
    max_demos: int | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    risk: float = RISK,
    ship: Ship = "better",
    probes: bool = False,
    seed: int = 0,
    verbose: bool = False,
) -> Run:
    """Tune a judge against human labels, and measure it on labels it never saw.

    `dimension` is a catalogue name, FILE.yaml, a definition itself, "NAME=what it means" of labels
    so called, or of labels with two values the name alone; a comparison is tuned on pairs. `data`
    holds labels: a file's path, a DataFrame, a Dataset or a list of dicts, which the run's folder
    then keeps; without it, the starter set. `map` goes from our names to its columns, and the
    others are the command's flags by name: lm, level, max_cost and seed are the usual ones.
    `scale` is "0-100", a pair of numbers, or "any"; a price is dollars for a million tokens read
    and written. `risk` is the chance that a tuned judge ships which is no better, and `ship`
    "tuned" ships it in any case.
    Without `lm`, the LM that DSPy is configured with, else the embedded model. Progress goes to
    stderr unless `quiet`. The same call again goes on with a run that was stopped.
    Raises what the command tells in one line: SettingsError, LabelError, DimensionError ...
    """
    # First of all, while there are no other names here than the keywords.
    given = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
    if not isinstance(dimension, str | Dimension | Comparison):
        raise TypeError(
            f"tune() takes a catalogue name, FILE.yaml, a Dimension or a Comparison, not "
            f"{dimension!r}"
        )
    subject = find_subject(dimension) if isinstance(dimension, str) else dimension
    kind = "pairwise" if isinstance(subject, Comparison) else "dimension"
    given["optimizer"] = optimizer_name(optimizer)
    given[kind] = dimension if isinstance(dimension, str) else dimension.name
    rows = None if isinstance(data, str | os.PathLike) else data
    opened: dict[str, Model] = {}
    configured = configured_lm()
    if configured is not None and lm is None and api_base is None:
        model, base = open_lm(configured)
        opened[model.name] = model
        given |= {"lm": model.name, "api_base": base}
    folder, result = tune_in_folder(
        read_settings(given | ({"data": data} if rows is None else {})),
        out,
        print_line=(lambda text: None) if quiet else print_error,
        subject=None if isinstance(dimension, str) else dimension,
        rows=rows,
        opened=opened,
        stderr=None if quiet else sys.stderr,
    )
    return Run(folder=folder, result=result)


_NO_SETTINGS = frozenset({"dimension", "data", "out", "quiet"})
