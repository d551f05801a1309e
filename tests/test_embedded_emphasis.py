"""What an instruction's words ask for decides what the embedded model looks at."""

import dataclasses

import numpy as np
import pytest

from judges.catalog import find
from judges.models.embedded.emphasis import emphases, read_shares
from judges.models.embedded.facets import INDEX, NAMES, PHRASES
from judges.models.embedded.request import Task, read_task
from judges.prompt import Field, Prompt


def task(instruction: str, definition: str = "") -> Task:
    reads = (
        Field(name="document", description="the source", role="input"),
        Field(name="summary", description="the summary to judge", role="input"),
    )
    rating = Field(name="rating", description=definition, role="output", choices=(1, 2, 3))
    return Task(reads, (rating,), instruction)


def weight(instruction: str, facet: str) -> float:
    return float(emphases(task(instruction))[INDEX[facet]])


@pytest.mark.parametrize(
    ("instruction", "facet"),
    [
        ("Judge whether every statement is supported by the document.", "support"),
        ("Judge the grammar.", "grammar"),
        ("Does the text repeat itself?", "repetition"),
        ("Are the main points covered?", "coverage"),
        ("Lower the rating for unimportant details.", "focus"),
        ("Are the sentences in a logical order?", "order"),
        ("Prefer short texts.", "conciseness"),
        ("Is it interesting?", "engagement"),
        ("Is it polite?", "courtesy"),
    ],
)
def test_an_instruction_puts_most_weight_on_the_facet_it_names(instruction, facet):
    weights = emphases(task(instruction))
    assert NAMES[int(np.argmax(weights))] == facet


def test_loud_words_raise_and_quiet_words_lower_what_follows_them():
    plain = weight("Judge the grammar and the order.", "order")
    assert weight("Judge the grammar and above all the order.", "order") > plain
    assert weight("Judge the grammar and give little weight to order.", "order") < plain


def test_what_is_to_be_ignored_nearly_vanishes():
    kept = weight("Judge the support by the source.", "grammar")
    assert weight("Judge the support by the source. Ignore grammar.", "grammar") < kept / 2


def test_unknown_words_fall_back_on_an_overall_impression():
    strange = emphases(task("Judge the zorb.", "how zorby it is"))
    assert np.allclose(strange, emphases(task("")))
    assert strange[INDEX["coverage"]] > strange[INDEX["courtesy"]] > 0


def test_the_word_for_the_judged_text_names_no_quality():
    reads = (Field(name="query", description="the query", role="input"),)
    reads += (Field(name="response", description="the response to judge", role="input"),)
    rating = Field(name="rating", description="", role="output", choices=(1, 2))
    with_name = Task(reads, (rating,), "Judge the grammar of the response.")
    without = Task(reads, (rating,), "Judge the grammar.")
    assert np.allclose(emphases(with_name), emphases(without))


@pytest.mark.parametrize("place", range(len(NAMES)))
def test_each_facets_own_wording_reads_back_as_that_facet(place):
    shares, _ = read_shares(f"See whether it {PHRASES[place].asks}.")
    assert int(np.argmax(shares)) == place


def test_a_rendered_prompt_reads_back_whole():
    for name in ("coherence", "fluency", "tldr_concise", "dialogue_helpful"):
        prompt = find(name).prompt()
        read = read_task(prompt.template()[0]["content"])
        assert (read.inputs, read.outputs) == (prompt.inputs, prompt.outputs)
        assert read.instruction == prompt.instruction


def test_another_instruction_makes_another_judge():
    from judges.models.embedded import EmbeddedModel
    from judges.protocol import Sampling

    def ratings(prompt: Prompt) -> list[float]:
        texts = ("A man is. A man is. A man is.", "man the of quick, dog dog [UNK] and the")
        found = []
        for text in texts:
            messages = prompt.messages({"document": "A man saw a dog.", "summary": text})
            reply = EmbeddedModel().reply(messages, Sampling(top_logprobs=9)).replies[0]
            top = reply.tokens[-1].top
            found.append(sum(int(rating) * np.exp(p) for rating, p in top.items()))
        return found

    seed = find("coherence").prompt()
    one = ratings(dataclasses.replace(seed, instruction="Judge only repetition, above all."))
    other = ratings(dataclasses.replace(seed, instruction="Judge only the grammar, above all."))
    assert one[0] - one[1] < other[0] - other[1]
