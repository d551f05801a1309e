"""score and winrate, killed, stopped and out of budget: the same command goes on, and pays once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from answers import answered
from jsonl import read_jsonl, write_jsonl
from openai_server import OpenAIServer, hang_from, some_faults
from processes import end_of, start_command, until
from table_folder import LM

from judges.__main__ import main

pytestmark = [
    pytest.mark.usefixtures("here"),
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
]
AT_ONCE = 8
N_ROWS = 60
SCORE = ("score", "relevance", "--data", "rows.jsonl")
# Each pair is asked in both orders.
WINRATE = ("winrate", "tldr_concise", "--data", "pairs.jsonl")
REQUESTS = {SCORE: N_ROWS, WINRATE: 2 * N_ROWS}
STORE = Path("out.jsonl.replies.sqlite")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder, with rows and pairs in it."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": i, "document": f"Text {i}.", "summary": f"Summary {i}."} for i in range(N_ROWS)]
    write_jsonl("rows.jsonl", rows)
    pairs = [{"post": f"P {i}.", "summary_a": "x", "summary_b": f"y {i}"} for i in range(N_ROWS)]
    write_jsonl("pairs.jsonl", pairs)


def asking(command: tuple[str, ...], out: str = "out.jsonl", *flags: str) -> list[str]:
    return [*command, "--out", out, *LM, "--concurrency", str(AT_ONCE), "--quiet", *flags]


def start(command: tuple[str, ...] = SCORE, *flags: str) -> subprocess.Popen[str]:
    return start_command(*asking(command, "out.jsonl", *flags))


def wait_for(server: OpenAIServer, requests: int, running: subprocess.Popen[str]) -> None:
    """Wait until a running command has sent so many requests."""
    until(lambda: len(server.log) >= requests or running.poll() is not None)
    assert running.poll() is None, running.communicate()


def left() -> set[str]:
    """The files that a run leaves beside its input."""
    return {path.name for path in Path().iterdir()} - {"rows.jsonl", "pairs.jsonl"}


@pytest.mark.parametrize(
    ("command", "answers"), [(SCORE, (1, 30)), (WINRATE, (50,))], ids=["score", "winrate"]
)
def test_a_run_killed_at_several_moments_ends_as_if_it_never_was(
    openai_server: OpenAIServer, command: tuple[str, ...], answers: tuple[int, ...]
) -> None:
    for moment in answers:
        sent = len(openai_server.log)
        openai_server.fault = hang_from(sent + moment)
        running = start(command)
        wait_for(openai_server, sent + moment + 1, running)
        running.kill()
        running.communicate()
        assert STORE.exists()
    openai_server.fault = lambda number, body: None
    assert main(asking(command)) == 0
    answered = openai_server.n_answered
    assert len(answered) == REQUESTS[command]
    # What the server saw twice is what was in flight at a kill.
    assert len(openai_server.log) - REQUESTS[command] <= len(answers) * AT_ONCE
    assert left() == {"out.jsonl"}
    assert main(asking(command, "whole.jsonl")) == 0
    assert Path("out.jsonl").read_text() == Path("whole.jsonl").read_text()


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_a_run_with_one_line_and_what_was_under_way_is_kept(
    openai_server: OpenAIServer, name: str, code: int
) -> None:
    openai_server.latency = 0.2
    running = start()
    wait_for(openai_server, 2 * AT_ONCE, running)
    running.send_signal(getattr(signal, name))
    ended, err = end_of(running)
    assert ended == code
    (line,) = err.splitlines()
    assert line.startswith("dspy-judges score: interrupted: ")
    assert line.endswith("rows are in out.jsonl.partial; the same command goes on")
    assert left() == {"out.jsonl.partial", STORE.name}
    # All that were under way came, and none is asked again.
    sent = len(openai_server.log)
    assert sum(answered(STORE).values()) == sent == len(openai_server.n_answered)
    openai_server.latency = 0.0
    assert main(asking(SCORE)) == 0
    assert len(openai_server.log) == N_ROWS
    assert [row["id"] for row in read_jsonl("out.jsonl")] == list(range(N_ROWS))
    assert left() == {"out.jsonl"}


def test_an_interrupt_between_two_answers_keeps_those_in_flight(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai_server.latency = 0.2

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # When the first answer is judged, the requests of the second batch are sent.
    monkeypatch.setattr("judges.exchange.Exchange.judgement", interrupt)
    assert main(asking(SCORE)) == 130
    assert sum(answered(STORE).values()) == len(openai_server.log)


def test_a_model_that_stops_answering_ends_the_run_and_the_same_command_goes_on(
    openai_server: OpenAIServer, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)
    openai_server.fault = lambda number, body: "503" if number >= 20 else None
    assert main(asking(SCORE)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dspy-judges score: the endpoint has stopped answering (503 from ")
    assert "; the same command goes on once it answers again: " in line
    assert line.endswith(" of 60 rows are in out.jsonl.partial")
    openai_server.fault = lambda number, body: None
    assert main(asking(SCORE)) == 0
    assert set(openai_server.n_answered.values()) == {1}
    assert [row["id"] for row in read_jsonl("out.jsonl")] == list(range(N_ROWS))


def test_what_a_parent_has_ignored_stays_ignored(openai_server: OpenAIServer) -> None:
    """As nohup does with SIGHUP."""
    openai_server.latency = 0.05
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "dspy_judges"]
    running = subprocess.Popen([*ignoring, *asking(SCORE)], stdout=subprocess.DEVNULL, text=True)
    wait_for(openai_server, 3, running)
    running.send_signal(signal.SIGHUP)
    assert end_of(running)[0] == 0


def test_a_limit_holds_over_a_kill_and_a_larger_one_goes_on(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    openai_server.fault = hang_from(20)
    running = start(SCORE, "--max-calls", "30")
    wait_for(openai_server, 21, running)
    running.kill()
    running.communicate()
    openai_server.fault = lambda number, body: None
    assert main(asking(SCORE, "out.jsonl", "--max-calls", "30")) == 1
    said = "the budget of 30 calls is spent; the same command with a larger budget goes on"
    assert said in capsys.readouterr().err
    assert len(openai_server.log) <= 30
    assert main(asking(SCORE, "out.jsonl", "--max-calls", "100")) == 0
    assert N_ROWS <= sum(openai_server.n_answered.values()) <= N_ROWS + AT_ONCE


def test_a_kill_between_the_output_and_the_end_of_its_store_is_mended_by_the_same_command(
    openai_server: OpenAIServer,
) -> None:
    assert main(asking(SCORE, "out.jsonl", "--max-calls", str(N_ROWS - 1))) == 1
    kept = STORE.read_bytes()
    assert main(asking(SCORE)) == 0
    whole = Path("out.jsonl").read_bytes()
    STORE.write_bytes(kept)
    assert main(asking(SCORE)) == 0
    assert Path("out.jsonl").read_bytes() == whole
    assert left() == {"out.jsonl"}


def test_an_unfinished_run_goes_on_by_the_same_command_and_by_no_other(
    openai_server: OpenAIServer, capsys: Captured
) -> None:
    ask = [*SCORE, "--out", "out.jsonl", *LM]
    assert main([*ask, "--max-calls", "4", "--concurrency", "1"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("goes on: 4 of 60 rows are in out.jsonl.partial")
    assert main([*ask, "--seed", "3", "--map", "summary=document"]) == 1
    said = capsys.readouterr().err
    assert f"{STORE} is from other judges, rows or settings: use the same judges" in said
    # What counts is the columns that are read, not the words that name them.
    assert main([*ask, "--map", "summary=summary"]) == 0
    assert f"goes on with {STORE}" in capsys.readouterr().err
    assert len(openai_server.log) == N_ROWS
    assert main(ask) == 1
    assert "out.jsonl exists already" in capsys.readouterr().err


def test_the_embedded_model_keeps_no_replies_and_starts_again() -> None:
    Path("out.jsonl.partial").write_text("left of a run that was killed\n")
    assert main([*SCORE, "--out", "out.jsonl"]) == 0
    assert left() == {"out.jsonl"}


def test_two_runs_on_one_output_are_refused(openai_server: OpenAIServer, capsys: Captured) -> None:
    openai_server.fault = hang_from(5)
    running = start()
    wait_for(openai_server, 6, running)
    assert main(asking(SCORE)) == 1
    assert "out.jsonl is in use by another run" in capsys.readouterr().err
    running.kill()
    running.communicate()


def test_faults_lose_no_row_and_nothing_is_answered_well_twice(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)
    openai_server.fault = some_faults(0.2, ("429", "500", "drop", "malformed", "empty", "garbage"))
    assert main(asking(SCORE)) == 0
    rows = read_jsonl("out.jsonl")
    assert len(rows) == N_ROWS
    assert all(row["judgements"]["relevance"]["failure"] is None for row in rows)
    assert set(openai_server.n_answered.values()) == {1}
