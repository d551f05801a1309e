"""Tune a judge from Python: `tune()` does what the command `dspy-judges tune` does."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from judges.client import open_lm
from judges.client.dspy import configured_lm
from judges.dimension import Comparison, Dimension
from judges.judge import Judge
from judges.loading import load
from judges.protocol import Model
from judges.tables.formats import read_records
from judges.tables.in_memory import Rows
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject
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
    """A finished tuning run; print it for the answer and the figures.

    Attributes:
        folder: The run's folder.
        result: The result of the run.
    """

    folder: Path
    result: TuningResult

    @property
    def summary(self) -> JsonObject:
        """The content of summary.json."""
        return self.result.to_json()

    @property
    def judge(self) -> Judge:
        """The frozen judge that ships: the tuned one, or the untuned one."""
        judge = load(self.folder)
        assert isinstance(judge, Judge)  # a panel is never tuned
        return judge

    @property
    def report(self) -> Path:
        """The path of the report, an HTML page."""
        return self.folder / REPORT

    @property
    def judgements(self) -> "pd.DataFrame":
        """Both judges' scores and people's labels on all held-out outputs, one row per output.

        The column `split` names the held-out split.
        """
        return self._rows(JUDGEMENTS)

    @property
    def trials(self) -> "pd.DataFrame":
        """The trials of the search in order, one row each: candidate, stage, value, gain ..."""
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
    """Tune a judge against human labels, and measure it on labels that it never saw.

    The same call continues a run that was stopped.

    Args:
        dimension: A name in the catalogue, a FILE.yaml, a Dimension or Comparison, or "NAME=what it
            means" for labels of this name. For labels with two values the name alone is enough. A
            Comparison is tuned on pairs.
        data: The labels: the path of a file, or a DataFrame, a Dataset or a list of dicts, which is
            then saved in the run's folder. By default the starter set.
        out: The run's folder. By default the next folder in runs/.
        quiet: Whether to print no progress to stderr.
        map: The columns of `data` by the names that the judge and this package use.
        values: The number that each word among the labels counts; None for no label.
        annotations: A file with the ratings, if `data` has none.
        scale: The scale of the labels as "LOW-HIGH" or a pair of numbers; "any" if only their order
            counts.
        lm: The judge's model. By default the LM that DSPy is configured with, else the embedded
            model.
        proposer_lm: The model that writes instructions; by default the judge's model.
        api_base: The address of an OpenAI-compatible server.
        proposer_api_base: The address for the proposer; by default the judge's.
        api_key_env: The environment variable that holds the key.
        proposer_api_key_env: The environment variable that holds the proposer's key.
        price: US dollars per million input tokens and per million output tokens.
        proposer_price: The proposer's price.
        max_tokens: Upper bound on the tokens of a reply.
        proposer_max_tokens: Upper bound on the tokens of the proposer's replies.
        reasoning_effort: The judge's reasoning effort, such as "low".
        proposer_reasoning_effort: The proposer's reasoning effort.
        plan: How replies become a score: "one", the "mean" of samples, or "weighted" by
            probabilities.
        samples: The number of replies for the plan "mean".
        temperature: The sampling temperature.
        reasoning: What the judge writes before its answer; "auto" lets the search try all forms.
        concurrency: Upper bound on the requests in flight.
        cache: A file that keeps replies for other runs.
        optimizer: "rank", "gepa", MODULE:FUNCTION, or a function.
        objective: "balanced", "spearman", or "auto" to fit the labels.
        level: The level of rho, or "auto" to fit the labels.
        max_demos: Upper bound on the demonstrations in a prompt.
        max_calls: Upper bound on the calls to both models.
        max_cost: Upper bound on the cost of both models in US dollars.
        risk: The chance that a tuned judge ships although it is no better than the untuned one.
        ship: "better" ships the tuned judge if it is better, "tuned" ships it always.
        probes: Whether to attack the judge that ships, for the report.
        seed: The seed of every random draw.
        verbose: Whether to print each retry, and tracebacks of errors.

    Returns:
        The finished run.

    Raises:
        JudgesError: An error that the command reports in one line, such as SettingsError,
            LabelError or DimensionError.
    """
    # This line must come first, while `locals()` has only the arguments.
    settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS}
    if not isinstance(dimension, str | Dimension | Comparison):
        raise TypeError(
            f"tune() takes a catalogue name, FILE.yaml, a Dimension or a Comparison, not "
            f"{dimension!r}"
        )
    subject = find_subject(dimension) if isinstance(dimension, str) else dimension
    kind = "pairwise" if isinstance(subject, Comparison) else "dimension"
    settings["optimizer"] = optimizer_name(optimizer)
    settings[kind] = dimension if isinstance(dimension, str) else dimension.name
    rows = None if isinstance(data, str | os.PathLike) else data
    opened: dict[str, Model] = {}
    configured = configured_lm()
    if configured is not None and lm is None and api_base is None:
        model, base = open_lm(configured)
        opened[model.name] = model
        settings |= {"lm": model.name, "api_base": base}
    folder, result = tune_in_folder(
        read_settings(settings | ({"data": data} if rows is None else {})),
        out,
        print_line=(lambda text: None) if quiet else print_error,
        subject=None if isinstance(dimension, str) else dimension,
        rows=rows,
        opened=opened,
        stderr=None if quiet else sys.stderr,
    )
    return Run(folder=folder, result=result)


_NOT_SETTINGS = frozenset({"dimension", "data", "out", "quiet"})
