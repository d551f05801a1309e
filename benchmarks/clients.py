"""The clients that benchmarks/throughput.py compares: each asks for ratings and checks them.

Run in a process of its own: `python benchmarks/clients.py NAME URL ROWS CONCURRENCY` prints JSON.
"""

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

DOCUMENT = "The council met on Monday to discuss the bridge over the river. " * 30
SUMMARY = "The council discussed the bridge. "
SCALE = range(1, 6)
QUESTIONS = (1, 4, 8)


def rows(count: int) -> Iterator[dict[str, str]]:
    for i in range(count):
        yield {"document": f"{i}. {DOCUMENT}", "summary": SUMMARY}


async def each(
    count: int, concurrency: int, ask: Callable[[dict[str, str]], Awaitable[int]]
) -> None:
    todo = rows(count)

    async def work() -> None:
        for row in todo:
            assert await ask(row) in SCALE

    await asyncio.gather(*(work() for _ in range(concurrency)))


def raw_aiohttp(url: str, count: int, concurrency: int) -> None:
    """The least that can be done: one pool, a fixed prompt, the reply as it comes."""
    import aiohttp

    from judges.catalog import find

    template = find("relevance").prompt().template()
    system, last = template[0], template[-1]["content"]

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(row: dict[str, str]) -> int:
                content = last.replace("{{document}}", row["document"])
                body = {
                    "model": "judge-1",
                    "messages": [system, {"role": "user", "content": content}],
                    "max_tokens": 16,
                }
                async with session.post(
                    f"{url}/chat/completions",
                    data=json.dumps(body).encode(),
                    headers={"Content-Type": "application/json"},
                ) as response:
                    answer = json.loads(await response.read())
                return int(answer["choices"][0]["message"]["content"])

            await each(count, concurrency, ask)

    asyncio.run(main())


def asking(questions: int) -> Any:
    """The catalogue's judge of relevance, which asks so many of the catalogue's questions."""
    import judges

    subject = judges.load("relevance").subject
    names = ("relevance", "coherence", "fluency")
    others = [each for name in names for each in judges.load(name).subject.questions]
    return judges.Judge.of(subject, questions=others[:questions])


def this_project(
    url: str,
    count: int,
    concurrency: int,
    cache: str = "none",
    questions: int = 0,
    lm: str = "openai/judge-1",
) -> None:
    """A catalogue judge over rows: rendered safely, parsed strictly, in order."""
    n = 0
    with asking(questions).open(
        lm=lm, api_base=url, concurrency=concurrency, cache=cache
    ) as judge_rows:
        for judgement in judge_rows(rows(count)):
            assert judgement.failure is None, judgement
            assert len(judgement.answers or (0,)) == 1 + questions, judgement
            n += 1
    assert n == count


def this_project_with_cache(url: str, count: int, concurrency: int) -> None:
    """The same, with every reply on disk."""
    with tempfile.TemporaryDirectory() as folder:
        this_project(url, count, concurrency, folder)


def _signature() -> type:
    from judges.catalog import find
    from judges.modules import signature_of

    return signature_of(find("relevance").prompt())


def dspy_acall(url: str, count: int, concurrency: int) -> None:
    """dspy.Predict.acall with stock adapter and engine."""
    import dspy

    lm = dspy.LM("openai/judge-1", api_base=url, cache=False, num_retries=3)
    predict = dspy.Predict(_signature())

    async def ask(row: dict[str, str]) -> int:
        return int((await predict.acall(**row)).rating)

    async def main() -> None:
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter(), disable_history=True):
            await each(count, concurrency, ask)

    asyncio.run(main())


def stock_openai(url: str, count: int, concurrency: int) -> None:
    """The official client as it comes, one for all requests."""
    from openai import AsyncOpenAI

    from judges.catalog import find

    prompt = find("relevance").prompt()

    async def main() -> None:
        async with AsyncOpenAI(base_url=url) as client:

            async def ask(row: dict[str, str]) -> int:
                answer = await client.chat.completions.create(
                    model="judge-1",
                    messages=prompt.messages(row),  # type: ignore[arg-type]
                    max_tokens=16,
                )
                return int(answer.choices[0].message.content or "")

            await each(count, concurrency, ask)

    asyncio.run(main())


CLIENTS: dict[str, Callable[[str, int, int], None]] = {
    "raw aiohttp": raw_aiohttp,
    "this project": this_project,
    "this project, cache": this_project_with_cache,
    **{f"this project, {n} asked": partial(this_project, questions=n) for n in QUESTIONS},
    "dspy.Predict.acall": dspy_acall,
    "openai client": stock_openai,
}
# A judge's own answer and its questions, of which it may have 16, in one request.
DECIDED = {
    f"{form}, {n} questions": partial(this_project, questions=n - 1, lm=f"{form}/judge-1")
    for form in ("decisions", "systemone")
    for n in (1, 5, 17)
}


def main() -> None:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("OPENAI_API_KEY", "sk-local-benchmark-key-0123456789")
    name, url, count, concurrency = sys.argv[1:]
    client = {**CLIENTS, **DECIDED}[name]
    client(url, int(concurrency), int(concurrency))  # imports, connections
    cpu, start = time.process_time(), time.perf_counter()
    client(url, int(count), int(concurrency))
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "calls_per_second": int(count) / seconds,
                "cpu_ms_per_call": (time.process_time() - cpu) / int(count) * 1000,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
