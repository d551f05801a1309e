"""A zoo of label files as people export them: each is read right, or refused in one line."""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

import data
from data.flags import read_mapping, read_values
from data.tables.problems import CellError
from data.values import RatingCells, plain_text


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


def book(*cells: object, header: str = "mark") -> list[list[object]]:
    rows = [[f"r{place}", f"Text {place}", f"Short {place}", c] for place, c in enumerate(cells)]
    return [["id", "document", "summary", header], *rows]


def pairs(*cells: object, sides: tuple[str, str] = ("Answer 1", "Answer 2"), **more: Any) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "prompt", *sides, *more, "choice"])
    for place, cell in enumerate(cells):
        extra = [values[place] for values in more.values()]
        writer.writerow([f"p{place}", f"Ask {place}", "Yes", "No", *extra, cell])
    return file.getvalue()


def votes(
    *cells: object, expected: Sequence[tuple[object, ...]] | tuple[str, ...], **how: Any
) -> Sheet:
    sides = ["response_a=Answer 1", "response_b=Answer 2", "votes=choice"]
    content = pairs(*cells, **how.pop("more", {}))
    return Sheet(content, expected, map=sides, pairs=True, **how)


def ones(*numbers: object) -> list[tuple[object, ...]]:
    return [() if number is None else (number,) for number in numbers]


WIDE = (
    'id,document,summary,Rater Anna,"Rater Ben, PhD"\r\n'
    "r0,Text,Short,4,3\r\nr1,Other,Brief,2,n/a\r\n"
)
LONG = (
    "Item;Text;summary;Who;Mark\r\n"
    "7;Eins, zwei;Kurz;Anna;3,5\r\n7;Eins, zwei;Kurz;Ben;4\r\n"
    "8;Drei;Knapp;Anna;k.A.\r\n8;Drei;Knapp;Ben;2\r\n"
)
NO_IDS = "document,summary,Who,mark\r\nOne,Short,Anna,4\r\nOne,Short,Ben,2\r\nTwo,Brief,Anna,5\r\n"
NESTED = json.dumps(
    [
        {
            "id": "r0",
            "document": "T",
            "summary": "S",
            "annotations": {"mark": {"anna": "4 - good", "ben": "n/a"}},
        },
        {
            "id": "r1",
            "document": "U",
            "summary": "R",
            "annotations": {"mark": {"anna": "2 - poor", "ben": 3}},
        },
    ]
)
LIKERT = ("strongly agree", "agree", "disagree")
SIGNED = {"expected": [("A",), ("B",), ("tie",), ("A",)]}

