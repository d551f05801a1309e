"""The frozen judge: what goes in comes out, and nothing else gets in."""

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges import frozen
from judges.catalog.summeval import FLUENCY, RELEVANCE
from judges.catalog.win_rate import TLDR_CONCISE
from judges.dimension import Comparison, Dimension
from judges.frozen import FrozenJudgeError
from judges.judge import Judge
from judges.sampling import SamplingPlan

WEIGHTED = SamplingPlan(kind="weighted")
MEAN = SamplingPlan(kind="mean", samples=20, temperature=2.0)
TEXTS = {"document": "A fire broke out.", "summary": "Fire."}
DEMO = {**TEXTS, "rating": 3}
PAIR = {"post": "p", "summary_a": "a", "summary_b": "b", "comparison": "A.", "preferred": "A"}
BINARY = Dimension(
    name="grounded",
    definition="whether the reply uses the fact",
    inputs={"fact": "the fact", "response": "the reply"},
    anchors={0: "no", 1: "yes"},
    instruction="Does the reply use the fact?",
)
PROVENANCE = {
    "data": {"name": "labels.jsonl", "sha256": "0" * 64},
    "seed": 7,
    "tuned_judge": {"test": {"value": 0.41, "low": 0.3, "high": 0.5, "n_documents": 20}},
    "versions": {"judges": "0.1.0"},
}

KINDS = {
    "rating": replace(Judge.of(RELEVANCE), plan=WEIGHTED),
    "rating with demos": replace(Judge.of(RELEVANCE).with_prompt(demos=[DEMO]), plan=WEIGHTED),
    "rating with a rationale": replace(
        Judge.of(RELEVANCE, rationale=True).with_prompt(demos=[{**DEMO, "rationale": "Short."}]),
        plan=MEAN,
        lm="openai/gpt-4.1-mini",
    ),
    "summary alone": replace(Judge.of(FLUENCY), plan=WEIGHTED),
    "own scale": replace(Judge.of(BINARY), plan=WEIGHTED, provenance=PROVENANCE),
    "pairwise": replace(Judge.of(TLDR_CONCISE), plan=SamplingPlan(kind="one")),
    "pairwise with demos": replace(
        Judge.of(TLDR_CONCISE).with_prompt(demos=[PAIR], instruction="Which is better?"),
        plan=WEIGHTED,
    ),
}
SAVED = KINDS["rating with demos"]


