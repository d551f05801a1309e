"""A judge's prompt as typed questions for a decision model, and its answers as numbers.

What such a model reads has the form that DSPy gives it: an object with the instruction, the
description of the texts, the demonstrations and the texts. A rating is a `score` whose levels are
the anchors, a verdict is a `noul`, and a choice between two outputs is a `choice`. Free text before
the answer is left out, since the model writes none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from judges.judgement import NoScoreError
from judges.prompt import LETTERS, Field, Prompt, Value, fill, neutralise, words_of
from judges.protocol import FatalModelError, Message, Reply
from judges.questions import number_of

# The most levels of a `score`.
MOST_LEVELS = 10


def decision_template(prompt: Prompt) -> list[Message]:
    """The two messages of a request, in JSON, with `{{name}}` slots for the texts in the last one.

    Raises FatalModelError for a scale that a decision model cannot answer on.
    """
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
    head = {"state": state, "questions": {each.name: question(each) for each in prompt.choices}}
    slots = ", ".join(f'"{field.name}": {{{{{field.name}}}}}' for field in prompt.inputs)
    return [
        Message(role="system", content=json.dumps(head, ensure_ascii=False)),
        Message(role="user", content=f"{{{slots}}}"),
    ]


def question(field: Field) -> dict[str, Any]:
    """A field with choices as a question in System One's form; raises FatalModelError."""
    choices = field.choices or ()
    text, meanings = split_meanings(field)
    text = neutralise(text)
    if choices == LETTERS:
        return {"type": "choice", "instructions": text, "criteria": dict.fromkeys(LETTERS)}
    if words := words_of(choices):
        criteria = {
            outcome: f"{word}: {meanings[word]}" if word in meanings else str(word)
            for outcome, word in zip(("true", "false"), words, strict=True)
        }
        return {"type": "noul", "instructions": text, "criteria": criteria}
    if len(choices) > MOST_LEVELS:
        raise FatalModelError(
            f"{field.name}: a scale of {len(choices)} ratings, and a decision model tells at most "
            f"{MOST_LEVELS} apart: define the judge with fewer ratings (`scale: [1, 5]` in "
            "FILE.yaml), or ask a chat model"
        )
    levels = [
        f"{rating}: {meanings[rating]}" if rating in meanings else str(rating) for rating in choices
    ]
    return {"type": "score", "instructions": text, "criteria": levels}


def split_meanings(field: Field) -> tuple[str, dict[Value, str]]:
    """A field's description without the meanings of its choices, and these by choice."""
    choices = {str(choice): choice for choice in field.choices or ()}
    either = "|".join(map(re.escape, choices))
    match = re.match(rf"(.*?) \(((?:{either}) = .*)\)\Z", field.description, re.DOTALL)
    if match is None:
        return field.description, {}
    _, *parts = re.split(rf"(?:; |^)({either}) = ", match[2])
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return match[1], {choices[choice]: neutralise(meaning) for choice, meaning in pairs}


def fill_decision(template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """The messages with the texts as JSON strings; KeyError names a text that is missing."""
    return fill(template, texts, encode=lambda text: json.dumps(text, ensure_ascii=False))


def read_probabilities(prompt: Prompt, reply: Reply) -> dict[str, dict[float, float]]:
    """The probability of each answer's number (see `number_of`), by the prompt's choices.

    Raises NoScoreError where an answer cannot be used.
    """
    answers, read = json.loads(reply.text), {}
    for field in prompt.choices:
        answer = answers.get(field.name, "it was not asked")
        if not isinstance(answer, str) and len(answer) != len(field.choices or ()):
            answer = "it has other options"
        if isinstance(answer, str):
            raise NoScoreError(f"the answer to {field.name!r} cannot be used: {answer}")
        # In the order of the question's options, the good word of a verdict first.
        read[field.name] = dict(zip(_numbers(field.choices or ()), answer.values(), strict=True))
    return read


@lru_cache(maxsize=64)
def _numbers(choices: tuple[Value, ...]) -> tuple[float, ...]:
    return tuple(number_of(choice, choices) for choice in choices)
