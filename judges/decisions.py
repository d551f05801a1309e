"""Turn a judge's prompt into typed questions for a decision model, and answers into probabilities.

A decision model writes no text: it answers typed questions with probabilities. It reads a JSON
object in the form that DSPy uses, with the instruction, the descriptions of the texts, the
demonstrations and the texts. The type of a question depends on the judge's answer: it is `score`
for a rating, with the ratings and their anchors as levels; `noul` (yes or no) for a verdict; and
`choice` for a choice between two outputs. A decision model is not asked for free text, such as a
rationale.
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

# The sum of an answer's probabilities may differ from 1 by this much, since servers round
# probabilities.
ROUNDING = 0.05
# The exceptions that may be raised while JSON of an unexpected form is read.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
# The most levels that a question of the type `score` may have.
MAX_LEVELS = 10
# The sampling parameters for a decision model, whose answers depend on no temperature and no seed.
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
    """The messages for the model `lm`; the last message has a `{{name}}` slot for each text.

    For a decision model, the messages' contents are two JSON objects: the instruction with the
    questions, and the texts. Raises FatalModelError if a scale has more than MAX_LEVELS ratings.
    """
    if not is_decision(lm):
        return prompt.template()
    questions = {field.name: typed_question(field) for field in prompt.choices}
    task = DecisionTask(state=decision_state(prompt), questions=questions)
    slots = ", ".join(f'"{field.name}": {{{{{field.name}}}}}' for field in prompt.inputs)
    return [task.message, Message(role="user", content=f"{{{slots}}}")]


def fill_template_for(
    lm: str, template: Sequence[Message], texts: Mapping[str, str]
) -> list[Message]:
    """A template's messages with the texts filled in; raises KeyError if a text is missing."""
    encode_json = partial(json.dumps, ensure_ascii=False)
    return fill_slots(template, texts, encode=encode_json if is_decision(lm) else str)


def decision_state(prompt: Prompt) -> dict[str, object]:
    """What a decision model reads besides the texts and questions: instruction, fields, demos."""
    numbered_fields = enumerate(prompt.inputs, start=1)
    state: dict[str, object] = {
        "instructions": neutralise(prompt.instruction),
        "input_fields": "\n".join(
            f"{n}. `{field.name}` (str): {neutralise(field.description)}"
            for n, field in numbered_fields
        ),
    }
    if prompt.demos:
        names = [field.name for field in (*prompt.inputs, *prompt.choices)]
        state["demos"] = [
            {n: neutralise(v) if isinstance(v := demo[n], str) else v for n in names}
            for demo in prompt.demos
        ]
    return state


def typed_question(field: Field) -> Question:
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
    choice_pattern = "|".join(re.escape(str(choice)) for choice in field.options)
    description_match = re.match(
        rf"(.*?) \(((?:{choice_pattern}) = .*)\)\Z", field.description, re.DOTALL
    )
    if description_match is None:
        return field.description, {}
    _, *choices_and_meanings = re.split(rf"(?:; |^)({choice_pattern}) = ", description_match[2])
    pairs = zip(choices_and_meanings[::2], choices_and_meanings[1::2], strict=True)
    return description_match[1], {choice: neutralise(meaning) for choice, meaning in pairs}


def read_probabilities(field: Field, answer: Mapping[str, float] | str) -> dict[float, float]:
    """The probability of each choice of a field, by the choice's number (see `number_of`).

    `answer` has the probability of each option, or is a string that says why there are none.
    Raises NoScoreError if the answer cannot be used.
    """
    choices = field.options
    if not isinstance(answer, str) and len(answer) != len(choices):
        answer = "its options are not those of the question"
    # The choices and the answer's options have the same order: a verdict's good word comes first.
    pairs = zip(choices, require_probabilities(field.name, answer).values(), strict=True)
    return {number_of(choice, choices): p for choice, p in pairs}


def require_probabilities(name: str, answer: Mapping[str, float] | str) -> Mapping[str, float]:
    """The answer to the question `name`, if it has probabilities.

    Raises NoScoreError if `answer` is a string, which says why there are no probabilities.
    """
    if isinstance(answer, str):
        raise NoScoreError(f"the answer to {name!r} cannot be used: {answer}")
    return answer


