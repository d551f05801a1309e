"""A judge past one machine: a callable class for the batches of Ray, Spark, Polars and DuckDB.

    dataset.map_batches(
        JudgeBatch,
        fn_constructor_kwargs={"judge": judge, "workers": 4, "max_cost": 8.0},
        compute=ray.data.ActorPoolStrategy(size=4),
        num_cpus=0,
    )

Any engine works that pickles a callable. Keys come from each worker's own environment.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dspy_judges.errors import OptionError
from judges.base_judge import RowJudge
from judges.client import Options, read_options
from judges.client.open import check_limits
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.panel import AnyJudge


class JudgeBatch:
    """Adds the columns NAME (NaN, in Arrow null, where a judgement failed) and NAME_failure.

    A judge that asks questions also adds NAME_QUESTION for each answer, its own among them.
    Each of `workers` processes gets an equal share of `max_calls` and `max_cost`. Rows after its
    share is spent are failed judgements that say so. The options are those of `Judge.score`.
    """

    def __init__(self, judge: AnyJudge, *, workers: int, **options: Unpack[Options]) -> None:
        self.judge, (values, self.map) = judge, read_options(options)
        check_limits(workers=workers)
        if (calls := values.get("max_calls")) is not None:
            values["max_calls"] = calls // workers
        if (cost := values.get("max_cost")) is not None:
            values["max_cost"] = cost / workers
        check_limits(max_calls=values.get("max_calls"), max_cost=values.get("max_cost"))
        self.share = values
        self._open = ExitStack()
        self._judge_rows: RowJudge | None = None

    def __call__(self, batch: Any) -> Any:
        """The batch, a dict of columns, a DataFrame or one of pyarrow's, with the columns added."""
        is_arrow = hasattr(batch, "column_names")
        columns = {str(name): batch[name] for name in (batch.column_names if is_arrow else batch)}
        if self.judge.name in columns:
            raise OptionError(f"the batch has a column {self.judge.name!r} already; rename it")
        cells = [column.to_pylist() if is_arrow else column for column in columns.values()]
        rows = self.judge.texts_of([*columns], zip(*cells, strict=True), self.map)
        if self._judge_rows is None:
            # Opened in the worker, since an open client cannot be pickled.
            self._judge_rows = self._open.enter_context(self.judge.open(**self.share))
        new_columns = self._columns(list(self._judge_rows(rows)))
        if isinstance(batch, Mapping):
            return {**batch, **new_columns}
        if not is_arrow:
            return batch.assign(**new_columns)
        import pyarrow as pa

        for column, values in new_columns.items():
            kind = pa.float64() if values.dtype == float else pa.string()
            batch = batch.append_column(column, pa.array(values, type=kind, from_pandas=True))
        return batch

    def _columns(self, judgements: Sequence[AnyJudgement]) -> dict[str, NDArray[Any]]:
        name = self.judge.name
        columns = {
            name: np.array([each.score for each in judgements], dtype=float),
            f"{name}_failure": np.array([each.failure for each in judgements], dtype=object),
        }
        if isinstance(self.judge, Judge) and self.judge.prompt.questions:
            answers = [each.answers or {} for each in judgements]
            for field in self.judge.prompt.choices:
                numbers = [each.get(field.name, math.nan) for each in answers]
                columns[f"{name}_{field.name}"] = np.array(numbers, dtype=float)
        return columns
