"""Serves a simulated world as an OpenAI-compatible endpoint on 127.0.0.1, and counts what it bills.

python benchmarks/simulated_server.py FOLDER writes labels.jsonl and quality.yaml there, serves
their world until Ctrl-C, and then prints the bill: a paid run rehearsed for nothing.

with serving(SimulatedServer(world)) as server:
    ...  # --lm openai/gpt-4.1-mini --proposer-lm openai/gpt-5-mini --api-base server.url
    server.dollars
"""

import argparse
import contextlib
import json
import math
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from simulated_models import SimulatedJudge, SimulatedProposer
from simulated_worlds import TRAITS_BY_WORLD, Vector, World

from judges import Judge
from judges.client import find_price

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from serving import serving

JUDGE_MODEL, PROPOSER_MODEL = "gpt-4.1-mini", "gpt-5-mini"
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
# Hidden thoughts of a proposer, billed as tokens written.
PROPOSER_THOUGHTS = 900
# Settings of `tune` for a world's models.
MODELS = {"lm": f"openai/{JUDGE_MODEL}", "proposer_lm": f"openai/{PROPOSER_MODEL}"}


def count_tokens(text: str) -> int:
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


class ModelServer:
    """The endpoint; `tokens_in`, `tokens_out` and `n_requests` by model are what it would bill."""

    def __init__(self) -> None:
        self.tokens_in: Counter[str] = Counter()
        self.tokens_out: Counter[str] = Counter()
        self.n_requests: Counter[str] = Counter()
        self.url = ""

    @property
    def dollars(self) -> float:
        """What all requests cost at list prices."""
        total = 0.0
        for model in self.n_requests:
            price = find_price(f"openai/{model}")
            assert price is not None, model
            total += price.cost(self.tokens_in[model], self.tokens_out[model])
        return total

    def scores(self, judge: Judge, rows: Iterable[Mapping[str, str]]) -> Vector:
        """What a judge that asks this endpoint gives to each row."""
        judged = judge.judge_all(rows, api_base=self.url, cache="none")
        return np.array([judgement.score for judgement in judged])

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        for path in ("chat/completions", "systemone", "decisions"):
            app.router.add_post(f"/v1/{path}", self.chat)
        app.router.add_get("/dollars", self.bill)
        return app

    async def bill(self, request: web.Request) -> web.Response:
        return web.Response(text=str(self.dollars))

    async def chat(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        try:
            return web.json_response(self.answer(body))
        except (KeyError, ValueError):
            known = "the simulated models know the texts of their own labels alone, in their folder"
            error = {"message": known, "type": "invalid_request_error"}
            return web.json_response({"error": error}, status=400)

    def replies(self, body: Mapping[str, Any]) -> tuple[list[str], int]:
        """The texts of all n replies, and the tokens of their hidden thoughts."""
        raise NotImplementedError

    def book(self, model: str, tokens_in: int, tokens_out: int) -> None:
        self.n_requests[model] += 1
        self.tokens_in[model] += tokens_in
        self.tokens_out[model] += tokens_out

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The official answer to a request for a chat completion."""
        texts, thoughts = self.replies(body)
        contents = [message["content"] for message in body["messages"]]
        tokens_in = sum(count_tokens(content) + TOKENS_PER_MESSAGE for content in contents)
        tokens_out = thoughts + sum(map(count_tokens, texts))
        self.book(body["model"], tokens_in, tokens_out)
        message = {"role": "assistant", "refusal": None}
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {"index": index, "message": message | {"content": text}, "finish_reason": "stop"}
                for index, text in enumerate(texts)
            ],
            "usage": {
                "prompt_tokens": tokens_in,
                "completion_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
                "completion_tokens_details": {"reasoning_tokens": thoughts},
            },
        }


class SimulatedServer(ModelServer):
    """The endpoint of a world's judge and proposer."""

    def __init__(
        self,
        world: World,
        judge: type[SimulatedJudge] = SimulatedJudge,
        proposer: type[SimulatedProposer] = SimulatedProposer,
    ) -> None:
        super().__init__()
        self.world, self.judge, self.proposer = world, judge(world), proposer(world)

    def replies(self, body: Mapping[str, Any]) -> tuple[list[str], int]:
        n, messages = int(body.get("n") or 1), body["messages"]
        draws = [int(body.get("seed") or 0) * 1000 + index for index in range(n)]
        if body["model"] == PROPOSER_MODEL:
            return [self.proposer.reply(messages, draw) for draw in draws], PROPOSER_THOUGHTS * n
        temperature = body.get("temperature")
        heat = self.world.judge.sampling_error * (1.0 if temperature is None else temperature)
        return [self.judge.reply(messages, temperature=heat, draw=draw) for draw in draws], 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    # A shell that starts it in the background has it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    name = "reasoning helps"
    world = World(name=name, seed=3, judge=TRAITS_BY_WORLD[name], n_documents=50)
    labels, dimension = world.write(folder)
    with serving(SimulatedServer(world)) as server:
        with contextlib.suppress(KeyboardInterrupt):
            print(f"export OPENAI_API_KEY=simulated OPENAI_BASE_URL={server.url}")
            print(
                f"dspy-judges tune --dimension {dimension} --data {labels} "
                f"--lm openai/{JUDGE_MODEL} --proposer-lm openai/{PROPOSER_MODEL} "
                "--max-cost 4 --dry-run",
                flush=True,
            )
            threading.Event().wait()
        print(f"billed: {sum(server.n_requests.values()):,} requests, ${server.dollars:.4f}")


if __name__ == "__main__":
    main()
