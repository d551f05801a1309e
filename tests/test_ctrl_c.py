"""Ctrl-C ends a command that is being loaded, or that tunes, with 130 and one line."""

import signal
import subprocess
import sys

import pytest
from openai_server import OpenAIServer, hang_from
from processes import end_of, run_python, until

from dspy_judges.startup import exit_on_ctrl_c


def test_while_a_command_is_loaded_it_ends_at_once_and_afterwards_as_ever() -> None:
    loading = (
        "import os, signal, time\n"
        "from dspy_judges.startup import exit_on_ctrl_c\n"
        "with exit_on_ctrl_c():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    done = run_python("-c", loading)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    before = signal.getsignal(signal.SIGINT)
    with exit_on_ctrl_c():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("here")
def test_tuning_says_how_to_go_on(openai_server: OpenAIServer) -> None:
    openai_server.models, openai_server.latency = ("gpt-4.1-mini",), 0.1
    openai_server.fault = hang_from(8)
    flags = ["--dimension", "relevance", "--lm", "openai/gpt-4.1-mini", "--out", "run"]
    running = subprocess.Popen(
        [sys.executable, "-m", "optimize", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(openai_server.log) >= 2 or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    code, err = end_of(running)
    assert code == 130
    assert err.splitlines()[-1].endswith("interrupted: the same command again goes on from here")
