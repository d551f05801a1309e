"""A judge's prompt: its instruction, fields and demonstrations, and the chat messages they make.

A space is inserted into markup in texts, so that no text can add a field, a demonstration or an
image to the messages. The messages begin with what is the same for every row, so that providers'
prompt caches apply.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Literal

from judges.protocol import Message

# The value of a field: a text, a word or a rating.
FieldValue = str | int
# What a judge writes before its answer: nothing, one sentence, reasoning in steps, or questions
# that the judge poses and answers itself.
Reasoning = Literal["none", "brief", "steps", "questions"]
# The kinds of reasoning that may contain other ratings than the answer, such as one for each step.
LONG_REASONING = ("steps", "questions")
MAX_DEMOS = 1000
# The two answers of a pairwise judge.
A_OR_B = ("A", "B")
# The header above each field's value in a message, as in DSPy's chat format.
FIELD_HEADER = "[[ ## {name} ## ]]"
END_HEADER = FIELD_HEADER.format(name="completed")
# What a demonstration shows in place of a free text that it lacks, such as a rationale.
NOT_GIVEN_TEXT = "(not given)"
# The name of a field: lower-case letters, digits and underscores.
VALID_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
# A word of a verdict, such as "pass" or "not ok": letters, in one or more parts.
VERDICT_WORD = re.compile(r"(?=.{1,30}\Z)[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*\Z")
# A slot of a message template, such as `{{summary}}`, which a row's text replaces.
SLOT_PATTERN = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

# A field's header in a reply, in any of the variants that models write.
FIELD_HEADER_PATTERN = re.compile(r"\[\[\s{0,3}#{1,3}\s{0,3}(\w{1,64})\s{0,3}#{1,3}\s{0,3}\]\]")
# The tags around a model's thoughts in its reply; they differ between model families.
_THOUGHT_TAG = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|scratchpad)"
THOUGHT_START = re.compile(
    rf"(?i)<{_THOUGHT_TAG}(?:\s[^<>\n]{{0,200}})?>|<\|(?:think|begin_of_thought)\|>|\[THINK\]"
    r"|\u25c1think\u25b7|<\|channel\|>analysis\b"
)
THOUGHT_END = re.compile(
    rf"(?i)</{_THOUGHT_TAG}\s{{0,3}}>|<\|(?:/think|end_of_thought)\|>|\[/THINK\]|\u25c1/think\u25b7"
    r"|<\|channel\|>final(?:\s?<\|message\|>)?"
)
# Markup in a text that would look like a part of the messages' structure to the code that reads
# replies, to DSPy or to a chat template. `break_markup` inserts a space after its first character.
# All alternatives of the pattern begin with one of three characters, which makes the search fast.
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
    """A field that a judge reads or writes. Its value is a free text if there are no `choices`."""

    name: str
    description: str
    role: Literal["input", "output"]
    choices: tuple[FieldValue, ...] | None = None

    @property
    def allowed_values(self) -> tuple[FieldValue, ...]:
        """The field's choices; empty for a free text."""
        return self.choices or ()

    @property
    def is_pairwise(self) -> bool:
        """Whether the answer is one of two outputs, A or B."""
        return self.choices == A_OR_B

    @property
    def verdict_words(self) -> tuple[FieldValue, ...]:
        """The two words of a verdict, the good one first; empty for any other field."""
        if self.choices and not self.is_pairwise and isinstance(self.choices[0], str):
            return self.choices
        return ()

    @property
    def number_by_choice(self) -> dict[FieldValue, float]:
        """The number of each choice: a rating, 1 or 0 for a verdict's words, 1 or -1 for A or B."""
        if self.is_pairwise:
            return {"A": 1.0, "B": -1.0}
        if self.verdict_words:
            return dict(zip(self.verdict_words, (1.0, 0.0), strict=True))
        return {rating: float(rating) for rating in self.allowed_values}

    @property
    def answer_range(self) -> tuple[float, float]:
        """The smallest and the largest number that an answer to this field can be."""
        numbers = self.number_by_choice.values()
        return min(numbers), max(numbers)

    def nearest_choice(self, number: float) -> FieldValue:
        """Return the choice nearest to `number`; if two are equally near, the lower choice.

        Of choices that stand for 0 and 1, .5 is nearest to 1, since a score of .5 is a pass.
        """
        number_by_choice, has_pass_and_fail = self.number_by_choice, self.answer_range == (0, 1)
        # Of equally near choices, `min` returns the first one.
        number_of = number_by_choice.__getitem__
        choices = sorted(number_by_choice, key=number_of, reverse=has_pass_and_fail)
        return min(choices, key=lambda choice: abs(number_by_choice[choice] - number))


