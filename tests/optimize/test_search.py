"""The rank search's own: which candidates it makes, how they race, and what it may try at all."""

import itertools
from collections.abc import Callable, Sequence

import pytest
from behaving_model import Model
from search_world import SEED, Searched, judge, problem_of, search, world, written_search

from judges.client.prices import Price
from judges.judgement import Judgement
from judges.prompt import Prompt
from optimize.items import Item
from optimize.search.candidates import (
    LONGEST_INSTRUCTION,
    Candidate,
    DemoSet,
    rejection_reason,
    word_runs,
)
from optimize.search.evaluator import (
    Evaluator,
    ItemJudgement,
    Pricing,
    SearchBudget,
    SearchBudgetSpentError,
    SearchOptions,
)
from optimize.search.rank_search import Race, RaceResult
from optimize.statistics.intervals import stream

# --- which instructions may be tried


def test_an_instruction_that_copies_eight_words_is_rejected() -> None:
    words = [f"w{number}" for number in range(20)]
    runs = set(word_runs(" ".join(words)))
    for start, length in itertools.product(range(12), (7, 8)):
        run = " ".join(words[start : start + length]).upper()
        wrong = rejection_reason(f"Mind, {run}; and so on.", runs, [])
        assert (wrong is None) == (length < 8)


def test_an_instruction_may_be_neither_empty_nor_long_nor_known() -> None:
    assert rejection_reason("", set(), []) == "empty"
    assert rejection_reason("x" * (LONGEST_INSTRUCTION + 1), set(), []) is not None
    assert rejection_reason("Rate  the TEXT.", set(), ["rate the text"]) == "known already"
    assert rejection_reason("Rate the text well.", set(), ["rate the text"]) is None


# --- the budget


