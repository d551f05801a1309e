"""Past one machine: the same judge over many processes with Ray, or within Spark's mapInPandas.

Ray is an extra (`pip install "ray[data]"`). Rows, judgements and their order are those of a local
run; each worker has its own runner and an equal share of the budget.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from judges.errors import MissingExtraError, OptionError
from judges.inference.session import Session
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.judging import find_columns

if TYPE_CHECKING:
    import pandas as pd
    import ray.data

    from judges.inference.runner import Runner

CHUNK = 256
CHUNKS_AHEAD = 2


class ModelOptions(TypedDict, total=False):
    """How a worker opens its model; `max_calls` and `max_cost` are for all workers together.

    `journal` must be a path that every worker reaches.
    """

    lm: str
    api_base: str | None
    max_calls: int | None
    max_cost: float | None
    concurrency: int
    journal: str | None


def judge_rows(
    judge: Judge,
    rows: Iterable[Mapping[str, object]],
    *,
    workers: int = 2,
    chunk: int = CHUNK,
    order: Literal["both", "random"] = "both",
    seed: int = 0,
    **opening: Unpack[ModelOptions],
) -> Iterator[AnyJudgement]:
    """Judge a stream of rows on Ray, in order; a few chunks for each worker are read ahead.

    Starts Ray on this machine unless it is running or RAY_ADDRESS names a cluster. Raises
    ValueError for pairs in random order, which depends on all rows before.
    """
    if order == "random":
        raise OptionError("on Ray, pairs are asked in both orders; order='random' is for runs here")
    ray = _ray()
    share = _shares(_resolved(judge, opening), workers)
    actor = ray.remote(_Worker)
    crew = [actor.remote(judge, seed, share) for _ in range(workers)]
    coming = iter(rows)
    under_way: deque[Any] = deque()
    turn = 0
    try:
        while True:
            while len(under_way) < CHUNKS_AHEAD * workers:
                if not (some := list(islice(coming, chunk))):
                    break
                under_way.append(crew[turn % workers].judge.remote(some))
                turn += 1
            if not under_way:
                return
            yield from ray.get(under_way.popleft())
    finally:
        for worker in crew:
            ray.kill(worker)


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

    return dataset.map_batches(
        BatchJudge,
        fn_constructor_args=(judge, seed, _shares(_resolved(judge, opening), workers)),
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
    opening = _resolved(judge, opening)

    def judge_partition(frames: Iterator["pd.DataFrame"]) -> Iterator["pd.DataFrame"]:
        with _opened(judge, opening) as session:
            for frame in frames:
                yield _judged(judge, frame, session.runner(_lm(judge, opening)), seed)

    return judge_partition


class BatchJudge:
    """A callable class for `map_batches`: opens its model once, then judges frame after frame."""

    def __init__(self, judge: Judge, seed: int = 0, opening: ModelOptions | None = None) -> None:
        self._judge = judge
        self._seed = seed
        self._runner = _runner(judge, opening or ModelOptions())

    def __call__(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        return _judged(self._judge, frame, self._runner, self._seed)


class _Worker:
    """A Ray actor: one process, one runner."""

    def __init__(self, judge: Judge, seed: int, opening: ModelOptions) -> None:
        self._judge = judge
        self._seed = seed
        self._runner = _runner(judge, opening)

    def judge(self, rows: list[Mapping[str, object]]) -> list[AnyJudgement]:
        return list(self._judge.judge_rows(rows, self._runner, seed=self._seed))


def _judged(judge: Judge, frame: "pd.DataFrame", runner: "Runner", seed: int) -> "pd.DataFrame":
    columns = find_columns(judge.subject, [str(name) for name in frame.columns], None)
    rows = (
        dict(zip(columns, values, strict=True))
        for values in zip(*(frame[column] for column in columns.values()), strict=True)
    )
    said = list(judge.judge_rows(rows, runner, seed=seed))
    added: dict[str, Any] = {
        judge.name: [one.score for one in said],
        f"{judge.name}_failure": [one.failure for one in said],
    }
    return frame.assign(**added)


def _opened(judge: Judge, opening: ModelOptions) -> Session:
    return Session(**{name: value for name, value in opening.items() if name != "lm"})  # type: ignore[arg-type]


def _runner(judge: Judge, opening: ModelOptions) -> "Runner":
    """Open what lives as long as the worker's process."""
    return _opened(judge, opening).runner(_lm(judge, opening))


def _lm(judge: Judge, opening: ModelOptions) -> str:
    return opening.get("lm") or judge.model_to_ask()[0]


def _resolved(judge: Judge, opening: ModelOptions) -> ModelOptions:
    """With the model and the endpoint named here, since a worker's environment may lack them."""
    lm, api_base = judge.model_to_ask(opening.get("lm"), opening.get("api_base"))
    if api_base is None and lm.startswith("openai/"):
        api_base = os.environ.get("OPENAI_BASE_URL") or None
    return ModelOptions(**{**opening, "lm": lm, "api_base": api_base})


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
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            'the engine ray is not installed; pip install "ray[data]"'
        ) from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    return ray
