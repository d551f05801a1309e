"""Ask decision models over HTTP: models that answer typed questions with probabilities, not text.

Two protocols are in use: System One's `POST /v1/systemone`, which several engines and providers
serve, and OpenAI's `POST /v1/decisions`. For both protocols, a request has two messages here:

- The system message is the JSON object `{"state": {...}, "questions": {...}}`, which is the same
  for every row. The questions have the form that System One defines.
- The user message is a JSON object with each text by its name. The object is sent as the field
  `inputs` of the state.

The text of a reply is the JSON object `{question: answer}`, whose answers `judges.decisions` reads.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from judges.client.openai import (
    EndpointModel,
    malformed_answer,
    read_error,
    read_retry_after,
    read_usage,
)
from judges.decisions import (
    DECISION_SAMPLING,
    JSON_ERRORS,
    DecisionTask,
    TypedQuestion,
    reply_from_answers,
)
from judges.protocol import SYSTEM_ONE, Completion, FatalModelError, Message, Sampling


class DecisionModel(EndpointModel):
    """A model that gives probabilities instead of text: "systemone/NAME" or "decisions/NAME"."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one request; raises ModelError if there is no usable answer."""
        try:
            questions, body_start, body_end = _body_parts(self.name, messages[0]["content"])
            body_bytes = f"{body_start}{messages[-1]['content']}{body_end}".encode()
        except JSON_ERRORS:
            raise FatalModelError(
                f"{self.name}: a decision model answers a judge's typed questions, and these "
                "messages contain none; name a chat model"
            ) from None
        url = self._url
        status, headers, answer = await self._post(body_bytes)
        if 200 <= status < 300:
            return self._read_answers(answer, questions, messages)
        # Some servers have System One's protocol at the path /v1/decisions.
        if status == 404 and b"model" not in answer and url.endswith(f"/{SYSTEM_ONE}"):
            self._url = url.removesuffix(SYSTEM_ONE) + "decisions"
            return await self.complete(messages, sampling)
        raise read_error(self, status, read_retry_after(headers), answer)

    def _read_answers(
        self, answer: bytes, questions: Mapping[str, TypedQuestion], messages: Sequence[Message]
    ) -> Completion:
        """Read the answers in a response body; raises TransientError if there are no answers."""
        try:
            # json, unlike msgspec, accepts NaN; so a NaN makes only one answer unusable, not all.
            body = json.loads(answer.decode("utf-8", "replace"))
            model, token_counts = body.get("model"), body.get("usage")
            reply = reply_from_answers(body["answers"], questions)
        except JSON_ERRORS:
            raise malformed_answer(answer, self.redactor) from None
        if isinstance(token_counts, dict):
            token_counts = {
                "prompt_tokens": token_counts.get("input_tokens") or 0,
                "completion_tokens": token_counts.get("output_tokens") or 0,
                "prompt_tokens_details": token_counts.get("input_tokens_details"),
            }
        usage = read_usage(token_counts, messages, (), DECISION_SAMPLING)
        return self.redactor.completion([reply], model, usage)


@lru_cache(maxsize=16)
def _body_parts(name: str, content: str) -> tuple[dict[str, TypedQuestion], str, str]:
    """Return the questions of a system message, and the request's JSON around its `inputs`."""
    task, model = DecisionTask.parse(content), name.partition("/")[2]
    body = {"model": model, **task.body(name, None)}
    # No text can contain '"inputs": null', since JSON escapes the quotation marks in a text.
    body_start, _, body_end = json.dumps(body, ensure_ascii=False).partition('"inputs": null')
    return task.questions, f'{body_start}"inputs": ', body_end
