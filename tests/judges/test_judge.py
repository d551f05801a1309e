"""Running a judge: one output, a table, a Dataset's rows, a notebook."""

import dataclasses
import math
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from openai_server import OpenAIServer, Serving
from scripted_model import Scripted, rating_of

import judges
from judges.base_judge import FailedJudgementWarning, MissingColumnError
from judges.catalog import FLUENCY, TLDR_CONCISE
from judges.judge import Judge
from judges.judgement import Judgement, Preference
from judges.scoring import SamplingPlan

ONE = SamplingPlan(kind="one")


def expected(judge: Judge, **texts: str) -> float:
    return float(rating_of(judge.prompt.messages(texts)[-1]["content"]))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = Scripted()
    monkeypatch.setattr("judges.client.open.open_model", lambda lm, **_: model)
    return model


@pytest.fixture
def load(scripted: Scripted) -> Callable[[str], Judge]:
    """Catalogue judges that ask `scripted`, by a name that no other test has opened."""
    return lambda name: judges.load(name, lm=f"openai/scripted-{id(scripted)}")


Load = Callable[[str], Judge]


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"document": ["d0", "d1", "d2"], "summary": ["s0", "s1", "s2"], "id": [7, 8, 9]},
        index=[30, 10, 20],
    )


def test_the_public_names_are_there_and_no_other() -> None:
    for name in judges.__all__:
        assert getattr(judges, name) is not None
    assert set(judges.__all__) <= set(dir(judges))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        judges.nope  # noqa: B018


def test_a_judge_is_called_with_its_texts(
    scripted: Scripted, load: Load, capsys: pytest.CaptureFixture
) -> None:
    judge = load("relevance")
    said = judge(document="d", summary="s")
    assert isinstance(said, Judgement)
    assert said.score == expected(judge, document="d", summary="s")
    assert (said.rating, said.failure) == (int(said.score), None)
    assert capsys.readouterr() == ("", "")


def test_a_call_with_the_wrong_texts_says_which(scripted: Scripted, load: Load) -> None:
    with pytest.raises(TypeError, match="reads document, summary; you gave document, s"):
        load("relevance")(document="d", s="s")
    assert not scripted.asked


def test_a_series_has_the_frames_index_and_the_judges_name(
    scripted: Scripted, load: Load, frame: pd.DataFrame
) -> None:
    judge = load("relevance")
    series = judge.score(frame)
    assert list(series.index) == [30, 10, 20]
    assert (series.name, series.dtype) == ("relevance", np.float64)
    wanted = [expected(judge, document=f"d{i}", summary=f"s{i}") for i in range(3)]
    assert list(series) == wanted
    assert series.attrs == {"n_failed": 0, "failures": {}}
    frame["relevance"] = series
    assert list(frame["relevance"]) == wanted


def test_a_series_counts_failures_which_are_nan(
    scripted: Scripted, load: Load, frame: pd.DataFrame
) -> None:
    frame["summary"] = ["garble", None, "s2"]
    missing = [float("nan"), pd.NA, pd.NaT, b"bytes"]
    more = pd.DataFrame({"document": "d", "summary": pd.Series(missing, dtype=object)})
    with pytest.warns(FailedJudgementWarning, match="relevance: 6 of 7 judgements failed"):
        series = load("relevance").score(pd.concat([frame, more]))
    assert list(series.isna()) == [True, True, False, *[True] * 4]
    assert series.attrs["n_failed"] == 6
    assert series.attrs["failures"]["no summary"] == 4


def test_a_missing_column_is_one_clear_error(
    scripted: Scripted, load: Load, frame: pd.DataFrame
) -> None:
    with pytest.raises(
        MissingColumnError, match=r"no column 'summary'.*columns: document, id"
    ) as e:
        load("relevance").score(frame.drop(columns="summary"))
    assert "summary=COLUMN" in str(e.value)
    assert not scripted.asked


def test_columns_can_be_mapped(scripted: Scripted, load: Load, frame: pd.DataFrame) -> None:
    renamed = frame.rename(columns={"summary": "text"})
    judge = load("relevance")
    scores = list(judge.score(frame))
    assert list(judge.score(renamed, map={"summary": "text"})) == scores
    # As in a spreadsheet whose labels name it so.
    cased = frame.rename(columns={"summary": "Summary ", "document": "DOCUMENT"})
    assert list(judge.score(cased)) == scores
    numbered = renamed.set_axis(range(len(renamed.columns)), axis="columns")
    places = {name: place for place, name in enumerate(frame.columns)}
    assert list(judge.score(numbered, map=places)) == scores


