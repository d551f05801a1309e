"""Worked examples in the prompt teach the embedded model, and how little they can mislead it."""

import math
import random

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import data
from judges.catalog import find
from judges.embedded.model import make_judge, read_prompt

TASK = read_prompt(find("relevance").prompt().template()[0]["content"])
OUTPUTS = data.starter().outputs
DOCUMENTS = sorted({one.document_id for one in OUTPUTS})
TAUGHT = set(DOCUMENTS[::2])
TEACHING = [one for one in OUTPUTS if one.document_id in TAUGHT]
TESTED = [one for one in OUTPUTS if one.document_id not in TAUGHT]


def hidden(output):
    """A rule against what the facets hold: 5 for summaries of few words, 1 for long ones."""
    return max(1, 6 - len(output.texts["summary"].split()) // 12)


def demo(output, rating):
    return {**output.texts, "rating": str(rating)}


def latents(judge, outputs):
    return np.array([judge.judge(output.texts)[0] for output in outputs])


def within(judge, outputs, wanted):
    """Mean rho within documents, those left out where all is wanted alike."""
    table = pd.DataFrame({"score": latents(judge, outputs), "wanted": wanted})
    documents = [group for _, group in table.groupby([one.document_id for one in outputs])]
    varied = [group for group in documents if group["wanted"].nunique() > 1]
    return np.mean([spearmanr(group["score"], group["wanted"]).statistic for group in varied])


def test_a_rule_that_no_word_of_the_prompt_names_is_learned_for_other_documents():
    wanted = [hidden(one) for one in TESTED]
    before = within(make_judge(TASK, []), TESTED, wanted)
    taught = make_judge(TASK, [demo(one, hidden(one)) for one in TEACHING])
    assert before < 0.2
    assert within(taught, TESTED, wanted) > before + 0.3


def test_eight_demos_hardly_move_the_order():
    untuned, moved = latents(make_judge(TASK, []), TESTED), []
    for seed in range(5):
        rng = random.Random(seed)
        few = [demo(one, round(one.rating("relevance"))) for one in rng.sample(TEACHING, 8)]
        moved.append(spearmanr(untuned, latents(make_judge(TASK, few), TESTED)).statistic)
    assert min(moved) > 0.9


def test_learning_is_the_same_each_time_and_in_any_order():
    demos = [demo(one, hidden(one)) for one in TEACHING[:60]]
    first = latents(make_judge(TASK, demos), TESTED[:20])
    assert np.array_equal(first, latents(make_judge(TASK, demos), TESTED[:20]))
    assert latents(make_judge(TASK, demos[::-1]), TESTED[:20]) == pytest.approx(first)


@pytest.mark.parametrize(
    "demos",
    [
        [{"document": "", "summary": "", "rating": "1"}],
        [{"document": "D.", "summary": "A short one.", "rating": "5"}],
        [{"document": "D.", "summary": "A short one.", "rating": "5"}] * 30,
        [demo(one, 3) for one in TEACHING[:30]],
        [demo(TEACHING[0], 1), demo(TEACHING[1], 5)],
        [demo(one, hidden(one)) for one in TEACHING[:9]],
        [{"document": "word " * 200_000, "summary": "w " * 300_000, "rating": "2"}] * 2,
        [{"document": "\0\ud800 \u202e", "summary": "....\n\n?!", "rating": "4"}] * 2,
        [{"document": "D.", "summary": "S.", "rating": told} for told in ("nan", "6", "", "-inf")],
    ],
    ids=["empty", "one", "alike", "constant", "two", "one source", "huge", "odd", "no ratings"],
)
def test_any_demos_leave_a_judge_that_judges(demos):
    judge = make_judge(TASK, demos)
    for one in TESTED[:3]:
        latent, shares = judge.judge(one.texts)
        assert math.isfinite(latent)
        assert np.isfinite(shares).all()
    assert make_judge(TASK, demos).judge({})[0] == judge.judge({})[0]


def test_a_pair_learned_from_is_judged_alike_from_both_sides():
    template, rng = find("tldr_concise").prompt().template(), random.Random(0)
    task = read_prompt(template[0]["content"])

    def pair(one, other, **more):
        texts = {"summary_a": one.texts["summary"], "summary_b": other.texts["summary"]}
        return {"post": one.texts["document"], **texts, **more}

    demos = []
    for document in DOCUMENTS[::2]:
        one, other = rng.sample([o for o in TEACHING if o.document_id == document], 2)
        preferred = "A" if hidden(one) >= hidden(other) else "B"
        demos.append(pair(one, other, preferred=preferred))
    judge = make_judge(task, demos)
    first, second = TESTED[:2]
    texts = pair(first, second)
    turned = {**texts, "summary_a": texts["summary_b"], "summary_b": texts["summary_a"]}
    assert judge.judge(texts)[0] != make_judge(task, []).judge(texts)[0]
    assert judge.judge(turned)[0] == pytest.approx(-judge.judge(texts)[0])
