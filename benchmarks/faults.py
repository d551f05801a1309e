"""Ten thousand judgements on a faulty endpoint, killed, cut short and watched: what is lost?

    python benchmarks/faults.py [--rows 10000] [--json]

Starts a local server that spoils a fifth of the requests: 429, 500, 503, dropped and hung
connections, malformed JSON, empty and garbage text. Prints one line for each promise and exits 1
where one is broken.
"""

import argparse
import json
import math
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

from judges.models.prices import find_price  # noqa: E402 - as above


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


def judge_rows(folder: Path, rows: int, max_calls: int | None, lm: str) -> None:
    """The program under test, in a process of its own: judgements in order, replies on record."""
    import judges
    from judges.inference.budget import BudgetSpentError
    from judges.inference.session import open_runner

    judge = judges.load("relevance")
    texts = (
        {"document": f"Document {i} says one thing.", "summary": f"Summary {i}."}
        for i in range(rows)
    )
    journal = folder / "journal.jsonl" if lm != "embedded" else None
    try:
        with (
            open_runner(
                lm=lm, journal=journal, max_calls=max_calls, concurrency=CONCURRENCY
            ) as runner,
            (folder / "out.jsonl").open("w") as out,
        ):
            for judgement in judge.judge_rows(texts, runner):
                score = None if math.isnan(judgement.score) else judgement.score  # type: ignore[union-attr]
                print(json.dumps([score, judgement.failure]), file=out)
    except BudgetSpentError as error:
        sys.exit(str(error))
    print(peak_mb())


