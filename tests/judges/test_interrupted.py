"""Runs over HTTP that are faulty, killed, interrupted or out of budget: nothing is paid twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from judges.client.journal import describe
from openai_server import OpenAIServer, hang_from, some_faults
from processes import TIMEOUT, until

# A program that judges: one line a row to the output, in order; its replies in a journal.
PROGRAM = """
import json, sys
from pathlib import Path
from judges.client.journal import Journal
from judges.judgement import NoScoreError
from judges.client.budget import Budget, BudgetSpentError
from judges.client import FatalModelError, Sampling, open_model
from judges.client.sampler import Request
from judges.client.client import Client

def accept(reply):
    if not reply.text.strip().isdigit():
        raise NoScoreError(f"no rating in {reply.text!r}")
    return int(reply.text)

def asks(rows):
    for i in range(rows):
        system = "You write:\\n- rating (1, 2, 3, 4 or 5): how good\\nYour task:\\nRate it."
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Row {i}"}]
        yield Request(messages, Sampling(), accept)

folder, rows, most = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
account = Budget(max_calls=int(most) if most != "-" else None).account()
with Journal(folder / "journal.jsonl") as journal:
    model = open_model("openai/judge-1")
    with Client(model, journal=journal, account=account, concurrency=16, timeout=2.0) as runner:
        with open(folder / "out.jsonl", "w") as out:
            try:
                for answer in runner.run(asks(rows)):
                    row = [answer.parsed, answer.error]
                    print(json.dumps(row), file=out, flush=True)
            except (BudgetSpentError, FatalModelError) as error:
                sys.exit(str(error))
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                sys.exit(130)
"""
KEY = "sk-planted-fedcba9876543210"


def start(folder: Path, rows: int, most: str = "-") -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    arguments = [sys.executable, "-c", PROGRAM, str(folder), str(rows), most]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, complaints = process.communicate(timeout=TIMEOUT)
    return process.returncode, complaints


def output(folder: Path) -> list[str]:
    return (folder / "out.jsonl").read_text().splitlines()


def test_a_run_killed_three_times_ends_as_if_it_never_was(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    rows = 600
    for times in (1, 2, 3):
        openai_server.fault = hang_from(120 * times + 1)
        process = start(tmp_path / "killed", rows)
        until(lambda times=times: len(openai_server.log) > 120 * times)  # type: ignore[misc]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    openai_server.fault = lambda number, body: None
    assert finish(start(tmp_path / "killed", rows)) == (0, "")
    n_answered = sum(openai_server.n_answered.values())
    assert finish(start(tmp_path / "whole", rows)) == (0, "")
    assert output(tmp_path / "killed") == output(tmp_path / "whole")
    assert len(output(tmp_path / "whole")) == rows
    # At most the 16 in flight at each of the three kills are answered again.
    assert rows <= n_answered <= rows + 3 * 16


def test_an_interrupted_run_keeps_every_answer_and_says_so_cleanly(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = hang_from(151)
    process = start(tmp_path, 600)
    until(lambda: len(openai_server.log) > 150)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "interrupted\n")
    openai_server.fault = lambda number, body: None
    answered = len(openai_server.n_answered)
    kept = describe(tmp_path / "journal.jsonl").n_requests
    assert answered - 16 <= kept <= answered
    assert finish(start(tmp_path, 600)) == (0, "")
    assert sum(openai_server.n_answered.values()) <= 600 + 16


def test_faults_lose_no_row_and_nothing_is_answered_well_twice(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = some_faults(0.2)
    rows = 500
    assert finish(start(tmp_path, rows)) == (0, "")
    judged = [json.loads(line) for line in output(tmp_path)]
    assert len(judged) == rows
    assert all(len(parsed) == 1 and error is None for parsed, error in judged)
    assert set(openai_server.n_answered.values()) == {1}
    assert {seen.done for seen in openai_server.log} == {
        "answered", "429", "500", "503", "drop", "hang", "malformed", "empty", "garbage"
    }  # fmt: skip


def test_the_server_counts_no_more_calls_than_allowed(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = some_faults(0.2, ("500", "empty", "garbage"))
    code, complaint = finish(start(tmp_path, 600, "100"))
    assert (code, complaint) == (1, "the budget of 100 calls is spent; raise it and resume\n")
    assert len(openai_server.log) == 100
    assert finish(start(tmp_path, 600)) == (0, "")
    assert len(output(tmp_path)) == 600
    assert set(openai_server.n_answered.values()) == {1}


def test_a_wrong_key_stops_the_run_in_one_line_and_is_written_nowhere(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    openai_server.fault = some_faults(0.3, ("500", "drop", "malformed", "garbage"))
    code, complaint = finish(start(tmp_path, 100))
    assert code == 0, complaint
    openai_server.key = "another"
    code, refused = finish(start(tmp_path, 200))
    assert code == 1
    assert "401" in refused.splitlines()[-1]
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert KEY not in written + complaint + refused
