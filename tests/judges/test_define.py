"""A user's own dimension or comparison, from YAML, and those of the catalogue."""

import os
from pathlib import Path

import pytest

from judges.__main__ import main
from judges.catalog import SUBJECT_BY_NAME, find_subject
from judges.dimension import Dimension, DimensionError, UnknownDimensionError
from judges.loading import load, read_subject

BASE = "name: a\ndefinition: d\ninputs: [x]\nscale: [1, 5]\n"

pytestmark = pytest.mark.usefixtures("here")


def write(text):
    Path("mine.yaml").write_text(text, encoding="utf-8")
    return "mine.yaml"


def test_a_scale_of_two_words_defines_a_verdict(capsys):
    entries = BASE.replace("[1, 5]", "[yes, no]") + "candidate: null\n"
    assert read_subject(write(entries)).words == ("yes", "no")
    path = write(BASE.replace("[1, 5]", "[safe, unsafe]\nanchors: {unsafe: could harm}"))
    subject = load(path).subject
    assert (subject.words, subject.anchors) == (("safe", "unsafe"), {0: "could harm", 1: ""})
    assert subject.prompt().answer_field.choices == ("safe", "unsafe")
    assert main(["show", path]) == 0
    assert "verdict; reads x; scale safe/unsafe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scale", "ratings"),
    [
        ("scale: [1, 3]", [1, 2, 3]),
        ("scale: [0, 1]", [0, 1]),
        ("scale: [0, 50, 100]", [0, 50, 100]),
        ("anchors: {1: bad, 5: good}", [1, 2, 3, 4, 5]),
        ('anchors: {"1": bad, "5": good}', [1, 2, 3, 4, 5]),
    ],
)
def test_a_scale_runs_from_lowest_to_highest_or_is_listed(scale, ratings):
    subject = read_subject(write(f"name: a\ndefinition: d\ninputs: [x]\n{scale}\n"))
    assert list(subject.scale) == ratings


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"anchors": {"1": "rude", "5": "warm"}}, "strings as keys, so convert them by int"),
        ({"anchors": [1, 5]}, r"the anchors \[1, 5\] are not a dict with ints"),
        ({"inputs": ["reply"]}, r"inputs is \['reply'\]; write a dict"),
    ],
)
def test_a_dimension_in_python_takes_dicts_and_numbers(field, says):
    """With "1" to "5" as ratings, a reply of 4 would count as position 4 on a scale turned over."""
    fields = {"inputs": {"reply": "the reply"}, "anchors": {1: "rude", 5: "warm"}, **field}
    with pytest.raises(DimensionError, match=says):
        Dimension(name="tone", definition="how friendly", instruction="Judge.", **fields)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "got `null`"),
        (BASE + "colour: red", "unknown field `colour`"),
        (BASE.replace("name: a", "name: A b"), "'A b' is not a name; use lower-case letters"),
        (BASE.replace("definition: d\n", ""), "missing required field `definition`"),
        (BASE.replace("[x]", "[]"), "has no text to judge"),
        (BASE.replace("[1, 5]", "[5, 1]"), "ascending ratings"),
        (BASE.replace("[1, 5]", "[1, 2.5]"), "whole numbers from -1000 to 1000, not 1, 2.5"),
        (BASE.replace("[1, 5]", "[0, 500]"), "2 to 101"),
        (BASE.replace("[1, 5]", f"[1, 0x{'f' * 5000}]"), "mine.yaml"),
        (BASE.replace("[1, 5]", "[pass, fail]\nanchors: {good: fine}"), "is two words"),
        (BASE.replace("scale: [1, 5]", 'anchors: {"1": a, "3000000000": b}'), "from -1000"),
        (BASE + "anchors: {6: x}", r"anchors \[6\] are not on the scale"),
        (BASE + "candidate: y", "a definition with a candidate has no scale"),
        (BASE.replace("[x]", "[lm]"), "a text may not be called 'lm'"),
        ("name: a\ndefinition: it is: fun", "line 2: mapping values .*; put a text in quotes if"),
        ("[" * 50_000 + "]" * 50_000, "nested too deeply"),
        ("a: &a {b: c}\nd: {<<: *a}", r"has an alias, \*a: write out"),
        ("!!python/object/apply:os.mkdir [pwned]", "got `array`"),
        ("x" * 300_000, "more than 200,000 bytes"),
    ],
)
def test_a_bad_definition_is_one_clear_line(text, why):
    with pytest.raises(DimensionError, match=why) as error:
        read_subject(write(text))
    assert "mine.yaml: " in str(error.value)
    assert "\n" not in str(error.value)
    assert not Path("pwned").exists()


def test_a_file_that_is_none_says_so():
    Path("bytes.yaml").write_bytes(b"\xff\x00")
    os.mkfifo("pipe.yaml")
    for name, why in (
        ("none", "No such file"),
        ("bytes", "invalid start byte"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(DimensionError, match=why):
            read_subject(f"{name}.yaml")


# The catalogue: each judge's prompt is pinned by a golden file.
GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_catalogue_holds_the_twelve_judges_of_the_golden_files():
    names = [path.stem for path in GOLDEN.glob("*.txt")]
    assert len(names) == 12
    assert sorted(SUBJECT_BY_NAME) == sorted(names)


@pytest.mark.parametrize("name", SUBJECT_BY_NAME)
def test_each_prompt_is_the_golden_one_and_has_a_source(name):
    messages = find_subject(name).prompt().template()
    parts = (f"--- {message['role']}\n{message['content']}" for message in messages)
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert "\n\n".join(parts) + "\n" == golden
    assert "arXiv:" in find_subject(name).source


def test_an_unknown_name_is_answered_with_its_neighbours():
    for name, answer in (
        ("Relevanz", "'Relevanz'.*did you mean relevance"),
        ("inform", "cod_informative"),
        ("zzzz", r"in the catalogue; dspy-judges list shows all; .*FILE\.yaml"),
    ):
        with pytest.raises(UnknownDimensionError, match=answer):
            load(name)