def peak_mb() -> float:
    """This process's own peak: on Linux, ru_maxrss has the parent's in it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def start(
    folder: Path, rows: int, max_calls: int | None = None, lm: str = "openai/judge-1"
) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--judge", str(folder), "--rows", str(rows), "--lm", lm]
    command += ["--max-calls", str(max_calls)] if max_calls is not None else []
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def output(folder: Path) -> list[list[object]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def faulty(server: OpenAIServer, folder: Path, rows: int) -> dict[str, object]:
    start_time = time.perf_counter()
    process = start(folder, rows)
    stdout, complaint = process.communicate()
    seconds = time.perf_counter() - start_time
    judged = output(folder) if process.returncode == 0 else []
    scored = sum(score is not None for score, _ in judged)
    named = sum(failure is not None for _, failure in judged)
    done = Counter(seen.done for seen in server.log)
    twice = sum(times > 1 for times in server.n_answered.values())
    written = "".join(path.read_text() for path in folder.glob("*.*")) + stdout + complaint
    return {
        "ok": len(judged) == rows == scored + named and not twice and KEY not in written,
        "rows": len(judged),
        "scored": scored,
        "named failures": named,
        "answered well twice": twice,
        "faults": {name: done[name] for name in FAULTS},
        "key written": KEY in written,
        "seconds": round(seconds, 1),
        "peak_mb": round(float(stdout.split()[-1])) if stdout else None,
    }


def killed(server: OpenAIServer, folder: Path, rows: int, whole: Path) -> dict[str, object]:
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


def limited(server: OpenAIServer, folder: Path, rows: int) -> dict[str, object]:
    process = start(folder, rows, max_calls=rows // 10)
    _, complaint = process.communicate()
    return {
        "ok": len(server.log) <= rows // 10 and "budget" in complaint,
        "server counted": len(server.log),
        "allowed": rows // 10,
        "said": complaint.strip(),
    }


def budgets(folder: Path, limit: tuple[str, str]) -> dict[str, object]:
    """Tune under a limit with two in five replies spoiled, killed twice and resumed.

    Half of every prompt is cached, and every reply takes thoughts.
    """
    lm = "openai/gpt-4.1-mini"
    server = OpenAIServer(models=("gpt-4.1-mini",), latency=0.005, cached=0.5, thoughts=30)
    server.fault = some_faults(0.4, (*WITHHELD, "429", "500", "503"))
    command = [sys.executable, "-m", "optimize", "--out", str(folder)]
    start = [*command, "--dimension", "relevance", "--lm", lm, "--concurrency", "16", *limit]
    with Serving(server):
        os.environ["OPENAI_BASE_URL"] = server.url
        for share in (1, 2):
            process = subprocess.Popen(start if share == 1 else [*command, "--resume"], **QUIET)
            while len(server.log) < 150 * share and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        code = subprocess.run([*command, "--resume"], check=False, **QUIET).returncode
        price = find_price(lm)
        assert price is not None
        dollars = server.dollars(price)
        summary = json.loads((folder / "summary.json").read_text()) if code == 0 else {}
    reported = summary.get("cost_usd") or 0.0
    most = float(limit[1])
    counted = summary.get("lm_calls", 0) + summary.get("proposer_calls", 0)
    # What was under way at a kill is counted, at an estimate, whether or not it has arrived.
    excess = 0.01 + max(counted / len(server.log) - 1, 0)
    held = len(server.log) <= most if limit[0] == "--max-calls" else dollars <= most
    return {
        "ok": held and code == 0 and -0.01 < reported / dollars - 1 < excess,
        "limit": " ".join(limit),
        "server counted": len(server.log),
        "counted": counted,
        "answered well": sum(seen.answered for seen in server.log),
        "dollars served": round(dollars, 4),
        "dollars reported": round(reported, 4),
        "reported to served": round(reported / dollars, 4),
    }


def memory(folder: Path, lm: str, few: int, many: int) -> dict[str, object]:
    peaks = []
    for rows in (few, many):
        stdout, complaint = start(folder, rows, lm=lm).communicate()
        if not stdout:
            return {"ok": False, "said": complaint[-300:]}
        peaks.append(float(stdout.split()[-1]))
    return {"ok": peaks[1] - peaks[0] < 150, few: round(peaks[0]), many: round(peaks[1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--memory-rows", type=int, default=200_000)
    parser.add_argument("--memory-only", action="store_true")
    parser.add_argument("--json", action="store_true", help="figures for machines")
    for hidden in ("--judge", "--max-calls", "--lm"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.judge:
        most = int(flags.max_calls) if flags.max_calls else None
        judge_rows(Path(flags.judge), flags.rows, most, flags.lm)
        return
    results: dict[str, dict[str, object]] = {}
    os.environ["OPENAI_API_KEY"] = KEY
    os.environ["DSPY_JUDGES_CACHE"] = "none"

    def note(name: str, figures: dict[str, object]) -> None:
        results[name] = figures
        if not flags.json:
            print(f"{'ok  ' if figures['ok'] else 'FAIL'} {name}: {figures}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, run in (
            ("faults", lambda s: faulty(s, folder / "whole", flags.rows)),
            ("kill -9", lambda s: killed(s, folder / "killed", flags.rows, folder / "whole")),
            ("max calls", lambda s: limited(s, folder / "limited", flags.rows)),
        ):
            if flags.memory_only:
                continue
            with Serving(OpenAIServer(fault=faults_of_a_model())) as server:
                os.environ["OPENAI_BASE_URL"] = server.url
                note(name, run(server))
                assert not server.invalid, server.invalid[:3]
        for number, limit in enumerate((("--max-calls", "1500"), ("--max-cost", "0.6"))):
            if not flags.memory_only:
                note(f"{limit[0][2:]}, tuning", budgets(folder / f"run-{number}", limit))
        with Serving(OpenAIServer()) as server:
            os.environ["OPENAI_BASE_URL"] = server.url
            many = flags.rows * 2
            note("memory, HTTP", memory(folder / "http", "openai/judge-1", many // 10, many))
        note("memory, embedded", memory(folder / "e", "embedded", 2000, flags.memory_rows))
    if flags.json:
        print(json.dumps(results, indent=1))
    sys.exit(not all(figures["ok"] for figures in results.values()))


if __name__ == "__main__":
    main()
