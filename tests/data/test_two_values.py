"""Labels with two values: which columns have them, and which word is good."""

import csv
import io
from pathlib import Path

import pytest

import data
from optimize import check


def labels(tmp_path: Path, *cells: str, header: str = "label", **how: object) -> data.LabelledSet:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "input", "output", header, "critique"])
    for place, cell in enumerate(cells):
        writer.writerow([place, f"Ask {place}.", f"Say {place}.", cell, "It says why."])
    path = tmp_path / "sheet.csv"
    path.write_text(file.getvalue(), encoding="utf-8")
    return data.read_labels(path, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        *(("pass", "fail"), ("yes", "no"), ("good", "bad"), ("true", "false"), ("ok", "not ok")),
        *(("thumbs up", "thumbs down"), ("👍", "👎"), ("bestanden", "nicht bestanden")),
        *(("1", "0"), ("sí", "no"), ("oui", "non")),
    ],
)
def test_a_column_of_two_words_counts_1_and_0_and_knows_its_words(
    tmp_path: Path, good: str, bad: str
) -> None:
    labelled = labels(tmp_path, good.upper(), bad, "", good)
    assert [output.ratings.get("label") for output in labelled.outputs] == [(1,), (0,), None, (1,)]
    assert labelled.words == {"label": (good, bad)}


def test_one_word_of_a_pair_tells_the_other_and_a_bare_1_tells_nothing(tmp_path: Path) -> None:
    assert labels(tmp_path, "pass", "pass").words == {"label": ("pass", "fail")}
    assert labels(tmp_path, "1", "1").words == {}
    assert labels(tmp_path, "1", "0", "2").words == {}
    assert labels(tmp_path, "0", "0.5", "1").words == {}


def test_it_is_said_which_word_is_good_and_values_turn_it(tmp_path: Path) -> None:
    notes = labels(tmp_path, "pass", "fail").notes
    assert "label: 'pass' is a pass and counts 1, 'fail' a fail and 0" in notes
    notes = labels(tmp_path, "1", "0").notes
    assert "label: '1' is a pass and counts 1, '0' a fail and 0; --values reverses it" in notes
    notes = labels(tmp_path, "yes", "no", values={"yes": 0, "no": 1}).notes
    assert "label: 'no' is a pass and counts 1, 'yes' a fail and 0; --values reverses it" in notes
    turned = labels(
        tmp_path, "flagged", "clean", values={"flagged": 1, "clean": 0}, dimensions=["label"]
    )
    assert turned.words == {"label": ("flagged", "clean")}
    turned = labels(tmp_path, "yes", "yes", values={"no": 1, "yes": 0})
    assert turned.words == {"label": ("no", "yes")}
    assert labels(tmp_path, "3", "1", values={"3": 1, "1": 0.5}).words == {}


def test_the_majority_of_annotators_is_the_label_and_ties_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    rows = ["yes,yes,no", "no,no,yes", "yes,no,", "yes,,"]
    lines = [f"{n},Ask {n}.,Say {n}.,{row}" for n, row in enumerate(rows)]
    path.write_text("\n".join(["id,input,output,Anna,Ben,Cleo", *lines]))
    labelled = data.read_labels(path, map={"ok": ["Anna", "Ben", "Cleo"]})
    # Two of three; one of three; one of two, which is a tie; the only one.
    said = [labelled.label(output, "ok") for output in labelled.outputs]
    assert said == [1, 0, 0.5, 1]
    clear = data.with_ratings(labelled, "ok")
    assert [output.id for output in clear.outputs] == ["0", "1", "3"]
    assert clear.notes[-1] == "ok: left out, since equally many annotators gave either value: 1"
    assert clear.outputs[0].ratings["ok"] == (1, 1, 0)


def test_check_goes_on_to_tune_two_values_without_a_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels(tmp_path, *["pass", "fail"] * 4, header="Is correct")
    assert check.main(["check", str(tmp_path / "sheet.csv")]) == 0
    out = capsys.readouterr().out
    assert "comments   critique: what people wrote on their labels; tuning uses it" in out
    assert f"next       dspy-judges tune --dimension is_correct --data {tmp_path}" in out


def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    check.main(["check", str(tmp_path / "sheet.csv"), *flags])
    return capsys.readouterr().out


