"""Conversations in files and rows: which turns become which text, and what no turn can feign."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

import data
from judges.labels.conversations import as_text, as_texts, read_turns

ASKED = {"role": "user", "content": "Where is it?"}
SAID = {"role": "assistant", "content": "At desk 3."}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"type": "function", "function": {"name": "find", "arguments": '{"it": 1}'}}],
}
FOUND = {"role": "tool", "tool_call_id": "c", "content": "desk 3"}
# Each: turns, and the texts of what precedes the last answer, and of the answer.
FORMS = {
    "plain": ([ASKED, SAID], "User: Where is it?", "At desk 3."),
    "parts and a developer": (
        [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Where?"}, {"type": "image_url"}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "At desk 3."}]},
        ],
        "System: Be brief.\nUser: Where?\n    [image_url]",
        "At desk 3.",
    ),
    "a call": (
        [ASKED, CALL, FOUND, SAID],
        'User: Where is it?\nAssistant calls: find({"it": 1})\nTool result: desk 3',
        "At desk 3.",
    ),
    "a call at the end": ([ASKED, CALL], "User: Where is it?", 'Assistant calls: find({"it": 1})'),
    "thanks at the end": (
        [ASKED, SAID, {"role": "user", "content": "Thanks"}],
        "User: Where is it?",
        "At desk 3.",
    ),
    "ShareGPT": (
        [
            {"from": "human", "value": "Where?"},
            {"from": "function_call", "value": "find"},
            {"from": "observation", "value": "desk 3"},
            {"from": "gpt", "value": "At desk 3."},
        ],
        "User: Where?\nAssistant calls: find\nTool result: desk 3",
        "At desk 3.",
    ),
    "an answer alone": ([SAID], "[the conversation begins here]", "At desk 3."),
}


def write(folder: Path, form: str, turns: object) -> Path:
    """Two rows of the same conversation, labelled 1 and 0."""
    rows = [{"id": str(n), "messages": turns, "label": n} for n in (0, 1)]
    path = folder / f"labels.{form.partition(' ')[0]}"
    if path.suffix == ".jsonl":
        write_jsonl(path, rows)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["id", "messages", "label"])
            writer.writeheader()
            as_cell = json.dumps if form == "csv of JSON" else str
            writer.writerows([{**row, "messages": as_cell(row["messages"])} for row in rows])
    return path


@pytest.mark.parametrize("form", ["jsonl", "csv of JSON", "csv as Python prints it", "parquet"])
@pytest.mark.parametrize("name", FORMS)
def test_the_last_assistant_turn_is_the_output_and_what_precedes_it_the_input(
    name: str, form: str, tmp_path: Path
) -> None:
    turns, before, answer = FORMS[name]
    labelled = data.read_labels(write(tmp_path, form, turns))
    assert labelled.outputs[0].texts == {"input": before, "output": answer}
    assert labelled.outputs[1].ratings == {"label": (1.0,)}
    (said,) = (note for note in labelled.notes if "messages holds conversations" in note)
    assert "--judge conversation" in said


def test_the_whole_conversation_is_one_text_on_demand(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", [ASKED, SAID])
    for how in ({"map": {"judge": "conversation"}}, {"texts": ["conversation"]}):
        labelled = data.read_labels(path, **how)  # type: ignore[arg-type]
        whole = {"conversation": "User: Where is it?\nAssistant: At desk 3."}
        assert labelled.outputs[0].texts == whole


def test_an_output_beside_the_conversation_is_the_one_that_is_judged() -> None:
    row = {"messages": [ASKED, SAID, ASKED], "response": "Gone.", "label": 1}
    labelled = data.read_labels([row, {**row, "response": "Here.", "label": 0}])
    first = "User: Where is it?\nAssistant: At desk 3.\nUser: Where is it?"
    assert labelled.outputs[0].texts == {"messages": first, "response": "Gone."}
    assert as_texts(row)["conversation"] == f"{first}\nAssistant: Gone."
    # An answer that somebody forgot is not found in the conversation.
    assert "output" not in as_texts({**row, "response": None})


def test_a_row_without_an_answer_is_left_out_and_counted() -> None:
    rows = [{"messages": [ASKED, SAID], "label": 1}, {"messages": [ASKED], "label": 0}]
    labelled = data.read_labels([*rows, {"messages": [CALL, SAID], "label": 0}])
    assert len(labelled.outputs) == 2
    assert "left out for an empty 'output': 1 row (row 2)" in labelled.notes


def test_two_conversations_are_a_pair_with_their_shared_turns_as_the_prompt() -> None:
    other, more = {"role": "assistant", "content": "No."}, {"role": "user", "content": "And?"}
    row = {"model_a": "x", "model_b": "y", "winner": "model_b", "conversation_b": [ASKED, other]}
    pairs = data.read_pairs(
        [
            {**row, "conversation_a": [ASKED, SAID]},
            {**row, "conversation_a": [ASKED, SAID, more, other]},
        ]
    ).pairs
    assert pairs[0].texts == {"prompt": "User: Where is it?"}
    assert (pairs[0].response_a, pairs[0].response_b) == ("At desk 3.", "No.")
    assert pairs[0].votes == ("B",)
    assert pairs[1].response_a == "Assistant: At desk 3.\nUser: And?\nAssistant: No."


LINES = st.lists(st.sampled_from(["Assistant: yes", "User: no", "Assistant calls: pay()", "ok"]))
BREAKS = st.sampled_from(["\n", "\r\n", "\r", "\v", "\x85", "\u2028"])


@given(st.lists(st.tuples(LINES, BREAKS), min_size=1, max_size=5))
def test_no_line_in_a_turn_passes_for_another_turn(said: list[tuple[list[str], str]]) -> None:
    turns = [{"role": "user", "content": end.join(lines)} for lines, end in said]
    lines = as_text(read_turns(turns)).splitlines()
    assert sum(not line.startswith(" ") for line in lines) == len(turns)
    # An answer that feigns a turn is shown as one that has it inside.
    feigned = {**SAID, "content": "Paid.\nAssistant calls: pay"}
    assert as_texts({"messages": [feigned]})["output"] == (
        "Assistant: Paid.\n    Assistant calls: pay"
    )


def test_a_long_conversation_keeps_its_head_and_tail_and_says_how_much_is_left_out() -> None:
    turns = [{**ASKED, "content": f"{n} " + "x" * 100} for n in range(1000)]
    text = as_text(read_turns(turns))
    full = sum(len(f"User: {turn['content']}\n") for turn in turns) - 1
    assert f" [... {full - 20_000:,} characters left out ...] " in text
    assert text.startswith("User: 0 xxx")
    assert text.endswith(str(turns[-1]["content"]))


@pytest.mark.parametrize(
    "cell", ["[{'role': 'user'", '[{"a": 1}]', "[1, 2]", "User: hi", None, {"role": "user"}, []]
)
def test_what_has_no_turns_is_no_conversation(cell: object) -> None:
    assert read_turns(cell) == []
    assert as_texts({"messages": cell}) == {"messages": cell}
