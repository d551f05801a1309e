"""The rank search on a small world whose best instruction and best demonstrations are known."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from behaving_model import Model
from search_world import (
    SEED,
    WORDS,
    judge,
    search,
    shuffled,
    world,
    written_search,
)

from judges.client.prices import Price
from judges.prompt import Prompt
from optimize.items import Item
from optimize.search.candidates import LONGEST_INSTRUCTION, Candidate, TextGuard, fault
from optimize.search.evaluator import (
    Evaluator,
    ItemScore,
    Pricing,
    SearchBudget,
    SearchBudgetSpentError,
    SearchOptions,
)
from optimize.search.gate import SearchResult


def test_the_planted_instruction_is_found_and_shipped() -> None:
    result, records, _ = written_search(world(24), world(20, first=100))
    assert result.choice.ship, result.choice.why
    named = {word for word in WORDS if word in result.tuned.instruction}
    assert named == {"kindness", "candour"}
    assert result.choice.gain is not None
    assert result.choice.gain.low > 0
    assert {record["stage"] for record in records} >= {"race", "dev"}


def test_shuffled_labels_almost_never_ship_a_tuned_judge() -> None:
    # At a risk of 10 %, seven or more of 24 have a chance of 1 %.
    shipped = 0
    for seed in range(24):
        train = shuffled(world(10, 6, seed=seed), seed)
        dev = shuffled(world(10, 6, first=100, seed=seed), seed)
        result, _, _ = written_search(train, dev, options=SearchOptions(seed=seed, rounds=2))
        shipped += result.choice.ship
    assert shipped <= 6


@pytest.mark.parametrize("calls", [1, 60, 300, 1000, 4000])
def test_a_search_never_spends_more_than_its_budget(calls: int) -> None:
    result, records, evaluator = written_search(world(16), world(12, first=100), calls=calls)
    assert evaluator.budget.spent <= calls
    assert result.calls == evaluator.budget.spent
    assert result.choice.ship in (True, False)
    assert [record["trial"] for record in records] == list(range(1, len(records) + 1))


def test_a_candidate_is_never_raced_on_documents_it_learned_from() -> None:
    asked: list[tuple[Prompt, str]] = []

    def watching(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        asked.extend((prompt, item.document_id) for item in items)
        return judge(prompt, items)

    train = world(16)
    document = {item.texts["text"]: item.document_id for item in train.items}
    written_search(train, world(12, first=100), by=watching, options=SearchOptions(rounds=3))
    for prompt, judged in asked:
        assert judged not in {document[str(demo["text"])] for demo in prompt.demos}


def test_the_budget_refuses_before_anything_is_asked() -> None:
    def never(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        raise AssertionError("asked")

    budget = SearchBudget(15, unit="tokens").renewed(14)
    evaluator = Evaluator(seed=SEED, judge=never, calls_per_item=2, budget=budget)
    items = world(1, 8)
    with pytest.raises(SearchBudgetSpentError, match="16 tokens are needed and 14 left"):
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


# A token read costs one, and so does one written.
PRICING = Pricing(price=Price(per_token_in=1, per_token_out=1), tokens_in=100, tokens_out=1)


def judge_for_tokens(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemScore]:
    """The same judge, whose prompts are as long as they show."""
    for item_score in judge(prompt, items):
        shown = 25 * len(prompt.demos)
        yield replace(item_score, tokens_in=100 + shown, tokens_out=1)


def test_a_search_goes_on_to_demonstrations_where_nothing_can_be_read() -> None:
    _, trials, _ = search(
        world(40),
        world(20, first=40),
        calls=4_000_000,
        by=judge_for_tokens,
        pricing=PRICING,
        proposer=Model(lambda *_: "I cannot help with that."),
    )
    assert any(trial["demos"] for trial in trials if trial["stage"] == "race")


def test_forms_that_no_round_pays_for_neither_race_nor_end_a_search() -> None:
    # A token written is so dear that steps are not to be had, nor is a sentence.
    price = Price(per_token_in=1, per_token_out=100)
    _, trials, evaluator = written_search(
        world(16),
        world(8, first=40),
        calls=4_000_000,
        by=judge_for_tokens,
        pricing=Pricing(price=price, tokens_in=100, tokens_out=1),
        options=SearchOptions(reasoning=("brief", "steps")),
    )
    raced = [trial for trial in trials if trial["stage"] == "race"]
    assert any(trial["round"] > 2 for trial in raced)
    assert not any(trial["round"] == 2 for trial in raced)
    assert evaluator.budget.spent < 4_000_000


def test_proposals_dearer_than_a_round_are_raced_all_the_same() -> None:
    result, trials, _ = written_search(
        world(16),
        world(8, first=40),
        calls=1_000_000,
        by=judge_for_tokens,
        pricing=PRICING,
        proposal=20_000,
    )
    assert any(trial["stage"] == "race" and trial["round"] == 1 for trial in trials)
    assert result.n_tried


def search_with_dear_candidates(is_dear: Callable[[str], bool]) -> tuple[SearchResult, list[Trial]]:
    """A search that may pay 400 an item, in which instructions that are dear cost 1000."""

    def judge_dearly(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemScore]:
        tokens_in = 1000 if is_dear(prompt.instruction) else 100
        for item_score in judge(prompt, items):
            yield replace(item_score, tokens_in=tokens_in, tokens_out=1)

    result, trials, _ = written_search(
        world(16),
        world(8, first=40),
        calls=1_000_000,
        by=judge_dearly,
        pricing=PRICING,
        options=SearchOptions(max_item_cost=400, demo_sets=0),
    )
    return result, trials


def test_where_all_that_did_better_are_too_dear_that_is_why_none_ships() -> None:
    result, trials = search_with_dear_candidates(lambda text: text != SEED.instruction)
    n_better = len({trial["candidate"] for trial in trials if trial.get("gain", 0) > 0})
    assert n_better
    assert f"of {result.n_tried} candidates did better on train" in result.choice.why
    assert "costs more than the limit" in result.choice.why


def test_what_proposals_have_cost_is_what_the_next_are_expected_to() -> None:
    budget = SearchBudget(100, proposal=2, proposal_price=Price(per_token_in=1, per_token_out=1))
    budget.charge_proposal(1, 0)
    assert budget.proposal == 2
    budget.charge_proposal(4, 5)
    assert (budget.proposal, budget.spent, budget.calls) == (5, 10, 2)


def test_a_candidate_that_proves_dearer_than_may_be_is_no_finalist() -> None:
    _, trials = search_with_dear_candidates(lambda text: "kindness" in text)
    on_dev = [trial["instruction"] for trial in trials if trial["stage"] == "dev"]
    raced = [trial["instruction"] for trial in trials if trial["stage"] == "race"]
    assert any("kindness" in instruction for instruction in raced)
    assert not any("kindness" in instruction for instruction in on_dev)
