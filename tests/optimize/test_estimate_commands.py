"""optimize.estimate from files to printed lines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import read_jsonl, write_jsonl

import data
from optimize import estimate as estimate_command


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """60 documents by two systems, every third document rated by three people."""
    rng = np.random.default_rng(0)
    outputs: list[dict[str, object]] = []
    scores: list[dict[str, object]] = []
    for document in range(60):
        for system, better in (("plain", 0.0), ("tuned", 1.0)):
            quality = 2.5 + better + rng.normal()
            marks = np.clip(np.round(quality + rng.normal(0, 0.5, 3)), 1, 5)
            name = f"{document}-{system}"
            rated = {"clarity": marks.tolist()} if document % 3 == 0 else {}
            outputs.append(
                {
                    "id": name,
                    "group": str(document),
                    "system": system,
                    "document": f"text {document}",
                    "summary": f"summary {name}",
                    "annotations": rated,
                }
            )
            score = None if document == 7 else round(quality + rng.normal(0, 0.5), 2)
            scores.append({"id": name, "dimension": "clarity", "score": score})
    return [
        "--data",
        write_jsonl(tmp_path / "labels.jsonl", outputs),
        "--scores",
        write_jsonl(tmp_path / "scores.jsonl", scores),
        "--dimension",
        "clarity",
        "--scale",
        "1-5",
    ]


def test_every_system_has_its_mean(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate_command.command([*files, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    plain, tuned = (result["systems"][name] for name in ("plain", "tuned"))
    # The systems are one apart; the judge failed on both outputs of one document.
    assert plain["low"] < 2.5 < plain["high"] < 3.5 < tuned["high"]
    assert (tuned["n_labels"], tuned["n_judgements"], tuned["n_failed"]) == (20, 39, 1)
    overall = result["estimates"]["mean"]
    assert plain["value"] < overall["value"] < tuned["value"]


def test_a_system_with_too_few_labels_has_no_mean(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = read_jsonl(files[1])
    for row in rows:
        if row["system"] == "plain":
            row["annotations"] = {}
    write_jsonl(Path(files[1]), rows)
    assert estimate_command.command(files) == 0
    assert "plain: too few labels (two documents or more" in capsys.readouterr().out
    assert estimate_command.command([*files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["systems"]["plain"] is None


def test_estimates_are_printed_with_interval_and_counts(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate_command.command(files) == 0
    first, counts, alone, needed, given, *systems = capsys.readouterr().out.splitlines()
    assert first.startswith("clarity: true mean of outputs like these 2.")
    # The judge failed on both outputs of one document.
    assert counts == "  n=40 labels, 78 judgements, 59 documents (2 failed)"
    assert alone.startswith("  labels alone 2.")
    assert needed == "  Labels on all outputs would not halve the interval."
    assert given.startswith("  of these 118 outputs themselves 2.")
    plain, tuned, about = systems
    assert "n=20 labels; tuned less plain +" in plain
    assert tuned.startswith("tuned: 3.")
    assert "less" not in tuned
    assert about.startswith("Differences are on shared documents; ")


def test_words_and_interval_belong_together(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*flags: str) -> str:
        assert estimate_command.command([*files, *flags]) == 0
        return capsys.readouterr().out

    for share in ("some", "all"):
        if share == "all":
            rows = read_jsonl(files[1])
            write_jsonl(Path(files[1]), [{**row, "annotations": {"clarity": [3]}} for row in rows])
        mean = json.loads(printed("--json"))["estimates"]["mean"]
        text = printed()
        value, low, high, given_low, given_high = (
            f"{mean[name]:.3f}" for name in ("value", "low", "high", "given_low", "given_high")
        )
        assert f"outputs like these {value} [{low}, {high}]" in text
        assert f"of these 118 outputs themselves {value} [{given_low}, {given_high}]" in text
        assert mean["low"] < mean["given_low"] <= mean["given_high"] < mean["high"]
    assert given_low == given_high == "3.000"


def test_the_difference_of_systems_is_narrower_than_their_means(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate_command.command([*files, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (gap,) = result["differences"]
    assert (gap["system"], gap["less"]) == ("tuned", "plain")
    # 60 documents, of which 20 have labels and one has no score of the judge.
    assert (gap["n_labels"], gap["n_judgements"], gap["n_failed"]) == (20, 39, 0)
    assert gap["low"] < 1 < gap["high"]
    assert (gap["together_low"], gap["together_high"]) == (gap["low"], gap["high"])
    rows = read_jsonl(files[1])
    # Every output on a document of its own.
    write_jsonl(Path(files[1]), [{**row, "group": row["id"]} for row in rows])
    assert estimate_command.command([*files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


def test_labels_that_are_all_alike_do_not_tell_their_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"{n}", "group": f"{n}", "output": f"text {n}"} for n in range(200)]
    outputs = write_jsonl(tmp_path / "outputs.jsonl", rows)

    def estimated(name: str, label: int, *flags: str, code: int = 0, **columns: Any) -> str:
        labels = [{"id": f"{n}", "dimension": name, "rating": label, **columns} for n in range(20)]
        scores = [{"id": f"{n}", "score": min(label, n % 10)} for n in range(200)]
        files = ["--annotations", write_jsonl(tmp_path / "l.jsonl", labels), "--data", outputs]
        files += ["--scores", write_jsonl(tmp_path / "s.jsonl", scores)]
        assert estimate_command.command([*files, *flags]) == code
        captured = capsys.readouterr()
        return (captured.err if code else captured.out).splitlines()[0]

    known = estimated("clarity", 5, "--scale", "1-5")
    assert known.startswith("clarity: true mean of outputs like these 5.000 [4.")
    assert estimated("clarity", 5, rating_scale="1-5") == known
    asked = "run from 5 to 5, and their scale is not known: add --scale LOW-HIGH"
    assert asked in estimated("clarity", 5, code=1)
    # Of a catalogue's dimension from 1 to 5, labels and scores of 1 at most may be of 0-1.
    assert "run from 1 to 1, and their scale" in estimated("relevance", 1, code=1)
    assert "true rate of outputs" in estimated("relevance", 1, "--scale", "0-1")
    assert "true mean of outputs" in estimated("relevance", 5)


def test_labels_by_id_in_a_file_of_their_own_need_no_dimension(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"o{n}", "output": f"text {n}"} for n in range(90)]
    (tmp_path / "l.csv").write_text("id,label\n" + "".join(f"o{n},pass\n" for n in range(30)))
    files = ["--annotations", str(tmp_path / "l.csv")]
    files += ["--data", write_jsonl(tmp_path / "outputs.jsonl", rows)]
    scores = [{"id": row["id"], "label": 1} for row in rows]
    files += ["--scores", write_jsonl(tmp_path / "s.jsonl", scores)]
    assert estimate_command.command(files) == 0
    assert capsys.readouterr().out.startswith("label: true rate of outputs like these 1.000 [0.8")


def test_alone_a_judge_passes_the_share_of_outputs_that_reach_a_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": str(n), "group": str(n), "output": f"text {n}"} for n in range(100)]
    labelled = [{**row, "ok": "pass" if n % 4 else "fail"} for n, row in enumerate(rows)]
    # Of ten, eight reach a half; their mean is .6 * .8 + .1 * .2 = .5.
    scores = [{"id": str(n), "score": 0.6 if n % 10 < 8 else 0.1} for n in range(100)]
    flags = ["--data", write_jsonl(tmp_path / "l.jsonl", labelled), "--dimension", "ok"]
    assert estimate_command.command([*flags, "--scores", write_jsonl(tmp_path / "s", scores)]) == 0
    assert "the judge alone 0.800" in capsys.readouterr().out


def test_bad_scores_are_named(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for rows, message in (
        ([{"id": "0-plain", "dimension": "clarity"}], "scores.jsonl, line 1"),
        ([{"id": "x", "dimension": "other", "score": 1}], "no score on 'clarity'"),
        ([{"id": "x", "score": 1}, {"id": "x", "score": 2}], "'x' has a score already"),
        ([{"id": "elsewhere", "score": 1}], "no id is the id of an output"),
    ):
        write_jsonl(tmp_path / "scores.jsonl", rows)
        assert estimate_command.command(files) == 1
        assert message in capsys.readouterr().err


def test_the_starter_set_is_estimated_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [
        {"id": output.id, "dimension": "relevance", "score": output.rating("relevance")}
        for output in data.starter().outputs
        if output.ratings.get("relevance")
    ]
    flags = ["--scores", write_jsonl(tmp_path / "s.jsonl", scores), "--dimension", "relevance"]
    assert estimate_command.command([*flags, "--data", "starter", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["name"] == "starter"
    assert estimate_command.command([*flags, "--data", "starter_pairs"]) == 1
    assert "starter_pairs: holds pairs" in capsys.readouterr().err


def test_a_metric_of_another_tools_results_is_named_before_the_file(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate_command.command([*files, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)["estimates"]
    rows = [
        {"id": name, "user_input": "Q", "response": f"summary {name}", "tone": score, "length": 3}
        for name, score in ((row["id"], row["score"]) for row in read_jsonl(files[3]))
    ]
    named = f"tone={write_jsonl(tmp_path / 'ragas.jsonl', rows)}"
    assert estimate_command.command([*files[:3], named, *files[4:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"] == plain