def _openai_question(name: str, question: Question) -> dict[str, object]:
    text, criteria = question.instructions, question.criteria or {}
    entry = {"type": question.type, "name": name, "instructions": text}
    if isinstance(criteria, list):
        return {
            **entry,
            "levels": [_option_entry("label", *_split_level(level)) for level in criteria],
        }
    if question.type == "choice":
        return {**entry, "choices": [_option_entry("value", *each) for each in criteria.items()]}
    # OpenAI's predicate has no field for what true and false mean, so the instructions say it.
    outcome_meanings = "; ".join(f"{outcome}: {meaning}" for outcome, meaning in criteria.items())
    text = f"{text} ({outcome_meanings})" if outcome_meanings else text
    return {**entry, "type": "predicate", "instructions": text}


def _option_entry(key: str, option: str, description: object) -> dict[str, object]:
    return {key: option} | ({"description": description} if description else {})


def _split_level(criterion: object) -> tuple[str, str]:
    """Split a level such as "1: poor" into label and description; another text is only a label."""
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
    """A Reply from a decision model's answers, which are in System One's or OpenAI's form.

    The text of the Reply is the JSON object `{question: {option: probability}}`. If a question is
    not answered, the Reply is a refusal. Answers in another form raise an exception of MALFORMED.
    """
    if not isinstance(answers, list | dict):
        raise TypeError(f"{type(answers).__name__} is neither a list nor an object of answers")
    answer_by_name: dict[str, object] = {}
    named = [(a["name"], a) for a in answers] if isinstance(answers, list) else answers.items()
    for name, answer in named:
        # If a question has several answers, they become a list, which `_probabilities` rejects.
        answer_by_name[name] = [answer] if name in answer_by_name else answer
    if unanswered := [name for name in questions if _is_refusal(answer_by_name.get(name))]:
        return Reply(text=f"no answer to {', '.join(unanswered)}", finish_reason=REFUSAL)
    probabilities = {
        name: _probabilities(each, answer_by_name[name]) for name, each in questions.items()
    }
    return Reply(text=msgspec.json.encode(probabilities).decode())


def _is_refusal(answer: object) -> bool:
    return answer is None or (isinstance(answer, dict) and answer.get("type") == REFUSAL)


def _probabilities(question: Question, answer: object) -> dict[str, float] | str:
    """The probability of each option, with the sum 1; or a string that says what is wrong."""
    try:
        typed_answer = msgspec.convert(answer, _Answer)
    except msgspec.ValidationError as error:
        return quote(str(error))
    question_type = "noul" if typed_answer.type == "predicate" else typed_answer.type
    if question_type != question.type:
        return f"its type is {typed_answer.type!r}, not {question.type!r}"
    if question_type == "noul":
        p_true = typed_answer.probability if typed_answer.noul is None else typed_answer.noul
        return "it has no probability" if p_true is None else {"true": p_true, "false": 1 - p_true}
    criteria = question.criteria or {}
    option_labels: dict[str, str | None] = dict.fromkeys(map(str, criteria))
    if question_type == "score":
        option_labels = {str(n): _split_level(level)[0] for n, level in enumerate(criteria)}
    return _distribution(option_labels, typed_answer.probabilities)


def _distribution(
    labels: Mapping[str, str | None], probabilities: dict[str, float] | list[_Option]
) -> dict[str, float] | str:
    """The probability of each option, with the sum 1; or a string that says what is wrong.

    `labels` has the question's options as keys. The value is the label if the option is a level,
    else None.
    """
    if isinstance(probabilities, list):
        if any(labels.get(str(entry.value)) not in (None, entry.label) for entry in probabilities):
            return "its levels are not those of the question"
        probabilities = {str(entry.value): entry.probability for entry in probabilities}
    if probabilities.keys() != labels.keys():
        return f"its options are {quote(', '.join(probabilities))}, not {', '.join(labels)}"
    total = math.fsum(probabilities.values())
    if not abs(total - 1) <= ROUNDING:
        return f"its probabilities add up to {total:.3g}"
    return {option: probabilities[option] / total for option in labels}
