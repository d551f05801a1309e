"""optimize.panel: from members and labels to a frozen panel that says what was measured."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import read_jsonl, write_jsonl
from openai_replies import Body

from judges.loading import load
from judges.scoring import SamplingPlan
from optimize import panel, verify
from optimize.items import text_key

pytestmark = pytest.mark.usefixtures("here")

DOCUMENTS, SYSTEMS = 24, 5


def world() -> list[str]:
    """Labels, and two recorded judges that err differently: each of noise as large as quality."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=(DOCUMENTS, SYSTEMS))
    ids = [(f"d{d}", f"s{s}") for d in range(DOCUMENTS) for s in range(SYSTEMS)]
    ratings = np.clip(np.round(3 + quality), 1, 5).ravel()
    write_jsonl(
        "labels.jsonl",
        [
            {
                "id": f"{d}{s}",
                "group": d,
                "system": s,
                "document": f"Of {d}: a fire broke out in the mill at night. Nobody was hurt.",
                "summary": f"A fire, says {s}. Worth {rating:.0f} of 5. Mill {'and ' * int(s[1])}.",
                "ratings": {"relevance": rating},
            }
            for (d, s), rating in zip(ids, ratings, strict=True)
        ],
    )
    for name in ("a", "b"):
        noisy = (quality + rng.normal(size=quality.shape)).ravel()
        write_jsonl(
            f"{name}.jsonl",
            [
                {"id": f"{d}{s}", "dimension": "relevance", "score": float(score)}
                for (d, s), score in zip(ids, noisy, strict=True)
            ],
        )
    return ["--dimension", "relevance", "--data", "labels.jsonl"]


RECORDED = ["--scores", "a.jsonl", "--scores", "b.jsonl"]


