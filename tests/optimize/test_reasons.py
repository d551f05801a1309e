"""Reasons in demonstrations: the judge's own, or the proposer's, for people's answer."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_world import SEED, world

from judges.catalog import find
from judges.inference.runner import Runner
from judges.judgement import Judgement
from judges.prompt import NOT_GIVEN, Prompt, Reasoning, reasoning_of, with_reasoning
from judges.protocol import Completion, Message, Reply, Sampling
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.demos import DemoSource, demo_sets, demonstration, nearest_choice
from optimize.search.evaluator import Evaluator, ItemScore, SearchBudget
from optimize.search.problem import SearchProblem
from optimize.search.reasons import DEMOS_PER_REQUEST, ReasonSource
from optimize.statistics.bootstrap import stream

TRAIN = world(8, 4)
EXAMPLE = re.compile(r'^\{"example": .*\}$', re.MULTILINE)


class Writer:
    """Writes under each header, as `reason` says for its example and the number of its request."""

    name, endpoint = "writer", "http://127.0.0.1/v1"
    native_n = True
    has_logprobs: bool | None = False

    def __init__(self, reason: Callable[[dict[str, object], int], str]) -> None:
        self.reason = reason
        self.asked: list[list[dict[str, object]]] = []
        self.systems: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        examples = [json.loads(line) for line in EXAMPLE.findall(messages[-1]["content"])]
        self.asked.append(examples)
        self.systems.append(messages[0]["content"])
        sections = [
            f"[[ ## reasons_{example['example']} ## ]]\n{text}"
            for example in examples
            if (text := self.reason(example, len(self.asked)))
        ]
        text = "\n\n".join([*sections, "[[ ## completed ## ]]"])
        return Completion(
            replies=(Reply(text=text),), tokens_in=100, tokens_out=50, model=self.name
        )

    async def close(self) -> None:
        pass


def say(example: dict[str, object], request: int) -> str:
    return f"It is as such a text is that gets {example['answer']}, in request {request}."


def problem_with(
    writer: Writer | None, *, calls: int = 1000, own_words: str = "", off_by: int = 0
) -> SearchProblem:
    """The judge gives people's answer, or one that is off by so much, with words of its own."""

    def judge(prompt: Prompt, items: Sequence[Item]) -> list[ItemScore]:
        choices = prompt.answer.choices or ()
        ratings = [int(nearest_choice(choices, item.human)) for item in items]
        ratings = [(rating - 1 + off_by) % 5 + 1 for rating in ratings]
        judgements = [Judgement(score=r, rating=r, rationale=own_words or None) for r in ratings]
        return [ItemScore(score=j.score, comment=own_words, judgement=j) for j in judgements]

    return SearchProblem(
        evaluator=Evaluator(seed=SEED, judge=judge, calls_per_item=1, budget=SearchBudget(calls)),
        propose=lambda *_: [],
        proposer=None if writer is None else Runner(writer),
        train=TRAIN,
        dev=TRAIN,
        level="summary",
    )


def shown(form: Reasoning | None, size: int = 6, prompt: Prompt = SEED) -> Candidate:
    scores = TRAIN.human
    source = DemoSource(items=TRAIN, scores=scores, prompt=prompt, max_characters=10**6)
    demo_set = next(demo_sets(source, (), stream(0, "demos"), best=[f"levels {size}"]))
    return Candidate(instruction="Rate the text.", demo_set=demo_set, reasoning=form)


def reasons_in(candidate: Candidate) -> list[object]:
    return [demo.get("rationale") for demo in candidate.prompt(SEED).demos]


@pytest.mark.parametrize("form", ["brief", "steps", "questions"])
def test_every_demonstration_gets_reasons_for_peoples_answer_in_the_form_asked(form):
    writer = Writer(say)
    problem = problem_with(writer)
    candidate = ReasonSource(problem).with_reasons(shown(form))
    demos = candidate.prompt(SEED).demos
    assert len(demos) == 6
    assert all(f"gets {demo['rating']}," in str(demo["rationale"]) for demo in demos)
    assert [len(examples) for examples in writer.asked] == [DEMOS_PER_REQUEST, 2]
    wanted = with_reasoning(SEED, form).outputs[0].description
    assert all(f"example 1: {wanted}" in system for system in writer.systems)
    assert problem.evaluator.budget.spent == len(writer.asked)
    assert reasoning_of(candidate.prompt(SEED)) == form


