"""Take the DataFrames of pandas and polars, and make a Series of a judge's scores."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from judges.judgement import AnyJudgement
from judges.terminal import Progress

if TYPE_CHECKING:
    import pandas as pd


class FailedJudgementWarning(UserWarning):
    """Warns that some rows of a table got no score."""


def as_pandas(frame: object) -> "pd.DataFrame":
    """Return a DataFrame of pandas or polars as one of pandas; raises TypeError for others."""
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        return frame
    library_name = type(frame).__module__.partition(".")[0]
    to_pandas = getattr(frame, "to_pandas", None)
    if library_name == "polars" and to_pandas is not None:
        pandas_frame: pd.DataFrame = to_pandas()
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
