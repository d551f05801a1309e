"""The command `label`: what it prints, how it ends, and what it refuses before it begins."""

import json
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest
from jsonl import read_jsonl, write_jsonl
from processes import TIMEOUT, start_command, until

from dspy_judges.__main__ import main
from judges.labels.readers import read_labels
from optimize.label_page.server import Server
from optimize.label_page.session import Click, Session

ROWS = [
    {"id": f"o{i}", "group": f"d{i // 2}", "document": f"Text {i // 2}.", "summary": f"Sum {i}."}
    for i in range(6)
]
PAIRS = [
    {"id": f"p{i}", "document": f"Text {i}.", "response_a": "One.", "response_b": "Two."}
    for i in range(4)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_jsonl("outputs.jsonl", ROWS)
    write_jsonl("pairs.jsonl", PAIRS)
    write_jsonl("rated.jsonl", [{**row, "helpful": 3} for row in ROWS])
    return tmp_path


class Running:
    """The command in a process of its own, and its page."""

    def __init__(self, *words: str) -> None:
        self.process = start_command("label", *words)
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if found := re.search(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", line):
                self.address = found[0]
                return
        raise AssertionError(self.process.communicate())

    def state(self, who: str = "Anna") -> Any:
        with urlopen(f"{self.address}state?annotator={who}") as answer:
            return json.load(answer)

    def label(self, value: Any, who: str = "Anna", **more: Any) -> Any:
        """Label what is shown."""
        item = self.state(who)["item"]["item"]
        click = {"annotator": who, "item": item, "value": value, **more}
        kind = {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.address}label", json.dumps(click).encode(), kind)) as answer:
            return json.load(answer)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """The exit code, and all that was printed to stdout."""
        self.process.send_signal(number)
        out, self.err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, "\n".join([*self.lines, out])


@pytest.fixture
def start() -> Iterator[Any]:
    running: list[Running] = []

    def begin(*words: str) -> Running:
        running.append(Running(*words))
        return running[-1]

    yield begin
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


Serve = Callable[..., int]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Runs the command in this process; `work` on its session, then Ctrl-C, replaces serving."""

    def run(work: Callable[[Session], None], *words: str) -> int:
        def serve_forever(server: Server) -> None:
            work(server.session)
            raise KeyboardInterrupt

        monkeypatch.setattr(Server, "serve_forever", serve_forever)
        return main(["label", *words])

    return run


def label(session: Session, value: Any, **more: Any) -> Any:
    """Label what is shown to Anna."""
    item = session.state("Anna")["item"]["item"]
    return session.label(Click(annotator="Anna", item=item, value=value, **more))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """The exit code and the one line of a command that opens no page."""
    try:
        code: object = main(["label", *words])
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return code, err


def test_it_serves_until_ctrl_c_and_says_what_comes_next(start: Any) -> None:
    running = start("outputs.jsonl", "--dimension", "relevance")
    assert [a["value"] for a in running.state()["task"]["answers"]] == [1, 2, 3, 4, 5]
    running.label(4)
    running.label(5, "Ben")
    code, out = running.end()
    assert (code, running.err) == (0, "")
    assert "labels go to outputs.relevance.jsonl" in out
    assert "2 labels in outputs.relevance.jsonl" in out
    assert "next: dspy-judges tune --data outputs.relevance.jsonl --dimension relevance" in out
    assert max(len(line) for line in out.splitlines()) <= 100
    labelled = read_labels("outputs.relevance.jsonl", dimensions=["relevance"])
    assert [o.ratings for o in labelled.outputs] == [{"relevance": (4.0, 5.0)}]
    assert not list(Path().glob(".*.lock"))


def test_where_nothing_was_labelled_it_does_not_say_tune(serve: Serve, capsys: Any) -> None:
    def is_unsure(session: Session) -> None:
        label(session, "", mark="unsure")

    assert serve(is_unsure, "outputs.jsonl", "--dimension", "relevance") == 0
    out = capsys.readouterr().out
    assert out.endswith("nothing was labelled\n")
    assert "tune" not in out


def test_a_command_killed_while_labels_are_posted_keeps_what_it_acknowledged_and_goes_on(
    start: Any,
) -> None:
    running, saved = start("outputs.jsonl", "--dimension", "helpful"), Counter[str]()

    def clicks(who: str) -> None:
        with suppress(OSError, HTTPException):
            for done in range(1, len(ROWS) + 1):
                running.label("pass", who, comment="c" * 2000)
                saved[who] = done

    names = ["Anna", "Ben", "Cem", "Dee"]
    threads = [Thread(target=clicks, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    until(lambda: saved.total() > 5)
    running.process.kill()
    for thread in threads:
        thread.join()
    path = Path("outputs.helpful.jsonl")
    path.write_bytes(path.read_bytes() + b'{"id": "o')  # as a kill within a write leaves it
    again = start("outputs.jsonl", "--dimension", "helpful")
    for name in names:
        assert again.state(name)["done"] - saved[name] in (0, 1)  # one may be saved, unanswered
    n_lines = len(path.read_bytes().splitlines())
    again.label("fail", "Eve")
    assert again.end()[0] == 0
    assert "a last line that was cut off is removed" in again.err
    assert [row["annotator"] for row in read_jsonl(path)][n_lines:] == ["Eve"]


def test_a_link_that_the_user_names_is_one_file_under_one_lock(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.jsonl").symlink_to("real.jsonl")
    words = ("outputs.jsonl", "--dimension", "helpful", "--out")

    def work(session: Session) -> None:
        label(session, "pass")
        capsys.readouterr()
        code, line = refused(capsys, *words, "real.jsonl")
        assert (code, "real.jsonl is in use by another run" in line) == (1, True)

    assert serve(work, *words, "link.jsonl") == 0
    assert (len(read_jsonl("real.jsonl")), Path("link.jsonl").is_symlink()) == (1, True)


def test_a_link_that_the_user_did_not_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("outputs.helpful.jsonl").symlink_to("login")
    code, line = refused(capsys, "outputs.jsonl", "--dimension", "helpful")
    assert (code, "outputs.helpful.jsonl: is a link" in line) == (1, True)
    assert not Path("login").exists()


def test_where_another_program_changed_the_file_no_count_is_printed(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(session: Session) -> None:
        label(session, "pass")
        session.path.write_bytes(b"")

    assert serve(work, "outputs.jsonl", "--dimension", "helpful") == 1
    out, err = capsys.readouterr()
    assert "label in" not in out
    assert "another program changed it" in err


@pytest.mark.parametrize(
    ("words", "values", "keys"),
    [
        (("--dimension", "helpful"), ["pass", "fail"], "pf"),
        (("--dimension", "clear=It is.", "--scale", "1-10"), [*range(1, 11)], "1234567890"),
        (("--dimension", "clear", "--scale", "-1:1"), [-1, 0, 1], "123"),
        (("--dimension", "mine.yaml"), ["good", "bad"], "gb"),
        (("--pairwise", "tldr_concise"), ["A", "tie", "B"], "atb"),
    ],
)
def test_every_task_has_its_answers_and_keys(
    serve: Serve, words: tuple[str, ...], values: list[Any], keys: str
) -> None:
    definition = "name: mine\ndefinition: It is.\ninputs: [summary]\nscale: [good, bad]\n"
    Path("mine.yaml").write_text(definition)

    def work(session: Session) -> None:
        state = session.state("Anna")
        answers = state["task"]["answers"]
        assert [answer["value"] for answer in answers] == values
        assert "".join(answer["key"] for answer in answers) == keys
        assert [text["name"] for text in state["item"]["texts"]] == ["document"]
        assert label(session, values[0])["done"] == 1

    assert serve(work, "pairs.jsonl" if "--pairwise" in words else "outputs.jsonl", *words) == 0


def test_how_documents_were_drawn_is_copied(serve: Serve) -> None:
    drawn = {"sampling_weight": 2.5, "sampling_from": 90}
    write_jsonl("drawn.jsonl", [row | drawn for row in ROWS])
    assert (
        serve(lambda session: label(session, "pass"), "drawn.jsonl", "--dimension", "helpful") == 0
    )
    (row,) = read_jsonl("drawn.helpful.jsonl")
    assert drawn.items() <= row.items()


def test_a_judge_is_asked_first_and_seen_in_the_review_alone(serve: Serve) -> None:
    def work(session: Session) -> None:
        state = session.state("Anna")
        assert state["has_judge"]
        assert "score" not in json.dumps(state["item"])
        for _ in ROWS:
            state = label(session, 1, comment="no")
        shown = session.review("Anna")["items"]
        assert len(shown) == state["disagreements"] > 0
        assert {item["after"] for item in shown} == {"judge"}
        assert all(abs(item["judge"]["score"] - 1) >= 1 for item in shown)

    assert serve(work, "outputs.jsonl", "--dimension", "relevance", "--judge", "relevance") == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("outputs.jsonl",), 2, "one of the arguments --dimension --pairwise is required"),
        (("none.jsonl", "--dimension", "x"), 1, "does not exist"),
        (("outputs.jsonl", "--pairwise", "x"), 1, "two columns of candidates"),
        (("pairs.jsonl", "--dimension", "x"), 1, "--pairwise"),
        (("outputs.jsonl", "--dimension", "tldr_concise"), 2, "--pairwise"),
        (("outputs.jsonl", "--dimension", "relevence"), 2, "did you mean relevance? If not, say"),
        (("rated.jsonl", "--dimension", "helpfull"), 2, "did you mean helpful? If not, say"),
        (("pairs.jsonl", "--pairwise", "relevance"), 2, "--dimension"),
        (("outputs.jsonl", "--dimension", "x", "--scale", "0-10"), 2, "as in --scale 1-10"),
        (("outputs.jsonl", "--dimension", "x", "--scale", "any"), 2, "as in 1-5"),
        (("outputs.jsonl", "--dimension", "x", "--scale", "good"), 2, "LOW-HIGH"),
        (("pairs.jsonl", "--pairwise", "x", "--scale", "1-5"), 2, "a scale is for ratings"),
        (("outputs.jsonl", "--dimension", "x="), 2, "leave out the ="),
        (("outputs.jsonl", "--dimension", "x", "--out", "x.csv"), 2, "ends with .jsonl"),
        (("outputs.jsonl", "--dimension", "x", "--out", "outputs.jsonl"), 2, "holds the outputs"),
        (("outputs.jsonl", "--dimension", "x", "--out", "no/x.jsonl"), 2, "no folder no"),
        (("outputs.jsonl", "--dimension", "x", "--out", "pairs.jsonl"), 1, "is not a label from"),
        (("outputs.jsonl", "--dimension", "x", "--map", "x"), 2, "NAME=COLUMN"),
        (("outputs.jsonl", "--dimension", "x", "--judge", "relevance"), 2, "rating judge"),
        (("outputs.jsonl", "--dimension", "x", "--judge", "none"), 2, "no judge"),
        (("outputs.jsonl", "--dimension", "x", "--judge", "a", "--judge", "b"), 2, "one judge"),
    ],
)
def test_what_is_wrong_is_said_before_a_page_opens(
    words: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in Path().glob("*")}
    got, line = refused(capsys, *words)
    assert (got, message in line) == (code, True), line
    assert {path: path.read_bytes() for path in Path().glob("*")} == before
