"""Judge a table: a pandas DataFrame, or the rows that `datasets.Dataset.map` hands over."""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from judges.engine.judging_rows import failed
from judges.engine.session import Options, check_options, open_runner
from judges.judgement import Verdict
from judges.tables.columns import MissingColumnError, find_columns

if TYPE_CHECKING:
    import pandas as pd

    from judges.judge import Judge, Said

_OPENING = ("api_base", "max_calls", "max_cost", "concurrency", "journal")
_ASKING = ("order", "seed")


class FailedJudgementWarning(UserWarning):
    """Some rows of a table got no score."""


def judge_all(
    judge: "Judge", rows: Iterable[Mapping[str, object]], **options: Unpack[Options]
) -> Iterator["Said"]:
    """Open what is needed, judge a stream of rows, close it.

    Where the budget ends, the rows left are failed judgements that say so: nothing that was paid
    for is lost.
    """
    from judges.engine.ledger import BudgetSpentError

    given: Mapping[str, Any] = options
    check_options(given)
    if mapping := given.get("mapping"):
        columns = {name: mapping.get(name, name) for name in judge.texts}
        rows = ({name: row.get(column) for name, column in columns.items()} for row in rows)
    opening = {name: given[name] for name in _OPENING if name in given}
    lm, opening["api_base"] = judge.model_to_ask(given.get("lm"), given.get("api_base"))
    asking = {name: given[name] for name in _ASKING if name in given}
    left, taken, said_of, why = iter(rows), 0, 0, ""

    def counted() -> Iterator[Mapping[str, object]]:
        nonlocal taken
        for row in left:
            taken += 1
            yield row

    with open_runner(lm, **opening) as runner:
        try:
            for said in judge.judge_rows(counted(), runner, **asking):
                said_of += 1
                yield said
        except BudgetSpentError as error:
            why = f"not asked: {error}"
    for _ in range(said_of, taken):
        yield failed(judge, why)
    for _ in left:
        yield failed(judge, why)


def score_frame(
    judge: "Judge", frame: "pd.DataFrame", **options: Unpack[Options]
) -> "pd.Series[float]":
    """One score a row, on the frame's index; see Judge.score."""
    import pandas as pd

    check_options(options)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"score() takes a DataFrame, not {type(frame).__name__}; judge_all() takes rows"
        )
    mapping = options.pop("mapping", None)
    progress = options.pop("progress", False)
    columns = find_columns(judge, [str(name) for name in frame.columns], mapping)
    for column in columns.values():
        if list(frame.columns).count(column) > 1:
            raise MissingColumnError(f"two columns are called {column!r}; rename one")
    rows = (
        dict(zip(columns, values, strict=True))
        for values in zip(*(frame[column] for column in columns.values()), strict=True)
    )
    judged = judge_all(judge, rows, **options)
    scores, reasons = [], Counter[str]()
    for said in _shown(judged, judge.name, len(frame)) if progress else judged:
        scores.append(score_of(said))
        if said.failure is not None:
            reasons[said.failure] += 1
    series = pd.Series(scores, index=frame.index, name=judge.name, dtype="float64")
    series.attrs.update(n_failed=reasons.total(), failures=dict(reasons.most_common(100)))
    if reasons:
        warnings.warn(failures_line(judge.name, reasons, len(frame)), FailedJudgementWarning, 3)
    return series


def mapper(
    judge: "Judge", **options: Unpack[Options]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function from rows to new columns; see Judge.mapper."""
    check_options(options)
    mapping = options.pop("mapping", None)
    options.pop("progress", None)

    def judge_map(row: Mapping[str, Any]) -> dict[str, Any]:
        columns = find_columns(judge, list(row), mapping)
        texts = {name: row[column] for name, column in columns.items()}
        # Lists, or arrays where the Dataset's format makes them; a single text is a str or None.
        batched = not any(text is None or isinstance(text, str | bytes) for text in texts.values())
        rows = _rows(texts) if batched else iter([texts])
        judged = list(judge_all(judge, rows, **options))
        scores = [score_of(said) for said in judged]
        failures = [said.failure for said in judged]
        if batched:
            return {judge.name: scores, f"{judge.name}_failure": failures}
        return {judge.name: scores[0], f"{judge.name}_failure": failures[0]}

    return judge_map


def score_of(said: "Said") -> float:
    """A judgement's score, or a verdict's margin; NaN where it failed."""
    return said.margin if isinstance(said, Verdict) else said.score


def failures_line(name: str, reasons: Counter[str], n: int) -> str:
    """How many failed, and the commonest reason."""
    reason, count = reasons.most_common(1)[0]
    return f"{name}: {reasons.total()} of {n} judgements failed; {count} of them: {reason}"


def _rows(texts: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*texts.values(), strict=True):
        yield dict(zip(texts, values, strict=True))


def _shown(judged: Iterator["Said"], name: str, total: int) -> Iterator["Said"]:
    from judges.engine.progress import Progress

    with Progress(name, total, sys.stderr) as progress:
        for said in judged:
            progress.step(failed=said.failure is not None)
            yield said
