"""optimize.panel: from members and labels to a frozen panel that says what was measured."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import read_jsonl, write_jsonl
from openai_replies import Body
from openai_server import OpenAIServer, some_faults

from judges.cli import command as judges_command
from judges.cli.arguments import read_recordings
from judges.loading import load
from judges.panel import Panel
from optimize.cli import compare, panel, report, verify
from optimize.measuring.panel import onto_ratings
from optimize.tuning import tune

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
    return ["--dimension", "relevance", "--data", "labels.jsonl", "--split", "document"]


RECORDED = ["--scores", "a.jsonl", "--scores", "b.jsonl"]
OWN = ["--members", "relevance@embedded", *RECORDED, "--own", "a"]


def joined(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert panel.command([*arguments, "--json"]) == 0, capsys.readouterr().err
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert panel.command(list(arguments)) == code, capsys.readouterr().err
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (line,) = (line for line in err.splitlines() if line.startswith("python -m optimize.panel"))
    return line


def rows_of(folder: str) -> list[dict[str, Any]]:
    return read_jsonl(f"{folder}/members.jsonl")


def test_a_panel_ships_that_says_of_every_output_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = joined(capsys, *world(), *OWN)
    assert result["folder"] == "runs/panel-001"
    assert result["shipped"] in ("mean", "learned")
    assert 0 <= result["own_share"] <= 1
    assert sum(member["weight"] for member in result["members"]) == pytest.approx(1, abs=1e-5)
    # Two judges whose noise is as large as quality: rho of about .7 each, of .8 for their mean.
    assert result["gain"]["test"]["value"] > 0
    judge = load("runs/panel-001")
    assert isinstance(judge, Panel)
    # People's ratings of what weights were learned from: `score` prints them below its own.
    ratings = [row["human"] for row in rows_of("runs/panel-001") if row["split"] == "learned"]
    assert judge.human_ratings is not None
    assert judge.human_ratings.mean == pytest.approx(np.mean(ratings), abs=1e-6)
    assert judge.human_ratings.n == len(ratings)
    judge = judge.with_recorded(
        {
            name: rows
            for name, rows in read_recordings(judge.subject, RECORDED[1::2], []).items()
            if name in judge.recordings
        }
    )
    labels = read_jsonl("labels.jsonl")
    said = dict(zip((r["id"] for r in labels), judge.judge_all(labels), strict=True))
    for row in rows_of("runs/panel-001"):
        assert said[row["id"]].score == row["panel"]
    parts = json.loads(Path("runs/panel-001/splits.json").read_text())
    test = [row for row in labels if row["id"] in set(parts["test"])]
    write_jsonl("test.jsonl", test)
    assert verify.command(["runs/panel-001", "--data", "test.jsonl", *RECORDED, "--json"]) == 0
    (verified,) = (
        cell
        for cell in json.loads(capsys.readouterr().out)["correlations"]
        if (cell["level"], cell["coefficient"], cell["undefined"])
        == ("summary", "spearman", "judge_zero")
    )
    for name, value in result["panel"]["test"].items():
        assert verified[name] == value
    # On people's scale: the joined scores of the labels learned from have their mean.
    learned = [row for row in rows_of("runs/panel-001") if row["split"] == "learned"]
    means = [np.mean([row[key] for row in learned]) for key in ("panel", "human")]
    assert means[0] == pytest.approx(means[1])
    assert refused(capsys, *world(), *OWN, "--out", "runs/panel-001", code=1)
    page = Path("runs/panel-001/report.html")
    drawn = page.read_bytes()
    text = re.sub("<[^>]+>", "", drawn.decode())
    assert "The panel orders two outputs of one document as people do in" in text
    assert f"{result['order']['test']['panel']['value']:.0%} of pairs" in text
    assert panel.lines(result)[0].startswith("The panel orders two outputs of one document as")
    assert f"{result['panel']['test']['value']:.3f}".encode() in drawn
    assert all(f"{member['weight']:.3f}".encode() in drawn for member in result["members"])
    page.unlink()
    assert report.command(["runs/panel-001"]) == 0
    assert page.read_bytes() == drawn


def test_a_frozen_panel_without_its_recordings_or_with_half_of_them_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    joined(capsys, *world(), *RECORDED, "--members", "relevance@embedded", "--own", "a")
    verified = ["runs/panel-001", "--data", "labels.jsonl", "--json"]
    assert verify.command(verified) == 1
    assert "is a recording: give its file again (--scores" in capsys.readouterr().err
    assert judges_command.command(["serve", "runs/panel-001", "--port", "0"]) == 1
    assert "is a recording: give its file again (--scores" in capsys.readouterr().err
    half = Path("a.jsonl").read_text().splitlines()[: DOCUMENTS * SYSTEMS // 2]
    Path("half").mkdir()
    Path("half/a.jsonl").write_text("\n".join(half) + "\n")
    flags = [*verified, "--scores", "half/a.jsonl", "--scores", "b.jsonl"]
    assert verify.command(flags) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["correlations"][0]["n_failed"] == 60
    assert "50.0% of the judgements failed" in captured.err
    assert verify.command([*flags, "--missing", "renormalise"]) == 0
    assert json.loads(capsys.readouterr().out)["correlations"][0]["n_failed"] == 0
    scored = ["score", "runs/panel-001", "--data", "labels.jsonl", "--out", "out.csv", *RECORDED]
    assert judges_command.command(scored) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([*OWN[:-1], "c"], "--own c: no such judge; there are relevance@embedded, a, b"),
        (["--scores", "a.jsonl"], "name two judges or more"),
        (["--scores", "a.jsonl", "--scores", "a.jsonl"], "two recordings are called a"),
        (["--members", "tldr_concise", "--scores", "a.jsonl"], "tldr_concise compares two outputs"),
        (["--members", "mine.yaml", "--scores", "a.jsonl"], "rates charm from 0 to 10, and the"),
        (["--members", "nested", "--scores", "a.jsonl"], "nested is a panel itself"),
        (["--members", "relevance@openai/unpriced", *RECORDED, "--max-cost", "1"], "--max-cost"),
        (["--members", "relevance@openai/m", *RECORDED, "--prefer", "cost"], "--prefer cost: the"),
        (["--members", "a\tb=relevance@openai/m", *RECORDED], "name is 'a\\tb'; its form is"),
        ([*RECORDED, "--scores", "huge.jsonl"], "huge.jsonl, line 1: expected"),
        ([*RECORDED, "--samples", "3"], "--samples, --temperature and --reasoning are of judges"),
        ([*RECORDED, "--tie", "C"], "--tie is of recorded replies on pairs"),
        ([*RECORDED, "--letters", "ABCDE"], "--letters are of recorded ratings"),
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
        untuned = ["--dimension", "relevance", "--members", "relevance", "coherence"]
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
    assert "strange: no record's id is the id of a labelled output" in line
    mute = ["--replies", "mute.jsonl"]
    assert "no member gives any output a score" in refused(
        capsys, *start, *mute, "--replies", "too=mute.jsonl"
    )
    assert panel.command([*start, *RECORDED, *mute, "--own", "a"]) == 0
    assert "warning: mute gives no labelled output a score (no " in capsys.readouterr().err


def test_a_gain_on_a_single_document_has_no_interval_and_is_written_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = [(d, k) for d in range(8) for k in range(4)]
    rows = [{"id": f"{d}-{k}", "group": f"{d}", "summary": f"{d}, {k}."} for d, k in places]
    # People tell outputs of the documents 0 and 1 apart, of which one is held out.
    human = [k + 1 if d < 2 else 3 for d, k in places]
    write_jsonl(
        "one.jsonl", [r | {"ratings": {"relevance": h}} for r, h in zip(rows, human, strict=True)]
    )
    for name, noise in (("a", [0.0, 2.5, 0.3, 1.0]), ("b", [1.5, 0.0, 2.0, 0.4])):
        scores = [h + noise[k] for h, (_, k) in zip(human, places, strict=True)]
        write_jsonl(
            f"{name}.jsonl",
            [
                {"id": row["id"], "dimension": "relevance", "score": score}
                for row, score in zip(rows, scores, strict=True)
            ],
        )
    labels = ["--dimension", "relevance", "--data", "one.jsonl"]
    result = joined(capsys, *labels, *RECORDED, "--level", "summary", "--split", "document")
    gains = [candidate["gain"] for candidate in result["candidates"] if candidate["gain"]]
    assert gains
    assert all(gain["low"] is None and gain["high"] is None for gain in gains)


def test_recordings_alone_are_joined_and_verified_on_labels_without_texts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world()
    rows = read_jsonl("labels.jsonl")
    write_jsonl("bare.jsonl", [{k: row[k] for k in ("id", "group", "ratings")} for row in rows])
    joined(capsys, "--dimension", "relevance", "--data", "bare.jsonl", *RECORDED, "--own", "a")
    recordings = load("runs/panel-001").recordings  # type: ignore[attr-defined]
    given = [word for name in recordings for word in ("--scores", f"{name}.jsonl")]
    assert verify.command(["runs/panel-001", "--data", "bare.jsonl", *given]) == 0
    assert compare.command(["runs/panel-001", "--data", "bare.jsonl", *RECORDED]) == 0


def test_the_flags_on_plans_are_of_members_that_are_not_frozen(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.judge = rating
    result = joined(capsys, *world(), *PAID, "--samples", "2", "--own", "a")
    assert [m["plan"] for m in result["members"]][:2] == ["mean of 2", "mean of 2"]


def test_a_recording_with_an_id_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    start = world()
    row = {"id": "d0s0", "dimension": "relevance", "replies": ["3"]}
    write_jsonl("twice.jsonl", [row, row])
    line = refused(capsys, *start, *RECORDED, "--replies", "twice.jsonl", code=1)
    assert "twice.jsonl: 'd0s0' is recorded twice" in line


def test_without_labels_it_is_the_plain_mean_and_called_untuned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--dimension", "relevance", "--members", "relevance", "coherence"]
    result = joined(capsys, *flags)
    assert (result["shipped"], result["members"][0]["weight"]) == ("untuned", 0.5)
    texts = {"document": "A fire broke out in the mill.", "summary": "A fire broke out."}
    alone = [load(name)(**texts).score for name in ("relevance", "coherence")]
    assert load("runs/panel-001")(**texts).score == pytest.approx(sum(alone) / 2)
    assert panel.command(flags) == 0
    assert "shipped the plain mean, untuned" in capsys.readouterr().out
    assert report.command(["runs/panel-001"]) == 1
    assert "an untuned panel, of which nothing was measured" in capsys.readouterr().err


def test_letters_of_a_recording_are_read_again_as_they_were(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = world()
    labels = read_jsonl("labels.jsonl")
    rows = [
        {
            "id": row["id"],
            "dimension": "relevance",
            "prompt": prompt,
            "replies": [letters[int(row["ratings"]["relevance"]) - 1]],
        }
        for row in labels
        for prompt, letters in (("digits", "12345"), ("letters", "EDCBA"))
    ]
    write_jsonl("r.jsonl", rows)
    flags = ["--replies", "r.jsonl", "--letters", "r:letters=EDCBA", "--scores", "a.jsonl"]
    result = joined(capsys, *start, *flags, "--own", "r:letters")
    assert [m["test"]["value"] for m in result["members"][1:]] == [1.0, 1.0]
    verified = ["runs/panel-001", "--data", "labels.jsonl", "--replies", "r.jsonl"]
    judge = load("runs/panel-001")
    assert isinstance(judge, Panel)
    if "a" in judge.recordings:
        verified += ["--scores", "a.jsonl"]
    assert verify.command([*verified, "--min-spearman", "0.95"]) == 0


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
    flags = ["--pairwise", "tldr_concise", "--data", "pairs.jsonl", "--tie", "C"]
    members = ["--replies", "r.jsonl", "--scores", "s.jsonl"]
    result = joined(capsys, *flags, *members, "--members", "tldr_concise@embedded", "--own", "r")
    assert set(result["accuracy"]) == {"own_judge", "panel"}
    assert all(abs(row["panel"]) <= 1 for row in rows_of("runs/panel-001"))
    recordings = load("runs/panel-001").recordings  # type: ignore[attr-defined]
    given = [word for name in recordings for word in (f"--{KINDS[name]}", f"{name}.jsonl")]
    capsys.readouterr()
    assert verify.command(["runs/panel-001", "--data", "pairs.jsonl", *given, "--json"]) == 0
    # The letter of a tie is the frozen panel's own: without it, its replies would have failed.
    assert json.loads(capsys.readouterr().out)["correlations"][0]["n_failed"] == 0
    compared = ["compare", "runs/panel-001", "--data", "pairs.jsonl", *given]
    assert judges_command.command([*compared, "--out", "verdicts.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 60
    margins = {row["id"]: row["panel"] for row in rows_of("runs/panel-001")}
    for row in read_jsonl("verdicts.jsonl"):
        preferred = row["verdict"]["preferred"]
        assert preferred == "tie" or preferred == ("A" if margins[row["id"]] > 0 else "B")
    write_jsonl("s.jsonl", [{"id": "p0", "score": 1.5}])
    assert "the margin of 'p0' is 1.5" in refused(capsys, *flags, *members, code=1)


KINDS = {"r": "replies", "s": "scores"}


def rating(body: Body) -> str:
    """The rating that the summary names, by a judge that sees it."""
    found = re.findall(r"Worth (\d) of 5", str(body["messages"][-1]))
    return str(found[-1]) if found else "3"


PAID = ["--members", "relevance@embedded", "relevance@openai/judge-1", *RECORDED]
PRICE = ["--price", "relevance@openai/judge-1=1,4"]


def test_a_paid_member_is_asked_through_faults_a_kill_and_a_resume_once(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*world(), *PAID, *PRICE, "--cache", "none", "--own", "a"]
    openai_server.judge = rating
    whole = joined(capsys, *flags, "--out", "whole")
    n = DOCUMENTS * SYSTEMS
    (paid,) = (m for m in whole["members"] if m["source"] == "judge" and m["lm"] != "embedded")
    assert (whole["lm_calls"], paid["lm_calls"]) == (n, n)
    assert whole["cost_usd"] == pytest.approx(paid["cost_usd"])
    openai_server.log.clear()
    openai_server.fault = some_faults(0.1, ("429", "500", "503", "drop"))
    openai_server.latency = 0.02
    running = subprocess.Popen(
        [sys.executable, "-m", "optimize.panel", *flags, "--out", "killed", "--concurrency", "4"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    )
    while sum(seen.answered for seen in openai_server.log) < n // 3:
        assert running.poll() is None
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    openai_server.latency = 0.0
    resumed = joined(capsys, *flags, "--out", "killed", "--resume")
    answered = [seen.asked for seen in openai_server.log if seen.answered]
    # What the kill caught on its way was answered and never read.
    assert len(answered) - len(set(answered)) <= 4
    for name in ("panel", "own_judge", "gain", "shipped", "candidates"):
        assert resumed[name] == whole[name]
    files = [json.loads((Path(f) / "judge.json").read_text()) for f in ("whole", "killed")]
    assert files[0]["members"] == files[1]["members"]
    assert openai_server.invalid == []


@pytest.fixture
def endpoint_panel(openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The frozen mean of an endpoint and the embedded model in `panel`: what scores labels."""
    openai_server.judge = rating
    world()
    flags = ["--dimension", "relevance", "--members", "relevance@embedded"]
    joined(capsys, *flags, "relevance@openai/judge-1", "--out", "panel")
    return ["score", "panel", "--data", "labels.jsonl", "--cache", "none", "--price", "1,4"]