def joined(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert panel.command([*arguments, "--json"]) == 0, capsys.readouterr().err
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert panel.command(list(arguments)) == code, capsys.readouterr().err
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (line,) = (line for line in err.splitlines() if line.startswith("dspy-judges panel"))
    return line


def test_recordings_are_measured_beside_the_best_of_them_and_freeze_no_judge(capsys):
    flags = [*world(), "relevance@embedded", *RECORDED]
    result = joined(capsys, *flags)
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
    assert panel.command([*flags, "--out", "again"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    page = Path("again/report.html").read_text(encoding="utf-8")
    for said in (
        "No judge.json was written",
        f"{test['panel']['value']:.3f}",
        "relevance@embedded",
    ):
        assert said in words
        assert said in page


def test_a_panel_ships_that_says_of_every_output_what_was_measured(openai_server, capsys):
    openai_server.judge = noisy_rating
    openai_server.models = tuple(f"judge-{number}" for number in range(1, 4))
    members = [f"{model}=relevance@openai/{model}" for model in openai_server.models]
    flags = [*world(), *members]
    result = joined(capsys, *flags, "--price", "1,4")
    assert result["shipped"] == "learned"
    assert result["cost_usd"] == pytest.approx(sum(m["cost_usd"] for m in result["members"]))
    assert result["cost_per_1000_rows"] > 2 * result["members"][0]["cost_per_1000_rows"]
    provenance: Any = load("runs/panel-001").provenance
    learned = set(provenance["tuned_on"])
    labels = read_jsonl("labels.jsonl")
    test = [
        row
        for row in labels
        if text_key({name: row[name] for name in ("document", "summary")}) not in learned
    ]
    assert len(test) == result["test"]["panel"]["n"] * SYSTEMS
    write_jsonl("test.jsonl", test)
    assert verify.command(["runs/panel-001", "--data", "test.jsonl", "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)["correlations"][0]
    assert verified["value"] == pytest.approx(result["test"]["panel"]["value"])
    assert "holds a finished run" in refused(capsys, *flags, "--out", "runs/panel-001", code=1)


def test_rows_that_a_member_was_tuned_on_weigh_and_measure_nobody(capsys):
    start = world()
    rows = read_jsonl("labels.jsonl")
    met = [row for row in rows if int(row["group"][1:]) < 8]
    # A newline more makes no other text of it.
    keys = [text_key({"d": f"{row['document']}\n", "s": row["summary"]}) for row in met]
    judge = load("relevance").with_plan(SamplingPlan(kind="one"))
    replace(judge, provenance={"tuned_on": keys}).save("tuned.json")
    assert panel.command([*start, "tuned.json", *RECORDED, "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"{len(met)} rows left out, on which a member was tuned" in err
    result = json.loads(out)
    assert result["data"]["n_outputs"] == len(rows) - len(met)
    replace(
        judge,
        provenance={
            "tuned_on": [
                text_key({"d": row["document"], "s": row["summary"]}) for row in rows[:-20]
            ]
        },
    ).save("all.json")
    assert "4 documents are too few to split" in refused(
        capsys, *start, "all.json", *RECORDED, code=1
    )


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
def test_what_cannot_be_joined_is_refused_in_a_line(capsys, flags, message):
    start = world()
    write_jsonl("huge.jsonl", [{"id": "d0s0", "score": 1e308}])
    write_jsonl("strange.jsonl", [{"id": "x", "score": 3}])
    ids = [row["id"] for row in read_jsonl("labels.jsonl")]
    write_jsonl("mute.jsonl", [{"id": name, "replies": ["no idea"]} for name in ids])
    is_read = {"huge.jsonl", "strange.jsonl", "a\tb=relevance@openai/m"} & set(flags)
    assert message in refused(capsys, *start, *flags, code=1 if is_read else 2)
    assert not Path("runs/panel-001").exists()


def test_there_is_no_panel_without_labels_or_of_panels(openai_server, capsys):
    start = world()
    line = refused(capsys, "relevance", "mine=relevance", "--dimension", "relevance")
    assert "without labels nobody knows whether a panel is better" in line
    openai_server.judge = noisy_rating
    openai_server.models = ("judge-1", "judge-2", "judge-3")
    joined(capsys, *start, *(f"relevance@openai/{name}" for name in openai_server.models))
    line = refused(capsys, *start, "runs/panel-001", "relevance@openai/judge-1", code=1)
    assert "is a panel itself; join its members instead" in line


def test_pairs_are_joined_by_their_margins_and_measured_by_accuracy(capsys):
    rng = np.random.default_rng(3)
    pairs, replies, margins = [], [], []
    for number in range(60):
        preferred = "AB"[number % 2]
        name = f"p{number}"
        pairs.append(
            {
                "id": name,
                "post": f"Post {number} on a fire in the mill.",
                "response_a": f"Fire {number}.",
                "response_b": f"Mill {number} burnt.",
                "votes": [preferred],
            }
        )
        choice = preferred if rng.random() < 0.7 else "AB"[1 - number % 2]
        replies.append({"id": name, "order_ab": choice, "order_ba": "AB"[choice == "A"]})
        sign = 1 if preferred == "A" else -1
        margins.append({"id": name, "score": float(np.tanh(sign * 0.5 + rng.normal()))})
    write_jsonl("pairs.jsonl", pairs)
    write_jsonl("r.jsonl", replies)
    write_jsonl("s.jsonl", margins)
    flags = ["--pairwise", "tldr_concise", "--data", "pairs.jsonl"]
    result = joined(
        capsys, *flags, "--replies", "r.jsonl", "--scores", "s.jsonl", "tldr_concise@embedded"
    )
    assert result["kind"] == "pairwise"
    # Of 15 pairs held out, each is right, wrong or half right.
    share = 30 * result["test"]["panel"]["value"]
    assert share == pytest.approx(round(share), abs=1e-4)


def noisy_rating(body: Body) -> str:
    """The rating that the summary names, and an error up to 2, drawn anew for every model."""
    chance = random.Random(f"{body['model']} {body['messages']}")
    worth = re.findall(r"Worth (\d) of 5", str(body["messages"][-1]))
    return str(min(5, max(1, int(worth[-1]) + chance.randint(-2, 2)))) if worth else "3"
