"""Processes that tests start, and conditions that they wait for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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
