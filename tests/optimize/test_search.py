"""The rank search's own: which candidates it makes, how they race, and what it may try at all."""

import copy
from functools import partial

import pytest
from behaving_model import Model
from rating_files import rated_items
from search_world import SEED, Watch, judge, problem_of, search, world, write_instruction
from simulated_model import paid_run

from dspy_judges.errors import SettingsError
from judges.client.prices import Price
from judges.judgement import Judgement
from optimize.items import choose_level
from optimize.search.budget import CALLS, DOLLARS, Pricing, SearchBudget, SearchBudgetSpentError
from optimize.search.candidates import (
    MAX_INSTRUCTION_LENGTH,
    Candidate,
    rejection_reason,
    word_run_hashes,
)
from optimize.search.evaluator import Evaluator, ItemJudgement
from optimize.search.problem import SearchOptions
from optimize.search.race import Race
from optimize.statistics.intervals import random_generator

USERS_OPTIMIZER = "optimize.search.rank_search:explore"
LABELLED = " ".join(f"w{number}" for number in range(20))


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("", "empty"),
        ("x" * (MAX_INSTRUCTION_LENGTH + 1), "1501 characters long; 1500 are allowed"),
        ("Rate  the TEXT.", "known already"),
        ("Rate the text well.", ""),
        ("Mind, W5 w6 w7 w8 w9 w10 w11; and so on.", ""),
        ("Mind, W5 w6 w7 w8 w9 w10 w11 w12; and so on.", "copies 8 words or more of the labelled"),
    ],
)
def test_empty_long_known_or_copied_instructions_are_rejected(instruction, why):
    reason = rejection_reason(instruction, set(word_run_hashes(LABELLED)), ["rate the text"])
    assert reason.startswith(why) if why else reason == ""


def test_the_budget_raises_before_any_item_is_judged():
    budget = SearchBudget(14, Pricing(calls_per_item=2))
    watch = Watch()
    evaluator = Evaluator(untuned_prompt=SEED, judge_items=watch, budget=budget)
    with pytest.raises(SearchBudgetSpentError, match="costs 16 calls, but only 14 calls are left"):
        evaluator.scores(Candidate(instruction="Rate."), world(1, 8))
    assert not watch.requests


def test_a_copy_of_the_prices_counts_in_the_same_unit():
    copied = [copy.deepcopy(Pricing(unit=unit, calls_per_item=2)) for unit in (CALLS, DOLLARS)]
    assert [pricing.item_cost(3.0) for pricing in copied] == [2, 3.0]


def test_the_last_proposals_cost_is_expected_again():
    each = Price(per_token_in=1, per_token_out=1)
    budget = SearchBudget(100, Pricing(unit=DOLLARS, proposal_price=each, proposal_cost=2))
    budget.charge_proposal(1, 0)
    assert budget.proposal_cost == 2
    budget.charge_proposal(4, 5)
    assert (budget.proposal_cost, budget.total_cost, budget.n_calls) == (9, 10, 2)


def test_nested_reservations_add_up():
    amounts = []
    budget = SearchBudget(100, on_reserve=amounts.append)
    with budget.limited_to(100, reserve=30):
        with budget.limited_to(60, reserve=20):
            assert budget.remaining == 40
        assert budget.remaining == 70
    assert (budget.remaining, amounts) == (100, [30, 50, 30, 0])


SYSTEMS = 8
SKILLS = (0.2, 0.4, 0.6, 0.8)


def of_skill(skill):
    return Candidate(instruction=f"{skill}")


def by_skill(prompt, items):
    """An instruction is its skill: the share of people's rating in its score."""
    skill = 0.3 if prompt == SEED else float(prompt.instruction)
    noise = [random_generator(int(100 * skill), item.id).normal() for item in items]
    scores = [skill * item.human + (1 - skill) * n for item, n in zip(items, noise, strict=True)]
    return [ItemJudgement(Judgement(score=score)) for score in scores]


def race_of(documents, calls):
    return Race(problem_of(world(documents, SYSTEMS), world(1), by=by_skill, calls=calls))


def run_race(documents, calls, skills=SKILLS):
    """The results, best first, and what was spent."""
    race = race_of(documents, calls)
    results = race.run([of_skill(skill) for skill in skills], calls)
    return results, race.evaluator.budget.total_cost


def test_a_race_finds_the_best_candidate():
    # The untuned judge and four on s documents, the better two and it on as many more, the best and
    # it on 2s more: 5s + 3s + 4s = 12s of 300 sets of 8 outputs, so s = 25.
    half = 5 * 120 * SYSTEMS // 2
    results, calls = run_race(120, half)
    assert results[0].candidate == of_skill(0.8)
    assert 0.95 * half <= calls <= half
    sizes = [result.n_documents for result in results]
    assert sizes[0] > 50
    assert sizes[2:] == [25, 25]


@pytest.mark.parametrize("calls", [0, 7, 40, 100, 399, 1601])
def test_a_race_never_spends_more_than_its_limit(calls):
    assert run_race(40, calls)[1] <= calls


def test_a_limit_too_small_for_all_races_the_first_candidates():
    # Twenty documents for the untuned judge and one candidate: 2 * 20 * 8 = 320 calls.
    results, _ = run_race(40, 330, (0.9, 0.2, 0.2, 0.2))
    assert [result.candidate for result in results] == [of_skill(0.9)]


# A token read costs one, and so does one written.
PRICING = Pricing(
    unit=DOLLARS,
    judge_price=Price(per_token_in=1, per_token_out=1),
    untuned_tokens=(100, 1),
    # A proposal of 10 tokens costs one, too.
    proposal_price=Price(per_token_in=0.1, per_token_out=0),
)


