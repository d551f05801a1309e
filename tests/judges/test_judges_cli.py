"""dspy-judges score and winrate: what they print and write."""

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from jsonl import read_jsonl, write_jsonl
from openai_server import OpenAIServer
from scipy.stats import spearmanr
from table_folder import LM, wanted

from judges.__main__ import main
from judges.catalog import find
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.verify import command as verify

ONE = SamplingPlan(kind="one")
FLUENCY = find("fluency")
pytestmark = pytest.mark.usefixtures("table_folder")
Captured = pytest.CaptureFixture[str]


def frozen(path: str, **provenance: object) -> None:
    judge = Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, provenance=provenance or None)
    judge.save(path, overwrite=True)


def test_score_writes_each_row_and_its_judgements(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    ask = ["score", "relevance", "fluency", "--data", "in.jsonl", "--out", "o.jsonl", *LM]
    assert main(ask) == 0
    out, err = capsys.readouterr()
    rows = zip(read_jsonl("o.jsonl"), read_jsonl("in.jsonl"), strict=True)
    for i, (row, read) in enumerate(rows):
        judgements = row.pop("judgements")
        assert row == read
        assert list(judgements) == ["relevance", "fluency"]
        for name, judgement in judgements.items():
            assert judgement["score"] == judgement["rating"] == wanted(name, i)
            assert judgement["failure"] is None
    given = [[wanted(name, i) for i in range(6)] for name in ("relevance", "fluency")]
    (mean, sd), (other_mean, other_sd) = ((np.mean(scores), np.std(scores)) for scores in given)
    assert out.splitlines() == [
        f"relevance  mean {mean:.3f}  sd {sd:.3f}  n=6 (0 failed)",
        f"fluency    mean {other_mean:.3f}  sd {other_sd:.3f}  n=6 (0 failed)",
    ]
    assert "estimate: 12 requests" in err
    assert "judging: 6 of 6 rows [" in err
    assert {path.name for path in Path().iterdir()} == {"in.csv", "in.jsonl", "o.jsonl"}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_flat_tables_get_two_columns_a_judge(openai_server: OpenAIServer, form: str) -> None:
    assert main(["score", "relevance", "--data", "in.csv", "--out", f"o.{form}", *LM]) == 0
    if form == "parquet":
        table = pq.read_table("o.parquet").to_pydict()
        scores, failures = table["relevance"], table["relevance_failure"]
        assert failures == [None] * 6
    else:
        with Path(f"o.{form}").open(newline="") as file:
            read = list(csv.DictReader(file))
        assert list(read[0]) == ["id", "document", "summary", "relevance", "relevance_failure"]
        scores = [float(row["relevance"]) for row in read]
        assert {len(row["relevance"]) for row in read} == {len("4.0")}
    assert scores == [wanted("relevance", i) for i in range(6)]


def test_failures_are_empty_counted_and_told(openai_server: OpenAIServer, capsys: Captured) -> None:
    openai_server.judge = lambda body: (
        "no idea" if "garble" in body["messages"][-1]["content"] else "4"
    )
    rows = [{"summary": "s0"}, {"summary": ""}, {"text": "x"}, {"summary": "garble"}]
    write_jsonl("in.jsonl", rows)
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl", "--json", *LM]) == 0
    result = json.loads(capsys.readouterr().out)["judges"]["fluency"]
    assert (result["n"], result["n_failed"]) == (1, 3)
    judgements = [row["judgements"]["fluency"] for row in read_jsonl("o.jsonl")]
    failures = [judgement["failure"] for judgement in judgements]
    assert failures[:3] == [None, "summary is empty", "no summary"]
    assert "no idea" in failures[3]
    assert [judgement["score"] for judgement in judgements] == [4.0, None, None, None]


def test_winrate_writes_verdicts_and_a_win_rate(pairs: str, capsys: Captured) -> None:
    ask = ["winrate", "tldr_concise", "--data", pairs, *LM]
    assert main([*ask, "--out", "v.jsonl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["win_rate_a"], result["n"], result["n_ties"], result["n_failed"]) == (1, 6, 0, 0)
    assert (result["flip_rate"], result["position_bias"]) == (0, 0)
    for row in read_jsonl("v.jsonl"):
        assert row["verdict"] == {
            "preferred": "A",
            "order_ab": "A",
            "order_ba": "A",
            "comparison": "Good it is.",
            "failure": None,
        }
    assert main([*ask, "--out", "v.csv"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    # Three documents, so 1, 1, 1 and an added 0 and 1: .8 less 2.776 standard errors of .2.
    assert first == "tldr_concise win rate of A 1.000 [0.245, 1.000] n=6 pairs (0 ties, 0 failed)"


def test_a_dry_run_estimates_and_sends_nothing(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    ask = ["score", "relevance", "--data", "in.jsonl", "--dry-run", "--lm", "openai/gpt-4.1-mini"]
    assert main([*ask, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["requests"], result["lm"]) == (6, ["openai/gpt-4.1-mini"])
    assert 0 < result["cost_usd"] < 0.01
    assert main([*ask, "--plan", "mean", "--samples", "20"]) == 0
    assert "6 requests, about" in capsys.readouterr().out
    assert not openai_server.log
    assert sorted(path.name for path in Path().iterdir()) == ["in.csv", "in.jsonl"]


def test_frozen_files_folders_and_definitions_are_judges(capsys: Captured) -> None:
    frozen("judge.json")
    Path("run").mkdir()
    frozen("run/judge.json")
    Path("my.yaml").write_text("{name: mine, definition: d, inputs: [summary], scale: [1, 5]}")
    for number, judge in enumerate(["judge.json", "run", "my.yaml"]):
        assert main(["score", judge, "--data", "in.csv", "--out", f"{number}.csv"]) == 0
    assert Path("0.csv").read_text() == Path("1.csv").read_text()
    assert Path("2.csv").read_text().startswith("id,document,summary,mine,mine_failure\n")
    assert "note:" not in capsys.readouterr().err


def test_what_a_frozen_judge_was_not_measured_with_is_noted_or_refused(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    frozen("j.json")
    ask = ["score", "j.json", "--data", "in.csv", "--out", "o.csv"]
    assert main([*ask, "--reasoning", "steps"]) == 2
    assert "--reasoning is for judges that are not" in capsys.readouterr().err
    assert main([*ask, *LM]) == 0
    assert "note: fluency was frozen for embedded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("constructed", "shipped", "noted"), [(True, "tuned", True), (True, "seed", False)]
)
def test_a_judge_that_constructed_labels_taught_says_so_when_it_is_used(
    constructed: bool, shipped: str, noted: bool, capsys: Captured
) -> None:
    data = {"name": "labels", "sha256": "0" * 64, "constructed": constructed}
    frozen("judge.json", data=data, shipped=shipped)
    assert main(["score", "judge.json", "--data", "in.csv", "--out", "o.csv"]) == 0
    err = capsys.readouterr().err
    assert ("note: fluency was tuned on constructed labels" in err) == noted


def test_a_taken_column_gets_the_judge_beside_it_and_rows_without_ids_their_number(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    Path("in.csv").write_text("text,fluency\ns0,4\n")
    ask = ["score", "fluency", "--data", "in.csv", "--map", "summary=text", *LM, "--out"]
    assert main([*ask, "o.csv"]) == 0
    capsys.readouterr()
    assert Path("o.csv").read_text() == (
        f"text,fluency,id,fluency_judge,fluency_judge_failure\ns0,4,1,{wanted('fluency', 0)},\n"
    )
    Path("in.csv").write_text("text,fluency,fluency_judge\ns0,4,4\n")
    assert main([*ask, "again.csv"]) == 1
    assert "columns 'fluency' and fluency_judge exist already" in capsys.readouterr().err


def test_verify_reads_the_scores_of_a_sheet_without_ids(capsys: Captured) -> None:
    """People's ratings stand in a column of the judge's name, and a cell has two lines."""
    rows = ['"It rained.","Rain.",5', '"It rained.","Sun\nall day.",1', '"A mill burnt.","Fire.",3',
            '"A mill burnt.","A mill burnt down.",4']  # fmt: skip
    Path("labels.csv").write_text("\n".join(["document,summary,relevance", *rows]) + "\n")
    assert main(["score", "relevance", "--data", "labels.csv", "--out", "out.csv"]) == 0
    read = list(csv.DictReader(StringIO(Path("out.csv").read_text())))
    assert [row["id"] for row in read] == [*"1234"]
    capsys.readouterr()
    ask = ["--scores", "out.csv", "--data", "labels.csv", "--dimension", "relevance", "--json"]
    assert verify(ask) == 0
    cells = json.loads(capsys.readouterr().out)["correlations"]
    scores = [float(row["relevance_judge"]) for row in read]
    cell = next(
        cell for cell in cells if (cell["level"], cell["coefficient"]) == ("dataset", "spearman")
    )
    assert cell["n_outputs"] == 4
    assert cell["value"] == pytest.approx(spearmanr(scores, [5, 1, 3, 4]).statistic)


def test_nothing_scored_is_a_failure(capsys: Captured) -> None:
    Path("in.jsonl").write_text('{"summary": ""}\n')
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 1
    assert "no row got a score; the first reason: summary is empty" in capsys.readouterr().err


def test_the_first_row_may_lack_a_column() -> None:
    write_jsonl(Path("in.jsonl"), [{"id": "a"}, {"id": "b", "summary": "A bridge is closed."}])
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 0
    first, second = [row["judgements"]["fluency"] for row in read_jsonl("o.jsonl")]
    assert first["failure"] == "no summary"
    assert second["score"] is not None


def test_conversations_are_scored_as_texts_and_written_as_they_came() -> None:
    said = "The bridge is closed."
    turns = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": said}]
    write_jsonl(Path("talks.jsonl"), [{"messages": turns}, {"messages": turns[:1]}])
    ask = ["score", "fluency", "--map", "summary=output", "--data", "talks.jsonl"]
    assert main([*ask, "--out", "o.jsonl"]) == 0
    first, second = read_jsonl("o.jsonl")
    assert first["messages"] == turns
    assert first["judgements"]["fluency"]["score"] == round(
        Judge.of(FLUENCY)(summary=said).score, 3
    )
    assert second["judgements"]["fluency"]["failure"] == "no summary"
