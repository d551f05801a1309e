"""Turns conversations (lists of messages as in OpenAI, ShareGPT and Arena files) into texts."""

import ast
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, takewhile

from judges.labels.cells import first_value, from_json, without_keys
from judges.labels.columns import ColumnNames
from judges.labels.names import is_output
from judges.tables.formats import Table
from judges.tables.problems import joined_names
from judges.tables.text import Row

CONVERSATION = "conversation"
# What --judge adds to the mapping: judge the last assistant turn, or the whole conversation.
JUDGED = (("judge", "turn"), ("judge", CONVERSATION))
# The speakers of an assistant's turns: its texts, and its calls of tools.
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
_INDENTED_LINE, _MAX_LENGTH = "\n    ", 20_000
# The names of the texts that conversations are turned into, and the end of the note on it.
_TextsAndNote = tuple[set[str], str]
_PAIR: _TextsAndNote = (
    {"prompt", "response_a", "response_b"},
    "the turns that both share are the prompt, and the rest are the responses",
)
_WHOLE: _TextsAndNote = (
    {CONVERSATION},
    "the whole conversation is judged (--judge turn: the last assistant turn)",
)
_TURN: _TextsAndNote = (
    {"input", "dialogue", "output"},
    "the last assistant turn is judged (--judge conversation: the whole conversation)",
)
Turn = tuple[str, str]  # the speaker (or `Assistant calls`, `Tool result`), and the text


