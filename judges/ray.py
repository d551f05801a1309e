"""A judge past one machine: a callable class for `ray.data.Dataset.map_batches`.

    dataset.map_batches(
        JudgeBatch,
        fn_constructor_kwargs={"judge": judge, "workers": 4, "max_cost": 8.0},
        concurrency=4,
    )

Ray is not imported here, and this works with any engine that pickles a callable and calls it on
batches. Keys come from each worker's own environment.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Unpack

import numpy as np

from dspy_judges.errors import OptionError
from judges.client import BudgetSpentError
from judges.client.open import Options, check_limits, check_options, pop_map
from judges.judge import Judge, RowJudge
from judges.judgement import AnyJudgement
from judges.judging import failed, rows_of


class JudgeBatch:
    """Adds the columns NAME (NaN where it failed) and NAME_failure to a batch.

    Each of `workers` processes gets an equal share of `max_calls` and `max_cost`; rows left when
    its share is spent fail and say so. The options are those of `Judge.score`.
    """

    def __init__(self, judge: Judge, *, workers: int, **options: Unpack[Options]) -> None:
        values: dict[str, Any] = {**options}
        check_options(values)
        if "journal" in values:
            raise OptionError("workers cannot share a journal; the reply cache keeps every reply")
        check_limits(workers=workers)
        if values.get("max_calls") is not None:
            values["max_calls"] //= workers
        if values.get("max_cost") is not None:
            values["max_cost"] /= workers
        check_limits(max_calls=values.get("max_calls"), max_cost=values.get("max_cost"))
        values.pop("progress", None)
        self.judge = judge
        self.map = pop_map(values)
        self.share = values
        self._judge_rows: RowJudge | None = None

    def __call__(self, batch: Any) -> Any:
        """The dict of columns or the DataFrame with the two columns added."""
        name = self.judge.name
        if name in batch:
            raise OptionError(f"the batch has a column {name!r} already; rename it")
        columns = self.judge.find_columns([str(column) for column in batch], self.map)
        rows = list(rows_of({text: batch[column] for text, column in columns.items()}))
        judgements = list(self._judgements(rows))
        new_columns = {
            name: np.array([judgement.score for judgement in judgements], dtype=float),
            f"{name}_failure": np.array([judgement.failure for judgement in judgements], object),
        }
        if isinstance(batch, Mapping):
            return {**batch, **new_columns}
        return batch.assign(**new_columns)

    def _judgements(self, rows: list[dict[str, object]]) -> Iterator[AnyJudgement]:
        if self._judge_rows is None:
            # In the worker, since what is open cannot be pickled.
            stack = ExitStack()
            self._judge_rows = stack.enter_context(self.judge.open(**self.share))
            weakref.finalize(self, stack.close)
        n_judged = 0
        try:
            for judgement in self._judge_rows(rows):
                yield judgement
                n_judged += 1
        except BudgetSpentError as error:
            for _ in rows[n_judged:]:
                yield failed(self.judge.subject, f"not asked: {error}")
