"""The benchmarks: they start, say what they measure, and count calls honestly."""

import importlib
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

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


def test_held_out_rho_is_the_mean_of_each_documents_own(named: Any) -> None:
    """As scipy computes them one by one; what people rate alike is left out, a constant judge 0."""
    rng = np.random.default_rng(0)
    scores, human = rng.integers(1, 4, 80).astype(float), rng.integers(1, 4, 80).astype(float)
    scores[:4], human[4:8] = 3.0, 2.0
    pairs = [(scores[i : i + 4], human[i : i + 4]) for i in range(0, 80, 4)]
    values = [
        spearmanr(*pair).statistic if np.ptp(pair[0]) else 0.0 for pair in pairs if np.ptp(pair[1])
    ]
    assert named("simulated").mean_rho(scores, human, 4) == pytest.approx(np.mean(values))


def test_shuffled_labels_are_dealt_anew_within_documents_that_are_labelled(named: Any) -> None:
    """A document keeps its ratings, and what a shipped judge is measured on stays as it is."""
    worlds = named("simulated_worlds")
    plain, shuffled = (
        worlds.World(name="wording", seed=0, judge=worlds.JUDGES["wording"], shuffled=is_shuffled)
        for is_shuffled in (False, True)
    )
    n = plain.n_items
    assert (plain.human[n:] == shuffled.human[n:]).all()
    assert (plain.human[:n] != shuffled.human[:n]).any()
    dealt = [np.sort(world.human[:n].reshape(-1, plain.n_systems)) for world in (plain, shuffled)]
    assert (dealt[0] == dealt[1]).all()


def test_optimizers_are_compared_on_the_worlds_and_seeds_that_both_have_run(named: Any) -> None:
    """Gains of .1 and .3 have mean .2 and standard error .1; a third seed has one side only."""
    rank, gepa = (
        {("w", seed): {"rho": rho} for seed, rho in enumerate(rhos)}
        for rhos in ((0.4, 0.5, 0.9), (0.3, 0.2))
    )
    assert named("simulated").paired_gain(rank, gepa) == "+0.200 ± 0.100 (2)"
    assert named("simulated").paired_gain(rank, {}) == ""


def test_a_simulated_endpoint_bills_what_it_reports(named: Any) -> None:
    world = named("simulated_worlds").World(
        name="wording", seed=0, judge=named("simulated_worlds").JUDGES["wording"]
    )
    server = named("simulated_server").SimulatedServer(world)
    body = {"messages": [{"role": "user", "content": world.texts(0)["reply"]}], "n": 2}
    answers = [server.answer({**body, "model": name}) for name in ("gpt-4.1-mini", "gpt-5-mini")]
    reported = {
        count: sum(answer["usage"][f"{name}_tokens"] for answer in answers)
        for count, name in (("in", "prompt"), ("out", "completion"))
    }
    assert sum(server.tokens_in.values()) == reported["in"]
    assert sum(server.tokens_out.values()) == reported["out"]
    assert server.dollars > 0