def are_verdict_words(words: Sequence[object]) -> bool:
    """Return whether `words` are two words that a verdict may have."""
    folded_words = [str(word).casefold() for word in words]
    # The words must begin with different tokens, since the tokens' probabilities are compared.
    first_tokens = {word.split(" ")[0] for word in folded_words}
    return len(words) == len(first_tokens) == 2 and all(
        VERDICT_WORD.match(word) and " or " not in word for word in folded_words
    )


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """An instruction, the fields to read and write, and demos with a value for each field."""

    instruction: str
    fields: tuple[Field, ...]
    # The `repr` leaves the demos out, since they hold whole documents.
    demos: tuple[Mapping[str, FieldValue], ...] = dataclass_field(default=(), repr=False)

    @cached_property
    def input_fields(self) -> tuple[Field, ...]:
        """The fields that the judge reads: the texts."""
        return tuple(field for field in self.fields if field.role == "input")

    @cached_property
    def output_fields(self) -> tuple[Field, ...]:
        """The fields that the judge writes: free texts, answers to questions, and its answer."""
        return tuple(field for field in self.fields if field.role == "output")

    @cached_property
    def choices(self) -> tuple[Field, ...]:
        """The output fields that have choices: the questions, then the judge's answer."""
        return tuple(field for field in self.output_fields if field.choices)

    @cached_property
    def question_fields(self) -> tuple[Field, ...]:
        """The fields of the questions, which are answered before the judge's answer."""
        return self.choices[:-1]

    @cached_property
    def answer_field(self) -> Field:
        """The field of the rating, verdict or choice: the last field that has choices."""
        return self.choices[-1]

    @property
    def has_answer_alone(self) -> bool:
        """Whether a reply is the answer alone, without headers and free texts."""
        return self.output_fields == self.choices[:1]

    @cached_property
    def reasoning(self) -> Reasoning:
        """What the judge writes before its answer; "brief" if a user described the free text."""
        descriptions = {field.description for field in self.output_fields if not field.choices}
        for reasoning, reasoning_descriptions in _REASONING_DESCRIPTIONS.items():
            if not descriptions.isdisjoint(reasoning_descriptions):
                return reasoning
        return "brief" if descriptions else "none"

    def with_clean_texts(self) -> "Prompt":
        """Return the prompt in valid UTF-8, with its instruction dedented as DSPy dedents it."""
        demos = tuple(demo_values(demo, self.fields, utf8_text) for demo in self.demos)
        # Without strip, a second call of cleandoc could change the text again.
        instruction = inspect.cleandoc(utf8_text(self.instruction).strip())
        return replace(self, instruction=instruction, demos=demos)

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """Return the messages for one output; raises KeyError if a text is missing."""
        return fill_slots(self.template(), texts)

    def template(self) -> list[Message]:
        """Return the messages; the last one has a slot `{{name}}` for each text."""
        reply_format = _reply_format(self)
        messages = [Message(role="system", content=_system_content(self))]
        for demo in self.demos:
            answer_text = _sections(self.output_fields, demo, END_HEADER)
            if self.has_answer_alone:
                answer_text = str(demo[self.answer_field.name])
            user_text = _sections(self.input_fields, demo, reply_format)
            messages.append(Message(role="user", content=user_text))
            messages.append(Message(role="assistant", content=answer_text))
        slots = {field.name: f"{{{{{field.name}}}}}" for field in self.input_fields}
        last_text = _sections(self.input_fields, slots, reply_format)
        return [*messages, Message(role="user", content=last_text)]


