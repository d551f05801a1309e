"""Decision models over HTTP: typed questions in, the probability of every answer out.

They write no text. Two forms are in use: System One's `POST /v1/systemone`, which several engines
and providers serve, and OpenAI's `POST /v1/decisions`. A request to either is two messages here:

- the system message is the JSON object `{"state": {...}, "questions": {...}}`, which is the same
  for every row; a question has the form that System One gives it;
- the user message is the JSON object of the texts by name, the state's `inputs`.

A reply's text is the JSON object `{question: {option: probability}}`. The options of a yes-or-no
question (`noul`) are true and false, and those of a `score` are the places of its levels, from 0.
A question whose answer cannot be used has the reason, a text, in place of the probabilities.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from judges.client.openai import (
    LONGEST_WORD,
    EndpointModel,
    malformed,
    read_error,
    read_usage,
    retry_after_of,
)
from judges.decisions import DECISION_SAMPLING
from judges.judgement import quote
from judges.protocol import (
    DECISIONS,
    REFUSAL,
    SYSTEM_ONE,
    Completion,
    FatalModelError,
    Message,
    Reply,
    Sampling,
)

# Upper bound on how far an answer's probabilities may be from a sum of 1: servers round them.
ROUNDING = 0.05
# Exceptions that JSON of another form raises.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
Question = Mapping[str, Any]


class DecisionModel(EndpointModel):
    """A decision model at one address; its name begins with the form, as in "systemone/NAME"."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        try:
            questions, before, after = _frame(self.name, messages[0]["content"])
            data = f"{before}{messages[-1]['content']}{after}".encode()
        except MALFORMED:
            raise FatalModelError(
                f"{self.name}: a decision model answers a judge's questions, and these messages "
                "are not of that form; name a chat model"
            ) from None
        url = self._url
        status, headers, answer = await self._post(data)
        if 200 <= status < 300:
            return self._read(answer, questions, messages)
        is_moved = status == 404 and url.endswith(f"/{SYSTEM_ONE}") and b"model" not in answer
        if is_moved:  # some servers answer the same form at another path
            self._url = url.removesuffix(SYSTEM_ONE) + "decisions"
            return await self.complete(messages, sampling)
        raise read_error(self, status, retry_after_of(headers), answer)

    def _read(
        self, answer: bytes, questions: Mapping[str, Question], messages: Sequence[Message]
    ) -> Completion:
        """The answers and token counts, without keys; TransientError if there are no answers."""
        try:
            # Unlike msgspec it reads NaN, which then spoils one answer alone.
            body = json.loads(answer.decode("utf-8", "replace"))
            answers, model, counts = body["answers"], body.get("model"), body.get("usage")
            if isinstance(answers, list):
                answers = _by_name(answers)
            reply = _reply({name: answers.get(name) for name in questions}, questions)
        except MALFORMED:
            raise malformed(answer, self.secrets) from None
        if isinstance(counts, dict):
            counts = {
                "prompt_tokens": counts.get("input_tokens") or 0,
                "completion_tokens": counts.get("output_tokens") or 0,
                "prompt_tokens_details": counts.get("input_tokens_details"),
            }
        usage = read_usage(counts, messages, (), DECISION_SAMPLING)
        model = self.secrets.redact(str(model or ""))[:LONGEST_WORD]
        counts = usage.tokens_in, usage.tokens_out, usage.cache_reads, usage.cache_writes
        return self.secrets.clean(Completion(*counts, replies=(reply,), model=model))


@lru_cache(maxsize=16)
def _frame(name: str, content: str) -> tuple[dict[str, Question], str, str]:
    """The questions, and a request's JSON before and after its texts.

    It is made once for all rows, since demonstrations may be whole documents.
    """
    form, _, model = name.partition("/")
    part = json.loads(content)
    questions: dict[str, Question] = part["questions"]
    state = {**part["state"], "inputs": None}
    body: dict[str, Any] = {"model": model, "state": state, "questions": questions}
    if form == DECISIONS:
        data = {"type": "input_json", "data": body.pop("state")}
        body["input"] = [{"role": "user", "content": [data]}]
        body["questions"] = [_openai_question(*each) for each in questions.items()]
    # No text holds the place of the inputs, since JSON escapes a text's quotes.
    before, _, after = json.dumps(body, ensure_ascii=False).partition('"inputs": null')
    return questions, f'{before}"inputs": ', after


