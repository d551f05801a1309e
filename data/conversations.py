"""Conversations as texts: lists of turns as OpenAI, ShareGPT and Arena write them, line by line."""

import ast
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import NamedTuple

from data.cells import is_blank, parsed
from data.columns import OUTPUTS, ColumnNames, known_word
from data.tables.formats import Table
from data.tables.problems import Problems, count, joined_names
from data.tables.text import Row

# What `--judge`, or `--map judge=`, says: the last assistant turn, or all of it.
JUDGE, CONVERSATION = "judge", "conversation"
JUDGED = ("turn", CONVERSATION)

_ASSISTANT, _CALL, _USER = "Assistant", "Assistant calls", "User"
_SPEAKERS = {
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "chatbot", "model", "ai"), _ASSISTANT),
    **dict.fromkeys(("user", "human", "prompter", "customer"), _USER),
    **dict.fromkeys(("tool", "function", "observation"), "Tool result"),
    **dict.fromkeys(("system", "developer"), "System"),
    **dict.fromkeys(("function_call", "tool_call"), _CALL),
}
_NAMES, _ROLES = ("messages", "conversation", "conversations", "turns"), ("role", "from", "speaker")
_CONTENTS = ("content", "value", "text", "parts")
_CALLS = ("tool_calls", "function_call")
# Of longer conversations, and turns, the middle is left out.
_MOST, _MOST_OF_A_TURN = 20_000, 4_000
# What follows a turn's first line stands further in, so that no turn can pass for two.
_NEW_LINE = "\n    "


class Turn(NamedTuple):
    """What one side says, or calls."""

    speaker: str
    text: str


def read_turns(value: object) -> list[Turn] | None:
    """The turns in a cell, also where a string has them as JSON or as Python prints them."""
    value = parsed(value.tolist() if hasattr(value, "tolist") else value)
    if isinstance(value, str) and value.lstrip().startswith(("[{'", "{'")):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(value.strip())
    if isinstance(value, Mapping):
        value = next((value[name] for name in _NAMES if name in value), None)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return None
    turns: list[Turn] = []
    for message in value:
        fields = message if isinstance(message, Mapping) else {}
        role = next((fields[name] for name in _ROLES if name in fields), None)
        if not isinstance(role, str) or fields.keys().isdisjoint({*_CONTENTS, *_CALLS}):
            return None
        turns += _turns_of(role, fields)
    return turns or None


def _turns_of(role: str, message: Mapping[str, object]) -> list[Turn]:
    """What a message says, and then what it calls, which no text can feign."""
    own_name = re.sub(r"\W+", " ", role).strip()[:30].capitalize() or "Somebody"
    speaker = _SPEAKERS.get(role.strip().casefold(), own_name)
    content = next((message[name] for name in _CONTENTS if message.get(name) is not None), None)
    calls = [part for name in _CALLS for part in _parts(message.get(name))]
    calls += [part for part in _parts(content) if _is_call(part)]
    said = "\n".join(filter(None, (_text_of(part) for part in _parts(content))))
    return [Turn(speaker, said)] * bool(said or not calls) + [Turn(_CALL, _call(c)) for c in calls]


def _parts(content: object) -> list[object]:
    several = isinstance(content, list | tuple)
    return [] if content is None else [*content] if several else [content]  # type: ignore[misc]


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "tool_use"


def _call(call: object) -> str:
    """A call as NAME(ARGUMENTS)."""
    inner = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(inner, Mapping):
        return str(inner)
    return f"{inner.get('name')}({inner.get('arguments', inner.get('input', ''))})"


def _text_of(part: object) -> str:
    """A part of a message as text; a picture and its like as a mark."""
    if isinstance(part, Mapping):
        if _is_call(part):
            return ""
        said = next((part[name] for name in _CONTENTS if part.get(name) is not None), None)
        marks = f"[{part.get('type', 'a part without text')}]"
        return marks if said is None else "\n".join(map(_text_of, _parts(said)))
    return str(part)


