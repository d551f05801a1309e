"""Streams that end early, are full or lack letters, and Ctrl-C: what a command does, and says."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jsonl import write_jsonl
from openai_server import OpenAIServer, hang_from
from processes import TIMEOUT, end_of, run_python, start_command, until
from rating_files import weather_rows

from dspy_judges.startup import exit_on_ctrl_c

pytestmark = pytest.mark.usefixtures("here")
COMMANDS = {
    "check": ("check labels.jsonl", 0),
    "verify": ("verify relevance --data labels.jsonl --min-spearman 0.99", 3),
    "tune": ("tune --dimension relevance --data labels.jsonl --out run", 0),
}


@pytest.mark.parametrize(("name", "n_read"), [*((name, 0) for name in COMMANDS), ("check", 150)])
def test_a_reader_that_leaves_decides_nothing(name: str, n_read: int) -> None:
    write_jsonl("labels.jsonl", weather_rows(12, 4))
    line, code = COMMANDS[name]
    command = [sys.executable, "-m", "dspy_judges", *line.split()]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    running = subprocess.Popen(command, bufsize=0, **piped)  # type: ignore[call-overload]
    said = running.stdout.read(n_read)
    running.stdout.close()
    assert running.wait(TIMEOUT) == code, said
    assert Path("run/summary.json").exists() == (name == "tune")


def shell(line: str) -> tuple[int, str, str]:
    line = line.replace("dspy-judges", f"{sys.executable} -m dspy_judges")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


FULL = (1, "", "dspy-judges: stdout: No space left on device\n")
GONE = (1, "", "dspy-judges: the working folder is gone; change to one that exists\n")
needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="no device that is always full"
)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("dspy-judges --help | true; echo ${PIPESTATUS[0]}", (0, "0\n", "")),
        pytest.param("dspy-judges --help > /dev/full", FULL, marks=needs_full),
        pytest.param("dspy-judges check starter --json > /dev/full", FULL, marks=needs_full),
        ("mkdir gone && cd gone && rmdir ../gone && dspy-judges list", GONE),
    ],
)
def test_a_result_with_nowhere_to_go_is_one_line(line: str, result: tuple[int, str, str]) -> None:
    assert shell(line) == result


def test_what_an_encoding_lacks_is_escaped_as_in_json() -> None:
    definition = "name: kind\ndefinition: 答え 😀\ninputs: [answer]\nscale: [1, 2]\nanchors: {}\n"
    Path("kind.yaml").write_text(definition, "utf-8")
    shown = shell("PYTHONIOENCODING=ascii dspy-judges show kind.yaml")
    assert (shown[0], shown[2]) == (0, "")
    assert shown[1].startswith("kind: \\u7b54\\u3048 \\ud83d\\ude00\n")


def test_ctrl_c_ends_a_command_that_is_loaded_at_once_and_afterwards_as_ever() -> None:
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


def test_ctrl_c_while_tuning_says_how_to_go_on(openai_server: OpenAIServer) -> None:
    openai_server.models, openai_server.latency = ("gpt-4.1-mini",), 0.1
    openai_server.fault = hang_from(8)
    flags = ["--dimension", "relevance", "--lm", "openai/gpt-4.1-mini", "--out", "run"]
    running = start_command("tune", *flags)
    until(lambda: len(openai_server.log) >= 2 or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    code, err = end_of(running)
    assert code == 130
    assert err.splitlines()[-1].endswith("interrupted: the same command again goes on from here")
