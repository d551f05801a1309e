"""Worked examples in the prompt teach the embedded model, and how little they can mislead it."""

import dataclasses
import math
import random
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from judges.embedded.regression import (
    Posterior,
    Scorer,
    fit_similarity,
    make_scorer,
    update,
)
from judges.embedded.request import Demo, read_task
from judges.embedded.traits import N_TRAITS, common_subsequence
from scipy.stats import spearmanr

import data
from data.types import LabelledOutput
from judges.catalog import find
from judges.client.protocol import Sampling
from judges.embedded import EmbeddedModel
from judges.embedded.facets import NAMES, Vector
from judges.prompt import Prompt, Value, fill

SEED = find("relevance").prompt()
TASK = read_task(SEED.template()[0]["content"])
OUTPUTS = data.starter().outputs
DOCUMENTS = sorted({one.document_id for one in OUTPUTS})
TAUGHT = set(DOCUMENTS[::2])
TEACHING = [one for one in OUTPUTS if one.document_id in TAUGHT]
TESTED = [one for one in OUTPUTS if one.document_id not in TAUGHT]


def hidden(output: LabelledOutput) -> int:
    """A rule that no facet knows: 5 where the shortest sentence comes last, else 1."""
    lengths = [len(part.split()) for part in output.texts["summary"].split(".") if part.strip()]
    return 1 + 4 * (lengths[-1] == min(lengths))


def demo(output: LabelledOutput, rating: int) -> Demo:
    return {**output.texts, "rating": str(rating)}


def latents(judge: Scorer, outputs: Sequence[LabelledOutput]) -> Vector:
    return np.array([judge.predict(output.texts).latent for output in outputs])


def within(judge: Scorer, outputs: Sequence[LabelledOutput], wanted: Sequence[float]) -> float:
    """Mean rho within documents, those left out where all is wanted alike."""
    scores, groups = latents(judge, outputs), [output.document_id for output in outputs]
    values = []
    for group in sorted(set(groups)):
        rows = [row for row, other in enumerate(groups) if other == group]
        if len({wanted[row] for row in rows}) > 1:
            rho = spearmanr(scores[rows], [wanted[row] for row in rows]).statistic
            values.append(float(rho))
    return float(np.mean(values))


def test_a_rule_that_no_facet_knows_is_learned_for_other_documents():
    wanted = [hidden(one) for one in TESTED]
    before = within(make_scorer(TASK, []), TESTED, wanted)
    taught = make_scorer(TASK, [demo(one, hidden(one)) for one in TEACHING])
    assert abs(before) < 0.2
    assert within(taught, TESTED, wanted) > before + 0.3


def test_eight_demos_hardly_move_the_order():
    untuned, moved = latents(make_scorer(TASK, []), TESTED), []
    for seed in range(5):
        rng = random.Random(seed)
        few = [demo(one, round(one.rating("relevance"))) for one in rng.sample(TEACHING, 8)]
        moved.append(spearmanr(untuned, latents(make_scorer(TASK, few), TESTED)).statistic)
    assert min(moved) > 0.9


def test_demos_at_random_hardly_move_the_order():
    # Sixty-four ratings that hang on nothing: no document's foretell another's.
    untuned, moved = latents(make_scorer(TASK, []), TESTED), []
    for seed in range(5):
        rng = random.Random(seed)
        noise = [demo(one, rng.randint(1, 5)) for one in rng.sample(TEACHING, 64)]
        moved.append(spearmanr(untuned, latents(make_scorer(TASK, noise), TESTED)).statistic)
    assert np.mean(moved) > 0.9