def test_a_frozen_panel_asks_an_endpoint_and_the_embedded_model_within_one_budget(
    endpoint_panel: list[str], openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = endpoint_panel
    openai_server.fault = some_faults(0.3, ("429", "500", "drop", "truncated"))
    assert judges_command.command([*scored, "--out", "out.jsonl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["judges"]["relevance"]["n"] == DOCUMENTS * SYSTEMS
    assert result["lm"] == ["openai/judge-1"]
    assert result["lm_calls"] >= DOCUMENTS * SYSTEMS
    whole = Path("out.jsonl").read_bytes()
    openai_server.fault = lambda number, body: None
    calls = len(openai_server.log)
    assert judges_command.command([*scored, "--out", "cut.jsonl", "--max-calls", "50"]) == 1
    assert "--resume" in capsys.readouterr().err
    assert judges_command.command([*scored, "--out", "cut.jsonl", "--resume"]) == 0
    capsys.readouterr()
    assert Path("cut.jsonl").read_bytes() == whole
    answered = [seen.asked for seen in openai_server.log[calls:] if seen.answered]
    assert len(answered) == len(set(answered)) == DOCUMENTS * SYSTEMS
    assert judges_command.command([*scored, "--dry-run", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["judges"]["relevance: relevance@openai/judge-1"]["requests"] == 120


def test_batch_files_of_its_one_paid_model_give_the_scores_of_a_live_run(
    endpoint_panel: list[str], openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = endpoint_panel
    assert judges_command.command([*scored, "--out", "live.jsonl"]) == 0
    for step in ("submit", "collect"):
        batch = [*scored, "--out", "batch.jsonl", "--batch-api", step]
        assert judges_command.command(batch) == 0, capsys.readouterr().err
    assert Path("batch.jsonl").read_bytes() == Path("live.jsonl").read_bytes()


def test_a_frozen_panel_is_compared_with_its_members_and_a_recording(
    endpoint_panel: list[str], openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--dimension", "relevance", "--data", "labels.jsonl", "--cache", "none", "--json"]
    models = ["panel", "--lm", "openai/judge-1", "--lm", "embedded", "--scores", "a.jsonl"]
    prices = ["--price", "1,4"]
    capsys.readouterr()
    assert compare.command([*models, *flags, *prices]) == 0
    result = json.loads(capsys.readouterr().out)
    row = {row["name"]: row for row in result["judges"]}
    n = DOCUMENTS * SYSTEMS
    # The panel asks its paid member as --lm does, once for each output; its embedded one is free.
    for name in ("panel", "openai/judge-1"):
        assert (row[name]["lm"], row[name]["lm_calls"]) == ("openai/judge-1", n)
        assert row[name]["cost_usd"] == row["openai/judge-1"]["cost_usd"] > 0
    assert row["panel"]["plan"] == "panel"
    folder = ["--resume", "--out", result["folder"]]
    calls = len(openai_server.log)
    assert compare.command([*models, *flags, *prices, *folder]) == 0
    assert len(openai_server.log) == calls
    capsys.readouterr()
    assert compare.command([*models, *flags, *prices, "--max-calls", str(n)]) == 1
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert "it takes 120 calls, and 0 of --max-calls" in left_out[0]["why"]


def test_a_panel_with_recorded_members_is_compared_by_their_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = world()
    joined(capsys, *start, *OWN, "--out", "panel")
    recordings = load("panel").recordings  # type: ignore[attr-defined]
    capsys.readouterr()
    flags = ["--data", "labels.jsonl", "--json"]
    assert verify.command(["panel", *flags[:2], *RECORDED]) == 0
    assert "tuned on these very labels" in capsys.readouterr().out.replace("\n", " ")
    assert compare.command(["panel", *RECORDED, *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in result["judges"]} == {"panel", "a", "b"}
    (row,) = (row for row in result["judges"] if row["name"] == "panel")
    assert row["tuned_on_these_labels"]
    given = [word for name in recordings for word in ("--scores", f"{name}.jsonl")]
    assert verify.command(["panel", *flags, *given]) == 0
    measured = json.loads(capsys.readouterr().out)["correlations"][0]
    assert measured["value"] == row["correlations"][0]["value"]
    models = ["--lm", "embedded", "--dimension", "relevance"]
    assert compare.command(["panel", *models, *flags]) == 1
    assert "is a recording: give its file again" in capsys.readouterr().err


def test_joined_scores_are_put_on_people_s_scale_by_a_rising_line() -> None:
    # Least squares of (1, 2, 4) on (0, 1, 2): slope 3/2 through the means (1, 7/3).
    line = onto_ratings(np.array([0.0, 1.0, 2.0, np.nan]), np.array([1.0, 2.0, 4.0, 5.0]))
    assert line is not None
    assert line.all([0.0, 1.0, 2.0]) == pytest.approx([7 / 3 - 1.5, 7 / 3, 7 / 3 + 1.5])
    falling = onto_ratings(np.array([0.0, 1.0]), np.array([2.0, 1.0]))
    assert falling is not None
    assert falling(1.0) > falling(0.0)
    assert onto_ratings(np.array([1.0, 1.0]), np.array([2.0, 1.0])) is None


def noisy_rating(body: Body) -> str:
    """The rating that the summary names, or one drawn: more seldom where the prompt has demos."""
    text = str(body["messages"])
    draw = zlib.crc32(text.encode()) % 100
    if draw < (75 if len(body["messages"]) <= 2 else 35):
        return str(1 + zlib.crc32(text[::-1].encode()) % 5)
    return rating(body)


def test_finalists_of_a_search_are_joined_on_what_taught_none_of_them_and_paid_for_once(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.judge = noisy_rating
    start = world()
    search = {"lm": "openai/judge-1", "proposer_lm": "embedded", "price": (1.0, 4.0)}
    run = tune(
        "relevance",
        "labels.jsonl",
        **search,  # type: ignore[arg-type]
        max_calls=1500,
        out="runs/x",
        quiet=True,
    )
    finalists = {path.stem: load(path) for path in Path("runs/x/finalists").glob("*.json")}
    met_dev = {t["candidate"] for t in read_jsonl("runs/x/trials.jsonl") if t["stage"] == "dev"}
    assert len(finalists) > 1
    assert finalists.keys() == met_dev
    prices = ["--price", "1,4"]
    asked = {seen.asked for seen in openai_server.log}
    result = joined(capsys, *start, "--members", "runs/x#finalists", "relevance@embedded", *prices)
    paid = [m for m in result["members"] if m["name"].startswith("runs/x#")]
    assert {m["name"].partition("#")[2] for m in paid} == finalists.keys()
    parts = json.loads(Path("runs/x/splits.json").read_text())
    used = {row["id"]: row["split"] for row in rows_of(result["folder"])}
    learned = {name for name, split in used.items() if split == "learned"}
    assert learned <= set(parts["dev"])
    assert {name for name, split in used.items() if split == "test"} == set(parts["test"])
    # No prompt that the search has asked is asked again: what is paid for is test alone.
    later = [seen.asked for seen in openai_server.log if seen.answered]
    assert len(later) == len(set(later))
    assert set(later) - asked
    assert result["lm_calls"] <= len(parts["test"]) * len(paid)
    shown = {demo["document"] for judge in finalists.values() for demo in judge.prompt.demos}
    documents = {row["id"]: row["document"] for row in read_jsonl("labels.jsonl")}
    assert shown
    assert not shown & {documents[name] for name in used}
    # The judge that shipped, or any other tuned on these labels, is weighed by the same rows.
    if run.summary["shipped"] == "tuned":
        alone = joined(capsys, *start, "--members", "runs/x", "relevance@embedded", *prices)
        rows = rows_of(alone["folder"])
        assert {row["id"] for row in rows} <= {*parts["dev"], *parts["test"]}
    line = refused(capsys, *start, "--members", "runs/x#finalists", *RECORDED, "--split", "both")
    assert "was tuned on these labels with --split document" in line
    line = refused(capsys, *start, "--members", "runs/y#finalists", *RECORDED, code=1)
    assert "runs/y: no folder of a search" in line
