"""A judge's prompt as typed questions for a decision model, and its answers as numbers.

What such a model reads has the form that DSPy gives it: an object with the instruction, the
description of the texts, the demonstrations and the texts. A rating is a `score` whose levels are
the anchors, a verdict is a `noul`, and a choice between two outputs is a `choice`. Free text before
the answer is left out, since the model writes none.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from judges.judgement import NoScoreError, quote
from judges.prompt import LETTERS, Field, Prompt, fill, neutralise, words_of
from judges.protocol import (
    DECISIONS,
    REFUSAL,
    FatalModelError,
    Message,
    Reply,
    Sampling,
    is_decision,
)
from judges.questions import number_of

# Upper bound on how far an answer's probabilities may be from a sum of 1: servers round them.
ROUNDING = 0.05
# Exceptions that JSON of another form raises.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
# A question in System One's form, and other plain data for JSON.
Question = dict[str, Any]
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


def decision_state(prompt: Prompt) -> dict[str, object]:
    """What a decision model reads beside the texts."""
    fields = enumerate(prompt.inputs, start=1)
    state: dict[str, object] = {
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


def question(field: Field) -> Question:
    """A field with choices as a question in System One's form; raises FatalModelError."""
    choices = field.options
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
    either = "|".join(re.escape(str(choice)) for choice in field.options)
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
    choices = field.options
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


def request_body(
    lm: str, state: Mapping[str, object], questions: Mapping[str, Question], inputs: object
) -> dict[str, object]:
    """The body of a request in the form that the name `lm` begins with, without the model."""
    state = {**state, "inputs": inputs}
    if lm.partition("/")[0] != DECISIONS:
        return {"state": state, "questions": questions}
    message = {"role": "user", "content": [{"type": "input_json", "data": state}]}
    openai_questions = [_openai_question(*each) for each in questions.items()]
    return {"input": [message], "questions": openai_questions}


def _openai_question(name: str, question: Question) -> Question:
    kind, text = question["type"], question["instructions"]
    criteria = question.get("criteria") or {}
    entry = {"type": kind, "name": name, "instructions": text}
    if kind == "score":
        return {**entry, "levels": [_option("label", *_level(level)) for level in criteria]}
    if kind == "choice":
        return {**entry, "choices": [_option("value", *each) for each in criteria.items()]}
    # A predicate has no descriptions of its outcomes.
    outcomes = "; ".join(f"{outcome}: {what}" for outcome, what in criteria.items())
    text = f"{text} ({outcomes})" if outcomes else text
    return {**entry, "type": "predicate", "instructions": text}


def _option(key: str, option: str, description: str | None) -> dict[str, str]:
    return {key: option} | ({"description": description} if description else {})


def _level(criterion: str) -> tuple[str, str]:
    """The label and the description of a level that is written "1: poor"; else all is its label."""
    label, _, description = criterion.partition(": ")
    return (label, description) if label.lstrip("-").isdigit() else (criterion, "")


Probability = Annotated[float, Meta(ge=0, le=1)]


class _Option(Struct):
    """An option's probability in OpenAI's form; the value of a level is its place."""

    value: str | int
    probability: Probability
    label: str = ""


class _Answer(Struct):
    type: Literal["noul", "predicate", "score", "choice"]
    noul: Probability | None = None
    probability: Probability | None = None
    probabilities: dict[str, Probability] | list[_Option] = {}


def reply_of_answers(answers: Any, questions: Mapping[str, Question]) -> Reply:
    """The reply with the checked answers of either form; a refusal where one was not answered.

    Its text is the JSON object `{question: {option: probability}}`. Answers that are of neither
    form raise one of MALFORMED.
    """
    is_openai, by_name = isinstance(answers, list), dict[str, Any]()
    for name, answer in ((a["name"], a) for a in answers) if is_openai else answers.items():
        # A list, which is no answer, stands for several answers to one question.
        by_name[name] = [answer] if name in by_name else answer
    if refusals := [name for name in questions if _is_refusal(by_name.get(name))]:
        return Reply(text=f"no answer to {', '.join(refusals)}", finish_reason=REFUSAL)
    replies = {name: _probabilities(each, by_name[name]) for name, each in questions.items()}
    return Reply(text=msgspec.json.encode(replies).decode())


def _is_refusal(answer: object) -> bool:
    return answer is None or (isinstance(answer, dict) and answer.get("type") == REFUSAL)


def _probabilities(question: Question, answer: object) -> dict[str, float] | str:
    """The probability of each option, with a sum of 1; a text says why the answer has none."""
    try:
        reply = msgspec.convert(answer, _Answer)
    except msgspec.ValidationError as error:
        return quote(str(error))
    kind = "noul" if reply.type == "predicate" else reply.type
    if kind != question["type"]:
        return f"its type is {reply.type!r}, not {question['type']!r}"
    if kind == "noul":
        p = reply.probability if reply.noul is None else reply.noul
        return "it has no probability" if p is None else {"true": p, "false": 1 - p}
    labels: dict[str, str | None] = dict.fromkeys(question["criteria"])
    if kind == "score":
        labels = {str(n): _level(level)[0] for n, level in enumerate(question["criteria"])}
    return _distribution(labels, reply.probabilities)


def _distribution(
    labels: Mapping[str, str | None], probabilities: dict[str, float] | list[_Option]
) -> dict[str, float] | str:
    """The probabilities with a sum of 1, or why they are not those of the options.

    `labels` has the options, each with its label if it is a level.
    """
    if isinstance(probabilities, list):
        if any(labels.get(str(each.value)) not in (None, each.label) for each in probabilities):
            return "its levels are not those of the question"
        probabilities = {str(each.value): each.probability for each in probabilities}
    if probabilities.keys() != labels.keys():
        return f"its options are {quote(', '.join(probabilities))}, not {', '.join(labels)}"
    total = math.fsum(probabilities.values())
    if not abs(total - 1) <= ROUNDING:
        return f"its probabilities add up to {total:.3g}"
    return {option: probabilities[option] / total for option in labels}
