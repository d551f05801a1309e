"""Find a judge's texts in the rows of a table, and make a Series of the judge's scores."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from judges.dimension import Subject
from judges.judgement import AnyJudgement
from judges.labels.cells import value_at
from judges.labels.conversations import cells_with_texts
from judges.terminal import Progress
from judges.text_columns import MissingColumnError, find_columns

if TYPE_CHECKING:
    import pandas as pd


class FailedJudgementWarning(UserWarning):
    """Warns that some rows of a table got no score."""


def texts_in_row(row: Mapping[str, object], column_by_text: Mapping[str, str]) -> dict[str, object]:
    """Return the texts of a row by their names; a missing text is None."""
    return {name: value_at(row, column) for name, column in column_by_text.items()}


def texts_of_rows(
    subject: Subject,
    column_names: Sequence[str],
    table_rows: Iterable[Sequence[object]],
    chosen_columns: Mapping[str, str],
) -> list[dict[str, object]]:
    """Return each row's texts; raises MissingColumnError if no column has one of the texts."""
    named_rows = (dict(zip(column_names, cells, strict=True)) for cells in table_rows)
    rows = [cells_with_texts(row) for row in named_rows]
    columns = {*column_names, *chain.from_iterable(rows)}
    column_by_text = find_columns(subject, chosen_columns, columns)
    for column in column_by_text.values():
        if column_names.count(column) > 1:
            raise MissingColumnError(f"two columns are called {column!r}; rename one")
    return [texts_in_row(row, column_by_text) for row in rows]


def as_pandas(frame: Any) -> "pd.DataFrame":
    """Return a DataFrame of pandas or polars as one of pandas; raises TypeError for others."""
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        return frame
    library_name = type(frame).__module__.partition(".")[0]
    if library_name == "polars" and hasattr(frame, "to_pandas"):
        pandas_frame: pd.DataFrame = frame.to_pandas()
        return pandas_frame
    raise TypeError(
        f"score() takes a DataFrame of pandas or polars, not {library_name}'s "
        f"{type(frame).__name__}; convert it by to_pandas(), collect() or df(), or give rows to "
        "judge_all()"
    )


def make_series(
    judge_name: str, frame: "pd.DataFrame", judgements: Iterable[AnyJudgement]
) -> "pd.Series[float]":
    """Return the judgements' scores as a Series with the frame's index, and warn of failures.

    The scores are shown in a progress line while they are made.
    """
    import pandas as pd

    scores, failure_counts = [], Counter[str]()
    with Progress(judge_name, len(frame), sys.stderr, interactive_only=True) as progress:
        for judgement in progress.track(judgements):
            scores.append(judgement.score)
            if judgement.failure is not None:
                failure_counts[judgement.failure] += 1
    # If a column had this name, `frame[series.name] = series` could replace people's labels.
    has_column = judge_name in map(str, frame.columns)
    series_name = f"{judge_name}_judge" if has_column else judge_name
    series = pd.Series(scores, index=frame.index, name=series_name, dtype="float64")
    n_failed = failure_counts.total()
    series.attrs.update(n_failed=n_failed, failures=dict(failure_counts.most_common(100)))
    if failure_counts:
        ((reason, n_with_reason),) = failure_counts.most_common(1)
        message = f"{n_failed} of {len(frame)} judgements failed; {n_with_reason} of them: {reason}"
        # The warning names the line that called `score`.
        warnings.warn(f"{judge_name}: {message}", FailedJudgementWarning, stacklevel=3)
    return series
