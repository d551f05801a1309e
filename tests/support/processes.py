"""Processes that tests start, and conditions that they wait for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Seconds: a machine that does much else is slow to start a process.
TIMEOUT = 240.0


def run_python(
    *words: str | Path, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end; `env` is added to the environment."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        **{"check": False, **options},
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


# A background shell hands down an ignored SIGINT, which Python would leave ignored.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dspy_judges.__main__ import main
sys.exit(main())
"""


def start_command(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start `dspy-judges` with these words; both of its streams are piped."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, words)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


def wait_for_requests(server: Any, number: int, running: subprocess.Popen[str]) -> None:
    """Wait until a local server has seen so many requests of a running command."""
    until(lambda: len(server.log) >= number or running.poll() is not None)
    assert running.poll() is None, running.communicate()


@contextmanager
def label_page(*words: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address at which the command `label` serves its page, and its process."""
    running = start_command("label", *words)
    try:
        lines = iter(running.stdout or ())
        yield next(line[5:].strip() for line in lines if line.startswith("open ")), running
    finally:
        running.kill()
        running.communicate()


def end_of(running: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command that ends by itself, and what it said on stderr."""
    _, err = running.communicate(timeout=TIMEOUT)
    return running.returncode, err
