"""Render a judge's prompt as chat messages; no text can add a field, a demo or an image to them.

All that is the same for every row comes first, so that providers' prompt caches apply.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Literal

from judges.protocol import Message

Value = str | int
# What a judge writes before its answer: nothing, one sentence, steps, or questions of its own with
# their answers.
Reasoning = Literal["none", "brief", "steps", "questions"]
# Upper bound on demonstrations.
MAX_DEMOS = 1000
# The answers for a pair.
LETTERS = ("A", "B")
HEADER = "[[ ## {name} ## ]]"
END = HEADER.format(name="completed")
# The free text of a demonstration that has none.
NOT_GIVEN = "(not given)"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
# A word of a verdict has letters only, so that no reader splits it.
WORD = re.compile(r"(?=.{1,30}\Z)[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*\Z")
SLOT = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

# A field's header, in any of the ways that models write it.
FIELD_HEADER = re.compile(r"\[\[\s{0,3}#{1,3}\s{0,3}(\w{1,64})\s{0,3}#{1,3}\s{0,3}\]\]")
# The beginning and the end of thoughts in a reply, by model family.
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
# Marks that our reader, DSPy or a chat template would read as framing. In texts a space after the
# first character breaks them. The pattern begins with one of three characters, which makes it fast.
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
    """A text that a judge reads, or a field that it writes; without `choices` it is free text."""

    name: str
    description: str
    role: Literal["input", "output"]
    choices: tuple[Value, ...] | None = None

    @property
    def options(self) -> tuple[Value, ...]:
        """The choices; empty for free text."""
        return self.choices or ()


def words_of(choices: tuple[Value, ...] | None) -> tuple[Value, ...]:
    """A verdict's two words, the good one first; empty for ratings and for a pair's letters."""
    return choices if choices and choices != LETTERS and isinstance(choices[0], str) else ()


def are_words(words: Sequence[object]) -> bool:
    """Whether these are two words that a verdict may have."""
    texts = [str(word).casefold() for word in words]
    # Their first tokens have to differ.
    differ = len({text.split(" ")[0] for text in texts}) == 2
    return differ and all(WORD.match(text) and " or " not in text for text in texts)


def rating_of(choice: Value, choices: tuple[Value, ...]) -> int:
    """The number of a choice; of two words the good one is 1 and the other 0."""
    words = words_of(choices)
    return 1 - words.index(choice) if words else int(choice)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """An instruction, the fields that are read and written, and demos (field name -> value)."""

    instruction: str
    fields: tuple[Field, ...]
    # Not shown, since demos hold whole documents.
    demos: tuple[Mapping[str, Value], ...] = dataclass_field(default=(), repr=False)

    @cached_property
    def answer(self) -> Field:
        """The one output that holds the score: the last with choices."""
        return self.choices[-1]

    @cached_property
    def choices(self) -> tuple[Field, ...]:
        """The outputs that are chosen from a few answers: the questions, then the answer."""
        return tuple(field for field in self.outputs if field.choices)

    @cached_property
    def questions(self) -> tuple[Field, ...]:
        """The questions that are answered in the same reply, before the answer."""
        return self.choices[:-1]

    @cached_property
    def inputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "input")

    @cached_property
    def outputs(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "output")

    def normalised(self) -> "Prompt":
        """The prompt as DSPy keeps it, without indents, in text that UTF-8 can hold."""
        demos = tuple(
            {f.name: encodable(v) if isinstance(v := demo[f.name], str) else v for f in self.fields}
            for demo in self.demos
        )
        # Without strip, cleandoc would change its own result where blanks come first.
        instruction = inspect.cleandoc(encodable(self.instruction).strip())
        return replace(self, instruction=instruction, demos=demos)

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """The messages for one output; KeyError names a text that is missing."""
        return fill(self.template(), texts)

    def template(self) -> list[Message]:
        """The messages with `{{name}}` slots for the texts, all of them in the last message."""
        messages = [Message(role="system", content=_system(self))]
        for demo in self.demos:
            messages.append(Message(role="user", content=_user_message(self, demo)))
            messages.append(Message(role="assistant", content=_answer(self, demo)))
        slots = {field.name: f"{{{{{field.name}}}}}" for field in self.inputs}
        return [*messages, Message(role="user", content=_user_message(self, slots))]


# Descriptions of the field before a rating, and before a choice between A and B.
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
    """The reasoning that a prompt asks for; any description that is not ours counts as "brief"."""
    return _reasoning_in(prompt.outputs)


def thinks_at_length(outputs: Sequence[Field]) -> bool:
    """Whether steps or questions, which may rate parts of the whole, come before the answer."""
    return _reasoning_in(outputs) in ("steps", "questions")


def _reasoning_in(outputs: Sequence[Field]) -> Reasoning:
    texts = [field.description for field in outputs if not field.choices]
    forms = (*_RATIONALES.items(), *_COMPARISONS.items())
    matches = (reasoning for reasoning, description in forms if description in texts)
    return next(matches, "brief" if texts else "none")


def with_reasoning(prompt: Prompt, reasoning: Reasoning) -> Prompt:
    """The prompt with another form of reasoning before the answer.

    Demonstrations lose their reasons, which are of the former form.
    """
    if reasoning_of(prompt) == reasoning:
        return prompt
    answer = prompt.answer
    fields = [field for field in prompt.fields if field.role == "input" or field.choices]
    if reasoning != "none":
        pairs = answer.choices == LETTERS
        name, descriptions = ("comparison", _COMPARISONS) if pairs else ("rationale", _RATIONALES)
        reasons = Field(name=name, description=descriptions[reasoning], role="output")
        fields.insert(fields.index(prompt.choices[0]), reasons)
    demos = tuple(
        {field.name: demo[field.name] if field in prompt.fields else NOT_GIVEN for field in fields}
        for demo in prompt.demos
    )
    return replace(prompt, fields=tuple(fields), demos=demos)


def with_questions(prompt: Prompt, questions: Sequence[Field]) -> Prompt:
    """The prompt with these questions before its answer, in place of its own.

    Demonstrations are left out if the questions change, since nobody has answered them there.
    """
    if prompt.questions == tuple(questions):
        return prompt
    others = [field for field in prompt.fields if field not in prompt.choices]
    return replace(prompt, fields=(*others, *questions, prompt.answer), demos=())


def neutralise(text: str) -> str:
    """Break framing marks in a text by a space (see FRAMING), and replace lone surrogates."""
    return FRAMING.sub(r"\g<0> ", text if text.isascii() else encodable(text))


def encodable(text: str) -> str:
    """The text with a question mark for every lone surrogate, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fill(
    template: Sequence[Message], texts: Mapping[str, str], encode: Callable[[str], str] = str
) -> list[Message]:
    """The messages with neutralised texts, each through `encode`, in the slots of the last one.

    One pass fills all slots, so that a slot inside a text is not filled. KeyError names a text that
    is missing.
    """
    last = template[-1]
    content = SLOT.sub(lambda slot: encode(neutralise(texts[slot.group(1)])), last["content"])
    return [*template[:-1], Message(role=last["role"], content=content)]


