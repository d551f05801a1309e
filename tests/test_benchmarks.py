"""The benchmarks: they start, tell what they measure, and count calls honestly."""

import importlib
import random
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from judges.define import read_subject
from judges.dimension import seed_prompt
from judges.parsing.parse import parse_fields
from judges.prompt import Prompt, Reasoning
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COMMANDS = sorted(
    path.name for path in BENCHMARKS.glob("*.py") if "argparse" in path.read_text(encoding="utf-8")
)
DOCUMENTS, SYSTEMS = 24, 6
# How much of people's rating is in each prompt's score.
SKILLS = {"poor": 0.0, "fair": 0.3, "good": 0.95, "middling": 0.5, "weak": 0.1}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a benchmark as its command does, with its siblings beside it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") and str(BENCHMARKS) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_says_what_it_measures(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
    assert left.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 3


def test_the_page_names_every_benchmark() -> None:
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"python benchmarks/{name}" in page, name


@pytest.mark.parametrize(
    ("section", "tries"), [("judges", 400), ("definitions", 60), ("answers", 150)]
)
def test_altered_files_and_answers_are_refused_in_a_line_or_harmless(
    named: Callable[[str], ModuleType], section: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.inference.client.FIRST_WAIT", 0.5)  # which it shortens
    _, fuzz = named("fuzz").SECTIONS[section]
    counts = fuzz(tries, random.Random(7))
    assert counts.outcomes["tried"] == tries
    assert not counts.faults, counts.faults[:3]
    assert counts.slowest < 5


def recorded() -> tuple[Items, dict[str, dict[str, float]]]:
    rng = np.random.default_rng(0)
    items = tuple(
        Item(
            id=f"d{document}s{system} warmth",
            document_id=f"d{document} warmth",
            system=f"s{system}",
            texts={},
            human=float(rng.normal()),
        )
        for document in range(DOCUMENTS)
        for system in range(SYSTEMS)
    )
    scores = {
        name: {item.id: skill * item.human + (1 - skill) * rng.normal() for item in items}
        for name, skill in SKILLS.items()
    }
    return Items(items), scores


def test_a_scorecard_is_read_for_the_table_of_conventions(named: Any) -> None:
    ratings = [1.0, 2.0, 3.0]
    items = Items(
        tuple(
            Item(id=f"{d}{s}", document_id=d, system=f"s{s}", texts={}, human=rating)
            for d in "abc"
            for s, rating in enumerate(ratings)
        )
    )
    scores = np.array([*ratings, *ratings, 1, 1, 1])
    assert named("conventions").on_scorecard(scores, items) == "0.667"


def test_a_race_pays_for_what_it_asks_and_never_sees_the_held_out_half(
    named: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: ModuleType = named("race")
    asked: list[list[tuple[str, str]]] = []
    make = module.bench_of

    def bench_of(scores: Mapping[str, Any], incumbent: Candidate, *calls: int) -> Evaluator:
        evaluator: Evaluator = make(scores, incumbent, *calls)
        seen: list[tuple[str, str]] = []
        judge = evaluator._judge

        def watching(prompt: Prompt, items: Sequence[Item]) -> Any:
            seen.extend((prompt.instruction, item.document_id) for item in items)
            return judge(prompt, items)

        evaluator._judge = watching
        asked.append(seen)
        return evaluator

    monkeypatch.setattr(module, "bench_of", bench_of)
    items, scores = recorded()
    half = DOCUMENTS // 2
    for seed in range(3):
        asked.clear()
        result = module.run(items, scores, ("warmth",), seed, shares=(0.5, 1.0))
        everything, *races = asked
        # All five prompts, once each, on every document.
        assert len(everything) == len(SKILLS) * len(items)
        for share, seen, raced in zip((0.5, 1.0), races, result.races, strict=True):
            assert raced.share == len(seen) / (len(SKILLS) * half * SYSTEMS) <= share
            assert len({document for _, document in seen}) <= half
        # With all the calls the race does judge everything, and chooses as that does.
        assert result.races[1].share == 1
        assert result.races[1].rho == result.everything
        assert (
            max(result.everything, result.whole, *(race.rho for race in result.races))
            <= result.best
        )


def test_the_race_tells_near_from_far(named: Any) -> None:
    module = named("race")
    items, scores = recorded()
    runs = [module.run(items, scores, ("warmth",), seed) for seed in range(4)]
    page = module.page({"warmth": runs}, 1.0)
    (row,) = [line for line in page.splitlines() if line.startswith("| warmth")]
    # "good" is far better than any other: every way of choosing finds it in every run.
    assert row.count("| 4 ") == 8
    assert "| 0.000 | 0.000 | 50%" in row


def line(optimizer: str, budget: int, seed: int, **told: Any) -> dict[str, Any]:
    """A line as benchmarks/optimizers.py writes it; `tuned` is rho, the seed's is .3."""
    tuned = told.pop("tuned", 0.3)
    cell = {"seed": 0.3, "tuned": tuned, "gain": {"value": tuned - 0.3, "low": -1, "high": 1}}
    return {
        "task": "a set warmth",
        "seed": seed,
        "optimizer": optimizer,
        "budget": budget,
        "shuffled": False,
        "shipped": False,
        "calls": budget - 1,
        "seconds": 1.0,
        "wall": 2.0,
        "code": "abc",
        "test": cell,
        "unseen": {**cell, "tuned": tuned - 0.2},
        **told,
    }


def test_the_page_of_the_optimizers_tells_each_claim_from_the_lines(named: Any) -> None:
    page = named("optimizers_page").page
    lines = []
    for seed in (0, 1):
        for budget in (1000, 4000):
            lines.append(line("rank", budget, seed, tuned=0.5 + 0.1 * seed, shipped=seed == 1))
            lines += [line(name, budget, seed, tuned=0.4) for name in ("gepa", "miprov2")]
        lines.append(line("rank", 500, seed, tuned=0.4))
        lines.append(line("rank", 4000, seed, shuffled=True, shipped=seed == 0))
    told = page(lines)
    # Rank less the others: .1 and .2, mean .15; t with one degree of freedom reaches 12.7 * .05.
    assert "+0.150 [-0.485, +0.785]" in told
    assert "4,000 calls: rank's mean test rho is above that of 2 of 2" in told
    assert "(0.400, miprov2) is reached with 500, 12%" in told
    # One of two ships, with a gain of .3: .15 on average; on unseen systems it gains .1.
    assert "Shipped judges gain +0.150" in told
    assert "Shipped judges gain +0.050" in told
    assert "On shuffled labels 1 of 2 ship" in told
    assert "1 of 2 searches ship a tuned judge" in told


def test_shuffling_keeps_each_documents_ratings_and_their_order_alone(named: Any) -> None:
    module = named("optimizers")
    items, _ = recorded()
    job = module.Job(task="t", seed=0, optimizer="rank", budget=1, shuffled=True)
    dealt = module.shuffled(items, job)
    assert dealt.human.tolist() != items.human.tolist()
    for rows in items.places.values():
        assert sorted(dealt.human[rows]) == sorted(items.human[rows])
    assert [item.id for item in dealt.items] == [item.id for item in items.items]


def test_a_simulated_world_heeds_what_its_truth_says(named: Any) -> None:
    """On 300 fresh outputs: words move the judge where wording matters, demos where they do."""
    worlds, simulated = named("simulated_worlds"), named("simulated")

    def rho(kind: str, *, named_qualities: bool = False, shown: str = "") -> float:
        world = worlds.World(name=kind, seed=1, judge=worlds.JUDGES[kind], n_fresh_documents=75)
        judge = worlds.SimulatedJudge(world)
        instruction = "Judge how good the reply is."
        if named_qualities:
            true = np.flatnonzero(world.true_weights)
            instruction += " ".join(world.names[index][0] for index in true)
        messages = [{"role": "system", "content": instruction}]
        ratings = world.human[: world.n_items].round().astype(int)
        pool = np.flatnonzero(ratings == 5) if shown == "best" else np.arange(world.n_items)
        for item in pool[:: max(1, len(pool) // 16)][:16] if shown else []:
            messages.append({"role": "user", "content": world.texts(item)["reply"]})
            messages.append({"role": "assistant", "content": str(ratings[item])})
        fresh = range(world.n_items, len(world.gold))
        scores = [
            int(judge.reply([*messages, {"role": "user", "content": world.texts(item)["reply"]}]))
            for item in fresh
        ]
        value: float = simulated.mean_rho(np.array(scores, float), world.human[fresh], 4)
        return value

    assert rho("wording", named_qualities=True) > rho("wording") + 0.1
    assert rho("demos", shown="any") > rho("demos") + 0.1
    assert rho("demos mislead", shown="best") < rho("demos mislead", shown="any")
    # Without errors of its own, the judge of the third world says the same whatever it is told.
    worlds.JUDGES["nothing"] = replace(worlds.JUDGES["nothing"], error=0.0)
    assert rho("nothing") == rho("nothing", named_qualities=True) == rho("nothing", shown="best")


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
    # Of 100 documents with three differences each, a correlation's standard error is .06.
    gold, human = (
        side[:n].reshape(-1, plain.n_systems) for side in (shuffled.gold, shuffled.human)
    )
    within = [(side - side.mean(axis=1, keepdims=True)).ravel() for side in (gold, human)]
    assert abs(np.corrcoef(*within)[0, 1]) < 0.15


def test_a_shipped_judge_is_compared_with_the_cheapest_that_is_as_good(named: Any) -> None:
    """Of rho .50 at $2: .495 at $1 is as good, .489 at $.20 is not; .49 by another at $.50 is."""
    judge = {"rho": 0.5, "cost_1000": 2.0}
    world = {"world": "w", "vocabulary": "v", "seed": 0, "n_systems": 4, "shuffled": False}
    finalists = [judge, {"rho": 0.495, "cost_1000": 1.0}, {"rho": 0.489, "cost_1000": 0.2}]
    run = {**world, **judge, "dollars": 2.0, "finalists": finalists}
    other = {**world, "dollars": 2.0, "rho": 0.491, "cost_1000": 0.5}
    elsewhere = {**other, "seed": 1, "cost_1000": 0.1}
    cost_ratios = named("simulated").cost_ratios
    assert cost_ratios(run, [run, other, elsewhere]) == (2.0, 4.0)
    assert cost_ratios({**run, **finalists[2]}, [run]) == (1.0, 1.0)


def test_optimizers_are_compared_on_the_worlds_and_seeds_that_both_have_run(named: Any) -> None:
    """Gains of .1 and .3 have mean .2 and standard error .1; a third seed has one side only."""
    world = {"world": "w", "vocabulary": "v", "n_systems": 4, "shuffled": False}
    rhos = {("rank", 1.0): (0.4, 0.5, 0.9), ("gepa", 2.0): (0.3, 0.2)}
    lines = [
        {**world, "seed": seed, "optimizer": optimizer, "dollars": dollars, "rho": rho}
        for (optimizer, dollars), values in rhos.items()
        for seed, rho in enumerate(values)
    ]
    simulated = named("simulated")
    assert simulated.paired_gain(lines, *rhos) == "+0.200 ± 0.100 (2)"
    assert simulated.paired_gain(lines, ("rank", 2.0), ("gepa", 2.0)) == ""
    assert "| $2 |  | +0.200 ± 0.100 (2) |" in simulated.gains_table(lines)


@pytest.mark.parametrize(
    ("reasoning", "form"),
    [("none", "direct"), ("brief", "brief"), ("steps", "steps"), ("questions", "steps")],
)
def test_a_simulated_judge_sees_which_reasoning_a_prompt_asks_for(
    reasoning: Reasoning, form: str, named: Any, tmp_path: Path
) -> None:
    """And what it replies then is read."""
    worlds = named("simulated_worlds")
    world = worlds.World(name="wording", seed=0, judge=worlds.JUDGES["wording"])
    _, dimension = world.write(tmp_path)
    prompt = seed_prompt(read_subject(str(dimension)), reasoning)
    demo = {**world.texts(1), "rationale": "It says so.", "rating": 4}
    shown = {field.name: demo[field.name] for field in prompt.fields}
    for asked in (prompt, replace(prompt, demos=(shown,))):
        messages = asked.messages(world.texts(0))
        judge = worlds.SimulatedJudge(world)
        assert judge._form(messages) == form
        assert worlds.shown_items(messages) == (([1], [4]) if asked.demos else ([], []))
        values = parse_fields(judge.reply(messages), asked.outputs)
        assert values["rating"] in (1, 2, 3, 4, 5)
        assert set(values) == {field.name for field in asked.outputs}


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
