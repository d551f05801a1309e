"""The rank search on a small world whose best instruction and best demonstrations are known."""

import itertools
from collections.abc import Sequence

import pytest
from search_world import SEED, WORDS, judge, propose, search, shuffled, world

from judges.prompt import Prompt
from optimize.items import Item
from optimize.search.candidates import LONGEST_INSTRUCTION, Candidate, TextGuard, fault
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget, SearchBudgetSpentError
from optimize.search.optimizers import search as search_with
from optimize.search.problem import SearchOptions, SearchProblem
from optimize.search.rank_search import systems_without_demos
from optimize.search.trial_log import TrialLog


def test_the_planted_instruction_is_found_and_shipped() -> None:
    found, records, _ = search(world(24), world(20, first=100))
    assert found.choice.ship, found.choice.why
    named = {word for word in WORDS if word in found.tuned.instruction}
    assert named == {"kindness", "candour"}
    assert found.choice.gain is not None
    assert found.choice.gain.low > 0
    assert {record["stage"] for record in records} >= {"race", "dev"}


def test_the_same_seed_makes_the_same_trials_and_another_seed_others() -> None:
    first, once, _ = search(world(16), world(12, first=100), seed=3)
    second, again, _ = search(world(16), world(12, first=100), seed=3)
    _, other, _ = search(world(16), world(12, first=100), seed=4)
    assert once == again
    assert first == second
    assert once != other


def test_shuffled_labels_almost_never_ship_a_tuned_judge() -> None:
    # The gate's tail is 2.5 %: three or more of 24 have a chance of 2 % then.
    shipped = 0
    for seed in range(24):
        train = shuffled(world(10, 6, seed=seed), seed)
        dev = shuffled(world(10, 6, first=100, seed=seed), seed)
        shipped += search(train, dev, seed=seed, options=SearchOptions(seed=seed, rounds=2))[
            0
        ].choice.ship
    assert shipped <= 2


@pytest.mark.parametrize("calls", [1, 60, 300, 1000, 4000])
def test_a_search_never_spends_more_than_its_budget(calls: int) -> None:
    found, records, evaluator = search(world(16), world(12, first=100), calls=calls)
    assert evaluator.budget.spent <= calls
    assert found.calls == evaluator.budget.spent
    assert found.choice.ship in (True, False)
    assert [record["trial"] for record in records] == list(range(1, len(records) + 1))


def test_a_candidate_is_never_raced_on_documents_it_learned_from() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    evaluator = Evaluator(seed=SEED, judge=watching, calls_per_item=1, budget=SearchBudget(20_000))
    train = world(16)
    document = {item.texts["text"]: item.document_id for item in train.items}
    search_with(
        "rank",
        SearchProblem(
            evaluator=evaluator,
            propose=propose,
            train=train,
            dev=world(12, first=100),
            level="summary",
            options=SearchOptions(rounds=3),
        ),
    )
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}


def test_nothing_is_asked_twice() -> None:
    asked: list[tuple[str, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((str(prompt.template()), item.id) for item in items)
        return judge(prompt, items)

    evaluator = Evaluator(seed=SEED, judge=watching, calls_per_item=1, budget=SearchBudget(20_000))
    search_with(
        "rank",
        SearchProblem(
            evaluator=evaluator,
            propose=propose,
            train=world(16),
            dev=world(12, first=100),
            level="summary",
            options=SearchOptions(rounds=4),
        ),
    )
    assert len(asked) == len(set(asked))


def test_demonstrations_come_from_shown_systems_only() -> None:
    train = world(16)
    evaluator = Evaluator(seed=SEED, judge=judge, calls_per_item=1, budget=SearchBudget(20_000))
    system = {item.id: item.system for item in train.items}
    log = TrialLog()
    search_with(
        "rank",
        SearchProblem(
            evaluator=evaluator,
            propose=propose,
            train=train,
            dev=world(12, first=100),
            level="summary",
            options=SearchOptions(rounds=2),
            log=log,
        ),
    )
    unshown = systems_without_demos(train, 0)
    assert len(unshown) == 2
    shown = [record["demos"] for record in log.trials if record["stage"] == "race"]
    assert any(shown)
    for ids in shown:
        assert isinstance(ids, list)
        assert not {system[name] for name in ids} & unshown


def test_the_budget_refuses_before_anything_is_asked() -> None:
    def never(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        raise AssertionError("asked")

    evaluator = Evaluator(seed=SEED, judge=never, calls_per_item=2, budget=SearchBudget(15))
    items = world(1, 8)
    with pytest.raises(SearchBudgetSpentError, match="16 calls are needed and 15 left"):
        evaluator.scores(Candidate(instruction="Rate."), items)


def test_an_instruction_that_copies_eight_words_is_rejected() -> None:
    words = [f"w{number}" for number in range(20)]
    guard = TextGuard([" ".join(words)])
    for start, length in itertools.product(range(12), (7, 8)):
        run = " ".join(words[start : start + length]).upper()
        wrong = fault(f"Mind, {run}; and so on.", guard, [])
        assert (wrong is None) == (length < 8)


def test_an_instruction_may_be_neither_empty_nor_long_nor_known() -> None:
    guard = TextGuard([])
    assert fault("", guard, []) == "empty"
    assert fault("x" * (LONGEST_INSTRUCTION + 1), guard, []) is not None
    assert fault("Rate  the TEXT.", guard, ["rate the text"]) == "known already"
    assert fault("Rate the text well.", guard, ["rate the text"]) is None


def test_a_race_leaves_the_finalists_their_calls_on_dev() -> None:
    found, _, _ = search(world(16), world(12, first=100), calls=2500, options=SearchOptions())
    assert found.choice.gain is None or found.choice.gain.n_documents >= 12
