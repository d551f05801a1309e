"""How fast judgements come, against other clients of the same local server.

    python benchmarks/throughput.py [--quick]

Each client asks for ratings and checks them, in a process of its own. The server checks every
request against the official openai package's types; decision models are asked at a server of their
own, in both of their forms. Compare the ratios, since the figures themselves depend on the machine.
"x ideal" is of the rows that the latency allows.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

from runs import ROOT

SUPPORT = ROOT / "tests" / "support"
# Latency in seconds, requests in flight, rows, rows for the slow clients.
SETTINGS = ((0.0, 64, 8000, 1200), (0.2, 256, 6400, 1280))
DOCUMENT = "The council met on Monday to discuss the bridge over the river. " * 30
SUMMARY = "The council discussed the bridge. "
Ask = Callable[[dict[str, str]], Awaitable[int]]


def rows(count: int) -> Iterator[dict[str, str]]:
    for i in range(count):
        yield {"document": f"{i}. {DOCUMENT}", "summary": SUMMARY}


async def ask_each(count: int, concurrency: int, ask: Ask) -> None:
    todo = rows(count)

    async def work() -> None:
        for row in todo:
            assert await ask(row) in range(1, 6)

    await asyncio.gather(*(work() for _ in range(concurrency)))


def bare_aiohttp(url: str, count: int, concurrency: int) -> None:
    """The least that can be done: one pool, a fixed prompt, the reply as it comes."""
    import aiohttp

    from judges.catalog import find

    template = find("relevance").prompt().template()
    system, last = template[0], template[-1]["content"]

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(row: dict[str, str]) -> int:
                content = last.replace("{{document}}", row["document"])
                messages = [system, {"role": "user", "content": content}]
                body = json.dumps({"model": "judge-1", "messages": messages, "max_tokens": 16})
                headers = {"Content-Type": "application/json"}
                async with session.post(
                    f"{url}/chat/completions", data=body.encode(), headers=headers
                ) as response:
                    answer = json.loads(await response.read())
                return int(answer["choices"][0]["message"]["content"])

            await ask_each(count, concurrency, ask)

    asyncio.run(main())


def this_project(
    url: str,
    count: int,
    concurrency: int,
    cached: bool = False,
    questions: int = 0,
    form: str = "openai",
) -> None:
    """The catalogue's judge of relevance, which asks so many of the catalogue's questions."""
    import judges

    names = ("relevance", "coherence", "fluency")
    others = [each for name in names for each in judges.load(name).subject.questions]
    judge = judges.Judge.of(judges.load("relevance").subject, questions=others[:questions])
    with tempfile.TemporaryDirectory() as folder:
        how: Any = {"api_base": url, "concurrency": concurrency}
        how |= {"lm": f"{form}/judge-1", "cache": folder if cached else "none"}
        with judge.open(**how) as judge_rows:
            for judgement in judge_rows(rows(count)):
                assert judgement.failure is None, judgement
                assert len(judgement.answers or (0,)) == 1 + questions, judgement


def dspy_acall(url: str, count: int, concurrency: int) -> None:
    """dspy.Predict.acall with stock adapter and engine."""
    import dspy

    from judges.catalog import find
    from judges.modules import signature_of

    lm = dspy.LM("openai/judge-1", api_base=url, cache=False, num_retries=3)
    predict = dspy.Predict(signature_of(find("relevance").prompt()))

    async def ask(row: dict[str, str]) -> int:
        return int((await predict.acall(**row)).rating)

    with dspy.context(lm=lm, adapter=dspy.ChatAdapter(), disable_history=True):
        asyncio.run(ask_each(count, concurrency, ask))


def stock_openai(url: str, count: int, concurrency: int) -> None:
    """The official client as it comes, one for all requests."""
    from openai import AsyncOpenAI

    from judges.catalog import find

    prompt = find("relevance").prompt()

    async def main() -> None:
        async with AsyncOpenAI(base_url=url) as client:

            async def ask(row: dict[str, str]) -> int:
                messages: Any = prompt.messages(row)
                answer = await client.chat.completions.create(
                    model="judge-1", messages=messages, max_tokens=16
                )
                return int(answer.choices[0].message.content or "")

            await ask_each(count, concurrency, ask)

    asyncio.run(main())


CLIENTS: dict[str, Callable[[str, int, int], None]] = {
    "bare aiohttp": bare_aiohttp,
    "this project": this_project,
    "this project, cache": partial(this_project, cached=True),
    **{f"this project, {n} asked": partial(this_project, questions=n) for n in (1, 4, 8)},
    "dspy.Predict.acall": dspy_acall,
    "openai client": stock_openai,
}
# A judge's own answer and its questions, of which it may have 16, in one request.
DECISIONS: dict[str, Callable[[str, int, int], None]] = {
    f"{form}, {n} answers": partial(this_project, questions=n - 1, form=form)
    for form, n in product(("decisions", "systemone"), (1, 5, 17))
}
SLOW = ("dspy.Predict.acall", "openai client")


@contextmanager
def serving(script: str, latency: float) -> Iterator[str]:
    command = [sys.executable, str(SUPPORT / script), "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def run_client(name: str, url: str, count: int, concurrency: int) -> None:
    """Print a client's calls a second, processor time and peak memory."""
    client = (CLIENTS | DECISIONS)[name]
    client(url, concurrency, concurrency)  # imports, connections
    cpu, start = time.process_time(), time.perf_counter()
    client(url, count, concurrency)
    seconds = time.perf_counter() - start
    cpu_ms = (time.process_time() - cpu) / count * 1000
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([count / seconds, cpu_ms, peak_mb]))


def measure(name: str, url: str, count: int, concurrency: int) -> tuple[float, float, float]:
    command = [sys.executable, __file__, "--client", name, url, str(count), str(concurrency)]
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "sk-local"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environment
    )
    rate, cpu_ms, peak_mb = json.loads(done.stdout.splitlines()[-1])
    return rate, cpu_ms, peak_mb


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        name, url, count, concurrency = sys.argv[2:]
        run_client(name, url, int(count), int(concurrency))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows")
    share = 4 if parser.parse_args().quick else 1
    servers = [(*each, "openai_server.py", CLIENTS) for each in SETTINGS]
    servers.append((*SETTINGS[-1], "decision_server.py", DECISIONS))
    for latency, concurrency, many, few, script, clients in servers:
        print(f"\n{script}, {latency * 1000:.0f} ms, {concurrency} in flight")
        print(f"{'client':<24}{'calls/s':>9}{'x bare':>8}{'x ideal':>9}{'CPU ms':>9}{'peak MB':>9}")
        bare = float("nan")
        with serving(script, latency) as url:
            for name in clients:
                count = (few if name in SLOW else many) // share
                rate, cpu_ms, peak_mb = measure(name, url, count, concurrency)
                bare = rate if name == "bare aiohttp" else bare
                figures = f"{rate:>9.0f}{rate / bare:>8.2f}{rate * latency / concurrency:>9.2f}"
                print(f"{name:<24}{figures}{cpu_ms:>9.2f}{peak_mb:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
