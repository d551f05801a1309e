"""Running a judge: one output, a table, a Dataset's rows, a notebook."""

import math
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from behaving_model import Model, rate, rating_of_choice
from judge_cases import FLUENCY, RELEVANCE, TLDR_CONCISE, form
from openai_server import OpenAIServer
from serving import serving

import judges
from dspy_judges.errors import OptionError
from judges.definition import make_dimension
from judges.frames import FailedJudgementWarning
from judges.integrations import OpenJudge
from judges.judge import Judge
from judges.ray import JudgeBatch
from judges.scoring import ONE_REPLY_PLAN
from judges.text_columns import MissingColumnError


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model(rate)
    monkeypatch.setattr("judges.client.session.open_model", lambda lm, **_: model)
    return model


def load(name: str, stub: Model) -> Any:
    """A catalogue judge that asks the stub, by a name that no other test has opened."""
    return judges.load(name, lm=f"openai/scripted-{id(stub)}")


TEXTS = [{"document": f"d{i}", "summary": f"s{i}"} for i in range(3)]
FRAME = pd.DataFrame(TEXTS, index=[30, 10, 20]).assign(id=[7, 8, 9])


def test_the_public_names_are_there_and_no_other():
    for name in judges.__all__:
        assert getattr(judges, name) is not None
    assert set(judges.__all__) <= set(dir(judges))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        judges.nope  # noqa: B018


def test_a_frame_is_judged_as_its_texts_are(stub, capsys):
    judge = load("relevance", stub)
    scores = [float(rating_of_choice(judge.prompt.messages(each)[-1]["content"])) for each in TEXTS]
    first = judge(**TEXTS[0])
    assert (first.score, first.rating, first.failure) == (scores[0], int(scores[0]), None)
    assert capsys.readouterr() == ("", "")
    assert judge.score(FRAME.assign(relevance=4)).name == "relevance_judge"
    series = judge.score(FRAME)
    assert (series.name, series.dtype, list(series)) == ("relevance", np.float64, scores)
    assert list(series.index) == [30, 10, 20]
    assert series.attrs == {"n_failed": 0, "failures": {}}
    table = FRAME.rename(columns={"summary": "text"})
    assert list(judge.score(table, map={"summary": "text"})) == scores
    # As in a spreadsheet whose labels name it so.
    capitals = FRAME.rename(columns={"summary": "Summary ", "document": "DOCUMENT"})
    assert list(judge.score(capitals)) == scores
    nested = [{"data": text} for text in TEXTS]
    paths = {name: f"data.{name}" for name in TEXTS[0]}
    assert [each.score for each in judge.judge_all(nested, map=paths)] == scores
    assert list(judge.score(pd.DataFrame(nested), map=paths)) == scores
    places_only = table.set_axis(range(len(table.columns)), axis="columns")
    places = {name: place for place, name in enumerate(TEXTS[0])}
    assert list(judge.score(places_only, map=places)) == scores


def test_wrong_texts_and_missing_columns_are_named_before_anything_is_asked(stub):
    with pytest.raises(TypeError, match="reads document, summary; you gave document, s"):
        load("relevance", stub)(document="d", s="s")
    lacks = r"no column 'summary'.*columns: document, id.*summary=COLUMN"
    with pytest.raises(MissingColumnError, match=lacks):
        load("relevance", stub).score(FRAME.drop(columns="summary"))
    assert not stub.prompts


def test_a_mapping_of_an_unread_text_is_refused(stub):
    judge, options = load("relevance", stub), {"map": {"sumary": "text"}}
    uses = [
        lambda: judge.score(FRAME, **options),
        lambda: next(judge.judge_all(TEXTS, **options)),
        lambda: judge.open(**options).__enter__(),
        lambda: JudgeBatch(judge, workers=1, **options),
        lambda: OpenJudge(judge, options, output="out"),
    ]
    for use in uses:
        with pytest.raises(OptionError, match="reads document, summary, and no 'sumary'"):
            use()
    with pytest.raises(OptionError, match="map 'columns': expected a dict"):
        judge.score(FRAME, map="columns")


