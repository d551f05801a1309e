"""The progress line: figures that fit, a line that moves, and nothing else written into it."""

import io
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openai_server import OpenAIServer
from processes import TIMEOUT, until

from dspy_judges.__main__ import main
from judges import terminal as module
from judges.cli.main import command as judges_command
from judges.client.budget import Budget
from judges.client.prices import Price
from judges.client.protocol import Sampling, Usage
from judges.terminal import (
    Progress,
    duration_text,
    print_lines,
    quiet_notes,
    write_line,
    write_note,
)
from optimize.cli.tune import command as tune_command
from optimize.cli.verify import command as verify_command

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def spent(cost: float, limit: float | None = None) -> Budget:
    budget = Budget(max_cost=limit)
    account = budget.account(price=Price(per_token_in=cost, per_token_out=0.0))
    reservation = account.reserve([], Sampling(max_tokens=0))
    assert reservation is not None
    account.settle(reservation, Usage(1, 0))
    return budget


def test_the_line_tells_total_dollars_limit_and_the_time_left() -> None:
    progress = Progress(
        "search", 4100, io.StringIO(), unit="calls", exact=False, budget=spent(0.31, 2.0)
    )
    start = float(math.ceil(time.monotonic()))  # whole seconds add up exactly
    progress.done = 640
    progress.line(start)
    progress.done = 1240  # 600 in 40 s, so that 2860 take 191 s
    assert progress.line(start + 40) == (
        "search: 1,240 of about 4,100 calls, $0.31 of $2.00, about 3 min left"
    )
    assert progress.line(start + 90, ended=True) == (
        "search: 1,240 calls in 90 s, $0.31 of $2.00"
    ).replace("90 s", duration_text(start + 90 - progress._started))


def test_silence_is_told_and_a_named_wait_tells_more() -> None:
    waiting = ""
    progress = Progress("dev", 10, io.StringIO(), waiting=lambda: waiting)
    start = float(math.ceil(time.monotonic()))
    progress.step()
    progress.line(start)
    assert progress.line(start + 2) == "dev: 1 of 10 rows"
    assert progress.line(start + 12) == "dev: 1 of 10 rows, no reply for 12 s"
    waiting = "rate limit: waiting 9 s"
    assert progress.line(start + 13) == "dev: 1 of 10 rows, rate limit: waiting 9 s"


def test_no_line_is_longer_than_79_columns_on_a_terminal_and_the_first_figures_stay() -> None:
    progress = Progress(
        "a dimension with a long name of its own",
        10_000_000,
        Terminal(),
        budget=spent(1234.56, 99_999.0),
        waiting=lambda: "rate limit: waiting 5 min",
    )
    progress.done, progress.failed = 1_234_567, 12_345
    line = progress.line(time.monotonic())
    assert line.startswith("a dimension with a long name of its own: 1,234,567 of 10,000,000 rows")
    assert len(line) <= 79
    progress.name = "x" * 200
    assert len(progress.line(time.monotonic())) == 79


def test_other_lines_stand_above_the_line_which_is_drawn_again() -> None:
    stream = Terminal()
    with Progress("judging", 3, stream) as progress:
        progress.step()
        write_line("note: something else")
        logging.getLogger("judges.client.retrying").warning("the server is slow")
    shown = stream.getvalue()
    assert f"{CLEAR}note: something else\n{CLEAR}judging: 1 of 3 rows" in shown
    assert re.search(r"judging: 1 of 3 rows in \d+ s\n\Z", shown)
    if "the server is slow" in shown:  # where nobody else handles warnings, as pytest does
        assert f"{CLEAR}the server is slow\n" in shown


