"""optimize.panel: from members and labels to a frozen panel that says what was measured."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import read_jsonl, write_jsonl
from judge_cases import tuned_on

from judges.loading import load
from optimize import panel, verify
from optimize.items import texts_digest

pytestmark = pytest.mark.usefixtures("here")

DOCUMENTS, SYSTEMS = 24, 5
TEXTS = ("document", "summary")


def world():
    """Labels, and two recorded judges that err differently: each of noise as large as quality."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=DOCUMENTS * SYSTEMS)
    rows = [
        {
            **{"id": f"d{d}s{s}", "group": f"d{d}", "system": f"s{s}", "relevance": rating},
            "document": f"Of d{d}: a fire broke out in the mill at night. Nobody was hurt.",
            "summary": f"A fire, says s{s}. Worth {rating:.0f} of 5. Mill {'and ' * s}.",
        }
        for (d, s), rating in zip(
            np.ndindex(DOCUMENTS, SYSTEMS), np.clip(np.round(3 + quality), 1, 5), strict=True
        )
    ]
    for judge in ("a", "b"):
        scores = (quality + rng.normal(size=quality.size)).tolist()
        records = [{"id": row["id"], "score": n} for row, n in zip(rows, scores, strict=True)]
        write_jsonl(f"{judge}.jsonl", records)
    return ["--dimension", "relevance", "--data", write_jsonl("labels.jsonl", rows)]


RECORDED = ["--scores", "a.jsonl", "--scores", "b.jsonl"]


def refusal_of(*arguments, code=2):
    result = run(panel.command, *arguments)
    assert result.code == code, result.stderr
    assert result.last.startswith("dspy-judges panel")
    return result.last


def test_a_panel_of_recordings_freezes_no_judge():
    flags = [*world(), "relevance@embedded", *RECORDED]
    result = json_of(panel.command, *flags)
    assert (result["folder"], result["shipped"]) == ("runs/panel-001", "learned")
    assert result["gain"]["value"] > result["gain"]["error"]
    test = result["test"]
    assert all(cell.keys() == {"value", "low", "high", "n"} for cell in test.values())
    gap = test["panel"]["value"] - test["own"]["value"]
    assert test["difference"]["value"] == pytest.approx(gap, abs=2e-6)
    # Six documents are too few for an interval.
    assert (test["own"]["n"], test["difference"]["low"]) == (6, None)
    assert sum(member["weight"] for member in result["members"]) == pytest.approx(1, abs=1e-5)
    assert not Path("runs/panel-001/judge.json").exists()
    words = output_of(panel.command, *flags, "--out", "again")
    page = Path("again/report.html").read_text(encoding="utf-8")
    rho = f"{test['panel']['value']:.3f}"
    for part in ("No judge.json was written", rho, "relevance@embedded"):
        assert (part in words, part in page) == (True, True)


@pytest.fixture
def members(openai_server):
    openai_server.judge = noisy_rating
    openai_server.models = ("judge-1", "judge-2", "judge-3")
    return [f"{name}=relevance@openai/{name}" for name in openai_server.models]


def test_a_shipped_panel_scores_as_it_was_measured(members):
    flags = [*world(), *members]
    result = json_of(panel.command, *flags, "--price", "1,4")
    assert result["shipped"] == "learned"
    assert result["cost_usd"] == pytest.approx(sum(m["cost_usd"] for m in result["members"]))
    assert result["cost_per_1000_rows"] > 2 * result["members"][0]["cost_per_1000_rows"]
    keys = set(load("runs/panel-001").provenance["tuned_on"])
    rows = read_jsonl("labels.jsonl")
    test = [row for row in rows if texts_digest({name: row[name] for name in TEXTS}) not in keys]
    assert len(test) == result["test"]["panel"]["n"] * SYSTEMS
    write_jsonl("test.jsonl", test)
    rho = json_of(verify.command, "runs/panel-001", "--data", "test.jsonl")["correlations"][0]
    assert rho["value"] == pytest.approx(result["test"]["panel"]["value"])
    assert "holds a finished run" in refusal_of(*flags, "--out", "runs/panel-001", code=1)
    line = refusal_of(*flags[:4], "runs/panel-001", members[0], code=1)
    assert "not a Judge; join the members of a panel" in line


def test_rows_that_a_member_was_tuned_on_are_not_used():
    start = [*world(), *RECORDED]
    rows = read_jsonl("labels.jsonl")
    # A newline more makes no other text of it.
    keys = [texts_digest({"d": f"{row['document']}\n", "s": row["summary"]}) for row in rows]
    n_met = DOCUMENTS // 3 * SYSTEMS
    result = run(panel.command, *start, tuned_on(Path("tuned.json"), keys[:n_met]), "--json")
    assert f"{n_met} rows left out, on which a member was tuned" in result.err
    assert json.loads(result.stdout)["data"]["n_outputs"] == len(rows) - n_met
    line = refusal_of(*start, tuned_on(Path("all.json"), keys[:-20]), code=1)
    assert "4 documents are too few to split" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--scores", "a.jsonl"], "name two judges or more"),
        (["--scores", "a.jsonl", "--scores", "a.jsonl"], "two judges are called a"),
        (["tldr_concise", "--scores", "a.jsonl"], "tldr_concise is about"),
        (["a\tb=relevance@openai/m", *RECORDED], "members[0].name"),
        ([*RECORDED, "--scores", "huge.jsonl"], "huge.jsonl, line 1: expected"),
        ([*RECORDED, "--scores", "strange.jsonl"], "no record's id is the id of a labelled output"),
        (["--replies", "mute.jsonl", "--replies", "too=mute.jsonl"], "no judge can be a member"),
    ],
)
def test_judges_that_cannot_be_joined_give_one_line(flags, message):
    start = world()
    write_jsonl("huge.jsonl", [{"id": "d0s0", "score": 1e308}])
    write_jsonl("strange.jsonl", [{"id": "x", "score": 3}])
    mute = [{"id": row["id"], "replies": ["no idea"]} for row in read_jsonl("labels.jsonl")]
    write_jsonl("mute.jsonl", mute)
    is_read = {"huge.jsonl", "strange.jsonl", "a\tb=relevance@openai/m"} & set(flags)
    assert message in refusal_of(*start, *flags, code=1 if is_read else 2)
    no_labels = refusal_of(*start[:2], "relevance", "mine=relevance")
    assert "without labels nobody knows whether a panel is better" in no_labels
    assert not Path("runs/panel-001").exists()


def noisy_rating(body):
    """The rating that the summary names, and an error up to 2, drawn anew for every model."""
    chance = random.Random(f"{body['model']} {body['messages']}")
    worth = re.findall(r"Worth (\d) of 5", str(body["messages"][-1]))
    return str(min(5, max(1, int(worth[-1]) + chance.randint(-2, 2)))) if worth else "3"