def test_learning_is_the_same_each_time_and_in_any_order():
    demos = [demo(one, hidden(one)) for one in TEACHING[:60]]
    first = latents(make_scorer(TASK, demos), TESTED[:20])
    assert np.array_equal(first, latents(make_scorer(TASK, demos), TESTED[:20]))
    assert latents(make_scorer(TASK, demos[::-1]), TESTED[:20]) == pytest.approx(first)


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
def test_any_demos_leave_a_judge_that_judges(demos: list[Demo]):
    judge = make_scorer(TASK, demos)
    for one in TESTED[:3]:
        prediction = judge.predict(one.texts)
        assert math.isfinite(prediction.latent)
        assert math.fsum(prediction.probabilities) == pytest.approx(1.0)
    assert make_scorer(TASK, demos).predict({}).latent == judge.predict({}).latent


def test_more_demos_than_can_be_learned_from_are_taken_evenly(monkeypatch):
    monkeypatch.setattr("judges.embedded.regression.MAX_DEMOS", 40)
    demos = [demo(one, hidden(one)) for one in TEACHING[:80]]
    judge, every_other = make_scorer(TASK, demos), make_scorer(TASK, demos[::2])
    assert len(judge.posterior.offsets) == 40
    assert np.array_equal(judge.posterior.offsets, every_other.posterior.offsets)


def test_a_text_is_most_like_itself_and_likeness_is_mutual():
    rng = np.random.default_rng(1)
    traits = rng.normal(size=(20, N_TRAITS))
    similarity = fit_similarity(traits)
    among = similarity.to(traits)
    assert np.diag(among) == pytest.approx(np.ones(20))
    assert among == pytest.approx(among.T)


def test_a_pair_learned_from_is_judged_alike_from_both_sides():
    seed = find("tldr_concise").prompt()
    task, rng = read_task(seed.template()[0]["content"]), random.Random(0)
    demos = []
    for document in DOCUMENTS[::2]:
        one, other = rng.sample([o for o in TEACHING if o.document_id == document], 2)
        demos.append(
            {
                "post": one.texts["document"],
                "summary_a": one.texts["summary"],
                "summary_b": other.texts["summary"],
                "preferred": "A" if hidden(one) >= hidden(other) else "B",
            }
        )
    judge = make_scorer(task, demos)
    assert np.abs(judge.posterior.offsets).max() > 0
    first, second = TESTED[0], TESTED[1]
    texts = {"post": first.texts["document"], "summary_a": first.texts["summary"]}
    texts["summary_b"] = second.texts["summary"]
    turned = {**texts, "summary_a": texts["summary_b"], "summary_b": texts["summary_a"]}
    assert judge.predict(turned).latent == pytest.approx(-judge.predict(texts).latent)


def test_the_longest_common_subsequence_by_bits_is_that_by_a_table():
    rng = random.Random(5)
    for _ in range(50):
        one, other = (rng.choices("abcde", k=rng.randint(1, 12)) for _ in range(2))
        table = np.zeros((len(one) + 1, len(other) + 1), int)
        for i, x in enumerate(one):
            for j, y in enumerate(other):
                longer = max(table[i, j + 1], table[i + 1, j])
                table[i + 1, j + 1] = table[i, j] + 1 if x == y else longer
        assert common_subsequence(one, other) == table[-1, -1]


def test_judging_by_a_prompt_with_many_demos_stays_within_three_times_the_time():
    demos: list[Mapping[str, Value]] = [
        {**one.texts, "rating": hidden(one)} for one in [*TEACHING, *TEACHING][:256]
    ]
    taught = dataclasses.replace(SEED, demos=tuple(demos))
    untuned = min(_seconds(SEED, f"{turn}") for turn in range(3))
    assert min(_seconds(taught, f"taught {turn}") for turn in range(3)) < 3 * untuned


def _seconds(prompt: Prompt, mark: str) -> float:
    """The processor time that judging texts never seen takes, once the prompt was read."""
    model, template, sampling = EmbeddedModel(), prompt.template(), Sampling(top_logprobs=5)
    model.reply(fill(template, TESTED[0].texts), sampling)
    fresh = [{**one.texts, "summary": f"{one.texts['summary']} {mark}"} for one in TESTED]
    start = time.process_time()
    for texts in fresh:
        model.reply(fill(template, texts), sampling)
    return time.process_time() - start


