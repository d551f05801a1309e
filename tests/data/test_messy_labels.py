"""A zoo of label files as people export them: each is read right, or refused in one line."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

import data
from judges.labels.flags import read_mapping, read_values
from judges.labels.values import RatingReader, normalize_text
from judges.tables.problems import UnreadableError


class Sheet(NamedTuple):
    """A file of labels: its content, how it is asked for, and what comes of it.

    `expected` are the ratings of `mark` (or the votes) in the order of the items, or the parts of
    the one line that refuses the file. `note` stands in one of the notes.
    """

    content: str | bytes | list[list[object]]
    expected: Sequence[tuple[object, ...]] | tuple[str, ...]
    map: Sequence[str] = ()
    values: Sequence[str] = ()
    name: str = "labels.csv"
    note: str = ""
    pairs: bool = False


def column(*cells: object, delimiter: str = ",", header: str = "mark") -> str:
    """A sheet with one column of ratings, cells quoted where they must be."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(["id", "document", "summary", header])
    for place, cell in enumerate(cells):
        writer.writerow([f"r{place}", f"Text {place}, whole", f"Short {place}; brief", cell])
    return file.getvalue()


def votes(
    *cells: object, expected: Sequence[tuple[object, ...]] | tuple[str, ...], **how: Any
) -> Sheet:
    file = io.StringIO()
    writer = csv.writer(file)
    more = how.pop("more", {})
    writer.writerow(["id", "prompt", "Answer 1", "Answer 2", *more, "choice"])
    for place, cell in enumerate(cells):
        extra = [of_column[place] for of_column in more.values()]
        writer.writerow([f"p{place}", f"Ask {place}", "Yes", "No", *extra, cell])
    return Sheet(file.getvalue(), expected, map=["votes=choice"], pairs=True, **how)


def ones(*numbers: object) -> list[tuple[object, ...]]:
    return [() if number is None else (number,) for number in numbers]


WIDE = (
    'id,document,summary,Rater Anna,"Rater Ben, PhD"\r\n'
    "r0,Text,Short,4,3\r\nr1,Other,Brief,2,n/a\r\n"
)
TWO = "id;document;summary;A;B\r\nr0;T;S;{};{}\r\nr1;U;R;{};{}\r\n"
NESTED = [
    {
        "id": f"r{place}",
        "document": f"T{place}",
        "summary": f"S{place}",
        "annotations": {"mark": marks},
    }
    for place, marks in enumerate(
        [{"anna": "4 - good", "ben": "n/a"}, {"anna": "2 - poor", "ben": 3}]
    )
]
LIKERT = ("strongly agree", "agree", "disagree")
MODELS = {"model_a": ["gpt", "llama"], "model_b": ["llama", "gpt"]}

