"""What the local server says and how it checks: official answers, errors, complaints."""

import math
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_type_hints

from aiohttp import web

Body = dict[str, Any]
OUTPUT = re.compile(r"^- (\w+)(?: \(([^)]*?)\))?: ", re.MULTILINE)


def place(text: str) -> float:
    """Map a prompt to a number in [0, 1), always the same: the default judge's opinion."""
    return zlib.crc32(text.encode()) / 2**32


def follow(body: Body, opinion: Callable[[str], float] = place) -> str:
    """Reply as judges.prompt asks: every field it lists, choices by the opinion of the texts.

    Other prompts, such as those of DSPy's own adapters, get a rating under DSPy's header.
    """
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    outputs = OUTPUT.findall(system.partition("You write:")[2].partition("Your task:")[0])
    values = {}
    for name, allows in outputs or [("rating", "1, 2, 3, 4 or 5")]:
        choices = re.split(r", | or ", allows) if allows else ["It is what it is."]
        values[name] = choices[min(int(opinion(last) * len(choices)), len(choices) - 1)]
    if outputs and len(values) == 1:
        return next(iter(values.values()))
    blocks = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*blocks, "[[ ## completed ## ]]"])


def completion(body: Body, texts: Sequence[str]) -> Body:
    """Build the official answer to a request."""
    about = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": body["model"]}
    choices = []
    for index, text in enumerate(texts):
        message = {"role": "assistant", "content": text, "refusal": None}
        content = tokens(text, body.get("top_logprobs", 0)) if body.get("logprobs") else None
        logprobs = content and {"content": content, "refusal": None}
        choice = {"index": index, "message": message, "logprobs": logprobs}
        choices.append({**choice, "finish_reason": "stop"})
    return {**about, "choices": choices, "usage": usage(body, texts)}


def tokens(text: str, n_top: int) -> list[Body]:
    """Split into words; a number spreads half of its probability over its neighbours."""
    entries = []
    for word in re.findall(r"\s*\S+", text):
        top = {word: 1.0}
        if word.strip().isdigit():
            top = {word: 0.5, str(int(word) - 1): 0.25, str(int(word) + 1): 0.25}
        rows = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in top.items()]
        entries.append({**rows[0], "top_logprobs": rows[:n_top]})
    return entries


def usage(body: Body, texts: Sequence[str]) -> Body:
    n_in = max(1, sum(len(message["content"]) for message in body["messages"]) // 4)
    n_out = sum(len(text.split()) for text in texts)
    return {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}


def error(status: int, message: str, code: str, retry_after: str | None = None) -> web.Response:
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    headers = {"Retry-After": retry_after} if retry_after else {}
    return web.json_response(body, status=status, headers=headers)


def complaints(body: Body) -> list[str]:
    """Check a request against the official package's types; extra fields count as wrong."""
    params, fields = official_params()
    unknown = [f"unknown field {name!r}" for name in body if name not in fields]
    try:
        params.validate_python(body)
    except ValueError as wrong:
        unknown.append(str(wrong))
    return unknown


@cache
def official_params() -> tuple[Any, set[str]]:
    """The official package's check of a request, and the fields it knows; slow the first time."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    fields = set(get_type_hints(CompletionCreateParamsNonStreaming))
    return TypeAdapter(CompletionCreateParamsNonStreaming), fields