RELATION = type("DuckDBPyRelation", (), {"__module__": "duckdb"})()
UNTUNED, PRICE = judges.load("relevance"), r"write \(IN, OUT\), US dollars per million"
NO_ROW = r"a row is 'document'; give a list of dicts .*or score a DataFrame by judge\.score\(\)"


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: UNTUNED.score(FRAME, price="0.4"), PRICE),
        (lambda: UNTUNED.score(FRAME, price=(-1, -1)), PRICE),
        (lambda: judges.load("relevance", lm=object()), r"or ask a dspy\.LM by judge\.program"),
        (lambda: UNTUNED.score(RELATION), r"not duckdb's DuckDBPyRelation; convert it by .*df\(\)"),
        (lambda: list(UNTUNED.judge_all(FRAME[["document", "summary"]])), NO_ROW),
        (lambda: list(UNTUNED.judge_all(TEXTS[0])), NO_ROW),
        (lambda: judges.SamplingPlan(kind="avg"), "plan 'avg': choose from one, mean, weighted"),
        (lambda: UNTUNED.score(pd.concat([FRAME, FRAME], axis=1)), "two columns are called 'docu"),
    ],
)
def test_a_wrong_argument_is_named_with_what_to_write(use, says):
    with pytest.raises((ValueError, TypeError), match=says):
        use()


def test_a_judge_tuned_for_the_embedded_model_warns_another(stub):
    tuned = replace(UNTUNED, provenance={"endpoint": "embedded"})
    says = "tuned for the embedded model: with openai/m its measured figures do not hold"
    with pytest.warns(UserWarning, match=says):
        assert len(list(tuned.judge_all(TEXTS, lm="openai/m"))) == 3
    # Warnings are errors in tests: neither of these has one.
    assert list(tuned.score(FRAME)) == list(UNTUNED.score(FRAME))
    assert len(list(load("relevance", stub).judge_all(TEXTS))) == 3


def test_a_series_counts_failures_which_are_nan(stub):
    texts = ["garble", None, "s2", float("nan"), pd.NA, pd.NaT, b"bytes"]
    frame = pd.DataFrame({"document": "d", "summary": pd.Series(texts, dtype=object)})
    with pytest.warns(FailedJudgementWarning, match="relevance: 6 of 7 judgements failed"):
        series = load("relevance", stub).score(frame)
    assert list(series.isna()) == [True, True, False, *[True] * 4]
    assert series.attrs["n_failed"] == 6
    assert series.attrs["failures"]["no summary"] == 4


def test_a_notebook_shows_a_judge_and_runs_nothing_of_it():
    subject = replace(FLUENCY, instruction="Rate <script>alert(1)</script>.")
    html = Judge.of(subject)._repr_html_()
    assert html.startswith("<details><summary>Judge(&#x27;fluency&#x27;, rating, reads summary")
    assert "Rate &lt;script&gt;alert(1)&lt;/script&gt;." in html
    assert "<script" not in html


def test_a_frame_of_conversations_is_scored_by_its_last_turn():
    messages = ("user", "Where is it?"), ("assistant", "On the shelf by the door.")
    turns = [{"role": role, "content": text} for role, text in messages]
    judge: Any = Judge.of(make_dimension("label", ("pass", "fail"), ("input", "output")))
    alone = judge(input="User: Where is it?", output="On the shelf by the door.")
    assert list(judge.score(pd.DataFrame({"messages": [turns, turns]}))) == [alone.score] * 2
    # As pandas reads them from Parquet, under the very name that a judge reads.
    whole: Any = Judge.of(make_dimension("kind", ("pass", "fail"), ("conversation",)))
    frame = pd.DataFrame({"conversation": [np.array(turns, dtype=object)]})
    text = "User: Where is it?\nAssistant: On the shelf by the door."
    assert list(whole.score(frame)) == [whole(conversation=text).score]


@pytest.mark.usefixtures("here")
def test_load_takes_names_files_folders_and_definitions():
    frozen = Judge.of(FLUENCY).with_plan(ONE_REPLY_PLAN)
    Path("relevance").mkdir()
    frozen.save("relevance/judge.json")
    assert judges.load("./relevance") == judges.load("relevance/judge.json") == frozen
    assert judges.load("relevance").name == "relevance"
    Path("my.yaml").write_text("{name: a, definition: d, inputs: [x], scale: [1, 3]}")
    assert judges.load("my.yaml").texts == ("x",)
    assert judges.load("tldr_concise").subject == TLDR_CONCISE


