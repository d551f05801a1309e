"""Tune a judge from Python: `tune()` does the same as the command `dspy-judges tune`."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dspy_judges.errors import arguments_in_messages
from judges.client import configured_lm, open_lm
from judges.dimension import Comparison, Dimension, Subject
from judges.judge import Judge
from judges.labels.cells import without_keys
from judges.loading import load
from judges.protocol import Model
from judges.tables.formats import read_table_rows
from judges.tables.in_memory import Rows
from judges.terminal import print_error
from optimize.figures.as_json import JsonObject
from optimize.inputs.subjects import find_subject
from optimize.measuring.tuning_result import TuningResult
from optimize.report.tuning import tuning_lines
from optimize.search.optimizer import Optimizer, optimizer_name
from optimize.search.problem import DEFAULT_RISK
from optimize.statistics.correlations import Level
from optimize.tuning.folder import JUDGEMENTS_FILE, REPORT_FILE, TRIALS_FILE
from optimize.tuning.pipeline import tune_in_folder
from optimize.tuning.settings import Objective, ShipPolicy, read_settings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """A finished tuning run; printing it shows which judge ships, and both judges' figures.

    Attributes:
        folder: The path of the run's folder.
        result: The figures of the run and the decision which judge ships.
    """

    folder: Path
    result: TuningResult

    @property
    def summary(self) -> JsonObject:
        """The content of summary.json."""
        return self.result.to_json()

    @property
    def judge(self) -> Judge:
        """The frozen judge that ships: the tuned judge if it gained, else the untuned judge."""
        judge = load(self.folder)
        assert isinstance(judge, Judge)  # a panel is never tuned
        return judge

    @property
    def report(self) -> Path:
        """The path of the report, which is an HTML page."""
        return self.folder / REPORT_FILE

    @property
    def judgements(self) -> "pd.DataFrame":
        """The scores of the untuned and the tuned judge, and people's labels, on held-out outputs.

        There is one row for each output; the column `split` names its held-out split.
        """
        return self._rows(JUDGEMENTS_FILE)

    @property
    def trials(self) -> "pd.DataFrame":
        """The trials of the search, in order, one row each: candidate, stage, value, gain ..."""
        return self._rows(TRIALS_FILE)

    def _rows(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame([row.cells for row in read_table_rows(self.folder / name)])

    def __repr__(self) -> str:
        return "\n".join(tuning_lines(self.result, str(self.folder)))


@arguments_in_messages()
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
    risk: float = DEFAULT_RISK,
    ship: ShipPolicy = "better",
    probes: bool = False,
    seed: int = 0,
    verbose: bool = False,
) -> Run:
    """Tune a judge against human labels, and measure it on labels that it never saw.

    Repeating the call continues a run that was stopped.

    Args:
        dimension: What is judged: a catalogue name, a FILE.yaml, a Dimension, a Comparison (for
            labelled pairs), or "NAME=what it means" for labels of this name. If the labels have two
            values, the name alone is enough.
        data: The labels: the path of a file, or a DataFrame, a Dataset or a list of dicts, which
            is also saved in the run's folder. By default the starter set.
        out: The run's folder. By default the newest folder of an unfinished run of this kind in
            runs/, else a new folder there.
        quiet: Whether to leave out the progress on stderr.
        map: The columns of `data` to read, by what they hold: a dimension, a text that the judge
            reads, id, group or system.
        values: The number that each word in the labels stands for; None for a word that is not a
            label.
        annotations: A file with the ratings, if `data` has no ratings.
        scale: The labels' scale: "LOW-HIGH", two numbers, or "any" if only their order counts.
        lm: The judge's model. By default DSPy's configured LM, or else the embedded model.
        proposer_lm: The model that writes instructions; by default the judge's model.
        api_base: The address of an OpenAI-compatible server for the judge's model.
        proposer_api_base: The address of the proposer's server; by default the judge's address.
        api_key_env: The environment variable that holds the API key for the judge's model.
        proposer_api_key_env: The environment variable that holds the API key for the proposer.
        price: The price of the judge's model: US dollars per million input and output tokens.
        proposer_price: The price of the proposer, in the same form.
        max_tokens: Upper bound on the tokens of a reply from the judge's model.
        proposer_max_tokens: Upper bound on the tokens of the proposer's replies.
        reasoning_effort: The judge's reasoning effort, such as "low".
        proposer_reasoning_effort: The proposer's reasoning effort.
        plan: How replies become a score: "one" reply, the "mean" of several, or all ratings
            "weighted" by their probabilities.
        samples: The number of replies for the plan "mean".
        temperature: The sampling temperature of the judge's model.
        reasoning: The form of reasoning before an answer; "auto" lets the search try all forms.
        concurrency: Upper bound on the number of requests in flight.
        cache: The folder with the cache of replies that all runs share, or "none" for no cache.
        optimizer: "rank", "gepa", or MODULE:FUNCTION or the function of an optimizer of your own.
        objective: What is maximised: "balanced" accuracy, "spearman" for rho, or "auto".
        level: The level of rho, or "auto" to choose it by the labels.
        max_demos: Upper bound on the number of demonstrations in a prompt.
        max_calls: Upper bound on the number of calls to both models together.
        max_cost: Upper bound on the cost of both models together, in US dollars.
        risk: The accepted chance that a tuned judge ships although it is no better.
        ship: "better" ships the tuned judge only if it is better; "tuned" ships it always.
        probes: Whether to attack the judge that ships, to report how easily outputs can fool it.
        seed: The seed of every random draw.
        verbose: Whether to print each retry and the tracebacks of errors.

    Returns:
        The finished run.

    Raises:
        JudgesError: The run cannot start or go on. The subclass of JudgesError tells the cause,
            such as SettingsError, LabelError or DimensionError.
    """
    # This line must come first, because `locals()` then has only the arguments.
    settings = without_keys(locals(), ["dimension", "out", "quiet"])
    subject: Subject | None
    if isinstance(dimension, str):
        name, subject = dimension, find_subject(dimension)
    elif isinstance(dimension, Dimension | Comparison):
        name, subject = dimension.name, dimension
    else:
        raise TypeError(
            f"tune() takes a catalogue name, FILE.yaml, Dimension or Comparison, not {dimension!r}"
        )
    settings["pairwise" if isinstance(subject, Comparison) else "dimension"] = name
    settings["optimizer"] = optimizer_name(optimizer)
    rows = None if isinstance(data, str | os.PathLike) else settings.pop("data")
    opened_models: dict[str, Model] = {}
    dspy_lm = configured_lm()
    if dspy_lm is not None and lm is None and api_base is None:
        model, address = open_lm(dspy_lm)
        opened_models[model.name] = model
        settings |= {"lm": model.name, "api_base": address}
    folder, result = tune_in_folder(
        read_settings(settings),
        out,
        print_line=(lambda text: None) if quiet else print_error,
        subject=subject,
        rows=rows,
        opened_models=opened_models,
        stderr=None if quiet else sys.stderr,
    )
    return Run(folder=folder, result=result)
