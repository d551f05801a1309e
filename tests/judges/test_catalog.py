"""The catalogue is complete, and each judge's prompt is pinned by a golden file."""

from pathlib import Path

import pytest

from judges.catalog import SUBJECT_BY_NAME, find_subject
from judges.dimension import UnknownDimensionError
from judges.loading import load

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = (
    *("coherence", "consistency", "fluency", "relevance"),
    *("cod_informative", "cod_quality", "cod_coherence", "cod_attributable", "cod_overall"),
    *("tldr_salience", "tldr_concise", "dialogue_helpful"),
)


def test_the_catalogue_holds_the_three_sources_twelve_judges():
    assert tuple(SUBJECT_BY_NAME) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_prompt_is_the_golden_one_and_has_a_source(name):
    messages = find_subject(name).prompt().template()
    parts = (f"--- {message['role']}\n{message['content']}" for message in messages)
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert "\n\n".join(parts) + "\n" == golden
    assert "arXiv:" in find_subject(name).source


def test_an_unknown_name_is_answered_with_its_neighbours():
    with pytest.raises(UnknownDimensionError, match=r"'Relevanz'.*did you mean relevance"):
        find_subject("Relevanz")
    with pytest.raises(UnknownDimensionError, match="did you mean relevance"):
        load("Relevance")
    with pytest.raises(UnknownDimensionError, match="cod_informative"):
        find_subject("inform")
    with pytest.raises(UnknownDimensionError, match=r"did you mean coherence, .*FILE\.yaml"):
        find_subject("zzzz")
