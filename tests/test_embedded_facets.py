"""Each facet orders two texts that differ in what it measures, and little else."""

import math

import pytest

from judges.models.embedded.content import fragment_density
from judges.models.embedded.facets import INDEX, NAMES, facets_of
from judges.models.embedded.request import Roles
from judges.models.embedded.source import read_source
from judges.models.embedded.text import read_text

SOURCE = (
    "The town of Marl will close its swimming pool in May. The council said that repairs would cost"
    " 2 million. Swimmers started a petition, which 900 people signed. The mayor, Ada Finch, will"
    " meet them on Friday. A bakery near the pool sells plum cake on Sundays. Its owner does not"
    " mind the closure."
)
TALK = "Do you like swimming?\nYes, the old pool in Marl was my favourite. Have you been there?"
FACT = "The pool in Marl was built in 1931 and holds 900 swimmers."
OF_DOCUMENT = Roles(
    candidates=("summary",), documents=("document",), turns=(), knowledge=(), condenses=True
)
OF_TALK = Roles(
    candidates=("response",), documents=(), turns=("context",), knowledge=("fact",), condenses=False
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


def test_a_sentence_that_runs_on_is_a_fault_of_grammar():
    start = "The mayor said that the town had to close the pool"
    short, long = f"{start}.", f"{start}{' and that people asked for the money' * 5}."
    assert facets(long)[INDEX["grammar"]] < facets(short)[INDEX["grammar"]]


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
