"""The subject of a judge: a quality of one output (Dimension), or a choice of two (Comparison)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import ClassVar, Literal

from dspy_judges.errors import JudgesError
from judges.judgement import Judgement, Preference
from judges.prompt import (
    A_OR_B,
    VALID_NAME,
    Field,
    FieldValue,
    Prompt,
    Reasoning,
    are_verdict_words,
    with_questions,
    with_reasoning,
)
from judges.questions import MAX_QUESTIONS, Question, field_description, question_problem

# A judge answers with a rating, with a verdict (one of two words), or with one of two outputs.
Kind = Literal["rating", "verdict", "pairwise"]
# The most ratings that a scale may have: the number of ratings from 0 to 100.
MAX_RATINGS = 101

# Names that a text may not have: the judge's own answers, and attributes of DSPy 3.4's classes
# Signature and Example.
RESERVED_TEXT_NAMES = {
    *("rating", "verdict", "rationale", "comparison", "preferred", "completed"),
    *("signature", "new_signature", "instructions", "fields", "input_fields", "output_fields"),
    *("config", "model_config", "demos", "lm", "completions", "self"),
}
# Names that a question may not have. The columns `failure` and `score` hold a judge's results.
RESERVED_QUESTION_NAMES = RESERVED_TEXT_NAMES | {"failure", "score"}


class DimensionError(JudgesError, ValueError):
    """A dimension or comparison is defined wrongly, or a prompt does not fit it."""


class UnknownDimensionError(JudgesError, LookupError):
    """The catalogue has no judge with the given name."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quality of one output, with its scale.

    Args:
        name: At most 64 lower-case letters, digits and underscores.
        definition: What the quality means.
        inputs: The name and a short description of each text that the judge reads, in the order in
            which the texts are shown. The last text is judged.
        anchors: The ratings of the scale (2 to 101 of them) in ascending order, each with a text
            that says what earns the rating; the text may be empty.
        instruction: The task that the model is given; an optimizer may rewrite it.
        source: The publication that the definition is from.
        words: For a pass-or-fail judge, the two words of its verdict, the good one first. The
            anchors are then those of 0 (the other word) and 1 (the good word).
        questions: Questions that tuning may add; the model answers them in the same reply. The
            untuned judge asks none of these questions.

    Raises:
        DimensionError: A name, the scale or the words cannot be used.

    Examples:
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
    is_pairwise: ClassVar[bool] = False
    judgement_class: ClassVar[type[Judgement]] = Judgement
    # A dimension rates one output, so there is one order, and no text is one of a pair.
    orders: ClassVar[tuple[str, ...]] = ("ab",)
    fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check_names(self.name, self.inputs)
        if self.words is not None and (self.scale != (0, 1) or not are_verdict_words(self.words)):
            raise DimensionError(
                f"{self.name}: {' and '.join(map(str, self.words))} cannot be a verdict: a verdict "
                "is one of two different words without digits and signs, on the scale 0 and 1"
            )
        has_int_keys = all(isinstance(rating, int) for rating in self.anchors)
        if not (isinstance(self.anchors, Mapping) and has_int_keys):
            problem = "are not a dict with ints: JSON has strings as keys, so convert them by int"
            raise DimensionError(f"{self.name}: the anchors {self.anchors!r:.60} {problem}")
        if len(self.scale) < 2 or list(self.scale) != sorted(self.scale):
            raise DimensionError(
                f"{self.name}: the scale {list(self.scale)} needs two or more ascending ratings"
            )

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self.inputs)

    @property
    def scale(self) -> tuple[int, ...]:
        return tuple(self.anchors)

    @property
    def kind(self) -> Kind:
        return "verdict" if self.words else "rating"

    @property
    def answers(self) -> tuple[FieldValue, ...]:
        """What the judge may answer: a verdict's two words, the good one first, or all ratings."""
        return self.words or self.scale

    def on_scale(self, low: int, high: int) -> "Dimension":
        """Return a copy of the dimension with the scale from `low` to `high`.

        Each anchor keeps its relative position on the scale; an anchor that would lie between two
        ratings is left out. Raises DimensionError for a verdict, and for a scale that is too long
        or empty.
        """
        if (low, high) == (self.scale[0], self.scale[-1]):
            return self
        if self.words:
            raise DimensionError(
                f"{self.name}: the answer is {' or '.join(self.words)}, not a rating from {low} to "
                f"{high}; say which ratings are good, as in --values {low}=0,{high}=1"
            )
        if not 0 < high - low < MAX_RATINGS:
            problem = f"{low} to {high} is not a scale of 2 to {MAX_RATINGS} ratings"
            raise DimensionError(f"{self.name}: {problem}")
        lowest_rating, rating_step = self.scale[0], (high - low) / (self.scale[-1] - self.scale[0])
        anchor_positions = [low + (rating - lowest_rating) * rating_step for rating in self.anchors]
        text_by_position = dict(zip(anchor_positions, self.anchors.values(), strict=True))
        anchors = {rating: text_by_position.get(rating, "") for rating in range(low, high + 1)}
        return replace(self, anchors=anchors)

    def prompt(self, reasoning: Reasoning | None = None) -> Prompt:
        """Return the prompt of the untuned judge; its reasoning is "none" by default."""
        answers_ascending = self.words[::-1] if self.words else self.scale
        anchors = zip(answers_ascending, self.anchors.values(), strict=True)
        description = field_description(self.definition, anchors)
        answer = Field(name=self.kind, description=description, role="output", choices=self.answers)
        return _make_prompt(self.instruction, self.inputs, answer, reasoning or "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A choice between two outputs that were made from the same texts.

    Args:
        name: At most 64 lower-case letters, digits and underscores.
        definition: What the choice is about, such as "which response is more helpful".
        inputs: The name and a short description of each text that both outputs were made from, such
            as a post or a query.
        candidate: The word for an output, such as "summary"; the texts of the two outputs are then
            called `summary_a` and `summary_b`.
        instruction: The task that the model is given; an optimizer may rewrite it.
        source: The publication that the definition is from.
        questions: Questions that tuning may add; the model answers each by A or B in the same
            reply.

    Raises:
        DimensionError: A name cannot be used, or `inputs` is empty.
    """

    name: str
    definition: str
    inputs: Mapping[str, str]
    candidate: str
    instruction: str
    source: str = ""
    questions: tuple[Question, ...] = dataclass_field(default=(), compare=False, repr=False)
    kind: ClassVar[Kind] = "pairwise"
    is_pairwise: ClassVar[bool] = True
    judgement_class: ClassVar[type[Preference]] = Preference
    # The two orders of a pair: output A or output B is shown first.
    orders: ClassVar[tuple[str, ...]] = ("ab", "ba")
    answers: ClassVar[tuple[FieldValue, ...]] = A_OR_B
    # Comparing two outputs takes neither ratings nor words such as pass and fail.
    scale: ClassVar[tuple[int, ...]] = ()
    words: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check_names(self.name, {**self.inputs, self.candidate: ""})

    @property
    def fields(self) -> tuple[str, str]:
        """The names of the two outputs' texts."""
        return f"{self.candidate}_a", f"{self.candidate}_b"

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.inputs, *self.fields)

    def prompt(self, reasoning: Reasoning | None = None) -> Prompt:
        """Return the prompt of the untuned judge; its reasoning is "brief" by default."""
        name_a, name_b = self.fields
        inputs = {**self.inputs, name_a: f"{self.candidate} A", name_b: f"{self.candidate} B"}
        description, choices = self.definition, self.answers
        answer = Field(name="preferred", description=description, role="output", choices=choices)
        return _make_prompt(self.instruction, inputs, answer, reasoning or "brief")


