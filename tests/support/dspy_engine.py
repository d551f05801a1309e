"""A model for DSPy that answers in this process, and keeps what it was asked."""

from collections.abc import Callable

import dspy
from dspy.lm15 import Message, Request, Response, Usage


class Engine:
    """Answers with what a function makes of the last message, and keeps all requests."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(self.answer(request.messages[-1].text)),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        )


class AsyncEngine:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def complete(self, request: Request) -> Response:
        return self.engine.complete(request)


def lm_of(engine: Engine) -> dspy.LM:
    return dspy.LM(
        "local/m", engine=engine, async_engine=AsyncEngine(engine), cache=False, num_retries=0
    )
