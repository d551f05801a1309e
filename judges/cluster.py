"""Past one machine: the same judge over many processes with Ray, or within Spark's mapInPandas.

Ray is an extra (`pip install "ray[data]"`). Rows, judgements and their order are those of a local
run; each worker has its own runner and an equal share of the budget, so that `max_calls` and
`max_cost` are for all of them together, and anew for a run that is resumed; `journal` must be a
path that every worker reaches.
"""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from judges.errors import JudgesError, MissingExtraError, OptionError
from judges.inference.session import ModelOptions, Session
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.judging import rows_of
from judges.models.cache import named_folder

if TYPE_CHECKING:
    import pandas as pd
    import ray.data

CHUNK = 256
CHUNKS_AHEAD = 2


def judge_rows(
    judge: Judge,
    rows: Iterable[Mapping[str, object]],
    *,
    workers: int = 2,
    chunk: int = CHUNK,
    order: Literal["both", "random"] = "both",
    seed: int = 0,
    **opening: Unpack[ModelOptions],
) -> Generator[AnyJudgement, None, None]:
    """Judge a stream of rows on Ray, in order; a few chunks for each worker are read ahead.

    Starts Ray on this machine unless it is running or RAY_ADDRESS names a cluster. Raises
    ValueError for pairs in random order, which depends on all rows before.
    """
    if order == "random":
        raise OptionError("on Ray, pairs are asked in both orders; order='random' is for runs here")
    ray = _ray()
    judge, opening = _resolved(judge, opening)
    share = _shares(opening, workers)
    actor_class = ray.remote(BatchJudge)
    actors = [actor_class.remote(judge, seed, share) for _ in range(workers)]
    unread = iter(rows)
    chunks = iter(lambda: list(islice(unread, chunk)), [])
    turns = zip(cycle(actors), chunks, strict=False)
    requests = (actor.judge_rows.remote(rows_chunk) for actor, rows_chunk in turns)
    try:
        pending = deque(islice(requests, CHUNKS_AHEAD * workers))
        while pending:
            try:
                judgements = ray.get(pending.popleft())
            except ray.exceptions.RayTaskError as error:
                # What a worker says in a line is said in that line, as it would be here.
                if isinstance(error.cause, JudgesError):
                    raise error.cause from None
                raise
            yield from judgements
            pending.extend(islice(requests, 1))
    finally:
        for actor in actors:
            ray.kill(actor)


def score_dataset(
    judge: Judge,
    dataset: "ray.data.Dataset",
    *,
    workers: int = 2,
    chunk: int = CHUNK,
    seed: int = 0,
    **opening: Unpack[ModelOptions],
) -> "ray.data.Dataset":
    """Add the columns NAME and NAME_failure to a Ray dataset, lazily; a failed score is missing.

    The order of rows is Ray's own, so keep an id column, or set
    `ray.data.DataContext.get_current().execution_options.preserve_order`.
    """
    import ray.data

    judge, opening = _resolved(judge, opening)
    return dataset.map_batches(
        BatchJudge,
        fn_constructor_args=(judge, seed, _shares(opening, workers)),
        batch_format="pandas",
        batch_size=chunk,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )


def map_in_pandas(
    judge: Judge, *, seed: int = 0, **opening: Unpack[ModelOptions]
) -> Callable[[Iterator["pd.DataFrame"]], Iterator["pd.DataFrame"]]:
    """Make a function for Spark's `DataFrame.mapInPandas`; the budget is each partition's own.

    schema = StructType([*frame.schema, StructField("relevance", DoubleType()),
                         StructField("relevance_failure", StringType())])
    frame.mapInPandas(map_in_pandas(judge, lm="openai/gpt-4.1-mini"), schema)
    """
    judge, opening = _resolved(judge, opening)

    def judge_partition(frames: Iterator["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
        batch_judge = BatchJudge(judge, seed, opening)
        with batch_judge.session:
            yield from map(batch_judge, frames)

    return judge_partition


class BatchJudge:
    """Lives in a worker's process: opens its model once, then judges batch after batch."""

    def __init__(self, judge: Judge, seed: int = 0, opening: ModelOptions | None = None) -> None:
        self._judge = judge
        self._seed = seed
        opening = opening or ModelOptions()
        budget_file = None
        if opening.get("journal") and (opening.get("max_calls") or opening.get("max_cost")):
            # Not beside the journal, where one process alone may hold it: a share is its own.
            budget_file = Path(tempfile.mkdtemp(prefix="dspy-judges-")) / "budget.json"
        self.session = Session(budget_file=budget_file, **opening)
        lm, api_base = judge.model_to_ask()
        self._runner = self.session.runner(lm, api_base=api_base)

    def judge_rows(self, rows: Iterable[Mapping[str, object]]) -> list[AnyJudgement]:
        return list(self._judge.judge_rows(rows, self._runner, seed=self._seed))

    def __call__(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The frame with the columns NAME and NAME_failure."""
        name = self._judge.name
        columns = self._judge.find_columns([str(column) for column in frame.columns])
        texts = {text: frame[column] for text, column in columns.items()}
        judgements = self.judge_rows(rows_of(texts))
        new_columns: dict[str, Any] = {
            name: [judgement.score for judgement in judgements],
            f"{name}_failure": [judgement.failure for judgement in judgements],
        }
        return frame.assign(**new_columns)


def _resolved(judge: Judge, opening: ModelOptions) -> tuple[Judge, ModelOptions]:
    """With model, endpoint and cache named here, since a worker's environment may lack them."""
    options: Any = dict(opening)
    judge = judge.with_model(options.pop("lm", None), options.pop("api_base", None))
    _, api_base = judge.model_to_ask()
    if api_base is None and any(part.lm.startswith("openai/") for part in judge.parts):
        judge = judge.with_model(None, os.environ.get("OPENAI_BASE_URL") or None)
    options["cache"] = named_folder(options.get("cache"))
    return judge, options


def _shares(opening: ModelOptions, workers: int) -> ModelOptions:
    """Divide the budget: what one worker may spend."""
    share = opening.copy()
    max_calls, max_cost = opening.get("max_calls"), opening.get("max_cost")
    if max_calls is not None:
        share["max_calls"] = max_calls // workers
    if max_cost is not None:
        share["max_cost"] = max_cost / workers
    return share


def _ray() -> Any:
    """The library, started unless it runs already; MissingExtraError where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            'the engine ray is not installed; pip install "ray[data]"'
        ) from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    return ray