ZOO: dict[str, Sheet] = {
    # Numbers.
    "decimal commas": Sheet(
        column("3,5", "4", "2,25", delimiter=";"), ones(3.5, 4, 2.25), note="'3,5' as 3.5"
    ),
    "a comma that may set thousands apart": Sheet(
        column("1,234", "2,500"), ("row 2", "'1,234' may contain", '--values \'"1,234"=NUMBER,')
    ),
    "a point of thousands among decimal commas": Sheet(
        column("1.234", "3,5"),
        ("row 2", "'1.234' may contain a decimal mark or a thousands separator"),
    ),
    "stars": Sheet(column("★★★★☆", "4"), ("row 2", "is not a number", "--values")),
    "percentages": Sheet(column("85%", "92,5 %", "70%"), ones(85, 92.5, 70), note="'85%' as 85"),
    "fifths": Sheet(column("4/5", "3 / 5", "4,0 von 5"), ones(4, 3, 4), note="'4/5' as 4"),
    "labels beside numbers": Sheet(
        column("4 - good", "(1) bad", "3: fair", "2 (so so)"), ones(4, 1, 3, 2), note="as 4"
    ),
    "a scale of words, said": Sheet(
        column(*LIKERT), ones(5, 4, 2), values=["Strongly  Agree=5,agree=4,disagree=2"]
    ),
    # Yes and no; nothing.
    "yes and no": Sheet(
        column("Yes", "no ", "N/A", "yes"), ones(1, 0, None, 1), note="1 without a rating"
    ),
    "pass and fail": Sheet(
        column("pass", "fail"),
        ones(1, 0),
        note="'pass' is a pass and counts 1, 'fail' a fail and 0",
    ),
    "nothing in many words": Sheet(
        column("4", "n/a", "-", "k.A.", "", "2"),
        ones(4, None, None, None, None, 2),
        note="3 without a rating",
    ),
    # Columns.
    "two annotators, one with a comma": Sheet(
        WIDE, [(4, 3), (2,)], map=['mark=rater  ANNA,"Rater Ben, PhD"']
    ),
    "annotators of two styles": Sheet(
        TWO.format("3,5", "3.5", "4,5", "2"), [(3.5, 3.5), (4.5, 2)], map=["mark=A,B"]
    ),
    "an empty answer": Sheet(
        column("4", "2", "3").replace("Short 1; brief", ""),
        ones(4, 3),
        note="left out for an empty 'summary': 1 row (row 3)",
    ),
    "a mean in the last row": Sheet(
        column("4", "2") + "Mittelwert,,,3\r\n", ones(4, 2), note="'Mittelwert' in the last row"
    ),
    # Rows.
    "a long sheet under any names": Sheet(
        "Item;Text;summary;Who;Mark\r\n7;Eins;Kurz;Anna;3,5\r\n7;Eins;Kurz;Ben;4\r\n"
        "8;Drei;Knapp;Anna;k.A.\r\n8;Drei;Knapp;Ben;2\r\n",
        [(3.5, 4), (2,)],
        map=["document=Text", "annotator=WHO", "mark=Mark"],
    ),
    "a long sheet in French": Sheet(
        "identifiant;article;résumé;annotateur;critère;note\r\n"
        "1;Un;Bref;Ana;mark;3,5\r\n1;Un;Bref;Luc;mark;4\r\n2;Deux;Court;Ana;mark;2\r\n",
        [(3.5, 4), (2,)],
    ),
    "annotators' rows without ids": Sheet(
        "document,summary,annotator,mark\nOne,Short,Anna,4\nOne,Short,Ben,2\n",
        ("row 3", "has the same texts as row 2", "the same id: --map id=COLUMN"),
    ),
    "nested JSON": Sheet(
        json.dumps(NESTED), [(4,), (2, 3)], name="labels.json", note="'4 - good' as 4"
    ),
    "texts inside objects, said": Sheet(
        json.dumps({"id": 1, "fields": {"document": "T", "summary": "S"}, "r": {"mark": 4}}),
        ones(4),
        map=["document=fields.document", "summary=fields.summary", "mark=r.mark"],
        name="labels.jsonl",
    ),
    # Pairs.
    "the winner's column": votes(
        "Answer 1", "answer 2", "Tie", expected=[("A",), ("B",), ("tie",)]
    ),
    "the winner's model": votes("gpt", "gpt", expected=[("A",), ("B",)], more=MODELS),
    "a phrase": votes("A is worse", expected=("row 2", "'A is worse' is not a vote", "--values")),
    "degrees": votes("-3", "2", "0", expected=ones("A", "B", "tie"), note="negative numbers are A"),
    "bare 0 and 1": votes(
        "0", "1", expected=("row 2", "'0' is not a vote", "--values 0=A,1=B (or 0=B,1=A)")
    ),
    "bare 0 and 1, said": votes("0", "1", expected=ones("A", "B"), values=["0=A,1=B"]),
    "1 to 7": votes("1", "7", "4", expected=("row 2", "'1' is not a vote")),
}


