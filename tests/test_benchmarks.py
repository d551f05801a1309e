"""The benchmarks: they start, say what they measure, and count calls honestly."""

import runpy
import sys
from pathlib import Path

import pytest

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
