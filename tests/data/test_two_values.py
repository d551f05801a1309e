"""Labels with two values: which columns have them, and which word is good."""

from pathlib import Path

import pytest
from command_runs import run
from files import csv_of, file_of, refusal

import data
from optimize import check


def sheet(cells: list[str], header: str = "label") -> Path:
    rows = [(n, f"Ask {n}.", f"Say {n}.", cell, "Why.") for n, cell in enumerate(cells)]
    return file_of(csv_of(("id", "input", "output", header, "critique"), *rows))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        *(("pass", "fail"), ("yes", "no"), ("good", "bad"), ("true", "false"), ("ok", "not ok")),
        *(("thumbs up", "thumbs down"), ("👍", "👎"), ("bestanden", "nicht bestanden")),
        *(("1", "0"), ("1", "-1.0"), ("sí", "no"), ("oui", "non")),
    ],
)
def test_a_column_of_two_words_counts_1_and_0(good, bad):
    labelled = data.read_labels(sheet([good.upper(), bad, "", good]))
    assert [output.ratings.get("label") for output in labelled.outputs] == [(1,), (0,), None, (1,)]
    assert labelled.words == {"label": (good, bad)}


PASS = "'{}' is a pass (1), and '{}' is a fail (0)"
REVERSES = f"{PASS}; --values can say the reverse"


@pytest.mark.parametrize(
    ("cells", "how", "words", "note"),
    [
        ("pass pass", {}, ("pass", "fail"), ""),
        ("pass fail", {}, ("pass", "fail"), PASS),
        ("1 0", {}, ("1", "0"), REVERSES),
        ("yes no", {"values": {"yes": 0, "no": 1}}, ("no", "yes"), REVERSES),
        ("yes yes", {"values": {"yes": 0, "no": 1}}, ("no", "yes"), ""),
        ("on off", {"values": {"on": 1, "off": 0}, "dimensions": ["label"]}, ("on", "off"), ""),
        *((cells, {}, None, "") for cells in ("1 1", "1 0 2", "0 0.5 1")),
        ("3 1", {"values": {"3": 1, "1": 0.5}}, None, ""),
        ("1 -1", {"scales": {"*": (-1, 1)}}, None, ""),
    ],
)
def test_it_is_said_which_word_is_good(cells, how, words, note):
    labelled = data.read_labels(sheet(cells.split()), **how)
    assert labelled.words.get("label") == words
    assert not note or f"label: {note.format(*words or ())}" in labelled.notes


def test_the_majority_of_annotators_is_the_label_and_ties_are_counted():
    rows = ["yes,yes,no", "no,no,yes", "yes,no,", "yes,,"]
    lines = [f"{n},Ask {n}.,Say {n}.,{row}\n" for n, row in enumerate(rows)]
    path = file_of("".join(["id,input,output,Anna,Ben,Cleo\n", *lines]))
    labelled = data.read_labels(path, map={"ok": ["Anna", "Ben", "Cleo"]})
    # Two of three; one of three; one of two, which is a tie; the only one.
    assert [labelled.label(output, "ok") for output in labelled.outputs] == [1, 0, 0.5, 1]
    clear = data.with_ratings(labelled, "ok")
    assert [output.id for output in clear.outputs] == ["0", "1", "3"]
    assert (
        clear.notes[-1] == "ok: left out 1 output, since equally many annotators gave either value"
    )
    assert clear.outputs[0].ratings["ok"] == (1, 1, 0)


HALVES, YES_NO = ["pass", "fail"] * 5, ["yes", "no"] * 4
MISSPELT, OTHERWISE = [*HALVES, "pas", "Fial"], [*HALVES, "passed", "pas"]
SHIP, SCALE = ["Ship", "hold", "ship", "n/a"] * 4, ["good", "fair", "poor", "excellent"] * 5
SIGNS = ["++", "+", "0", "-", "--"]
GIVE = "give its number: --values "


@pytest.mark.parametrize(
    ("cells", "values", "part"),
    [
        (HALVES, "", "comments   critique: people's comments on their labels; tuning uses them"),
        (HALVES, "", "next       dspy-judges tune --dimension is_correct --data labels.csv"),
        (HALVES, "pass=0,fail=1", "by --values, but the good word must count more"),
        (MISSPELT, "", "row 12, field 'is_correct': 'pas' is not a known word, unlike other"),
        (
            MISSPELT,
            "",
            f"{GIVE}'pass=NUMBER,fail=NUMBER,pas=NUMBER,fial=NUMBER' "
            "(also in 1 more row: 13: 'Fial')\n2 problems",
        ),
        (MISSPELT, "pas=1,fial=0", "12 outputs rated: 6 pass, 6 fail"),
        (SHIP, "", "say which word is good, as in --values 'ship=1,hold=0' (or the other way"),
        (SHIP, "ship=1,hold=0", "12 outputs rated: 8 ship, 4 hold"),
        (SHIP, "ship=1,hold=0", "--values ship=1,hold=0\ndefine "),
        (["pass"] * 12, "", "no fail among 12 labels, so nothing to learn or to measure"),
        (["durchgefallen"] * 12, "", "is durchgefallen: there is nothing to learn"),
        (OTHERWISE, "", f"{GIVE}'pass=NUMBER,fail=NUMBER,passed=NUMBER,pas=NUMBER' ("),
        (OTHERWISE, "pass=1,fail=0,passed=1,pas=1", "12 outputs rated: 7 pass, 5 fail"),
    ],
)
def test_check_names_the_flag_that_reads_two_words(cells, values, part):
    flags = ["--values", values] if values else []
    assert part in run(check.command, sheet(cells, "is_correct"), *flags).stdout