def write(sheet: Sheet, folder: Path) -> Path:
    path = folder / sheet.name
    if isinstance(sheet.content, list):
        workbook = Workbook()
        for row in sheet.content:
            workbook.active.append(row)
        workbook.save(path)
    else:
        content = sheet.content
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(sheet: Sheet, path: Path) -> tuple[list[tuple[object, ...]], tuple[str, ...]]:
    mapping, values = read_mapping(sheet.map), read_values(sheet.values)
    if sheet.pairs:
        labelled = data.read_pairs(path, map=mapping, values=values)
        return [pair.votes for pair in labelled.pairs], labelled.notes
    outputs = data.read_labels(path, map=mapping, values=values, dimensions=["mark"])
    return [item.ratings.get("mark", ()) for item in outputs.outputs], outputs.notes


@pytest.mark.parametrize("name", ZOO)
def test_a_messy_file_is_read_right_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    sheet = ZOO[name]
    path = write(sheet, tmp_path)
    if isinstance(sheet.expected, list):
        labels, notes = read(sheet, path)
        assert labels == sheet.expected
        assert sheet.note in "\n".join(notes)
        return
    with pytest.raises(data.LabelError) as caught:
        read(sheet, path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    for part in sheet.expected:
        assert str(part) in message


TEXTS = [f"Text {n} is about the day and what came of it" for n in range(8)]
MARKS = (3, 1, 2, 3, 3, 1, 2, 2)
OTHERS = (2, 1, 2, 4, 3, 1, 1, 2)
NAMED = ("document", "summary")


def table(texts: tuple[str, str] = NAMED, **columns: Sequence[object]) -> str:
    """A sheet of eight outputs with texts and columns of one's own."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", *texts, *columns])
    for place, cells in enumerate(zip(*columns.values(), strict=True)):
        writer.writerow([f"r{place}", TEXTS[place], f"Short {place}.", *cells])
    return file.getvalue()


Guess = tuple[str, dict[str, tuple[str, ...]] | tuple[str, ...]]
GUESSES: dict[str, Guess] = {
    "a rating by its values": (table(page_quality=MARKS), {"page_quality": ("page_quality",)}),
    "German marks": (
        table(("Frage", "Antwort"), Note=MARKS),
        (
            "Note holds numbers that may not be ratings",
            "if 1 is the best, reverse the scale by --values 1=6,",
        ),
    ),
    "annotators who are called so": (
        table(**{"tone (annotator 1)": MARKS, "tone (annotator 2)": OTHERS}),
        {"tone": ("tone (annotator 1)", "tone (annotator 2)")},
    ),
    "numbers of the rows": (
        table(Zeile=range(1, 9)),
        ("Zeile holds numbers that may not be ratings", "--map Zeile=Zeile"),
    ),
    "pass or fail beside a number": (
        table(label=("pass", "fail") * 4, confidence=(0.5, 0.25) * 4),
        {"label": ("label",)},
    ),
    "names over one dimension": (
        table(**{"Relevance Anna": MARKS, "Relevance Ben": OTHERS}),
        ("--map 'relevance=Relevance Anna,Relevance Ben'",),
    ),
    "two outputs rated in each row": (
        table(("Antwort A", "Antwort B"), **{"Bewertung A": MARKS, "Bewertung B": OTHERS}),
        ("holds pairs of candidates, Antwort A, Antwort B",),
    ),
    "words that may be ratings": (
        table(mark=["good", "fair", *["good"] * 6]),
        ("'fair' is not a known word, but other cells are", "--values 'fair=NUMBER'"),
    ),
}


@pytest.mark.parametrize("name", GUESSES)
def test_columns_that_nobody_names_are_read_where_that_is_sure_and_else_asked_about(
    name: str, tmp_path: Path
) -> None:
    content, expected = GUESSES[name]
    path = tmp_path / "labels.csv"
    path.write_text(content)
    if isinstance(expected, dict):
        labelled = data.read_labels(path)
        assert labelled.reading.ratings == expected
        if any(len(columns) > 1 for columns in expected.values()):
            assert any(note.endswith("one annotator per column") for note in labelled.notes)
        return
    with pytest.raises(data.LabelError) as caught:
        data.read_labels(path)
    for part in expected:
        assert part in str(caught.value)
    assert len(caught.value.problems) == 1


def test_no_annotator_is_dropped_where_a_dimension_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    for columns in (("tone Anna", "tone Ben"), ("tone", "tone_2"), ("tone", "tone (rater 2)")):
        path.write_text(table(**dict(zip(columns, (MARKS, OTHERS), strict=True))))
        with pytest.raises(data.LabelError) as caught:
            data.read_labels(path, dimensions=["tone"])
        flag = f"tone={','.join(columns)}"
        assert flag in str(caught.value)
        mapping = read_mapping([flag])
        assert len(data.read_labels(path, map=mapping).outputs[0].ratings["tone"]) == 2
    path.write_text(table(**{"tone rater A": MARKS, "tone rater B": OTHERS}))
    assert data.read_labels(path, dimensions=["tone"]).outputs[0].ratings == {"tone": (3, 2)}


COMMENTS = (
    *("comment", "Begründungen", "commentaire", "comentario", "tone_critique", "Why?", "notes"),
    *("Expert critique", "reviewer_comment", "human_feedback", "tone_explanation", "rationale"),
    *("Bewertungsbegründung", "Experten-Kritik", "Erklärung", "Rückmeldung", "Hinweise"),
)


@pytest.mark.parametrize("name", COMMENTS)
def test_a_comment_is_no_text_to_judge_and_stays_with_the_rating(name: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    said = [f"I think so for reason {n}." for n in range(8)]
    path.write_text(table(("input", "output"), tone=MARKS, **{name: said}))
    labelled = data.read_labels(path)
    assert [*labelled.outputs[0].texts] == ["input", "output"]
    assert labelled.outputs[0].comments == {"tone": (said[0],)}
    assert labelled.reading.comments == (name,)
    # A judge that reads it, or a user who names it, makes a text of it.
    judged = data.read_labels(path, texts=(name,))
    named = data.read_labels(path, map={"reply": name})
    assert judged.outputs[0].texts[name] == named.outputs[0].texts["reply"] == said[0]


@pytest.mark.parametrize(
    "texts", [("input", "output"), ("Frage", "Antwort"), ("prompt", "completion"), ("Was", "Wie")]
)
def test_outputs_of_one_source_are_one_document_whatever_the_headers(
    texts: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "labels.csv"
    rows = [[TEXTS[place // 3], f"Short words {place}.", place % 5 + 1] for place in range(24)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*texts, "mark"], *rows])
    labelled = data.read_labels(path)
    assert (len(labelled.outputs), len(labelled.documents)) == (24, 8)
    assert labelled.grouped_by.startswith(f"identical text {texts[0].casefold()!r}") or (
        labelled.grouped_by.startswith(f"identical text {texts[0]!r}")
    )


CELLS = st.lists(
    st.text(st.sampled_from("0123456789..,,-+/%★☆ ()[]:=ab'’\u202f５½n"), max_size=8)
    | st.floats()
    | st.integers()
    | st.booleans(),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(cells=CELLS)
def test_whatever_a_cell_holds_a_number_read_from_it_has_its_digits(cells: list[object]) -> None:
    """None is made up: read, refused or empty; whole parts and decimals stand in the cell."""
    reader = RatingReader(cells)
    for cell in cells:
        try:
            number = reader.read(cell)
        except UnreadableError:
            continue
        if number is None or not isinstance(cell, str):
            continue
        digits = re.sub(r"\D", "", normalize_text(cell))
        shown = re.sub(r"\D", "", f"{abs(number):.12f}".rstrip("0").rstrip("."))
        assert math.isfinite(number)
        assert shown.strip("0") in digits
    assert all(isinstance(note, str) for note in reader.notes())
