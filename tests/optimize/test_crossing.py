"""Versions that judge what the whole has learned from: on what each is compared."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_world import SEED, judge, search, shuffled, world

from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search import finalists
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget
from optimize.search.finalists import CrossFit, score_with_seed
from optimize.search.gate import Choice
from optimize.search.objective import Level, objective
from optimize.search.problem import SearchOptions, SearchProblem

# Sets as large as all labels: what shows everything is a finalist, and no race can judge it.
ALL_SHOWN = (1000,)
OPTIONS = SearchOptions(demo_sizes=ALL_SHOWN)


def outputs(documents: int, systems: int) -> Items:
    """Every document's outputs are rated 1 to 5 by chance; a text names its document and system."""
    rng = np.random.default_rng(0)
    return Items(
        tuple(
            Item(
                id=f"d{document} s{system}",
                document_id=f"d{document}",
                system=f"s{system}",
                texts={"text": f"d{document} s{system}"},
                human=float(rng.integers(1, 6)),
            )
            for document in range(documents)
            for system in range(systems)
        )
    )


def whole_of(cross_fit: CrossFit) -> Candidate:
    return Candidate(instruction=SEED.instruction, demo_set=cross_fit.full_demo_set)


def test_the_gain_is_on_outputs_of_shown_systems_and_new_systems_are_placed_by_themselves() -> None:
    everything = outputs(16, 8)
    human = {item.texts["text"]: item.human for item in everything.items}

    def judge(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        """People's own ratings of shown systems; of all others, and without examples, a 3."""
        shown = {str(demo["text"]).split()[1] for demo in prompt.demos}
        return [
            ItemScore(
                score=human[one.texts["text"]] if one.system in shown else 3.0 + len(one.id) / 9
            )
            for one in items
        ]

    evaluator = Evaluator(seed=SEED, judge=judge, calls_per_item=1, budget=SearchBudget(10_000))
    cross_fit = CrossFit(everything, SEED, OPTIONS)
    problem = SearchProblem(
        evaluator=evaluator,
        propose=lambda *_: [],
        train=everything,
        dev=everything,
        level="summary",
        options=OPTIONS,
    )
    (scored,) = score_with_seed(problem, cross_fit, [whole_of(cross_fit)], everything, "dev")
    # On each document, rho is 1 over the six systems shown; the seed's, which ties them, is 0.
    gap = scored.contrast("summary")
    assert gap.value == pytest.approx(1.0)
    assert (gap.error, len(gap.documents)) == (pytest.approx(0.0, abs=1e-6), 16)
    (record,) = problem.log.trials
    assert (record["stage"], record["n_documents"]) == ("dev", 16)
    assert record["value"] == pytest.approx(1.0)
    assert record["gain"] == pytest.approx(1.0)
    assert np.isfinite(scored.placement_gains).all()
    assert float(scored.placement_gains.mean()) < 0.9


def test_with_few_systems_all_are_shown_and_every_output_counts() -> None:
    cross_fit = CrossFit(outputs(16, 4), SEED, OPTIONS)
    whole = whole_of(cross_fit)
    assert cross_fit.is_feasible
    assert all(
        cross_fit.systems_without_demos(whole, f"d{number}") == frozenset() for number in range(16)
    )
    said = cross_fit.note(whole)
    assert (
        said == "on dev, versions of the tuned judge that do not show the document stand in for it"
    )


def test_with_few_documents_or_little_room_there_are_no_versions() -> None:
    few = CrossFit(outputs(7, 8), SEED, OPTIONS)
    assert not few.is_feasible
    assert few.note(whole_of(few)) is None
    tight = CrossFit(outputs(16, 8), SEED, SearchOptions(demo_sizes=(16,)))
    assert not tight.is_feasible
    assert not CrossFit(Items(()), SEED, OPTIONS).is_feasible


def test_what_shows_all_labels_is_judged_by_versions_that_do_not_show_the_document() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    train, dev = world(16), world(12, first=100)
    whole = Items((*train.items, *dev.items))
    document = {item.texts["text"]: item.document_id for item in whole.items}
    system = {item.texts["text"]: item.system for item in whole.items}
    options = SearchOptions(rounds=1, demo_sizes=ALL_SHOWN, proposals=0)
    result, records, evaluator = search(train, dev, options=options, by=watching)
    assert result.choice.gain is not None
    # Nothing of it was chosen by train, which judges it too.
    assert result.choice.gain.n_documents == 16 + 12
    assert "dev and train documents" in result.choice.why
    assert [record["how"] for record in records if record["stage"] == "train"] == ["all"]
    assert result.tuned.documents == set(whole.documents)
    assert len(result.tuned.demo_set.demos) == len(whole)
    # Four versions, each of three quarters of the documents by three quarters of the systems.
    large = [(prompt, name) for prompt, name in asked if len(prompt.demos) > 16 * 6]
    assert {len(prompt.demos) for prompt, _ in large} == {21 * 6}
    held = [{system[str(demo["text"])] for demo in prompt.demos} for prompt, _ in large]
    assert len({frozenset(names) for names in held}) == 4
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}
    # The same figures come out when it is measured on dev again, and nothing is asked for.
    before = len(asked)
    result.cross_fit.scores(
        evaluator, result.tuned, result.cross_fit.known(evaluator, result.tuned, dev)
    )
    assert len(asked) == before
    assert len(result.cross_fit.known(evaluator, result.tuned, dev)) == len(dev)
    # Documents it does not show it judges itself.
    other = world(1, first=500)
    result.cross_fit.scores(evaluator, result.tuned, other)
    assert len(asked[-1][0].demos) == len(whole)


