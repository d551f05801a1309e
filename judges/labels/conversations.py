"""Writes conversations, lists of turns as in OpenAI, ShareGPT and Arena, as texts."""

import ast
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, takewhile

from judges.labels.cells import first_value, from_json, without
from judges.labels.columns import ColumnNames
from judges.labels.names import is_output
from judges.tables.formats import Table
from judges.tables.problems import joined_names
from judges.tables.text import Row

CONVERSATION = "conversation"
# Entries of --map: the last assistant turn is judged, or the whole conversation.
JUDGED = (("judge", "turn"), ("judge", CONVERSATION))
_ANSWERS = _ASSISTANT, _CALL = "Assistant", "Assistant calls"
_SPEAKERS = {
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "chatbot", "model", "ai"), _ASSISTANT),
    **dict.fromkeys(("user", "human", "prompter", "customer"), "User"),
    **dict.fromkeys(("tool", "function", "observation"), "Tool result"),
    **dict.fromkeys(("system", "developer"), "System"),
    "function_call": _CALL,
}
_LISTS = ("messages", "conversation", "conversations")
_ROLES, _CONTENTS = ("role", "from", "speaker"), ("content", "value", "text")
_CALLS = ("tool_calls", "function_call")
_NEW_LINE, _MOST = "\n    ", 20_000
# Which texts are made of conversations, and the note that says so.
_Made = tuple[set[str], str]
_PAIR: _Made = (
    {"prompt", "response_a", "response_b"},
    "the turns that two share are the prompt, what follows is the responses",
)
_WHOLE: _Made = ({CONVERSATION}, "all of it is judged (--judge turn: the last assistant turn)")
_TURN: _Made = (
    {"input", "dialogue", "output"},
    "the last assistant turn is judged (--judge conversation: all of it)",
)
Turn = tuple[str, str]  # who speaks, or what is done, and the text