WORDS = ["river", "stone", "garden", "winter", "market", "letter", "engine", "candle", "island"]
HARBOUR = " ".join(f"The {word} was seen near the old harbour by many people." for word in WORDS)


def summary(rng: random.Random, n: int) -> str:
    return " ".join(f"The {rng.choice(WORDS)} was seen near the harbour." for _ in range(n))


def score(prompt: Prompt, texts: dict[str, str]) -> float:
    reply = EmbeddedModel().reply(prompt.messages(texts), Sampling(top_logprobs=20)).replies[0]
    top = reply.tokens[-1].top
    return math.fsum(int(rating) * math.exp(p) for rating, p in top.items())


def learned(prior: Vector, facets: Vector, ratings: Vector) -> Posterior:
    """From texts of one source each, which are all wholly alike."""
    n = len(ratings)
    return update(prior, facets[:, None], ratings, range(n), np.ones((n, n)))


def everywhere(posterior: Posterior) -> Vector:
    """The weights for a text that is wholly like every one that taught."""
    return np.asarray(posterior.weights + posterior.shifts.sum(axis=0))


def test_a_facet_that_demos_reward_gains_and_one_they_do_not_show_stays():
    prior = np.full(len(NAMES), 0.2)
    facets = np.zeros((20, len(NAMES)))
    facets[:, 3] = np.tile([1.0, -1.0], 10)
    weights = everywhere(learned(prior, facets, np.tile([2.0, -2.0], 10)))
    assert weights[3] > prior[3]
    assert np.delete(weights, 3) == pytest.approx(np.delete(prior, 3))


def test_ratings_that_are_all_high_move_the_level_and_hardly_the_weights():
    prior = np.full(len(NAMES), 0.2)
    rng = np.random.default_rng(0)
    facets = rng.normal(size=(30, len(NAMES)))
    posterior = learned(prior, facets, facets @ prior + 1.0)
    assert posterior.level > 0.5
    assert np.abs(everywhere(posterior) - prior).max() < 0.1


def test_demos_that_reward_length_make_longer_texts_score_higher():
    rng = random.Random(3)
    seed = dataclasses.replace(find("relevance").prompt(), instruction="Judge the summary.")
    demos: list[dict[str, Value]] = []
    for n, rating in ((1, 1), (2, 2), (4, 4), (6, 5)) * 4:
        demos.append({"document": HARBOUR, "summary": summary(rng, n), "rating": rating})
    shown = dataclasses.replace(seed, demos=tuple(demos))
    short = {"document": HARBOUR, "summary": summary(rng, 1)}
    long = {"document": HARBOUR, "summary": summary(rng, 6)}
    before = score(seed, long) - score(seed, short)
    assert score(shown, long) - score(shown, short) > before


def test_pairwise_demos_teach_by_differences():
    rng = random.Random(4)
    seed = find("tldr_concise").prompt()
    demos: list[dict[str, Value]] = []
    for place in range(12):
        pair = [summary(rng, 1), summary(rng, 5)]
        preferred = "B" if place % 2 else "A"
        first, second = pair if preferred == "B" else pair[::-1]
        texts = {"post": HARBOUR, "summary_a": first, "summary_b": second}
        demos.append({**texts, "comparison": "The longer one tells more.", "preferred": preferred})
    texts = {"post": HARBOUR, "summary_a": summary(rng, 5), "summary_b": summary(rng, 1)}

    def first(prompt: Prompt) -> float:
        reply = EmbeddedModel().reply(prompt.messages(texts), Sampling(top_logprobs=5)).replies[0]
        return next(math.exp(token.top["A"]) for token in reply.tokens if token.top)

    assert first(dataclasses.replace(seed, demos=tuple(demos))) > first(seed)
