"""The real label files beside this repository, against the figures in their READMEs."""

from pathlib import Path

import pytest

import data

SHARED = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not SHARED.exists(), reason="real labels are not beside this repository"
)

DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


def test_summeval_has_its_sixteen_hundred_outputs():
    file = SHARED / "summeval" / "summeval.jsonl"
    labelled = data.read_labels(file, dimensions=DIMENSIONS, scales={"*": (1, 5)})
    n = len(labelled.outputs), len(labelled.documents), len(labelled.systems)
    assert n == (1600, 100, 16)
    assert labelled.dimensions == DIMENSIONS
    # Its README: only the means of the 400 extractive outputs are known.
    assert sum(not output.annotators for output in labelled.outputs) == 400
    assert {len(output.ratings["fluency"]) for output in labelled.outputs} == {1, 3}
    means = [
        sum(output.rating(name) for output in labelled.outputs) / 1600
        for name in ("consistency", "fluency")
    ]
    assert means == pytest.approx([4.66, 4.67], abs=0.005)


# From each folder's README.
@pytest.mark.parametrize(
    ("name", "n_pairs", "n_votes"),
    [("llmbar", 1200, 1200), ("pandalm", 999, 2997), ("benchmark_llm_pairwise", 112, 599)],
)
def test_every_file_of_pairs_reads_whole(name, n_pairs, n_votes):
    labelled = data.read_pairs(SHARED / name / f"{name}.jsonl")
    assert (len(labelled.pairs), sum(len(pair.votes) for pair in labelled.pairs)) == (
        n_pairs,
        n_votes,
    )