# For each kind of reasoning, the description of its field: for one output, and for a comparison.
_REASONING_DESCRIPTIONS: Mapping[Reasoning, tuple[str, str]] = {
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


def with_reasoning(prompt: Prompt, reasoning: Reasoning) -> Prompt:
    """Return the prompt with another kind of reasoning; the demos lose their rationales."""
    if prompt.reasoning == reasoning:
        return prompt
    fields = [field for field in prompt.fields if field.role == "input" or field.choices]
    if reasoning != "none":
        is_pairwise = prompt.answer_field.is_pairwise
        reasoning_field = Field(
            name="comparison" if is_pairwise else "rationale",
            description=_REASONING_DESCRIPTIONS[reasoning][is_pairwise],
            role="output",
        )
        fields.insert(fields.index(prompt.choices[0]), reasoning_field)
    # A rationale in one sentence, for instance, would be a wrong example of reasoning in steps.
    missing_texts = {field.name: NOT_GIVEN_TEXT for field in fields if field not in prompt.fields}
    demos = [demo_values({**demo, **missing_texts}, fields) for demo in prompt.demos]
    return replace(prompt, fields=tuple(fields), demos=tuple(demos))


def with_questions(prompt: Prompt, questions: Sequence[Field]) -> Prompt:
    """Return the prompt with other questions; demos are dropped, since they lack the answers."""
    if prompt.question_fields == tuple(questions):
        return prompt
    other_fields = [field for field in prompt.fields if field not in prompt.choices]
    return replace(prompt, fields=(*other_fields, *questions, prompt.answer_field), demos=())


def break_markup(text: str) -> str:
    """Return the text in valid UTF-8, with a space in all markup that has a meaning in messages."""
    return MARKUP_PATTERN.sub(r"\g<0> ", text if text.isascii() else utf8_text(text))


def demo_values(
    demo: Mapping[str, FieldValue], fields: Sequence[Field], clean_text: Callable[[str], str] = str
) -> dict[str, FieldValue]:
    """Return a demonstration's values for these fields, with each text cleaned by `clean_text`."""
    values = {field.name: demo[field.name] for field in fields}
    return {
        name: clean_text(value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def utf8_text(text: str) -> str:
    """Return the text with a question mark for every lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fill_slots(
    template: Sequence[Message], texts: Mapping[str, str], encode_text: Callable[[str], str] = str
) -> list[Message]:
    """Return the messages with texts in their slots; raises KeyError if a text is missing."""
    last_message = template[-1]
    # All slots are filled in one pass, so that a `{{name}}` inside a text stays as it is.
    content = SLOT_PATTERN.sub(
        lambda slot: encode_text(break_markup(texts[slot[1]])), last_message["content"]
    )
    return [*template[:-1], Message(role=last_message["role"], content=content)]


def restate_format(prompt: Prompt, messages: Sequence[Message]) -> list[Message]:
    """Return the messages to send after a reply that could not be read.

    The format of a reply is repeated at the end, so that providers' prompt caches apply.
    """
    format_text = _reply_format(prompt)
    if not prompt.has_answer_alone:
        for field in prompt.choices:
            header, choices = FIELD_HEADER.format(name=field.name), _choices_text(field)
            format_text += f" What follows {header} is {choices} alone, without any other word."
    last_message = messages[-1]
    note = f"An earlier reply was not of this form and was not read. {format_text}"
    content = f"{last_message['content']}\n\n{note}"
    return [*messages[:-1], Message(role=last_message["role"], content=content)]


def _system_content(prompt: Prompt) -> str:
    lines = ["You read:"]
    lines += [f"- {field.name}: {field.description}" for field in prompt.input_fields]
    lines += ["", "You write:"]
    for field in prompt.output_fields:
        choices_text = f" ({_choices_text(field)})" if field.choices else ""
        lines.append(f"- {field.name}{choices_text}: {field.description}")
    lines += ["", "Your task:", prompt.instruction.strip()]
    return "\n".join(break_markup(line) for line in lines)


def _choices_text(field: Field) -> str:
    """Return the choices of a field as a phrase, such as "1, 2 or 3"."""
    *first_choices, last_choice = map(str, field.allowed_values)
    return f"{', '.join(first_choices)} or {last_choice}"


def _sections(fields: Sequence[Field], values: Mapping[str, FieldValue], ending: str) -> str:
    """Return a message: a header and a value for each field, and then the `ending`."""
    sections = []
    for field in fields:
        value_text = break_markup(str(values.get(field.name, "")))
        sections.append(f"{FIELD_HEADER.format(name=field.name)}\n{value_text}")
    return "\n\n".join([*sections, ending])


def _reply_format(prompt: Prompt) -> str:
    """Return the sentence that asks for the answer alone, or for all outputs under headers."""
    if prompt.has_answer_alone:
        # The instruction may ask the model to think in steps, but the reply must not contain them.
        field = prompt.answer_field
        return f"Reply with the {field.name} alone, without any working: {_choices_text(field)}."
    headers = ", then ".join(FIELD_HEADER.format(name=field.name) for field in prompt.output_fields)
    return (
        f"Reply with {headers}, each on its own line and followed by its content; "
        f"end with {END_HEADER}."
    )