def judge_for_tokens(prompt, items):
    """The same judge, whose prompts are as long as they show."""
    tokens = 25 * len(prompt.demos)
    return [ItemJudgement(one.judgement, 100 + tokens, 1) for one in judge(prompt, items)]


def buy(documents, calls, by=judge_for_tokens, **settings):
    """A search that tokens are counted of, on these documents and half as many others."""
    settings = {"pricing": PRICING, "proposer": Model(write_instruction), **settings}
    halves = world(documents), world(documents // 2, first=100)
    return search(*halves, calls=calls, by=by, **settings)


FORMS = {"reasoning": ("brief", "steps")}


def test_rounds_try_instructions_then_reasoning_then_demonstrations():
    outcome = buy(40, 8_000_000, options=SearchOptions(**FORMS, max_item_price=1000))
    by_round = {n: [t for t in outcome.of_stage("race") if t["round"] == n] for n in (1, 3, 4)}
    assert all(not trial["demos"] and not trial["reasoning"] for trial in by_round[1])
    assert {trial["reasoning"] for trial in by_round[3]} == {"brief", "steps"}
    assert {len(trial["demos"]) for trial in by_round[4]} >= {4, 8}


def test_a_search_without_a_readable_proposal_still_tries_demonstrations():
    outcome = buy(40, 4_000_000, proposer=Model(lambda *_: "I cannot help with that."))
    assert any(trial["demos"] for trial in outcome.of_stage("race"))


def search_with_dear_candidates(is_dear):
    """A search that may pay 400 an item, in which instructions that are dear cost 1000."""

    def judge_dearly(prompt, items):
        tokens = 1000 if is_dear(prompt.instruction) else 100
        return [ItemJudgement(one.judgement, tokens, 1) for one in judge(prompt, items)]

    options = SearchOptions(max_item_price=400, max_demos=0)
    return buy(16, 1_000_000, judge_dearly, options=options)


def test_nothing_ships_if_all_better_candidates_exceed_the_limit():
    outcome = search_with_dear_candidates(lambda text: text != SEED.instruction)
    assert any(trial["gain"] > 0 for trial in outcome.of_stage("race"))
    assert "No reliable candidate beat" in outcome.result.decision.why
    assert "The limit was too small" in outcome.result.decision.why
    assert outcome.result.decision.limit_reached


def test_a_candidate_whose_measured_price_exceeds_the_bound_is_no_finalist():
    outcome = search_with_dear_candidates(lambda text: "kindness" in text)
    assert any("kindness" in trial["instruction"] for trial in outcome.of_stage("race"))
    assert not any("kindness" in trial["instruction"] for trial in outcome.of_stage("dev"))


def test_a_larger_limit_finds_the_form_that_helps(tmp_path):
    run = paid_run(tmp_path, 3, max_cost=2.0)
    finals = [trial for trial in run.trials if trial["stage"] == "dev"]
    assert max(finals, key=lambda trial: trial["value"])["reasoning"] in ("steps", "questions")
    # A limit is there to be used.
    assert 0.6 * 2.0 < run.bill <= 2.0


@pytest.mark.parametrize(
    ("documents", "outputs", "limit", "settings"),
    [
        (60, 1, "max_cost", {"two_values": True}),
        (60, 1, "max_calls", {"two_values": True}),
        (60, 1, "max_calls", {}),
        (220, 1, "max_cost", {"two_values": True}),
        (20, 8, "max_cost", {}),
        (20, 8, "max_calls", {}),
        (100, 16, "max_cost", {}),
        (100, 4, "max_cost", {"proposer_price": "10,40"}),
        (40, 3, "max_calls", {"optimizer": USERS_OPTIMIZER}),
        (40, 3, "max_calls", {"optimizer": USERS_OPTIMIZER, "probes": True}),
        (60, 1, "max_calls", {"optimizer": USERS_OPTIMIZER, "two_values": True}),
    ],
)
def test_the_smallest_useful_limit_pays_for_a_race(tmp_path, documents, outputs, limit, settings):
    run = partial(paid_run, tmp_path, 1, documents=documents, outputs=outputs, **settings)
    with pytest.raises(SettingsError, match="the smallest useful limit is") as error:
        run(**{limit: 1 if limit == "max_calls" else 0.001})
    smallest = float(str(error.value).rpartition(" ")[2])
    result = run(**{limit: int(smallest) if limit == "max_calls" else smallest})
    # What a user's optimizer needs is not known, so its smallest limit pays for the test alone.
    assert "optimizer" in settings or any(trial["stage"] == "race" for trial in result.trials)


def test_no_other_reasoning_is_tried_if_the_settings_name_one(tmp_path):
    trials = paid_run(tmp_path, 3, max_cost=0.5, reasoning="none").trials
    assert {trial["reasoning"] for trial in trials if trial["stage"] == "race"} == {None}


@pytest.mark.parametrize(
    ("human", "level"),
    [
        ([[1, 2, 3], [1, 2, 3]], "summary"),
        ([[1], [2], [3]], "dataset"),
        ([[1, 2], [1, 2, 3]], "dataset"),
        # People tie on most documents.
        ([[1, 1, 1]] * 21 + [[2, 1, 1]] * 10, "dataset"),
        ([[1, 1, 1]] * 9 + [[2, 1, 1]] * 10, "summary"),
        # Of pass and fail all outputs are one set, however they stand in documents.
        ([[0, 1, 1]] * 10, "dataset"),
    ],
)
def test_the_default_level_depends_on_outputs_per_document_and_ties(human, level):
    assert choose_level(rated_items(human)) == level
