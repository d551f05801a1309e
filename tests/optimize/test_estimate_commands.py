"""optimize.estimate and optimize.alternative from files to printed lines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import read_jsonl, write_jsonl
from processes import run_python

import data
from optimize.cli import alternative as alternative_command
from optimize.cli import estimate as estimate_command
from optimize.items import annotation_matrix, read_scores

SHARED = Path(__file__).parents[3] / "shared" / "data"


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
    ]


def test_a_difference_comes_with_the_win_rate(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*files, "--system", "tuned", "--against", "plain", "--width", "1.5", "--json"]
    assert estimate_command.command(arguments) == 0
    result = json.loads(capsys.readouterr().out)["estimates"]
    assert result["difference"]["low"] < 1 < result["difference"]["high"]
    assert result["win_rate"]["low"] > 0.5
    assert result["difference"]["n_failed"] == 2
    assert result["difference"]["more_labels_needed"] == 0
    assert (result["mean"]["n_labels"], result["mean"]["n_judgements"]) == (20, 39)


def test_every_output_of_a_document_counts_in_the_win_rate(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the tuned system writes each text a second time, it wins and loses twice as often."""
    arguments = [*files, "--system", "tuned", "--against", "plain", "--json"]
    assert estimate_command.command(arguments) == 0
    once = json.loads(capsys.readouterr().out)["estimates"]["win_rate"]
    for path in (Path(files[1]), Path(files[3])):
        rows = read_jsonl(path)
        again = [row | {"id": f"{row['id']} again"} for row in rows if "tuned" in row["id"]]
        write_jsonl(path, [*rows, *again])
    assert estimate_command.command(arguments) == 0
    twice = json.loads(capsys.readouterr().out)["estimates"]["win_rate"]
    for count in ("n_labels", "n_judgements", "n_failed"):
        assert twice[count] == 2 * once[count]
    assert twice["value"] == pytest.approx(once["value"], abs=0.03)


def test_estimates_are_printed_with_interval_and_counts(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate_command.command(files) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("clarity mean of all systems: ")
    # The judge failed on both outputs of one document.
    assert first.endswith("n=40 labels, 78 judgements, 59 documents (2 failed)")
    assert "labels alone" in second
    assert "wide takes" in third


@pytest.mark.parametrize(
    ("extra", "code", "message"),
    [
        (["--against", "plain"], 2, "--against B needs --system A"),
        (["--system", "nobody"], 1, "systems are plain, tuned"),
        (["--confidence", "95"], 2, "expected between 0 and 1"),
    ],
)
def test_what_cannot_be_estimated_is_one_line(
    files: list[str],
    extra: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert estimate_command.command([*files, *extra]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        *((estimate_command, ["--width", width]) for width in ("nan", "inf", "-1", "0")),
        (alternative_command, ["--seed", "-1"]),
    ],
)
def test_a_number_that_makes_no_sense_is_wrong_usage(
    command: Any, files: list[str], extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.command([*files, "--json", *extra])
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_scores_that_are_all_missing_are_not_called_scores_of_other_outputs(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(
        tmp_path / "scores.jsonl", [{"id": "0-plain", "dimension": "clarity", "score": None}]
    )
    assert alternative_command.command(files) == 1
    assert "holds no score of any output" in capsys.readouterr().err


def test_bad_scores_are_named(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for rows, message in (
        ([{"id": "0-plain", "dimension": "clarity"}], "scores.jsonl, line 1"),
        ([{"id": "x", "dimension": "other", "score": 1}], "no score on 'clarity'"),
        ([{"id": "x", "score": 1}, {"id": "x", "score": 2}], "'x' has a score already"),
        ([{"id": "elsewhere", "score": 1}], "no id is that of an output"),
    ):
        write_jsonl(tmp_path / "scores.jsonl", rows)
        assert estimate_command.command(files) == 1
        assert message in capsys.readouterr().err


def test_the_alternative_test_runs_on_files(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert alternative_command.command([*files, "--json"]) == 0
    test = json.loads(capsys.readouterr().out)["tests"][0]
    assert test["judge"] == "scores"
    assert [annotator["n_outputs"] for annotator in test["annotators"]] == [40, 40, 40]
    assert test["share_of_ceiling"]["value"] > 0
    assert alternative_command.command([*files, "--independent"]) == 0
    assert "winning rate" in capsys.readouterr().out


def test_two_files_of_one_name_are_told_apart(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    again = tmp_path / "other" / "scores.jsonl"
    again.write_bytes((tmp_path / "scores.jsonl").read_bytes())
    flags = [*files[:4], str(again), *files[4:], "--json"]
    assert alternative_command.command(flags) == 0
    tests = json.loads(capsys.readouterr().out)["tests"]
    assert [test["judge"] for test in tests] == [str(tmp_path / "scores.jsonl"), str(again)]


def test_labels_by_one_person_are_refused(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    written = (tmp_path / "labels.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in written.splitlines()]
    for row in rows:
        row["annotations"] = {}
        row["ratings"] = {"clarity": 3}
    write_jsonl(tmp_path / "labels.jsonl", rows)
    assert alternative_command.command(files) == 1
    assert "two annotators or more" in capsys.readouterr().err


def test_one_command_tests_three_models_on_summeval() -> None:
    if not SHARED.exists():
        pytest.skip("needs ../shared/data")
    folder = SHARED / "summeval"
    models = ("gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3")
    done = run_python(
        *("-m", "optimize.alternative", "--data", folder / "summeval.jsonl"),
        *("--annotations", folder / "expert_annotations.jsonl", "--scores"),
        *(SHARED / "summeval_scores" / f"scores_{model}.jsonl" for model in models),
        check=True,
        cwd=Path(__file__).parents[2],
    )
    lines = done.stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines[::4]] == [f"scores_{model}" for model in models]
    assert len(lines) == 12
    # gpt-4o-mini may stand in for an expert on relevance; on fluency it is too strict for that.
    assert "may replace an annotator" in lines[3]
    assert "may not" in lines[2]


def test_annotators_are_told_by_name_or_place(tmp_path: Path, files: list[str]) -> None:
    labelled = data.read_labels(files[1])
    matrix, names = annotation_matrix(labelled, "clarity")
    assert matrix.shape == (120, 3)
    assert len(names) == 3
    assert np.isnan(matrix[2:6]).all()
    assert np.isnan(read_scores(Path(files[3]), "clarity")["7-plain"])
