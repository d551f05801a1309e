"""A judge tuned to ask questions, from labels to every place where a person meets them."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import judges
import optimize
from judges import Dimension, Question
from judges.__main__ import main as judges_main
from judges.client import add_provider
from judges.protocol import Completion, Reply

FIELDS = re.compile(r"^- (\w+) \(", re.MULTILINE)
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


class Support:
    """Passes replies by their length, and answers about the deadline rightly."""

    native_n, has_logprobs, endpoint = True, False, "support"

    def __init__(self, name):
        self.name = name

    async def complete(self, messages, sampling):
        """Answer every field that the system message lists."""
        reply = messages[-1]["content"].partition("[[ ## reply ## ]]\n")[2].partition("\n\n")[0]
        answers = {
            "deadline": "yes" if "until Friday" in reply else "no",
            "weather": "yes" if "sunny" in reply else "no",
            "verdict": "pass" if "long" in reply else "fail",
        }
        names = [name for name in FIELDS.findall(messages[0]["content"]) if name in answers]
        blocks = [f"[[ ## {name} ## ]]\n{answers[name]}" for name in names]
        text = (
            "\n\n".join([*blocks, "[[ ## completed ## ]]"]) if len(names) > 1 else answers[names[0]]
        )
        return Completion(
            replies=(Reply(text=text),) * sampling.n, tokens_in=100, tokens_out=8, model=self.name
        )

    async def close(self): ...


def rows(number=160):
    """People pass what names a deadline, and a little what is long."""
    rng = np.random.default_rng(0)
    for n in range(number):
        deadline, long, sunny, luck = (rng.random(4) < (0.5, 0.5, 0.5, 0.15)).tolist()
        said = [f"Reply {n}."] + ["It goes on for long."] * long
        said += ["Ask until Friday."] * deadline + ["It is sunny."] * sunny
        label = (deadline or (long and rng.random() < 0.3)) != luck
        yield {"reply": " ".join(said), "helpful": "pass" if label else "fail"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    add_provider("support", Support)
    return optimize.tune(
        REPLY,
        list(rows()),
        lm="support/one",
        proposer_lm="embedded",
        price="1,4",
        out=tmp_path_factory.mktemp("tuned") / "run",
        quiet=True,
    )


def test_the_useful_question_ships_with_its_weight_and_what_it_is_worth(run):
    assert run.summary["shipped"] == "tuned"
    deadline, verdict = run.summary["answers"]
    assert (deadline["name"], verdict["name"]) == ("deadline", "verdict")
    assert deadline["share"] > 0.5
    assert deadline["share"] + verdict["share"] == pytest.approx(1, abs=1e-5)
    assert deadline["loss"] > 0.1
    assert "loss" not in verdict
    assert [field.name for field in run.judge.prompt.questions] == ["deadline"]
    assert {tuple(trial) for trial in run.trials["questions"].dropna() if trial} == {
        ("weather", "deadline")
    }


def test_screen_and_page_say_what_is_asked_and_what_it_costs(run):
    text = " ".join(str(run).split())
    assert re.search(r"Asks: deadline \(\d+%\), in addition to its own verdict \(\d+%\)\.", text)
    assert re.search(r"1,000 rows will cost \$[\d.]+, untuned \$[\d.]+ \(", text)
    page = run.report.read_text()
    assert "share of the score" in page
    assert 'Decided by: <b class="question">deadline = no</b>' in page
    misses = pd.read_csv(run.folder / "misses.csv")
    assert set(misses["decided_by"]) <= {"deadline = no", "deadline = yes", "verdict = fail"}


def test_show_and_score_name_the_questions(run, tmp_path, capsys):
    assert judges_main(["show", str(run.folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\d+% deadline \(yes/no\) \(-0\.\d+\): does the reply say until when", shown)
    (tmp_path / "rows.jsonl").write_text('{"reply": "It goes on for long."}\n')
    command = ["score", str(run.folder), "--data", str(tmp_path / "rows.jsonl")]
    assert judges_main([*command, "--lm", "support/one", "--out", str(tmp_path / "out.jsonl")]) == 0
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    judgement = row["judgements"]["helpful"]
    assert judgement["answers"] == {"deadline": 0.0, "verdict": 1.0}
    assert judgement["decided_by"] == "deadline = no"


def test_in_python_the_frozen_judge_says_which_answer_decided(run):
    judge = judges.load(run.folder, lm="support/one")
    judgement = judge(reply="Ask until Friday.")
    assert judgement.decided_by == "deadline = yes"
    assert judgement.rating == 1
