"""Rows a second through Ray and Spark, beside `dspy-judges score`, at a server of no delay.

    python benchmarks/engines.py [--rows 1000000] [--engines score ray spark] [--kill]

Ray and Spark run their examples of docs/engines.md; --kill ends a worker of theirs at half of the
rows. Memory is the most of a process that judges, in each half of the run.
"""

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil

import judges

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
SCORE = ["-m", "judges", "score", "runs/relevance-001", "--data", "rows.parquet", "--out", "o.csv"]
EXAMPLES = {"ray": "Many machines: Ray", "spark": "Spark"}
WORKERS = {"score": "judges", "ray": "ray::MapWorker", "spark": "pyspark.daemon"}
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{"choices":[{"message":{"content":"4"}}]}'
counts = bytearray()  # how often each row was answered


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while head := (await reader.readuntil(b"\r\n\r\n")).lower():
            length = int(head.partition(b"content-length: ")[2].split(b"\r")[0])
            counts[int(re.findall(rb"Row (\d+)", await reader.readexactly(length))[0])] += 1
            writer.write(ANSWER)


async def run(engine: str, rows: int, kill: bool, folder: str) -> str:
    from page_code import code_under

    frame = pd.DataFrame({"id": range(rows), "summary": "The council discussed the bridge."})
    frame["document"] = [f"Row {i}. {'They met. ' * 60}" for i in range(rows)]
    frame.to_parquet(f"{folder}/rows.parquet", row_group_size=10_000)
    Path(folder, "runs/relevance-001").mkdir(parents=True)
    judge = judges.load("relevance", lm="openai/gpt-4.1-mini")
    judge.save(f"{folder}/runs/relevance-001/judge.json")
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    os.environ |= {"OPENAI_BASE_URL": address, "PYSPARK_PYTHON": sys.executable}
    os.environ |= {"PYTHONPATH": str(ROOT), "DSPY_JUDGES_CACHE": f"{folder}/cache"}
    code = "" if engine == "score" else code_under(EXAMPLES[engine]).replace("8.0", "80_000.0")
    command, peaks, start = ["-c", code] if code else SCORE, [0, 0], time.perf_counter()
    child = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=folder)
    while child.returncode is None:
        await asyncio.sleep(1.0)
        half = int(counts.count(0) < rows / 2)
        with suppress(psutil.Error):  # a process has ended
            tree = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
            alive = [each for each in tree if each.status() != psutil.STATUS_ZOMBIE]
            judging = [each for each in alive if WORKERS[engine] in " ".join(each.cmdline())]
            peaks[half] = max(peaks[half], *(p.memory_full_info().uss >> 20 for p in judging), 0)
            if half and kill and code:
                kill = max(judging, key=lambda each: each.cpu_times().user).kill()  # None: once
    rate, lost = rows / (time.perf_counter() - start), counts.count(0)
    return f"| {engine} | {rate:.0f} | {lost} | {sum(counts) - rows + lost} | {peaks} |"


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rows", type=int, default=1_000_000)
parser.add_argument("--engines", nargs="+", default=["score", *EXAMPLES])
parser.add_argument("--kill", action="store_true")
options = parser.parse_args()
print("| engine | rows a second | not answered | answered again | MB, in each half |")
for name in options.engines:
    counts[:] = bytes(options.rows)
    with tempfile.TemporaryDirectory() as temporary:
        print(asyncio.run(run(name, options.rows, options.kill, temporary)), flush=True)
