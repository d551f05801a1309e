"""Recorded scores reach the correlations that were published for them."""

import json
from pathlib import Path

import pytest

from optimize.statistics.correlations import Correlation, summary_level

SHARED = Path(__file__).parents[3] / "shared" / "data"


def read_shared(folder: str, scores: str, dimension: str) -> tuple[list[float], ...]:
    if not SHARED.exists():
        pytest.skip("needs ../shared/data")
    with (SHARED / folder / "summeval.jsonl").open() as lines:
        rows = {row["id"]: row for row in map(json.loads, lines)}
    with (SHARED / "summeval_scores" / f"scores_{scores}.jsonl").open() as lines:
        result = [row for row in map(json.loads, lines) if row["dimension"] == dimension]
    judge = [row["score"] for row in result]
    human = [rows[row["id"]]["ratings"][dimension] for row in result]
    return judge, human, [rows[row["id"]]["group"] for row in result]


def close(found: Correlation, figure: float) -> bool:
    return abs(found.value - figure) < 0.0006


@pytest.mark.parametrize(
    ("judge", "dimension", "left_out"),
    [
        ("gpt-4o-mini", "coherence", 0.484),
        ("gpt-4o-mini", "relevance", 0.450),
        ("mistral-7b-v0.3", "coherence", 0.201),
        ("mistral-7b-v0.3", "consistency", 0.137),
        ("mistral-7b-v0.3", "relevance", 0.187),
    ],
)
def test_recorded_scores_reach_their_published_figures(
    judge: str, dimension: str, left_out: float
) -> None:
    vectors = read_shared("summeval", judge, dimension)
    assert close(summary_level(*vectors, undefined="left_out"), left_out)


def test_both_conventions_are_told_apart_on_real_scores() -> None:
    vectors = read_shared("summeval", "mistral-7b-v0.3", "consistency")
    primary = summary_level(*vectors)
    # .044 over all 100 documents. 68 have no rho; 4 of these are constant for people.
    assert close(primary, 0.044 * 100 / 96)
    assert (primary.n_undefined, primary.n_documents) == (68, 96)
