"""The benchmarks start, and say what they measure."""

import runpy
import sys
from pathlib import Path

import pytest
from command_runs import run

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
