"""Labels with two values: which columns have them, and which word is good."""

import csv
import io
from pathlib import Path

import pytest

import data
from data import check


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
    assert "label: 'pass' counts 1, 'fail' counts 0; --values turns it" in notes
    notes = labels(tmp_path, "1", "0").notes
    assert "label: 1 is taken for pass, 0 for fail; --values turns it" in notes
    turned = labels(
        tmp_path, "flagged", "clean", values={"flagged": 1, "clean": 0}, dimensions=["label"]
    )
    assert turned.words == {"label": ("flagged", "clean")}
    turned = labels(tmp_path, "fail", "fail", values={"pass": 0, "fail": 1})
    assert turned.words == {"label": ("fail", "pass")}
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
    assert clear.notes[-1] == "ok: left out, for as many annotators say either: 1"
    assert clear.outputs[0].ratings["ok"] == (1, 1, 0)


def test_check_goes_on_to_tune_two_values_without_a_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels(tmp_path, *["pass", "fail"] * 4, header="Is correct")
    assert check.main(["check", str(tmp_path / "sheet.csv")]) == 0
    out = capsys.readouterr().out
    assert "comments   critique: what people said of their labels, which teaches" in out
    assert f"next       dspy-judges tune --dimension is_correct --data {tmp_path}" in out
