"""What holds for every optimizer: `rank` with a proposer and without one, and `gepa`."""

import re
from functools import cache
from itertools import product

import numpy as np
import pytest
from behaving_model import Model
from search_world import SEED, Watch, problem_of, rate, search, shuffle, world, write_instruction

from judges.client.budget import Budget
from judges.protocol import FatalModelError
from optimize.search.gepa import document_scores, explore
from optimize.search.problem import SearchOptions, objective
from optimize.testing import QUALITIES

TRAIN, DEV = world(16), world(12, first=100)
WRITTEN = ("rank", "gepa")


def run(name, model=None, **settings):
    """A search of the optimizer; "labels" is `rank` where nobody writes instructions."""
    if name == "labels":
        options = SearchOptions(max_demos=1000, max_demo_characters=10**6)
        return search(TRAIN, DEV, **{"options": options, **settings})
    settings = {"calls": 4000, "options": SearchOptions(seed=1), **settings}
    proposer = model or Model(write_instruction)
    return search(TRAIN, DEV, optimizer=name, proposer=proposer, **settings)


@cache
def whole(name):
    """A search that nothing disturbs, made once, and what its judge was asked."""
    watch = Watch()
    return run(name, by=watch), watch


every = pytest.mark.parametrize("name", [*WRITTEN, "labels"])
writers = pytest.mark.parametrize("name", WRITTEN)


@writers
def test_every_optimizer_finds_the_best_instruction(name):
    outcome = whole(name)[0]
    decision = outcome.result.decision
    assert decision.ships, decision.why
    words = {word for word in QUALITIES if word in outcome.result.tuned_candidate.instruction}
    assert words == {"kindness", "candour"}
    # Each half is judged by what was learned on the other.
    assert decision.gain.n_documents == 16 + 12
    assert {(one["half"], one["n_documents"]) for one in outcome.of_stage("dev")} == {
        (1, 12),
        (2, 16),
    }
    assert len(outcome.of_stage("gate")) == 1


@every
@pytest.mark.parametrize("calls", [0, 60, 1500])
def test_the_limit_holds_and_each_item_is_paid_once(name, calls):
    watch, model = Watch(), Model(write_instruction)
    outcome = run(name, model, by=watch, calls=calls)
    budget = outcome.budget
    assert len(watch.requests) + model.calls == budget.total_cost == budget.n_calls <= calls
    pairs = [(str(prompt.template()), item.id) for prompt, item in watch.requests]
    assert len(pairs) == len(set(pairs))
    assert outcome.result.decision.why


@every
def test_an_interrupted_search_resumes_to_the_same_trials_and_judge(name):
    memo = {}

    def store(watch):
        """Judges what no earlier start has, as a run's store does."""

        def judge_items(prompt, items):
            keys = [(str(prompt.template()), item.id) for item in items]
            for key, item in zip(keys, items, strict=True):
                if key not in memo:
                    (memo[key],) = watch(prompt, [item])
            return [memo[key] for key in keys]

        return judge_items

    (expected, watch), first, second = whole(name), Watch(stops_after=150), Watch()
    with pytest.raises(KeyboardInterrupt):
        run(name, by=store(first))
    went_on = run(name, by=store(second))
    assert (went_on.result, went_on.trials) == (expected.result, expected.trials)
    # The item that the interrupt fell on is asked for again.
    assert len(first.requests) + len(second.requests) == len(watch.requests) + 1


@every
def test_failed_judgements_never_help_a_judge(name):
    outcomes = run(name, by=Watch(lambda _, item: item.document_id == "d100")), whole(name)[0]
    gains = [outcome.result.decision.gain for outcome in outcomes]
    assert gains[0].n_documents == gains[1].n_documents - 1

    often = Watch(lambda prompt, item: prompt != SEED and item.system in ("s1", "s2"))
    assert not run(name, by=often).result.decision.ships


@writers
@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "{", "[[ ## tip ## ]] x"])
def test_a_search_with_unreadable_proposals_ends_without_an_error(name, reply):
    outcome = run(name, Model(lambda *_: reply), calls=600)
    assert outcome.budget.total_cost <= 600
    assert outcome.result.decision.why


