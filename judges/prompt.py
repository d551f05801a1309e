"""Render a judge's prompt as chat messages, safely: no input can add a field, a demo or an image.

Everything static comes before the texts under judgement, so that prompt caches apply.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Literal

from judges.protocol import Message

Value = str | int
# How a judge thinks before it answers: not in words, in one sentence, in steps, or by questions of
# its own that it answers first.
Reasoning = Literal["none", "brief", "steps", "questions"]
# As many as a prompt of a long-context model holds; a search shows no more.
MAX_DEMOS = 1000
# What is answered of a pair.
LETTERS = ("A", "B")
HEADER = "[[ ## {name} ## ]]"
END = HEADER.format(name="completed")
# What stands for a free text that a demonstration lacks.
NOT_GIVEN = "(not given)"
SLOT = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

# A field's header, however a model spells it: what replies are cut at.
FIELD_HEADER = re.compile(r"\[\[\s{0,3}#{1,3}\s{0,3}(\w{1,64})\s{0,3}#{1,3}\s{0,3}\]\]")
# Where a reply's thoughts begin and end, by model family.
_THOUGHT = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|scratchpad)"
THOUGHT_START = re.compile(
    rf"<{_THOUGHT}(?:\s[^<>\n]{{0,200}})?>|<\|(?:think|begin_of_thought)\|>|\[THINK\]"
    r"|\u25c1think\u25b7|<\|channel\|>analysis\b",
    re.IGNORECASE,
)
THOUGHT_END = re.compile(
    rf"</{_THOUGHT}\s{{0,3}}>|<\|(?:/think|end_of_thought)\|>|\[/THINK\]|\u25c1/think\u25b7"
    r"|<\|channel\|>final(?:\s?<\|message\|>)?",
    re.IGNORECASE,
)
# What no text may hold, since a reader, DSPy or a chat template takes it for framing: each is
# broken by a space after its first character. A pattern that begins with one of three characters is
# searched for quickly.
FRAMING = re.compile(
    rf"""
    \[ (?= \[\s{{0,3}}\#{{1,3}}\s{{0,3}}\w{{1,64}}\s{{0,3}}\#  # a field's header
        | \|\S | (?i:/?(?:INST|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w{{1,20}})\]) )
  | \u25c1 (?= /?(?i:think)\u25b7 )
  | < (?= [|\uff5c]\S | <(?:CUSTOM-TYPE-|/?SYS>>)         # <|im_start|>; DSPy's images and the like
        | /?(?i:{_THOUGHT}|s|bos|eos|(?:start|end)_of_(?:turn|role))[\s>] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One text a judge reads or one field it writes; `choices` None means free text."""

    name: str
    description: str
    role: Literal["input", "output"]
    choices: tuple[Value, ...] | None = None


def words_of(choices: tuple[Value, ...] | None) -> tuple[Value, ...]:
    """A verdict's two words, of which the first is good; none of ratings and a pair's letters."""
    return choices if choices and choices != LETTERS and isinstance(choices[0], str) else ()


def rating_of(choice: Value, choices: tuple[Value, ...]) -> int:
    """What a choice counts: its number; of two words the good one 1 and the other 0."""
    words = words_of(choices)
    return 1 - words.index(choice) if words else int(choice)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """An instruction, the fields read and written, and worked examples (field name -> value)."""

    instruction: str
    fields: tuple[Field, ...]
    # Demos hold whole documents.
    demos: tuple[Mapping[str, Value], ...] = dataclass_field(default=(), repr=False)

    @cached_property
    def answer(self) -> Field:
        """The one output that holds the score: the last with choices."""
        return next(field for field in reversed(self.outputs) if field.choices)

    @cached_property
    def inputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "input")

    @cached_property
    def outputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "output")

    def normalised(self) -> "Prompt":
        """The same prompt as DSPy keeps it (an instruction without indents), and UTF-8 files."""
        demos = tuple(
            {f.name: encodable(v) if isinstance(v := demo[f.name], str) else v for f in self.fields}
            for demo in self.demos
        )
        # What cleandoc changes again where blanks come first; it also takes them off one by one.
        instruction = inspect.cleandoc(encodable(self.instruction).strip())
        return replace(self, instruction=instruction, demos=demos)

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """Render for one output; KeyError names a text that is missing."""
        return fill(self.template(), texts)

    def template(self) -> list[Message]:
        """Render everything but the texts, which stand as `{{name}}` slots in the last message."""
        messages = [Message(role="system", content=_system(self))]
        for demo in self.demos:
            messages.append(Message(role="user", content=_user_message(self, demo)))
            messages.append(Message(role="assistant", content=_answer(self, demo)))
        slots = {field.name: f"{{{{{field.name}}}}}" for field in self.inputs}
        return [*messages, Message(role="user", content=_user_message(self, slots))]


# What a judge writes before a rating, and before the choice between A and B.
_RATIONALES: Mapping[Reasoning, str] = {
    "brief": "one sentence of reasons",
    "steps": "the reasoning in steps, one point a line: what it shows of the quality, and how much "
    "that counts",
    "questions": "three to five questions that the quality comes down to, one a line, each "
    "question with its answer and a rating of its own",
}
_COMPARISONS: Mapping[Reasoning, str] = {
    "brief": "one sentence: which is preferred, and why",
    "steps": "the comparison in steps, one point a line: which of the two does better there, and "
    "how much that counts",
    "questions": "three to five questions that the preference comes down to, one a line, each "
    "question with how A and how B does on it",
}


def reasoning_of(prompt: Prompt) -> Reasoning:
    """What a judge writes before its answer; words of its own asking count as "brief"."""
    return _reasoning_in(prompt.outputs)


def thinks_at_length(outputs: Sequence[Field]) -> bool:
    """Whether more than a sentence is written before the answer, ratings of parts among it."""
    return _reasoning_in(outputs) in ("steps", "questions")


def _reasoning_in(outputs: Sequence[Field]) -> Reasoning:
    texts = [field.description for field in outputs if not field.choices]
    forms = (*_RATIONALES.items(), *_COMPARISONS.items())
    named = (reasoning for reasoning, description in forms if description in texts)
    return next(named, "brief" if texts else "none")


def with_reasoning(prompt: Prompt, reasoning: Reasoning) -> Prompt:
    """The prompt that asks for this before the answer, in the place of what it asked for there.

    Demonstrations keep what they show but for reasons of another form: these are not given.
    """
    if reasoning_of(prompt) == reasoning:
        return prompt
    answer = prompt.answer
    fields = [field for field in prompt.fields if field.role == "input" or field.choices]
    if reasoning != "none":
        pairs = answer.choices == ("A", "B")
        name, descriptions = ("comparison", _COMPARISONS) if pairs else ("rationale", _RATIONALES)
        reasons = Field(name=name, description=descriptions[reasoning], role="output")
        fields.insert(fields.index(answer), reasons)
    demos = tuple(
        {field.name: demo[field.name] if field in prompt.fields else NOT_GIVEN for field in fields}
        for demo in prompt.demos
    )
    return replace(prompt, fields=tuple(fields), demos=demos)


def neutralise(text: str) -> str:
    """Break what could pass for framing (see FRAMING) by a space; mend lone surrogates."""
    return FRAMING.sub(r"\g<0> ", text if text.isascii() else encodable(text))


def encodable(text: str) -> str:
    """Put a question mark for every lone surrogate, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fill(template: Sequence[Message], texts: Mapping[str, str]) -> list[Message]:
    """Put neutralised texts into the slots of the last message, in one pass; KeyError: none given.

    A slot inside a text is never filled.
    """
    last = template[-1]
    content = SLOT.sub(lambda slot: neutralise(texts[slot.group(1)]), last["content"])
    return [*template[:-1], Message(role=last["role"], content=content)]


def restated(prompt: Prompt, messages: Sequence[Message]) -> list[Message]:
    """What is sent after a reply of another form: the last message repeats what form is wanted.

    What stood before comes first as it was, so that providers' prompt caches apply.
    """
    last, answer, wanted = messages[-1], prompt.answer, _reply_format(prompt.outputs)
    if len(prompt.outputs) > 1:
        wanted += (
            f" What follows {HEADER.format(name=answer.name)} is {_either(answer.choices or ())} "
            "alone, without any other word."
        )
    note = f"An earlier reply was not of this form and was not read. {wanted}"
    content = f"{last['content']}\n\n{note}"
    return [*messages[:-1], Message(role=last["role"], content=content)]


def _system(prompt: Prompt) -> str:
    """The system message: what is read, what is written, and the instruction."""
    lines = ["You read:", *(f"- {field.name}: {field.description}" for field in prompt.inputs)]
    lines += ["", "You write:"]
    for field in prompt.outputs:
        allowed = f" ({_either(field.choices)})" if field.choices else ""
        lines.append(f"- {field.name}{allowed}: {field.description}")
    lines += ["", "Your task:", prompt.instruction.strip()]
    return "\n".join(neutralise(line) for line in lines)


def _either(choices: Sequence[Value]) -> str:
    words = [str(choice) for choice in choices]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _user_message(prompt: Prompt, texts: Mapping[str, Value]) -> str:
    """Every input's header and text, then the form of the reply."""
    return "\n\n".join([*_blocks(prompt.inputs, texts), _reply_format(prompt.outputs)])


def _blocks(fields: Sequence[Field], values: Mapping[str, Value]) -> list[str]:
    """Each field's header and value; what is lacking is empty."""
    return [
        f"{HEADER.format(name=field.name)}\n{neutralise(str(values.get(field.name, '')))}"
        for field in fields
    ]


def _reply_format(outputs: Sequence[Field]) -> str:
    """The sentence that says what to reply: the choice alone, or each output under its header."""
    last = outputs[-1]
    if len(outputs) == 1 and last.choices:
        # What an instruction has it work out, it works out for itself.
        return f"Reply with the {last.name} alone, without any working: {_either(last.choices)}."
    headers = ", then ".join(HEADER.format(name=field.name) for field in outputs)
    return (
        f"Reply with {headers}, each on its own line and followed by its content; end with {END}."
    )


def _answer(prompt: Prompt, values: Mapping[str, Value]) -> str:
    """A demo's reply in the form that is asked for."""
    outputs = prompt.outputs
    if len(outputs) == 1 and outputs[0].choices:
        return str(values[outputs[0].name])
    return "\n\n".join([*_blocks(outputs, values), END])
