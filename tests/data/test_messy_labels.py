"""A zoo of label files as people export them: each is read right, or refused in one line."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from files import csv_of, file_of, refusal
from hypothesis import example, given, settings
from hypothesis import strategies as st

import data
from judges.labels.options import read_mapping, read_values
from judges.labels.rating_reader import RatingReader
from judges.labels.values import normalize_text
from judges.tables.problems import UnreadableError


class Sheet(NamedTuple):
    """A file of labels: its content, how it is asked for, and what comes of it.

    `expected` are the ratings of `mark` in the order of the items, or the parts of the one line
    that refuses the file. `note` stands in one of the notes.
    """

    content: str | list[dict[str, Any]]
    expected: Sequence[tuple[object, ...]] | tuple[str, ...]
    map: Sequence[str] = ()
    values: Sequence[str] = ()
    note: str = ""


def column(cells: str, expected: Any, note: str = "", delimiter: str = ",", **how: Any) -> Sheet:
    """A sheet with one column of ratings, here between bars."""
    rows = [(f"r{n}", f"Text {n}, whole", f"Short {n}; brief", cell) for n, cell in cells_of(cells)]
    content = csv_of(("id", "document", "summary", "mark"), *rows, delimiter=delimiter)
    return Sheet(content, expected, note=note, **how)


def cells_of(cells: str) -> list[tuple[int, str]]:
    return [*enumerate(cells.split("|"))]


def ones(*numbers: object) -> list[tuple[object, ...]]:
    return [() if number is None else (number,) for number in numbers]


WIDE = 'id,document,summary,Rater Anna,"Rater Ben, PhD"\nr0,Text,Short,4,3\nr1,Other,Brief,2,n/a\n'
TWO_ANNOTATORS = "id;document;summary;A;B\r\nr0;T;S;3,5;3.5\r\nr1;U;R;4,5;2\r\n"
MEAN_RATINGS = "id,document,summary,mark\nr0,T,S,4\nr1,U,R,2\n"
LONG = "Item;Text;summary;Who;Mark\n7;Eins;Kurz;Anna;3,5\n7;Eins;Kurz;Ben;4\n"
FRENCH = "identifiant;article;résumé;annotateur;critère;note\n1;Un;Bref;Ana;mark;3,5\n"
UNNAMED = "document,summary,annotator,mark\nOne,Short,Anna,4\nOne,Short,Ben,2\n"
NESTED = [
    {"id": f"r{n}", "document": f"T{n}", "summary": f"S{n}", "annotations": {"mark": marks}}
    for n, marks in enumerate([{"anna": "4 - good", "ben": "n/a"}, {"anna": "2 - poor", "ben": 3}])
]
OBJECTS = [{"id": 1, "fields": {"document": "T", "summary": "S"}, "r": {"mark": 4}}]
SHEETS: dict[str, Sheet] = {
    # Numbers.
    "decimal commas": column("3,5|4|2,25", ones(3.5, 4, 2.25), "'3,5' as 3.5", ";"),
    "a comma that may set thousands apart": column(
        "1,234|2,500", ("row 2", "'1,234' may contain", '--values \'"1,234"=NUMBER,')
    ),
    "a point of thousands among decimal commas": column(
        "1.234|3,5", ("row 2", "'1.234' may contain a decimal mark or", "thousands")
    ),
    "stars": column("★★★★☆|4", ("row 2", "is not a number", "--values")),
    "percentages": column("85%|92,5 %|70%", ones(85, 92.5, 70), "'85%' as 85"),
    "fifths": column("4/5|3 / 5|4,0 von 5", ones(4, 3, 4), "'4/5' as 4"),
    "labels beside numbers": column("4 - good|(1) bad|3: fair|2 (so so)", ones(4, 1, 3, 2), "as 4"),
    "a code for a missing rating": column(
        "4|99|3|5", ("row 3", "looks like a code", "--values=99=")
    ),
    "school marks": column("1 - gut|6 - schlecht", ("row 2", "whose lowest number is the best")),
    "broken JSON": column("[4, 3]|[4,", ("row 3", "is not JSON; correct the JSON, or write")),
    "a scale of words, said": column(
        "strongly agree|agree|disagree",
        ones(5, 4, 2),
        values=["Strongly  Agree=5,agree=4,disagree=2"],
    ),
    # Yes and no; nothing.
    "yes and no": column("Yes|no |N/A|yes", ones(1, 0, None, 1), "1 cell without a rating"),
    "nothing in many words": column(
        "4|n/a|-|k.A.||2", ones(4, *[None] * 4, 2), "3 cells without a rating"
    ),
    # Columns.
    "two annotators, one with a comma": Sheet(
        WIDE, [(4, 3), (2,)], map=['mark=rater  ANNA,"Rater Ben, PhD"']
    ),
    "annotators of two styles": Sheet(TWO_ANNOTATORS, [(3.5, 3.5), (4.5, 2)], map=["mark=A,B"]),
    "a mean in the last row": Sheet(
        f"{MEAN_RATINGS}Mittelwert,,,3\n", ones(4, 2), note="('Mittelwert')"
    ),
    "an empty answer": Sheet(
        f"{MEAN_RATINGS}r2,V,,1\n",
        ones(4, 2),
        note="left out 1 row, since 'summary' is empty (row 4)",
    ),
    # Rows.
    "a long sheet under any names": Sheet(
        f"{LONG}8;Drei;Knapp;Anna;k.A.\n8;Drei;Knapp;Ben;2\n",
        [(3.5, 4), (2,)],
        map=["document=Text", "annotator=WHO", "mark=Mark"],
    ),
    "a long sheet in French": Sheet(
        f"{FRENCH}1;Un;Bref;Luc;mark;4\n2;Deux;Court;Ana;mark;2\n", [(3.5, 4), (2,)]
    ),
    "annotators' rows without ids": Sheet(UNNAMED, [(4, 2)], note="to a row of the same texts"),
    "nested JSON": Sheet(NESTED, [(4,), (2, 3)], note="'4 - good' as 4"),
    "texts inside objects, said": Sheet(
        OBJECTS, ones(4), map=["document=fields.document", "summary=fields.summary", "mark=r.mark"]
    ),
}


def read(sheet: Sheet) -> data.LabelledSet:
    source = file_of(sheet.content) if isinstance(sheet.content, str) else sheet.content
    flags: Any = {"map": read_mapping(sheet.map), "values": read_values(sheet.values)}
    return data.read_labels(source, dimensions=["mark"], **flags)


REFUSED_SHEETS = {name for name, sheet in SHEETS.items() if isinstance(sheet.expected, tuple)}


@pytest.mark.parametrize("name", sorted(REFUSED_SHEETS))
def test_a_messy_file_that_is_ambiguous_is_refused_in_one_line(name):
    sheet = SHEETS[name]
    message = refusal(sheet, read=read)
    assert message.startswith("labels.csv")
    assert [part for part in sheet.expected if str(part) not in message] == []


@pytest.mark.parametrize("name", sorted(SHEETS.keys() - REFUSED_SHEETS))
def test_a_messy_file_is_read_right(name):
    sheet = SHEETS[name]
    labelled = read(sheet)
    assert [one.ratings.get("mark", ()) for one in labelled.outputs] == sheet.expected
    assert sheet.note in "\n".join(labelled.notes)


TEXTS = [f"Text {n} is about the day and what came of it" for n in range(8)]
MARKS = (3, 1, 2, 3, 3, 1, 2, 2)
OTHERS = (2, 1, 2, 4, 3, 1, 1, 2)


def table(texts: tuple[str, str] = ("document", "summary"), **columns: Sequence[object]) -> str:
    """A sheet of eight outputs with texts and columns of one's own."""
    cells = zip(*columns.values(), strict=True)
    rows = ((f"r{n}", TEXTS[n], f"Short {n}.", *row) for n, row in enumerate(cells))
    return csv_of(("id", *texts, *columns), *rows)


