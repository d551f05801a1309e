"""Labels as they are given: whatever happens, the file holds exactly what was acknowledged."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from files import read_jsonl, write_jsonl
from hypothesis import given
from hypothesis import strategies as st
from label_sessions import MARKUP, N, label, session_in

from judges.labels.readers import read_labels, read_pairs
from judges.labels.types import LabelError
from optimize.label_page.label_log import ClickError
from optimize.label_page.session import Click, JudgeAnswer, LabelSession

ANSWERS: dict[str, list[Any]] = {"rating": [1, 2, 3, 4, 5], "pairwise": ["A", "B", "tie"]}


@pytest.fixture
def start(here):
    """Starts sessions on one file, and closes them after the test."""
    sessions = []

    def start_session(**about):
        sessions.append(session_in(here, **about))
        return sessions[-1]

    yield start_session
    for session in sessions:
        with suppress(ClickError):  # whose file the test has changed
            session.label_log.close()


def label_all(session: LabelSession, who: str, values: list[Any]) -> None:
    for item, value in enumerate(values):
        label(session, who, value, item)


def undo(session: LabelSession, who: str) -> Any:
    return session.undo(Click(annotator=who))


def test_skips_and_doubts_are_no_labels_for_other_commands(start):
    session = start()
    first = session.state("Ann")["item"]["item"]
    second = label(session, "Ann", "", first, mark="skipped")["item"]["item"]
    state = label(session, "Ann", "", second, mark="unsure", comment="either way")
    assert (state["done"], state["unsure"]) == (0, 1)
    for _ in range(N - 2):
        state = label(session, "Ann", 4, state["item"]["item"])
    # What was skipped comes again at the end, what is unsure does not.
    assert state["item"]["item"] == first
    assert label(session, "Ann", 2, first)["item"] is None
    assert session.label_log.close() == N - 1
    skip, unsure = (line for line in read_jsonl(session.path) if line["rating"] is None)
    assert (skip["skipped"], unsure["unsure"]) == (True, True)
    labels = read_labels(session.path)
    assert not {"skipped", "unsure", "comment"} & {*labels.outputs[0].texts, *labels.reading.unread}
    assert sum(bool(output.ratings) for output in labels.outputs) == N - 1
    # A session that goes on passes over them, too, and an undo takes a mark back.
    again = start()
    assert again.state("Ann")["item"] is None
    assert label(again, "Ben", "", first, mark="unsure")["unsure"] == 1
    assert undo(again, "Ben")["unsure"] == 0


@contextmanager
def room_for(path: Path, n_bytes: int) -> Iterator[None]:
    """The kernel lets no file of this process become longer than this one and so much more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def read_back(path: Path, kind: str) -> Any:
    """What the readers of labels find in a label file: the labels of each output, in order."""
    with suppress(LabelError):  # where nothing stands
        if kind == "pairwise":
            return {pair.id: sorted(pair.votes) for pair in read_pairs(path).pairs}
        outputs = read_labels(path, dimensions=["helpful"]).outputs
        return {o.id: sorted(o.ratings["helpful"]) for o in outputs if o.ratings}
    return {}


NAMES = st.sampled_from(["Anna", "Ben B."])
COMMENTS = st.sampled_from(["", "", "two\nlines: “é” ", "A is better"])
LABELS = st.tuples(st.integers(0, N - 1), st.integers(0, 4), COMMENTS)
STEPS = st.one_of(
    st.tuples(st.just("label"), NAMES, LABELS),
    st.tuples(st.just("undo"), NAMES, st.none()),
    st.tuples(st.just("full"), NAMES, st.integers(0, 150)),
    st.tuples(st.just("restart"), NAMES, st.sampled_from(["", "killed", "no line break"])),
)


