"""Labelled pairs: candidates under several names, votes in several words."""

from collections.abc import Mapping

import pytest
from files import csv_of, file_of, refusal

import data

PAIR = {"id": "a", "prompt": "Why?", "response_a": "Because.", "response_b": "So."}
VOTED = {**PAIR, "preferred": "A"}


def refusal_of(*rows: Mapping[str, object]) -> str:
    return refusal([*rows], read=data.read_pairs)


def read_one(**cells: object) -> data.LabelledPair:
    return data.read_pairs([{**PAIR, **cells}]).pairs[0]


@pytest.mark.parametrize(
    ("cells", "votes"),
    [
        ({"votes": ["A", "tie", "B", "A"]}, ("A", "tie", "B", "A")),
        ({"votes": ["A", None]}, ("A",)),
        ({"votes": '["A", "tie"]'}, ("A", "tie")),
        ({"preferred": "b"}, ("B",)),
        ({"vote": "b"}, ("B",)),
        # AlpacaEval's second and draw.
        ({"preference": 2.0}, ("B",)),
        ({"preference": 1.5}, ("tie",)),
        # A system may have written nothing.
        ({"response_b": "", "preferred": "A"}, ("A",)),
        # Votes go before their majority.
        ({"votes": ["A", "A", "B"], "preferred": "A"}, ("A", "A", "B")),
    ],
)
def test_votes_are_read_in_every_wording(cells, votes):
    pair = read_one(**cells)
    assert pair.votes == votes
    assert [*pair.texts] == ["prompt"]


@pytest.mark.parametrize(
    ("votes", "values", "expected"),
    [
        (["Answer 1", "answer 2", "Tie"], {}, ["A", "B", "tie"]),
        (["gpt", "gpt"], {}, ["A", "B"]),
        ([-3, 2, 0], {}, ["A", "B", "tie"]),
        ([1, 2], {}, ["A", "B"]),
        ([0, 1], {"0": "A", "1": "B"}, ["A", "B"]),
        # A lone 1 may be the first or the second side.
        *((votes, {}, "which is which: --values 0=A,1=B (or 0=B,1=A)") for votes in ([1], [0, 1])),
        ([0, 1, 2], {}, "--values 0=tie,1=A,2=B"),
        *(([vote], {}, "is not a vote; write A, B or tie") for vote in ("C", "A or B", "1.2")),
        *(([vote], {}, "is not a vote; write A, B or tie") for vote in (True, 1.7, {"A": 1}, 7)),
    ],
)
def test_votes_are_words_names_or_numbers_or_are_refused(votes, values, expected):
    rows = [{"prompt": f"Ask {n}", "Answer 1": "Yes", "Answer 2": "No"} for n in range(len(votes))]
    for n, (row, vote) in enumerate(zip(rows, votes, strict=True)):
        row |= {"model_a": ("gpt", "llama")[n % 2], "model_b": ("llama", "gpt")[n % 2]}
        row["choice"] = vote
    how = {"map": {"votes": "choice"}, "values": values}
    if isinstance(expected, str):
        assert expected in refusal(rows, read=data.read_pairs, **how)
        return
    labelled = data.read_pairs(rows, **how)
    assert [pair.votes for pair in labelled.pairs] == [(vote,) for vote in expected]
    assert any("negative numbers are A" in note for note in labelled.notes) == (votes[0] == -3)


@pytest.mark.parametrize(
    ("word", "name"),
    [(word, word) for word in ("response", "summary", "translation")]
    + [("Input.response", "input_response"), ("Réponse", "reponse"), ("答", "response")],
)
def test_candidates_are_named_by_the_tasks_own_word(word, name):
    row = {"id": "a", "post": "Long.", f"{word}_a": "One.", f"{word}_b": "Two.", "preferred": "A"}
    labelled = data.read_pairs([row])
    assert labelled.candidate == name
    assert (labelled.pairs[0].response_a, labelled.pairs[0].response_b) == ("One.", "Two.")
    assert labelled.pairs[0].texts == {"post": "Long."}


