"""Labelled pairs: candidates under several names, votes in several words."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from jsonl import write_jsonl

import data

PAIR = {"id": "a", "prompt": "Why?", "response_a": "Because.", "response_b": "So."}


def file_of(folder: Path, *rows: Mapping[str, object]) -> Path:
    path = folder / "pairs.jsonl"
    write_jsonl(path, rows)
    return path


def read_one(folder: Path, **cells: object) -> data.LabelledPair:
    return data.read_pairs(file_of(folder, {**PAIR, **cells})).pairs[0]


VOTES: dict[str, tuple[Mapping[str, object], tuple[str, ...]]] = {
    "a list": ({"votes": ["A", "tie", "B", "A"]}, ("A", "tie", "B", "A")),
    "a list with one who did not vote": ({"votes": ["A", None]}, ("A",)),
    "one choice": ({"preferred": "B"}, ("B",)),
    "small letters": ({"preferred": "b"}, ("B",)),
    "AlpacaEval's second": ({"preference": 2.0}, ("B",)),
    "AlpacaEval's draw": ({"preference": 1.5}, ("tie",)),
    "votes before the majority": ({"votes": ["A", "A", "B"], "preferred": "A"}, ("A", "A", "B")),
    "JSON in one cell": ({"votes": '["A", "tie"]'}, ("A", "tie")),
}


@pytest.mark.parametrize("name", VOTES)
def test_votes_are_read_in_every_wording(name: str, tmp_path: Path) -> None:
    cells, votes = VOTES[name]
    assert read_one(tmp_path, **cells).votes == votes


def test_a_lone_1_may_be_the_first_or_the_second_side_unless_2_or_the_columns_say(
    tmp_path: Path,
) -> None:
    one, two = {**PAIR, "preference": 1}, {**PAIR, "id": "b", "preference": 2}
    labelled = data.read_pairs(file_of(tmp_path, one, two))
    assert [pair.votes for pair in labelled.pairs] == [("A",), ("B",)]
    sides = {"id": "a", "prompt": "Why?", "output_1": "x", "output_2": "y", "preference": 1}
    assert data.read_pairs(file_of(tmp_path, sides)).pairs[0].votes == ("A",)
    with pytest.raises(data.LabelError, match=r"which is which: --values 0=A,1=B"):
        data.read_pairs(file_of(tmp_path, one))


@pytest.mark.parametrize("vote", ["C", "1.2", 0, True, 1.7, "A or B", {"A": 1}])
def test_any_other_vote_is_refused(vote: object, tmp_path: Path) -> None:
    with pytest.raises(data.LabelError, match=r"line 1, field 'preferred': .*; write A, B or tie"):
        read_one(tmp_path, preferred=vote)


CANDIDATES = {
    "response": ("response_a", "response_b"),
    "summary": ("summary_a", "summary_b"),
    "output": ("output_1", "output_2"),
    "translation": ("translation_a", "translation_b"),
}


@pytest.mark.parametrize("word", CANDIDATES)
def test_candidates_go_by_the_tasks_own_word(word: str, tmp_path: Path) -> None:
    first, second = CANDIDATES[word]
    row = {"id": "a", "post": "Long.", first: "One.", second: "Two.", "preferred": "A"}
    labelled = data.read_pairs(file_of(tmp_path, row))
    assert labelled.candidate == word
    assert (labelled.pairs[0].response_a, labelled.pairs[0].response_b) == ("One.", "Two.")
    assert labelled.pairs[0].texts == {"post": "Long."}


def test_an_alpaca_eval_file_reads_as_it_is(tmp_path: Path) -> None:
    row = {
        "instruction": "Name a river.",
        "output_1": "The Rhine.",
        "generator_1": "old",
        "output_2": "The Nile.",
        "generator_2": "new",
        "preference": 2.0,
    }
    labelled = data.read_pairs(file_of(tmp_path, row), map={"id": "#row"})
    pair = labelled.pairs[0]
    assert (pair.system_a, pair.system_b, pair.votes) == ("old", "new", ("B",))
    assert pair.texts == {"instruction": "Name a river."}


def test_pairs_nobody_voted_on_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{**PAIR, "votes": ["A"]}, {**PAIR, "id": "b", "votes": []}, {**PAIR, "id": "c"}]
    labelled = data.read_pairs(file_of(tmp_path, *rows))
    assert [pair.id for pair in labelled.pairs] == ["a"]
    assert labelled.notes[1:] == ("left out for lack of a vote: 2 pairs",)
    assert labelled.notes[0] == "2 rows repeat another row's texts (lines 2, 3)"
    with pytest.raises(data.LabelError, match="no pair has a vote"):
        data.read_pairs(file_of(tmp_path, {**PAIR, "votes": []}))


def test_a_majority_beside_the_votes_is_no_text(tmp_path: Path) -> None:
    assert [*read_one(tmp_path, votes=["A", "B", "A"], preferred="A").texts] == ["prompt"]


def test_a_system_that_wrote_nothing_keeps_its_votes(tmp_path: Path) -> None:
    assert read_one(tmp_path, response_b="", preferred="A").response_b == ""


def test_a_forgotten_prompt_is_refused_and_a_forgotten_candidate_left_out_and_counted(
    tmp_path: Path,
) -> None:
    good = {**PAIR, "preferred": "A"}
    for field, value, what in (
        ("response_b", ["So.", 1], r"\['So.', 1\] is not a text"),
        ("prompt", "", "is empty"),
    ):
        with pytest.raises(data.LabelError, match=f"line 2, field '{field}': {what}"):
            data.read_pairs(file_of(tmp_path, good, {**good, "id": "b", field: value}))
    rows = [good, {**good, "id": "b", "response_a": None}]
    pd.DataFrame(rows).to_csv(tmp_path / "pairs.csv", index=False)
    for path in (file_of(tmp_path, *rows), tmp_path / "pairs.csv"):
        labelled = data.read_pairs(path)
        assert [pair.id for pair in labelled.pairs] == ["a"]
        assert any(note.startswith("left out for an empty 'resp") for note in labelled.notes)
    with pytest.raises(data.LabelError, match="is empty in 1 of 1 rows; name the"):
        data.read_pairs(file_of(tmp_path, rows[1]))


def test_a_file_without_candidates_or_votes_names_its_columns(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"id": "a", "prompt": "Why?", "left": "x", "right": "y"})
    with pytest.raises(
        data.LabelError, match="no two columns of candidates among id, prompt, left, right"
    ):
        data.read_pairs(path)
    with pytest.raises(
        data.LabelError, match=r"column of votes among id, prompt.*--map votes=COLUMN"
    ):
        data.read_pairs(file_of(tmp_path, PAIR))


def test_votes_of_several_annotators_are_joined_from_columns_and_from_rows(tmp_path: Path) -> None:
    columns = tmp_path / "columns.csv"
    columns.write_text("id,prompt,response_a,response_b,v1,v2\na,Ask,Yes,No,A,tie\n")
    labelled = data.read_pairs(columns, map={"votes": ["v1", "v2"]})
    assert labelled.pairs[0].votes == ("A", "tie")
    assert labelled.reading.ratings == {"votes": ("v1", "v2")}
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "Nr,prompt,response_a,response_b,annotator,preferred,reason\n"
        "1,Ask,Yes,No,ann,A,plain\n1,Ask,Yes,No,bob,tie,same\n"
    )
    (pair,) = data.read_pairs(rows).pairs
    assert (pair.votes, pair.comments) == (("A", "tie"), ("plain", "same"))


def test_the_words_of_chatbot_arena_are_votes_and_any_other_choice_is_asked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pairs.csv"
    header = "id,question,answer_a,answer_b,winner\n"
    path.write_text(header + "a,Ask,Yes,No,model_b\nb,Ask,Yes,No,tie (bothbad)\n")
    assert [pair.votes for pair in data.read_pairs(path).pairs] == [("B",), ("tie",)]
    with pytest.raises(data.LabelError, match="holds pairs of candidates"):
        data.read_labels(path)
    path.write_text(header.replace("winner", "choice") + "a,Ask,Yes,No,model_b\n")
    with pytest.raises(data.LabelError, match="name your column with --map votes=COLUMN"):
        data.read_pairs(path)
