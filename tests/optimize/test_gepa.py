"""GEPA's own: what it is shown, and that its examples add up to the exact objective."""

import dspy
import numpy as np
import pytest
from behaving_model import Model
from search_world import SEED, judge, search, world, write_instruction

from judges.judgement import Judgement
from optimize.items import Items
from optimize.search.evaluator import SearchOptions, objective
from optimize.search.gepa import BLOCK, examples, metric


def test_gepa_asks_its_own_proposer_which_reads_documents_at_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = Model(write_instruction)
    options = SearchOptions(seed=1)
    search(
        world(16),
        world(12, first=100),
        optimizer="gepa",
        calls=1500,
        proposer=model,
        options=options,
    )
    prompts = "\n".join(model.seen)
    assert "examples_with_feedback" in prompts
    assert "The score of these 8 outputs, Spearman's rho by what people say" in prompts
    assert "placed too high" in prompts
    assert {sampling.temperature for sampling in model.samplings} == {1.0}
    # DSPy prints and draws bars; a command's stdout holds the result alone.
    assert capsys.readouterr().out == ""


def test_the_mean_over_examples_is_summary_level_rho() -> None:
    items = world(9)
    scores = np.random.default_rng(0).normal(size=len(items))
    score = {item.id: value for item, value in zip(items.items, scores, strict=True)}
    values = []
    for example in examples(items, "summary"):
        part: Items = example["items"]
        judgements = [Judgement(score=score[item.id]) for item in part.items]
        values.append(metric(example, dspy.Prediction(judgements=judgements)))
    assert np.mean(values) == pytest.approx(objective(scores, items, "summary"))


def test_an_evaluation_that_could_not_be_paid_never_wins() -> None:
    (example, *_) = examples(world(2), "summary")
    judged = [each.judgement for each in judge(SEED, example["items"].items)]
    assert metric(example, dspy.Prediction(judgements=())) == -1
    assert metric(example, dspy.Prediction(judgements=judged)) > -1
    failed = [Judgement.failed("it cannot say") for _ in judged]
    assert metric(example, dspy.Prediction(judgements=failed)) == 0


def test_documents_with_one_output_each_are_taken_in_blocks() -> None:
    made = examples(world(3 * BLOCK, systems=1), "dataset")
    assert [len(example["items"]) for example in made] == [BLOCK] * 3