def test_calls_for_one_finalist_alone_go_to_dev_and_not_to_a_race() -> None:
    # Dev has 96 outputs: seed and one finalist take 192 of 250 calls, and no race is begun.
    options = SearchOptions(demo_sizes=ALL_SHOWN)
    result, records, _ = search(world(16), world(12, first=100), calls=250, options=options)
    assert "race" not in {record["stage"] for record in records}
    assert result.choice.gain is not None
    assert result.choice.gain.n_documents >= 12


def test_shuffled_labels_shown_in_full_almost_never_ship_either() -> None:
    shipped = 0
    for seed in range(24):
        train = shuffled(world(8, 6, seed=seed), seed)
        dev = shuffled(world(8, 6, first=100, seed=seed), seed)
        options = SearchOptions(seed=seed, rounds=2, demo_sizes=ALL_SHOWN)
        shipped += search(train, dev, seed=seed, options=options)[0].choice.ship
    assert shipped <= 2


@pytest.mark.parametrize(("systems", "held_out"), [(6, 0), (7, 7)])
def test_seven_systems_or_more_are_held_out_in_turn(systems: int, held_out: int) -> None:
    cross_fit = CrossFit(outputs(16, systems), SEED, OPTIONS)
    whole = whole_of(cross_fit)
    parts = {cross_fit.systems_without_demos(whole, f"d{number}") for number in range(16)}
    assert len(frozenset[str]().union(*parts)) == held_out
    assert sum(map(len, parts)) == held_out


def on_dev(placed: float, failing: int = 0) -> finalists.FinalistScores:
    """Ten documents of four in people's own order; new systems are placed so much better."""
    those = outputs(10, 4)
    human = np.tile([1.0, 2, 3, 4], 10)
    those = Items(tuple(replace(one, human=x) for one, x in zip(those.items, human, strict=True)))
    scores = human.copy()
    scores[:failing] = np.nan
    rng = np.random.default_rng(0)
    return finalists.FinalistScores(
        items=those,
        candidate=scores,
        seed=rng.permuted(human.reshape(10, 4), axis=1).ravel(),
        left_out=dict.fromkeys(those.documents, frozenset()),
        placement_gains=placed + np.tile([-0.01, 0.01], 5),
    )


def decided(placed: float, failing: int = 0) -> Choice:
    dev = on_dev(placed, failing)
    return finalists.choose_finalist([dev], {}, "summary", [1.0], 3, np.random.default_rng(0))


@pytest.mark.parametrize("level", ["dataset", "summary", "system"])
def test_dev_is_compared_at_the_level_of_the_search(level: Level) -> None:
    dev = on_dev(0.0)
    base = objective(dev.seed, dev.items, level)
    assert dev.value(level) == pytest.approx(1)
    assert dev.contrast(level).value == pytest.approx(1 - base)


def test_what_dev_knows_of_new_systems_and_of_failures_reaches_the_gate() -> None:
    better = decided(0.1)
    assert better.ship
    assert better.unseen is not None
    assert better.unseen.value == pytest.approx(0.1)
    assert not decided(-0.1).ship
    unknown = decided(np.nan)
    assert unknown.ship
    assert unknown.unseen is None
    # Five of forty outputs are more than a tenth.
    assert decided(0.1, failing=4).ship
    assert "fails on 12% of the outputs" in decided(0.1, failing=5).why
