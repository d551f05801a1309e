"""Ask decision models over HTTP: models that answer typed questions with probabilities, not text.

Two protocols are in use: System One's `POST /v1/systemone`, which several engines and providers
serve, and OpenAI's `POST /v1/decisions`. For both protocols, a `Request` has two messages:

- The system message is the JSON object `{"state": {...}, "questions": {...}}`, the same for every
  row. The questions have the form that System One defines.
- The user message is a JSON object that maps the name of each text to the text. The request has
  this object as the field `inputs` of the state.

The text of a reply is the JSON object `{question: answer}`. The module `judges.decisions` reads it.
"""

import json
from collections.abc import Sequence
from functools import lru_cache

from judges.client.openai import EndpointModel, read_retry_after, read_usage
from judges.decisions import DECISION_SAMPLING, JSON_ERRORS, DecisionTask, reply_from_answers
from judges.protocol import SYSTEM_ONE, Completion, FatalModelError, Message, Sampling

_parse_task = lru_cache(maxsize=16)(DecisionTask.parse)


class DecisionModel(EndpointModel):
    """A model that gives probabilities instead of text: "systemone/NAME" or "decisions/NAME"."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        try:
            task = _parse_task(messages[0]["content"])
            request_body = task.request_body(self.name, json.loads(messages[-1]["content"]))
            request_body["model"] = self.name.partition("/")[2]
            request_json = json.dumps(request_body, ensure_ascii=False).encode()
        except JSON_ERRORS:
            raise FatalModelError(
                f"{self.name}: a decision model answers a judge's typed questions, and these "
                "messages contain none; name a chat model"
            ) from None
        url = self._url
        status, headers, response_body = await self._post(request_json)
        if 200 <= status < 300:
            return self._read_answers(response_body, task, messages)
        # Some servers have System One's protocol at the path /v1/decisions.
        if status == 404 and b"model" not in response_body and url.endswith(f"/{SYSTEM_ONE}"):
            self._url = url.removesuffix(SYSTEM_ONE) + "decisions"
            return await self.complete(messages, sampling)
        raise self.read_error(status, read_retry_after(headers), response_body)

    def _read_answers(
        self, response_body: bytes, task: DecisionTask, messages: Sequence[Message]
    ) -> Completion:
        """Read the answers in a response body; raises TransientError if there are no answers."""
        try:
            # json accepts NaN, and msgspec does not. A NaN must make only its own answer unusable.
            response = json.loads(response_body.decode("utf-8", "replace"))
            model_name, reported_usage = response.get("model"), response.get("usage")
            reply = reply_from_answers(response["answers"], task.questions)
        except JSON_ERRORS:
            raise self.malformed_response(response_body) from None
        if isinstance(reported_usage, dict):
            reported_usage = {
                "prompt_tokens": reported_usage.get("input_tokens") or 0,
                "completion_tokens": reported_usage.get("output_tokens") or 0,
                "prompt_tokens_details": reported_usage.get("input_tokens_details"),
            }
        usage = read_usage(reported_usage, messages, (), DECISION_SAMPLING)
        return self.make_completion([reply], model_name, usage)
