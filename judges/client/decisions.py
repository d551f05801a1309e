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
from collections.abc import Mapping, Sequence
from functools import lru_cache

from judges.client.openai import EndpointModel, malformed, read_error, read_usage, retry_after_of
from judges.decisions import DECISION_SAMPLING, MALFORMED, Question, reply_of_answers, request_body
from judges.protocol import SYSTEM_ONE, Completion, FatalModelError, Message, Sampling


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
            model, counts = body.get("model"), body.get("usage")
            reply = reply_of_answers(body["answers"], questions)
        except MALFORMED:
            raise malformed(answer, self.secrets) from None
        if isinstance(counts, dict):
            counts = {
                "prompt_tokens": counts.get("input_tokens") or 0,
                "completion_tokens": counts.get("output_tokens") or 0,
                "prompt_tokens_details": counts.get("input_tokens_details"),
            }
        usage = read_usage(counts, messages, (), DECISION_SAMPLING)
        return self.completion([reply], model, usage)


@lru_cache(maxsize=16)
def _frame(name: str, content: str) -> tuple[dict[str, Question], str, str]:
    """The questions, and a request's JSON before and after its texts.

    It is made once for all rows, since demonstrations may be whole documents.
    """
    part, model = json.loads(content), name.partition("/")[2]
    body = {"model": model, **request_body(name, part["state"], part["questions"], None)}
    # No text holds the place of the inputs, since JSON escapes a text's quotes.
    before, _, after = json.dumps(body, ensure_ascii=False).partition('"inputs": null')
    return part["questions"], f'{before}"inputs": ', after