@given(st.lists(STEPS, max_size=20), st.sampled_from([*ANSWERS]))
def test_every_acknowledged_label_is_in_the_file(steps, kind):
    """Labels, undos, full disks, kills and restarts."""
    answers, standing = ANSWERS[kind], dict[tuple[str, int], tuple[Any, str]]()
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "labels.jsonl"
        session = session_in(folder, kind)
        for word, who, step in steps:
            lines = path.read_bytes()
            if word == "label":
                item, number, comment = step
                value, stands = answers[number % len(answers)], standing.get((who, item))
                before, entry = stands and stands[0], (value, comment.strip())
                label(session, who, value, item, comment=comment, before=before)
                assert (path.read_bytes() == lines) is (entry == stands)
                if entry != stands:  # the last that was given is the first to be undone
                    standing.pop((who, item), None)
                    standing[who, item] = entry
            elif word == "undo":
                mine, state = [key for key in standing if key[0] == who], undo(session, who)
                if mine:
                    value, comment = standing.pop(mine[-1])
                    assert state["item"]["item"] == mine[-1][1]
                    assert state["item"]["undone"] == {"value": value, "comment": comment}
            elif word == "full" and (shown := session.state(who)["item"]):
                with room_for(path, step), pytest.raises(ClickError, match="not saved") as error:
                    label(session, who, answers[0], shown["item"])
                assert (error.value.status, path.read_bytes()) == (507, lines)
            elif word == "restart":
                session.label_log.close()
                cut_off = b'{"id": "o1", "group": "d0", "docum' if step == "killed" else b""
                whole = lines.removesuffix(b"\n") if step == "no line break" else lines
                path.write_bytes(whole + cut_off)
                session = session_in(folder, kind)
                assert (path.read_bytes(), len(session.label_log.notes)) == (lines, bool(cut_off))
            assert path.read_bytes().startswith(lines)
            assert session.state(who)["done"] == sum(key[0] == who for key in standing)
        session.label_log.close()
        with pytest.raises(ClickError, match="has ended"):
            label(session, "Anna", answers[0], 0)
        labels: dict[str, list[Any]] = {}
        for (_, item), (value, _) in standing.items():
            labels.setdefault(session.rows[item]["id"], []).append(value)
        assert read_back(path, kind) == {name: sorted(each) for name, each in labels.items()}


def test_a_window_replaces_only_the_label_that_it_shows(start):
    session = start()
    label(session, "Anna", 1, 0)
    for before in (None, 3):
        with pytest.raises(ClickError, match="in another window") as error:
            label(session, "Anna", 2, 0, before=before)
        assert error.value.status == 409
    assert [row["rating"] for row in read_jsonl(session.path)] == [1]


