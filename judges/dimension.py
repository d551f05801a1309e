"""The subject of a judge: a dimension of one output, or a comparison of two outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import ClassVar, Literal

from dspy_judges.errors import JudgesError
from judges.prompt import (
    LETTERS,
    NAME,
    Field,
    Prompt,
    Reasoning,
    Value,
    are_words,
    reasoning_of,
    with_questions,
    with_reasoning,
)
from judges.questions import MAX_QUESTIONS, Question, question_problem

# The most ratings of a scale; the scale from 0 to 100 has as many.
MAX_RATINGS = 101

# Names that a text may not have: a judge's own output fields, and attributes of DSPy 3.4's
# Signature and Example.
RESERVED = frozenset(
    {
        *("rating", "verdict", "rationale", "comparison", "preferred", "completed"),
        *("signature", "new_signature", "instructions", "fields", "input_fields", "output_fields"),
        *("config", "model_config", "demos", "lm", "completions", "self"),
    }
)
# Names that a question may not have: also those of the columns or fields that hold the results.
RESERVED_QUESTION = RESERVED | {"failure", "score"}


class DimensionError(JudgesError, ValueError):
    """The definition of a dimension or comparison is wrong, or a prompt does not fit it."""


class UnknownDimensionError(JudgesError, LookupError):
    """The catalogue has no judge with the given name."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quality of one output, with its scale.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        definition: What the quality means.
        inputs: The texts that the judge reads, from each name to a short description, in the order
            in which they are shown. The last one is judged.
        anchors: A text for each rating, in ascending order, that says what earns it; the text may
            be empty. A scale has 2 to 101 ratings.
        instruction: The task, which an optimizer may rewrite.
        source: The publication that the definition is from.
        words: The two words of a verdict, the good one first. The ratings are then 0 and 1.
        questions: Questions that tuning may add; the model answers them in the same reply. The
            untuned judge asks none of them.

    Raises:
        DimensionError: A name, the scale or the words cannot be used.

    Example:
        >>> tone = Dimension(
        ...     name="tone",
        ...     definition="how friendly the reply is",
        ...     inputs={"query": "the customer's question", "reply": "the reply to judge"},
        ...     anchors={1: "rude", 2: "", 3: "neutral", 4: "", 5: "warm"},
        ...     instruction="Judge the tone of the reply.",
        ... )
        >>> judge = Judge.of(tone)
    """

    name: str
    definition: str
    inputs: Mapping[str, str]
    anchors: Mapping[int, str]
    instruction: str
    source: str = ""
    words: tuple[str, str] | None = None
    questions: tuple[Question, ...] = dataclass_field(default=(), compare=False, repr=False)
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
        """The same quality on the scale from `low` to `high`.

        Each anchor keeps its relative place on the scale; an anchor that falls between two ratings
        is left out. Raises DimensionError for a verdict, and for a scale that is too long or empty.
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
                f"{self.name}: a scale has 2 to {MAX_RATINGS} ratings; not from {low} to {high}"
            )
        first, width = self.scale[0], self.scale[-1] - self.scale[0]
        places = {low + (r - first) * (high - low) / width: t for r, t in self.anchors.items()}
        anchors = {rating: places.get(rating, "") for rating in range(low, high + 1)}
        return replace(self, anchors=anchors)

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: it reads the texts and writes a rating or a verdict."""
        answers = self.words[::-1] if self.words else self.scale
        pairs = zip(answers, self.anchors.values(), strict=True)
        meanings = "; ".join(f"{answer} = {text}" for answer, text in pairs if text)
        description = f"{self.definition} ({meanings})" if meanings else self.definition
        name, choices = ("verdict", self.words) if self.words else ("rating", self.scale)
        answer = Field(name=name, description=description, role="output", choices=choices)
        return Prompt(instruction=self.instruction, fields=(*_input_fields(self.inputs), answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A choice between two outputs that were made from the same texts.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        definition: What the choice is about, such as "which response is more helpful".
        inputs: The texts that both outputs share, such as a post or a query, from each name to a
            short description.
        candidate: The word for what is compared, such as "summary"; the two outputs are then the
            texts `summary_a` and `summary_b`.
        instruction: The task, which an optimizer may rewrite.
        source: The publication that the definition is from.
        questions: Questions that tuning may add; the model answers each by A or B in the same
            reply.

    Raises:
        DimensionError: A name cannot be used, or there is no input.
    """

    name: str
    definition: str
    inputs: Mapping[str, str]
    candidate: str
    instruction: str
    source: str = ""
    questions: tuple[Question, ...] = dataclass_field(default=(), compare=False, repr=False)
    fields: tuple[str, str] = dataclass_field(init=False, repr=False)
    texts: tuple[str, ...] = dataclass_field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_names(self.name, {**self.inputs, self.candidate: ""})
        object.__setattr__(self, "fields", (f"{self.candidate}_a", f"{self.candidate}_b"))
        object.__setattr__(self, "texts", (*self.inputs, *self.fields))

    # A comparison has neither ratings nor the two words of a verdict.
    scale: ClassVar[tuple[int, ...]] = ()
    words: ClassVar[None] = None

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: it reads texts and both outputs, and writes A or B."""
        candidate_fields = [
            Field(name=name, description=f"{self.candidate} {letter}", role="input")
            for letter, name in zip("AB", self.fields, strict=True)
        ]
        preferred = Field(
            name="preferred", description=self.definition, role="output", choices=LETTERS
        )
        fields = (*_input_fields(self.inputs), *candidate_fields, preferred)
        return with_reasoning(Prompt(instruction=self.instruction, fields=fields), "brief")


Subject = Dimension | Comparison
Kind = Literal["rating", "verdict", "pairwise"]


def kind_of(subject: Subject) -> Kind:
    """The kind of a subject: "rating", "verdict" (one of two words) or "pairwise"."""
    if isinstance(subject, Comparison):
        return "pairwise"
    return "verdict" if subject.words else "rating"


def untuned_prompt(subject: Subject, reasoning: Reasoning | None = None) -> Prompt:
    """The untuned prompt; by default, only a comparison has reasoning, which is "brief"."""
    prompt = subject.prompt()
    return prompt if reasoning is None else with_reasoning(prompt, reasoning)


def check_prompt(subject: Subject, prompt: Prompt) -> None:
    """Raise DimensionError unless the prompt reads the subject's texts and answers on its scale.

    Before the answer, the prompt may ask questions that `question_problem` allows.
    """
    if reserved := sorted(RESERVED & {field.name for field in prompt.inputs}):
        raise DimensionError(
            f"{subject.name}: a text may not be called {reserved[0]!r}, which a judge or DSPy "
            "uses itself; give it another name and map the column to it"
        )
    if not prompt.instruction.strip():
        raise DimensionError(f"{subject.name}: the instruction is empty")
    if problem := _questions_problem(subject, prompt):
        raise DimensionError(f"{subject.name}: {problem}")
    expected = with_questions(untuned_prompt(subject, reasoning_of(prompt)), prompt.questions)
    fields, expected_fields = (
        [(field.name, field.role, field.choices) for field in each.fields]
        for each in (prompt, expected)
    )
    if fields != expected_fields:
        names = ", ".join(name for name, *_ in fields)
        expected_names = ", ".join(name for name, *_ in expected_fields)
        raise DimensionError(
            f"{subject.name}: the prompt's fields ({names}) are not those of what it judges "
            f"({expected_names})"
        )
    for number, demo in enumerate(prompt.demos):
        if problem := _demo_problem(prompt, demo):
            raise DimensionError(f"{subject.name}: demo {number} has {problem}")


def _questions_problem(subject: Subject, prompt: Prompt) -> str | None:
    if len(prompt.questions) > MAX_QUESTIONS:
        return f"{len(prompt.questions)} questions; a judge asks at most {MAX_QUESTIONS}"
    used_names = {field.name for field in prompt.fields if field not in prompt.questions}
    used_names |= RESERVED_QUESTION
    if clashes := sorted({field.name for field in prompt.questions} & used_names):
        return f"a question may not be called {clashes[0]!r}; that name is taken"
    if len({field.name for field in prompt.fields}) < len(prompt.fields):
        return "two fields of its prompt have one name"
    for field in prompt.questions:
        if problem := question_problem(field):
            return f"the question {field.name[:64]!r} {problem}"
        if (field.choices == LETTERS) != isinstance(subject, Comparison):
            return f"the question {field.name!r}: the answers A and B are for comparisons alone"
    return None


def _demo_problem(prompt: Prompt, demo: Mapping[str, Value]) -> str | None:
    if demo.keys() != {field.name for field in prompt.fields}:
        return f"{', '.join(demo)}; it has exactly the prompt's fields"
    for field in prompt.fields:
        value, choices = demo[field.name], field.choices
        # True equals 1, but is not the choice 1.
        is_choice = any(type(value) is type(choice) and value == choice for choice in field.options)
        if not (is_choice if choices else isinstance(value, str)):
            return f"{field.name} {value!r}; allowed: {choices or 'a text'}"
    return None


def _input_fields(inputs: Mapping[str, str]) -> list[Field]:
    return [Field(name=name, description=text, role="input") for name, text in inputs.items()]


def _check_names(name: str, inputs: Mapping[str, str]) -> None:
    for word in (name, *inputs):
        if not NAME.match(word):
            raise DimensionError(
                f"{name!r}: {word!r} is not a name; use lower-case letters, digits and underscores"
            )
    if not inputs:
        raise DimensionError(f"{name}: has no text to judge")
