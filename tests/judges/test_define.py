"""A user's own dimension or comparison, from YAML or Python."""

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import judges.define
from judges.catalog.summeval import RELEVANCE
from judges.define import define, is_definition, read_subject
from judges.dimension import Comparison, Dimension, DimensionError, UnknownDimensionError
from judges.judge import Judge
from judges.loading import load

GROUNDED = """
name: grounded
definition: whether the reply uses the fact it was given
inputs: {fact: the fact, response: the reply to judge}
scale: [0, 1]
anchors: {0: ignores the fact, 1: rests on it}
"""
KINDER = """
kind: pairwise
name: kinder
definition: which reply is kinder
inputs: [query]
candidate: response
source: ours
"""


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "mine.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_a_yaml_file_defines_a_dimension(write: Write) -> None:
    subject = read_subject(write(GROUNDED))
    assert isinstance(subject, Dimension)
    assert subject.inputs == {"fact": "the fact", "response": "the reply to judge"}
    assert subject.anchors == {0: "ignores the fact", 1: "rests on it"}
    assert "whether the reply uses the fact it was given" in subject.instruction
    assert Judge.of(subject).texts == ("fact", "response")


def test_a_definition_with_a_colon_in_it_is_told_to_be_quoted(write: Write) -> None:
    text = "name: lively\ndefinition: whether it is lively: fun to read\ninputs: [response]\n"
    with pytest.raises(DimensionError, match=r"line 2: a second ': '.* goes in quotes"):
        read_subject(write(text))
    quoted = text.replace("whether it is lively: fun to read", '"whether it is lively: fun"')
    assert "lively: fun" in read_subject(write(quoted + "scale: [1, 3]\n")).instruction


def test_a_yaml_file_defines_a_comparison(write: Write) -> None:
    subject = read_subject(write(KINDER))
    assert isinstance(subject, Comparison)
    assert subject.fields == ("response_a", "response_b")
    assert load(write(KINDER)).texts == ("query", "response_a", "response_b")


def test_a_list_of_definitions_is_picked_from_by_name(write: Write) -> None:
    path = write(
        "- {name: a, definition: d, inputs: [x], scale: [1, 5]}\n"
        "- {kind: pairwise, name: b, definition: d, inputs: [x], candidate: y}\n"
    )
    assert read_subject(f"{path}:a").name == "a"
    assert load(f"{path}:b").kind == "pairwise"
    with pytest.raises(DimensionError, match=r"defines several: a, b; pick one as .*mine\.yaml:a"):
        read_subject(path)
    with pytest.raises(DimensionError, match="defines no 'c', but a, b"):
        read_subject(f"{path}:c")


def test_a_mapping_names_its_definitions_by_their_keys(write: Write) -> None:
    body = "{definition: whether it is kind, inputs: [reply], scale: [1, 3]}"
    path = write(f"kindness: {body}\nwarmth: {body}\n")
    subject = read_subject(f"{path}:warmth")
    assert (subject.name, tuple(subject.scale)) == ("warmth", (1, 2, 3))


@pytest.mark.parametrize(
    ("scale", "ratings"),
    [
        ("scale: [1, 3]", [1, 2, 3]),
        ("scale: [0, 50, 100]", [0, 50, 100]),
        ("scale: [-1, 1]", [-1, 0, 1]),
        ("anchors: {1: bad, 5: good}", [1, 2, 3, 4, 5]),
        ("scale: [0, 100]", list(range(101))),
    ],
)
def test_a_scale_runs_from_lowest_to_highest_or_is_listed(
    write: Write, scale: str, ratings: list[int]
) -> None:
    text = f"name: a\ndefinition: d\ninputs: [x]\n{scale}\n"
    subject = read_subject(write(text))
    assert isinstance(subject, Dimension)
    assert list(subject.scale) == ratings


def test_a_python_file_defines_by_variable_or_by_name(write: Write) -> None:
    path = write(
        "from judges import Comparison, Dimension\n"
        "MINE = Dimension(name='mine', definition='d', inputs={'x': 'the x'},\n"
        "                 anchors={1: '', 2: ''}, instruction='Judge it.')\n",
        "mine.py",
    )
    assert read_subject(path) == read_subject(f"{path}:MINE") == read_subject(f"{path}:mine")
    with pytest.raises(DimensionError, match="defines no 'OTHER', but MINE"):
        read_subject(f"{path}:OTHER")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "defines no Dimension"),
        ("def f(:", "SyntaxError"),
        ("import not_installed_anywhere", "not_installed_anywhere"),
        (
            "from judges import Dimension\nD = Dimension(name='X', definition='', inputs={'a': ''},"
            " anchors={1: '', 2: ''}, instruction='i')",
            "'X' is no name",
        ),
    ],
)
def test_a_broken_python_file_is_one_clear_line(write: Write, source: str, why: str) -> None:
    with pytest.raises(DimensionError, match=why) as caught:
        read_subject(write(source, "mine.py"))
    assert "mine.py: " in str(caught.value)


def test_catalogue_names_pass_through() -> None:
    assert read_subject("relevance") is RELEVANCE
    with pytest.raises(UnknownDimensionError, match="relevance"):
        read_subject("relevanc")


@pytest.mark.parametrize("spec", ["a.yaml", "a.yml:b", "dir/a.py:NAME", "a.YAML", "C:\\x\\a.yml:b"])
def test_definitions_are_known_by_their_ending(spec: str) -> None:
    assert is_definition(spec)


