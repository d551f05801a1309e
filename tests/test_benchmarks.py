"""The benchmarks: they start, say what they measure, and count calls honestly."""

import importlib
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COMMANDS = sorted(
    path.name for path in BENCHMARKS.glob("*.py") if "argparse" in path.read_text(encoding="utf-8")
)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a benchmark as its command does, with its siblings beside it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


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


def test_a_simulated_world_heeds_what_its_truth_says(named: Any) -> None:
    """On 300 fresh outputs: words move the judge where wording matters, demos where they do."""
    worlds, simulated = named("simulated_worlds"), named("simulated")

    def rho(kind: str, *, named_qualities: bool = False, shown: bool = False) -> float:
        world = worlds.World(name=kind, seed=1, judge=worlds.JUDGES[kind], n_fresh_documents=75)
        judge = worlds.SimulatedJudge(world)
        instruction = "Judge how good the reply is."
        if named_qualities:
            true = np.flatnonzero(world.true_weights)
            instruction += " ".join(worlds.QUALITIES[index][0] for index in true)
        messages = [{"role": "system", "content": instruction}]
        for item in range(0, world.n_items, world.n_items // 16) if shown else []:
            messages.append({"role": "user", "content": world.texts(item)["reply"]})
            messages.append({"role": "assistant", "content": f"{world.human[item]:.0f}"})
        fresh = range(world.n_items, len(world.gold))
        scores = [
            int(judge.reply([*messages, {"role": "user", "content": world.texts(item)["reply"]}]))
            for item in fresh
        ]
        value: float = simulated.mean_rho(np.array(scores, float), world.human[fresh], 4)
        return value

    assert rho("wording", named_qualities=True) > rho("wording") + 0.1
    assert rho("demos", shown=True) > rho("demos") + 0.1
