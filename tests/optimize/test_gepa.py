"""GEPA's own: what it is shown, and that the scores it sees add up to the search's objective."""

import re
from itertools import product

import numpy as np
import pytest
from behaving_model import Model
from search_world import Watch, problem_of, rate, search, world, write_instruction

from optimize.search.gepa import document_scores, explore
from optimize.search.problem import SearchOptions, objective


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
