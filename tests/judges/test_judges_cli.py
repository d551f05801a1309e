"""dspy-judges list, show, score and winrate: what they print and write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_runs import json_of, run
from files import read_jsonl, write_jsonl
from judge_cases import FLUENCY
from table_folder import LM, score_of

import judges
from judges.__main__ import main
from judges.catalog import SUBJECT_BY_NAME
from judges.judge import Judge
from judges.scoring import ONE_REPLY_PLAN

pytestmark = pytest.mark.usefixtures("table_folder")


def freeze(path: str, **provenance: object) -> str:
    judge = Judge.of(FLUENCY).with_plan(ONE_REPLY_PLAN)
    return str(replace(judge, provenance=provenance or None).save(path))


def test_list_is_a_table_of_the_catalogue():
    lines = run(main, "list").stdout.splitlines()
    assert lines[0].split() == ["name", "texts", "scale", "source"]
    assert [line.split()[0] for line in lines[1:]] == list(SUBJECT_BY_NAME)
    texts = {entry["name"]: entry["texts"] for entry in json_of(main, "list")}
    assert texts["fluency"] == ["summary"]
    assert texts["tldr_concise"] == ["post", "summary_a", "summary_b"]


def test_show_tells_where_a_frozen_judge_comes_from():
    data = {"name": "labels.jsonl", "sha256": "0" * 64, "constructed": True}
    origin: Any = {"data": data, "optimizer": "rank", "shipped": "seed"}
    lines = run(main, "show", freeze("j.json", **origin)).stdout.splitlines()
    assert "frozen for embedded, plan one" in lines
    assert "untuned judge of optimizer rank, on labels.jsonl, whose labels no person gave" in lines
    assert json_of(main, "show", "j.json")["provenance"] == origin
    del origin["shipped"]  # as in a run's tuned.json
    assert "tuned, not shipped: judge of" in run(main, "show", freeze("t.json", **origin)).stdout


def test_show_prints_the_first_of_many_demonstrations():
    demo = {"summary": "A text.", "rating": 3}
    judge = Judge.of(FLUENCY).with_plan(ONE_REPLY_PLAN)
    replace(judge, prompt=replace(judge.prompt, demos=(demo,) * 9)).save("j.json")
    shown, lines = json_of(main, "show", "j.json"), run(main, "show", "j.json").stdout.splitlines()
    assert len(shown["messages"]["fluency"]) == 20
    assert lines.count("--- fluency: assistant ---") == 3
    assert "--- 6 more of 9 demonstrations ---" in lines
    assert "{{summary}}" in lines


def test_score_writes_each_row_and_its_judgements(openai_server, capsys):
    ask = ["score", "relevance", "fluency", "--data", "in.jsonl", "--out", "o.jsonl", *LM]
    assert main(ask) == 0
    out, err = capsys.readouterr()
    scores = [[score_of(name, i) for i in range(6)] for name in ("relevance", "fluency")]
    rows = zip(read_jsonl("o.jsonl"), read_jsonl("in.jsonl"), *scores, strict=True)
    for row, read, relevance, fluency in rows:
        judgements = row.pop("judgements")
        assert row == read
        assert [(name, one["score"], one["rating"]) for name, one in judgements.items()] == [
            ("relevance", relevance, relevance),
            ("fluency", fluency, fluency),
        ]
        assert {one["failure"] for one in judgements.values()} == {None}
    assert out.splitlines() == [
        f"{name}  mean {np.mean(each):.3f}  sd {np.std(each):.3f}  n=6 (0 failed)"
        for name, each in zip(("relevance", "fluency  "), scores, strict=True)
    ]
    assert "estimate: 12 requests" in err
    assert "judging: 6 of 6 rows [" in err
    assert {path.name for path in Path().iterdir()} == {"in.csv", "in.jsonl", "o.jsonl"}


def test_flat_tables_get_two_columns_a_judge(openai_server):
    for form in ("csv", "parquet"):
        assert main(["score", "relevance", "--data", "in.csv", "--out", f"o.{form}", *LM]) == 0
    columns = pq.read_table("o.parquet").to_pydict()
    scores = [score_of("relevance", i) for i in range(6)]
    assert (columns["relevance"], columns["relevance_failure"]) == (scores, [None] * 6)
    header, first, *_ = Path("o.csv").read_text().splitlines()
    assert header == "id,document,summary,relevance,relevance_failure"
    assert first == f"0,d0,s0,{scores[0]:.1f},"
    assert list(pd.read_csv("o.csv")["relevance"]) == scores


def test_a_verdict_judge_writes_the_word_beside_the_score():
    Path("safe.yaml").write_text(
        "name: safe\ndefinition: it does no harm\ninputs: [summary]\nscale: [safe, unsafe]\n"
    )
    for form in ("csv", "jsonl"):
        assert main(["score", "safe.yaml", "--data", "in.csv", "--out", f"o.{form}"]) == 0
    table, rows = pd.read_csv("o.csv"), read_jsonl("o.jsonl")
    words = ["safe" if score >= 0.5 else "unsafe" for score in table["safe"]]
    assert list(table["safe_verdict"]) == words
    assert [row["judgements"]["safe"]["verdict"] for row in rows] == words


@pytest.mark.parametrize(
    ("judge", "header", "reading"),
    [
        ("fluency", "model answer,label", "summary from model answer"),
        ("fluency", "Réponse,label", "summary from Réponse"),
        ("fluency", "tweet,label", "summary from tweet"),
        ("tldr_concise", "question,left 1,left 2", "post from question and summary_a from left 1"),
    ],
)
def test_texts_are_in_the_columns_that_check_reads(judge, header, reading, capsys):
    n_texts = header.count(",") + ("label" not in header)
    rows = [f'"This is text {n} of many words"' for n in range(20)]
    label = ",pass" if "label" in header else ""
    lines = [header, *(",".join([row] * n_texts) + label for row in rows)]
    Path("sheet.csv").write_text("\n".join(lines))
    command = "winrate" if judge == "tldr_concise" else "score"
    assert main([command, judge, "--data", "sheet.csv", "--out", "o.csv"]) == 0
    note = f"note: {judge} reads {reading}"
    assert note in capsys.readouterr().err
    with pytest.warns(UserWarning, match=note):
        assert judges.load(judge).score(pd.read_csv("sheet.csv")).notna().all()


def test_failures_are_empty_counted_and_told(openai_server, capsys):
    openai_server.judge = lambda body: "no idea" if "garble" in str(body["messages"]) else "4"
    # The first row may lack a column.
    rows = [{"text": "x"}, {"summary": "s0"}, {"summary": ""}, {"summary": "garble"}]
    write_jsonl("in.jsonl", rows)
    ask = ["score", "fluency", "--data", "in.jsonl", *LM, "--out"]
    summary = json_of(main, *ask, "o.jsonl")["judges"]["fluency"]
    assert (summary["n"], summary["n_failed"]) == (1, 3)
    judgements = [row["judgements"]["fluency"] for row in read_jsonl("o.jsonl")]
    failures = [judgement["failure"] for judgement in judgements]
    assert failures[:3] == ["no summary", None, "summary is empty"]
    assert "no idea" in failures[3]
    assert [judgement["score"] for judgement in judgements] == [None, 4.0, None, None]
    write_jsonl("in.jsonl", [*rows, rows[2]])
    out = run(main, *ask, "twice.jsonl").stdout
    assert out.endswith("n=1 (4 failed)\nfluency  the commonest failure: summary is empty\n")
    write_jsonl("in.jsonl", rows[2:3])
    assert main([*ask, "none.jsonl"]) == 1
    assert "no row got a score; the first reason: summary is empty" in capsys.readouterr().err


def test_winrate_writes_verdicts_and_a_win_rate(pairs):
    ask = ["winrate", "tldr_concise", "--data", pairs, *LM]
    rates = json_of(main, *ask, "--out", "v.jsonl")
    assert (rates["win_rate_a"], rates["n"], rates["n_ties"], rates["n_failed"]) == (1, 6, 0, 0)
    assert (rates["flip_rate"], rates["position_bias"]) == (0, 0)
    verdict = {"preferred": "A", "order_ab": "A", "order_ba": "A", "failure": None}
    verdict |= {"margin": 1, "comparison": "Good it is."}
    assert [row["verdict"] for row in read_jsonl("v.jsonl")] == [verdict] * 6
    first = run(main, *ask, "--out", "v.csv").stdout.splitlines()[0]
    # Three documents, so 1, 1, 1 and an added 0 and 1: .8 less 2.776 standard errors of .2.
    assert first == "tldr_concise win rate of A 1.000 [0.245, 1.000] n=6 pairs (0 ties, 0 failed)"


def test_a_missing_column_is_named_beside_texts_in_objects():
    write_jsonl("in.jsonl", [{"inputs": {"question": "q", "n": 1}, "outputs": {"answer": "a"}}])
    ask = ["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]
    error = run(main, *ask).err
    assert "columns: inputs, inputs.question, outputs, outputs.answer. Name one by --map" in error
    assert json_of(main, *ask, "--map", "summary=outputs.answer")["judges"]["fluency"]["n"] == 1


def test_the_id_may_be_in_an_object():
    write_jsonl("in.jsonl", [{"meta": {"id": name}, "summary": "It rained."} for name in "xy"])
    ask = ["score", "fluency", "--data", "in.jsonl", "--map", "id=meta.id", "--out", "o.jsonl"]
    assert run(main, *ask).code == 0
    assert [row["id"] for row in read_jsonl("o.jsonl")] == ["x", "y"]


def test_a_run_without_a_store_says_what_is_written_and_that_it_cannot_go_on():
    write_jsonl("in.jsonl", [{"summary": f"It rained {n} times."} for n in range(4)])
    ask = ["score", "fluency", "--data", "in.jsonl", "--max-calls", "2", "--out", "o.jsonl"]
    message = "the budget of 2 calls is spent; each start has the whole limit. 2 of 4 rows are in"
    assert run(main, *ask).err.endswith(f"dspy-judges score: {message} o.jsonl.partial")


def test_a_dry_run_estimates_and_sends_nothing(openai_server):
    ask = ["score", "relevance", "--data", "in.jsonl", "--dry-run", "--lm", "openai/gpt-4.1-mini"]
    summary = json_of(main, *ask)
    assert (summary["requests"], summary["lm"]) == (6, ["openai/gpt-4.1-mini"])
    assert 0 < summary["cost_usd"] < 0.01
    assert "6 requests, about" in run(main, *ask, "--plan", "mean", "--samples", "20").stdout
    result = run(main, *ask, "--max-cost", "0.0001")
    assert result.code == 0
    assert "note: --max-cost 0.0001 may end the run before all rows are judged" in result.err
    # What the run would refuse, the dry run refuses, too.
    result = run(main, *ask[:-2], *LM, "--max-cost", "1")
    assert (result.code, "max_cost needs the model's price" in result.err) == (1, True)
    assert not openai_server.log
    assert sorted(path.name for path in Path().iterdir()) == ["in.csv", "in.jsonl"]


def test_options_other_than_a_frozen_judges_are_noted_or_refused(openai_server, capsys):
    ask = ["score", freeze("j.json"), "--data", "in.csv", "--out"]
    assert main([*ask, "o.csv"]) == 0
    assert "note:" not in capsys.readouterr().err
    assert main([*ask, "other.csv", "--reasoning", "steps"]) == 2
    assert "leave out --reasoning" in capsys.readouterr().err
    assert main([*ask, "other.csv", *LM]) == 0
    assert "note: fluency was frozen for embedded" in capsys.readouterr().err


@pytest.mark.parametrize(("shipped", "has_note"), [("tuned", True), ("seed", False)])
def test_a_judge_taught_by_constructed_labels_says_so(shipped, has_note):
    data = {"name": "labels", "sha256": "0" * 64, "constructed": True}
    judge = freeze("judge.json", data=data, shipped=shipped)
    result = run(main, "score", judge, "--data", "in.csv", "--out", "o.csv")
    assert ("note: fluency was tuned on constructed labels" in result.err) == has_note


@pytest.mark.parametrize("column", ["fluency", "Fluency"])
def test_a_taken_column_is_kept_and_rows_without_ids_are_numbered(openai_server, capsys, column):
    Path("in.csv").write_text(f"text,{column}\ns0,4\n")
    ask = ["score", "fluency", "--data", "in.csv", "--map", "summary=text", *LM, "--out"]
    assert main([*ask, "o.csv"]) == 0
    assert Path("o.csv").read_text() == (
        f"text,{column},id,fluency_judge,fluency_judge_failure\ns0,4,1,{score_of('fluency', 0)},\n"
    )
    Path("in.csv").write_text("text,fluency,fluency_judge\ns0,4,4\n")
    assert main([*ask, "again.csv"]) == 1
    assert "columns 'fluency' and fluency_judge exist already" in capsys.readouterr().err