@pytest.mark.parametrize(
    ("content", "ratings"),
    [
        (table(page_quality=MARKS), {"page_quality": ("page_quality",)}),
        (table(label=("pass", "fail") * 4, confidence=(0.5, 0.25) * 4), {"label": ("label",)}),
    ],
)
def test_unnamed_columns_are_read_where_that_is_sure(content, ratings):
    labelled = data.read_labels(file_of(content))
    assert labelled.reading.ratings == ratings


@pytest.mark.parametrize(
    ("columns", "question"),
    [
        (
            {"Zeile": range(1, 9)},
            "Zeile may hold the labels; name those that do, as in --map Zeile=",
        ),
        (
            {"Relevance Anna": MARKS, "Relevance Ben": OTHERS},
            "join them by --map 'NAME=Relevance Anna,Relevance Ben'",
        ),
        (
            {"tone (1-5)": MARKS, "style (1-7)": OTHERS},
            "join them by --map 'NAME=tone (1-5),style (1-7)'",
        ),
        ({"mark": ["good", "fair", *["good"] * 6]}, "'fair' is not a known word, unlike other"),
    ],
)
def test_unnamed_columns_are_else_asked_about(columns, question):
    message = refusal(file_of(table(**columns)))
    assert question in message
    assert "more: dspy-judges check" not in message


