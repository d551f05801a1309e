"""The catalogue is complete, and each judge's prompt is pinned by a golden file."""

from pathlib import Path

import pytest

from judges.catalog import SUBJECT_BY_NAME, find_subject
from judges.dimension import UnknownDimensionError
from judges.loading import load

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_catalogue_holds_the_twelve_judges_of_the_golden_files():
    names = [path.stem for path in GOLDEN.glob("*.txt")]
    assert len(names) == 12
    assert sorted(SUBJECT_BY_NAME) == sorted(names)


@pytest.mark.parametrize("name", SUBJECT_BY_NAME)
def test_each_prompt_is_the_golden_one_and_has_a_source(name):
    messages = find_subject(name).prompt().template()
    parts = (f"--- {message['role']}\n{message['content']}" for message in messages)
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert "\n\n".join(parts) + "\n" == golden
    assert "arXiv:" in find_subject(name).source


def test_an_unknown_name_is_answered_with_its_neighbours():
    for name, answer in (
        ("Relevanz", "'Relevanz'.*did you mean relevance"),
        ("inform", "cod_informative"),
        ("zzzz", r"did you mean coherence, .*FILE\.yaml"),
    ):
        with pytest.raises(UnknownDimensionError, match=answer):
            load(name)
