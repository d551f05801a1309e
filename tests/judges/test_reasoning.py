"""What a judge writes before its answer: nothing, a sentence, steps or questions."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.catalog import find
from judges.dimension import Comparison, Dimension, check_prompt, untuned_prompt
from judges.frozen import loads
from judges.judge import Judge
from judges.modules import demos_of, prompt_of, signature_of
from judges.prompt import NOT_GIVEN, Prompt, Reasoning, Value, reasoning_of, with_reasoning
from judges.protocol import Reply
from judges.questions import number_of
from judges.scoring import SamplingPlan, read_sample

FORMS: tuple[Reasoning, ...] = get_args(Reasoning)
COHERENCE, CONCISE = find("coherence"), find("tldr_concise")
assert isinstance(COHERENCE, Dimension)
assert isinstance(CONCISE, Comparison)
SUBJECTS = (COHERENCE, CONCISE)
DEMOS: dict[str, dict[str, Value]] = {
    "coherence": {"document": "d", "summary": "s", "rating": 4},
    "tldr_concise": {"post": "p", "summary_a": "a", "summary_b": "b", "preferred": "B"},
}
forms, subjects = st.sampled_from(FORMS), st.sampled_from(SUBJECTS)
lines = st.text(st.characters(codec="utf-8", exclude_characters="[]<>#"), max_size=60)


def prompt_with_demo(subject: Dimension | Comparison, form: Reasoning, reasons: str) -> Prompt:
    prompt = untuned_prompt(subject, form)
    demo: dict[str, Value] = {
        field.name: reasons if field.role == "output" else "" for field in prompt.fields
    }
    return Prompt(
        instruction=prompt.instruction,
        fields=prompt.fields,
        demos=({**demo, **DEMOS[subject.name]},),
    )


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_told_from_the_prompt_that_asks_for_it(subject, form):
    seed = subject.prompt()
    prompt = with_reasoning(seed, form)
    assert reasoning_of(prompt) == form
    assert prompt.instruction == seed.instruction
    assert [f for f in prompt.fields if f.role == "input"] == list(seed.inputs)
    assert prompt.outputs[-1] == seed.outputs[-1]
    assert len(prompt.outputs) == (1 if form == "none" else 2)
    check_prompt(subject, prompt)


@given(subjects, forms, forms)
def test_a_form_leaves_no_trace_of_another(subject, first, second):
    seed = subject.prompt()
    there_and_back = with_reasoning(with_reasoning(with_reasoning(seed, first), second), first)
    assert there_and_back == with_reasoning(seed, first)


@given(subjects, forms, forms, lines)
def test_reasons_of_another_form_are_not_given(subject, first, second, reasons):
    prompt = with_reasoning(prompt_with_demo(subject, first, reasons), second)
    check_prompt(subject, prompt)
    shown = [
        prompt.demos[0][name] for name in ("rationale", "comparison") if name in prompt.demos[0]
    ]
    expected = [] if second == "none" else [reasons if first == second else NOT_GIVEN]
    assert shown == expected


@given(subjects, forms, lines)
def test_dspy_and_a_file_give_back_the_prompt_of_every_form(subject, form, reasons):
    judge = Judge(
        subject=subject,
        prompt=prompt_with_demo(subject, form, reasons),
        plan=SamplingPlan(kind="one"),
    )
    assert prompt_of(signature_of(judge.prompt), demos_of(judge.prompt)) == judge.prompt
    loaded = Judge.of_file(loads(judge.dumps().encode()))  # type: ignore[arg-type]
    assert loaded.prompt == judge.prompt
    assert loaded.template() == judge.template()
    assert reasoning_of(loaded.prompt) == form


@given(subjects, forms, lines, st.data())
def test_what_a_template_asks_for_is_read_back(subject, form, reasons, data):
    """A demonstration is a reply of the form that is asked for."""
    prompt = prompt_with_demo(subject, form, reasons)
    value = data.draw(st.sampled_from(prompt.answer.choices or ()))
    demo = {**prompt.demos[0], prompt.answer.name: value}
    reply = Prompt(instruction=prompt.instruction, fields=prompt.fields, demos=(demo,)).template()[
        2
    ]["content"]
    sample = read_sample(SamplingPlan(kind="one"), prompt, Reply(text=reply), names=(subject.name,))
    assert sample.value == number_of(value, prompt.answer.choices or ())
    if form == "none":
        assert sample.text is None
    else:
        assert (sample.text or "").split() == reasons.split()
