"""Ask decision models over HTTP, which answer typed questions by probabilities and write no text.

Two protocols are in use: System One's `POST /v1/systemone`, which several engines and providers
serve, and OpenAI's `POST /v1/decisions`. In this project, a request to either has two messages:

- the system message is the JSON object `{"state": {...}, "questions": {...}}`, which is the same
  for every row; questions are in System One's form;
- the user message is a JSON object with the texts by name, which becomes `inputs` in the state.

A reply's text is the JSON object `{question: {option: probability}}`. The options of a yes-or-no
question (`noul`) are true and false, and those of a `score` are the indices of its levels, from 0.
If an answer cannot be used, a text with the reason takes the place of its probabilities.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from judges.client.openai import (
    EndpointModel,
    malformed_answer,
    read_error,
    read_usage,
    retry_after_of,
)
from judges.decisions import (
    DECISION_SAMPLING,
    MALFORMED,
    DecisionTask,
    Question,
    reply_of_answers,
)
from judges.protocol import SYSTEM_ONE, Completion, FatalModelError, Message, Sampling


class DecisionModel(EndpointModel):
    """A decision model at one address; its name begins with the protocol: "systemone/NAME"."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one request; raises ModelError if there is no usable answer."""
        try:
            questions, body_start, body_end = _body_parts(self.name, messages[0]["content"])
            data = f"{body_start}{messages[-1]['content']}{body_end}".encode()
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
        if is_moved:  # some servers have the same protocol at another path
            self._url = url.removesuffix(SYSTEM_ONE) + "decisions"
            return await self.complete(messages, sampling)
        raise read_error(self, status, retry_after_of(headers), answer)

    def _read(
        self, answer: bytes, questions: Mapping[str, Question], messages: Sequence[Message]
    ) -> Completion:
        """The answers and token counts, with API keys redacted.

        Raises TransientError if the body has no answers.
        """
        try:
            # Unlike msgspec, json accepts NaN, so that only the answer with the NaN is lost.
            body = json.loads(answer.decode("utf-8", "replace"))
            model, counts = body.get("model"), body.get("usage")
            reply = reply_of_answers(body["answers"], questions)
        except MALFORMED:
            raise malformed_answer(answer, self.redactor) from None
        if isinstance(counts, dict):
            counts = {
                "prompt_tokens": counts.get("input_tokens") or 0,
                "completion_tokens": counts.get("output_tokens") or 0,
                "prompt_tokens_details": counts.get("input_tokens_details"),
            }
        usage = read_usage(counts, messages, (), DECISION_SAMPLING)
        return self.completion([reply], model, usage)


@lru_cache(maxsize=16)
def _body_parts(name: str, content: str) -> tuple[dict[str, Question], str, str]:
    """The questions in a system message, and the JSON of a request before and after its texts.

    The result is cached for all rows, since demonstrations may be whole documents.
    """
    task, model = DecisionTask.of(content), name.partition("/")[2]
    body = {"model": model, **task.body(name, None)}
    # No text can contain this mark, since JSON escapes the quotation marks of a text.
    body_start, _, body_end = json.dumps(body, ensure_ascii=False).partition('"inputs": null')
    return task.questions, f'{body_start}"inputs": ', body_end