def test_the_budget_refuses_before_anything_is_asked() -> None:
    def never(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
        raise AssertionError("asked")

    budget, pricing = SearchBudget(14, unit="tokens"), Pricing(per_call=1, calls=2)
    evaluator = Evaluator(untuned=SEED, judge=never, budget=budget, pricing=pricing)
    with pytest.raises(SearchBudgetSpentError, match="costs 16 tokens, but only 14 are left"):
        evaluator.scores(Candidate(instruction="Rate."), world(1, 8))


def test_what_a_proposal_has_cost_is_what_the_next_is_expected_to() -> None:
    budget = SearchBudget(100, proposal=2, proposal_price=Price(per_token_in=1, per_token_out=1))
    budget.charge_proposal(1, 0)
    assert budget.proposal == 2
    budget.charge_proposal(4, 5)
    assert (budget.proposal, budget.total_cost, budget.calls) == (9, 10, 2)


# --- the race

SYSTEMS = 8
SKILLS = (0.2, 0.4, 0.6, 0.8)


def skilled(skill: float) -> Candidate:
    return Candidate(instruction=f"{skill}")


def race_of(documents: int, calls: int) -> Race:
    """A candidate's instruction is its skill: the share of people's rating in its score."""

    def by_skill(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
        skill = 0.3 if prompt == SEED else float(prompt.instruction)
        noise = [stream(int(100 * skill), item.id).normal() for item in items]
        return [
            ItemJudgement(Judgement(score=skill * item.human + (1 - skill) * each))
            for item, each in zip(items, noise, strict=True)
        ]

    problem = problem_of(world(documents, SYSTEMS), world(1), by=by_skill, calls=calls)
    return Race(problem)


def raced(
    documents: int, calls: int, skills: Sequence[float] = SKILLS
) -> tuple[list[RaceResult], float]:
    """The results, best first, and what was spent."""
    race = race_of(documents, calls)
    results = race.run([skilled(skill) for skill in skills], calls)
    return results, race.evaluator.budget.total_cost


def test_half_the_calls_find_the_best_and_are_all_but_spent() -> None:
    # The untuned judge and four on s documents, the better two and it on as many more, the best and
    # it on 2s more: 5s + 3s + 4s = 12s of 300 sets of 8 outputs, so s = 25.
    half = 5 * 120 * SYSTEMS // 2
    results, spent = raced(120, half)
    assert results[0].candidate == skilled(0.8)
    assert 0.95 * half <= spent <= half
    met = [result.n_documents for result in results]
    assert met[0] > 50
    assert met[2:] == [25, 25]


@pytest.mark.parametrize("calls", [0, 7, 40, 100, 399, 1601])
def test_a_race_never_spends_more_than_it_may(calls: int) -> None:
    assert raced(40, calls)[1] <= calls


def test_what_all_cannot_afford_the_first_candidates_run() -> None:
    # Twenty documents for the untuned judge and one candidate: 2 * 20 * 8 = 320 calls.
    results, _ = raced(40, 330, (0.9, 0.2, 0.2, 0.2))
    assert [result.candidate for result in results] == [skilled(0.9)]


def test_documents_that_a_candidate_shows_are_passed_over() -> None:
    race = race_of(10, 0)
    first, second, third, *_ = race.order
    candidate = Candidate(instruction="1", demo_set=DemoSet(documents=frozenset({first, third})))
    assert race.documents(candidate, 1) == [second]
    assert len(race.documents(candidate, 10)) == 8


# --- the rounds

# A token read costs one, and so does one written.
PRICING = Pricing(price=Price(per_token_in=1, per_token_out=1), tokens_in=100, tokens_out=1)


def judge_for_tokens(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
    """The same judge, whose prompts are as long as they show."""
    shown = 25 * len(prompt.demos)
    return [ItemJudgement(one.judgement, 100 + shown, 1) for one in judge(prompt, items)]


def test_rounds_propose_then_compare_forms_then_show() -> None:
    options = SearchOptions(reasoning=("brief", "steps"), max_item_cost=1000)
    found = written_search(
        world(40),
        world(20, first=100),
        calls=8_000_000,
        by=judge_for_tokens,
        pricing=PRICING,
        options=options,
    )
    by_round = {n: [t for t in found.of_stage("race") if t["round"] == n] for n in (1, 3, 4)}
    assert all(not trial["demos"] and not trial["reasoning"] for trial in by_round[1])
    assert {trial["reasoning"] for trial in by_round[3]} == {"brief", "steps"}
    assert {len(trial["demos"]) for trial in by_round[4]} >= {4, 8}


def test_a_search_goes_on_to_demonstrations_where_nothing_can_be_read() -> None:
    found = search(
        world(40),
        world(20, first=100),
        calls=4_000_000,
        by=judge_for_tokens,
        pricing=PRICING,
        proposer=Model(lambda *_: "I cannot help with that."),
    )
    assert any(trial["demos"] for trial in found.of_stage("race"))


def test_forms_that_no_round_pays_for_neither_race_nor_end_a_search() -> None:
    # A token written is so dear that steps are not to be had, nor is a sentence.
    price = Price(per_token_in=1, per_token_out=100)
    found = written_search(
        world(16),
        world(8, first=40),
        calls=4_000_000,
        by=judge_for_tokens,
        pricing=Pricing(price=price, tokens_in=100, tokens_out=1),
        options=SearchOptions(reasoning=("brief", "steps"), max_item_cost=300),
    )
    rounds = {trial["round"] for trial in found.of_stage("race")}
    assert 2 not in rounds
    assert max(rounds) > 2


def search_with_dear_candidates(is_dear: Callable[[str], bool]) -> Searched:
    """A search that may pay 400 an item, in which instructions that are dear cost 1000."""

    def judge_dearly(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
        tokens = 1000 if is_dear(prompt.instruction) else 100
        return [ItemJudgement(one.judgement, tokens, 1) for one in judge(prompt, items)]

    return written_search(
        world(16),
        world(8, first=40),
        calls=1_000_000,
        by=judge_dearly,
        pricing=PRICING,
        options=SearchOptions(max_item_cost=400, max_demos=0),
    )


def test_where_all_that_did_better_are_too_dear_that_is_why_none_ships() -> None:
    found = search_with_dear_candidates(lambda text: text != SEED.instruction)
    assert any(trial["gain"] > 0 for trial in found.of_stage("race"))
    assert (
        f"of {found.result.n_tried} candidates beat the untuned judge on train"
        in found.result.decision.why
    )
    assert "costs more than the limit" in found.result.decision.why


def test_a_candidate_that_proves_dearer_than_may_be_is_no_finalist() -> None:
    found = search_with_dear_candidates(lambda text: "kindness" in text)
    assert any("kindness" in trial["instruction"] for trial in found.of_stage("race"))
    assert not any("kindness" in trial["instruction"] for trial in found.of_stage("dev"))
