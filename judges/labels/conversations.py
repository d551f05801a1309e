"""Converts conversations (lists of messages, as in OpenAI and ShareGPT files) to texts."""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from judges.labels.cells import decode_if_json, first_value, without_keys
from judges.labels.names import is_output_name
from judges.tables.problems import count_text, joined_names
from judges.tables.text import Record, TableRow

if TYPE_CHECKING:
    from judges.labels.options import ReadOptions
    from judges.tables.formats import Table

CONVERSATION = "conversation"
# A text marks an assistant's messages and its tool calls with these words.
_ASSISTANT_SPEAKERS = _ASSISTANT, _TOOL_CALL = "Assistant", "Assistant calls"
_SPEAKER_BY_ROLE = {
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "chatbot", "model", "ai"), _ASSISTANT),
    **dict.fromkeys(("user", "human", "prompter", "customer"), "User"),
    **dict.fromkeys(("tool", "function", "observation"), "Tool result"),
    **dict.fromkeys(("system", "developer"), "System"),
    "function_call": _TOOL_CALL,
}
_MESSAGES_KEYS = ("messages", "conversation", "conversations")
_ROLE_KEYS, _CONTENT_KEYS = ("role", "from", "speaker"), ("content", "value", "text")
_TOOL_CALL_KEYS = ("tool_calls", "function_call")
_INDENTED_NEWLINE, _MAX_CHARACTERS = "\n    ", 20_000
_OMISSION_END = " characters left out ...] "
# One turn of a conversation: its speaker, such as `User` or `Assistant calls`, and its text.
Turn = tuple[str, str]