def test_an_alpaca_eval_file_reads_as_it_is():
    sides = {"output_1": "The Rhine.", "generator_1": "old", "output_2": "The Nile."}
    row = {"instruction": "Name a river.", **sides, "generator_2": "new", "preference": 2.0}
    (pair,) = data.read_pairs([row], map={"id": "#row"}).pairs
    assert (pair.system_a, pair.system_b, pair.votes) == ("old", "new", ("B",))
    assert pair.texts == {"instruction": "Name a river."}


def test_pairs_without_a_vote_or_an_output_are_counted():
    rows = [{**PAIR, "votes": ["A"]}, {**PAIR, "id": "b", "votes": []}, {**PAIR, "id": "c"}]
    labelled = data.read_pairs([*rows, {**rows[0], "id": "d", "response_a": None}])
    assert [pair.id for pair in labelled.pairs] == ["a"]
    assert "left out 2 pairs without a vote" in labelled.notes
    assert "left out 1 row, since 'response_a' is empty (row 4)" in labelled.notes
    in_csv = csv_of([*VOTED], [*VOTED.values()], ["b", "Why?", "", "So.", "A"])
    assert [pair.id for pair in data.read_pairs(file_of(in_csv)).pairs] == ["a"]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{**PAIR, "votes": []}], "no pair has a vote"),
        ([PAIR], "--map votes=COLUMN"),
        ([VOTED, {**VOTED, "id": "b", "prompt": ""}], "row 2, field 'prompt': is empty"),
        ([{**VOTED, "response_b": ["So.", 1]}], "field 'response_b': ['So.', 1] is not a text"),
        ([{**VOTED, "response_a": None}], "is empty in 1 of 1 rows; name the"),
        (
            [{"id": "a", "prompt": "Why?", "left": "x", "right": "y"}],
            "no two columns hold a pair's outputs among id, prompt, left, right",
        ),
        (
            [{"id": "a", "document": "T", "summary": "S", "ratings": {"relevance": 3}}],
            "if each row has one output, use --dimension NAME (in Python",
        ),
    ],
)
def test_a_file_that_lacks_what_a_pair_has_is_refused(rows, fault):
    assert fault in refusal_of(*rows)


def test_votes_of_several_annotators_are_joined_from_columns_and_from_rows():
    columns = file_of("id,prompt,response_a,response_b,v1,v2\na,Ask,Yes,No,A,tie\n")
    labelled = data.read_pairs(columns, map={"votes": ["v1", "v2"]})
    assert labelled.pairs[0].votes == ("A", "tie")
    assert labelled.reading.ratings == {"votes": ("v1", "v2")}
    rows = "1,Ask,Yes,No,ann,A,plain\n1,Ask,Yes,No,bob,tie,same\n"
    header = "Nr,prompt,response_a,response_b,annotator,preferred,reason\n"
    (pair,) = data.read_pairs(file_of(header + rows)).pairs
    assert (pair.votes, pair.comments) == (("A", "tie"), ("plain", "same"))


def test_the_words_of_chatbot_arena_are_votes():
    header, row = "id,question,answer_a,answer_b,{}\n", "a,Ask,Yes,No,model_b\n"
    path = file_of(f"{header.format('winner')}{row}b,Ask,Yes,No,tie (bothbad)\n")
    assert [pair.votes for pair in data.read_pairs(path).pairs] == [("B",), ("tie",)]
    assert "holds pairs of outputs" in refusal(path)
    message = refusal(file_of(header.format("choice") + row), read=data.read_pairs)
    assert "name your column with --map votes=COLUMN" in message


def test_a_rank_of_one_side_is_no_vote():
    row = {"prompt": "Why?", "response_a": "A.", "response_b": "B.", "rank_a": 1, "rank_b": 1}
    message = refusal([row], read=data.read_pairs, map={"votes": "rank_a"})
    assert "'rank_a' rates only output A of each pair, and rank_b rates output B" in message
