"""Each facet orders two texts by what it measures; the prompt's words decide what facets weigh."""

import math

import numpy as np
import pytest

from judges.catalog import find
from judges.embedded.facets import (
    FACET_INDEX,
    FACET_OF_FEATURE,
    FEATURE_SHARES,
    NAMES,
    facet_weights,
    measure,
)
from judges.embedded.model import read_prompt

SOURCE = (
    "The town of Marl will close its swimming pool in May. The council said that repairs would cost"
    " 2 million. Swimmers started a petition, which 900 people signed. The mayor, Ada Finch, will"
    " meet them on Friday. A bakery near the pool sells plum cake on Sundays. Its owner does not"
    " mind the closure."
)
TALK = "Do you like swimming?\nYes, the old pool in Marl was my favourite. Have you been there?"
FACT = "The pool in Marl was built in 1931 and holds 900 swimmers."
# Facet -> the better text and the worse.
SUMMARIES = {
    "coverage": (
        "Marl will close its swimming pool in May because repairs would cost 2 million.",
        "A bakery sells plum cake on Sundays and its owner does not mind.",
    ),
    "focus": ("The town of Marl will close its pool.", "Its owner sells plum cake."),
    "support": (
        "The council said that repairs would cost 2 million.",
        "The council hopes that a lottery might pay for new slides.",
    ),
    "truth": (
        "The council said that repairs would cost 2 million.",
        "The council said that repairs would cost 7 million.",
    ),
    "order": (
        "The town of Marl will close its swimming pool in May. The council said that repairs would"
        " cost 2 million. Swimmers started a petition.",
        "Swimmers started a petition. The council said that repairs would cost 2 million. The town"
        " of Marl will close its swimming pool in May.",
    ),
    "rewording": (
        "Marl is shutting its pool this spring over the price of repairs.",
        "The town of Marl will close its swimming pool in May.",
    ),
    "repetition": (
        "Marl will close its swimming pool. Swimmers signed a petition.",
        "Marl will close its swimming pool. Marl will close its swimming pool.",
    ),
    "connection": (
        "Swimmers started a petition. They will meet the mayor about the petition on Friday.",
        "Swimmers started a petition. Bakers sell plum cake. Money is short. It is sad.",
    ),
    "style": (
        "The town will close its pool in May because repairs have become far too expensive.",
        "It is a pool. It is a town. It is old.",
    ),
    "grammar": (
        "The mayor will meet the swimmers on Friday.",
        "The mayor will will meet the of swimmers on the.",
    ),
}
# Each answers TALK, given FACT.
TURNS = {
    "coverage": ("It was built in 1931, I read, and has room for 900 swimmers.", "Yes, it is so."),
    "focus": ("No, I have not been to the pool in Marl.", "Cheese keeps well in a dry cellar."),
    "support": ("It was built in 1931, and 900 swimmers fit in.", "I have never been anywhere."),
}


def facets(text: str, *sources: str) -> np.ndarray:
    parts = measure(text, *sources)
    return np.bincount(FACET_OF_FEATURE, weights=parts * FEATURE_SHARES)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_facet_of_summaries_prefers_the_better_of_two(name):
    better, worse = (facets(text, SOURCE, "", "")[FACET_INDEX[name]] for text in SUMMARIES[name])
    assert better > worse


@pytest.mark.parametrize("name", TURNS)
def test_a_facet_of_talk_prefers_the_better_of_two(name):
    better, worse = (facets(text, "", TALK, FACT)[FACET_INDEX[name]] for text in TURNS[name])
    assert better > worse


@pytest.mark.parametrize("document", ["", " . ", "?!", "x"])
def test_parts_are_finite_and_bounded_whatever_the_source(document):
    values = measure("Some text.", document, "", "")
    assert all(math.isfinite(value) and abs(value) <= 3 for value in values)


def weigh(instruction: str) -> np.ndarray:
    return facet_weights([(instruction, 1.0)], is_talk=False)


@pytest.mark.parametrize(
    ("instruction", "facet"),
    [
        ("Judge whether every statement is supported by the document.", "support"),
        ("Judge the grammar.", "grammar"),
        ("Does the text repeat itself?", "repetition"),
        ("Are the main points covered?", "coverage"),
        ("Lower the rating for unimportant details.", "focus"),
        ("Are the sentences in a logical order?", "order"),
        ("Prefer short texts.", "focus"),
        ("Reward a retelling in other words.", "rewording"),
        ("Is the prose eloquent?", "style"),
    ],
)
def test_an_instruction_puts_most_weight_on_the_facet_it_names(instruction, facet):
    assert NAMES[int(np.argmax(weigh(instruction)))] == facet


def test_a_rendered_prompt_reads_back_whole():
    for name in ("coherence", "fluency", "tldr_concise", "dialogue_helpful"):
        prompt = find(name).prompt()
        read = read_prompt(prompt.template()[0]["content"])
        assert (read.inputs, read.outputs) == (prompt.inputs, prompt.outputs)
        assert read.instruction == prompt.instruction