def read_turns(value: object) -> list[Turn]:
    """Return the turns of the conversation in a cell; [] for a cell without a conversation.

    A conversation is one message, a list of messages, or an object with such a list. Strings of
    JSON, and lists that Python printed, are read as conversations, too.
    """
    if hasattr(value, "tolist"):
        # pandas reads a list in a Parquet file as a NumPy array.
        value = value.tolist()
    elif isinstance(value, str) and value.startswith("[{'"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(value)
    value = decode_if_json(value)
    if isinstance(value, Mapping):
        # A single message is a conversation of one turn.
        value = [value] if "role" in value else first_value(value, _MESSAGES_KEYS)
    messages = list(value) if isinstance(value, list | tuple) else []
    turns_by_message = [*map(_message_turns, messages)]
    return [*chain.from_iterable(turns_by_message)] if all(turns_by_message) else []


def _message_turns(message: object) -> list[Turn]:
    """Return a message's text and tool calls as turns; [] if the object is not a message."""
    if not isinstance(message, Mapping):
        return []
    role = first_value(message, _ROLE_KEYS)
    has_content = not message.keys().isdisjoint((*_CONTENT_KEYS, *_TOOL_CALL_KEYS))
    if not isinstance(role, str) or not has_content:
        return []
    speaker = _SPEAKER_BY_ROLE.get(role.casefold(), " ".join(role.split()).capitalize())
    text = _content_text(first_value(message, _CONTENT_KEYS))
    tool_calls = _content_text([*filter(None, map(message.get, _TOOL_CALL_KEYS))])
    turns = (speaker, text), (_TOOL_CALL, tool_calls)
    # A message without text and without tool calls is one empty turn.
    return [turn for turn in turns if turn[1]] or [(speaker, "")]


def _content_text(content: object) -> str:
    """Return a message's content as text: a tool call as `NAME(ARGUMENTS)`, a file as `[TYPE]`."""
    if content is None:
        return ""
    if isinstance(content, list | tuple):
        return "\n".join(map(_content_text, content))
    if not isinstance(content, Mapping):
        return str(content)
    tool_call = content.get("function", content)
    if isinstance(tool_call, Mapping) and "name" in tool_call:
        return f"{tool_call['name']}({first_value(tool_call, ('arguments', 'input')) or ''})"
    text = _content_text(first_value(content, _CONTENT_KEYS))
    return text or f"[{content.get('type', 'no text')}]"


def format_turns(turns: Iterable[Turn]) -> str:
    """Return turns as lines `SPEAKER: TEXT`, without the middle of a very long conversation."""
    # All lines of a turn but the first are indented, so that no line looks like another turn.
    text = "\n".join(
        f"{speaker}: {_INDENTED_NEWLINE.join(content.splitlines())}" for speaker, content in turns
    )
    if (n_omitted := len(text) - _MAX_CHARACTERS) <= 0:
        return text
    n_start_characters = _MAX_CHARACTERS // 4
    text_end = text[n_start_characters - _MAX_CHARACTERS :]
    return f"{text[:n_start_characters]} [... {n_omitted:,}{_OMISSION_END}{text_end}"


def _format_answer(turns: list[Turn]) -> str:
    """Return one assistant turn as plain text, and any other turns as lines `SPEAKER: TEXT`."""
    (speaker, text), *other_turns = turns
    if other_turns or speaker != _ASSISTANT:
        return format_turns(turns)
    # A line that begins with `Assistant` could be read as another turn.
    looks_like_turns = any(line.lstrip().startswith(_ASSISTANT) for line in text.splitlines())
    return format_turns(turns) if looks_like_turns else text


def cells_with_texts(cells: Mapping[str, object]) -> Record:
    """Return a row's cells, and the texts in the row's conversations that a judge may read.

    Of two conversations in columns such as `chat_a` and `chat_b`, the shared first turns become
    `prompt`, and the other turns `response_a` and `response_b`. In other rows, the first of the
    conversations becomes `conversation`. If no column holds outputs, its last assistant turn also
    becomes `output`, and its earlier turns `input`. Raises TypeError if `cells` is no mapping.
    """
    if not hasattr(cells, "items"):
        raise TypeError(
            f"a row is {cells!r:.60}; give a list of dicts with the texts by their names, or score "
            "a DataFrame by judge.score()"
        )
    conversations = {column: turns for column, cell in cells.items() if (turns := read_turns(cell))}
    if not conversations:
        return dict(cells)
    if pair_columns := _find_pair_columns(conversations):
        texts = _pair_texts(*(conversations[column] for column in pair_columns))
    else:
        texts = _chat_texts(cells, conversations)
    conversation_texts = {column: _format_answer(turns) for column, turns in conversations.items()}
    return {**cells, **conversation_texts, **texts}


def _find_pair_columns(columns: Collection[str]) -> tuple[str, str] | None:
    """Return the first two columns called `NAME_a` and `NAME_b`; None without such columns."""
    column_pairs = ((column, f"{column[:-1]}b") for column in columns if column.endswith("_a"))
    return next((pair for pair in column_pairs if pair[1] in columns), None)


def _pair_texts(turns_a: list[Turn], turns_b: list[Turn]) -> Record:
    """Return the texts of a pair of conversations: the shared first turns, and both responses."""
    n_shared = 0
    while n_shared < min(len(turns_a), len(turns_b)) - 1 and turns_a[n_shared] == turns_b[n_shared]:
        n_shared += 1
    texts: Record = {"prompt": format_turns(turns_a[:n_shared])} if n_shared else {}
    texts["response_a"] = _format_answer(turns_a[n_shared:])
    texts["response_b"] = _format_answer(turns_b[n_shared:])
    return texts


def _chat_texts(cells: Mapping[str, object], conversations: Mapping[str, list[Turn]]) -> Record:
    """Return the texts that a judge may read from the first of a row's conversations."""
    turns = next(iter(conversations.values()))
    # An output in another column is a further turn of the conversation.
    output_turns = [
        (_ASSISTANT, str(cell))
        for column, cell in cells.items()
        if is_output_name(column) and cell and column not in conversations
    ]
    texts: Record = {CONVERSATION: format_turns([*turns, *output_turns])}
    if any(map(is_output_name, cells)):
        return texts
    # The answer is the assistant's last turns. Any later turns of other speakers are dropped.
    earlier_turns, answer_turns = [*turns], list[Turn]()
    while earlier_turns and earlier_turns[-1][0] not in _ASSISTANT_SPEAKERS:
        earlier_turns.pop()
    while earlier_turns and earlier_turns[-1][0] in _ASSISTANT_SPEAKERS:
        answer_turns.insert(0, earlier_turns.pop())
    # If the file has its own column `input`, the earlier turns get the name `dialogue`.
    input_name = "dialogue" if "input" in cells.keys() - conversations else "input"
    texts[input_name] = format_turns(earlier_turns) or "[the conversation begins here]"
    texts["output"] = _format_answer(answer_turns) if answer_turns else None
    return texts


def table_with_texts(table: "Table", options: "ReadOptions", notes: list[str]) -> "Table":
    """Return the table with texts in place of conversations; note which turns are judged."""
    chat_columns = [column for column in table.columns if any(_turns_in(table, column))]
    if not chat_columns:
        return table
    read_columns, text_names, judged_note = _choose_texts(table, chat_columns, options)
    notes.append(f"{joined_names(read_columns)} holds conversations: {judged_note}")
    if unread_columns := chat_columns[len(read_columns) :]:
        unread_names = joined_names(unread_columns)
        notes.append(f"only one conversation per row is read: {unread_names} is left out")
    kept_columns = text_names | {*table.columns}.difference(chat_columns)
    rows: list[TableRow] = []
    for row in table.rows:
        cells = cells_with_texts(without_keys(row.cells, unread_columns))
        rows.append(row._replace(cells=without_keys(cells, cells.keys() - kept_columns)))
    if n_shortened := sum(_OMISSION_END in str(row.cells) for row in rows):
        rows_text = count_text(n_shortened, "row")
        notes.append(f"the middle of a long conversation is left out in {rows_text}")
    return table.with_rows(rows)


def _turns_in(table: "Table", column: str) -> Iterator[list[Turn]]:
    return (read_turns(row.cells.get(column)) for row in table.rows)


def _choose_texts(
    table: "Table", chat_columns: list[str], options: "ReadOptions"
) -> tuple[list[str], set[str], str]:
    """Return the columns to read, the names of their texts, and a note on the judged turns."""
    if _find_pair_columns(chat_columns) is not None:
        note = "their first turns, if equal, are the prompt, and the others are the responses"
        return chat_columns, {"prompt", "response_a", "response_b"}, note
    judges_all_turns = options.turns == "all" or CONVERSATION in (options.texts or ())
    user_columns = options.columns_by_name.items()
    user_names = [name for name, column in user_columns if column in table.columns]
    has_outputs = any(map(is_output_name, (*table.columns, *user_names)))
    if has_outputs and not judges_all_turns:
        return chat_columns, {*chat_columns}, "each is read as one text"
    turns = chain.from_iterable(_turns_in(table, chat_columns[0]))
    has_answers = not {speaker for speaker, _ in turns}.isdisjoint(_ASSISTANT_SPEAKERS)
    if has_answers and not judges_all_turns:
        note = "the last assistant turn is judged (--turns all: the whole conversation)"
        return chat_columns[:1], {"input", "dialogue", "output"}, note
    note = "the whole conversation is judged (--turns last: the last assistant turn)"
    return chat_columns[:1], {CONVERSATION}, note