def _by_name(answers: Sequence[Any]) -> dict[str, Any]:
    """OpenAI's answers by their question's name; a list, which is no answer, if it has several."""
    named: dict[str, list[Any]] = {}
    for answer in answers:
        named.setdefault(answer["name"], []).append(answer)
    return {name: each[0] if len(each) == 1 else each for name, each in named.items()}


def _openai_question(name: str, question: Question) -> dict[str, Any]:
    """The question in OpenAI's form."""
    kind, text = question["type"], question["instructions"]
    criteria = question.get("criteria") or {}
    entry = {"type": kind, "name": name, "instructions": text}
    if kind == "score":
        return {**entry, "levels": [_described("label", *_level(level)) for level in criteria]}
    if kind == "choice":
        return {**entry, "choices": [_described("value", *each) for each in criteria.items()]}
    # A predicate has no descriptions of its outcomes.
    outcomes = "; ".join(f"{outcome}: {what}" for outcome, what in criteria.items())
    text = f"{text} ({outcomes})" if outcomes else text
    return {**entry, "type": "predicate", "instructions": text}


def _described(key: str, option: str, description: str | None) -> dict[str, str]:
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
    """The answer to a question in either form."""

    type: Literal["noul", "predicate", "score", "choice"]
    noul: Probability | None = None
    probability: Probability | None = None
    probabilities: dict[str, Probability] | list[_Option] = {}


def _reply(answers: Mapping[str, Any], questions: Mapping[str, Question]) -> Reply:
    """The reply with the checked answers; a refusal where a question was not answered."""
    if refused := [name for name, each in answers.items() if _is_refusal(each)]:
        return Reply(text=f"no answer to {', '.join(refused)}", finish_reason=REFUSAL)
    checked = {name: _probabilities(questions[name], each) for name, each in answers.items()}
    return Reply(text=msgspec.json.encode(checked).decode())


def _is_refusal(answer: object) -> bool:
    return answer is None or (isinstance(answer, dict) and answer.get("type") == REFUSAL)


def _probabilities(question: Question, answer: object) -> dict[str, float] | str:
    """The probability of each option, with a sum of 1; a text says why the answer has none."""
    try:
        read = msgspec.convert(answer, _Answer)
    except msgspec.ValidationError as error:
        return quote(str(error))
    kind = "noul" if read.type == "predicate" else read.type
    if kind != question["type"]:
        return f"its type is {read.type!r}, not {question['type']!r}"
    if kind == "noul":
        p = read.probability if read.noul is None else read.noul
        return "it has no probability" if p is None else {"true": p, "false": 1 - p}
    labels: dict[str, str | None] = dict.fromkeys(question["criteria"])
    if kind == "score":
        labels = {str(n): _level(level)[0] for n, level in enumerate(question["criteria"])}
    return _distribution(labels, read.probabilities)


def _distribution(
    labels: Mapping[str, str | None], given: dict[str, float] | list[_Option]
) -> dict[str, float] | str:
    """The given probabilities with a sum of 1, or why they are not those of the options.

    `labels` has the options, each with its label if it is a level.
    """
    if isinstance(given, list):
        if any(labels.get(str(each.value)) not in (None, each.label) for each in given):
            return "its levels are not those of the question"
        given = {str(each.value): each.probability for each in given}
    if given.keys() != labels.keys():
        return f"its options are {quote(', '.join(given))}, not {', '.join(labels)}"
    total = math.fsum(given.values())
    if not abs(total - 1) <= ROUNDING:
        return f"its probabilities add up to {total:.3g}"
    return {option: given[option] / total for option in labels}
