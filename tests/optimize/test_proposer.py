"""What is done with a proposer's replies: read, asked again, refused, and paid for."""

import pytest
from behaving_model import Model
from search_world import SEED, problem_of, world

from judges.client.budget import Budget
from judges.judgement import NoScoreError
from optimize.search.candidates import MAX_INSTRUCTION_LENGTH
from optimize.search.evidence import write_evidence
from optimize.search.proposer import Proposer, read_instruction
from optimize.statistics.intervals import random_generator

TEXT = "Rate the kindness of the text; let its length not sway you."
TWO = "You rate a text.\n\nCount every unkind word against it."
HEADER = "[[ ## instruction ## ]]"
ANALYSIS = "[[ ## analysis ## ]]\nPeople mind length.\n"
READ = {
    "under the header": (f"{ANALYSIS}\n{HEADER}\n{TEXT}", TEXT),
    "in the header's line": (f"{HEADER} {TEXT}", TEXT),
    "before another header": (f"{HEADER}\n{TWO}\n\n[[ ## completed ## ]]\n", TWO),
    "bold header": (f"**{HEADER}**\n{TEXT}", TEXT),
    "the last of two": (f"{HEADER}\n(draft)\n{ANALYSIS}{HEADER}\n{TEXT}", TEXT),
    "header quoted in a sentence": (f"{ANALYSIS}Under {HEADER} I write.\n{HEADER}\n{TEXT}", TEXT),
    "fence under the header": (f"{HEADER}\nHere it is:\n```text\n{TWO}\n```", TWO),
    "the only fence": (f"Here it is:\n\n```\n{TWO}\n```\n\nIt stays general.", TWO),
    "after a thought": (f"<think>{HEADER} No.</think>\n{HEADER}\n{TEXT}", TEXT),
}
UNREAD = {
    "bare text": TEXT,
    "other headers alone": ANALYSIS,
    "nothing under the header": f"{HEADER}\n\n[[ ## completed ## ]]",
    "two fences": f"```\n{TEXT}\n```\nor\n```\n{TWO}\n```",
    "a fence beside other headers": f"{ANALYSIS}\n```\n{TEXT}\n```",
    "a thought without an end": f"<think>{HEADER}\n{TEXT}",
    "nothing": "  ",
}


@pytest.mark.parametrize("name", READ)
def test_an_instruction_is_read_from_its_header_or_fence(name):
    reply, expected = READ[name]
    assert read_instruction(reply) == expected


@pytest.mark.parametrize("name", UNREAD)
def test_a_reply_without_a_header_or_one_fence_is_refused(name):
    with pytest.raises(NoScoreError):
        read_instruction(UNREAD[name])


HALVES = world(12), world(12, first=100)


def proposer_of(model, *, money=None, **settings):
    """A proposer, and the problem of which it knows."""
    account = Budget(max_calls=money).account()
    problem = problem_of(*HALVES, proposer=model, account=account, **settings)
    return Proposer(problem, problem.proposer), problem


def propose(replies, calls=1000):
    """What a proposal brings if these are the replies, the last of them for all that follow."""
    model = Model(lambda prompt, sampling, before: replies[min(model.calls, len(replies)) - 1])
    trials = []
    source, problem = proposer_of(model, calls=calls, trials=trials)
    problem.evaluator.scores(problem.untuned, problem.train)
    evidence = write_evidence(
        problem.evaluator, problem.untuned, problem.train, [random_generator(0, "lesson")]
    )
    fresh = source.propose(SEED.instruction, evidence, [("Rate it.", 0.25)], 1)
    return fresh, [trial["why"] for trial in trials], model, problem.evaluator.budget


def reply(instruction):
    return f"{ANALYSIS}\n{HEADER}\n{instruction}\n\n[[ ## completed ## ]]"


COPIED = world(1).items[0].texts["text"]


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        (reply("Rate kindly. " + "x" * MAX_INSTRUCTION_LENGTH), "1500 are allowed"),
        (reply(f"Rate such: {COPIED}"), "copies 8 words or more of the labelled texts"),
        (reply(SEED.instruction), "known already"),
        ("People seem to mind length.", "no instruction stands under the header"),
    ],
)
def test_a_faulty_proposal_is_asked_once_more_with_its_fault(faulty, fault):
    fresh, faults, model, budget = propose([faulty, reply(TEXT)])
    assert (fresh, faults) == ([TEXT], [])
    *_, second = model.prompts
    assert fault in second
    assert HEADER in second
    assert len({sampling.seed for sampling in model.samplings}) == 2
    assert budget.total_cost == len(HALVES[0]) + 2

    fresh, faults, model, _ = propose([faulty])
    assert fresh == []
    assert model.calls == 2
    (why,) = faults
    assert fault in why


def test_a_useless_proposer_is_not_asked_again():
    lines = []
    calls = []
    model = Model(lambda *_: "I cannot help with that.")
    source, _ = proposer_of(model, lines=lines)
    for number in (1, 2, 3):
        assert source.propose(SEED.instruction, [f"lesson {number}"], [], number) == []
        calls.append(model.calls)
    # Each round asks, and asks again with the fault named.
    assert calls == [2, 4, 4]
    assert [line.endswith("asks for no more instructions") for line in lines] == [False, True]