def as_text(turns: list[Turn]) -> str:
    """Turns as lines; of long ones the head and the tail, with what is left out."""
    lines = [f"{speaker}: {_shortened(text)}" for speaker, text in turns]
    lengths = [*map(len, lines)]
    n_head = bisect_right([*accumulate(lengths)], _MOST // 4)
    n_tail = bisect_right([*accumulate(reversed(lengths))], _MOST - _MOST // 4)
    if (n_left_out := len(lines) - n_head - n_tail) > 0:
        lines[n_head : len(lines) - n_tail] = [f"[... {count(n_left_out, 'turn')} left out ...]"]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    text = _NEW_LINE.join(text.splitlines())
    if (n_left_out := len(text) - _MOST_OF_A_TURN) <= 0:
        return text
    half = _MOST_OF_A_TURN // 2
    return f"{text[:half]} [... {n_left_out:,} characters left out ...] {text[-half:]}"


def _alone(turns: list[Turn]) -> str:
    """The text of one turn of an assistant; else all as lines."""
    return turns[0].text if [turn.speaker for turn in turns] == [_ASSISTANT] else as_text(turns)


def as_texts(cells: Row) -> Row:
    """A row with its conversations as texts under every name by which a judge may read them."""
    found = _find(cells)
    return {**cells, **_texts(cells, found)} if found else cells


def _find(cells: Row) -> dict[str, list[Turn]]:
    return {column: turns for column, cell in cells.items() if (turns := read_turns(cell))}


def _texts(cells: Row, found: Mapping[str, list[Turn]]) -> Row:
    """Each conversation in its own column, and taken apart: prompt and responses of two, else input
    and output, where the row has no output beside it.
    """
    texts: Row = {column: _alone(turns) for column, turns in found.items()}
    if sides := _sides(found):
        a, b = (found[column] for column in sides)
        n_shared = len([*takewhile(lambda both: both[0] == both[1], zip(a, b, strict=False))])
        # Of two conversations that are the same, the last turn is the response.
        n_shared = min(n_shared, len(a) - 1, len(b) - 1)
        texts |= {"response_a": _alone(a[n_shared:]), "response_b": _alone(b[n_shared:])}
        return texts | ({"prompt": as_text(a[:n_shared])} if n_shared else {})
    column, turns = next(iter(found.items()))
    beside = [c for c in cells if known_word(c) in OUTPUTS and c not in found]
    answers = [Turn(_ASSISTANT, str(cells[c])) for c in beside[:1] if not is_blank(cells[c])]
    whole = as_text([*turns, *answers])
    if not has_output(cells):
        end = max((i for i, turn in enumerate(turns, 1) if _is_answer(turn)), default=0)
        n_answers = len([*takewhile(_is_answer, reversed(turns[:end]))])
        before = as_text(turns[: end - n_answers]) or "[the conversation begins here]"
        texts[_input_name(cells, column)] = before
        texts["output"] = _alone(turns[end - n_answers : end]) if end else None
    return texts | ({CONVERSATION: whole} if CONVERSATION not in {*cells} - {*found} else {})


def _is_answer(turn: Turn) -> bool:
    return turn.speaker in (_ASSISTANT, _CALL)


def _sides(found: Collection[str]) -> tuple[str, str] | None:
    sides = ((c, f"{c[:-1]}b") for c in found if c.endswith("_a") and f"{c[:-1]}b" in found)
    return next(sides, None)


def has_output(columns: Collection[str]) -> bool:
    return any(known_word(column) in OUTPUTS for column in columns)


def _input_name(columns: Collection[str], column: str) -> str:
    """Where what precedes the answer stands: in the conversation's place if there is an input."""
    return column if "input" in columns else "input"


def with_texts(
    table: Table, problems: Problems, *, mapping: Mapping[str, ColumnNames], whole: bool
) -> Table:
    """The table with the texts of its conversations in their place, and how they were read.

    What is mapped stays where it is, each as one text; `whole`: so do all, under one name.
    """
    found = [_find(row.cells) for row in table.rows]
    columns = [c for c in table.columns if any(c in each for each in found)]
    if not columns:
        return table
    for row, each in zip(table.rows, found, strict=True):
        for column in columns:
            if column not in each and not is_blank(row.cells.get(column)):
                value, advice = row.cells[column], "write a list of objects with role and content"
                place = {"line": row.line, "field": column, "value": value}
                problems.add("no-turns", "is no conversation, as others are", advice, **place)  # type: ignore[arg-type]
    kept = {column for column in mapping.values() if isinstance(column, str)}
    split = not (_sides(columns) or has_output(table.columns) or {*columns} & kept)
    held = f"{joined_names(columns)} {'holds' if len(columns) == 1 else 'hold'} conversations"
    names = {"prompt", "response_a", "response_b"}
    if whole:
        names, how = {CONVERSATION}, "each is one text, conversation; --judge turn takes them apart"
    elif split:
        names = {_input_name(table.columns, columns[0]), "output"}
        how = "the last assistant turn is judged (the text output), after what precedes it (the "
        how += f"text {min(names - {'output'})}); --judge conversation judges the whole"
    elif _sides(columns):
        how = "the turns that both share are the text prompt, what follows the two responses"
    else:
        names, how = {*columns}, "each is one text"
    rows = []
    for row, each in zip(table.rows, found, strict=True):
        texts = {n: t for n, t in _texts(row.cells, each).items() if n in names} if each else {}
        own = {n: cell for n, cell in row.cells.items() if n not in columns}
        as_is = {c: _alone(turns) for c, turns in each.items() if c in kept}
        rows.append(row._replace(cells={**own, **texts, **as_is}))
    cut = sum("left out ...]" in f"{row.cells.get(name)}" for row in rows for name in names)
    notes = [
        f"{held}: {how}",
        *([f"{count(cut, 'long text')} of them: the middle is left out"] if cut else []),
    ]
    own_columns = [c for c in table.columns if c not in columns]
    new = dict.fromkeys([*own_columns, *(n for row in rows for n in row.cells)])
    return replace(table, rows=tuple(rows), columns=tuple(new), notes=(*table.notes, *notes))
