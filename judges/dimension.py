"""What is judged: a dimension of one output, or a comparison of two."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Literal

from dspy_judges.errors import JudgesError
from judges.prompt import Field, Prompt, Reasoning, reasoning_of, with_reasoning

# As many as 0 to 100 has: more are no ratings.
MAX_RATINGS = 101
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
# What a verdict may be: words of letters alone, which no reader takes apart.
WORD = re.compile(r"(?=.{1,30}\Z)[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*\Z")

# What a judge writes, and what DSPy 3.4's Signature, Predict and Example take for their own.
RESERVED = frozenset(
    {
        *("rating", "verdict", "rationale", "comparison", "preferred", "completed"),
        *("signature", "new_signature", "instructions", "fields", "input_fields", "output_fields"),
        *("config", "model_config", "demos", "lm", "completions", "self"),
    }
)


class DimensionError(JudgesError, ValueError):
    """A dimension or comparison is ill-defined; the message says where and how to mend it."""


class UnknownDimensionError(JudgesError, LookupError):
    """No judge of that name in the catalogue."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quality of one output: its definition, the texts it is judged from, and its scale.

    `inputs` maps each text's name, in the order shown, to a few words on what it is. The keys of
    `anchors` are the scale; an anchor may be empty. `instruction` is what an optimizer may rewrite.
    With two `words`, the good one first, the judge answers with one of them, and the scale is 0, 1.
    """

    name: str
    definition: str
    inputs: Mapping[str, str]
    anchors: Mapping[int, str]
    instruction: str
    source: str = ""
    words: tuple[str, str] | None = None
    texts: tuple[str, ...] = dataclass_field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_names(self.name, self.inputs)
        object.__setattr__(self, "texts", tuple(self.inputs))
        if self.words is not None and (self.scale != (0, 1) or not are_words(self.words)):
            raise DimensionError(
                f"{self.name}: {' and '.join(map(str, self.words))} cannot be a verdict: it is one "
                "of two different words without digits and signs, on the scale 0 and 1"
            )
        if len(self.anchors) < 2 or list(self.anchors) != sorted(self.anchors):
            raise DimensionError(
                f"{self.name}: the scale {list(self.anchors)} needs two or more ratings, ascending"
            )

    @property
    def scale(self) -> tuple[int, ...]:
        return tuple(self.anchors)

    def on_scale(self, low: int, high: int) -> "Dimension":
        """The same quality rated from `low` to `high`; anchors move with their places.

        An anchor whose place falls between two ratings is left out.
        """
        if (low, high) == (self.scale[0], self.scale[-1]):
            return self
        if self.words:
            raise DimensionError(
                f"{self.name}: is {' or '.join(self.words)}, which has no scale from {low} to "
                f"{high}; say which ratings are good, as in --values {low}=0,{high}=1"
            )
        if not low < high or high - low >= MAX_RATINGS:
            raise DimensionError(
                f"{self.name}: a scale from {low} to {high}; it has 2 to {MAX_RATINGS} ratings"
            )
        first, width = self.scale[0], self.scale[-1] - self.scale[0]
        moved = {low + (r - first) * (high - low) / width: text for r, text in self.anchors.items()}
        anchors = {rating: moved.get(rating, "") for rating in range(low, high + 1)}
        return replace(self, anchors=anchors)

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: the texts in, a rating or a verdict out."""
        written = self.words[::-1] if self.words else self.scale
        named = zip(written, self.anchors.values(), strict=True)
        meanings = "; ".join(f"{answer} = {text}" for answer, text in named if text)
        description = f"{self.definition} ({meanings})" if meanings else self.definition
        name, choices = ("verdict", self.words) if self.words else ("rating", self.scale)
        answer = Field(name=name, description=description, role="output", choices=choices)
        return Prompt(instruction=self.instruction, fields=(*_inputs(self.inputs), answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A choice between two outputs for the same texts.

    `inputs` are the texts both sides share (a post, a query); `candidate` is the word for what is
    compared ("summary", "response"), whose two fields are `{candidate}_a` and `{candidate}_b`.
    """

    name: str
    definition: str
    inputs: Mapping[str, str]
    candidate: str
    instruction: str
    source: str = ""
    fields: tuple[str, str] = dataclass_field(init=False, repr=False)
    texts: tuple[str, ...] = dataclass_field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_names(self.name, {**self.inputs, self.candidate: ""})
        object.__setattr__(self, "fields", (f"{self.candidate}_a", f"{self.candidate}_b"))
        object.__setattr__(self, "texts", (*self.inputs, *self.fields))

    @property
    def scale(self) -> tuple[int, ...]:
        """Empty, since a choice is no rating."""
        return ()

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: the texts and both candidates in, A or B out."""
        sides = [
            Field(name=name, description=f"{self.candidate} {letter}", role="input")
            for letter, name in zip("AB", self.fields, strict=True)
        ]
        preferred = Field(
            name="preferred", description=self.definition, role="output", choices=("A", "B")
        )
        fields = (*_inputs(self.inputs), *sides, preferred)
        return with_reasoning(Prompt(instruction=self.instruction, fields=fields), "brief")


Subject = Dimension | Comparison
Kind = Literal["rating", "verdict", "pairwise"]


def kind_of(subject: Subject) -> Kind:
    """Whether a judge of it gives a rating, one of two words, or a choice between two outputs."""
    if isinstance(subject, Comparison):
        return "pairwise"
    return "verdict" if subject.words else "rating"


def untuned_prompt(subject: Subject, reasoning: Reasoning | None = None) -> Prompt:
    """The untuned prompt; without `reasoning` a dimension's has none, a comparison's is brief."""
    prompt = subject.prompt()
    return prompt if reasoning is None else with_reasoning(prompt, reasoning)


def check_prompt(subject: Subject, prompt: Prompt) -> None:
    """Raise DimensionError unless a prompt reads its subject's texts and writes on its scale."""
    if reserved := sorted(RESERVED & {field.name for field in prompt.inputs}):
        raise DimensionError(
            f"{subject.name}: a text may not be called {reserved[0]!r}, which a judge or DSPy "
            "keeps for itself; call it otherwise and map the column to it"
        )
    if not prompt.instruction.strip():
        raise DimensionError(f"{subject.name}: the instruction is empty")
    expected = untuned_prompt(subject, reasoning_of(prompt))
    if [(f.name, f.role, f.choices) for f in prompt.fields] != [
        (f.name, f.role, f.choices) for f in expected.fields
    ]:
        names, wanted = (", ".join(f.name for f in p.fields) for p in (prompt, expected))
        raise DimensionError(
            f"{subject.name}: the prompt's fields ({names}) are not those of what it judges "
            f"({wanted})"
        )
    for number, demo in enumerate(prompt.demos):
        where = f"{subject.name}: demo {number} has"
        if demo.keys() != {field.name for field in prompt.fields}:
            raise DimensionError(f"{where} {', '.join(demo)}; it has exactly the prompt's fields")
        for field in prompt.fields:
            value, choices = demo[field.name], field.choices
            is_text = isinstance(value, str)
            fits = any(type(value) is type(c) and value == c for c in choices or ())
            if not (fits if choices else is_text):
                allowed = choices or "a text"
                raise DimensionError(f"{where} {field.name} {value!r}; allowed: {allowed}")


def are_words(words: Sequence[object]) -> bool:
    """Whether these are two words that a verdict may be."""
    texts = [str(word).casefold() for word in words]
    # The first token tells them apart.
    differ = len({text.split(" ")[0] for text in texts}) == 2
    return differ and all(WORD.match(text) and " or " not in text for text in texts)


def _inputs(inputs: Mapping[str, str]) -> list[Field]:
    return [Field(name=name, description=text, role="input") for name, text in inputs.items()]


def _check_names(name: str, inputs: Mapping[str, str]) -> None:
    """Raise DimensionError where a name is misspelled or there is no input."""
    for word in (name, *inputs):
        if not NAME.match(word):
            raise DimensionError(
                f"{name!r}: {word!r} is no name; use lower-case letters, digits and underscores"
            )
    if not inputs:
        raise DimensionError(f"{name}: names no text to judge from")
