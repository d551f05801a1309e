"""Ctrl-C at any moment ends a command with 130, one line and no traceback; --resume goes on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonl import read_jsonl, write_jsonl
from openai_server import OpenAIServer, Serving, hang_from
from processes import TIMEOUT, run_python, until

from dspy_judges.startup import loading_time

ROWS = [{"id": str(i), "document": f"Text {i}.", "summary": f"Summary {i}."} for i in range(40)]


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    with Serving(OpenAIServer(latency=0.1)) as server:
        yield server


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_jsonl("in.jsonl", ROWS)
    return tmp_path


def start(server: OpenAIServer | None, *arguments: str) -> subprocess.Popen[str]:
    base = {} if server is None else {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-none"}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env={**os.environ, **base},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt(running: subprocess.Popen[str]) -> tuple[int, str]:
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=TIMEOUT)
    return running.returncode, err


def wait_for(server: OpenAIServer, requests: int, running: subprocess.Popen[str]) -> None:
    """Wait until a running command has sent so many requests."""
    until(lambda: len(server.log) >= requests or running.poll() is not None)
    assert running.poll() is None, running.communicate()


SCORE = ["judges", "score", "relevance", "--data", "in.jsonl", "--out", "o.jsonl"]


def test_scoring_stops_with_what_came_and_goes_on_from_there(slow: OpenAIServer) -> None:
    ask = [*SCORE, "--lm", "openai/judge-1", "--concurrency", "2"]
    slow.fault = hang_from(12)
    running = start(slow, *ask)
    wait_for(slow, 9, running)
    code, err = interrupt(running)
    slow.fault = lambda number, body: None
    assert code == 130
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("dspy-judges score: interrupted: ")
    assert last.endswith("run the same with --resume to go on")
    assert not Path("o.jsonl").exists()
    kept = len(Path("o.jsonl.replies.jsonl").read_text().splitlines())
    assert kept >= 5
    # Without --resume nothing is touched.
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    again = start(slow, *ask)
    assert "--resume continues it" in again.communicate(timeout=TIMEOUT)[1]
    assert again.returncode == 1
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
    asked = len(slow.log)
    resumed = start(slow, *ask, "--resume")
    resumed.communicate(timeout=TIMEOUT)
    assert resumed.returncode == 0
    assert len(slow.log) - asked == len(ROWS) - kept
    rows = read_jsonl("o.jsonl")
    assert [row["id"] for row in rows] == [row["id"] for row in ROWS]
    assert all(row["judgements"]["relevance"]["failure"] is None for row in rows)


def test_while_a_command_is_loaded_it_ends_at_once_and_afterwards_as_ever() -> None:
    loading = (
        "import os, signal, time\n"
        "from dspy_judges.startup import loading_time\n"
        "with loading_time():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    done = run_python("-c", loading)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    before = signal.getsignal(signal.SIGINT)
    with loading_time():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_may_load_a_command_too() -> None:
    loaded: list[bool] = []

    def load() -> None:
        with loading_time():
            loaded.append(True)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert loaded


def test_tuning_says_how_to_go_on(slow: OpenAIServer) -> None:
    slow.models = ("gpt-4.1-mini",)
    flags = ["--dimension", "relevance", "--lm", "openai/gpt-4.1-mini"]
    slow.fault = hang_from(8)
    running = start(slow, "optimize", *flags, "--api-base", slow.url, "--out", "run")
    wait_for(slow, 2, running)
    code, err = interrupt(running)
    assert code == 130
    assert err.splitlines()[-1].endswith("interrupted: the same command again goes on from here")