def read_turns(value: object) -> list[Turn]:
    """Return the turns in a cell: a list or object, or a string of one as JSON or Python source."""
    if hasattr(value, "tolist"):
        # In a data frame, a list that was read from Parquet is an array.
        value = value.tolist()
    elif isinstance(value, str) and value.startswith("[{'"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(value)
    value = from_json(value)
    if isinstance(value, Mapping):
        # An object that is a message is a conversation of one turn.
        value = [value] if "role" in value else first_value(value, _LISTS)
    messages = list(value) if isinstance(value, list | tuple) else []
    turns = [*map(_turns_of, messages)]
    return [*chain.from_iterable(turns)] if all(turns) else []


def _turns_of(message: object) -> list[Turn]:
    """Return the turns of a message, its text and its tool calls; [] if it is not a message."""
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
    """Return a message's content as text: a tool call as NAME(ARGUMENTS), an image as its type."""
    if isinstance(part, list | tuple):
        return "\n".join(map(_text_of, part))
    if not isinstance(part, Mapping):
        return "" if part is None else str(part)
    call = part.get("function", part)
    if isinstance(call, Mapping) and "name" in call:
        return f"{call['name']}({first_value(call, ('arguments', 'input')) or ''})"
    return _text_of(first_value(part, _CONTENTS)) or f"[{part.get('type', 'no text')}]"


def as_text(turns: Iterable[Turn]) -> str:
    """Return turns as lines `SPEAKER: TEXT`; the middle of a long conversation is left out."""
    # All lines of a turn but its first are indented, so that none looks like another turn.
    text = "\n".join(f"{who}: {_INDENTED_LINE.join(words.splitlines())}" for who, words in turns)
    if (n_left_out := len(text) - _MAX_LENGTH) <= 0:
        return text
    mark = f" [... {n_left_out:,} characters left out ...] "
    return text[: _MAX_LENGTH // 4] + mark + text[_MAX_LENGTH // 4 - _MAX_LENGTH :]


def _plain_or_lines(turns: list[Turn]) -> str:
    """Return the text of a single assistant turn without its speaker; any other turns as lines.

    A text in which a line starts like an assistant turn gets its speaker, too.
    """
    (speaker, words), *others = turns
    imitates_turns = any(line.lstrip().startswith(_ASSISTANT) for line in words.splitlines())
    return as_text(turns) if others or imitates_turns or speaker != _ASSISTANT else words


def as_texts(cells: Mapping[str, object]) -> Row:
    """Return a row with its conversations as texts, under every name that a judge may read.

    Two conversations become `prompt` (the turns that they share), `response_a` and `response_b`.
    One conversation becomes `conversation`. If the row has no column of outputs, it also becomes
    `output` (the last assistant turn) and `input` (all turns before it).
    """
    conversations = {column: turns for column, cell in cells.items() if (turns := read_turns(cell))}
    if not conversations:
        return dict(cells)
    others = without_keys(cells, conversations)
    if sides := _sides(conversations):
        texts = _pair_texts(conversations[sides[0]], conversations[sides[1]])
    else:
        has_output = any(map(is_output, cells))
        texts = _single_texts(next(iter(conversations.values())), others, has_output=has_output)
    return {
        **cells,
        **{column: _plain_or_lines(turns) for column, turns in conversations.items()},
        **texts,
    }


def _pair_texts(a: list[Turn], b: list[Turn]) -> Row:
    """Return the texts of two conversations: the turns that they share, and both responses."""
    shared = takewhile(lambda both: both[0] == both[1], zip(a, b, strict=False))
    n_shared = min(len([*shared]), len(a) - 1, len(b) - 1)
    responses: Row = {
        "response_a": _plain_or_lines(a[n_shared:]),
        "response_b": _plain_or_lines(b[n_shared:]),
    }
    return {"prompt": as_text(a[:n_shared]), **responses} if n_shared else responses


def _single_texts(turns: list[Turn], others: Row, *, has_output: bool) -> Row:
    """Return the texts of a conversation; an output in another column (`others`) ends it."""
    outputs = [(_ASSISTANT, str(others[n])) for n in filter(is_output, others) if others[n]]
    texts: Row = {CONVERSATION: as_text([*turns, *outputs])}
    if has_output:
        return texts
    before, answer = _last_answer(turns)
    # A column that the file calls `input` is kept.
    name = "dialogue" if "input" in others else "input"
    texts[name] = as_text(before) or "[the conversation begins here]"
    return {**texts, "output": _plain_or_lines(answer) if answer else None}


def _last_answer(turns: list[Turn]) -> tuple[list[Turn], list[Turn]]:
    """Split turns into those before the assistant's last answer, and the turns of that answer."""
    after = [*takewhile(lambda turn: turn[0] not in _ANSWERS, reversed(turns))]
    turns = turns[: len(turns) - len(after)]
    answer = [*takewhile(lambda turn: turn[0] in _ANSWERS, reversed(turns))]
    return turns[: len(turns) - len(answer)], answer[::-1]


def _sides(columns: Collection[str]) -> tuple[str, str] | None:
    """The first two columns whose names differ only in their ends, `_a` and `_b`."""
    sides = ((c, f"{c[:-1]}b") for c in columns if c.endswith("_a") and f"{c[:-1]}b" in columns)
    return next(sides, None)


def with_texts(table: Table, mapping: Mapping[str, ColumnNames], *, whole: bool) -> Table:
    """Return the table with its conversations turned into texts, and a note that says how.

    With `whole`, the whole conversation is judged, else its last assistant turn.
    """
    columns = [c for c in table.columns if any(read_turns(row.cells.get(c)) for row in table.rows)]
    if not columns:
        return table
    texts = [as_texts(row.cells) for row in table.rows]
    mapped = [name for name, column in mapping.items() if column in table.columns]
    has_outputs = any(map(is_output, (*table.columns, *mapped)))
    (text_names, how), read = _TURN, columns[:1]
    if _sides(columns):
        (text_names, how), read = _PAIR, columns
    elif whole or not (has_outputs or any(row.get("output") for row in texts)):
        text_names, how = _WHOLE
    elif has_outputs:
        text_names, how = {*columns}, "each is read as one text"
    names = text_names | {*table.columns}.difference(columns)
    kept = [{name: cell for name, cell in row.items() if name in names} for row in texts]
    notes = [f"{joined_names(read)} holds conversations: {how}"]
    if others := columns[len(read) :]:
        notes.append(f"only one conversation of a row is read, and not {joined_names(others)}")
    return replace(
        table,
        rows=tuple(row._replace(cells=cells) for row, cells in zip(table.rows, kept, strict=True)),
        columns=tuple(dict.fromkeys(chain.from_iterable(kept))),
        notes=(*table.notes, *notes),
    )
