"""score and winrate, killed, stopped, out of budget: the same command continues, and pays once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from behaving_model import count_answers
from files import read_jsonl, write_jsonl
from openai_server import OpenAIServer, hang_from, some_faults
from processes import end_of, start_command, wait_for_requests
from table_folder import LM

from judges.__main__ import main

pytestmark = [
    pytest.mark.usefixtures("files"),
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
]
AT_ONCE = 8
N_ROWS = 60
SCORE = ("score", "relevance", "--data", "rows.jsonl")
# Each pair is asked in both orders.
WINRATE = ("winrate", "tldr_concise", "--data", "pairs.jsonl")
REQUESTS = {SCORE: N_ROWS, WINRATE: 2 * N_ROWS}
STORE = Path("out.jsonl.replies.sqlite")


@pytest.fixture
def files(here: Path) -> None:
    """Rows and pairs in the working folder."""
    rows = [{"id": i, "document": f"Text {i}.", "summary": f"Summary {i}."} for i in range(N_ROWS)]
    write_jsonl("rows.jsonl", rows)
    pairs = [{"post": f"P {i}.", "summary_a": "x", "summary_b": f"y {i}"} for i in range(N_ROWS)]
    write_jsonl("pairs.jsonl", pairs)


def asking(*flags: str, command: tuple[str, ...] = SCORE) -> list[str]:
    usual = ("--out", "out.jsonl", "--concurrency", str(AT_ONCE), "--quiet")
    return [*command, *LM, *usual, *flags]


@contextmanager
def kill_after(server: OpenAIServer, answers: int, *flags: str, **of: Any) -> Iterator[None]:
    """A run that hangs after so many answers, and is killed when the block ends."""
    first = len(server.log) + answers
    server.fault = hang_from(first)
    running = start_command(*asking(*flags, **of))
    wait_for_requests(server, first + 1, running)
    yield
    running.kill()
    running.communicate()
    server.fault = lambda number, body: None


def left() -> set[str]:
    """The files that a run leaves beside its input."""
    return {path.name for path in Path().iterdir()} - {"rows.jsonl", "pairs.jsonl"}


@pytest.mark.parametrize(
    ("command", "answers"), [(SCORE, (1, 30)), (WINRATE, (50,))], ids=["score", "winrate"]
)
def test_a_run_killed_several_times_ends_the_same(openai_server, command, answers):
    for moment in answers:
        with kill_after(openai_server, moment, command=command):
            pass
        assert STORE.exists()
    assert main(asking(command=command)) == 0
    assert len(openai_server.n_answered) == REQUESTS[command]
    # What the server saw twice is what was in flight at a kill.
    assert len(openai_server.log) - REQUESTS[command] <= len(answers) * AT_ONCE
    assert left() == {"out.jsonl"}
    assert main(asking("--out", "whole.jsonl", command=command)) == 0
    assert Path("out.jsonl").read_text() == Path("whole.jsonl").read_text()


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_a_run_and_keeps_its_replies(openai_server, name, code):
    openai_server.latency = 0.2
    running = start_command(*asking())
    wait_for_requests(openai_server, 2 * AT_ONCE, running)
    running.send_signal(getattr(signal, name))
    status, err = end_of(running)
    assert status == code
    (line,) = err.splitlines()
    assert line.startswith("dspy-judges score: interrupted. ")
    assert line.endswith("rows are in out.jsonl.partial; run the same command again to continue")
    assert left() == {"out.jsonl.partial", STORE.name}
    # All that were under way came, and none is asked again.
    n_requests = len(openai_server.log)
    assert sum(count_answers(STORE).values()) == n_requests == len(openai_server.n_answered)
    openai_server.latency = 0.0
    assert main(asking()) == 0
    assert len(openai_server.log) == N_ROWS
    assert [row["id"] for row in read_jsonl("out.jsonl")] == list(range(N_ROWS))
    assert left() == {"out.jsonl"}


def test_a_run_ended_by_faults_goes_on_by_the_same_command(openai_server, capsys, short_waits):
    openai_server.fault = lambda number, body: "503" if number >= 20 else None
    assert main(asking()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dspy-judges score: the endpoint does not answer (503 from ")
    assert "; run the same command again once it answers. " in line
    assert line.endswith(" of 60 rows are in out.jsonl.partial")
    openai_server.fault = some_faults(0.2, ("429", "500", "drop", "malformed", "empty", "garbage"))
    assert main(asking()) == 0
    assert set(openai_server.n_answered.values()) == {1}
    rows = read_jsonl("out.jsonl")
    assert [row["id"] for row in rows] == list(range(N_ROWS))
    assert {row["judgements"]["relevance"]["failure"] for row in rows} == {None}


def test_a_run_of_unreadable_replies_asks_for_another_output(openai_server, capsys):
    rate, openai_server.judge = openai_server.judge, lambda body: "I would rather not."
    assert main(asking()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; fix the model or the judge, then name another --out")
    openai_server.judge = rate
    assert main(asking("--out", "another.jsonl")) == 0


def test_an_output_has_one_run_and_one_limit(openai_server, capsys):
    with kill_after(openai_server, 20, "--max-calls", "30"):
        assert main(asking()) == 1
        assert "out.jsonl is in use by another run" in capsys.readouterr().err
    assert main(asking("--max-calls", "30")) == 1
    message = "the budget of 30 calls is spent; run the same command again with a larger budget"
    assert message in capsys.readouterr().err
    assert len(openai_server.log) <= 30
    assert main(asking("--max-calls", "100")) == 0
    assert N_ROWS <= sum(openai_server.n_answered.values()) <= N_ROWS + AT_ONCE


def test_a_store_left_beside_its_output_is_removed(openai_server):
    assert main(asking("--max-calls", str(N_ROWS - 1))) == 1
    store = STORE.read_bytes()
    assert main(asking()) == 0
    whole = Path("out.jsonl").read_bytes()
    STORE.write_bytes(store)
    assert main(asking()) == 0
    assert Path("out.jsonl").read_bytes() == whole
    assert left() == {"out.jsonl"}


def test_only_the_same_command_continues_a_run(openai_server, capsys):
    ask = [*SCORE, "--out", "out.jsonl", *LM]
    assert main([*ask, "--max-calls", "4", "--concurrency", "1"]) == 1
    assert main([*ask, "--seed", "3", "--map", "summary=document"]) == 1
    # What counts is the columns that are read, not the words that name them.
    assert main([*ask, "--map", "summary=summary"]) == 0
    assert len(openai_server.log) == N_ROWS
    assert main(ask) == 1
    err = capsys.readouterr().err
    assert "to continue. 4 of 60 rows are in out.jsonl.partial\n" in err
    assert f"{STORE} is from other judges, rows or settings: use the same judges" in err
    assert f"continues with {STORE}" in err
    assert "out.jsonl exists already" in err