def restated(prompt: Prompt, messages: Sequence[Message]) -> list[Message]:
    """The messages after a reply that could not be read: the last one repeats the form of a reply.

    The original text stays in front, so that providers' prompt caches apply.
    """
    last, form = messages[-1], _reply_format(prompt.outputs)
    for field in prompt.choices if len(prompt.outputs) > 1 else ():
        form += (
            f" What follows {HEADER.format(name=field.name)} is {_either(field.options)} "
            "alone, without any other word."
        )
    note = f"An earlier reply was not of this form and was not read. {form}"
    content = f"{last['content']}\n\n{note}"
    return [*messages[:-1], Message(role=last["role"], content=content)]


def _system(prompt: Prompt) -> str:
    lines = ["You read:", *(f"- {field.name}: {field.description}" for field in prompt.inputs)]
    lines += ["", "You write:"]
    for field in prompt.outputs:
        allowed = f" ({_either(field.choices)})" if field.choices else ""
        lines.append(f"- {field.name}{allowed}: {field.description}")
    lines += ["", "Your task:", prompt.instruction.strip()]
    return "\n".join(neutralise(line) for line in lines)


def _either(choices: Sequence[Value]) -> str:
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}"


def _user_message(prompt: Prompt, texts: Mapping[str, Value]) -> str:
    return "\n\n".join([*_blocks(prompt.inputs, texts), _reply_format(prompt.outputs)])


def _blocks(fields: Sequence[Field], values: Mapping[str, Value]) -> list[str]:
    """The header and value of each field; a missing value is empty."""
    return [
        f"{HEADER.format(name=field.name)}\n{neutralise(str(values.get(field.name, '')))}"
        for field in fields
    ]


def _reply_format(outputs: Sequence[Field]) -> str:
    """The sentence on the form of a reply: the choice alone, or each output under its header."""
    last = outputs[-1]
    if len(outputs) == 1 and last.choices:
        # An instruction may ask for steps, which must not stand in the reply.
        return f"Reply with the {last.name} alone, without any working: {_either(last.choices)}."
    headers = ", then ".join(HEADER.format(name=field.name) for field in outputs)
    return (
        f"Reply with {headers}, each on its own line and followed by its content; end with {END}."
    )


def _answer(prompt: Prompt, values: Mapping[str, Value]) -> str:
    outputs = prompt.outputs
    if len(outputs) == 1 and outputs[0].choices:
        return str(values[outputs[0].name])
    return "\n\n".join([*_blocks(outputs, values), END])