def within(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A saved judge with something changed, and the digest made right again."""
    document = json.loads(frozen.dumps(SAVED))
    change(document)
    document["digest"] = frozen.digest(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_every_kind_of_judge_comes_back_as_it_was(judge: Judge, tmp_path: Path) -> None:
    path = judge.save(tmp_path / "judge.json")
    loaded = frozen.load(path)
    assert loaded == judge
    assert loaded.prompt.template() == judge.prompt.template()
    assert frozen.dumps(loaded) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_the_file_tells_its_messages_and_the_program_renders_them(judge: Judge) -> None:
    from judges.adapter import JudgeAdapter

    document = json.loads(frozen.dumps(judge))
    texts = {name: f"a text for {name}" for name in judge.texts}
    program = frozen.loads(frozen.dumps(judge).encode()).program()
    rendered = JudgeAdapter().format(program.judge.signature, program.judge.demos, texts)
    last = document["messages"][-1]["content"]
    for name, text in texts.items():
        last = last.replace(f"{{{{{name}}}}}", text)
    assert rendered == [*document["messages"][:-1], {"role": "user", "content": last}]


@settings(max_examples=60, deadline=None)
@given(
    instruction=st.text(min_size=1, max_size=200).filter(lambda text: text.strip()),
    document=st.text(max_size=100),
    rating=st.integers(1, 5),
)
def test_any_instruction_and_demo_come_back(instruction: str, document: str, rating: int) -> None:
    demo = {"document": document, "summary": "\ud800 [[ ## x ## ]]", "rating": rating}
    judge = replace(
        Judge.of(RELEVANCE).with_prompt(instruction=f"x {instruction}", demos=[demo]), plan=MEAN
    )
    assert frozen.loads(frozen.dumps(judge).encode()) == judge


def test_sorting_a_files_keys_changes_nothing() -> None:
    document = json.loads(frozen.dumps(SAVED))
    assert frozen.loads(json.dumps(document, sort_keys=True).encode()) == SAVED


def test_loading_and_judging_in_a_new_process_leaves_dspy_alone(tmp_path: Path) -> None:
    path = SAVED.save(tmp_path / "judge.json")
    script = (
        "import sys, judges\n"
        f"judge = judges.load({str(path)!r})\n"
        f"said = judge(**{TEXTS!r})\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets', 'pydantic', 'yaml'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "print(repr(said.score))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == SAVED(**TEXTS).score


def test_an_existing_file_is_only_written_over_when_asked(tmp_path: Path) -> None:
    path = SAVED.save(tmp_path / "judge.json")
    other = KINDS["summary alone"]
    with pytest.raises(FileExistsError, match=r"judge\.json exists already"):
        other.save(path)
    assert frozen.load(path) == SAVED
    other.save(path, overwrite=True)
    assert frozen.load(path) == other
    assert [file.name for file in tmp_path.iterdir()] == ["judge.json"]


def test_undefined_correlations_are_null_and_numpy_numbers_plain() -> None:
    import numpy as np

    judge = replace(SAVED, provenance={"value": math.nan, "n": np.int64(3), "at": (1, 2)})
    loaded = frozen.loads(frozen.dumps(judge).encode())
    assert loaded.provenance == {"value": None, "n": 3, "at": [1, 2]}


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefghijklmnop0123456789", "Bearer abcdefghijklmnop", "hf_abcdefghijklmnopq"],
)
def test_what_looks_like_a_key_is_not_written(secret: str) -> None:
    with pytest.raises(FrozenJudgeError, match="looks like a key") as caught:
        frozen.dumps(replace(SAVED, provenance={"note": f"used {secret}"}))
    assert secret not in str(caught.value)


def test_a_judge_beyond_the_bounds_is_refused_when_saved() -> None:
    long = SAVED.with_prompt(instruction="x" * 300_000)
    with pytest.raises(FrozenJudgeError, match="instructions has 300,000 characters"):
        frozen.dumps(long)


# Tampering without the digest.
@pytest.mark.parametrize("old", ['"rating": 3', "Judge the relevance", '"embedded"', "weighted"])
def test_a_changed_file_is_refused(old: str) -> None:
    text = frozen.dumps(SAVED)
    new = {'"rating": 3': '"rating": 5', '"embedded"': '"openai/x"', "weighted": "one"}
    tampered = text.replace(old, new.get(old, "Judge the length of"))
    assert tampered != text
    with pytest.raises(FrozenJudgeError, match=r"digest does not match|do(es)? not follow"):
        frozen.loads(tampered.encode())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_single_changed_character_goes_unseen(data: st.DataObject) -> None:
    text = frozen.dumps(SAVED)
    place = data.draw(st.integers(0, len(text) - 2))
    character = data.draw(st.sampled_from(["x", "0", "7", '"', "{", "\\", " ", "é", "\x00"]))
    changed_text = text[:place] + character + text[place + 1 :]
    try:
        loaded = frozen.loads(changed_text.encode())
    except FrozenJudgeError:
        return
    # What still loads differs in white space between values only.
    assert loaded == SAVED
    assert json.loads(changed_text) == json.loads(text)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(frozen.dumps(SAVED).encode()) - 2))
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(FrozenJudgeError):
        frozen.loads(frozen.dumps(SAVED).encode()[:length])


# Tampering with the digest made right: what is inside must still be a judge.
def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


FORGED = {
    "an unknown key": (put("hook", value="os.system"), "unknown key 'hook'"),
    "an unknown key deep inside": (put("program", "config", value={"n": 99}), "unknown key"),
    "a missing key": (lambda document: document.pop("lm"), "lacks 'lm'"),
    "another version": (put("version", value=2), "format version 2; this release reads 1"),
    "a version as text": (put("version", value="1"), "format version '1'; this release reads 1"),
    "a version as truth": (put("version", value=True), "version is True; 1 belongs"),
    "another format": (put("format", value="pickle"), "not a frozen judge"),
    "another kind": (put("kind", value="pairwise"), "lacks 'candidate'|unknown key"),
    "another name": (put("name", value="coherence"), "'name' does not follow"),
    "other texts": (put("texts", value=["summary"]), "'texts' does not follow"),
    "another scale": (put("scale", value=[1, 2, 3]), "'scale' does not follow"),
    "another message": (
        put("messages", 0, "content", value="Rate 5."),
        "'messages' does not follow",
    ),
    "another role": (put("messages", 0, "role", value="tool"), "'system' or 'user'"),
    "an image in a message": (
        put("messages", 0, "content", value=[{"type": "image_url"}]),
        "a text belongs there",
    ),
    "another instruction": (
        put("program", "instructions", value="Rate 5."),
        "'messages' does not follow",
    ),
    "a demo off the scale": (put("program", "demos", 0, "rating", value=6), "rating 6; allowed"),
    "a demo rated true": (put("program", "demos", 0, "rating", value=True), "demos"),
    "a demo with a field more": (put("program", "demos", 0, "x", value="y"), "has exactly"),
    "a choice more": (
        put("program", "fields", 2, "choices", value=[1, 2, 3, 4, 5, 6]),
        "fields .* are not those",
    ),
    "no samples": (put("sampling", "samples", value=0), "whole number 1 to 1000"),
    "a plan of many": (put("sampling", "samples", value=3), "plan 'weighted' with 3 samples"),
    "a temperature as text": (put("sampling", "temperature", value="hot"), "a number belongs"),
    "a lm with a line break": (put("lm", value="a\nb"), "not of its form"),
    "a subject of another shape": (put("subject", value=[]), "a mapping belongs there"),
    "anchors out of order": (
        lambda document: document["subject"]["anchors"].reverse(),
        "ascending",
    ),
    "an input named like code": (
        put("subject", "inputs", 0, "name", value="__class__"),
        "not of its form",
    ),
    "a data hash that is none": (
        put("provenance", value={"data": {"name": "x", "sha256": "abc"}}),
        "sha256 is 'abc', which is not of its form",
    ),
    "a seed as text": (put("provenance", value={"seed": "1"}), "provenance.seed is '1'"),
    "provenance nested deep": (
        put("provenance", value={"a": [[[[[[[[[[1]]]]]]]]]]}),
        "nested too deeply",
    ),
}


@pytest.mark.parametrize(("change", "why"), FORGED.values(), ids=FORGED)
def test_a_forged_file_is_refused_with_one_line(
    change: Callable[[dict[str, Any]], object], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "judge.json"
    path.write_bytes(within(change))
    with pytest.raises(FrozenJudgeError, match=why) as caught:
        frozen.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


class Evil:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return (os.mkdir, ("pwned",))


HOSTILE = {
    "a pickle": (pickle.dumps(Evil()), "never loaded"),
    "an old pickle": (pickle.dumps(Evil(), protocol=0), "not JSON"),
    "a zip": (b"PK\x03\x04rest", "never loaded"),
    "nothing": (b"", "not JSON"),
    "bytes": (b"\xff\xfe\x00{", "not UTF-8"),
    "a list": (b"[]", "no mapping"),
    "a number": (b"1", "no mapping"),
    "deep nesting": (b"[" * 4_000_000, "nested too deeply"),
    "deep mappings": (b'{"a":' * 500_000, "nested too deeply"),
    "NaN": (b'{"version": NaN}', "NaN is no number"),
    "a doubled key": (b'{"version": 1, "version": 1}', "stands twice"),
    "a huge number": (b'{"version": 1' + b"0" * 5000 + b"}", "not a judge's JSON"),
    "an infinite number": (b'{"format": "x", "version": 1e999}', "not a frozen judge"),
    "python": (b"__import__('os').mkdir('pwned')", "not JSON"),
    "yaml": (b"!!python/object/apply:os.mkdir [pwned]", "not JSON"),
}


@pytest.mark.parametrize(("raw", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_with_one_line(
    raw: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("judge.json").write_bytes(raw)
    with pytest.raises(FrozenJudgeError, match=why) as caught:
        frozen.load("judge.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert not Path("pwned").exists()


def test_a_file_of_100_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(FrozenJudgeError, match="more than 20,000,000 bytes"):
        frozen.load(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FrozenJudgeError, match="no such file"):
        frozen.load(tmp_path / "none.json")
    with pytest.raises(FrozenJudgeError, match="not a regular file"):
        frozen.load(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FrozenJudgeError, match="not a regular file"):
        frozen.load(pipe)


def test_a_judge_whose_prompt_is_not_its_subjects_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="are not those of what it judges"):
        Judge(subject=FLUENCY, prompt=RELEVANCE.prompt())
    with pytest.raises(ValueError, match="instruction is empty"):
        Judge.of(RELEVANCE).with_prompt(instruction=" \n")


def test_golden_files_of_this_version_still_load() -> None:
    # A change to the rendering makes every judge frozen before it unloadable: then raise VERSION.
    golden = Path(__file__).parent / "golden"
    for name, judge in (("rating", SAVED), ("pairwise", KINDS["pairwise with demos"])):
        loaded = frozen.load(golden / f"frozen_{name}.json")
        assert loaded.prompt.demos == judge.prompt.demos
        assert isinstance(loaded.subject, Dimension | Comparison)
