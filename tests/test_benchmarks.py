"""The benchmarks: they start, say what they measure, and count calls honestly."""

import runpy
import sys
from pathlib import Path

import pytest

import judges

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COMMANDS = sorted(
    path.name for path in BENCHMARKS.glob("*.py") if "argparse" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_says_what_it_measures(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
    assert left.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 3
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert f"python benchmarks/{name}" in page


def test_a_recorded_model_answers_questions_that_are_named_like_a_quality_as_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENAI_API_KEY", "recorded")
    import questions

    ratings = {"coherence": 2, "consistency": 4, "fluency": 5, "relevance": 1}
    server = questions.RecordedServer({"A dog barks.": ratings}, "consistency")
    asked = [
        judges.Question(name="coherence", text="is it in order", answers=(1, 2, 3, 4, 5)),
        judges.Question(name="fluency", text="is it good English"),
        judges.Question(name="short", text="is it short", answers=(0, 1, 2)),
        judges.Question(name="relevance", text="how much matters", answers=(0, 1, 2)),
    ]
    subject, texts = (
        judges.load("consistency").subject,
        {"document": "-", "summary": "A dog barks."},
    )
    with questions.serving(server):
        options = {"lm": "openai/m", "api_base": server.url}
        assert judges.Judge.of(subject).with_model(**options)(**texts).score == 4
        for reasoning in ("none", "brief"):
            judge = judges.Judge.of(subject, reasoning=reasoning, questions=asked)
            answers = judge.with_model(**options)(**texts).answers
            assert answers.pop("short") in (0, 1, 2)
            assert answers == {"coherence": 2, "fluency": 1, "relevance": 0, "rating": 4}
