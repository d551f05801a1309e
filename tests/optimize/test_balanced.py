"""Balanced accuracy: its value, its threshold, its contrast, and a search that maximises it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_world import SEED, judge, problem_of, world, written_search

from dspy_judges.errors import SettingsError
from judges.dimension import Dimension
from judges.judgement import Judgement
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import ItemJudgement
from optimize.search.optimizer import Exploration
from optimize.search.two_fold_search import score_finalists
from optimize.statistics.balanced import (
    balanced_accuracy,
    best_threshold,
    contrast_balanced_accuracy,
    verdicts,
)
from optimize.statistics.intervals import random_generator
from optimize.tuning.preparation import choose_objective


def test_balanced_accuracy_is_the_mean_of_tpr_and_tnr() -> None:
    # Of four passes three are passed, of two fails one is failed: (3/4 + 1/2) / 2.
    human = [1, 1, 1, 1, 0, 0]
    assert balanced_accuracy([1, 1, 1, 0, 0, 1], human) == pytest.approx(0.625)
    # A failed judgement is left out: of three passes two, (2/3 + 1/2) / 2.
    assert balanced_accuracy([np.nan, 1, 1, 0, 0, 1], human) == pytest.approx(7 / 12)
    assert balanced_accuracy([1] * 6, human) == 0.5
    assert np.isnan(balanced_accuracy([1, 0], [1, 1]))


TEN = [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("scores", "human", "threshold"),
    [
        ([0.1] * 5 + [0.2] * 5, TEN, 0.15),
        # .35 and .55 each take one output of ten wrongly, and .8 two.
        ([0.3, 0.3, 0.3, 0.3, 0.9, 0.4, 0.7, 0.7, 0.7, 0.7], TEN, 0.35),
        ([0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7], TEN, 0.4),
        # Verdicts teach none, nor do four outputs of a class; five do.
        ([0, 0, 1, 1] * 5, [0, 1] * 10, 0.5),
        ([0.1] * 4 + [0.2] * 6, [0] * 4 + [1] * 6, 0.5),
    ],
)
def test_the_threshold_is_the_best_midpoint_near_a_half(scores, human, threshold):
    assert best_threshold(scores, human) == pytest.approx(threshold)
    assert verdicts([threshold, threshold - 0.01], threshold).tolist() == [1, 0]


def test_the_balanced_contrast_is_the_difference():
    rng = random_generator(0, "contrast")
    human, document = rng.integers(0, 2, 120), np.repeat(np.arange(30), 4)
    a, b = rng.integers(0, 2, (2, 120)).astype(float)
    there, back = (
        contrast_balanced_accuracy(a, b, human, document),
        contrast_balanced_accuracy(b, a, human, document),
    )
    expected = balanced_accuracy(a, human) - balanced_accuracy(b, human)
    assert (there.value, back.value) == pytest.approx((expected, -expected))
    assert there.value in there.interval
    # Judges that differ on five documents are not told apart, be they all of one sign.
    near = np.where(np.arange(120) % 24 == 0, 1 - human, human)
    assert contrast_balanced_accuracy(human, near, human, document).interval is None
    few = np.where(np.arange(120) < 9, 0, 1)
    assert contrast_balanced_accuracy(a, b, few, document).interval is None
    # With few fails, swapping the judges on a document swaps their verdicts.
    signs = np.where(np.arange(30) < 4, -1.0, 1.0)
    sign = np.repeat(signs, 4) > 0
    sides = np.where(sign, a, b), np.where(sign, b, a)
    after = balanced_accuracy(sides[0], few) - balanced_accuracy(sides[1], few)
    assert contrast_balanced_accuracy(a, b, few, document).swapped(signs[None]) == pytest.approx(
        [after]
    )


def with_verdicts(items: Items) -> Items:
    """The outputs that people rate above 3 pass."""
    return Items(tuple(replace(item, human=float(item.human > 3)) for item in items))


def low_judge(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
    """The judge of the small world on 0 to 1, with its passes from about .25 on."""
    return [
        ItemJudgement(Judgement(score=float(np.clip((one.judgement.score - 1) / 8, 0, 1))))
        for one in judge(prompt, items)
    ]


def test_a_search_for_balanced_accuracy_finds_instruction_and_threshold():
    train, dev = with_verdicts(world(20)), with_verdicts(world(18, first=100))
    result, _, evaluator = written_search(train, dev, by=low_judge, goal="balanced")
    assert result.decision.ships
    assert result.decision.why.startswith("Shipped: the tuned judge. Cross-validated on")
    assert "kindness" in result.tuned_candidate.instruction
    # The judge's 3 of 5, where passes begin, is .25 on its own scale.
    for candidate in (result.tuned_candidate, result.untuned_candidate):
        assert candidate.threshold == pytest.approx(0.25, abs=0.08)
    new = with_verdicts(world(60, first=1000))
    scores = [
        one.judgement.score for one in low_judge(result.tuned_candidate.prompt(SEED), new.items)
    ]
    assert balanced_accuracy(verdicts(scores, result.tuned_candidate.threshold), new.human) > 0.7
    assert balanced_accuracy(verdicts(scores), new.human) < 0.55
    assert evaluator.budget.total_cost > 0


def test_the_threshold_ignores_the_labels_that_test_it():
    """Dev's labels turned around leave the threshold of what train has taught."""
    train, dev = with_verdicts(world(20)), with_verdicts(world(18, first=100))
    mirror = Items(tuple(replace(item, human=1 - item.human) for item in dev.items))
    candidate = Candidate(instruction="Rate the kindness of the text.")
    exploration, thresholds = Exploration(finalists=[candidate], candidate_ids=()), []
    for half in (dev, mirror):
        problem = problem_of(train, half, by=low_judge, goal="balanced")
        (trial, *_) = score_finalists(problem, exploration)
        thresholds.append(trial.candidate.threshold)
        assert set(trial.scores.tolist()) <= {0.0, 1.0}
    assert thresholds[0] == thresholds[1] != 0.5


def test_binary_labels_are_tuned_for_balanced_accuracy_unless_a_level_is_given():
    words = {"name": "ok", "definition": "is it ok", "inputs": {"text": ""}, "instruction": "Say."}
    two, five = (Dimension(**words, anchors=dict.fromkeys(s, "")) for s in ((0, 1), range(1, 6)))
    items, ratings = with_verdicts(world(4)), world(4)
    assert choose_objective("auto", "auto", two, items) == "balanced"
    for changes in (("auto", "summary"), ("spearman", "auto")):
        assert choose_objective(*changes, two, items) == "spearman"
    for dimension, labels in ((five, items), (two, ratings)):
        assert choose_objective("auto", "auto", dimension, labels) == "spearman"
    with pytest.raises(SettingsError, match="--objective balanced"):
        choose_objective("balanced", "auto", five, ratings)
