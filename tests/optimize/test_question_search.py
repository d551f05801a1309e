"""What a judge is to ask: weights from labels, questions worth asking, and how they are tested."""

from dataclasses import replace

import numpy as np
import pytest
from behaving_model import Model
from hypothesis import given
from hypothesis import strategies as st
from search_world import Search, Watch, problem_of, rate, shuffle, world

from judges import Question
from judges.judgement import Judgement
from judges.prompt import A_OR_B, Field
from optimize.search import gate
from optimize.search.budget import SearchBudgetSpentError
from optimize.search.candidates import Candidate
from optimize.search.evaluator import ItemJudgement
from optimize.search.optimizer import Exploration, find_optimizer
from optimize.search.problem import CandidateTrial, SearchOptions
from optimize.search.proposer import Proposer
from optimize.search.questions import (
    LabelledAnswers,
    QuestionsNotTestedError,
    ask_questions,
    collect_answers,
    scores_on_folds,
)
from optimize.search.two_fold_search import two_fold_search
from optimize.statistics.intervals import contrast_from_documents, random_generator

RANK = find_optimizer("rank")
NOTHING = Exploration()
# People value kindness and candour alone (`search_world.world`).
TRUE = {"kind", "candid"}
NOISE = ("rhymes", "long")
QUESTIONS = tuple(
    Question(name=name, text=f"is it {name}", answers=(1, 2, 3, 4, 5)).field
    for name in (*NOISE, *sorted(TRUE))
)


def answers_to(fields, values, item_id):
    """A true answer to the true questions, with some noise, and noise to the others."""
    qualities = {"kind": values[0], "candid": values[4], "rating": float(np.mean(values))}
    answers = {}
    for name in (field.name for field in fields):
        share = random_generator(0, name, item_id).normal(qualities.get(name, 0.5), 0.1)
        answers[name] = float(np.clip(1 + 4 * share, 1, 5))
    return answers


def judge(prompt, items):
    """Rates by all six qualities, and answers what it is asked."""
    judgements = []
    for item in items:
        values = [float(part.split("=")[1]) for part in item.texts["text"].split()]
        answers = answers_to(prompt.choices, values, item.id)
        replies = answers if prompt.question_fields else None
        judgements.append(ItemJudgement(Judgement(score=answers["rating"], answers=replies)))
    return judgements


def problem_with_questions(train, dev, **settings):
    return replace(problem_of(train, dev, **{"by": judge, **settings}), questions=QUESTIONS)


def search_halves(train, dev, **settings):
    trials = []
    problem = problem_with_questions(train, dev, trials=trials, **settings)
    return Search(two_fold_search(RANK, problem), trials, problem.evaluator)


def search(documents=12, **settings):
    """What is known of the questions after both halves of so many documents were asked them."""
    one = problem_with_questions(world(documents), world(documents, first=50), **settings)
    return ask_questions((one, replace(one, train=one.dev, dev=one.train)), [NOTHING] * 2)


def read_answers(columns, human, documents, choices=(1, 2, 3, 4, 5)):
    """Answers by columns, of which `own` is the rating or verdict."""
    fields = tuple(
        Field(name=name, description=name, role="output", choices=choices) for name in columns
    )
    answers, documents = np.column_stack([*columns.values()]).astype(float), np.asarray(documents)
    codes = {"group_codes": documents, "fold_codes": documents % 5}
    human = np.asarray(human, float)
    return LabelledAnswers(answers=answers, human=human, **codes, choice_fields=fields)


@given(
    seed=st.integers(0, 10_000),
    choices=st.sampled_from([(1, 2, 3, 4, 5), ("yes", "no"), A_OR_B]),
    reverse=st.booleans(),
)
def test_weights_are_never_negative_and_their_scores_stay_on_the_scale(seed, choices, reverse):
    rng = np.random.default_rng(seed)
    low, high = {1: (1, 5), "yes": (0, 1), "A": (-1, 1)}[choices[0]]
    columns = {name: rng.uniform(low, high, 40) for name in ("first", "second", "own")}
    human = rng.uniform(low, high, 40) + (-1 if reverse else 1) * columns["first"]
    answers = read_answers(columns, human, np.repeat(np.arange(10), 4), choices)
    weights = answers.fit_weights()
    assert weights.problem(answers.choice_fields) is None
    assert all(slope > 0 for slope in weights.slopes.values())
    scores = answers.scores_with(weights)
    assert np.clip(scores, low, high) == pytest.approx(scores, abs=1e-6)


