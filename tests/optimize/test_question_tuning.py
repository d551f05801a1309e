"""A judge tuned to ask questions, from labels to every place where a person meets them."""

import re

import numpy as np
import pandas as pd
import pytest
from behaving_model import Model
from files import read_jsonl, write_jsonl
from judge_cases import form

import judges
import optimize
from judges import Dimension, Question
from judges.__main__ import main as judges_main
from judges.client import add_provider

DEADLINE = Question(name="deadline", text="does the reply say until when to ask")
WEATHER = Question(name="weather", text="does the reply mention the weather")
REPLY = Dimension(
    name="helpful",
    definition="whether the reply helps the customer",
    inputs={"reply": "the reply to judge"},
    anchors={0: "", 1: ""},
    words=("pass", "fail"),
    instruction="Judge whether the reply helps.",
    questions=(WEATHER, DEADLINE),
)


def answer(prompt, sampling, before):
    """Pass replies by their length, and answer about the deadline rightly."""
    reply = prompt.partition("[[ ## reply ## ]]\n")[2].partition("\n\n")[0]
    answers = {
        "weather": "yes" if "sunny" in reply else "no",
        "deadline": "yes" if "until Friday" in reply else "no",
        "verdict": "pass" if "long" in reply else "fail",
    }
    asked = prompt.rpartition("\n\n")[2]
    chosen = {name: answers[name] for name in answers if f"## {name} ##" in asked}
    return form(**chosen) if chosen else answers["verdict"]


def rows(number=160):
    """People pass what names a deadline, and a little what is long."""
    rng = np.random.default_rng(0)
    for n in range(number):
        deadline, long, sunny, luck = (rng.random(4) < (0.5, 0.5, 0.5, 0.15)).tolist()
        sentences = [f"Reply {n}."] + ["It goes on for long."] * long
        sentences += ["Ask until Friday."] * deadline + ["It is sunny."] * sunny
        label = (deadline or (long and rng.random() < 0.3)) != luck
        yield {"reply": " ".join(sentences), "helpful": "pass" if label else "fail"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    add_provider("support", lambda name: Model(answer, endpoint="support"))
    out = tmp_path_factory.mktemp("tuned") / "run"
    models = {"lm": "support/one", "proposer_lm": "embedded", "price": "1,4"}
    return optimize.tune(REPLY, list(rows()), **models, out=out, quiet=True)


def test_the_useful_question_ships_with_its_weight_and_its_contribution(run):
    assert run.summary["shipped"] == "tuned"
    deadline, verdict = run.summary["answers"]
    assert (deadline["name"], verdict["name"]) == ("deadline", "verdict")
    assert deadline["share"] > 0.5
    assert deadline["share"] + verdict["share"] == pytest.approx(1, abs=1e-5)
    assert deadline["loss"] > 0.1
    assert "loss" not in verdict
    assert [field.name for field in run.judge.prompt.question_fields] == ["deadline"]
    questions = {tuple(trial) for trial in run.trials["questions"].dropna() if trial}
    assert questions == {("weather", "deadline")}


def test_screen_and_page_list_the_questions_and_their_cost(run):
    text = " ".join(str(run).split())
    assert re.search(r"Asks: deadline \(\d+%\), in addition to its own verdict \(\d+%\)\.", text)
    assert re.search(r"1,000 rows will cost \$[\d.]+, untuned \$[\d.]+ \(", text)
    page = run.report.read_text()
    assert "share of the score" in page
    assert 'Decided by: <b class="question">deadline = no</b>' in page
    misses = pd.read_csv(run.folder / "misses.csv")
    assert set(misses["decided_by"]) <= {"deadline = no", "deadline = yes", "verdict = fail"}


def test_show_score_and_python_name_the_questions_and_the_deciding_answer(run, here, capsys):
    assert judges_main(["show", str(run.folder)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\d+% deadline \(yes/no\) \(-0\.\d+\): does the reply say until when", text)
    write_jsonl("rows.jsonl", [{"reply": "It goes on for long."}])
    command = ["score", str(run.folder), "--data", "rows.jsonl", "--lm", "support/one"]
    assert judges_main([*command, "--out", "out.jsonl"]) == 0
    (row,) = read_jsonl("out.jsonl")
    judgement = row["judgements"]["helpful"]
    assert judgement["answers"] == {"deadline": 0.0, "verdict": 1.0}
    assert judgement["decided_by"] == "deadline = no"
    judgement = judges.load(run.folder, lm="support/one")(reply="Ask until Friday.")
    assert (judgement.decided_by, judgement.rating) == ("deadline = yes", 1)
