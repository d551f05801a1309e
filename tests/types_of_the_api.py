"""What mypy sees of the public API in a user's script: tests/check reads it, and nobody runs it."""

from typing import assert_type

import pandas as pd

import data
import judges
import optimize

frame = pd.DataFrame({"document": ["a"], "summary": ["b"]})
run = optimize.tune("relevance", frame, level="summary", max_cost=2.0, map={"relevance": "Anna"})
assert_type(run, optimize.Run)
assert_type(run.judge, judges.Judge)
assert_type(run.judgements, pd.DataFrame)
assert_type(run.trials, pd.DataFrame)
result = optimize.measure(run.judge, [{"id": 1}], lm="openai/gpt-4.1-mini", max_calls=10)
assert_type(result.rho.value, float)
assert_type(judges.load("relevance").score(frame, lm="embedded"), "pd.Series[float]")
assert_type(data.read_labels(frame), data.LabelledSet)
# mypy refuses a comment that ignores no error.
optimize.tune("relevance", level="sumary")  # type: ignore[arg-type]
optimize.tune("relevance", max_cost="2")  # type: ignore[arg-type]
optimize.tune("relevance", max_cots=2)  # type: ignore[call-arg]
optimize.measure("relevance", 3)  # type: ignore[arg-type]
