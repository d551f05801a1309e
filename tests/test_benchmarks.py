"""The benchmarks: they start, say what they measure, and count calls honestly."""

import runpy
import sys
from pathlib import Path

import pytest
from command_runs import run

import judges

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TEXTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted(BENCHMARKS.iterdir())
    if path.is_file()
}


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "parse_args" in text])
def test_a_benchmark_says_what_it_measures(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    path = str(BENCHMARKS / name)
    code, out, _ = run(lambda words: runpy.run_path(path, run_name="__main__") and 1)
    assert code == 0
    assert len(out.splitlines()) > 3
    assert f"python benchmarks/{name}" in TEXTS["README.md"]


def test_questions_named_like_a_quality_are_answered_as_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENAI_API_KEY", "recorded")
    import summeval
    from simulated_server import serving

    ratings = {"coherence": 2, "consistency": 4, "fluency": 5, "relevance": 1}
    server = summeval.RecordedServer({"A dog barks.": ratings}, "consistency")
    form = [
        judges.Question(name="coherence", text="is it in order", answers=(1, 2, 3, 4, 5)),
        judges.Question(name="fluency", text="is it good English"),
        judges.Question(name="short", text="is it short", answers=(0, 1, 2)),
        judges.Question(name="relevance", text="how much matters", answers=(0, 1, 2)),
    ]
    subject = judges.load("consistency").subject
    with serving(server):

        def ask(**how: object) -> judges.Judgement:
            judge = judges.Judge.of(subject, **how).with_model("openai/m", api_base=server.url)
            return judge(document="-", summary="A dog barks.")

        assert ask().score == 4
        for reasoning in ("none", "brief"):
            answers = ask(reasoning=reasoning, questions=form).answers
            assert answers.pop("short") in (0, 1, 2)
            assert answers == {"coherence": 2, "fluency": 1, "relevance": 0, "rating": 4}