def test_a_second_call_opens_no_thread_no_file_and_no_connection():
    def resources() -> object:
        return threading.active_count(), sorted(Path("/proc/self/fd").iterdir())

    with serving(OpenAIServer(models=("judge-1",))) as server:
        judge: Any = judges.load("fluency", lm="openai/judge-1", api_base=server.url)
        judge(summary="The first of the calls.")
        before = resources()
        for number in range(3):
            assert judge(summary=f"Another text, number {number}.").failure is None
        assert resources() == before
        assert len(server.log) == 4


# For other engines' batches: pickled, called, and kept to its share of the limits.
ROWS: list[dict[str, Any]] = [
    {"document": f"They met in room {i} for {i} weeks.", "summary": "They met." * (i % 3 + 1)}
    for i in range(20)
]
ROWS[7] = {"document": "Nothing to judge.", "summary": None}
OFFLINE, ASKING = judges.load("relevance"), judges.load("relevance", lm="openai/judge-1")


def test_a_pickled_callable_gives_every_kind_of_batch_the_local_scores():
    expected: Any = pytest.approx([one.score for one in OFFLINE.judge_all(ROWS)], nan_ok=True)
    frame = pd.DataFrame(ROWS, index=range(100, 120))
    call = pickle.loads(pickle.dumps(JudgeBatch(OFFLINE, workers=2)))
    results = call(frame)
    assert list(results.columns) == [*frame.columns, "relevance", "relevance_failure"]
    assert list(results.index) == list(frame.index)
    assert results["relevance"].tolist() == expected
    assert results["relevance_failure"][107] == "no summary"
    for arrow in (pa.table(frame), pa.RecordBatch.from_pandas(frame, preserve_index=False)):
        table = call(arrow)
        assert type(table) is type(arrow)
        assert table["relevance"].to_pylist()[7] is None
        assert table["relevance"].to_numpy(zero_copy_only=False).tolist() == expected
        assert table["relevance_failure"].to_pylist()[6:8] == [None, "no summary"]
        assert table.schema.field("relevance_failure").type == pa.string()
    scores = call({name: frame[name].to_numpy() for name in frame.columns})["relevance"]
    assert isinstance(scores, np.ndarray)
    assert scores.tolist() == expected


def test_each_worker_spends_its_share_and_the_rows_left_say_so(openai_server):
    call = JudgeBatch(ASKING, workers=2, max_calls=7, map={"summary": "draft"})
    frame = pd.DataFrame(ROWS[8:13]).rename(columns={"summary": "draft"})
    scores = call(frame)
    assert scores["relevance"].notna().sum() == 3
    assert "the budget of 3 calls is spent" in scores["relevance_failure"].iloc[4]
    assert math.isnan(call(frame)["relevance"].iloc[0])
    assert JudgeBatch(ASKING, workers=4, max_cost=8.0).worker_options == {"max_cost": 2.0}


def test_a_judge_that_asks_questions_adds_a_column_for_each_answer(openai_server):
    openai_server.judge = lambda body: form(short="yes", rating=4)
    question = judges.Question(name="short", text="is it short")
    judge = judges.Judge.of(RELEVANCE, lm="openai/judge-1", questions=[question])
    scores = JudgeBatch(judge, workers=1)(pd.DataFrame(ROWS[6:8]))
    columns = scores[["relevance", "relevance_short", "relevance_rating"]]
    assert columns.iloc[0].tolist() == [4.0, 1.0, 4.0]
    assert columns.iloc[1].isna().all()


def test_a_share_or_a_batch_that_cannot_be_is_refused():
    with pytest.raises(OptionError, match="max_calls 0"):
        JudgeBatch(OFFLINE, workers=3, max_calls=2)
    with pytest.raises(OptionError, match="has a column 'relevance' already"):
        JudgeBatch(OFFLINE, workers=1)(pd.DataFrame([{**ROWS[0], "relevance": 3}]))
    with pytest.raises(MissingColumnError, match=r"no column 'summary'.*columns: document"):
        JudgeBatch(OFFLINE, workers=1)(pa.table({"document": ["A text."]}))
