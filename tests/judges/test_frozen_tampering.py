"""A frozen judge that somebody changed, forged or made up is refused with one line."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frozen_cases import SAVED
from hypothesis import given, settings
from hypothesis import strategies as st

import judges
from judges import frozen
from judges.frozen import FrozenJudgeError, JudgeFile
from judges.judge import Judge


def loaded(raw: bytes | str) -> Judge:
    file = frozen.loads(raw.encode() if isinstance(raw, str) else raw)
    assert isinstance(file, JudgeFile)
    return Judge.of_file(file)


def within(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A saved judge with something changed, and the digest made right again."""
    document = json.loads(SAVED.dumps())
    change(document)
    document["digest"] = frozen.digest(document)
    return json.dumps(document).encode()


# Tampering without the digest.
@pytest.mark.parametrize("old", ['"rating": 3', "Judge the relevance", '"embedded"', "weighted"])
def test_a_changed_file_is_refused(old: str) -> None:
    text = SAVED.dumps()
    new = {'"rating": 3': '"rating": 5', '"embedded"': '"openai/x"', "weighted": "one"}
    tampered = text.replace(old, new.get(old, "Judge the length of"))
    assert tampered != text
    with pytest.raises(FrozenJudgeError, match="digest does not match"):
        loaded(tampered)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_single_changed_character_goes_unseen(data: st.DataObject) -> None:
    text = SAVED.dumps()
    place = data.draw(st.integers(0, len(text) - 2))
    character = data.draw(st.sampled_from(["x", "0", "7", '"', "{", "\\", " ", "é", "\x00"]))
    changed_text = text[:place] + character + text[place + 1 :]
    try:
        again = loaded(changed_text)
    except FrozenJudgeError:
        return
    # What still loads differs in white space between values only.
    assert again == SAVED
    assert json.loads(changed_text) == json.loads(text)


# Tampering with the digest made right: what is inside must still be a judge.
def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


FORGED = {
    "an unknown key": (put("hook", value="os.system"), "unknown field `hook`"),
    "a missing key": (lambda document: document.pop("lm"), "missing required field `lm`"),
    "another version": (put("version", value=2), "not a dspy-judges frozen judge of version 1"),
    "a version as truth": (put("version", value=True), r"at `\$.version`"),
    "both anchors and a candidate": (
        put("subject", "candidate", value="summary"),
        "needs anchors or a candidate, and not both",
    ),
    "neither": (lambda document: document["subject"].pop("anchors"), "needs anchors or"),
    "no slot": (put("messages", -1, "content", value="Rate 5."), "one {{slot}} for each"),
    "a demonstration whose reply is missing": (
        put("messages", 0, value={"role": "assistant", "content": "5"}),
        "a user and an assistant message",
    ),
    "an image by DSPy's mark": (
        put("messages", 0, "content", value='<<CUSTOM-TYPE-START-IDENTIFIER>>[{"type": "x"}]'),
        "does not send as text",
    ),
    "a demo off the scale": (put("program", "demos", 0, "rating", value=6), "rating 6; allowed"),
    "a demo with a field more": (
        put("program", "demos", 0, "x", value="y"),
        "not the fields of the prompt",
    ),
    "a plan of many": (
        put("sampling", "samples", value=3),
        "plan 'weighted' cannot have 3 samples",
    ),
    "an endless temperature": (
        put("sampling", "temperature", value=10**4000),
        "not a frozen judge",
    ),
    "a lm with a line break": (put("lm", value="a\nb"), r"at `\$.lm`"),
    "an input named like code": (
        put("subject", "inputs", value={"__class__": "x"}),
        "matching regex",
    ),
    "a data hash that is none": (
        put("provenance", value={"data": {"name": "x", "sha256": "abc"}}),
        r"at `\$.data.sha256`",
    ),
}


@pytest.mark.parametrize(("change", "why"), FORGED.values(), ids=FORGED)
def test_a_forged_file_is_refused_with_one_line(
    change: Callable[[dict[str, Any]], object], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "judge.json"
    path.write_bytes(within(change))
    with pytest.raises(FrozenJudgeError, match=why) as caught:
        judges.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 650


class Evil:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return (os.mkdir, ("pwned",))


HOSTILE = {
    "a pickle": (pickle.dumps(Evil()), "malformed|Invalid UTF-8"),
    "a list": (b"[]", "got `array`"),
    "deep nesting": (b'{"a":' + b"[" * 400_000, "nested too deeply"),
    "NaN": (b'{"version": NaN}', "malformed"),
    "a huge number": (b'{"version": 1' + b"0" * 5000 + b"}", "out of range|version 1"),
    "brackets": (b'{"a":[' + b"[]," * 6_000_000 + b"0]}", "or 500,000 brackets"),
    "python": (b"__import__('os').mkdir('pwned')", "malformed"),
}


@pytest.mark.parametrize(("raw", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_with_one_line(
    raw: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("judge.json").write_bytes(raw)
    with pytest.raises(FrozenJudgeError, match=why) as caught:
        judges.load("judge.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert not Path("pwned").exists()


def test_a_file_of_100_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(FrozenJudgeError, match="more than 20,000,000 bytes"):
        judges.load(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FrozenJudgeError, match="No such file"):
        judges.load(tmp_path / "none.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FrozenJudgeError, match="not a regular file"):
        judges.load(pipe)
