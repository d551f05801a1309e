"""Ten thousand judgements on a faulty endpoint, killed, cut short and watched: what is lost?

    python benchmarks/faults.py [--rows 10000]

A local server spoils a fifth of the requests: 429, 500, 503, dropped and hung connections,
malformed JSON, empty and garbage text. Prints a line for each promise; exits 1 where one is broken.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEY = "sk-planted-a1b2c3d4e5f6a7b8c9d0"
CONCURRENCY = 64
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from openai_server import (  # noqa: E402 - in tests/
    FAULTS,
    WITHHELD,
    Body,
    OpenAIServer,
    Serving,
    some_faults,
)

Figures = dict[str, Any]


def faults_of_a_model() -> Callable[[int, Body], str | None]:
    """A fifth of the requests spoiled the first time, but by a useless reply every time.

    After such a reply a judge asks in other words: a request that was under way at a kill must get
    it anew where the same output is expected.
    """
    once, always = some_faults(0.2), some_faults(0.2, once=False)

    def fault(number: int, body: Body) -> str | None:
        kind = always(number, body)
        return kind if kind in ("empty", "garbage") else once(number, body)

    return fault


def peak_mb() -> float:
    """This process's own peak: on Linux, ru_maxrss has the parent's in it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def start(folder: Path, rows: int, *flags: str) -> "subprocess.Popen[str]":
    """The command `score` in a process of its own; the last line of its stderr is its peak."""
    folder.mkdir(exist_ok=True)
    table = folder / "rows.jsonl"
    texts = ((f"Document {i} says one thing.", f"Summary {i}.") for i in range(rows))
    lines = [json.dumps({"document": document, "summary": summary}) for document, summary in texts]
    table.write_text("\n".join(lines))
    command = [sys.executable, __file__, "--score", "relevance", "--lm", "openai/judge-1"]
    command += ["--data", str(table), "--out", str(folder / "out.jsonl"), "--quiet"]
    command += ["--concurrency", str(CONCURRENCY), *flags]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE.parent
    )


def output(folder: Path) -> list[Figures]:
    lines = (folder / "out.jsonl").read_text().splitlines()
    return [json.loads(line)["judgements"]["relevance"] for line in lines]


def faulty(server: OpenAIServer, folder: Path, rows: int) -> Figures:
    began = time.perf_counter()
    process = start(folder, rows)
    stdout, complaint = process.communicate()
    judged = output(folder) if process.returncode == 0 else []
    scored = sum(one["score"] is not None for one in judged)
    named = sum(one["failure"] is not None for one in judged)
    done = Counter(seen.done for seen in server.log)
    twice = sum(times > 1 for times in server.n_answered.values())
    files = [path for path in folder.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files) + (stdout + complaint).encode()
    return {
        "ok": len(judged) == rows == scored + named and not twice and KEY.encode() not in written,
        "rows": len(judged),
        "scored": scored,
        "answered well twice": twice,
        "faults": {name: done[name] for name in FAULTS},
        "key written": KEY.encode() in written,
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mb": round(float(complaint.split()[-1])),
    }


def killed(server: OpenAIServer, folder: Path, rows: int, whole: Path) -> Figures:
    for times in (1, 2, 3):
        process = start(folder, rows)
        while len(server.log) < rows * times // 4 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(folder, rows)
    process.communicate()
    again = sum(times - 1 for times in server.n_answered.values())
    same = process.returncode == 0 and output(folder) == output(whole)
    return {
        "ok": same and again <= 3 * CONCURRENCY,
        "output as if never killed": same,
        "sent again": again,
        "at most in flight": 3 * CONCURRENCY,
    }


def limited(server: OpenAIServer, folder: Path, rows: int) -> Figures:
    most = rows // 10
    process = start(folder, rows, "--max-calls", str(most))
    _, complaint = process.communicate()
    return {
        "ok": 0 < len(server.log) <= most and process.returncode == 1,
        "server counted": len(server.log),
        "allowed": most,
        "said": complaint.strip().splitlines()[-2],
    }


def tuning(folder: Path, limit: tuple[str, str]) -> Figures:
    """Tune under a limit with two in five replies spoiled, killed twice and run again.

    Half of every prompt is cached, and every reply takes thoughts.
    """
    from judges.client import find_price

    lm = "openai/gpt-4.1-mini"
    server = OpenAIServer(models=("gpt-4.1-mini",), latency=0.005, cached=0.5, thoughts=30)
    server.fault = some_faults(0.4, (*WITHHELD, "429", "500", "503"))
    command = [sys.executable, "-m", "optimize", "--dimension", "relevance", "--lm", lm]
    command += ["--concurrency", "16", *limit, "--out", str(folder)]
    with Serving(server):
        os.environ["OPENAI_BASE_URL"] = server.url
        for share in (1, 2):
            process = subprocess.Popen(command, **QUIET)
            while len(server.log) < 150 * share and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        code = subprocess.run(command, check=False, **QUIET).returncode
        price = find_price(lm)
        assert price is not None
        dollars = server.dollars(price)
        summary = json.loads((folder / "summary.json").read_text()) if code == 0 else {}
    reported, most = summary.get("cost_usd") or 0.0, float(limit[1])
    counted = summary.get("lm_calls", 0) + summary.get("proposer_calls", 0)
    # What was under way at a kill is counted, at an estimate, whether or not it has arrived.
    excess = 0.01 + max(counted / len(server.log) - 1, 0)
    held = len(server.log) <= most if limit[0] == "--max-calls" else dollars <= most
    return {
        "ok": held and code == 0 and -0.01 < reported / dollars - 1 < excess,
        "server counted": len(server.log),
        "counted": counted,
        "dollars served": round(dollars, 4),
        "dollars reported": round(reported, 4),
    }


def memory(folder: Path, few: int, many: int) -> Figures:
    peaks = []
    for rows in (few, many):
        _, complaint = start(folder / str(rows), rows).communicate()
        peaks.append(float(complaint.split()[-1]))
    return {"ok": peaks[1] - peaks[0] < 150, few: round(peaks[0]), many: round(peaks[1])}


def main() -> None:
    if sys.argv[1:2] == ["--score"]:
        from dspy_judges.__main__ import main as command

        code = command(["score", *sys.argv[2:]])
        sys.stderr.write(f"{peak_mb()}\n")
        sys.exit(code)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    os.environ |= {"OPENAI_API_KEY": KEY, "DSPY_JUDGES_CACHE": "none"}
    broken = []

    def note(name: str, figures: Figures) -> None:
        broken.extend([] if figures["ok"] else [name])
        print(f"{'ok  ' if figures['ok'] else 'FAIL'} {name}: {figures}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, run in (
            ("faults", lambda s: faulty(s, folder / "whole", rows)),
            ("kill -9", lambda s: killed(s, folder / "killed", rows, folder / "whole")),
            ("max calls", lambda s: limited(s, folder / "limited", rows)),
        ):
            with Serving(OpenAIServer(fault=faults_of_a_model())) as server:
                os.environ["OPENAI_BASE_URL"] = server.url
                note(name, run(server))
                assert not server.invalid, server.invalid[:3]
        for number, limit in enumerate((("--max-calls", "1500"), ("--max-cost", "0.6"))):
            note(f"{limit[0][2:]}, tuning", tuning(folder / f"run-{number}", limit))
        with Serving(OpenAIServer()) as server:
            os.environ["OPENAI_BASE_URL"] = server.url
            note("memory", memory(folder, rows // 5, rows * 2))
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
