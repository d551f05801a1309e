"""Render a judge's prompt as chat messages.

Texts are neutralised, so that no text can add a field, a demonstration or an image to the messages.
The part that is the same for every row comes first, so that providers' prompt caches apply.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Literal

from judges.protocol import Message

FieldValue = str | int  # of a field: a text, a word or a rating
# The text that a judge writes before its answer: nothing, one sentence, reasoning in steps, or
# questions that the judge poses and answers itself.
Reasoning = Literal["none", "brief", "steps", "questions"]
# The forms of reasoning in which a reply may have ratings of parts before its answer.
LONG_REASONING = ("steps", "questions")
# The most demonstrations in a prompt.
MAX_DEMOS = 1000
# The two answers of a pairwise judge.
PAIR_ANSWERS = ("A", "B")
FIELD_HEADER = "[[ ## {name} ## ]]"
END_HEADER = FIELD_HEADER.format(name="completed")
# Replaces a free text, such as a rationale, that a demonstration lacks.
NOT_GIVEN_TEXT = "(not given)"
VALID_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
# A word of a verdict, such as "pass" or "not ok": letters, in one or more parts.
VERDICT_WORD = re.compile(r"(?=.{1,30}\Z)[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*\Z")
SLOT_PATTERN = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

# The header of a field, in any of the variants that models write.
FIELD_HEADER_PATTERN = re.compile(r"\[\[\s{0,3}#{1,3}\s{0,3}(\w{1,64})\s{0,3}#{1,3}\s{0,3}\]\]")
# The tags around a model's thoughts in its reply; they differ between model families.
_THOUGHT_TAG = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|scratchpad)"
THOUGHT_START = re.compile(
    rf"<{_THOUGHT_TAG}(?:\s[^<>\n]{{0,200}})?>|<\|(?:think|begin_of_thought)\|>|\[THINK\]"
    r"|\u25c1think\u25b7|<\|channel\|>analysis\b",
    re.IGNORECASE,
)
THOUGHT_END = re.compile(
    rf"</{_THOUGHT_TAG}\s{{0,3}}>|<\|(?:/think|end_of_thought)\|>|\[/THINK\]|\u25c1/think\u25b7"
    r"|<\|channel\|>final(?:\s?<\|message\|>)?",
    re.IGNORECASE,
)
# Markup in a text that our reader, DSPy or a chat template would take for a part of the messages'
# structure. `break_markup` breaks the markup by a space after the first character. All
# alternatives of the pattern begin with one of three characters, which makes the search fast.
MARKUP_PATTERN = re.compile(
    rf"""
    \[ (?= \[\s{{0,3}}\#{{1,3}}\s{{0,3}}\w{{1,64}}\s{{0,3}}\#  # a field's header
        | \|\S | (?i:/?(?:INST|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w{{1,20}})\]) )
  | \u25c1 (?= /?(?i:think)\u25b7 )
  | < (?= [|\uff5c]\S | <(?:CUSTOM-TYPE-|/?SYS>>)         # <|im_start|>; DSPy's images and the like
        | /?(?i:{_THOUGHT_TAG}|s|bos|eos|(?:start|end)_of_(?:turn|role))[\s>] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field that a judge reads or writes; without `choices` it is free text."""

    name: str
    description: str
    role: Literal["input", "output"]
    choices: tuple[FieldValue, ...] | None = None

    @property
    def allowed_values(self) -> tuple[FieldValue, ...]:
        """The choices; empty for free text."""
        return self.choices or ()


def verdict_words_of(choices: tuple[FieldValue, ...] | None) -> tuple[FieldValue, ...]:
    """Return the two words of a verdict, the good one first; empty for ratings, and for A and B."""
    return choices if choices and choices != PAIR_ANSWERS and isinstance(choices[0], str) else ()


def are_verdict_words(words: Sequence[object]) -> bool:
    """Return whether `words` are two words that a verdict may have."""
    folded_words = [str(word).casefold() for word in words]
    # The first tokens have to differ, since their probabilities are compared.
    first_tokens = {text.split(" ")[0] for text in folded_words}
    return len(words) == len(first_tokens) == 2 and all(
        VERDICT_WORD.match(text) and " or " not in text for text in folded_words
    )


def choice_number(choice: FieldValue, choices: tuple[FieldValue, ...]) -> float:
    """Return an answer as a number: the rating, 1 or 0 for one of two words, 1 or -1 for A or B."""
    if choices == PAIR_ANSWERS:
        return 1.0 if choice == PAIR_ANSWERS[0] else -1.0
    words = verdict_words_of(choices)
    return float(1 - words.index(choice) if words else choice)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """An instruction, the fields to read and write, and demos with a value for each field."""

    instruction: str
    fields: tuple[Field, ...]
    # Left out of the `repr`, since demos hold whole documents.
    demos: tuple[Mapping[str, FieldValue], ...] = dataclass_field(default=(), repr=False)

    @cached_property
    def answer_field(self) -> Field:
        """The output field for the rating, verdict or choice: the last field with choices."""
        return self.choice_fields[-1]

    @cached_property
    def choice_fields(self) -> tuple[Field, ...]:
        """The output fields that have choices: the questions, then the answer."""
        return tuple(field for field in self.output_fields if field.choices)

    @cached_property
    def question_fields(self) -> tuple[Field, ...]:
        """The fields of the questions, which are answered before the answer in the same reply."""
        return self.choice_fields[:-1]

    @cached_property
    def input_fields(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "input")

    @cached_property
    def output_fields(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "output")

    def with_clean_texts(self) -> "Prompt":
        """Return the prompt in valid UTF-8, with the instruction unindented as DSPy does."""
        demos = tuple(demo_values(demo, self.fields, utf8_text) for demo in self.demos)
        # Without strip, a second call of cleandoc could change the text again.
        instruction = inspect.cleandoc(utf8_text(self.instruction).strip())
        return replace(self, instruction=instruction, demos=demos)

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """Return the messages for one output; raises KeyError if a text is missing."""
        return fill_slots(self.template(), texts)

    def template(self) -> list[Message]:
        """Return the messages with a `{{name}}` slot for each text, all in the last message."""
        messages = [Message(role="system", content=_system_content(self))]
        for demo in self.demos:
            messages.append(Message(role="user", content=_user_content(self, demo)))
            messages.append(Message(role="assistant", content=_answer_content(self, demo)))
        slots = {field.name: f"{{{{{field.name}}}}}" for field in self.input_fields}
        return [*messages, Message(role="user", content=_user_content(self, slots))]


# For each form of reasoning, the description of the free text before a rating, and before A or B.
_REASONING_TEXTS: Mapping[Reasoning, tuple[str, str]] = {
    "brief": ("one sentence of reasons", "one sentence: which is preferred, and why"),
    "steps": (
        "the reasoning in steps, one point a line: what it shows of the quality, and how much that "
        "counts",
        "the comparison in steps, one point a line: which of the two does better there, and how "
        "much that counts",
    ),
    "questions": (
        "three to five questions that the quality comes down to, one a line, each question with "
        "its answer and a rating of its own",
        "three to five questions that the preference comes down to, one a line, each question with "
        "how A and how B does on it",
    ),
}


def reasoning_of(outputs: Sequence[Field]) -> Reasoning:
    """Return the form of reasoning in a reply; "brief" for a free text with its own description."""
    free_texts = [field.description for field in outputs if not field.choices]
    for reasoning, descriptions in _REASONING_TEXTS.items():
        if not {*descriptions}.isdisjoint(free_texts):
            return reasoning
    return "brief" if free_texts else "none"


def with_reasoning(prompt: Prompt, reasoning: Reasoning) -> Prompt:
    """Return the prompt with another form of reasoning; the demos lose their rationales."""
    if reasoning_of(prompt.output_fields) == reasoning:
        return prompt
    fields = [field for field in prompt.fields if field.role == "input" or field.choices]
    if reasoning != "none":
        compares = prompt.answer_field.choices == PAIR_ANSWERS
        name = "comparison" if compares else "rationale"
        description = _REASONING_TEXTS[reasoning][compares]
        free_text = Field(name=name, description=description, role="output")
        fields.insert(fields.index(prompt.choice_fields[0]), free_text)
    demos = tuple(
        {
            field.name: demo[field.name] if field in prompt.fields else NOT_GIVEN_TEXT
            for field in fields
        }
        for demo in prompt.demos
    )
    return replace(prompt, fields=tuple(fields), demos=demos)


def with_questions(prompt: Prompt, questions: Sequence[Field]) -> Prompt:
    """Return the prompt with other questions, and without demos, which lack the answers."""
    if prompt.question_fields == tuple(questions):
        return prompt
    other_fields = [field for field in prompt.fields if field not in prompt.choice_fields]
    return replace(prompt, fields=(*other_fields, *questions, prompt.answer_field), demos=())


def break_markup(text: str) -> str:
    """Return the text in valid UTF-8 and with a space in every match of MARKUP_PATTERN."""
    return MARKUP_PATTERN.sub(r"\g<0> ", text if text.isascii() else utf8_text(text))


def demo_values(
    demo: Mapping[str, FieldValue], fields: Sequence[Field], clean: Callable[[str], str]
) -> dict[str, FieldValue]:
    """Return a demonstration's values for these fields, with each text passed through `clean`."""
    values = {field.name: demo[field.name] for field in fields}
    return {name: clean(v) if isinstance(v, str) else v for name, v in values.items()}


def utf8_text(text: str) -> str:
    """Return the text with a question mark for every lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fill_slots(
    template: Sequence[Message], texts: Mapping[str, str], encode: Callable[[str], str] = str
) -> list[Message]:
    """Return the messages with neutralised texts in the slots; KeyError if a text is missing."""
    last_message = template[-1]
    # All slots are filled in one pass, so that a `{{name}}` inside a text stays as it is.
    content = SLOT_PATTERN.sub(
        lambda slot: encode(break_markup(texts[slot.group(1)])), last_message["content"]
    )
    return [*template[:-1], Message(role=last_message["role"], content=content)]


def restate_format(prompt: Prompt, messages: Sequence[Message]) -> list[Message]:
    """Return the messages to send after a reply that could not be read.

    The form of a reply is repeated at the end, so that providers' prompt caches apply.
    """
    last_message, form_text = messages[-1], _reply_format(prompt.output_fields)
    for field in prompt.choice_fields if len(prompt.output_fields) > 1 else ():
        header = FIELD_HEADER.format(name=field.name)
        choices_text = _choices_phrase(field.allowed_values)
        form_text += f" What follows {header} is {choices_text} alone, without any other word."
    note = f"An earlier reply was not of this form and was not read. {form_text}"
    content = f"{last_message['content']}\n\n{note}"
    return [*messages[:-1], Message(role=last_message["role"], content=content)]


def _system_content(prompt: Prompt) -> str:
    lines = [
        "You read:",
        *(f"- {field.name}: {field.description}" for field in prompt.input_fields),
    ]
    lines += ["", "You write:"]
    for field in prompt.output_fields:
        allowed_choices = f" ({_choices_phrase(field.choices)})" if field.choices else ""
        lines.append(f"- {field.name}{allowed_choices}: {field.description}")
    lines += ["", "Your task:", prompt.instruction.strip()]
    return "\n".join(break_markup(line) for line in lines)


def _choices_phrase(choices: Sequence[FieldValue]) -> str:
    """Return the choices as a phrase, such as "1, 2 or 3"."""
    *first_choices, last_choice = map(str, choices)
    return f"{', '.join(first_choices)} or {last_choice}"


def _field_blocks(fields: Sequence[Field], values: Mapping[str, FieldValue]) -> list[str]:
    """Return the header and value of each field; a missing value is an empty text."""
    return [
        f"{FIELD_HEADER.format(name=field.name)}\n{break_markup(str(values.get(field.name, '')))}"
        for field in fields
    ]


def _reply_format(outputs: Sequence[Field]) -> str:
    """Return the sentence on the reply's form: the choice alone, or outputs under headers."""
    last_field = outputs[-1]
    if len(outputs) == 1 and last_field.choices:
        # The instruction may ask the model to think in steps, but the reply must not contain them.
        choices = _choices_phrase(last_field.choices)
        return f"Reply with the {last_field.name} alone, without any working: {choices}."
    headers = ", then ".join(FIELD_HEADER.format(name=field.name) for field in outputs)
    return (
        f"Reply with {headers}, each on its own line and followed by its content; "
        f"end with {END_HEADER}."
    )


def _user_content(prompt: Prompt, values: Mapping[str, FieldValue]) -> str:
    return "\n\n".join(
        [*_field_blocks(prompt.input_fields, values), _reply_format(prompt.output_fields)]
    )


def _answer_content(prompt: Prompt, values: Mapping[str, FieldValue]) -> str:
    outputs = prompt.output_fields
    if len(outputs) == 1 and outputs[0].choices:
        return str(values[outputs[0].name])
    return "\n\n".join([*_field_blocks(outputs, values), END_HEADER])