def test_a_decisive_answer_gets_most_of_the_weight():
    rng, documents = np.random.default_rng(0), np.repeat(np.arange(25), 8)
    truth, own = rng.normal(3, 0.8, 200), rng.normal(3, 0.8, 200)
    noise = {f"noise_{n}": rng.integers(1, 6, 200) for n in range(6)}
    columns = {"true": truth, **noise, "own": own}
    answers = read_answers(columns, truth + 0.5 * own + rng.normal(0, 0.3, 200), documents)
    useful = answers.of_useful_questions()
    assert [field.name for field in useful.choice_fields] == ["true", "own"]
    shares = useful.fit_weights().shares(useful.choice_fields)
    # The labels are made of twice as much of the true answer as of the judge's own.
    assert shares["true"] == pytest.approx(2 / 3, abs=0.1)


def test_if_labels_teach_nothing_only_the_judges_own_rating_counts():
    rng = np.random.default_rng(1)
    columns = {"other": rng.uniform(1, 5, 40), "own": rng.uniform(1, 5, 40)}
    flat = read_answers(columns, np.full(40, 3.0), np.repeat(np.arange(10), 4))
    assert set(flat.fit_weights().slopes) == {"own"}
    assert [field.name for field in flat.of_useful_questions().choice_fields] == ["own"]
    silent = read_answers({"other": [np.nan] * 4, "own": [1, 2, 3, 4]}, [1, 2, 3, 4], [0, 0, 1, 1])
    assert silent.fit_weights().slopes == {"own": 1.0}
    assert np.isnan(silent.scores_with(silent.fit_weights())).all()


def test_useful_answers_count_even_if_the_verdict_contradicts_the_labels():
    human = np.tile([1.0, 0.0], 60)
    useful = np.where(np.arange(120) % 5 == 0, 1 - human, human)
    against = np.where(np.arange(120) % 20 < 9, human, 1 - human)
    columns, documents = {"useful": useful, "own": against}, np.repeat(np.arange(30), 4)
    answers = read_answers(columns, human, documents, ("yes", "no"))
    assert answers.of_useful_questions().choice_fields == answers.choice_fields
    shares = answers.fit_weights().shares(answers.choice_fields)
    assert shares["useful"] > 0.8
    # If the answers go against labels all together, the verdict counts alone.
    mirror = read_answers(columns, 1 - useful, documents, ("yes", "no"))
    assert mirror.fit_weights().slopes == {"own": 1.0}


def test_a_documents_scores_do_not_depend_on_its_own_labels():
    items = world(20)
    problem = problem_of(items, items, by=judge)
    answers = collect_answers(problem, Candidate(instruction="Rate.", questions=QUESTIONS), items)
    everything = np.ones(len(items), bool)
    scores = scores_on_folds(answers, everything, problem)
    for fold in range(5):
        own = answers.fold_codes == fold
        other = replace(answers, human=np.where(own, 6 - answers.human, answers.human))
        assert scores_on_folds(other, everything, problem)[own] == pytest.approx(scores[own])


def test_decisive_questions_are_found_weighted_and_shipped():
    outcome = search_halves(world(20), world(20, first=100))
    tuned = outcome.result.tuned_candidate
    assert {field.name for field in tuned.questions or ()} == TRUE
    assert set(tuned.weights.slopes) == {*TRUE, "rating"}
    assert outcome.result.decision.ships
    assert [len(trial["questions"]) for trial in outcome.of_stage("questions")] == [4, 4]


def test_with_shuffled_labels_no_questions_ship():
    n_ships = 0
    for n in range(7):
        halves = (shuffle(world(12, first=first, seed=n), n) for first in (0, 50))
        n_ships += search_halves(*halves).result.decision.ships
    assert n_ships <= 3  # the risk is .10; chance exceeds this once in 370


