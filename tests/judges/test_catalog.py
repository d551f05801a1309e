"""The catalogue is complete, and each judge's prompt is pinned by a golden file."""

from pathlib import Path

import pytest

from judges.catalog import find, names
from judges.dimension import Comparison, Dimension, UnknownDimensionError

GOLDEN = Path(__file__).parents[1] / "golden"
DOCUMENT_AND_SUMMARY = ("document", "summary")
# Name -> the texts it reads, as its source has it.
TEXTS = {
    "coherence": DOCUMENT_AND_SUMMARY,
    "consistency": DOCUMENT_AND_SUMMARY,
    "fluency": ("summary",),
    "relevance": DOCUMENT_AND_SUMMARY,
    "cod_informative": DOCUMENT_AND_SUMMARY,
    "cod_quality": ("summary",),
    "cod_coherence": ("summary",),
    "cod_attributable": DOCUMENT_AND_SUMMARY,
    "cod_overall": DOCUMENT_AND_SUMMARY,
    "tldr_salience": ("post", "summary_a", "summary_b"),
    "tldr_concise": ("post", "summary_a", "summary_b"),
    "dialogue_helpful": ("query", "response_a", "response_b"),
}


def rendered(name: str) -> str:
    messages = find(name).prompt().template()
    return (
        "\n\n".join(f"--- {message['role']}\n{message['content']}" for message in messages) + "\n"
    )


def test_the_catalogue_holds_the_three_sources_twelve_judges() -> None:
    assert names() == tuple(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_each_judge_reads_what_its_source_reads_and_writes_what_it_writes(name: str) -> None:
    judge, prompt = find(name), find(name).prompt()
    assert tuple(field.name for field in prompt.inputs) == TEXTS[name]
    outputs = {field.name: field.choices for field in prompt.outputs}
    if isinstance(judge, Dimension):
        assert outputs == {"rating": (1, 2, 3, 4, 5)}
    else:
        assert isinstance(judge, Comparison)
        assert outputs == {"comparison": None, "preferred": ("A", "B")}
    assert "arXiv:" in judge.source


@pytest.mark.parametrize("name", TEXTS)
def test_each_prompt_is_the_golden_one(name: str) -> None:
    assert rendered(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["fluency", "cod_quality", "cod_coherence"])
def test_judges_of_the_summary_alone_send_no_document(name: str) -> None:
    texts = {"document": "the whole article", "summary": "the summary's text"}
    sent = "".join(message["content"] for message in find(name).prompt().messages(texts))
    assert texts["summary"] in sent
    assert texts["document"] not in sent
    assert "document" not in (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_an_unknown_name_is_answered_with_its_neighbours() -> None:
    with pytest.raises(UnknownDimensionError, match=r"'Relevanz'.*near it: relevance"):
        find("Relevanz")
    with pytest.raises(UnknownDimensionError, match="cod_informative"):
        find("inform")
    with pytest.raises(UnknownDimensionError, match=r"near it: coherence, .*FILE\.yaml"):
        find("zzzz")