def test_what_a_reply_leaves_out_is_asked_for_once_more_and_then_not_shown():
    first = shown("steps").demo_set.demos[0]["text"]

    def leaving_out_one(example, request):
        texts = example["texts"]
        return "" if texts["text"] == first else say(example, request)

    writer = Writer(leaving_out_one)
    candidate = ReasonSource(problem_with(writer)).with_reasons(shown("steps"))
    assert len(candidate.demo_set.demos) == len(candidate.demo_set.ids) == 5
    assert first not in [demo["text"] for demo in candidate.demo_set.demos]
    assert NOT_GIVEN not in reasons_in(candidate)
    in_two_requests = [examples for examples in writer.asked if len(examples) == 1]
    assert in_two_requests


def test_a_proposer_that_writes_none_twice_is_not_asked_for_the_next_candidates():
    writer = Writer(lambda example, request: "")
    source = ReasonSource(problem_with(writer))
    assert source.with_reasons(shown("steps")).demo_set.demos == ()
    asked = len(writer.asked)
    assert asked
    assert source.with_reasons(shown("steps", size=4)).demo_set.demos == ()
    assert len(writer.asked) == asked
    source.with_reasons(shown("brief"))
    assert len(writer.asked) > asked


def test_reasons_are_written_once_for_each_form():
    writer = Writer(say)
    source = ReasonSource(problem_with(writer))
    first = source.with_reasons(shown("steps"))
    assert source.with_reasons(shown("steps")) == first == source.with_reasons(first)
    assert len(writer.asked) == 2
    assert source.with_reasons(shown("brief")).id != first.id
    assert len(writer.asked) == 4


@pytest.mark.parametrize(("off_by", "n_asked"), [(0, 0), (1, 2)])
def test_the_judges_own_reasons_stay_only_where_it_gave_peoples_answer(off_by, n_asked):
    writer = Writer(say)
    problem = problem_with(writer, own_words="My own words.", off_by=off_by)
    judged = Candidate(instruction="Rate.", reasoning="steps")
    problem.evaluator.scores(judged, TRAIN)
    candidate = ReasonSource(problem).with_reasons(shown("steps"), [judged])
    assert len(writer.asked) == n_asked
    assert (set(reasons_in(candidate)) == {"My own words."}) == (off_by == 0)
    # Steps are no sentence.
    brief = ReasonSource(problem).with_reasons(shown("brief"), [judged])
    assert "My own words." not in reasons_in(brief)


def test_what_cannot_be_paid_for_is_not_shown():
    writer = Writer(say)
    candidate = ReasonSource(problem_with(writer, calls=1)).with_reasons(shown("steps"))
    assert len(writer.asked) == 1
    assert len(candidate.demo_set.demos) == DEMOS_PER_REQUEST
    assert (
        ReasonSource(problem_with(writer, calls=0)).with_reasons(shown("steps")).demo_set.demos
        == ()
    )


def test_answers_alone_and_a_proposer_that_cannot_write_ask_for_no_reasons():
    writer = Writer(say)
    assert ReasonSource(problem_with(writer)).with_reasons(shown("none")) == shown("none")
    assert ReasonSource(problem_with(writer)).with_reasons(shown(None)) == shown(None)
    explained = ReasonSource(problem_with(Writer(say))).with_reasons(shown("steps"))
    alone = replace(explained, reasoning=None)
    assert ReasonSource(problem_with(writer)).with_reasons(alone).id == shown(None).id
    unexplained = ReasonSource(problem_with(None)).with_reasons(shown("steps"))
    assert set(reasons_in(unexplained)) == {NOT_GIVEN}
    assert not writer.asked


def test_no_demonstration_holds_reasons_that_nobody_wrote():
    pairs = find("tldr_concise").prompt()
    item = Item(
        id="p", document_id="d", system=None, human=1.0,
        texts={"post": "p", "summary_a": "a", "summary_b": "b"},
    )  # fmt: skip
    for score, comment, expected in (
        (1.0, "A says more.", "A says more."), (-1.0, "B says more.", NOT_GIVEN),
        (0.0, "Alike.", NOT_GIVEN), (1.0, "", NOT_GIVEN), (float("nan"), "So.", NOT_GIVEN),
    ):  # fmt: skip
        source = DemoSource(
            items=Items((item,)),
            scores=np.array([score]),
            prompt=pairs,
            max_characters=100,
            comments={"p": comment} if comment else {},
        )
        assert demonstration(source, 0)["comparison"] == expected