def test_a_misspelt_word_is_named_with_its_row_and_the_flag_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ["pass", "fail"] * 5
    with pytest.raises(data.LabelError):
        labels(tmp_path, *cells, "pas", "Fial", dimensions=["label"])
    out = checked(tmp_path, capsys)
    assert "row 12, field 'label': 'pas' is not a known word, but other cells are" in out
    assert "row 13, field 'label': 'Fial' is" in out
    assert out.count("correct the word, or give its number: --values 'pas=1,fial=0'") == 2
    out = checked(tmp_path, capsys, "--values", "pas=1,fial=0")
    assert "12 outputs rated: 6 pass, 6 fail" in out
    # Close to a word of another pair alone, it may be anything.
    with pytest.raises(data.LabelError, match="--values 'fair=NUMBER'"):
        labels(tmp_path, *["good", "bad"] * 5, "fair")


def test_two_words_that_nobody_knows_take_one_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(data.LabelError):
        labels(tmp_path, *["Ship", "hold", "ship", "n/a"] * 4)
    flag = "--values 'ship=1,hold=0'"
    assert f"say which word is good, as in {flag} (or the other way round)" in checked(
        tmp_path, capsys
    )
    out = checked(tmp_path, capsys, "--values", "ship=1,hold=0")
    assert "12 outputs rated: 8 ship, 4 hold" in out
    assert "--values ship=1,hold=0\ndefine " in out


def test_no_screen_calls_a_fail_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels(tmp_path, *["pass", "fail"] * 4)
    out = checked(tmp_path, capsys, "--values", "pass=0,fail=1")
    assert (
        "'fail' counts 1 and 'pass' 0 by --values, but the word for 1 must be the good one; leave"
        in out
    )


def test_labels_of_one_word_have_nothing_to_learn_or_to_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels(tmp_path, *["pass"] * 12)
    out = checked(tmp_path, capsys)
    assert "collect    no fail among 12 labels, so nothing to learn or to measure" in out
    labels(tmp_path, *["durchgefallen"] * 12)
    note = "note       every label on label is durchgefallen: there is nothing to learn"
    assert note in checked(tmp_path, capsys)


def test_what_yes_means_is_asked_of_a_column_that_names_what_is_bad(tmp_path: Path) -> None:
    for header, good, bad in [("is_harmful", "yes", "no"), ("Hallucination", "1", "0")]:
        ways = f"{good}=0,{bad}=1 .{good} is a fail. or --values {good}=1,{bad}=0"
        with pytest.raises(
            data.LabelError, match=f"{header}' may be the name of something bad; .*{ways}"
        ):
            labels(tmp_path, good, bad, header=header)
        turned = labels(tmp_path, good, bad, header=header, values={good: 0, bad: 1})
        assert turned.words == {header: (bad, good)}
    for header, good, bad in [("no_errors", "yes", "no"), ("error check", "pass", "fail")]:
        assert labels(tmp_path, good, bad, header=header).words == {header: (good, bad)}


def test_another_spelling_is_one_problem_and_the_commonest_words_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(data.LabelError):
        labels(tmp_path, *["pass", "fail"] * 5, "passed", "pas", dimensions=["label"])
    for flags in ([], ["--values", "pass=1,fail=0"]):
        *told, _ = checked(tmp_path, capsys, *flags).splitlines()
        assert [line.split(" is ")[0].split(": ")[1] for line in told] == ["'passed'", "'pas'"]
        assert all(line.endswith("its number: --values 'passed=1,pas=1'") for line in told)
    said = checked(tmp_path, capsys, "--values", "pass=1,fail=0,passed=1,pas=1")
    assert "12 outputs rated: 7 pass, 5 fail" in said


def test_thumbs_are_two_values_but_on_a_scale_that_is_stated(tmp_path: Path) -> None:
    thumbs = labels(tmp_path, "1", "-1.0", "")
    assert [output.ratings.get("label") for output in thumbs.outputs] == [(1,), (0,), None]
    assert "'1' is a pass and counts 1, '-1.0' a fail and 0; --values reverses it" in str(
        thumbs.notes
    )
    assert labels(tmp_path, "1", "-1", scales={"*": (-1, 1)}).words == {}
