"""A judge that shows all labels: versions of it judge the documents that it shows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_world import SEED, judge, search, world

from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import ItemScore, SearchOptions, objective
from optimize.search.finalists import CrossFit, FinalistScores, choose_finalist
from optimize.search.gate import Choice
from optimize.statistics.bootstrap import stream
from optimize.statistics.levels import Level

# Sets as large as all labels.
OPTIONS = SearchOptions(demo_sizes=(1000,))


def whole_of(cross_fit: CrossFit) -> Candidate:
    return Candidate(instruction=SEED.instruction, demo_set=cross_fit.full_demo_set)


def test_with_few_documents_or_little_room_there_are_no_versions() -> None:
    few = CrossFit(world(7), SEED, OPTIONS)
    assert not few.is_feasible
    assert few.note(whole_of(few)) is None
    assert not CrossFit(world(16), SEED, SearchOptions(demo_sizes=(16,))).is_feasible
    assert not CrossFit(Items(()), SEED, OPTIONS).is_feasible


def test_what_shows_all_labels_is_judged_by_versions_that_do_not_show_the_document() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    train, dev = world(16), world(12, first=100)
    whole = Items((*train.items, *dev.items))
    document = {item.texts["text"]: item.document_id for item in whole.items}
    result, records, evaluator = search(train, dev, options=OPTIONS, by=watching)
    assert result.choice.gain is not None
    # Nothing of it was chosen by train, which judges it too.
    assert result.choice.gain.n_documents == 16 + 12
    assert [record["stage"] for record in records] == ["dev", "train", "gate"]
    assert {record["how"] for record in records[:2]} == {"all"}
    assert result.cross_fit.note(result.tuned) is not None
    assert result.tuned.documents == set(whole.documents)
    assert len(result.tuned.demo_set.demos) == len(whole)
    # Four versions, each of three quarters of the documents.
    versions = {str(prompt.template()): len(prompt.demos) for prompt, _ in asked if prompt.demos}
    assert list(versions.values()) == [21 * 8] * 4
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}
    # The untuned judge and the versions judge each output once.
    assert len(asked) == 2 * len(whole) == evaluator.budget.spent
    # The same figures come out when it is measured on dev again, and nothing is asked for.
    before = len(asked)
    known = result.cross_fit.known(evaluator, result.tuned, dev)
    result.cross_fit.scores(evaluator, result.tuned, known)
    assert (len(asked), len(known)) == (before, len(dev))
    # Documents it does not show it judges itself.
    result.cross_fit.scores(evaluator, result.tuned, world(1, first=500))
    assert len(asked[-1][0].demos) == len(whole)


def test_where_not_all_can_be_shown_train_alone_teaches() -> None:
    train, dev = world(16), world(12, first=100)
    result, records, _ = search(train, dev, options=SearchOptions(demo_sizes=(4, 16)))
    (trial,) = [record for record in records if record["stage"] != "gate"]
    assert (trial["stage"], trial["how"], len(trial["demos"])) == ("dev", "levels 16", 16)
    assert set(trial["demos"]) <= {item.id for item in train.items}
    assert result.choice.gain is not None
    nothing, records, _ = search(train, dev, options=SearchOptions(demo_sizes=(0,)))
    assert not records
    assert not nothing.choice.ship


@pytest.mark.parametrize("calls", [1, 60, 250])
def test_what_is_shown_is_compared_on_as_much_of_dev_as_the_calls_reach_for(calls: int) -> None:
    result, _, evaluator = search(world(16), world(12, first=100), calls=calls, options=OPTIONS)
    assert evaluator.budget.spent <= calls
    n_documents = result.choice.gain.n_documents if result.choice.gain else 0
    # A document is 8 outputs for two judges; with 250 calls there are 12 of dev and 3 of train.
    assert n_documents == calls // 16


def on_dev(failing: int = 0) -> FinalistScores:
    """Ten documents of four that the candidate ranks as people do, but for those it fails on."""
    items = world(10, 4)
    human = np.tile([1.0, 2, 3, 4], 10)
    rated = zip(items.items, human, strict=True)
    items = Items(tuple(replace(item, human=float(value)) for item, value in rated))
    scores = human.copy()
    scores[:failing] = np.nan
    seed = np.random.default_rng(0).permuted(human.reshape(10, 4), axis=1).ravel()
    return FinalistScores(items=items, candidate=scores, seed=seed)


@pytest.mark.parametrize("level", ["dataset", "summary", "system"])
def test_dev_is_compared_at_the_level_of_the_search(level: Level) -> None:
    dev = on_dev()
    base = objective(dev.seed, dev.items, level)
    assert dev.value(level) == pytest.approx(1)
    assert dev.contrast(level).value == pytest.approx(1 - base)


def test_failures_on_dev_reach_the_gate() -> None:
    def choice(failing: int) -> Choice:
        return choose_finalist([on_dev(failing)], {}, "summary", [1.0], 3, stream(0, "gate"))

    # Five of forty outputs are more than a tenth.
    assert choice(4).ship
    assert not choice(5).ship
    assert "fails on 12% of the outputs" in choice(5).why
