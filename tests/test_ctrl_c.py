"""Ctrl-C ends a command that is being loaded, or that tunes, with 130 and one line."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonl import write_jsonl
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


def test_tuning_says_how_to_go_on(slow: OpenAIServer) -> None:
    slow.models = ("gpt-4.1-mini",)
    flags = ["--dimension", "relevance", "--lm", "openai/gpt-4.1-mini"]
    slow.fault = hang_from(8)
    running = start(slow, "optimize", *flags, "--api-base", slow.url, "--out", "run")
    wait_for(slow, 2, running)
    code, err = interrupt(running)
    assert code == 130
    assert err.splitlines()[-1].endswith("interrupted: the same command again goes on from here")