def test_a_documents_outputs_come_together_in_seeded_order(start):
    session = start()
    state, places = session.state("Anna"), []
    while (item := state["item"]) is not None:
        assert not {"id", "system"} & {*item}
        places.append((item["document"], item["place"], item["texts"][0]["text"]))
        state = label(session, "Anna", 3, item["item"])
    assert [place[:2] for place in places] == [(d, p) for d in (1, 2, 3) for p in (1, 2)]
    assert len({(document, text) for document, _, text in places}) == 3
    assert state["done"] == state["outputs"] == N
    firsts = [start(seed=n // 2).state(f"{n}")["item"] for n in range(60)]
    assert firsts[::2] == firsts[1::2]
    assert len({str(item["judged"]) for item in firsts}) == N


def test_a_line_of_the_log_has_the_output_and_the_label(start):
    session = start()
    label(session, "Anna", 4, 0, comment=" Fine. ")
    (row,) = read_jsonl(session.path)
    n = int(row["id"][1])
    output = {"id": f"o{n}", "group": f"d{n // 2}", "system": f"s{n % 2}"}
    output |= {"document": f"Text {n // 2}.", "summary": f"{MARKUP} summary {n}."}
    fields = {"dimension": "helpful", "rating_scale": "1-5", "annotator": "Anna", "rating": 4}
    assert datetime.fromisoformat(row.pop("labelled_at")) <= datetime.now(UTC)
    assert row == output | fields | {"comment": "Fine."}


def test_agreement_counts_only_labels_given_before_the_review(start):
    session = start()
    label_all(session, "Anna", [1, 5, 3, 4])
    label_all(session, "Ben", [1, 3, 3])
    label(session, "Ben", 5, 1, before=3, after="annotators")
    undo(session, "Ben")
    label(session, "Ben", 5, 1)  # he knows what Anna said, so it is not blind, either
    label_all(session, "Cem", [1, 5])
    label_all(session, "Dee", [1, 5])
    # Cem's with Dee is not for her.
    row, *others = start().state("anna")["agreement"]
    assert (row["annotators"], row["n"], len(others)) == (["Anna", "Ben"], 3, 2)
    # 1 less the sum of squared differences, 4, over that of all labels crossed, by chance.
    by_chance = sum((a - b) ** 2 for a in (1, 5, 3) for b in (1, 3, 3)) / 3
    assert row["equal"] == pytest.approx(2 / 3)
    assert row["kappa"] == pytest.approx(1 - 4 / by_chance)
    marks = [row.get("changed_after") for row in read_jsonl(session.path)]
    assert marks == [None] * 7 + ["annotators"] + [None] * 6


def test_the_review_shows_annotators_before_the_judge(start):
    judge = {f"o{i}": JudgeAnswer(2, 2.0, "why") for i in range(N)}
    del judge[start().rows[4]["id"]]  # it failed
    session = start(judge_answers=judge)
    label_all(session, "Anna", [4, 1, 2, 2, 5])
    label_all(session, "Ben", [2, 2, 2, 3])
    items = session.review("Anna")["items"]
    assert [(item["item"], item["after"]) for item in items] == [(0, "annotators"), (1, "judge")]
    assert items[0]["judge"] is None
    assert items[0]["others"] == [{"annotator": "Ben", "value": 2, "comment": ""}]
    assert items[1]["judge"] == {"value": 2, "score": 2.0, "reason": "why"}
    assert (items[1]["others"], items[1]["own"]["value"]) == ([], 1)
    state = session.state("Anna")
    # Of the judge nothing shows while labels are given.
    assert (state["disagreements"], state["has_judge"]) == (1, True)
    assert "why" not in str(state)
    # Whoever comes to agree with the other is done.
    assert label(session, "Anna", 2, 0, before=4, after="annotators")["disagreements"] == 0
    assert label(session, "Anna", 2, 5)["disagreements"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"summary": "Another."}, "summary is 'Another.', but in this session \"<script>"),
        ({"rating": 9}, "9 is not a possible answer"),
        ({"rating_scale": "1-7"}, "rating_scale is '1-7', but in this session '1-5'"),
        ({"annotator": None}, "is not a label"),
        *((text, "is not a label from this page") for text in ("hello", "[1]", "[" * 9999)),
        ("id,rating\n1,2", "is not a label from this page"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(start, change, message):
    session = start()
    label_all(session, "Anna", [1, 2])
    first, second = session.path.read_text().splitlines()
    second = change if isinstance(change, str) else json.dumps(json.loads(second) | change)
    session.path.write_text(f"{first}\n{second}\n")
    before = session.path.read_bytes()
    with pytest.raises(LabelError, match=f"labels.jsonl, line 2: .*{message}.* --out"):
        start()
    assert session.path.read_bytes() == before


def test_labels_of_other_outputs_and_dimensions_stay_and_are_counted(start):
    session = start()
    label_all(session, "Anna", [1, 2, 3])
    others = [{}, {"id": "x"}, {"dimension": "y"}]
    rows = [row | other for row, other in zip(read_jsonl(session.path), others, strict=True)]
    write_jsonl(session.path, rows)
    again = start()
    assert again.label_log.notes == ["ignored 2 lines on other outputs or dimensions"]
    assert again.state("Anna")["done"] == 1
    assert label(again, "Anna", 2, 1)["done"] == 2
    assert read_jsonl(session.path)[:3] == rows


@pytest.mark.parametrize("change", ["moved", "deleted", "cut", "grown"])
def test_after_a_foreign_change_nothing_is_saved(start, here, change):
    session = start()
    label_all(session, "Anna", [1, 2])
    path, content = session.path, session.path.read_bytes()
    if change in ("moved", "deleted"):
        path.rename(here / "moved.jsonl")
    left = {"moved": content, "cut": content[:-9], "grown": content + b'{"id": "o1'}.get(change)
    if left is not None:
        path.write_bytes(left)
    for act in (
        lambda: label(session, "Anna", 1, 2),
        lambda: undo(session, "Anna"),
        lambda: session.state("Anna"),
        lambda: session.review("Anna"),
        session.label_log.close,
    ):
        with pytest.raises(ClickError, match=f"{path}: another program changed the file") as error:
            act()
        assert error.value.status == 507
    assert (path.read_bytes() if path.exists() else None) == left
