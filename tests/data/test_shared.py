"""The real label files beside this repository, against the figures in their READMEs."""

from pathlib import Path

import pytest

import data

SHARED = Path(__file__).parents[3] / "shared" / "data"
SUMMEVAL = SHARED / "summeval" / "summeval.jsonl"

pytestmark = pytest.mark.skipif(
    not SUMMEVAL.exists(), reason="real labels are not beside this repository"
)

DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


def test_summeval_has_its_sixteen_hundred_outputs() -> None:
    labelled = data.read_labels(SUMMEVAL, dimensions=DIMENSIONS, scales={"*": (1, 5)})
    assert (len(labelled.outputs), len(labelled.documents), len(labelled.systems)) == (
        1600,
        100,
        16,
    )
    assert labelled.dimensions == DIMENSIONS
    # Its README: only the means of the 400 extractive outputs are known.
    assert sum(not output.annotators for output in labelled.outputs) == 400
    assert {len(output.ratings["fluency"]) for output in labelled.outputs} == {1, 3}
    # Its README: constant in 4 documents on consistency, 2 on fluency.
    constant = {name: len(constant_documents(labelled, name)) for name in DIMENSIONS}
    assert constant == {"coherence": 0, "consistency": 4, "fluency": 2, "relevance": 0}
    means = {name: mean_rating(labelled, name) for name in ("consistency", "fluency")}
    assert means == pytest.approx({"consistency": 4.66, "fluency": 4.67}, abs=0.005)


def constant_documents(labelled: data.LabelledSet, dimension: str) -> list[str]:
    ratings: dict[str, set[float]] = {}
    for output in labelled.outputs:
        ratings.setdefault(output.document_id, set()).add(round(output.rating(dimension), 6))
    return [document for document, values in ratings.items() if len(values) == 1]


def mean_rating(labelled: data.LabelledSet, dimension: str) -> float:
    return sum(output.rating(dimension) for output in labelled.outputs) / len(labelled.outputs)


def test_topical_chat_has_its_six_dimensions_on_three_scales() -> None:
    scales = dict.fromkeys(("understandability", "groundedness"), (0.0, 1.0))
    labelled = data.read_labels(
        SHARED / "topical_chat" / "topical_chat.jsonl",
        scales={**scales, "overall": (1, 5), "*": (1, 3)},
        texts=("context", "fact", "response"),
    )
    assert (len(labelled.outputs), len(labelled.documents), len(labelled.systems)) == (360, 60, 6)
    assert len(labelled.dimensions) == 6
    assert data.split(labelled, seed=0).by == "document"


# Pairs and votes, from each folder's README.
PAIRS = {"llmbar": (1200, 1200), "pandalm": (999, 2997), "benchmark_llm_pairwise": (112, 599)}


@pytest.mark.parametrize("name", PAIRS)
def test_every_file_of_pairs_reads_whole(name: str) -> None:
    labelled = data.read_pairs(SHARED / name / f"{name}.jsonl")
    n_votes = sum(len(pair.votes) for pair in labelled.pairs)
    assert (len(labelled.pairs), n_votes) == PAIRS[name]
    splits = data.split(labelled, seed=0)
    assert sum(len(part.pairs) for part in (splits.train, splits.dev, splits.test)) == len(
        labelled.pairs
    )
