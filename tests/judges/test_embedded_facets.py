"""Each facet orders two texts by what it measures; the prompt's words decide what facets weigh."""

import dataclasses
import math

import numpy as np
import pytest
from judges.embedded.content import fragment_density
from judges.embedded.request import Roles, Task, read_task
from judges.embedded.source import read_source

from judges.catalog import find
from judges.client.protocol import Sampling
from judges.embedded import EmbeddedModel
from judges.embedded.facets import INDEX, NAMES, PHRASES, emphases, facets_of, read_shares
from judges.embedded.text import read_text
from judges.prompt import Field, Prompt

SOURCE = (
    "The town of Marl will close its swimming pool in May. The council said that repairs would cost"
    " 2 million. Swimmers started a petition, which 900 people signed. The mayor, Ada Finch, will"
    " meet them on Friday. A bakery near the pool sells plum cake on Sundays. Its owner does not"
    " mind the closure."
)
TALK = "Do you like swimming?\nYes, the old pool in Marl was my favourite. Have you been there?"
FACT = "The pool in Marl was built in 1931 and holds 900 swimmers."
OF_DOCUMENT = Roles(
    candidates=("summary",), documents=("document",), turns=(), knowledge=(), is_summary=True
)
OF_TALK = Roles(
    candidates=("response",),
    documents=(),
    turns=("context",),
    knowledge=("fact",),
    is_summary=False,
)
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
    "closeness": (
        "Swimmers started a petition, which 900 people signed.",
        "A petition by those who swim there got 900 names.",
    ),
    "order": (
        "The town of Marl will close its swimming pool in May. The council said that repairs would"
        " cost 2 million. Swimmers started a petition.",
        "Swimmers started a petition. The council said that repairs would cost 2 million. The town"
        " of Marl will close its swimming pool in May.",
    ),
    "unity": (
        "The town of Marl will close its pool since repairs would cost 2 million.",
        "The town of Marl will close its pool. Repairs would cost. It is 2 million. It is sad.",
    ),
    "rewording": (
        "Marl is shutting its pool this spring over the price of repairs.",
        "The town of Marl will close its swimming pool in May.",
    ),
    "repetition": (
        "Marl will close its swimming pool. Swimmers signed a petition.",
        "Marl will close its swimming pool. Marl will close its swimming pool.",
    ),
    "grammar": (
        "The mayor will meet the swimmers on Friday.",
        "The mayor will will meet the of swimmers on the.",
    ),
    "form": ("The mayor will meet them on Friday.", "the Mayor , , will meet them [UNK on friday"),
    "completeness": ("The mayor will meet them on Friday.", "The mayor will meet them on the"),
    "conciseness": (
        "Marl closes its pool in May.",
        "It is the case that the town that is called Marl will then be going to close down that"
        " swimming pool of its own, and it will do so in the month of May, as has been said by it,"
        " and so on and so forth as it were, for it is what it is and will be what it will be.",
    ),
    "readability": (
        "Marl will close its pool. It costs too much.",
        "Municipal representatives announced discontinuation of recreational swimming facilities"
        " notwithstanding considerable demonstrations, petitions and representations beforehand.",
    ),
}
TURNS = {
    "knowledge": ("It was built in 1931, and 900 swimmers fit in.", "I have never been anywhere."),
    "answer": ("No, I have not been to the pool in Marl.", "Cheese keeps well in a cellar."),
    "engagement": (
        "It was built in 1931! I read that 900 swimmers fit in. Would you go there with me?",
        "I don't know.",
    ),
    "naturalness": (
        "I've not been there, but you make me want to go.",
        "Yes, the old pool in Marl was my favourite. Have you been there?",
    ),
    "courtesy": ("Thanks, that is very kind of you.", "Shut up, you stupid idiot."),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_facet_of_summaries_prefers_the_better_of_two(name):
    better, worse = SUMMARIES[name]
    assert facets(better)[INDEX[name]] > facets(worse)[INDEX[name]]


@pytest.mark.parametrize("name", TURNS)
def test_a_facet_of_talk_prefers_the_better_of_two(name):
    better, worse = TURNS[name]
    assert turn(better)[INDEX[name]] > turn(worse)[INDEX[name]]


def test_a_word_stands_in_a_run_as_long_as_what_was_taken_over():
    # "the council said that repairs" is a run of 5 of the source's words, "might" and "grow" stand
    # in none: (5 x 5) / 7 words.
    text = read_text("The council said that repairs might grow.")
    assert fragment_density(text, read_source(SOURCE)) == pytest.approx(25 / 7)


def test_own_wording_beyond_some_earns_no_more():
    some = "Marl shuts its swimming pool in May as the council said that repairs would cost money."
    anew = "Bathers lose their favourite spot because mending everything became too dear."
    values = [facets(text)[INDEX["rewording"]] for text in (some, anew)]
    assert values[0] == pytest.approx(values[1])


def test_facets_are_finite_and_bounded_for_an_empty_source():
    values = facets_of(OF_DOCUMENT, {"document": "", "summary": "Some text."}, "summary")
    assert len(values) == len(NAMES)
    assert all(math.isfinite(value) and abs(value) <= 4 for value in values)


def facets(summary: str):
    return facets_of(OF_DOCUMENT, {"document": SOURCE, "summary": summary}, "summary")


def turn(response: str):
    return facets_of(OF_TALK, {"context": TALK, "fact": FACT, "response": response}, "response")


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


def test_unknown_words_fall_back_on_an_overall_impression():
    strange = emphases(task("Judge the zorb.", "how zorby it is"))
    assert np.allclose(strange, emphases(task("")))
    assert strange[INDEX["coverage"]] > strange[INDEX["courtesy"]] > 0


@pytest.mark.parametrize("place", range(len(NAMES)))
def test_each_facets_own_wording_reads_back_as_that_facet(place):
    shares = read_shares(f"See whether it {PHRASES[place].asks}.")
    assert int(np.argmax(shares)) == place


def test_a_rendered_prompt_reads_back_whole():
    for name in ("coherence", "fluency", "tldr_concise", "dialogue_helpful"):
        prompt = find(name).prompt()
        read = read_task(prompt.template()[0]["content"])
        assert (read.inputs, read.outputs) == (prompt.inputs, prompt.outputs)
        assert read.instruction == prompt.instruction


def test_another_instruction_makes_another_judge():
    def ratings(prompt: Prompt) -> list[float]:
        texts = ("A man is. A man is. A man is.", "man the of quick, dog dog [UNK] and the")
        result = []
        for text in texts:
            messages = prompt.messages({"document": "A man saw a dog.", "summary": text})
            reply = EmbeddedModel().reply(messages, Sampling(top_logprobs=9)).replies[0]
            top = reply.tokens[-1].top
            result.append(sum(int(rating) * np.exp(p) for rating, p in top.items()))
        return result

    seed = find("coherence").prompt()
    one = ratings(dataclasses.replace(seed, instruction="Judge only repetition, above all."))
    other = ratings(dataclasses.replace(seed, instruction="Judge only the grammar, above all."))
    assert one[0] - one[1] < other[0] - other[1]