def test_a_pairwise_judge_gives_margins_and_swaps_with_its_sides(
    scripted: Scripted, load: Load
) -> None:
    judge = load("tldr_concise")
    pairs = pd.DataFrame({"post": ["p", "q"], "response_a": ["good", "bad"]})
    pairs["response_b"] = ["bad", "good"]
    assert list(judge.score(pairs)) == [1.0, -1.0]
    assert len(scripted.asked) == 4
    said = judge(post="p", summary_a="bad", summary_b="good")
    assert isinstance(said, Preference)
    assert (said.preferred, said.comparison) == ("B", "Good it is.")


def test_another_library_s_frame_is_refused_with_the_way_out(frame: pd.DataFrame) -> None:
    relation = type("DuckDBPyRelation", (), {"__module__": "duckdb"})()
    with pytest.raises(TypeError, match=r"not duckdb's DuckDBPyRelation; convert it by .*df\(\)"):
        judges.load("relevance").score(relation)


def test_a_notebook_shows_a_judge_and_runs_nothing_of_it() -> None:
    subject = dataclasses.replace(FLUENCY, instruction="Rate <script>alert(1)</script>.")
    html = Judge.of(subject)._repr_html_()
    assert html.startswith("<details><summary>Judge(&#x27;fluency&#x27;, rating, reads summary")
    assert "Rate &lt;script&gt;alert(1)&lt;/script&gt;." in html
    assert "<script" not in html


def test_a_list_of_texts_is_judged_as_one_text_as_labels_are_read(frame: pd.DataFrame) -> None:
    judge, texts = judges.load("fluency"), ["One fine day.", None, "It rained."]
    whole = judge(summary="One fine day.\n\nIt rained.")
    assert isinstance(whole, Judgement)
    cells = pd.Series([texts, np.array(texts, dtype=object), [1, "x"]])
    with pytest.warns(FailedJudgementWarning, match="summary is list, not a text"):
        scores = judge.score(pd.DataFrame({"summary": cells}))
    assert scores.tolist()[:2] == [whole.score] * 2
    assert math.isnan(scores[2])


def test_scores_never_have_the_name_of_a_column_which_polars_would_replace() -> None:
    frame = pd.DataFrame({"summary": ["The mill burnt down."]})
    judge = judges.load("fluency")
    assert judge.score(frame).name == "fluency"
    assert judge.score(frame.assign(fluency=4)).name == "fluency_judge"


def test_a_frame_of_conversations_is_scored_by_its_last_turn() -> None:
    said = ("user", "Where is it?"), ("assistant", "On the shelf by the door.")
    turns = [{"role": role, "content": text} for role, text in said]
    judge = judges.loading.dimension_on("label", ("pass", "fail"), ("input", "output"))
    scores = Judge.of(judge).score(pd.DataFrame({"messages": [turns, turns]}, index=[4, 2]))
    assert list(scores.index) == [4, 2]
    alone = Judge.of(judge)(input="User: Where is it?", output="On the shelf by the door.")
    assert list(scores) == [alone.score] * 2
    # As pandas reads them from Parquet, under the very name that a judge reads.
    whole = Judge.of(judges.loading.dimension_on("kind", ("pass", "fail"), ("conversation",)))
    frame = pd.DataFrame({"conversation": [np.array(turns, dtype=object)]})
    text = "User: Where is it?\nAssistant: On the shelf by the door."
    assert list(whole.score(frame)) == [whole(conversation=text).score]


def test_load_takes_names_files_folders_and_definitions(tmp_path: Path) -> None:
    frozen = Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE)
    frozen.save(tmp_path / "judge.json")
    assert judges.load(tmp_path) == judges.load(tmp_path / "judge.json") == frozen
    (tmp_path / "my.yaml").write_text("{name: a, definition: d, inputs: [x], scale: [1, 3]}")
    assert judges.load(tmp_path / "my.yaml").texts == ("x",)
    assert judges.load("tldr_concise").subject == TLDR_CONCISE


def test_a_catalogue_name_beats_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("relevance").mkdir()
    Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE).save("relevance/judge.json")
    assert judges.load("relevance").name == "relevance"
    assert judges.load("./relevance").name == "fluency"


def test_a_second_call_opens_no_thread_no_file_and_no_connection() -> None:
    with Serving(OpenAIServer(models=("judge-1",))) as server:
        judge = judges.load("fluency", lm="openai/judge-1", api_base=server.url)
        judge(summary="The first of the calls.")
        before = threading.active_count(), sorted(Path("/proc/self/fd").iterdir())
        for number in range(3):
            assert judge(summary=f"Another text, number {number}.").failure is None
        assert (threading.active_count(), sorted(Path("/proc/self/fd").iterdir())) == before
        assert len(server.log) == 4
