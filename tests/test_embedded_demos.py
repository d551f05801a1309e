"""Worked examples in the prompt move the embedded model towards what they reward."""

import dataclasses
import math
import random

import numpy as np
import pytest

from judges.catalog import find
from judges.models.embedded import EmbeddedModel
from judges.models.embedded.facets import NAMES, Vector
from judges.models.embedded.regression import Lesson, update
from judges.models.protocol import Sampling
from judges.prompt import Prompt, Value

WORDS = ["river", "stone", "garden", "winter", "market", "letter", "engine", "candle", "island"]
DOCUMENT = " ".join(f"The {word} was seen near the old harbour by many people." for word in WORDS)


def summary(rng: random.Random, n: int) -> str:
    return " ".join(f"The {rng.choice(WORDS)} was seen near the harbour." for _ in range(n))


def score(prompt: Prompt, texts: dict[str, str]) -> float:
    reply = EmbeddedModel().reply(prompt.messages(texts), Sampling(top_logprobs=20)).replies[0]
    top = reply.tokens[-1].top
    return math.fsum(int(rating) * math.exp(p) for rating, p in top.items())


def everywhere(lesson: Lesson) -> Vector:
    """The weights for a text that is wholly like every one that taught."""
    return np.asarray(lesson.weights + lesson.moves.sum(axis=0))


def test_no_demos_leave_the_emphases_alone():
    prior = np.linspace(0, 1, len(NAMES))
    lesson = update(prior, np.zeros((0, 1, len(NAMES))), np.zeros(0), level=0.0)
    assert lesson.weights is prior
    assert lesson.level == 0.0


def test_a_facet_that_demos_reward_gains_and_one_they_do_not_show_stays():
    prior = np.full(len(NAMES), 0.2)
    facets = np.zeros((20, len(NAMES)))
    facets[:, 3] = np.tile([1.0, -1.0], 10)
    weights = everywhere(update(prior, facets[:, None], np.tile([2.0, -2.0], 10), level=0.0))
    assert weights[3] > prior[3]
    assert np.delete(weights, 3) == pytest.approx(np.delete(prior, 3))


def test_ratings_that_are_all_high_move_the_level_and_hardly_the_weights():
    prior = np.full(len(NAMES), 0.2)
    rng = np.random.default_rng(0)
    facets = rng.normal(size=(30, len(NAMES)))
    lesson = update(prior, facets[:, None], facets @ prior + 1.0, level=0.0)
    assert lesson.level > 0.5
    assert np.abs(everywhere(lesson) - prior).max() < 0.1


def test_more_demos_move_the_weights_further():
    prior = np.full(len(NAMES), 0.2)
    rng = np.random.default_rng(1)
    facets = rng.normal(size=(64, len(NAMES)))
    truth = np.zeros(len(NAMES))
    truth[5] = 1.0
    learned = [update(prior, facets[:n, None], facets[:n] @ truth, level=0.0) for n in (4, 16, 64)]
    near = [float(np.corrcoef(everywhere(lesson), truth)[0, 1]) for lesson in learned]
    assert near == sorted(near)


def test_demos_that_reward_length_make_longer_texts_score_higher():
    rng = random.Random(3)
    seed = dataclasses.replace(find("relevance").prompt(), instruction="Judge the summary.")
    demos: list[dict[str, Value]] = []
    for n, rating in ((1, 1), (2, 2), (4, 4), (6, 5)) * 4:
        demos.append({"document": DOCUMENT, "summary": summary(rng, n), "rating": rating})
    shown = dataclasses.replace(seed, demos=tuple(demos))
    short = {"document": DOCUMENT, "summary": summary(rng, 1)}
    long = {"document": DOCUMENT, "summary": summary(rng, 6)}
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
        texts = {"post": DOCUMENT, "summary_a": first, "summary_b": second}
        demos.append({**texts, "comparison": "The longer one tells more.", "preferred": preferred})
    texts = {"post": DOCUMENT, "summary_a": summary(rng, 5), "summary_b": summary(rng, 1)}

    def first(prompt: Prompt) -> float:
        reply = EmbeddedModel().reply(prompt.messages(texts), Sampling(top_logprobs=5)).replies[0]
        return next(math.exp(token.top["A"]) for token in reply.tokens if token.top)

    assert first(dataclasses.replace(seed, demos=tuple(demos))) > first(seed)
