"""Figures from recorded replies say how far they hang on the reading."""

import json
from pathlib import Path

import pytest
from jsonl import write_jsonl

from optimize.cli.verify import command as main

SHARED = Path(__file__).parents[3] / "shared" / "data"


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    main([*arguments, "--json"])
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_a_misread_fraction_is_counted_and_moves_the_other_readings_rho(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"document": "d", "summary": "s"}
    labels = write_jsonl(
        tmp_path / "labels.jsonl",
        [{"id": str(n), "group": "g", **texts, "ratings": {"relevance": n + 1}} for n in range(4)],
    )
    # Strictly 1, 2, 3, 4: rho 1. The last digit of "2/5" is 5: ranks 1 4 2 3 against 1 2 3 4, so
    # the squared rank differences sum to 0 + 4 + 1 + 1 and rho = 1 - 6 * 6 / (4 * 15) = 0.4.
    replies = write_jsonl(
        tmp_path / "replies.jsonl",
        [
            {"id": str(n), "dimension": "relevance", "replies": [reply]}
            for n, reply in enumerate(["1", "2/5", "3", "4"])
        ],
    )
    told = verified(capsys, "--replies", replies, "--data", labels, "--dimension", "relevance")
    (last,) = [reading for reading in told["readings"] if reading["reading"] == "last_digit"]  # type: ignore[attr-defined]
    assert last["n_different"] == 1
    assert last["dataset_level_spearman"] == pytest.approx(0.4)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no recorded replies at {SHARED}")
@pytest.mark.parametrize(
    ("dimension", "dataset", "summary", "documents"),
    [
        ("coherence", 0.448, 0.457, 98),
        ("consistency", 0.556, 0.608, 77),
        ("fluency", 0.498, 0.531, 97),
        ("relevance", 0.427, 0.438, 81),
    ],
)
def test_gpt4s_published_figures_come_out_with_the_origins_reading(
    capsys: pytest.CaptureFixture[str],
    dimension: str,
    dataset: float,
    summary: float,
    documents: int,
) -> None:
    told = verified(
        capsys,
        "--replies", str(SHARED / "summeval_judges" / "replies_gpt-4-0314.jsonl"),
        "--data", str(SHARED / "summeval" / "summeval.jsonl"),
        "--dimension", dimension,
    )  # fmt: skip
    (last,) = [reading for reading in told["readings"] if reading["reading"] == "last_digit"]  # type: ignore[attr-defined]
    assert last["dataset_level_spearman"] == pytest.approx(dataset, abs=0.002)
    assert last["summary_level_spearman_left_out"] == pytest.approx(summary, abs=0.002)
    assert last["n_documents_left_out"] == documents
    # Documents on which GPT-4 says one thing count 0 by the primary convention.
    zeros = last["n_documents"] - documents
    assert last["summary_level_spearman"] == pytest.approx(
        last["summary_level_spearman_left_out"] * documents / (documents + zeros)
    )
