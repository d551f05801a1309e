"""The command `label`: what it prints, how it ends, and what it refuses before it begins."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from command_runs import Result, run
from files import read_jsonl, write_jsonl
from label_sessions import label
from processes import TIMEOUT, label_page, until

from dspy_judges.__main__ import main
from judges.labels.readers import read_labels
from optimize.label_page.server import LabelServer
from optimize.label_page.session import LabelSession

ROWS = [
    {"id": f"o{i}", "group": f"d{i // 2}", "document": f"Text {i // 2}.", "summary": f"Sum {i}."}
    for i in range(6)
]
TASK = ("outputs.jsonl", "--dimension")
DRAWN = {"sampling_weight": 2.5, "sampling_from": 90}
PAIRS = [
    {"id": f"p{i}", "document": f"Text {i}.", "response_a": "One.", "response_b": "Two."}
    for i in range(4)
]


@pytest.fixture(autouse=True)
def _files(here: Path) -> None:
    write_jsonl("outputs.jsonl", [row | DRAWN for row in ROWS])
    write_jsonl("pairs.jsonl", PAIRS)
    write_jsonl("rated.jsonl", [{**row, "helpful": 3} for row in ROWS])
    Path("outputs.linked.jsonl").symlink_to("login")
    definition = "name: mine\ndefinition: It is.\ninputs: [summary]\nscale: [good, bad]\n"
    Path("mine.yaml").write_text(definition)


def request(address: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address, content, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def post(address: str, who: str, value: Any, **more: Any) -> None:
    """Label what is shown."""
    item = request(f"{address}state?annotator={who}")["item"]["item"]
    request(f"{address}label", {"annotator": who, "item": item, "value": value, **more})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in this process; `work` on its session, then Ctrl-C, replaces serving."""

    def serving(work: Callable[[LabelSession], object], *words: str) -> Result:
        def serve_forever(server: LabelServer) -> None:
            work(server.session)
            raise KeyboardInterrupt

        monkeypatch.setattr(LabelServer, "serve_forever", serve_forever)
        return run(main, "label", *words)

    return serving


def refuse(code: int, message: str, *words: str) -> None:
    """A command that opens no page ends with this code and says this in its one line."""
    result = run(main, "label", *words)
    assert (result.code, message in result.stderr) == (code, True), result.stderr
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


def test_label_prints_the_file_of_labels_and_the_next_command(serve):
    def work(session: LabelSession) -> None:
        label(session, "Anna", 4)
        label(session, "Ben", 5)
        # A second command on this file meanwhile.
        refuse(1, "outputs.relevance.jsonl is in use by another run", *TASK, "relevance")

    code, out, err = serve(work, *TASK, "relevance")
    assert (code, err, [*Path().glob(".*.lock")]) == (0, "", [])
    assert "labels go to outputs.relevance.jsonl" in out
    assert "2 labels in outputs.relevance.jsonl" in out
    assert "next: dspy-judges tune --data outputs.relevance.jsonl --dimension relevance" in out
    assert max(len(line) for line in out.splitlines()) <= 100
    labelled = read_labels("outputs.relevance.jsonl", dimensions=["relevance"])
    assert [o.ratings for o in labelled.outputs] == [{"relevance": (4.0, 5.0)}]
    # How documents were drawn is copied.
    assert all(DRAWN.items() <= row.items() for row in read_jsonl("outputs.relevance.jsonl"))


@pytest.mark.parametrize(
    ("words", "note", "shown", "next_flags"),
    [
        ((), "columns not read: Customer message (to use one, name it: --map 'input=", [], ""),
        (("--map", "input=Customer message"), "", ["input"], ""),
        # The label file has the text by its new name, which `tune` reads only if it is named.
        (("--map", "policy=Customer message"), "", ["policy"], " --map policy=policy"),
    ],
)
def test_a_text_is_shown_or_named_with_the_flag_that_shows_it(
    serve, words, note, shown, next_flags
):
    message = "Where is my parcel, which I have been awaiting for a week now?"
    rows = [{"Customer message": f"{n} {message}", "Agent reply": f"{n}."} for n in range(3)]

    def work(session: LabelSession) -> None:
        label(session, "Anna", "pass")
        assert session.text_fields == shown

    task = (write_jsonl("chat.jsonl", rows), "--dimension", "ok=It is.")
    code, out, err = serve(work, *task, *words)
    assert (code, note in err, bool(err)) == (0, True, bool(note)), err
    tune_command = "next: dspy-judges tune --data chat.ok.jsonl --dimension 'ok=It is.'"
    assert out.endswith(f"{tune_command}{next_flags}\n")


def test_without_new_labels_tuning_is_not_advised(serve):
    code, out, _ = serve(
        lambda session: label(session, "Anna", "", mark="unsure"), *TASK, "relevance"
    )
    assert (code, out.endswith("nothing was labelled\n"), "tune" in out) == (0, True, False)


