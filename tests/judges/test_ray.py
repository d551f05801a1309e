"""A judge for other engines' batches: pickled, called, and kept to its share of the limits."""

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from openai_server import OpenAIServer

import judges
from dspy_judges.errors import OptionError
from judges.base_judge import MissingColumnError
from judges.catalog import RELEVANCE
from judges.ray import JudgeBatch

ROWS: list[dict[str, Any]] = [
    {
        "document": f"The council met in room {i} and closed the bridge. Repairs take {i} weeks.",
        "summary": "The bridge is closed." if i % 2 else f"Repairs take {i} weeks, in room {i}.",
    }
    for i in range(20)
]
ROWS[7] = {"document": "Nothing to judge.", "summary": None}


def test_a_pickled_callable_gives_every_kind_of_batch_the_local_scores() -> None:
    judge = judges.load("relevance")
    expected = [judgement.score for judgement in judge.judge_all(ROWS)]
    frame = pd.DataFrame(ROWS, index=range(100, 120))
    call = pickle.loads(pickle.dumps(JudgeBatch(judge, workers=2)))
    judged = call(frame)
    assert list(judged.columns) == [*frame.columns, "relevance", "relevance_failure"]
    assert list(judged.index) == list(frame.index)
    assert judged["relevance"].tolist() == pytest.approx(expected, nan_ok=True)
    assert judged["relevance_failure"][107] == "no summary"
    for arrow in (pa.table(frame), pa.RecordBatch.from_pandas(frame, preserve_index=False)):
        added = call(arrow)
        assert type(added) is type(arrow)
        assert added["relevance"].to_pylist()[6:8] == [pytest.approx(expected[6]), None]
        assert added["relevance_failure"].to_pylist()[6:8] == [None, "no summary"]
        assert added.schema.field("relevance_failure").type == pa.string()
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    assert call(columns)["relevance"] == pytest.approx(expected, nan_ok=True)
    assert isinstance(call(columns)["relevance"], np.ndarray)


def test_each_worker_spends_its_share_and_the_rows_left_say_so(openai_server: OpenAIServer) -> None:
    judge = judges.load("relevance", lm="openai/judge-1")
    call = JudgeBatch(judge, workers=2, max_calls=7, map={"summary": "draft"})
    frame = pd.DataFrame(ROWS[8:13]).rename(columns={"summary": "draft"})
    judged = call(frame)
    assert judged["relevance"].notna().sum() == 3
    assert "the budget of 3 calls is spent" in judged["relevance_failure"].iloc[4]
    assert math.isnan(call(frame)["relevance"].iloc[0])
    assert JudgeBatch(judge, workers=4, max_cost=8.0).worker_options == {"max_cost": 2.0}


def test_a_judge_that_asks_questions_adds_a_column_for_each_answer(
    openai_server: OpenAIServer,
) -> None:
    openai_server.judge = lambda body: "[[ ## short ## ]]\nyes\n\n[[ ## rating ## ]]\n4"
    question = judges.Question(name="short", text="is it short")
    judge = judges.Judge.of(RELEVANCE, lm="openai/judge-1", questions=[question])
    judged = JudgeBatch(judge, workers=1)(pd.DataFrame(ROWS[6:8]))
    added = judged[["relevance", "relevance_short", "relevance_rating"]]
    assert added.iloc[0].tolist() == [4.0, 1.0, 4.0]
    assert added.iloc[1].isna().all()


@pytest.mark.parametrize(
    ("options", "why"),
    [({"workers": 3, "max_calls": 2}, "max_calls 0"), ({"workers": 0}, "workers 0")],
)
def test_a_share_that_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        JudgeBatch(judges.load("relevance"), **options)


def test_a_column_of_the_judges_name_is_not_written_over() -> None:
    with pytest.raises(OptionError, match="has a column 'relevance' already"):
        JudgeBatch(judges.load("relevance"), workers=1)(pd.DataFrame([{**ROWS[0], "relevance": 3}]))
    with pytest.raises(MissingColumnError, match=r"no column 'summary'.*columns: document"):
        JudgeBatch(judges.load("relevance"), workers=1)(pa.table({"document": ["A text."]}))