ZOO: dict[str, Sheet] = {
    # Numbers.
    "decimal commas": Sheet(
        column("3,5", "4", "2,25", delimiter=";"), ones(3.5, 4, 2.25), note="'3,5' as 3.5"
    ),
    "decimal commas in quotes": Sheet(column("3,5", "4,0"), ones(3.5, 4)),
    "one open comma, others decimal": Sheet(column("1,234", "0,5"), ones(1.234, 0.5)),
    "one open comma, others thousands": Sheet(column("1,234", "1,234,567"), ones(1234, 1234567)),
    "open commas": Sheet(
        column("1,234", "2,500"), ("line 2", "'mark'", "'1,234' is 1234 or 1.234", "--values")
    ),
    "an open comma settled": Sheet(column("1,234", "2"), ones(1234, 2), values=['"1,234"=1234']),
    "an open point among decimal commas": Sheet(
        column("1.234", "3,5"), ("line 2", "is 1234 or 1.234")
    ),
    "a code for missing": Sheet(
        column(4, 2, -99), ("line 4", "'mark'", "code for a missing rating", "--values=-99=")
    ),
    "a code for missing, said": Sheet(column(4, 2, 999), ones(4, 2, None), values=["999="]),
    "a code among signs": Sheet(column(40, -2, -99), ones(40, -2, -99)),
    "99 among percentages of agreement": Sheet(column(99, 2, 55), ones(99, 2, 55)),
    "minus one among marks from one": Sheet(
        column(4, 2, -1), ("line 4", "code for a missing rating", "--values=-1=")
    ),
    "minus one among marks, said": Sheet(column(4, 2, -1), ones(4, 2, None), values=["-1="]),
    "minus one among signs": Sheet(column(1, 0, -1), ones(1, 0, -1)),
    "nine of ten": Sheet(column(9, 2, 6), ones(9, 2, 6)),
    "points of thousands": Sheet(column("1.234,5", "1.250"), ones(1234.5, 1250)),
    "three decimals": Sheet(column("4.333", "3.667"), ones(4.333, 3.667)),
    "thousands by spaces": Sheet(column("1\u202f234", "950"), ones(1234, 950), note="thousands"),
    "full width and minus": Sheet(column("４．５", "−0.5", "\xa03\xa0"), ones(4.5, -0.5, 3)),
    "numbers as text, whole numbers with a point": Sheet(
        column('="4"', "'3", "5.0", "4."), ones(4, 3, 5, 4)
    ),
    "a range": Sheet(
        column("4", "3-4"), ("line 3", "'3-4' is not a number", "--values '3-4=NUMBER'")
    ),
    "hedges": Sheet(column("4", "4?"), ("line 3", "'4?' is not a number")),
    "a half sign": Sheet(column("4", "4½"), ("line 3", "'4½' is not a number")),
    "a superscript": Sheet(column("4", "4²"), ("line 3", "'4²' is not a number")),
    # Shares, percentages, stars.
    "percentages": Sheet(column("85%", "92,5 %", "70%"), ones(85, 92.5, 70), note="'85%' as 85"),
    "percentages among shares of one": Sheet(
        column("85%", "90%", "0.7"), ("line 4", "'0.7' stands among percentages")
    ),
    "fifths": Sheet(column("4/5", "3 / 5", "5 out of 5"), ones(4, 3, 5), note="of 5"),
    "fifths and tenths": Sheet(column("4/5", "3/5", "8/10"), ("line 4", "'8/10' stands among n/5")),
    "fifths and bare numbers": Sheet(
        column("4/5", "3/5", "4"), ("line 4", "'4' stands among shares")
    ),
    "stars": Sheet(column("★★★★☆", "★★☆☆☆", "⭐️⭐️⭐️"), ones(4, 2, 3), note="as 4"),
    "stars in words": Sheet(column("4 stars", "1 star", "3.5 stars"), ones(4, 1, 3.5)),
    "shares that became dates": Sheet(
        column("04. Mai", "03. Mai"), ("line 2", "'04. Mai' is a date", "format the column as text")
    ),
    "dates of the year": Sheet(column("5", "2024-05-04"), ("line 3", "is a date")),
    # Labels beside numbers.
    "labels after a dash": Sheet(
        column("4 - good", "1 – bad", "3"), ones(4, 1, 3), note="'4 - good' as 4"
    ),
    "labels in brackets": Sheet(column("good (4)", "(1) bad", "[3] so so"), ones(4, 1, 3)),
    "labels after other marks": Sheet(
        column("4: good", "1. bad", "3) fair", "2=poor"), ones(4, 1, 3, 2)
    ),
    "labels after a comma": Sheet(column("4, good", "1, bad"), ones(4, 1), note="'4, good' as 4"),
    "shares in German": Sheet(
        column("4,0 von 5", "3,5 von 5", delimiter=";"), ones(4, 3.5), note="of 5"
    ),
    "German marks, of which 1 is the best": Sheet(
        column("1 (sehr gut)", "5 (mangelhaft)", "3 (befriedigend)"),
        (
            "line 2",
            "'1 (sehr gut)' is on a scale that counts downwards, from '1 (sehr gut)' to '5 (mang",
            "--values '1 (sehr gut)=5,3 (befriedigend)=3,5 (mangelhaft)=1'",
        ),
    ),
    "German marks, turned": Sheet(
        column("1 (sehr gut)", "5 (mangelhaft)"),
        ones(5, 1),
        values=["1 (sehr gut)=5,5 (mangelhaft)=1"],
    ),
    "1 that is not good": Sheet(column("1 - not good", "5 - bad luck"), ones(1, 5)),
    "pluses and minuses": Sheet(
        column("++", "+", "-"), ("line 2", "--values '+=NUMBER,++=NUMBER,-=NUMBER'")
    ),
    "pluses and minuses, said": Sheet(
        column("++", "+", "-"), ones(2, 1, -1), values=["++=2,+=1,-=-1"]
    ),
    "several in a cell": Sheet(column("4;3;5", "2; 1,5"), [(4, 3, 5), (2, 1.5)]),
    "several in a cell as a tool exports them": Sheet(
        column('[{"rating": 4, "user_id": "u2"}, {"rating": 2, "user_id": "u1"}]', "[3]"),
        [(4, 2), (3,)],
    ),
    "one annotator twice in a cell": Sheet(
        column('[{"value": 4, "user": "u"}, {"value": 2, "user": "u"}]'),
        ("line 2", "has two ratings by one annotator"),
    ),
    "labels after a space": Sheet(column("4 good", "1 bad", "4 good"), ones(4, 1, 4)),
    "counts of things": Sheet(
        column("3 errors", "1 errors"), ("line 2", "'3 errors' is not a number", "write 3 alone")
    ),
    "a label for nothing": Sheet(
        column("4 - good", "0 - n/a", "2 - poor"), ones(4, None, 2), note="1 without a rating"
    ),
    "labels on a scale of words": Sheet(
        column(*LIKERT),
        (
            "line 2",
            "'strongly agree' is not a number",
            "--values 'agree=NUMBER,disagree=NUMBER,strongly agree=NUMBER'",
        ),
    ),
    "labels on a scale of words, said": Sheet(
        column(*LIKERT),
        ones(5, 4, 2),
        values=["Strongly  Agree=5,agree=4,disagree=2"],
        note="as --values says",
    ),
    "a scale turned round": Sheet(column("1", "5", "3"), ones(5, 1, 3), values=["1=5,5=1"]),
    # Yes and no; nothing.
    "truth": Sheet(column("TRUE", "FALSE", "True"), ones(1, 0, 1), note="FALSE as 0"),
    "yes and no": Sheet(
        column("Yes", "no ", "N/A", "yes"), ones(1, 0, None, 1), note="1 without a rating"
    ),
    "truth in German": Sheet(column("WAHR", "FALSCH", delimiter=";"), ones(1, 0)),
    "truth in Italian": Sheet(column("VERO", "Falso"), ones(1, 0)),
    "yes in Spanish, with its accent and without": Sheet(column("Sí", "No", "Si"), ones(1, 0, 1)),
    "thumbs": Sheet(column("👍", "👎🏽", "👍"), ones(1, 0, 1)),
    "yes among numbers": Sheet(
        column("4", "3", "yes"), ("line 4", "'yes' stands among plain numbers")
    ),
    "two kinds of yes": Sheet(
        column("yes", "no", "TRUE"), ("line 4", "'TRUE' stands among words for yes and no")
    ),
    "yes, no and maybe": Sheet(column("yes", "no", "maybe"), ones(1, 0, 0.5), values=["maybe=0.5"]),
    "sides called as models are": Sheet(
        pairs("Model B", sides=("Model A", "Model B")),
        [("B",)],
        map=["response_a=Model A", "response_b=Model B", "votes=choice"],
        pairs=True,
    ),
    "up and down": Sheet(column("up", "down"), ones(1, 0), values=["up=1,down=0"]),
    "nothing in many words": Sheet(
        column("4", "n/a", "-", "#N/A", "Don't know", "", "2"),
        ones(4, None, None, None, None, None, 2),
        note="4 without a rating",
    ),
    "an error of a formula": Sheet(
        column("4", "#DIV/0!", "#REF!"),
        ("line 3", "'#DIV/0!' is the error of a formula", "--values '#DIV/0!=,#REF!='"),
    ),
    "an error of a formula, said": Sheet(
        column("4", "#DIV/0!", "#WERT!"), ones(4, None, None), values=["#DIV/0!=,#WERT!="]
    ),
    # Columns.
    "two annotators, one with a comma": Sheet(
        WIDE, [(4, 3), (2,)], map=['mark=Rater Anna,"Rater Ben, PhD"']
    ),
    "a column with a comma alone": Sheet(WIDE, ones(3, None), map=["mark=Rater Ben, PhD"]),
    "names in another case": Sheet(
        WIDE,
        ones(4, 2),
        map=["mark=rater  ANNA"],
        note="'rater  ANNA' was matched with column 'Rater Anna'",
    ),
    "a column that is not there": Sheet(
        WIDE,
        ("'Rater Carl'", "there is no such column", "Rater Anna"),
        map=["mark=Rater Anna,Rater Carl"],
    ),
    "one annotator's column in another style": Sheet(
        "id;document;summary;A;B\r\nr0;T;S;3,5;3.5\r\nr1;U;R;4,5;2\r\n",
        [(3.5, 3.5), (4.5, 2)],
        map=["mark=A,B"],
    ),
    "annotators on scales of two kinds": Sheet(
        "id,document,summary,A,B\nr0,T,S,4,80%\nr1,U,R,3,60%\n",
        ("'B': holds percentages, and column 'A' plain numbers", "map columns of one kind"),
        map=["mark=A,B"],
    ),
    "annotators who say yes, and 1": Sheet(
        "id,document,summary,A,B\nr0,T,S,yes,1\nr1,U,R,no,0\n", [(1, 1), (0, 0)], map=["mark=A,B"]
    ),
    "two columns that may hold ids": Sheet(
        "ID,Id,document,summary,mark\n1,2,T,S,4\n2,2,U,R,3\n", ("'id'", "--map id=COLUMN")
    ),
    "a header over two lines": Sheet(
        column("4", "2", header="How good?\n(1-5)"), ones(4, 2), map=["mark=how good? (1-5)"]
    ),
    "texts inside objects": Sheet(
        json.dumps({"id": 1, "fields": {"document": "T", "summary": "S"}, "mark": 4}),
        ("no column holds texts", "--map document=fields.document --map summary=fields.summary"),
        name="labels.jsonl",
    ),
    "texts inside objects, said": Sheet(
        json.dumps(
            {"id": 1, "fields": {"document": "T", "summary": "S"}, "r": {"mark": [{"value": 4}]}}
        ),
        [(4,)],
        map=["document=fields.document", "summary=fields.summary", "mark=r.mark"],
        name="labels.jsonl",
    ),
    "an empty answer": Sheet(
        column("4", "2", "3").replace("Short 1; brief", ""),
        ones(4, 3),
        note="left out for an empty 'summary': 1 row (line 3)",
    ),
    # Rows.
    "a long sheet under any names": Sheet(
        LONG,
        [(3.5, 4), (2,)],
        map=["id=item", "document=Text", "annotator=WHO", "mark=Mark"],
        note="1 without a rating",
    ),
    "annotators' rows without ids": Sheet(
        NO_IDS, [(4, 2), (5,)], map=["annotator=Who"], note="no column holds ids"
    ),
    "a long sheet in French": Sheet(
        "identifiant;article;résumé;annotateur;critère;note\r\n"
        "1;Un;Bref;Ana;mark;3,5\r\n1;Un;Bref;Luc;mark;4\r\n2;Deux;Court;Ana;mark;2\r\n",
        [(3.5, 4), (2,)],
        map=["id=identifiant"],
    ),
    "a long sheet in Spanish": Sheet(
        "id,documento,resumen,evaluador,dimensión,puntuación\n1,Uno,Corto,Ana,mark,3\n"
        "1,Uno,Corto,Luis,mark,4\n1,Uno,Corto,Luis,tono,1\n",
        [(3, 4)],
    ),
    "a question with a column for each choice": Sheet(
        "WorkerId,Input.document,Input.summary,Answer.mark.1,Answer.mark.2,Answer.mark.3\n"
        "w1,One,Short,false,false,true\nw2,One,Short,true,false,false\n"
        "w1,Two,Brief,false,true,false\nw2,Two,Brief,false,true,false\n",
        [(3, 1), (2, 2)],
        map=["mark=Answer.mark"],
        note="'Answer.mark' is read from Answer.mark.1, Answer.mark.2, Answer.mark.3",
    ),
    "annotators' rows without ids or names": Sheet(
        NO_IDS, ("line 3", "holds the same texts as line 2", "--map annotator=COLUMN")
    ),
    "rows without ids": Sheet(
        "document,summary,mark\nOne,S,4\nTwo,S,2\n",
        ones(4, 2),
        note="each is the number of its row",
    ),
    "an id for each annotator's row": Sheet(
        NO_IDS.replace("\r\n", "\r\n1,").replace("document", "id,document", 1).removesuffix("1,"),
        ("line 3", "'1' is the id of line 2 too", "--map annotator=COLUMN"),
    ),
    "nested JSON": Sheet(NESTED, [(4,), (2, 3)], name="labels.json", note="'4 - good' as 4"),
    # Workbooks.
    "a workbook of numbers": Sheet(book(4, 2.5, 3.0), ones(4, 2.5, 3), name="labels.xlsx"),
    "a workbook of truth": Sheet(book(True, False), ones(1, 0), name="labels.xlsx"),
    "a workbook of labels": Sheet(
        book("4 - good", "2 - poor", "bad"),
        ("row 4", "column D 'mark'", "'bad' is not a number"),
        name="labels.xlsx",
    ),
    "a workbook under titles, in commas": Sheet(
        [["Round 2"], [], *book("3,5", 4, None)],
        ones(3.5, 4, None),
        name="labels.xlsx",
        note="row 1 ('Round 2')",
    ),
    # Pairs.
    "the winner's column": votes(
        "Answer 1", "answer 2", "Tie", expected=[("A",), ("B",), ("tie",)], note="'Answer 1' as A"
    ),
    "the winner's model": votes(
        "gpt",
        "llama",
        expected=[("A",), ("A",)],
        more={"model_a": ["gpt", "llama"], "model_b": ["llama", "gpt"]},
    ),
    "the side that a model is called like": votes(
        "B",
        expected=("line 2", "'B' may be the system's name (A) or the side (B)"),
        more={"model_a": ["B"], "model_b": ["A"]},
    ),
    "phrases": votes(
        "A>B",
        "B >> A",
        "A=B",
        "The first answer is slightly better",
        "[[B]]",
        expected=[("A",), ("B",), ("tie",), ("A",), ("B",)],
    ),
    "a phrase that says no": votes(
        "A is worse", expected=("line 2", "'A is worse' is no vote", "--values")
    ),
    "sides in German": votes(
        "links", "rechts", "gleich gut", "beide", expected=[("A",), ("B",), ("tie",), ("tie",)]
    ),
    "degrees": votes("-3", "2", "0", "-1", note="negative numbers prefer A", **SIGNED),
    "bare 0 and 1": votes(
        "0", "1", expected=("line 2", "'0' is no vote", "--values 0=A,1=B (or 0=B,1=A)")
    ),
    "bare 0 and 1, said": votes("0", "1", expected=[("A",), ("B",)], values=["0=A,1=B"]),
    "1 and 2": votes("1", "2", "1.5", expected=[("A",), ("B",), ("tie",)]),
    "1 to 7": votes(
        "1", "7", "4", expected=("line 2", "'1' is no vote", "--values 1=...,4=...,7=...")
    ),
    "a model that neither side is called like": votes(
        "gpt4",
        expected=("line 2", "'gpt4' is no vote", "the name of one of the pair's two systems"),
        more={"model_a": ["gpt-4"], "model_b": ["llama"]},
    ),
    "a column for each winner": Sheet(
        "id,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
        "1,Ask,Yes,No,1,0,0\n2,Ask,Yes,No,0,1,0\n3,Ask,Yes,No,0,0,1\n4,Ask,Yes,No,0,1,0\n",
        [("A",), ("B",), ("tie",), ("B",)],
        pairs=True,
        note="'winner' is read from winner_model_a",
    ),
    "sides called in words": Sheet(
        "id,prompt,Model A output,Model B output,preference (-3 to 3)\n"
        "1,Ask,Yes I do think so and have for years,No I do not think so at all,-3\n"
        "2,Ask,Yes,No,2\n3,Ask,Yes,No,0\n",
        [("A",), ("B",), ("tie",)],
        map=["votes=preference (-3 to 3)"],
        pairs=True,
    ),
    "nobody voted": votes(
        "A", "n/a", "B", expected=[("A",), ("B",)], note="1 pair left out for want of a vote"
    ),
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
    mapping: Mapping[str, Any] = read_mapping(tuple(pair.split("=", 1)) for pair in sheet.map)  # type: ignore[misc]
    values = read_values(sheet.values)
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


def table(**columns: Sequence[object]) -> str:
    """A sheet of eight outputs with texts and columns of one's own."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "document", "summary", *columns])
    for place, cells in enumerate(zip(*columns.values(), strict=True)):
        writer.writerow([f"r{place}", TEXTS[place], f"Short {place}.", *cells])
    return file.getvalue()


MARKS = (3, 1, 2, 3, 3, 1, 2, 2)
GUESSES: dict[str, tuple[str, dict[str, tuple[str, ...]] | tuple[str, ...]]] = {
    "numbers that count": (
        table(conversation=(4, 4, 4, 4, 2, 2, 2, 2), turn=MARKS, mark=MARKS),
        {"mark": ("mark",)},
    ),
    "numbers that rise row by row": (
        table(block=(1, 1, 1, 2, 2, 3, 3, 4), mark=MARKS),
        {"mark": ("mark",)},
    ),
    "ratings that rise": (table(mark=(1, 1, 2, 2, 3, 3, 4, 5)), {"mark": ("mark",)}),
    "large numbers": (
        table(words=MARKS, size=(900, 20, 31, 55, 70, 8, 9, 101), mark=MARKS),
        {"mark": ("mark",)},
    ),
    "questions of a form": (
        table(**{"How good is it? (1-5)": MARKS, "WorkTimeInSeconds": MARKS, "Q1": MARKS}),
        {"How good is it? (1-5)": ("How good is it? (1-5)",), "Q1": ("Q1",)},
    ),
    "a column for each annotator": (
        table(**{"Rater Anna": MARKS, "Rater Ben": MARKS}),
        ("Rater Anna, Rater Ben look like one annotator each", "--map 'NAME=Rater Anna,Rater Ben'"),
    ),
    "a column for each annotator, in German": (
        table(**{"Prüferin Groß": MARKS, "Prüfer Köhler": MARKS}),
        ("Prüferin Groß, Prüfer Köhler look like one annotator each",),
    ),
    "numbers for annotators": (
        table(**{"1": MARKS, "2": MARKS}),
        ("1, 2 look like one annotator each", "--map NAME=1,2"),
    ),
    "pairs under the models' names": (
        "question,gpt-4,llama-2,winner\nAsk,Yes,No,gpt-4\nAsk,Yes,No,llama-2\n",
        (
            "'winner' has 'gpt-4'",
            "--map response_a=gpt-4 --map response_b=llama-2 --map votes=winner",
        ),
    ),
    "words beside ratings": (
        table(tone=["good", "bad", "fair", "good", *["bad"] * 4], mark=MARKS),
        {"mark": ("mark",)},
    ),
    "numbered columns": (
        table(mark_1=MARKS, mark_2=MARKS),
        ("mark_1, mark_2 look like one annotator each", "--map mark=mark_1,mark_2"),
    ),
    "annotators and dimensions": (
        table(Anna_mark=MARKS, Anna_tone=MARKS, Ben_mark=MARKS, Ben_tone=MARKS),
        ("one annotator and dimension each", "--map mark=Anna_mark,Ben_mark --map tone="),
    ),
    "a column for each system": (
        table(summary_gpt=TEXTS, summary_llama=TEXTS, gpt_mark=MARKS, llama_mark=MARKS),
        ("rate the outputs of several systems in one row", "write a row for each output"),
    ),
    "words that may be ratings": (
        table(mark=["good", "bad", *["good"] * 6]),
        ("'mark' has 'good'", "--dimension mark"),
    ),
    "chosen and rejected": (
        "prompt,chosen,rejected\nAsk,Yes,No\n",
        ("holds chosen and rejected texts", "in an order drawn at random"),
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
        assert data.read_labels(path).reading.ratings == expected
        return
    with pytest.raises(data.LabelError) as caught:
        data.read_labels(path)
    for part in expected:
        assert part in str(caught.value)
    assert len(caught.value.problems) == 1


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
    reader = RatingCells(cells)
    for cell in cells:
        try:
            number = reader.read(cell)
        except CellError:
            continue
        if number is None or not isinstance(cell, str) or "★" in cell:
            continue
        digits = re.sub(r"\D", "", plain_text(cell))
        shown = re.sub(r"\D", "", f"{abs(number):.12f}".rstrip("0").rstrip("."))
        assert math.isfinite(number)
        assert shown.strip("0") in digits
    assert all(isinstance(note, str) for note in reader.notes())
