"""Turn a judge's prompt into typed questions for a decision model, and answers into probabilities.

A decision model writes no text, such as a rationale: it answers typed questions with probabilities.
The input of a decision model is a JSON object in the form that DSPy uses, with the instruction, the
descriptions of the texts, the demonstrations and the texts. A rating is asked for by a question of
the type `score`, whose levels are the ratings and their anchors. The type of the question is `noul`
(yes or no) for a verdict, and `choice` for a choice between two outputs. Decision models use one of
two wire formats: System One's or OpenAI's.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta, Struct

from judges.judgement import NoScoreError, quote
from judges.prompt import A_OR_B, Field, Prompt, break_markup, demo_values, fill_slots
from judges.protocol import (
    OPENAI_DECISIONS,
    REFUSAL,
    FatalModelError,
    Message,
    Reply,
    Sampling,
    is_decision_model,
)

# The sum of an answer's probabilities may differ from 1 by this much, since servers round
# probabilities.
MAX_ROUNDING_ERROR = 0.05
# The exceptions that may be raised while JSON of an unexpected form is read.
JSON_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
# The most levels that a question of the type `score` may have.
MAX_LEVELS = 10
# The sampling parameters for a decision model, whose answers depend on no temperature and no seed.
DECISION_SAMPLING = Sampling(temperature=None, max_tokens=0)


class TypedQuestion(Struct, kw_only=True, omit_defaults=True):
    """A question to a decision model in System One's format, with its levels or options."""

    type: Literal["noul", "score", "choice"]
    instructions: str
    criteria: dict[str, object] | list[object] | None = None


class DecisionTask(Struct, kw_only=True):
    """What all requests of a judge to a decision model have in common: the system message.

    `state` has the instruction, the descriptions of the texts and the demonstrations.
    """

    state: dict[str, object]
    questions: dict[str, TypedQuestion]

    @classmethod
    def parse(cls, content: str) -> Self:
        """Read the task from a system message's content; raises ValueError if there is none."""
        return msgspec.convert(json.loads(content), cls)

    @property
    def message(self) -> Message:
        content = json.dumps(msgspec.to_builtins(self), ensure_ascii=False)
        return Message(role="system", content=content)

    def request_body(self, lm: str, texts: object) -> dict[str, object]:
        """Return a request's body, without the model's name; `lm` decides the wire format."""
        state = {**self.state, "inputs": texts}
        if lm.partition("/")[0] != OPENAI_DECISIONS:
            return {"state": state, "questions": msgspec.to_builtins(self.questions)}
        message = {"role": "user", "content": [{"type": "input_json", "data": state}]}
        questions = [_openai_question(name, question) for name, question in self.questions.items()]
        return {"input": [message], "questions": questions}


def template_for_model(lm: str, prompt: Prompt) -> list[Message]:
    """Return the messages for the model `lm`; the last message has a `{{name}}` slot for each text.

    For a decision model, the two messages are JSON: a `DecisionTask`, and the texts.
    """
    if not is_decision_model(lm):
        return prompt.template()
    questions = {field.name: typed_question(field) for field in prompt.choices}
    task = DecisionTask(state=decision_state(prompt), questions=questions)
    slots = ", ".join(f'"{field.name}": {{{{{field.name}}}}}' for field in prompt.input_fields)
    return [task.message, Message(role="user", content=f"{{{slots}}}")]