NO_WORD = "no label is pass, which --values names; correct --values, or leave it out; the labels"


@pytest.mark.parametrize(
    ("cells", "values", "parts"),
    [
        # On a scale of several words, `good` has another number than usual.
        ([*["good", "bad"] * 5, "fair"], {}, ["--values 'good=NUMBER,bad=NUMBER,fair=NUMBER'"]),
        (SCALE, {}, [f"{word}=NUMBER" for word in SCALE[:4]]),
        (SCALE, {"fair": 2, "excellent": 4, "poor": 1}, ["'good' is not a", "'good=NUMBER'"]),
        (["OK", "NOK"] * 5, {}, ["--values 'ok=NUMBER,nok=NUMBER'"]),
        (["***", "**"] * 5, {"***": 3}, ["--values '**=NUMBER'"]),
        # Beside plus signs, a minus is a rating.
        (SIGNS * 5, {}, [f"{sign}=NUMBER" for sign in SIGNS]),
        (SIGNS * 5, {"++": 5, "+": 4}, ["--values '0=NUMBER,-=NUMBER,--=NUMBER'"]),
        (YES_NO, {"pass": 0}, [NO_WORD]),
    ],
)
def test_words_of_no_sure_meaning_are_refused_with_a_flag(cells, values, parts):
    for how in ({"map": {"label": "label"}}, {"dimensions": ["label"]}):
        message = refusal(sheet(cells), values=values, **how)
        assert [part for part in parts if part not in message] == []


def test_words_of_a_scale_are_read_by_the_users_numbers():
    numbers = dict(zip(SIGNS, range(5, 0, -1), strict=True))
    labelled = data.read_labels(sheet(SIGNS * 5), map={"label": "label"}, values=numbers)
    assert [output.rating("label") for output in labelled.outputs] == [5, 4, 3, 2, 1] * 5
    # A word between pass and fail leaves them 1 and 0.
    cells = sheet(["pass", "fail", "partial"] * 4)
    labelled = data.read_labels(cells, map={"label": "label"}, values={"partial": 0.5})
    assert [output.rating("label") for output in labelled.outputs] == [1, 0, 0.5] * 4
    # A word that means the same anyway, and a code for a missing label, may be in no cell.
    assert data.read_labels(sheet(YES_NO), values={"yes": 1, "pass": 1, "unsure": None}).words
    # Recorded replies may have the words.
    notes = data.read_labels(sheet(["1", "0"] * 4), values={"A": 1}).notes
    assert "no label is a, which --values names" in notes


def test_words_without_a_comma_between_them_are_refused():
    message = run(check.command, sheet(HALVES), "--values", "pass=1;fail=0").stderr
    assert "pass=1;fail=0: write a comma between words, as in good=3,poor=1" in message


def test_texts_and_a_judges_scores_are_no_labels():
    message = refusal(sheet(YES_NO), map={"label": "output"})
    assert "'Say 0.' is not a number; the column holds texts; name the column of" in message
    rows = [(n, f"Ask {n}.", f"Say {n}.", n % 5 + 1, "") for n in range(8)]
    path = file_of(csv_of(("id", "input", "output", "relevance", "relevance_failure"), *rows))
    for dimensions in (None, ["relevance"]):
        message = refusal(path, dimensions=dimensions)
        assert "(a judge's scores, not labels: relevance)" in message


@pytest.mark.parametrize(
    ("header", "good", "bad", "is_asked"),
    [
        ("is_harmful", "yes", "no", True),
        ("Hallucination", "1", "0", True),
        ("no_errors", "yes", "no", False),
        ("error check", "pass", "fail", False),
    ],
)
def test_what_yes_means_of_something_bad_is_asked(header, good, bad, is_asked):
    path, words = sheet([good, bad], header), (good, bad)
    if is_asked:
        message = refusal(path)
        assert f"{header}' may be the name of something bad; " in message
        assert f"{good}=0,{bad}=1 ({good} is a fail) or --values {good}=1,{bad}=0" in message
        words = bad, good
    values = {good: 0, bad: 1} if is_asked else None
    assert data.read_labels(path, values=values).words == {header: words}
