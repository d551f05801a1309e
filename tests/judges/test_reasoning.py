"""What a judge writes before its answer: nothing, a sentence, steps or questions."""

from dataclasses import replace
from typing import Any, get_args

from frozen_cases import loaded
from hypothesis import given
from hypothesis import strategies as st

from judges.catalog import COHERENCE, TLDR_CONCISE
from judges.dimension import check_prompt, untuned_prompt
from judges.judge import Judge
from judges.modules import demos_of, prompt_of, signature_of
from judges.prompt import NOT_GIVEN, Prompt, Reasoning, reasoning_of, with_reasoning
from judges.protocol import Reply
from judges.questions import number_of
from judges.scoring import ONE, read_sample

DEMOS: dict[str, Any] = {
    "coherence": {"document": "d", "summary": "s", "rating": 4},
    "tldr_concise": {"post": "p", "summary_a": "a", "summary_b": "b", "preferred": "B"},
}
forms, subjects = st.sampled_from(get_args(Reasoning)), st.sampled_from([COHERENCE, TLDR_CONCISE])
lines = st.text(st.characters(codec="utf-8", exclude_characters="[]<>#"), max_size=60)


def prompt_with_demo(subject: Any, form: Reasoning, reasons: str, **values: Any) -> Prompt:
    prompt = untuned_prompt(subject, form)
    demo = {field.name: reasons for field in prompt.fields if field.role == "output"}
    return replace(prompt, demos=({**demo, **DEMOS[subject.name], **values},))


@given(subjects, forms, forms)
def test_every_form_is_told_from_its_prompt_and_leaves_no_trace_in_another(subject, first, second):
    seed = subject.prompt()
    prompt = with_reasoning(seed, first)
    assert reasoning_of(prompt) == first
    assert (prompt.instruction, prompt.inputs) == (seed.instruction, seed.inputs)
    assert prompt.outputs[-1] == seed.outputs[-1]
    assert len(prompt.outputs) == (1 if first == "none" else 2)
    check_prompt(subject, prompt)
    assert with_reasoning(with_reasoning(prompt, second), first) == prompt


@given(subjects, forms, forms, lines)
def test_reasons_of_another_form_are_not_given(subject, first, second, reasons):
    prompt = with_reasoning(prompt_with_demo(subject, first, reasons), second)
    check_prompt(subject, prompt)
    (demo,) = prompt.demos
    shown = [demo[name] for name in ("rationale", "comparison") if name in demo]
    expected = [] if second == "none" else [reasons if first == second else NOT_GIVEN]
    assert shown == expected


@given(subjects, forms, lines)
def test_dspy_and_a_file_give_back_the_prompt_of_every_form(subject, form, reasons):
    prompt = prompt_with_demo(subject, form, reasons)
    assert prompt_of(signature_of(prompt), demos_of(prompt)) == prompt
    assert loaded(Judge(subject=subject, prompt=prompt, plan=ONE).dumps()).prompt == prompt


@given(subjects, forms, lines, st.data())
def test_what_a_template_asks_for_is_read_back(subject, form, reasons, data):
    """A demonstration is a reply of the form that is asked for."""
    answer = subject.prompt().answer
    value = data.draw(st.sampled_from(answer.choices))
    prompt = prompt_with_demo(subject, form, reasons, **{answer.name: value})
    reply = Reply(text=prompt.template()[2]["content"])
    sample = read_sample(ONE, prompt, reply, names=(subject.name,))
    assert sample.value == number_of(value, answer.choices)
    if form == "none":
        assert sample.text is None
    else:
        assert (sample.text or "").split() == reasons.split()