@writers
def test_a_spent_proposer_leaves_the_best_candidate(name):
    model = Model(write_instruction)
    outcome = run(name, model, account=Budget(max_calls=3).account())
    assert (model.calls, bool(outcome.trials), bool(outcome.result.decision.why)) == (3, True, True)


@writers
def test_a_wrong_proposer_key_ends_the_run(name):
    def refuse(*_):
        raise FatalModelError("wrong key")

    with pytest.raises(FatalModelError, match="wrong key"):
        run(name, Model(refuse))


def test_with_random_labels_a_tuned_judge_seldom_ships():
    # At a risk of 10 %, four or more of 8 have a chance of .5 %.
    n_ships = 0
    for seed in range(8):
        train, dev = (shuffle(world(10, 6, first=n, seed=seed), seed) for n in (0, 100))
        options = SearchOptions(seed=seed, max_rounds=2)
        outcome = search(train, dev, proposer=Model(write_instruction), options=options)
        n_ships += outcome.result.decision.ships
    assert n_ships <= 3


# GEPA's own: what it is shown, and that the scores it sees add up to the search's objective.
def test_gepa_uses_its_own_prompt_with_our_evidence(capsys):
    model, options = Model(write_instruction), SearchOptions(seed=1)
    train, dev = world(16), world(12, first=100)
    search(train, dev, optimizer="gepa", calls=1500, proposer=model, options=options)
    for prompt in model.prompts:
        assert "Your task is to write a new instruction for the assistant" in prompt
        # Half of 16 or 12 documents, of eight outputs each, make a minibatch.
        assert re.search(r"Spearman's rho, summary level on (64|48) outputs", prompt)
        assert "placed too high" in prompt
    assert {sampling.temperature for sampling in model.samplings} == {1.0}
    # GEPA prints; a command's stdout holds the result alone.
    assert capsys.readouterr().out == ""


RATINGS, TWO_VALUES, MARGINS = (1, 2, 3, 4, 5), (0, 1), (-1, -0.5, 0, 1)


@pytest.mark.parametrize(
    ("goal", "values"),
    [
        *product(("summary", "dataset", "system"), (RATINGS, TWO_VALUES, MARGINS)),
        ("balanced", TWO_VALUES),  # balanced accuracy is of two values
    ],
)
def test_the_mean_that_gepa_sees_is_the_objective(goal, values):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        items = world(int(rng.integers(2, 20)), int(rng.integers(1, 6)))
        # Documents of unequal size, ties, failed judgements, and judges that always say the same.
        items = items.of_rows(np.flatnonzero(rng.random(len(items)) < 0.8).tolist())
        items = rate(items, rng.choice(values, len(items)))
        scores = np.round(rng.normal(size=len(items)), int(rng.integers(0, 3)))
        scores = np.where(rng.random(len(items)) < 0.1, np.nan, scores * (rng.random() < 0.9))
        score_by_document = document_scores(scores, items, goal)
        assert list(score_by_document) == list(items.documents)
        expected = np.nan_to_num(objective(scores, items, goal))
        assert np.mean(list(score_by_document.values())) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("goal", ["dataset", "balanced"])
def test_gepa_uses_every_row_if_rows_are_sorted_by_label(goal):
    train, watch = rate(world(84, 1), np.repeat([0.0, 1.0], 42)), Watch()
    dev, model = world(9, 1, first=100), Model(write_instruction)
    explore(problem_of(train, dev, by=watch, proposer=model, goal=goal))
    assert {item.id for _, item in watch.requests} == {item.id for item in train.items}


def test_documents_that_people_rate_alike_are_counted_and_not_judged():
    train, lines, watch = world(12, 4), list[str](), Watch()
    train = rate(train, np.where(np.arange(48) < 8, 3.0, train.human))
    model = Model(write_instruction)
    explore(problem_of(train, world(9, first=100), by=watch, proposer=model, lines=lines))
    (line,) = lines
    assert line.startswith("GEPA leaves out 2 documents, because they cannot tell judges apart")
    assert not {item.document_id for _, item in watch.requests} & {"d0", "d1"}