def test_a_small_budget_tests_questions_on_fewer_documents():
    # 128 outputs are to be judged by the untuned judge and to be asked once: 256 calls.
    outcome = search(8, by=(watch := Watch(by=judge)), calls=200)
    assert outcome.trials
    assert 64 <= sum(len(prompt.question_fields) == 4 for prompt, _ in watch.requests) < 128
    # The useful questions cannot be asked again, so the judge that was asked all of them stays.
    assert len(outcome.candidate.questions) == 4
    assert set(outcome.candidate.weights.slopes) <= {*TRUE, "rating"}
    with pytest.raises(SearchBudgetSpentError):
        search(8, by=(watch := Watch(by=judge)), calls=100)
    assert not watch.requests


def test_the_better_of_two_kinds_of_change_is_tested():
    rng = np.random.default_rng(0)
    names = [f"d{n}" for n in range(30)]
    weak, strong = (contrast_from_documents(rng.normal(mean, 0.2, 30), names) for mean in (0, 0.2))
    alone = gate.largest_gain({"finalists": [[strong]]}, random_generator(0))
    gains_by_change = {"finalists": [[strong]], "questions": [[strong]]}
    assert gate.largest_gain(gains_by_change, random_generator(0)) == alone
    both = gate.largest_gain(gains_by_change | {"finalists": [[weak]]}, random_generator(0))
    assert (both.change, both.value) == ("questions", alone.value)
    # The larger of two means is larger by chance as well, so the interval is wider.
    assert both.interval.low <= alone.interval.low


@pytest.mark.parametrize(
    ("worse", "better", "gain", "ships"),
    [
        (0, 5, 0, True),
        (4, 0, 4, True),  # four of four one way: chance .0625
        (5, 0, 4, False),  # .03, and 35 of 40 fails are right; the untuned judge's worse is 36
        (6, 0, 5, False),
        (6, 0, 6, True),  # no lower than the untuned judge's lower rate
        (9, 6, 0, True),
    ],
)
def test_a_rate_clearly_below_both_untuned_rates_is_an_objection(worse, better, gain, ships):
    """Of 40 fails so many get worse or better, and so many of 40 passes better."""
    human = np.repeat([0.0, 1.0], 40)
    items = rate(world(80, 1), human)
    untuned, tuned = human.copy(), human.copy()
    tuned[:worse] = 1
    untuned[worse : worse + better] = 1
    untuned[40 : 40 + gain] = 0
    candidate = Candidate(instruction="x")
    reason = gate.rate_objection([CandidateTrial(candidate, items, tuned, untuned, "balanced")])
    assert (reason is None) == ships
    assert reason is None or f"of 40 fails, {worse} are right only with the untuned" in reason


WORDS = world(4).items[0].texts["text"].replace("=", " ").split()


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (
            "- **kind words**: does it use kind words?\n2. Candid: is it candid?\nno question\n"
            "text: is the text good\nfifth: is beyond the fourth line",
            {"kind_words": "does it use kind words?", "candid": "is it candid?"},
        ),
        # It copies a labelled text.
        (f"copied: does it say {' '.join(WORDS[:12])}", {}),
        *(
            # No judge could ask it by such a name.
            (f"{name}: is it kind?\nkind: is it kind?", {"kind": "is it kind?"})
            for name in ("score", "failure", "rationale", "text")
        ),
    ],
)
def test_proposed_questions_are_read_line_by_line_and_kept_if_valid(lines, read):
    reply = f"[[ ## instruction ## ]]\nRate the kindness.\n\n[[ ## questions ## ]]\n{lines}"
    problem = problem_of(world(4), world(4, first=9), proposer=Model(lambda *_: reply))
    proposer = Proposer(problem, problem.proposer)
    proposer.propose("Rate.", ["a lesson"], [], 1, ask_questions=True)
    assert {name: field.description for name, field in proposer.questions.items()} == read
    assert {field.choices for field in proposer.questions.values()} <= {("yes", "no")}


def test_questions_that_fail_or_cost_too_much_do_not_ship():
    watch = Watch(lambda prompt, item: prompt.question_fields and luck(item) < 0.4, by=judge)
    says = "of its judgements failed, for example: it cannot say"
    with pytest.raises(QuestionsNotTestedError, match=says):
        search(by=watch)
    assert len(watch.requests) == 2 * 192  # they are given up early
    with pytest.raises(SearchBudgetSpentError, match="does not pay for asking questions on"):
        search(options=SearchOptions(max_item_price=0.5))


def luck(item):
    return random_generator(0, item.id).random()