Subject = Dimension | Comparison


def check_prompt(subject: Subject, prompt: Prompt) -> None:
    """Raise DimensionError if the prompt does not fit the subject's texts and possible answers."""
    for problem in _prompt_problems(subject, prompt):
        raise DimensionError(f"{subject.name}: {problem}")


def _prompt_problems(subject: Subject, prompt: Prompt) -> Iterator[str]:
    for field in prompt.input_fields:
        if field.name in RESERVED_TEXT_NAMES:
            advice = "a judge or DSPy uses this name; map the text's column to another name"
            yield f"a text may not be called {field.name!r}: {advice}"
    if not prompt.instruction.strip():
        yield "the instruction is empty"
    field_names = [field.name for field in prompt.fields]
    yield from _question_problems(subject, prompt.question_fields, field_names)
    untuned_prompt = with_questions(subject.prompt(prompt.reasoning), prompt.question_fields)
    if _field_outlines(prompt) != _field_outlines(untuned_prompt):
        needed_names = ", ".join(field.name for field in untuned_prompt.fields)
        yield f"the prompt has the fields {', '.join(field_names)}; it needs {needed_names}"
    for demo_number, demo in enumerate(prompt.demos):
        for problem in _demo_problems(prompt, demo):
            yield f"demo {demo_number} has {problem}"


def _question_problems(
    subject: Subject, questions: Sequence[Field], field_names: Sequence[str]
) -> Iterator[str]:
    if len(questions) > MAX_QUESTIONS:
        yield f"{len(questions)} questions; a judge asks at most {MAX_QUESTIONS}"
    for question in questions:
        if question.name in RESERVED_QUESTION_NAMES or field_names.count(question.name) > 1:
            yield f"a question may not be called {question.name!r}; that name is taken"
        if problem := question_problem(question):
            yield f"the question {question.name[:64]!r} {problem}"
        if question.is_pairwise != subject.is_pairwise:
            yield f"the question {question.name!r}: the answers A and B are for comparisons alone"


def _field_outlines(prompt: Prompt) -> list[tuple[object, ...]]:
    return [(field.name, field.role, field.choices) for field in prompt.fields]


def _demo_problems(prompt: Prompt, demo: Mapping[str, FieldValue]) -> Iterator[str]:
    if demo.keys() != {field.name for field in prompt.fields}:
        yield f"the fields {', '.join(demo)}, which are not the fields of the prompt"
    for field in prompt.fields:
        value = demo[field.name]
        # Types are compared as well: True is equal to 1, but is not the choice 1.
        typed_choices = [(type(choice), choice) for choice in field.allowed_values]
        is_choice = (type(value), value) in typed_choices
        if not (is_choice if field.choices else isinstance(value, str)):
            yield f"{field.name} {value!r}; allowed: {field.choices or 'a text'}"


def _make_prompt(
    instruction: str, inputs: Mapping[str, str], answer_field: Field, reasoning: Reasoning
) -> Prompt:
    input_fields = [Field(name=name, description=inputs[name], role="input") for name in inputs]
    prompt = Prompt(instruction=instruction, fields=(*input_fields, answer_field))
    return with_reasoning(prompt, reasoning)


def _check_names(name: str, inputs: Mapping[str, str]) -> None:
    if not inputs:
        raise DimensionError(f"{name}: has no text to judge")
    if not isinstance(inputs, Mapping):
        raise DimensionError(f"{name}: inputs is {inputs!r}; write a dict that describes each text")
    for checked_name in (name, *inputs):
        if not VALID_NAME.match(checked_name):
            advice = "use lower-case letters, digits and underscores"
            raise DimensionError(f"{name!r}: {checked_name!r} is not a name; {advice}")
