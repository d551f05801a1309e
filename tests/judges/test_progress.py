"""Progress, notes and results in a terminal: one line that moves, and nothing written into it."""

import io
import logging
import re
import sys
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pandas
import pytest

import judges
from judges import terminal
from judges.terminal import Progress, escape_invisible, print_error, print_note, run_command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_of(stream: io.StringIO) -> list[str]:
    """What stood on the lines of a terminal, one after the other."""
    return [part.rstrip() for part in re.split(r"[\r\n]", stream.getvalue()) if part.strip()]


def test_the_line_tells_rows_dollars_limit_and_failures():
    stream = Terminal()
    budget: Any = SimpleNamespace(spent=0.31, max_cost=2.0)
    with Progress("search", 4100, stream, unit="calls", budget=budget) as progress:
        progress.n_done = 639
        progress.step(failed=True)
    *_, last = lines_of(stream)
    line = re.sub(r"<\d\d:\d\d", "<", last)
    assert line == "search: 640 of 4,100 calls [00:00<, $0.31 of $2.00, 1 failed]"
    with Progress("search", 0, stream, unit="calls") as progress:
        progress.step()
    assert lines_of(stream)[-1] == "search: 1 calls [00:00]"


def test_other_lines_stand_above_the_line(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("judging", 3, stream) as progress:
        progress.step()
        print_note("note: something else")
        logging.getLogger("judges.client").warning("the server is slow")
    lines = lines_of(stream)
    at = lines.index("note: something else")
    assert lines[at - 1].startswith("judging: 0 of 3 rows")
    assert lines[at + 1].startswith("judging: 1 of 3 rows")
    assert lines[-1].startswith("judging: 1 of 3 rows")


def test_a_frame_s_progress_is_shown_in_a_terminal_alone(monkeypatch):
    frame = pandas.DataFrame([{"summary": "It rains."}, {"summary": " "}])
    monkeypatch.setattr(terminal, "PROGRESS_DELAY_SECONDS", 0.0)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.warns(UserWarning, match="1 of 2 judgements failed"):
            judges.load("fluency").score(frame)
        last = lines_of(stream)[-1:]
        is_terminal = stream.isatty()
        assert [line.startswith("fluency: 2 of 2 rows") for line in last] == [True] * is_terminal


def test_quiet_leaves_what_matters_and_nothing_of_progress(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    def work(flags: Namespace) -> int:
        with Progress("judging", 2, stream) as progress:
            progress.step()
            print_note("note: few rows")
            print_error("a warning")
        return 0

    assert run_command("score", work, Namespace(quiet=True)) == 0
    assert stream.getvalue() == "a warning\n"
    with Progress("judging", 1, stream):
        pass
    assert "judging: 0 of 1" in stream.getvalue()  # it holds for the command alone


def test_characters_that_a_terminal_obeys_are_written_out():
    assert escape_invisible("\x1b[31mred\u202eder\u061c\r.\n\tend\r\n") == (
        "\\u001b[31mred\\u202eder\\u061c\\u000d.\n\tend\r\n"
    )
