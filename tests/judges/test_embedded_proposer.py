"""As a proposer the embedded model turns ranked mistakes into an instruction it can read back."""

import json
import random

import numpy as np
import pytest

from judges.catalog import find
from judges.models.embedded import EmbeddedModel
from judges.models.embedded.facets import INDEX, NAMES, emphases
from judges.models.embedded.propose import _ridge, compose, read_feedback
from judges.models.embedded.request import Task
from judges.prompt import Field, Prompt
from judges.protocol import Sampling

TASK = """The judge reads:
- document: the text that was summarized
- summary: the summary to judge
It writes:
- rating (1, 2, 3, 4, 5): how good the summary is"""
PROPOSER = Prompt(
    instruction="Write a better instruction.",
    fields=(
        *(
            Field(name=name, description=name, role="input")
            for name in ("task", "current_instruction", "mistakes", "history")
        ),
        Field(name="instruction", description="the better instruction", role="output"),
    ),
)
DOCUMENT = "The pool in Marl will close in May. Repairs would cost two million. Many people signed."
CLEAN = "The pool in Marl will close in May since repairs would cost two million, and many signed."
DOUBLED = "The pool pool will will close close in in May May. Repairs repairs cost cost two two."


def mistake(summary: str, judge: float, people: float, of: int = 8) -> str:
    texts = {"document": DOCUMENT, "summary": summary}
    return json.dumps({"texts": texts, "judge_place": judge, "people_place": people, "of": of})


MISTAKES = "\n".join([mistake(DOUBLED, 1, 8), mistake(CLEAN, 8, 1)] * 3)


def propose(mistakes: str = MISTAKES, history: str = "none", seed: int = 0, heat: float = 1) -> str:
    texts = {
        "task": TASK,
        "current_instruction": "Judge the quality of the summary: is it short?",
        "mistakes": mistakes,
        "history": history,
    }
    sampling = Sampling(temperature=heat, seed=seed, max_tokens=1024)
    text = EmbeddedModel().reply(PROPOSER.messages(texts), sampling).replies[0].text
    return text.split("[[ ## instruction ## ]]\n")[1].split("\n\n[[ ## completed")[0]


def weights_of(instruction: str) -> np.ndarray:
    return emphases(Task(read_feedback({"task": TASK}).task.inputs, (), instruction))


def test_what_the_judge_overrated_gains_weight():
    # People mind doubled words, which the judge passed over: grammar or repetition must gain.
    before = weights_of("Judge the quality of the summary: is it short?")
    places = [INDEX["grammar"], INDEX["repetition"]]
    for seed in range(5):
        after = weights_of(propose(seed=seed))
        assert after[places].sum() > before[places].sum()


def test_seeds_give_different_instructions_and_the_same_seed_the_same():
    drawn = [propose(seed=seed) for seed in range(8)]
    assert len(set(drawn)) >= 6
    assert drawn[3] == propose(seed=3)


def test_mistakes_of_the_same_gap_give_no_direction():
    # 1/3 less the mean of three times 1/3 may be 1e-17, and made a direction of length 1.
    rows = np.random.default_rng(0).normal(size=(7, 3))
    for gap in (1 / 3, 0.1, 0.7):
        assert not _ridge(rows, np.full(7, gap), 12.0).any()


def test_nothing_tried_before_is_proposed_again():
    first = propose(heat=0.0)
    history = json.dumps({"instruction": first, "rho": 0.1})
    assert propose(heat=0.0, history=history) != first


@pytest.mark.parametrize("seed", range(6))
def test_a_proposal_is_short_and_copies_nothing(seed):
    text = propose(seed=seed)
    assert 20 < len(text) < 900
    words = text.lower().split()
    copied = " ".join((DOCUMENT + " " + CLEAN + " " + DOUBLED).lower().split())
    assert not any(" ".join(words[at : at + 8]) in copied for at in range(len(words) - 7))


@pytest.mark.parametrize("mistakes", ["none", "", "{broken", '{"texts": 3}', "[]", '{"a": {}}'])
def test_a_prompt_without_usable_mistakes_gets_an_instruction_all_the_same(mistakes):
    assert propose(mistakes=mistakes).startswith("Judge the quality of the summary.")


def test_a_pairwise_proposal_keeps_how_to_answer():
    prompt = find("tldr_concise").prompt()
    texts = {"post": DOCUMENT, "summary_a": CLEAN, "summary_b": DOUBLED}
    line = json.dumps({"texts": texts, "judge_margin": -0.8, "people_margin": 1.0})
    task = "The judge reads:\n" + "\n".join(f"- {f.name}: {f.description}" for f in prompt.inputs)
    task += "\nIt writes:\n- comparison: why\n- preferred (A, B): which is better"
    how = "First compare the two in one sentence, then name the preferred one."
    asked = {
        "task": task,
        "current_instruction": f"{prompt.instruction} {how}",
        "mistakes": line,
    }
    reply = EmbeddedModel().reply(
        PROPOSER.messages({**asked, "history": "none"}), Sampling(temperature=1.0)
    )
    assert "then name the preferred one" in reply.replies[0].text


def test_words_for_random_emphases_read_back_as_about_the_same_emphases():
    rng = random.Random(0)
    alike = []
    for _ in range(30):
        wanted = np.zeros(len(NAMES))
        for place in rng.sample(range(len(NAMES)), 4):
            wanted[place] = rng.uniform(0.2, 1.0)
        text = compose("Judge the text.", wanted, rng, compares=False)
        asked = weights_of(text) - weights_of("")
        alike.append(float(asked @ wanted / np.linalg.norm(asked) / np.linalg.norm(wanted)))
    assert np.mean(alike) > 0.8
    assert min(alike) > 0.5


def test_a_fenced_reflection_prompt_gets_a_fenced_instruction():
    shown = f"I gave these instructions:\n```\nJudge the order.\n```\nExamples:\n```\n{MISTAKES}"
    content = f"{shown}\n```\nReply within ``` blocks."
    reply = (
        EmbeddedModel()
        .reply([{"role": "user", "content": content}], Sampling(temperature=1.0))
        .replies[0]
    )
    assert reply.text.startswith("```\nJudge the order.")
    assert reply.text.endswith("\n```")