@pytest.mark.parametrize("spec", ["relevance", "judge.json", "runs/x", "a.yaml.json", ".yaml:"])
def test_other_words_are_no_definitions(spec: str) -> None:
    assert not is_definition(spec)


BASE = "name: a\ndefinition: d\ninputs: [x]\nscale: [1, 5]\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty; it needs name, definition, inputs and scale"),
        ("- 1\n- 2", r"definition 1 is 1; a mapping"),
        (BASE + "colour: red", "unknown key 'colour'; known: name"),
        (BASE.replace("name: a", "name: A b"), "name is 'A b'; its form is"),
        (BASE.replace("name: a", "name: yes"), "name is True; a text"),
        (BASE.replace("definition: d\n", ""), "lacks 'definition'"),
        (BASE.replace("[x]", "[]"), "inputs has 0 entries"),
        (BASE.replace("[x]", "{}"), "names no text to judge from"),
        (BASE.replace("[x]", "[X y]"), "its form is"),
        (BASE.replace("[1, 5]", "[5, 1]"), r"the scale \[5, 1\] must ascend"),
        (BASE.replace("[1, 5]", "[1]"), "scale has 1 entries: .* length >= 2"),
        (BASE.replace("[1, 5]", "[1, 2.5]"), r"scale\[1\] is 2.5; a whole number"),
        (BASE.replace("[1, 5]", "[0, 500]"), "501 ratings"),
        (BASE.replace("[1, 5]", "1-5"), "scale is '1-5'; a list"),
        (BASE.replace("scale: [1, 5]", ""), "needs a scale of two ratings or more"),
        (BASE + "anchors: {6: x}", r"anchors \[6\] are not on the scale"),
        (BASE + "anchors: {one: x}", "anchors has a key of another kind: a whole number"),
        (BASE + "candidate: y", "unknown key 'candidate'"),
        (BASE + "kind: pairwise", "unknown key 'scale'; known: name, definition"),
        (BASE.replace("[x]", "[config]"), "definition: a: a text may not be called 'config'"),
        (BASE.replace("[x]", "[rating]"), "a text may not be called 'rating'"),
        (BASE + "kind: both", "'rating' or 'pairwise'"),
        (BASE + "name: b", "line 5: the key 'name' stands twice"),
        ("a: &x [1]\nb: *x", "line 2: an alias"),
        ("a: " + "[" * 50 + "]" * 50, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("!!python/object/apply:os.mkdir [pwned]", "line 1: a tag"),
        (BASE + "source: !!bool maybe", "line 5: a tag"),
        (BASE + "source: !!timestamp x", "line 5: a tag"),
        (BASE + "? [a, b]\n: c", "line 5: a list or mapping as a key"),
        (BASE + "? {a: b}\n: c", "line 5: a list or mapping as a key"),
        (BASE + "source: 2026-99-99", "not plain YAML: month must be"),
        (BASE + "source: 2026-01-01", "source is datetime.date"),
        (BASE + "<<: [1]", "line 5: expected a mapping"),
        (BASE.replace("[1, 5]", f"[1, 0x{'f' * 5000}]"), "more than 50 digits"),
        (BASE.replace("[1, 5]", f"[1, {'9' * 5000}]"), "not plain YAML: Exceeds the limit"),
        (BASE.replace("[1, 5]", f"[1, 1{':0' * 500}]"), "more than 50 digits"),
        (BASE.replace("[1, 5]", "[1, .inf]"), "scale.1. is inf"),
        (BASE.replace("[1, 5]", "[1, 1e999]"), "scale.1. is '1e999'"),
        (f"[{'a,' * 50_000}]", "line 1: more than 20,000 values"),
        ("\n".join(f"k{i}: [a, a, a, a, a]" for i in range(5_000)), "more than 20,000 values"),
        ("{" + "x" * 900 + ": 1, " + "x" * 900 + ": 2}", "stands twice"),
        ("a: [", "line 1|line 2"),
        ("x" * 300_000, "more than 200,000 bytes"),
        ("{" + "a: {" * 100 + "}" * 101, "nested too deeply"),
    ],
)
def test_a_bad_definition_is_one_clear_line(
    write: Write, text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DimensionError, match=why) as caught:
        read_subject(write(text))
    assert "mine.yaml: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("pwned").exists()


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(DimensionError, match="no such file"):
        read_subject(str(tmp_path / "none.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DimensionError, match="not UTF-8"):
        read_subject(str(tmp_path / "bytes.yaml"))
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(DimensionError, match="not a regular file"):
        read_subject(str(tmp_path / "pipe.yaml"))


def test_two_of_one_name_are_refused(write: Write) -> None:
    one = "{name: a, definition: d, inputs: [x], scale: [1, 5]}"
    with pytest.raises(DimensionError, match="definition 2: the name 'a' is taken"):
        read_subject(write(f"- {one}\n- {one}"))


def test_the_docstrings_example_is_a_definition() -> None:
    doc = judges.define.__doc__ or ""
    blocks = [block for block in doc.split("\n\n") if block.startswith("    ")]
    subjects = [define(yaml.safe_load(textwrap.dedent(block))) for block in blocks]
    assert [subject.name for subject in subjects] == ["groundedness", "kinder"]