def read_turns(value: object) -> list[Turn]:
    """Return the turns in a cell, which may be a string of JSON or of printed Python."""
    if hasattr(value, "tolist"):
        # A list from Parquet is an array in a data frame.
        value = value.tolist()
    elif isinstance(value, str) and value.startswith("[{'"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(value)
    value = from_json(value)
    if isinstance(value, Mapping):
        # A message alone is a conversation of one turn.
        value = [value] if "role" in value else first_value(value, _LISTS)
    messages = list(value) if isinstance(value, list | tuple) else []
    turns = [*map(_turns_of, messages)]
    return [*chain.from_iterable(turns)] if all(turns) else []


def _turns_of(message: object) -> list[Turn]:
    """The turns of a message, its text and its calls; none where a value is no message."""
    if not isinstance(message, Mapping) or message.keys().isdisjoint((*_CONTENTS, *_CALLS)):
        return []
    role = first_value(message, _ROLES)
    if not isinstance(role, str):
        return []
    text = _text_of(first_value(message, _CONTENTS))
    calls = [(_CALL, _text_of(message[name])) for name in _CALLS if message.get(name)]
    speaker = _SPEAKERS.get(role.casefold(), " ".join(role.split()).capitalize())
    return [(speaker, text), *calls] if text or not calls else calls


def _text_of(part: object) -> str:
    """A message's content as text: a call as NAME(ARGUMENTS), a picture as its type."""
    if isinstance(part, list | tuple):
        return "\n".join(map(_text_of, part))
    if not isinstance(part, Mapping):
        return "" if part is None else str(part)
    call = part.get("function", part)
    if isinstance(call, Mapping) and "name" in call:
        return f"{call['name']}({first_value(call, ('arguments', 'input')) or ''})"
    return _text_of(first_value(part, _CONTENTS)) or f"[{part.get('type', 'no text')}]"


def as_text(turns: Iterable[Turn]) -> str:
    """Return turns as lines; a long conversation as its head, its tail and the length between."""
    # Lines after a turn's first are indented, so that none looks like another turn.
    text = "\n".join(f"{who}: {_NEW_LINE.join(speech.splitlines())}" for who, speech in turns)
    if (left_out := len(text) - _MOST) <= 0:
        return text
    mark = f" [... {left_out:,} characters left out ...] "
    return text[: _MOST // 4] + mark + text[_MOST // 4 - _MOST :]


def _alone(turns: list[Turn]) -> str:
    """The bare text of a single assistant turn, unless it looks like several; else all as lines."""
    (speaker, words), *others = turns
    feigned = any(line.lstrip().startswith(_ASSISTANT) for line in words.splitlines())
    return as_text(turns) if others or feigned or speaker != _ASSISTANT else words


def as_texts(cells: Mapping[str, object]) -> Row:
    """A row with its conversations as texts, under all names by which a judge may read them.

    Two are `prompt`, which they share, `response_a` and `response_b`; one is `conversation` and,
    without an output beside it, `output` (the last assistant turn) and `input` (all before it).
    """
    conversations = {column: turns for column, cell in cells.items() if (turns := read_turns(cell))}
    if not conversations:
        return dict(cells)
    others = without(cells, conversations)
    if sides := _sides(conversations):
        texts = _pair_texts(conversations[sides[0]], conversations[sides[1]])
    else:
        has_output = any(map(is_output, cells))
        texts = _single_texts(next(iter(conversations.values())), others, has_output=has_output)
    return {**cells, **{column: _alone(turns) for column, turns in conversations.items()}, **texts}


def _pair_texts(a: list[Turn], b: list[Turn]) -> Row:
    """The texts of two conversations that begin with the same turns."""
    alike = takewhile(lambda both: both[0] == both[1], zip(a, b, strict=False))
    n_shared = min(len([*alike]), len(a) - 1, len(b) - 1)
    responses: Row = {"response_a": _alone(a[n_shared:]), "response_b": _alone(b[n_shared:])}
    return {"prompt": as_text(a[:n_shared]), **responses} if n_shared else responses


def _single_texts(turns: list[Turn], others: Row, *, has_output: bool) -> Row:
    """The texts of a conversation; its last assistant turn unless an output stands beside it."""
    beside = [(_ASSISTANT, str(others[name])) for name in filter(is_output, others) if others[name]]
    whole: Row = {CONVERSATION: as_text([*turns, *beside])}
    if has_output:
        return whole
    before, answer = _last_answer(turns)
    # What the user calls `input` stays what it is.
    name = "dialogue" if "input" in others else "input"
    whole[name] = as_text(before) or "[the conversation begins here]"
    return {**whole, "output": _alone(answer) if answer else None}


def _last_answer(turns: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    """The turns before the assistant's last ones, and these."""
    after = [*takewhile(lambda turn: turn[0] not in _ANSWERS, reversed(turns))]
    turns = turns[: len(turns) - len(after)]
    answer = [*takewhile(lambda turn: turn[0] in _ANSWERS, reversed(turns))]
    return turns[: len(turns) - len(answer)], answer[::-1]


def _sides(columns: Collection[str]) -> tuple[str, str] | None:
    sides = ((c, f"{c[:-1]}b") for c in columns if c.endswith("_a") and f"{c[:-1]}b" in columns)
    return next(sides, None)


def with_texts(table: Table, mapping: Mapping[str, ColumnNames], *, whole: bool) -> Table:
    """The table with its conversations as texts, and a note of how they were read."""
    columns = [c for c in table.columns if any(read_turns(row.cells.get(c)) for row in table.rows)]
    if not columns:
        return table
    texts = [as_texts(row.cells) for row in table.rows]
    mapped = [name for name, column in mapping.items() if column in table.columns]
    has_outputs = any(map(is_output, (*table.columns, *mapped)))
    (made, how), read = _TURN, columns[:1]
    if _sides(columns):
        (made, how), read = _PAIR, columns
    elif whole or not (has_outputs or any(row.get("output") for row in texts)):
        made, how = _WHOLE
    elif has_outputs:
        made, how = {*columns}, "each is one text"
    names = made | {*table.columns}.difference(columns)
    kept = [{name: cell for name, cell in row.items() if name in names} for row in texts]
    notes = [f"{joined_names(read)} holds conversations: {how}"]
    if others := columns[len(read) :]:
        notes.append(f"of conversations one is read, and not {joined_names(others)}")
    return replace(
        table,
        rows=tuple(row._replace(cells=cells) for row, cells in zip(table.rows, kept, strict=True)),
        columns=tuple(dict.fromkeys(chain.from_iterable(kept))),
        notes=(*table.notes, *notes),
    )
