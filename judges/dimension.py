"""What is judged: a dimension of one output, or a comparison of two."""

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

# A 0-100 scale has 101 ratings.
MAX_RATINGS = 101

# Names of fields that a judge writes, and of attributes of DSPy 3.4's Signature and Example.
RESERVED = frozenset(
    {
        *("rating", "verdict", "rationale", "comparison", "preferred", "completed"),
        *("signature", "new_signature", "instructions", "fields", "input_fields", "output_fields"),
        *("config", "model_config", "demos", "lm", "completions", "self"),
    }
)
# A question has no name of a table's column, or of a prediction's field, beside the answers either.
RESERVED_QUESTION = RESERVED | {"failure", "score"}


class DimensionError(JudgesError, ValueError):
    """A dimension or comparison is not well defined, or a prompt does not fit it."""


class UnknownDimensionError(JudgesError, LookupError):
    """The catalogue has no judge of that name."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quality of one output, with its scale.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        definition: What the quality means.
        inputs: The texts that are read, by name, in the order shown, each with a short description.
            The last one is judged.
        anchors: From each rating, ascending, to what earns it, which may be empty. There are 2 to
            101 ratings.
        instruction: The task, which an optimizer may rewrite.
        source: Where the definition is from.
        words: The two words of a verdict, the good one first. The ratings are then 0 and 1.
        questions: Questions that tuning may add, each answered in the same reply. The untuned judge
            asks none of them.

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
        """The same quality rated from `low` to `high`.

        Anchors keep their relative places; one that falls between two ratings is left out. Raises
        DimensionError for a verdict, or for a scale that is too long or empty.
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
        places = {low + (r - first) * (high - low) / width: t for r, t in self.anchors.items()}
        anchors = {rating: places.get(rating, "") for rating in range(low, high + 1)}
        return replace(self, anchors=anchors)

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: the texts in, a rating or a verdict out."""
        answers = self.words[::-1] if self.words else self.scale
        pairs = zip(answers, self.anchors.values(), strict=True)
        meanings = "; ".join(f"{answer} = {text}" for answer, text in pairs if text)
        description = f"{self.definition} ({meanings})" if meanings else self.definition
        name, choices = ("verdict", self.words) if self.words else ("rating", self.scale)
        answer = Field(name=name, description=description, role="output", choices=choices)
        return Prompt(instruction=self.instruction, fields=(*_inputs(self.inputs), answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A choice between two outputs for the same texts.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        definition: What the choice is about.
        inputs: The texts that both sides share (a post, a query), each with a short description.
        candidate: The word for what is compared, as in "summary"; the two outputs are then the
            texts `summary_a` and `summary_b`.
        instruction: The task, which an optimizer may rewrite.
        source: Where the definition is from.
        questions: Questions that tuning may add, each answered by A or B in the same reply.

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

    # A choice has no ratings, and no words of a verdict.
    scale: ClassVar[tuple[int, ...]] = ()
    words: ClassVar[None] = None

    def prompt(self) -> Prompt:
        """The prompt of the untuned judge: the texts and both candidates in, A or B out."""
        sides = [
            Field(name=name, description=f"{self.candidate} {letter}", role="input")
            for letter, name in zip("AB", self.fields, strict=True)
        ]
        preferred = Field(
            name="preferred", description=self.definition, role="output", choices=LETTERS
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
    """The untuned prompt; by default without reasoning, and brief for a comparison."""
    prompt = subject.prompt()
    return prompt if reasoning is None else with_reasoning(prompt, reasoning)


def check_prompt(subject: Subject, prompt: Prompt) -> None:
    """Raise DimensionError unless a prompt reads its subject's texts and answers on its scale.

    Before the answer it may ask questions that `question_problem` allows.
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
    forms = [[(f.name, f.role, f.choices) for f in each.fields] for each in (prompt, expected)]
    if forms[0] != forms[1]:
        names, expected_names = (", ".join(name for name, *_ in form) for form in forms)
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
    others = {field.name for field in prompt.fields if field not in prompt.questions}
    others |= RESERVED_QUESTION
    if clashes := sorted({field.name for field in prompt.questions} & others):
        return f"a question may not be called {clashes[0]!r}; that name is taken"
    if len({field.name for field in prompt.fields}) < len(prompt.fields):
        return "two fields of its prompt have one name"
    for field in prompt.questions:
        if problem := question_problem(field):
            return f"the question {field.name[:64]!r} {problem}"
        if (field.choices == LETTERS) != isinstance(subject, Comparison):
            return f"the question {field.name!r}: A or B answers for a comparison, and only there"
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


def _inputs(inputs: Mapping[str, str]) -> list[Field]:
    return [Field(name=name, description=text, role="input") for name, text in inputs.items()]


def _check_names(name: str, inputs: Mapping[str, str]) -> None:
    for word in (name, *inputs):
        if not NAME.match(word):
            raise DimensionError(
                f"{name!r}: {word!r} is not a name; use lower-case letters, digits and underscores"
            )
    if not inputs:
        raise DimensionError(f"{name}: has no text to judge")
