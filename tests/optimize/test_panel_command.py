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
from openai_server import OpenAIServer
from optimize.cli import panel, verify

from judges.loading import load
from judges.scoring import SamplingPlan
from optimize.run.labels import load_labels, split_labelled

DOCUMENTS, SYSTEMS = 24, 5


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def rows_of(folder: str) -> list[dict[str, Any]]:
    return read_jsonl(f"{folder}/members.jsonl")


def test_recordings_are_measured_and_freeze_no_judge(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = joined(capsys, *world(), "relevance@embedded", *RECORDED)
    assert result["folder"] == "runs/panel-001"
    assert result["shipped"] in ("mean", "learned")
    assert sum(member["weight"] for member in result["members"]) == pytest.approx(1, abs=1e-5)
    # Two judges whose noise is as large as quality: rho of about .7 each, of .8 for their mean.
    assert result["gain"]["test"]["value"] > 0
    assert "a, b are recordings, and a frozen panel holds judges" in result["why_no_judge"]
    assert not Path("runs/panel-001/judge.json").exists()
    # On people's scale: the joined scores of the labels learned from have their mean.
    learned = [row for row in rows_of("runs/panel-001") if row["split"] == "learned"]
    means = [np.mean([row[key] for row in learned]) for key in ("panel", "human")]
    assert means[0] == pytest.approx(means[1])
    assert "a, b are recordings" in " ".join("\n".join(panel.lines(result)).split())
    page = Path("runs/panel-001/report.html").read_text(encoding="utf-8")
    assert "No judge.json was written" in page
    assert f"{result['panel']['test']['value']:.3f}" in page
    assert all(
        f"{member['weight']:.3f}" in page for member in result["members"] if member["weight"]
    )


def test_a_panel_ships_that_says_of_every_output_what_was_measured(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.judge = noisy_rating
    openai_server.models = tuple(f"judge-{number}" for number in range(1, 4))
    members = [f"{model}=relevance@openai/{model}" for model in openai_server.models]
    flags = [*world(), *members]
    result = joined(capsys, *flags, "--price", "1,4")
    assert result["shipped"] in ("mean", "learned"), result["why"]
    parts = json.loads(Path("runs/panel-001/splits.json").read_text())
    labels = read_jsonl("labels.jsonl")
    test = [row for row in labels if row["id"] in set(parts["test"])]
    write_jsonl("test.jsonl", test)
    assert verify.command(["runs/panel-001", "--data", "test.jsonl", "--json"]) == 0
    (verified,) = (
        cell
        for cell in json.loads(capsys.readouterr().out)["correlations"]
        if (cell["level"], cell["coefficient"], cell["undefined"])
        == ("summary", "spearman", "judge_zero")
    )
    for name, value in result["panel"]["test"].items():
        assert verified[name] == pytest.approx(value)
    line = refused(capsys, *flags, "--out", "runs/panel-001", code=1)
    assert "holds a run that has ended" in line
    text = re.sub("<[^>]+>", "", Path("runs/panel-001/report.html").read_text(encoding="utf-8"))
    assert f"{result['order']['test']['panel']['value']:.0%} of pairs" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--scores", "a.jsonl"], "name two judges or more"),
        (["--scores", "a.jsonl", "--scores", "a.jsonl"], "two judges are called a"),
        (["tldr_concise", "--scores", "a.jsonl"], "tldr_concise compares two outputs"),
        (["mine.yaml", "--scores", "a.jsonl"], "rates from 0 to 10, and the"),
        (["nested", "--scores", "a.jsonl"], "nested is a panel itself"),
        (["relevance@openai/unpriced", *RECORDED, "--max-cost", "1"], "--max-cost"),
        (["a\tb=relevance@openai/m", *RECORDED], "members[0].name"),
        ([*RECORDED, "--scores", "huge.jsonl"], "huge.jsonl, line 1: expected"),
        (
            [*RECORDED, "--plan", "mean", "--samples", "3"],
            "--samples, --temperature and --reasoning are of judges",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused_in_a_line_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    start = world()
    Path("mine.yaml").write_text(
        "name: charm\ndefinition: charm\ninputs: {summary: the summary}\nscale: [0, 10]\n"
        "instruction: Rate its charm.\n"
    )
    if "nested" in flags:
        untuned = ["--dimension", "relevance", "relevance", "coherence"]
        joined(capsys, *untuned, "--out", "nested")
    write_jsonl("huge.jsonl", [{"id": "d0s0", "score": 1e308}])
    is_read = {"mine.yaml", "huge.jsonl", "a\tb=relevance@openai/m"} & set(flags)
    line = refused(capsys, *start, *flags, code=1 if is_read else 2)
    assert message in line
    assert not Path("runs").exists()


def test_a_member_without_any_score_is_named_and_nothing_is_joined_of_such_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = world()
    ids = [json.loads(line)["id"] for line in Path("labels.jsonl").read_text().splitlines()]
    rows = [{"id": name, "dimension": "relevance"} for name in ids]
    write_jsonl("mute.jsonl", [{**row, "replies": ["no idea"]} for row in rows])
    write_jsonl("strange.jsonl", [{**row, "id": f"x{row['id']}", "score": 3} for row in rows])
    line = refused(capsys, *start, *RECORDED, "--scores", "strange.jsonl", code=1)
    assert "no record's id is the id of a labelled output" in line
    mute = ["--replies", "mute.jsonl"]
    assert "no member gives any output a score" in refused(
        capsys, *start, *mute, "--replies", "too=mute.jsonl"
    )
    assert panel.command([*start, *RECORDED, *mute]) == 0
    assert "warning: mute gives no labelled output a score (no " in capsys.readouterr().err


def test_without_labels_it_is_the_plain_mean_and_called_untuned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--dimension", "relevance", "relevance", "coherence"]
    result = joined(capsys, *flags)
    assert (result["shipped"], result["members"][0]["weight"]) == ("untuned", 0.5)
    texts = {"document": "A fire broke out in the mill.", "summary": "A fire broke out."}
    alone = [load(name)(**texts).score for name in ("relevance", "coherence")]
    assert load("runs/panel-001")(**texts).score == pytest.approx(sum(alone) / 2)
    assert panel.command(flags) == 0
    assert "shipped the plain mean, untuned" in capsys.readouterr().out
    assert "a frozen panel holds judges to ask" in refused(capsys, *flags, *RECORDED)


def test_pairs_are_joined_by_their_margins(capsys: pytest.CaptureFixture[str]) -> None:
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
        is_right = rng.random() < 0.7
        choice = preferred if is_right else "AB"[1 - number % 2]
        swapped = "AB"[choice == "A"]
        if rng.random() < 0.1:
            choice = swapped = "C"
        replies.append({"id": name, "order_ab": choice, "order_ba": swapped})
        sign = 1 if preferred == "A" else -1
        margins.append({"id": name, "score": float(np.tanh(sign * 0.5 + rng.normal()))})
    write_jsonl("pairs.jsonl", pairs)
    write_jsonl("r.jsonl", replies)
    write_jsonl("s.jsonl", margins)
    flags = ["--pairwise", "tldr_concise", "--data", "pairs.jsonl", "--values", "C=tie"]
    members = ["--replies", "r.jsonl", "--scores", "s.jsonl"]
    result = joined(capsys, *flags, *members, "tldr_concise@embedded")
    assert set(result["accuracy"]) == {"own_judge", "panel"}
    assert all(member["n_failed"] == 0 for member in result["members"])
    assert all(abs(row["panel"]) <= 1 for row in rows_of("runs/panel-001"))


def rating(body: Body) -> str:
    """The rating that the summary names, by a judge that sees it."""
    found = re.findall(r"Worth (\d) of 5", str(body["messages"][-1]))
    return str(found[-1]) if found else "3"


PAID = ["relevance@embedded", "relevance@openai/judge-1", *RECORDED]
PRICE = ["--price", "relevance@openai/judge-1=1,4"]


def test_a_paid_member_is_counted_and_one_that_is_free_is_not(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.judge = rating
    result = joined(capsys, *world(), *PAID, *PRICE)
    n = DOCUMENTS * SYSTEMS
    (paid,) = (m for m in result["members"] if m["source"] == "judge" and m["lm"] != "embedded")
    assert (result["lm_calls"], paid["lm_calls"]) == (n, n)
    assert result["cost_usd"] == pytest.approx(paid["cost_usd"])


def noisy_rating(body: Body) -> str:
    """The rating that the summary names, and an error up to 2, drawn anew for every model."""
    chance = random.Random(f"{body['model']} {body['messages']}")
    return str(min(5, max(1, int(rating(body)) + chance.randint(-2, 2))))


def test_weights_are_learned_and_measured_on_labels_that_taught_no_member(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = world()
    judge = load("relevance")
    labelled = load_labels("labels.jsonl", "relevance", judge.subject)
    split = split_labelled(labelled, "relevance", 0)
    shown = split.test.items[0]
    row = next(row for row in read_jsonl("labels.jsonl") if row["id"] == shown.id)
    tuned = replace(
        judge.with_prompt(demos=[{name: row[name] for name in judge.texts} | {"rating": 3}]),
        plan=SamplingPlan(kind="weighted"),
        provenance={
            "data": {"name": "labels", "sha256": labelled.sha256},
            "split": {"by": split.split["by"], "sha256": split.split["sha256"]},
            "seed": 0,
            "shipped": "tuned",
        },
    )
    tuned.save("tuned.json")
    result = joined(capsys, *start, "tuned.json", "coherence@embedded")
    used = {row["id"]: row["split"] for row in rows_of(result["folder"])}
    assert {name for name, part in used.items() if part == "learned"} == {
        item.id for item in split.dev.items
    }
    assert {name for name, part in used.items() if part == "test"} == {
        item.id for item in split.test.items if item.document_id != shown.document_id
    }
