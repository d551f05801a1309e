"""How fast judgements come, against other clients of the same local server, and what a start costs.

    python benchmarks/throughput.py [--quick]

The server checks every request against the official openai package's types. One run measures all;
compare the ratios, since the figures themselves depend on the machine. "8 asked" has eight
questions beside the rating; last come its tokens and what 1,000 rows cost. Decision models are
asked at a server of their own, in both of their forms.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SERVER = HERE.parent / "tests" / "support" / "openai_server.py"
DECISION_SERVER = SERVER.with_name("decision_server.py")
sys.path[:0] = [str(HERE), str(SERVER.parent)]

from clients import CLIENTS, DECIDED, DOCUMENT, QUESTIONS, SUMMARY, asking  # noqa: E402 - beside this file
from openai_replies import follow  # noqa: E402 - beside the server

from judges.client.prices import find_price  # noqa: E402

# Latency in seconds, requests in flight, rows, rows for the slow clients.
SETTINGS = ((0.0, 64, 8000, 1200), (0.2, 256, 6400, 1280))
FAST = {name for name in CLIENTS if name.startswith(("raw", "this project"))}
PRICED = "openai/gpt-4.1-mini"
SCORED_ROWS = (4800, 40_000)
HELP = (
    "import os, sys; os.dup2(os.open(os.devnull, os.O_WRONLY), 1);"
    "from dspy_judges.__main__ import main; main(['{word}', '--help'])"
)
FIRST_SCORE = (
    "import judges; judge = judges.load('relevance');"
    "one = judge(document='The bridge is closed until May.', summary='A bridge is closed.');"
    "assert one.failure is None, one"
)


@contextmanager
def serving(latency: float, server: Path = SERVER) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(server), "--latency", str(latency)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def measure(name: str, url: str, count: int, concurrency: int) -> dict[str, float]:
    command = [
        sys.executable, str(HERE / "clients.py"), name, url, str(count), str(concurrency)
    ]  # fmt: skip
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if process.returncode:
        return {"failed": 1.0}
    figures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return figures


def whole_score(url: str, rows: int, concurrency: int) -> dict[str, float]:
    """The command `score` over so many rows, from its start to its end, with its store on disk."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "rows.jsonl", Path(folder) / "out.jsonl"
        with table.open("w") as file:  # line by line: a child's peak begins at its parent's
            for i in range(rows):
                row = {"document": f"{i}. {DOCUMENT}", "summary": SUMMARY}
                file.write(json.dumps(row) + "\n")
        command = [sys.executable, "-m", "judges", "score", "relevance", "--lm", "openai/judge-1"]
        command += ["--api-base", url, "--concurrency", str(concurrency), "--json", "--quiet"]
        command += ["--data", str(table), "--out", str(out)]
        environment = {**os.environ, "DSPY_JUDGES_CACHE": str(Path(folder) / "cache")}
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent, env=environment
        )
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            return {"failed": 1.0}
        return {
            "rows_per_second": rows / seconds,
            "at_the_rows_own_clock": rows / json.loads(printed)["seconds"],
            "peak_mb": used.ru_maxrss / 1024,
        }


def start_up(script: str, times: int) -> dict[str, float]:
    """Least seconds of several starts in new processes, and the peak memory."""
    best, peak = float("inf"), 0.0
    for _ in range(times):
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", script])
        _, status, used = os.wait4(process.pid, 0)
        if status:
            return {"failed": 1.0}
        best = min(best, time.perf_counter() - start)
        peak = used.ru_maxrss / 1024
    return {"seconds": best, "peak_mb": peak}


def cost(questions: int) -> dict[str, float]:
    """Tokens of a judgement by the model's own tokenizer, and dollars for 1,000 rows."""
    import litellm

    messages = asking(questions).prompt.messages({"document": DOCUMENT, "summary": SUMMARY})
    reply = follow({"messages": messages})
    tokens_in = litellm.token_counter(model=PRICED, messages=messages)
    tokens_out = litellm.token_counter(model=PRICED, text=reply)
    price = find_price(PRICED)
    assert price is not None
    dollars = 1000 * price.cost(tokens_in, tokens_out)
    return {"tokens_in": tokens_in, "tokens_out": tokens_out, "dollars": round(dollars, 3)}


def table(latency: float, concurrency: int, figures: dict[str, dict[str, float]]) -> str:
    ideal = concurrency / latency if latency else None
    lines = [
        f"\n{latency * 1000:.0f} ms, {concurrency} in flight"
        + (f" (ideal {ideal:.0f}/s)" if ideal else ""),
        f"{'client':<24}{'calls/s':>9}{'x raw':>8}{'x acall':>9}{'x ideal':>9}"
        f"{'CPU ms':>9}{'peak MB':>9}",
    ]
    raw = figures["raw aiohttp"]["calls_per_second"]
    acall = figures["dspy.Predict.acall"].get("calls_per_second", float("nan"))
    for name, one in figures.items():
        if "failed" in one:
            lines.append(f"{name:<24}   failed")
            continue
        rate = one["calls_per_second"]
        share = f"{rate / ideal:.2f}" if ideal else "-"
        lines.append(
            f"{name:<24}{rate:>9.0f}{rate / raw:>8.2f}{rate / acall:>9.2f}{share:>9}"
            f"{one['cpu_ms_per_call']:>9.2f}{one['peak_mb']:>9.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows")
    quick = parser.parse_args().quick
    for latency, concurrency, many, few in SETTINGS:
        with serving(latency) as url:
            figures = {
                name: measure(
                    name, url, (many if name in FAST else few) // (4 if quick else 1), concurrency
                )
                for name in CLIENTS
            }
        print(table(latency, concurrency, figures), flush=True)
    latency, concurrency = SETTINGS[-1][:2]
    with serving(latency) as url:
        for rows in SCORED_ROWS:
            print(f"\nscore, {rows:,} rows: {whole_score(url, rows, concurrency)}", flush=True)
    ideal = concurrency / latency
    print(f"\ndecision models, {latency * 1000:.0f} ms, {concurrency} in flight: x ideal, CPU ms")
    with serving(latency, DECISION_SERVER) as url:
        for name in DECIDED:
            one = measure(name, url, SETTINGS[-1][2] // (4 if quick else 1), concurrency)
            rate = one["calls_per_second"]
            share, cpu_ms = rate / ideal, one["cpu_ms_per_call"]
            print(f"{name:<24}{rate:>9.0f}{share:>8.2f}{cpu_ms:>8.2f}", flush=True)
    times = 3 if quick else 7
    print("\nimport dspy:", start_up("import dspy", times))
    for word in ("score", "tune"):
        print(f"{word} --help:", start_up(HELP.format(word=word), times))
    print("import judges, load, first score:", start_up(FIRST_SCORE, times))
    for n in (0, *QUESTIONS):
        print(f"{n} questions, {PRICED}: {cost(n)}")


if __name__ == "__main__":
    main()
