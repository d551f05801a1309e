"""optimize.verify on recorded scores and replies, against published or derived figures."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from optimize.commands.verify import command

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="../shared/data, which the repository may not hold, is absent"
)


def lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def labels(path: Path, human: list[list[float]]) -> str:
    return lines(
        path,
        [
            {
                "id": f"d{d}s{s}",
                "group": f"d{d}",
                "system": f"s{s}",
                "document": f"Text {d}.",
                "summary": f"Summary {s} of {d}.",
                "ratings": {"charm": rating},
            }
            for d, ratings in enumerate(human)
            for s, rating in enumerate(ratings)
        ],
    )


def scores(path: Path, judge: list[list[float | None]]) -> str:
    return lines(
        path,
        [
            {"id": f"d{d}s{s}", "dimension": "charm", "score": score}
            for d, row in enumerate(judge)
            for s, score in enumerate(row)
        ],
    )


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    command([*arguments, "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def figure(result: dict[str, Any], level: str, coefficient: str, undefined: str) -> dict[str, Any]:
    (found,) = (
        one
        for one in result["correlations"]
        if (one["level"], one["coefficient"], one["undefined"]) == (level, coefficient, undefined)
    )
    return dict(found)


def test_the_two_conventions_differ_by_the_undefined_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # In order, reversed, and a document on which the judge says one thing: 1, -1, undefined, 1.
    human = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]]
    judge: list[list[float | None]] = [[1, 2, 3], [3, 2, 1], [2, 2, 2], [1, 4, 5]]
    result = verified(
        capsys,
        "--scores",
        scores(tmp_path / "s.jsonl", judge),
        "--data",
        labels(tmp_path / "l.jsonl", human),
        "--dimension",
        "charm",
    )
    assert figure(result, "summary", "spearman", "left_out")["value"] == pytest.approx(1 / 3)
    primary = result["correlations"][0]
    assert (primary["level"], primary["coefficient"]) == ("summary", "spearman")
    assert primary["undefined"] == "judge_zero"
    assert primary["value"] == pytest.approx(1 / 4)
    counts = ("n_documents", "n_undefined", "n_zero", "n_outputs")
    assert [primary[name] for name in counts] == [4, 1, 1, 12]


def test_a_null_score_is_failed_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    human = [[1, 2, 3]] * 3
    judge: list[list[float | None]] = [[1, 2, None], [1, 2, 3], [1, 2, 3]]
    result = verified(
        capsys,
        "--scores",
        scores(tmp_path / "s.jsonl", judge),
        "--data",
        labels(tmp_path / "l.jsonl", human),
        "--dimension",
        "charm",
    )
    found = figure(result, "summary", "spearman", "left_out")
    assert (found["n_failed"], found["n_outputs"]) == (1, 8)


@pytest.mark.parametrize(("least", "code"), [("0.9", 1), ("0.2", 0)])
def test_falling_short_is_exit_1(tmp_path: Path, least: str, code: int) -> None:
    human = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]]
    judge: list[list[float | None]] = [[1, 2, 3], [3, 2, 1], [2, 2, 2], [1, 4, 5]]
    arguments = ["--scores", scores(tmp_path / "s.jsonl", judge), "--dimension", "charm"]
    arguments += ["--data", labels(tmp_path / "l.jsonl", human), "--min-spearman", least]
    assert command(arguments) == code


def test_replies_need_a_scale_where_the_catalogue_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = lines(
        tmp_path / "r.jsonl",
        [
            {"id": f"d{d}s{s}", "dimension": "charm", "replies": [f"Score: {s + 1}", f"{s + 1}"]}
            for d in range(3)
            for s in range(3)
        ],
    )
    arguments = ["--replies", replies, "--dimension", "charm"]
    arguments += ["--data", labels(tmp_path / "l.jsonl", [[1, 2, 3]] * 3)]
    assert command(arguments) == 2
    assert "--scale LOW-HIGH" in capsys.readouterr().err
    result = verified(capsys, *arguments, "--scale", "1-3")
    assert figure(result, "summary", "spearman", "zero")["value"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "JUDGE, --replies FILE or --scores FILE"),
        (["relevance", "--scores", "s.jsonl"], 2, "one thing to verify"),
        (["--scores", "s.jsonl"], 2, "--dimension NAME"),
        (["relevanse"], 2, "relevance"),
        (["--scores", "none.jsonl", "--dimension", "charm", "--data", "l.jsonl"], 1, "none.jsonl"),
        (["--scores", "s.jsonl", "--dimension", "wit", "--data", "l.jsonl"], 2, "wit"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    labels(tmp_path / "l.jsonl", [[1, 2, 3]] * 3)
    scores(tmp_path / "s.jsonl", [[1, 2, 3]] * 3)
    assert command(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


@needs_shared
def test_published_scores_agree_with_the_tables_readme(capsys: pytest.CaptureFixture[str]) -> None:
    # summeval_judges/README.md: GPT-4-0314, rts, relevance: .438 over 81 documents, pooled .427.
    result = verified(
        capsys,
        "--replies",
        str(SHARED / "summeval_judges" / "replies_gpt-4-0314.jsonl"),
        "--data",
        str(SHARED / "summeval" / "summeval.jsonl"),
        "--dimension",
        "relevance",
        "--reading",
        "last_digit",
    )
    summary = figure(result, "summary", "spearman", "left_out")
    assert summary["value"] == pytest.approx(0.438, abs=0.0006)
    assert summary["n_documents"] == 81
    pooled = figure(result, "dataset", "spearman", "left_out")
    assert pooled["value"] == pytest.approx(0.427, abs=0.0006)
    assert pooled["n_outputs"] == 1200


@needs_shared
def test_several_prompts_in_a_file_have_to_be_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [
        "--replies",
        str(SHARED / "summeval_judges" / "replies_gpt-3.5-turbo-0301.jsonl"),
        "--data",
        str(SHARED / "summeval" / "summeval.jsonl"),
        "--dimension",
        "fluency",
    ]
    assert command(arguments) == 1
    assert "pick one with --prompt" in capsys.readouterr().err


@needs_shared
def test_recorded_pairs_reproduce_llmbars_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    # published_statistics_GPT-4.json has each subset; the mean over orders is what accuracy is.
    folder = SHARED / "llmbar"
    prompts = {
        json.loads(line)["prompt"]
        for line in (folder / "replies_GPT-4.jsonl").read_text(encoding="utf-8").splitlines()
    }
    result = verified(
        capsys,
        "--replies",
        str(folder / "replies_GPT-4.jsonl"),
        "--data",
        str(folder / "llmbar.jsonl"),
        "--pairwise",
        "llmbar",
        "--prompt",
        "Vanilla_NoRules" if "Vanilla_NoRules" in prompts else sorted(prompts)[0],
    )
    orders = [result["accuracy_order_ab"], result["accuracy_order_ba"]]
    assert result["accuracy_mean_of_orders"] == pytest.approx(sum(orders) / 2)
    assert 0 <= result["accuracy_low"] < result["accuracy"] < result["accuracy_high"] <= 1
    assert result["accuracy"] > 0.7
    assert 0 <= result["order_agreement"] <= 1


def test_help_fits_eighty_columns() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "optimize.verify", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_pairs_have_no_summary_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["tldr_concise", "--level", "summary"]) == 2
    assert "only dataset fits them" in capsys.readouterr().err


def test_both_conventions_are_one_where_no_document_is_undefined_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    human = [[1, 2, 3, 1, 4, 2]] * 4
    judge: list[list[float | None]] = [[1, 3, 2, 1, 4, 2]] * 3 + [[2, 1, 3, 1, 4, 4]]
    result = verified(
        capsys,
        "--scores",
        scores(tmp_path / "s.jsonl", judge),
        "--data",
        labels(tmp_path / "l.jsonl", human),
        "--dimension",
        "charm",
    )
    for level in ("dataset", "system"):
        primary = figure(result, level, "kendall", "judge_zero")
        assert primary["low"] is not None
        for how in ("left_out", "zero"):
            assert figure(result, level, "kendall", how) == {**primary, "undefined": how}
