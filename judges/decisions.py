"""Turn a judge's prompt into typed questions for a decision model, and its answers into numbers.

A decision model writes no text: it answers typed questions with probabilities. It reads a JSON
object in the form that DSPy uses, with the instruction, the descriptions of the texts, the
demonstrations and the texts. A rating is asked as a question of the type `score`, whose levels are
the anchors, a verdict as a `noul` (yes or no), and a choice between two outputs as a `choice`. The
judge's free-text fields, such as the rationale, are not asked for.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta, Struct

from judges.judgement import NoScoreError, quote
from judges.prompt import LETTERS, Field, Prompt, fill_slots, neutralise, words_of
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

# The sum of an answer's probabilities may differ from 1 by this much, since servers round them.
ROUNDING = 0.05
# The exceptions that are raised when JSON of an unexpected form is read.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
# The most levels that a question of the type `score` may have.
MAX_LEVELS = 10
# The answers of a decision model depend neither on a temperature nor on a seed.
DECISION_SAMPLING = Sampling(temperature=None, max_tokens=0)


class Question(Struct, kw_only=True, omit_defaults=True):
    """A question as System One's protocol has it; the criteria of a score are its levels."""

    type: Literal["noul", "score", "choice"]
    instructions: str
    criteria: dict[str, object] | list[object] | None = None


class DecisionTask(Struct, kw_only=True):
    """What is the same in all requests to a decision model, which their system message holds."""

    state: dict[str, object]
    questions: dict[str, Question]

    @classmethod
    def of(cls, content: str) -> Self:
        """The task in the content of a system message; raises ValueError if there is none."""
        return msgspec.convert(json.loads(content), cls)

    @property
    def message(self) -> Message:
        content = json.dumps(msgspec.to_builtins(self), ensure_ascii=False)
        return Message(role="system", content=content)

    def body(self, lm: str, inputs: object) -> dict[str, object]:
        """The body of a request without the model's name; `lm` begins with the protocol's name."""
        state = {**self.state, "inputs": inputs}
        if lm.partition("/")[0] != DECISIONS:
            return {"state": state, "questions": msgspec.to_builtins(self.questions)}
        message = {"role": "user", "content": [{"type": "input_json", "data": state}]}
        openai_questions = [_openai_question(*each) for each in self.questions.items()]
        return {"input": [message], "questions": openai_questions}


def template_for(lm: str, prompt: Prompt) -> list[Message]:
    """The messages for the model `lm`; the last one has a `{{name}}` slot for each text.

    For a decision model, these are two JSON objects: the instruction with the questions, and the
    texts. Raises FatalModelError if a scale has more ratings than such a model can answer on.
    """
    if not is_decision(lm):
        return prompt.template()
    questions = {field.name: question(field) for field in prompt.choices}
    task = DecisionTask(state=decision_state(prompt), questions=questions)
    slots = ", ".join(f'"{field.name}": {{{{{field.name}}}}}' for field in prompt.inputs)
    return [task.message, Message(role="user", content=f"{{{slots}}}")]


