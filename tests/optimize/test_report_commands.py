"""optimize.verify draws what it measures, for judges asked and recorded, outputs and pairs."""

from pathlib import Path

import pytest

from optimize.verify import command

LABELS = Path(__file__).parents[3] / "shared" / "data"


def test_an_asked_judge_gets_a_page_with_probes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert command(["relevance", "--report", str(page)]) == 0
    html = page.read_text(encoding="utf-8")
    assert "relevance: the catalogue judge against people" in html
    assert "computed from known faults" in html
    assert "Measure it on labels of your own: these were constructed" in html
    assert "not a language model" in html
    assert "claimed rating" in html
    assert "summary-level rho" in capsys.readouterr().out


@pytest.mark.skipif(not LABELS.is_dir(), reason="needs the labels kept beside the repository")
def test_annotators_give_the_published_ceiling_and_the_judge_s_share(tmp_path: Path) -> None:
    summeval, page = LABELS / "summeval", tmp_path / "report.html"
    told = [
        "--scores", str(LABELS / "summeval_scores" / "scores_gpt-4o-mini.jsonl"),
        "--data", str(summeval / "summeval.jsonl"),
        "--annotations", str(summeval / "expert_annotations.jsonl"),
        "--dimension", "relevance", "--report", str(page),
    ]  # fmt: skip
    assert command(told) == 0
    html = page.read_text(encoding="utf-8")
    # Leave-one-out ceilings per document lie between .44 and .50.
    assert "Share of the human ceiling: 0.899 [0.815, 0.989] (0.425 of 0.473)" in html
    assert "Alternative-annotator test" in html