def test_a_log_file_gets_a_line_now_and_then_and_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    with Progress("judging", 5000, stream) as progress:
        for _ in range(5000):
            progress.step()
    assert re.fullmatch(r"judging: 5,000 of 5,000 rows in \d+ s\n", stream.getvalue())
    monkeypatch.setattr(module, "TERMINAL_INTERVAL", 0.01)
    monkeypatch.setattr(module, "FILE_INTERVAL", 0.2)
    stream = io.StringIO()
    start = time.monotonic()
    with Progress("judging", 5000, stream):
        until(lambda: stream.getvalue().count("\n") == 2)
    # The third line is the last one's.
    assert time.monotonic() - start >= 2 * 0.2
    assert stream.getvalue().count("\n") == 3
    assert "\r" not in stream.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_ctrl_c_leaves_whole_lines_and_says_how_to_go_on(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    import pty  # which Windows has none of

    openai_server.latency = 0.3
    rows = "".join(f'{{"document": "d {i}", "summary": "s {i}"}}\n' for i in range(400))
    (tmp_path / "in.jsonl").write_text(rows)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "judges", "score", "relevance", "--lm", "openai/judge-1"),
            *("--data", "in.jsonl", "--out", "out.jsonl", "--concurrency", "4"),
        ],
        cwd=tmp_path,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    os.close(follower)
    shown = b""
    while shown.count(CLEAR.encode()) < 4:
        shown += os.read(leader, 4096)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.wait(timeout=TIMEOUT) == 130
    lines = shown.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
    final = lines[-2].rpartition(CLEAR)[2]
    assert re.fullmatch(r"judging: \d+ of 400 rows in \d+ s", final), lines
    assert lines[-1].startswith("dspy-judges score: interrupted: ")
    assert "--resume to go on" in lines[-1]


def test_quiet_leaves_what_matters_and_nothing_of_progress() -> None:
    stream = Terminal()
    with quiet_notes(), Progress("judging", 2, stream) as progress:
        progress.step()
        write_note("note: few rows")
        write_line("a warning", stream)
    assert stream.getvalue() == "a warning\n"
    with Progress("judging", 1, stream):
        pass
    assert "judging: 0 of 1" in stream.getvalue()  # it holds for the block alone


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rated outputs, another judge's scores of them, and pairs."""
    folder = tmp_path_factory.mktemp("labels")
    outputs = [
        {
            "id": f"r{i}",
            "group": f"d{i // 2}",
            "system": "ab"[i % 2],
            "document": f"It rained on day {i // 2} in town {i // 2}.",
            "summary": f"Rain {'and sun ' * (i % 3)}on day {i // 2}.",
            "annotations": {"relevance": {"x": i % 5 + 1, "y": (i + 1) % 5 + 1, "z": i % 3 + 2}},
        }
        for i in range(24)
    ]
    scores = [
        {"id": row["id"], "dimension": "relevance", "score": i * 7 % 5 + 1}
        for i, row in enumerate(outputs)
    ]
    pairs = [
        {"post": f"It rained on day {i}.", "summary_a": "Rain.", "summary_b": f"Rain on {i}."}
        for i in range(4)
    ]
    for name, rows in (("outputs", outputs), ("scores", scores), ("pairs", pairs)):
        lines = (json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


RATED = "--dimension relevance --data outputs.jsonl"


@pytest.mark.parametrize(
    "words",
    [
        "winrate tldr_concise --data pairs.jsonl --out verdicts.jsonl",
        "verify relevance --data outputs.jsonl",
        f"compare {RATED} --lm embedded --scores other=scores.jsonl --out board",
        f"panel {RATED} relevance --scores other=scores.jsonl --out panel",
        f"estimate {RATED} --scores scores.jsonl",
    ],
)
def test_quiet_commands_print_their_result_alone_and_no_line_wider_than_a_terminal(
    words: str, labels: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(labels)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*words.split(), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out
    assert max(map(len, printed.out.splitlines())) <= 80


def test_a_pipe_gets_each_figure_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    figure = "relevance dataset-level rho 0.310 [0.223, 0.392] n=34 documents"
    print_lines([figure, "", "  short"])
    assert capsys.readouterr().out == f"{figure}\n\n  short\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_lines([figure, "", "  short"])
    assert capsys.readouterr().out == (
        "relevance dataset-level rho\n    0.310 [0.223, 0.392] n=34\n    documents\n\n  short\n"
    )


def test_each_command_that_tells_of_progress_can_be_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"document": "It rained.", "summary": "Rain."}\n', encoding="utf-8")
    ask = ["score", "relevance", "--data", str(rows)]
    assert judges_command([*ask, "--out", str(tmp_path / "loud.jsonl")]) == 0
    assert "judging: 1 of 1" in capsys.readouterr().err
    assert judges_command([*ask, "--out", f"{tmp_path}/a.jsonl", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "n=1" in printed.out
    assert tune_command(["--dimension", "relevance", "--dry-run", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    measured = ["relevance", "--max-calls", "1", "--quiet"]
    assert verify_command(measured) == 1  # the error that ends it stays
    assert len(capsys.readouterr().err.splitlines()) == 1
