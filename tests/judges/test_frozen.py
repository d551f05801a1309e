"""The frozen judge: what goes in comes out, what is sent stands in its file, no forgery is read."""

import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frozen_cases import KINDS, SAVED, TEXTS, forge, load_raw
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_cases import FLUENCY, RELEVANCE, ROW, WEIGHED, reprompt
from processes import run_python
from refusals import refuses

import judges
from dspy_judges.errors import OptionError
from judges.frozen import FrozenJudgeError
from judges.judge import Judge
from judges.scoring import ONE_REPLY_PLAN

Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_every_kind_of_judge_comes_back_as_it_was(judge, tmp_path):
    path = judge.save(tmp_path / "judge.json")
    again = judges.load(path)
    assert again == judge
    assert again.template() == judge.prompt.template()
    assert again.dumps() == path.read_text(encoding="utf-8")


def test_loading_and_judging_in_a_new_process_leaves_dspy_alone(tmp_path):
    cases = [(SAVED, TEXTS), (WEIGHED.with_plan(SAVED.plan), ROW)]
    paths = [str(judge.save(tmp_path / f"{n}.json")) for n, (judge, _) in enumerate(cases)]
    script = (
        "import sys, judges\n"
        f"for path, texts in {list(zip(paths, (TEXTS, ROW), strict=True))!r}:\n"
        "    said = judges.load(path)(**texts)\n"
        "    print(repr((said.score, said.answers)))\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets', 'pydantic'}\n"
        "heavy |= {'yaml', 'data'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    process = run_python("-c", script)
    assert process.returncode == 0, process.stderr
    judgements = [judge(**texts) for judge, texts in cases]
    assert process.stdout.splitlines() == [repr((one.score, one.answers)) for one in judgements]


def test_undefined_correlations_are_null_and_numpy_numbers_plain():
    judge = replace(SAVED, provenance={"value": math.nan, "n": np.int64(3), "at": (1, 2)})
    assert load_raw(judge.dumps()).provenance == {"value": None, "n": 3, "at": [1, 2]}


def test_a_judge_whose_prompt_is_not_its_subjects_cannot_be_made():
    with pytest.raises(ValueError, match="; it needs "):
        Judge(subject=FLUENCY, prompt=RELEVANCE.prompt())
    with pytest.raises(ValueError, match="instruction is empty"):
        reprompt(Judge.of(RELEVANCE), instruction=" \n")


def test_the_files_messages_are_sent_and_saved_word_for_word(openai_server):
    system = "Act as a {{strict}} judge. Reply with a number, 1 to 5."
    user = "SUMMARY {{summary}} OF <s> {{document}}. Number:"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    judge = load_raw(forge(SAVED, put("messages", value=messages)))
    openai_server.judge = lambda body: "4"
    ask: Any = judge.with_plan(ONE_REPLY_PLAN).with_model("openai/judge-1")
    assert ask(document="{{summary}} <s>", summary="S").score == 4
    (entry,) = openai_server.log
    # The text's own marker is broken and its own slot is not filled.
    user = "SUMMARY S OF <s> {{summary}} < s>. Number:"
    assert [message["content"] for message in entry.body["messages"]] == [system, user]
    assert load_raw(judge.dumps()) == judge != SAVED
    with pytest.raises(OptionError, match="a DSPy program would send other messages"):
        judge.program()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_single_changed_character_goes_unseen(data):
    text = SAVED.dumps()
    place = data.draw(st.integers(0, len(text) - 2))
    character = data.draw(st.sampled_from(["x", "0", "7", '"', "{", "\\", " ", "é", "\x00"]))
    changed_text = text[:place] + character + text[place + 1 :]
    try:
        again = load_raw(changed_text)
    except FrozenJudgeError:
        return
    # What still loads differs in white space between values only.
    assert again == SAVED
    assert json.loads(changed_text) == json.loads(text)


# Tampering with the digest made right: what is inside must still be a judge.
def put(*path: str | int, value: object) -> Change:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


REPLY = {"role": "assistant", "content": "5"}
IMAGE = '<<CUSTOM-TYPE-START-IDENTIFIER>>[{"type": "x"}]'
FORGED = {
    "an unknown key": (put("hook", value="os.system"), "unknown field `hook`"),
    "a missing key": (lambda document: document.pop("lm"), "missing required field `lm`"),
    "another version": (put("version", value=2), "not a dspy-judges frozen judge of version 1"),
    "anchors and a candidate": (put("subject", "candidate", value="reply"), "and not both"),
    "no slot": (put("messages", -1, "content", value="Rate 5."), "one {{slot}} for each"),
    "a reply alone": (put("messages", 0, value=REPLY), "a user and an assistant message"),
    "an image by DSPy's mark": (
        put("messages", 0, "content", value=IMAGE),
        "does not send as text",
    ),
    "a demo off the scale": (put("program", "demos", 0, "rating", value=6), "rating 6; allowed"),
    "a demo without a rating": (
        lambda document: document["program"]["demos"][0].pop("rating"),
        "not the fields of the prompt",
    ),
    "no fields": (put("program", "fields", value=[]), "it needs document, summary"),
    "a plan of many": (put("sampling", "samples", value=3), "cannot have 3 samples"),
    "an endless temperature": (put("sampling", "temperature", value=10**4000), "not a frozen"),
    "a lm with a line break": (put("lm", value="a\nb"), r"at `\$.lm`"),
    "code for a name": (put("subject", "inputs", value={"__class__": "x"}), "is not a name"),
}


def asking(name: str = "kind", choices: Any = ("yes", "no")) -> Change:
    """Ask a further question before the answer."""
    field = {"name": name, "description": "is it", "role": "output", "choices": [*choices]}
    return lambda document: document["program"]["fields"].insert(3, field)


FORGED_QUESTIONS = {
    "a line break in a name": (asking("a\nb"), "needs a name of lower-case letters"),
    "a huge answer": (asking(choices=(1, 10**30)), "has the answers"),
    "a truth value": (asking(choices=(True, False)), "Expected `int | str`, got `bool`"),
    "a huge weight": (put("weights", "slopes", "tone", value=10**400), "Number out of range"),
    "an unknown weight": (put("weights", "slopes", "z" * 9999, value=1), "for 'z{64}', which"),
}


@pytest.mark.parametrize(
    ("judge", "change", "why"),
    [
        *((SAVED, *case) for case in FORGED.values()),
        *((WEIGHED, *case) for case in FORGED_QUESTIONS.values()),
    ],
    ids=[*FORGED, *FORGED_QUESTIONS],
)
def test_a_forged_file_is_refused_with_one_line(judge, change, why, tmp_path):
    path = tmp_path / "judge.json"
    path.write_bytes(forge(judge, change))
    with refuses(FrozenJudgeError, why) as error:
        judges.load(path)
    assert str(error.value).startswith(str(path))


class Evil:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return (os.mkdir, ("pwned",))


HOSTILE = {
    "a pickle": (pickle.dumps(Evil()), "malformed|Invalid UTF-8"),
    "deep nesting": (b'{"a":' + b"[" * 400_000, "nested too deeply"),
    "NaN": (b'{"version": NaN}', "malformed"),
    "a huge number": (b'{"version": 1' + b"0" * 5000 + b"}", "out of range|version 1"),
    "brackets": (b'{"a":[' + b"[]," * 6_000_000 + b"0]}", "or 500,000 brackets"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("raw", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_with_one_line(raw, why):
    Path("judge.json").write_bytes(raw)
    with refuses(FrozenJudgeError, why, limit=300):
        judges.load("judge.json")
    assert not Path("pwned").exists()


@pytest.mark.usefixtures("here")
def test_what_is_no_judge_file_is_refused_without_being_read():
    os.mkfifo("pipe")
    with Path("large").open("wb") as file:
        file.truncate(100_000_000)
    Path("labels.csv").write_text("id,label\na,pass\n")
    refusals = {
        "none.json": "No such file",
        "./pipe": "not a regular file",
        "labels.csv": "a table and no judge; give labels by --data",
        "./large": "more than 20,000,000 bytes",
    }
    for path, why in refusals.items():
        with pytest.raises(FrozenJudgeError, match=why):
            judges.load(path)