def fill_for(lm: str, template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """The messages of `template_for` with the texts filled in; KeyError names a missing text."""
    as_json = partial(json.dumps, ensure_ascii=False)
    return fill_slots(template, texts, encode=as_json if is_decision(lm) else str)


def decision_state(prompt: Prompt) -> dict[str, object]:
    """What a decision model reads in addition to the texts: instruction, fields and demos."""
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
    """A field with choices as a question in System One's form.

    Raises FatalModelError if the field has too many ratings.
    """
    choices = field.options
    text, meanings = split_meanings(field)
    text = neutralise(text)
    if choices == LETTERS:
        return Question(type="choice", instructions=text, criteria=dict.fromkeys(LETTERS))
    names = map(str, choices)
    options = [f"{name}: {meanings[name]}" if name in meanings else name for name in names]
    if words_of(choices):
        return Question(
            type="noul",
            instructions=text,
            criteria=dict(zip(("true", "false"), options, strict=True)),
        )
    if len(choices) > MAX_LEVELS:
        raise FatalModelError(
            f"{field.name}: its scale has {len(choices)} ratings, and a decision model takes at "
            f"most {MAX_LEVELS}: define the judge with fewer ratings (`scale: [1, 5]` in "
            "FILE.yaml; --scale any for labels on another scale), or ask a chat model"
        )
    return Question(type="score", instructions=text, criteria=[*options])


def split_meanings(field: Field) -> tuple[str, dict[str, str]]:
    """Split a field's description into its text and the meaning of each choice.

    For "how clear it is (1 = unclear; 5 = clear)" the meanings are {"1": "unclear", "5": "clear"}.
    """
    choices = "|".join(re.escape(str(choice)) for choice in field.options)
    match = re.match(rf"(.*?) \(((?:{choices}) = .*)\)\Z", field.description, re.DOTALL)
    if match is None:
        return field.description, {}
    _, *parts = re.split(rf"(?:; |^)({choices}) = ", match[2])
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return match[1], {choice: neutralise(meaning) for choice, meaning in pairs}


def read_probabilities(field: Field, answer: Mapping[str, float] | str) -> dict[float, float]:
    """The probability of each choice of a field, by the choice's number (see `number_of`).

    `answer` has the probabilities by option, or is the reason why there are none. Raises
    NoScoreError if the answer cannot be used.
    """
    choices = field.options
    if not isinstance(answer, str) and len(answer) != len(choices):
        answer = "it has other options"
    # The choices and the answer's options have the same order: a verdict's good word comes first.
    pairs = zip(choices, require_probabilities(field.name, answer).values(), strict=True)
    return {number_of(choice, choices): p for choice, p in pairs}


def require_probabilities(name: str, answer: Mapping[str, float] | str) -> Mapping[str, float]:
    """The probabilities that answer the question `name`.

    Raises NoScoreError if `answer` is a text, which says why there are none.
    """
    if isinstance(answer, str):
        raise NoScoreError(f"the answer to {name!r} cannot be used: {answer}")
    return answer


def _openai_question(name: str, question: Question) -> dict[str, object]:
    text, criteria = question.instructions, question.criteria or {}
    entry = {"type": question.type, "name": name, "instructions": text}
    if isinstance(criteria, list):
        return {**entry, "levels": [_option("label", *_level(level)) for level in criteria]}
    if question.type == "choice":
        return {**entry, "choices": [_option("value", *each) for each in criteria.items()]}
    # OpenAI's predicate has no field for what true and false mean, so the instructions say it.
    outcomes = "; ".join(f"{outcome}: {meaning}" for outcome, meaning in criteria.items())
    text = f"{text} ({outcomes})" if outcomes else text
    return {**entry, "type": "predicate", "instructions": text}


def _option(key: str, option: str, description: object) -> dict[str, object]:
    return {key: option} | ({"description": description} if description else {})


def _level(criterion: object) -> tuple[str, str]:
    """The label and description of a level such as "1: poor"; other texts are a label alone."""
    label, _, description = str(criterion).partition(": ")
    return (label, description) if label.lstrip("-").isdigit() else (str(criterion), "")


Probability = Annotated[float, Meta(ge=0, le=1)]


class _Option(Struct):
    """The probability of an option in OpenAI's form; for a level, `value` is its index."""

    value: str | int
    probability: Probability
    label: str = ""


class _Answer(Struct):
    type: Literal["noul", "predicate", "score", "choice"]
    noul: Probability | None = None
    probability: Probability | None = None
    probabilities: dict[str, Probability] | list[_Option] = {}


def reply_of_answers(answers: object, questions: Mapping[str, Question]) -> Reply:
    """The reply that holds a decision model's answers, in System One's or OpenAI's form.

    Its text is the JSON object `{question: {option: probability}}`. If a question is not answered,
    the reply is a refusal. Answers in neither form raise one of the exceptions in MALFORMED.
    """
    if not isinstance(answers, list | dict):
        raise TypeError(f"{type(answers).__name__} is neither a list nor an object of answers")
    by_name: dict[str, object] = {}
    named = [(a["name"], a) for a in answers] if isinstance(answers, list) else answers.items()
    for name, answer in named:
        # Several answers to one question become a list, which is then refused as an answer.
        by_name[name] = [answer] if name in by_name else answer
    if refusals := [name for name in questions if _is_refusal(by_name.get(name))]:
        return Reply(text=f"no answer to {', '.join(refusals)}", finish_reason=REFUSAL)
    replies = {name: _probabilities(each, by_name[name]) for name, each in questions.items()}
    return Reply(text=msgspec.json.encode(replies).decode())


def _is_refusal(answer: object) -> bool:
    return answer is None or (isinstance(answer, dict) and answer.get("type") == REFUSAL)


def _probabilities(question: Question, answer: object) -> dict[str, float] | str:
    """The probability of each option, normalised to a sum of 1; or what is wrong, as a text."""
    try:
        reply = msgspec.convert(answer, _Answer)
    except msgspec.ValidationError as error:
        return quote(str(error))
    kind = "noul" if reply.type == "predicate" else reply.type
    if kind != question.type:
        return f"its type is {reply.type!r}, not {question.type!r}"
    if kind == "noul":
        p = reply.probability if reply.noul is None else reply.noul
        return "it has no probability" if p is None else {"true": p, "false": 1 - p}
    criteria = question.criteria or {}
    labels: dict[str, str | None] = dict.fromkeys(map(str, criteria))
    if kind == "score":
        labels = {str(n): _level(level)[0] for n, level in enumerate(criteria)}
    return _distribution(labels, reply.probabilities)


def _distribution(
    labels: Mapping[str, str | None], probabilities: dict[str, float] | list[_Option]
) -> dict[str, float] | str:
    """The probability of each option, normalised to a sum of 1, or a text that says what is wrong.

    `labels` has the question's options as keys; the value is the label of a level, else None.
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