def fill_template(lm: str, template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """Fill texts into the messages of a template; raises KeyError if a text is missing."""
    encode_json = partial(json.dumps, ensure_ascii=False)
    return fill_slots(template, texts, encode_text=encode_json if is_decision_model(lm) else str)


def decision_state(prompt: Prompt) -> dict[str, object]:
    """Return the instruction, the input fields and the demos, as the input of a decision model."""
    input_lines = []
    for number, field in enumerate(prompt.input_fields, start=1):
        input_lines.append(f"{number}. `{field.name}` (str): {break_markup(field.description)}")
    state: dict[str, object] = {
        "instructions": break_markup(prompt.instruction),
        "input_fields": "\n".join(input_lines),
    }
    if prompt.demos:
        fields = (*prompt.input_fields, *prompt.choices)
        state["demos"] = [demo_values(demo, fields, break_markup) for demo in prompt.demos]
    return state


@lru_cache(maxsize=256)
def typed_question(field: Field) -> TypedQuestion:
    """Return a field as a typed question; raises FatalModelError if it has too many ratings."""
    text, meaning_by_choice = split_field_description(field)
    text = break_markup(text)
    if field.is_pairwise:
        return TypedQuestion(type="choice", instructions=text, criteria=dict.fromkeys(A_OR_B))
    criteria = []
    for choice in map(str, field.allowed_values):
        meaning = meaning_by_choice.get(choice)
        criteria.append(choice if meaning is None else f"{choice}: {meaning}")
    if field.verdict_words:
        outcomes: dict[str, object] = dict(zip(("true", "false"), criteria, strict=True))
        return TypedQuestion(type="noul", instructions=text, criteria=outcomes)
    if len(criteria) > MAX_LEVELS:
        raise FatalModelError(
            f"{field.name}: its scale has {len(criteria)} ratings, and a decision model takes at "
            f"most {MAX_LEVELS}: define the judge with fewer ratings (`scale: [1, 5]` in "
            "FILE.yaml; --scale any for labels on another scale), or ask a chat model"
        )
    return TypedQuestion(type="score", instructions=text, criteria=[*criteria])


def split_field_description(field: Field) -> tuple[str, dict[str, str]]:
    """Split a description: "how clear (1 = murky)" into "how clear" and {"1": "murky"}."""
    choice_pattern = "|".join(re.escape(str(choice)) for choice in field.allowed_values)
    text_match = re.match(rf"(.*?) \(((?:{choice_pattern}) = .*)\)\Z", field.description, re.DOTALL)
    if text_match is None:
        return field.description, {}
    text, meanings_text = text_match.groups()
    _, *choices_and_meanings = re.split(rf"(?:; |^)({choice_pattern}) = ", meanings_text)
    choices, meanings = choices_and_meanings[::2], choices_and_meanings[1::2]
    return text, dict(zip(choices, map(break_markup, meanings), strict=True))


def _openai_question(name: str, question: TypedQuestion) -> dict[str, object]:
    question_text, criteria = question.instructions, question.criteria or {}
    if isinstance(criteria, list):
        levels = [_option_json("label", *_split_level(level)) for level in criteria]
        return {"type": "score", "name": name, "instructions": question_text, "levels": levels}
    if question.type == "choice":
        choices = [_option_json("value", option, meaning) for option, meaning in criteria.items()]
        return {"type": "choice", "name": name, "instructions": question_text, "choices": choices}
    # OpenAI's predicate has no field for the meanings of true and false: the instructions say them.
    meanings_text = "; ".join(f"{outcome}: {meaning}" for outcome, meaning in criteria.items())
    if meanings_text:
        question_text = f"{question_text} ({meanings_text})"
    return {"type": "predicate", "name": name, "instructions": question_text}


def _option_json(key: str, option: str, description: object) -> dict[str, object]:
    return {key: option, "description": description} if description else {key: option}


def _split_level(criterion: object) -> tuple[str, str]:
    """Split a level such as "1: poor" into "1" and "poor"; other levels have no description."""
    level, _, description = str(criterion).partition(": ")
    return (level, description) if level.lstrip("-").isdigit() else (str(criterion), "")


Probability = Annotated[float, Meta(ge=0, le=1)]


class _OptionProbability(Struct):
    """The probability of an option in OpenAI's format; for a level, `value` is its index."""

    value: str | int
    probability: Probability
    label: str = ""


class _TypedAnswer(Struct):
    type: Literal["noul", "predicate", "score", "choice"]
    noul: Probability | None = None
    probability: Probability | None = None
    probabilities: dict[str, Probability] | list[_OptionProbability] = {}


def reply_from_answers(answers: object, question_names: Collection[str]) -> Reply:
    """Turn answers in either wire format into a Reply with the JSON object `{question: answer}`.

    If a question is not answered, the Reply is a refusal. Malformed answers raise one of
    JSON_ERRORS.
    """
    if isinstance(answers, list):  # OpenAI's format
        n_answers, answers = len(answers), {answer["name"]: answer for answer in answers}
        if len(answers) < n_answers:
            raise ValueError("two answers have the same name")
    if not isinstance(answers, dict):
        raise TypeError(f"{type(answers).__name__} is neither a list nor an object of answers")
    for name in question_names:
        answer = answers.get(name)
        if answer is None or (isinstance(answer, dict) and answer.get("type") == REFUSAL):
            return Reply(text=f"no answer to {name}", finish_reason=REFUSAL)
    return Reply(text=json.dumps({name: answers[name] for name in question_names}))


def read_option_probabilities(
    questions: Mapping[str, TypedQuestion], reply: Reply
) -> dict[str, dict[str, float]]:
    """Read each option's probability, by question; raises NoScoreError if an answer is unusable."""
    answers, probabilities = json.loads(reply.text), {}
    for name, question in questions.items():
        try:
            answer = msgspec.convert(answers.get(name), _TypedAnswer)
            probabilities[name] = _option_probabilities(question, answer)
        except ValueError as error:
            reason = quote(str(error))
            raise NoScoreError(f"the answer to {name!r} cannot be used: {reason}") from None
    return probabilities


def _option_probabilities(question: TypedQuestion, answer: _TypedAnswer) -> dict[str, float]:
    """Return each option's probability; raises ValueError unless the answer fits the question."""
    if answer.type.replace("predicate", "noul") != question.type:
        raise ValueError(f"its type is {answer.type!r}, not {question.type!r}")
    if question.type == "noul":
        p_true = answer.probability if answer.noul is None else answer.noul
        if p_true is None:
            raise ValueError("it has no probability")
        return {"true": p_true, "false": 1 - p_true}
    label_by_option, probabilities = _option_labels(question), answer.probabilities
    if isinstance(probabilities, list):
        for option in probabilities:
            if label_by_option.get(str(option.value), option.label) != option.label:
                raise ValueError("its levels are not those of the question")
        probabilities = {str(option.value): option.probability for option in probabilities}
    if probabilities.keys() != label_by_option.keys():
        expected_options = ", ".join(label_by_option)
        raise ValueError(f"its options are {', '.join(probabilities)}, not {expected_options}")
    probability_sum = math.fsum(probabilities.values())
    if not abs(probability_sum - 1) <= MAX_ROUNDING_ERROR:
        raise ValueError(f"its probabilities add up to {probability_sum:.3g}")
    return {option: probabilities[option] / probability_sum for option in label_by_option}


def _option_labels(question: TypedQuestion) -> dict[str, str]:
    """Return each option's label in OpenAI's format: the name of a level, "" for other options."""
    options = map(str, question.criteria or ())
    if question.type == "choice":
        return dict.fromkeys(options, "")
    return {str(index): _split_level(level)[0] for index, level in enumerate(options)}
