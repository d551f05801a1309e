"""Run a judge on several machines: a callable class for batches of Ray, Spark, Polars and DuckDB.

    dataset.map_batches(
        JudgeBatch,
        fn_constructor_kwargs={"judge": judge, "workers": 4, "max_cost": 8.0},
        compute=ray.data.ActorPoolStrategy(size=4),
        num_cpus=0,
    )

The class works with every engine that can pickle a callable. Each worker reads API keys from its
own environment.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dspy_judges.errors import OptionError
from judges.base_judge import JudgeRowsFunction
from judges.client import Options, read_options
from judges.client.session import check_limits
from judges.judgement import AnyJudgement
from judges.panel import AnyJudge


class JudgeBatch:
    """Adds a judge's scores (column NAME) and reasons for failures (NAME_failure) to a batch.

    NAME is the judge's name; the score of a failed judgement is NaN, or null in Arrow. A judge that
    asks questions also adds a column NAME_ANSWER for each answer, including the rating. Each of
    `workers` processes gets an equal share of `max_calls` and `max_cost`; once the share is spent,
    the judgements of further rows fail. The options are the same as for `Judge.score`.
    """

    def __init__(self, judge: AnyJudge, *, workers: int, **options: Unpack[Options]) -> None:
        self.judge = judge
        self.worker_options, self.column_mapping = read_options(options, judge.texts)
        check_limits(workers=workers)
        if (max_calls := self.worker_options.get("max_calls")) is not None:
            self.worker_options["max_calls"] = max_calls // workers
            check_limits(max_calls=max_calls // workers)
        if (max_cost := self.worker_options.get("max_cost")) is not None:
            self.worker_options["max_cost"] = max_cost / workers
            check_limits(max_cost=max_cost)
        self._exit_stack = ExitStack()
        self._judge_rows: JudgeRowsFunction | None = None

    def __call__(self, batch: Any) -> Any:
        """Add the judge's columns to a dict of columns, a DataFrame or a pyarrow table."""
        is_arrow_table = hasattr(batch, "to_pydict")
        table = batch.to_pydict() if is_arrow_table else batch
        columns = {str(name): table[name] for name in table}
        if self.judge.name in columns:
            raise OptionError(f"the batch has a column {self.judge.name!r} already; rename it")
        cell_rows = zip(*columns.values(), strict=True)
        text_rows = self.judge.row_texts([*columns], cell_rows, self.column_mapping)
        if self._judge_rows is None:
            # The judge is opened in the worker, since an open client cannot be pickled.
            judge_context = self.judge.open(**self.worker_options)
            self._judge_rows = self._exit_stack.enter_context(judge_context)
        new_columns = self._result_columns(list(self._judge_rows(text_rows)))
        if isinstance(batch, Mapping):
            return {**batch, **new_columns}
        if not is_arrow_table:
            return batch.assign(**new_columns)
        import pyarrow as pa

        for name, values in new_columns.items():
            arrow_type = pa.float64() if values.dtype == float else pa.string()
            batch = batch.append_column(name, pa.array(values, type=arrow_type, from_pandas=True))
        return batch

    def _result_columns(self, judgements: Sequence[AnyJudgement]) -> dict[str, NDArray[np.generic]]:
        name = self.judge.name
        scores = [judgement.score for judgement in judgements]
        failures = [judgement.failure for judgement in judgements]
        columns = {name: np.array(scores, float), f"{name}_failure": np.array(failures, object)}
        if self.judge.questions:
            answers_by_row = [judgement.answers or {} for judgement in judgements]
            for answer_field in self.judge.prompts[0].choices:
                values = [answers.get(answer_field.name, math.nan) for answers in answers_by_row]
                columns[f"{name}_{answer_field.name}"] = np.array(values, float)
        return columns