def test_no_annotator_is_dropped_where_a_dimension_is_asked_for():
    for columns in (("tone rater A", "tone rater B"), ("tone", "tone_2")):
        path = file_of(table(**dict(zip(columns, (MARKS, OTHERS), strict=True))))
        flag = f"tone={','.join(columns)}"
        assert flag in refusal(path, dimensions=["tone"])
        mapping = read_mapping([flag])
        assert len(data.read_labels(path, map=mapping).outputs[0].ratings["tone"]) == 2


COMMENTS = (
    *("comment", "Begründungen", "commentaire", "comentario", "tone_critique", "Why?", "notes"),
    *("Expert critique", "reviewer_comment", "human_feedback", "tone_explanation", "rationale"),
    *("Bewertungsbegründung", "Experten-Kritik", "Erklärung", "Rückmeldung", "Hinweise"),
)


@pytest.mark.parametrize("name", COMMENTS)
def test_a_comment_is_no_text_and_stays_with_its_rating(name):
    reasons = [f"I think so for reason {n}." for n in range(8)]
    path = file_of(table(("input", "output"), tone=MARKS, **{name: reasons}))
    labelled = data.read_labels(path)
    assert [*labelled.outputs[0].texts] == ["input", "output"]
    assert labelled.outputs[0].comments == {"tone": (reasons[0],)}
    assert labelled.reading.comments == (name,)
    # A judge that reads it, or a user who names it, makes a text of it.
    assert data.read_labels(path, texts=(name,)).outputs[0].texts[name] == reasons[0]
    assert data.read_labels(path, map={"reply": name}).outputs[0].texts["reply"] == reasons[0]
    named = data.read_labels(path, map={"comment": name})
    assert (named.outputs[0].comments, named.dimensions) == ({"tone": (reasons[0],)}, ("tone",))


@pytest.mark.parametrize("texts", [("input", "output"), ("Frage", "Antwort"), ("Was", "Wie")])
def test_outputs_of_one_source_are_one_document(texts):
    rows = [[TEXTS[n // 3], f"Short words {n}.", n % 5 + 1] for n in range(24)]
    labelled = data.read_labels(file_of(csv_of([*texts, "mark"], *rows)))
    assert (len(labelled.outputs), len(labelled.documents)) == (24, 8)
    assert labelled.grouped_by.casefold().startswith(f"by identical text {texts[0].casefold()!r}")


CELLS = st.text(st.sampled_from("0123456789..,,-+/%★☆ ()[]:=ab'’\u202f５½n"), max_size=8)


@settings(max_examples=300, deadline=None)
@example(cells=["５)a"])
@given(cells=st.lists(CELLS | st.floats() | st.integers() | st.booleans(), max_size=6))
def test_a_number_that_is_read_has_the_cells_digits(cells):
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
        text = re.sub(r"\D", "", f"{abs(number):.12f}".rstrip("0").rstrip("."))
        assert math.isfinite(number)
        assert text.strip("0") in digits
    assert all(isinstance(note, str) for note in reader.notes())


@pytest.mark.parametrize("annotators", [("2", ""), ("a", "")])
def test_a_rating_without_an_annotator_is_one_more_annotators(annotators):
    header = ("id", "annotator", "input", "output", "relevance")
    rows = [("o1", name, "Ask.", "Say.", 5 - n) for n, name in enumerate(annotators)]
    others = [(f"o{n}", "a", f"Ask {n}.", f"Say {n}.", n % 5 + 1) for n in range(2, 8)]
    labelled = data.read_labels(file_of(csv_of(header, *rows, *others)))
    assert {*labelled.outputs[0].ratings["relevance"]} == {5, 4}
