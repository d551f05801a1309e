"""Render a judge's prompt as chat messages, safely: no input can add a field, a demo or an image.

Everything static (field list, scale, instruction, demos) comes before the texts under judgement, so
that providers' prompt caches apply.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal

from judges.models.protocol import Message

Value = str | int
# As many as a prompt of a long-context model holds; each is a request and its answer. A search
# shows no more, a frozen judge holds so many, and the embedded model learns from all of them.
MOST_DEMOS = 1000
HEADER = "[[ ## {name} ## ]]"
END = HEADER.format(name="completed")
SLOT = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

# What a document could use to look like our framing, a chat template or a DSPy custom type.
_MARKERS = re.compile(
    r"\[(?=\[[ \t]*##)|#(?=#[ \t]*\]\])"
    r"|<(?=\|[A-Za-z_][\w ]{0,40}\|>)|<(?=/?s>)|<(?=/?(?:start|end)_of_turn>)"
    r"|\[(?=/?INST\])|<(?=</?SYS>>)"
    r"|<(?=<CUSTOM-TYPE-(?:START|END)-IDENTIFIER>>)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One text a judge reads or one field it writes.

    `choices` are the only values allowed (a scale, or the letters A and B); None means free text.
    """

    name: str
    description: str
    role: Literal["input", "output"]
    choices: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """An instruction, the fields read and written, and worked examples (field name -> value)."""

    instruction: str
    fields: tuple[Field, ...]
    demos: tuple[Mapping[str, Value], ...] = ()

    def __repr__(self) -> str:
        """Short, since demos hold whole documents; `template()` shows all of it."""
        names = ", ".join(field.name for field in self.fields)
        return f"Prompt({shorten(self.instruction, 60)!r}, fields {names}, {len(self.demos)} demos)"

    @property
    def inputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "input")

    @property
    def outputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "output")

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """Render for one output; KeyError names a text that is missing."""
        return fill(self.template(), texts)

    def template(self) -> list[Message]:
        """Render everything but the texts, which stand as `{{name}}` slots in the last message."""
        messages = [Message(role="system", content=_system(self))]
        for demo in self.demos:
            messages.append(Message(role="user", content=_request(self, demo)))
            messages.append(Message(role="assistant", content=_answer(self, demo)))
        slots = {field.name: f"{{{{{field.name}}}}}" for field in self.inputs}
        messages.append(Message(role="user", content=_request(self, slots, neutral=False)))
        return messages


def neutralise(text: str) -> str:
    """Break markers that could pass for our framing by a space, and mend lone surrogates."""
    return _MARKERS.sub(lambda match: match.group() + " ", encodable(text))


def encodable(text: str) -> str:
    """Put a question mark for every lone surrogate, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fill(template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """Put neutralised texts into the slots of the last message, in one pass.

    A slot inside a text is never filled. Raises KeyError where a text is missing.
    """
    last = template[-1]
    content = SLOT.sub(lambda slot: neutralise(texts[slot.group(1)]), last["content"])
    return [*template[:-1], Message(role=last["role"], content=content)]


def _system(prompt: Prompt) -> str:
    lines = ["You read:"]
    lines += [f"- {field.name}: {field.description}" for field in prompt.inputs]
    lines += ["", "You write:"]
    lines += [f"- {field.name}{_allowed(field)}: {field.description}" for field in prompt.outputs]
    lines += ["", "Your task:", prompt.instruction.strip()]
    return "\n".join(neutralise(line) for line in lines)


def _allowed(field: Field) -> str:
    return f" ({_either(field.choices)})" if field.choices else ""


def _either(choices: Sequence[Value]) -> str:
    words = [str(choice) for choice in choices]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _request(prompt: Prompt, texts: Mapping[str, Value], *, neutral: bool = True) -> str:
    blocks = []
    for field in prompt.inputs:
        text = str(texts[field.name])
        shown = neutralise(text) if neutral else text
        blocks.append(f"{HEADER.format(name=field.name)}\n{shown}")
    return "\n\n".join([*blocks, _reminder(prompt.outputs)])


def _reminder(outputs: Sequence[Field]) -> str:
    last = outputs[-1]
    if len(outputs) == 1 and last.choices:
        return f"Reply with the {last.name} alone: {_either(last.choices)}."
    headers = ", then ".join(HEADER.format(name=field.name) for field in outputs)
    return (
        f"Reply with {headers}, each on its own line and followed by its content; end with {END}."
    )


def _answer(prompt: Prompt, values: Mapping[str, Value]) -> str:
    outputs = prompt.outputs
    if len(outputs) == 1 and outputs[0].choices:
        return str(values[outputs[0].name])
    blocks = [
        f"{HEADER.format(name=field.name)}\n{neutralise(str(values.get(field.name, '')))}"
        for field in outputs
    ]
    return "\n\n".join([*blocks, END])