def test_a_killed_label_command_keeps_acknowledged_labels_and_continues():
    names, counts = ["Anna", "Ben", "Cem", "Dee"], Counter[str]()
    words, path = (*TASK, "helpful"), Path("outputs.helpful.jsonl")
    with label_page(*words) as (address, process):

        def clicks(who: str) -> None:
            with suppress(OSError, HTTPException):
                for number in range(1, len(ROWS) + 1):
                    post(address, who, "pass", comment="c" * 2000)
                    counts[who] = number

        with ThreadPoolExecutor() as pool:
            pool.map(clicks, names)
            until(lambda: counts.total() > 5)
            process.kill()
    path.write_bytes(path.read_bytes() + b'{"id": "o')  # as a kill within a write leaves it
    with label_page(*words) as (address, process):
        for name in names:  # one may be saved, unanswered
            done = request(f"{address}state?annotator={name}")["done"]
            assert done - counts[name] in (0, 1)
        n_lines = len(path.read_bytes().splitlines())
        post(address, "Eve", "fail")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, "removed the last line, which was incomplete" in err) == (0, True)
    assert [row["annotator"] for row in read_jsonl(path)][n_lines:] == ["Eve"]


@pytest.mark.parametrize(
    ("words", "values", "keys"),
    [
        ((*TASK, "helpful"), ["pass", "fail"], "pf"),
        ((*TASK, "clear=It is.", "--scale", "1-10"), [*range(1, 11)], "1234567890"),
        ((*TASK, "clear", "--scale", "-1:1"), [-1, 0, 1], "123"),
        ((*TASK, "mine.yaml"), ["good", "bad"], "gb"),
        (("pairs.jsonl", "--pairwise", "tldr_concise"), ["A", "tie", "B"], "atb"),
    ],
)
def test_every_task_has_its_answers_and_keys(serve, words, values, keys):
    def work(session: LabelSession) -> None:
        state = session.state("Anna")
        answers = state["task"]["answers"]
        assert [answer["value"] for answer in answers] == values
        assert "".join(answer["key"] for answer in answers) == keys
        assert [text["name"] for text in state["item"]["texts"]] == ["document"]
        assert label(session, "Anna", values[0])["done"] == 1

    assert serve(work, *words).code == 0


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ((*TASK, "relevance", "--judge", "relevance"), 1),
        # The words of the judge, good and bad, are those of the task.
        ((*TASK, "good=It is.", "--judge", "mine.yaml"), "pass"),
    ],
)
def test_a_judge_is_asked_first_and_shown_only_in_the_review(serve, words, value):
    def work(session: LabelSession) -> None:
        state = session.state("Anna")
        assert state["has_judge"]
        assert "score" not in json.dumps(state["item"])
        for _ in ROWS:
            state = label(session, "Anna", value, comment="no")
        items = session.review("Anna")["items"]
        assert len(items) == state["disagreements"] > 0
        assert {item["after"] for item in items} == {"judge"}
        if value == "pass":
            assert {item["judge"]["value"] for item in items} == {"fail"}
        else:
            assert all(abs(item["judge"]["score"] - 1) >= 1 for item in items)

    assert serve(work, *words).code == 0


def test_a_judge_reads_the_only_text_of_pairs_whatever_its_name(serve):
    briefing = "Since the rain came through the roof, the council met twice in the school."
    rows = [{"id": n, "Briefing": briefing, "answer_1": "One.", "answer_2": "Two."} for n in "ab"]
    words = (write_jsonl("briefings.jsonl", rows), "--pairwise", "tldr_concise")
    result = serve(lambda session: label(session, "Anna", "A"), *words, "--judge", "tldr_concise")
    assert (result.code, "tldr_concise reads post from Briefing" in result.err) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("outputs.jsonl",), 2, "one of the arguments --dimension --pairwise is required"),
        (("pairs.jsonl", "--dimension", "x"), 1, "--pairwise"),
        (("pairs.jsonl", "--pairwise", "relevance"), 2, "--dimension"),
        (("pairs.jsonl", "--pairwise", "x", "--scale", "1-5"), 2, "a scale is for ratings"),
        (("rated.jsonl", "--dimension", "helpfull"), 2, "did you mean helpful? If not, say"),
        ((*TASK, "linked"), 1, "outputs.linked.jsonl: is a link"),
        ((*TASK, "relevence"), 2, "did you mean relevance? If not, say"),
        ((*TASK, "x", "--scale", "0-10"), 2, "as in --scale 1-10"),
        ((*TASK, "x", "--scale", "any"), 2, "as in 1-5"),
        ((*TASK, "x", "--out", "x.csv"), 2, "ends in .jsonl"),
        ((*TASK, "x", "--out", "none/x.jsonl"), 1, "none/x.jsonl: the folder none does not exist"),
        ((*TASK, "x", "--out", "outputs.jsonl"), 1, "is not a label from"),
        ((*TASK, "x", "--judge", "relevance"), 2, "rating judge"),
        ((*TASK, "x", "--judge", "a", "--judge", "b"), 2, "one judge"),
        ((*TASK, "x", "--port", "99999"), 1, "leave out --port"),
        ((*TASK, "relevance", "--judge", "relevance", "--lm", "openai/m"), 1, "OPENAI_API_KEY"),
    ],
)
def test_errors_are_printed_before_a_page_opens(words, code, message):
    before = {path: path.stat().st_mtime_ns for path in Path().glob("*") if path.exists()}
    refuse(code, message, *words)
    assert before == {path: path.stat().st_mtime_ns for path in Path().glob("*") if path.exists()}
