"""A judge's prompt as typed questions for a decision model, and its answers as numbers.

What such a model reads has the form that DSPy gives it: an object with the instruction, the
description of the texts, the demonstrations and the texts. A rating is a `score` whose levels are
the anchors, a verdict is a `noul`, and a choice between two outputs is a `choice`. Free text before
the answer is left out, since the model writes none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from judges.judgement import NoScoreError
from judges.prompt import LETTERS, Field, Prompt, fill, neutralise, words_of
from judges.protocol import FatalModelError, Message, Sampling, is_decision
from judges.questions import number_of

# The most levels of a `score`.
MOST_LEVELS = 10
# Neither a temperature nor a seed changes the answers of a decision model.
DECISION_SAMPLING = Sampling(temperature=None, max_tokens=0)


def template_for(lm: str, prompt: Prompt) -> list[Message]:
    """The messages to a model of that name, with `{{name}}` slots for the texts in the last one.

    A decision model gets two JSON objects, of which the last has the texts. Raises FatalModelError
    for a scale that it cannot answer on.
    """
    if not is_decision(lm):
        return prompt.template()
    questions = {field.name: question(field) for field in prompt.choices}
    head = {"state": decision_state(prompt), "questions": questions}
    slots = ", ".join(f'"{field.name}": {{{{{field.name}}}}}' for field in prompt.inputs)
    return [
        Message(role="system", content=json.dumps(head, ensure_ascii=False)),
        Message(role="user", content=f"{{{slots}}}"),
    ]


def fill_for(lm: str, template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """The messages of `template_for` with the texts; KeyError names a text that is missing."""
    as_json = partial(json.dumps, ensure_ascii=False)
    return fill(template, texts, encode=as_json if is_decision(lm) else str)


def decision_state(prompt: Prompt) -> dict[str, Any]:
    """What a decision model reads beside the texts."""
    fields = enumerate(prompt.inputs, start=1)
    state: dict[str, Any] = {
        "instructions": neutralise(prompt.instruction),
        "input_fields": "\n".join(
            f"{n}. `{field.name}` (str): {neutralise(field.description)}" for n, field in fields
        ),
    }
    if prompt.demos:
        names = [field.name for field in (*prompt.inputs, *prompt.choices)]
        state["demos"] = [
            {n: neutralise(v) if isinstance(v := demo[n], str) else v for n in names}
            for demo in prompt.demos
        ]
    return state


def question(field: Field) -> dict[str, Any]:
    """A field with choices as a question in System One's form; raises FatalModelError."""
    choices = field.choices or ()
    text, meanings = split_meanings(field)
    text = neutralise(text)
    if choices == LETTERS:
        return {"type": "choice", "instructions": text, "criteria": dict.fromkeys(LETTERS)}
    names = map(str, choices)
    options = [f"{name}: {meanings[name]}" if name in meanings else name for name in names]
    if words_of(choices):
        criteria = dict(zip(("true", "false"), options, strict=True))
        return {"type": "noul", "instructions": text, "criteria": criteria}
    if len(choices) > MOST_LEVELS:
        raise FatalModelError(
            f"{field.name}: a scale of {len(choices)} ratings, and a decision model tells at most "
            f"{MOST_LEVELS} apart: define the judge with fewer ratings (`scale: [1, 5]` in "
            "FILE.yaml; --scale any for labels on another scale), or ask a chat model"
        )
    return {"type": "score", "instructions": text, "criteria": options}


def split_meanings(field: Field) -> tuple[str, dict[str, str]]:
    """A field's description without the meanings of its choices, and these by choice."""
    either = "|".join(re.escape(str(choice)) for choice in field.choices or ())
    match = re.match(rf"(.*?) \(((?:{either}) = .*)\)\Z", field.description, re.DOTALL)
    if match is None:
        return field.description, {}
    _, *parts = re.split(rf"(?:; |^)({either}) = ", match[2])
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return match[1], {choice: neutralise(meaning) for choice, meaning in pairs}


def read_probabilities(field: Field, answer: Mapping[str, float] | str) -> dict[float, float]:
    """The probability of each number that an answer may have (see `number_of`).

    Raises NoScoreError where the answer cannot be used.
    """
    choices = field.choices or ()
    if not isinstance(answer, str) and len(answer) != len(choices):
        answer = "it has other options"
    # Both are in the order of the question's options, the good word of a verdict first.
    pairs = zip(choices, require_probabilities(field.name, answer).values(), strict=True)
    return {number_of(choice, choices): p for choice, p in pairs}


def require_probabilities(name: str, answer: Mapping[str, float] | str) -> Mapping[str, float]:
    """The probabilities that answer a question; NoScoreError if a text says why there are none."""
    if isinstance(answer, str):
        raise NoScoreError(f"the answer to {name!r} cannot be used: {answer}")
    return answer
