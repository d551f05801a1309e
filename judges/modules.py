"""DSPy modules that send the same messages as a `Judge`, and read replies in the same way."""

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Literal, cast, get_args, get_origin

import dspy
import msgspec
from dspy import SignatureMeta
from dspy.experimental import Choice, Noul, Score
from dspy.predict.parameter import Parameter
from dspy.utils.exceptions import AdapterParseError

from judges.decisions import TypedQuestion, decision_state, typed_question
from judges.dimension import Subject
from judges.judgement import Judgement, NoScoreError
from judges.prompt import NOT_GIVEN_TEXT, Field, FieldValue, Prompt, break_markup, restate_format
from judges.protocol import MAX_REQUEST_REPEATS, Message
from judges.questions import AnswerWeights, QuestionError
from judges.reading import read_reply

# The values of a DSPy module's fields, by the fields' names.
ValuesByName = Mapping[str, object]


class Scoring(Parameter):
    """Computes the score of a DSPy program from the answers in its prediction, as a `Judge` does.

    DSPy's `save` and `load` keep weights and threshold, and DSPy's optimizers do not change them.
    The fields are those of the questions, then the field of the judge's answer.
    """

    def __init__(
        self, fields: Sequence[Field], weights: AnswerWeights | None = None, threshold: float = 0.5
    ) -> None:
        self.choice_fields, self.weights, self.threshold = fields, weights, threshold

    def with_score(self, prediction: dspy.Prediction) -> dspy.Prediction:
        """Return a copy of the prediction with a `score`; DSPy's trace keeps the original."""
        fields = self.choice_fields
        answers = {field.name: _answer_number(prediction[field.name], field) for field in fields}
        judgement = Judgement(score=answers[fields[-1].name], answers=answers)
        judgement = judgement.rescored(fields, self.weights, self.threshold)
        scored_prediction = prediction.copy(score=judgement.score)
        scored_prediction._completions = prediction.completions
        return scored_prediction

    def reset(self) -> None:
        """Do nothing, since DSPy's optimizers could not learn the weights again after a reset."""

    def dump_state(self, json_mode: bool = True) -> object:
        return msgspec.to_builtins({"weights": self.weights, "threshold": self.threshold})

    def load_state(self, state: ValuesByName) -> None:
        weights = msgspec.convert(state["weights"], AnswerWeights | None)
        if weights and (problem := weights.problem(self.choice_fields)):
            raise QuestionError(f"the saved program has {problem}")
        self.weights, self.threshold = weights, msgspec.convert(state["threshold"], float)


class ScoredProgram(dspy.Module):
    """A DSPy program whose predictions get a `score`, computed from all their answers."""

    def __init__(self, program: dspy.Module, scoring: Scoring) -> None:
        super().__init__()
        self.program, self.scoring = program, scoring

    def forward(self, **inputs: object) -> dspy.Prediction:
        return self.scoring.with_score(self.program(**inputs))

    async def aforward(self, **inputs: object) -> dspy.Prediction:
        return self.scoring.with_score(await self.program.acall(**inputs))


class JudgeModule(dspy.Module):
    """The base class of the three judge modules: it has one predictor, `judge`.

    The predictor runs with a `JudgeAdapter`. An LM that answers typed questions with probabilities,
    such as `dspy.experimental.TypeSafe`, gets the same typed questions as from a `Judge`.

    Args:
        subject: The dimension or comparison to judge.
        prompt: The prompt; by default the untuned prompt of the subject.
        default_lm: A function that makes the LM to ask if neither DSPy nor the predictor has an
            LM; `save` does not store the function.
        weights: How much each answer counts in the score, as for a `Judge`.
        threshold: The lowest score of a verdict that passes, as for a `Judge`.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        prompt: Prompt | None = None,
        default_lm: Callable[[], dspy.LM] | None = None,
        weights: AnswerWeights | None = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__()
        prompt = prompt or subject.prompt()
        self.subject, self.default_lm = subject, default_lm
        self.source_judge: object = None  # the judge from which the module was made, if any
        self.judge = dspy.Predict(signature_of(prompt))
        self.judge.demos = demos_of(prompt)
        self.scoring = Scoring(prompt.choices, weights=weights, threshold=threshold)

    def forward(self, **texts: object) -> dspy.Prediction:
        with self._dspy_context():
            return self._with_score(self.judge(**self._predictor_arguments(texts)))

    async def aforward(self, **texts: object) -> dspy.Prediction:
        with self._dspy_context():
            return self._with_score(await self.judge.acall(**self._predictor_arguments(texts)))

    def _predictor_arguments(self, texts: ValuesByName) -> ValuesByName:
        """Return the predictor's arguments, with typed questions if its LM takes them."""
        lm = texts.get("lm") or self.judge.lm or dspy.settings.lm
        if not getattr(lm, "supports_decision_requests", False):
            return texts
        demos = cast(Sequence[ValuesByName], texts.get("demos", self.judge.demos))
        prompt = prompt_of(self.judge.signature, demos)
        input_texts = _input_texts(prompt, texts)
        return {
            **texts,
            **{name: break_markup(text) for name, text in input_texts.items()},
            "signature": _decision_signature(prompt.instruction, prompt.fields),
            "demos": decision_state(prompt).get("demos", []),
        }

    def _with_score(self, prediction: dspy.Prediction) -> dspy.Prediction:
        scored_prediction = self.scoring.with_score(prediction)
        for field in self.scoring.choice_fields:
            scored_prediction[field.name] = _likeliest_choice(scored_prediction[field.name], field)
        return scored_prediction

    @contextmanager
    def _dspy_context(self) -> Iterator[None]:
        lm = dspy.settings.lm
        if self.default_lm is not None and lm is None and self.judge.lm is None:
            lm = self.default_lm()
        with dspy.context(adapter=JudgeAdapter([self.subject.name]), lm=lm):
            yield


class RatingJudge(JudgeModule):
    """A DSPy module that rates one output: `module(document=..., summary=...).rating`."""


class VerdictJudge(JudgeModule):
    """A DSPy module that answers by one of two words: `module(input=..., output=...).verdict`."""


class PairwiseJudge(JudgeModule):
    """A DSPy module that prefers output "A" or "B": `module(post=..., summary_a=...).preferred`."""


class JudgeAdapter(dspy.ChatAdapter):
    """A DSPy adapter that renders prompts, reads replies and repeats requests as a judge does.

    `n_unreadable` is the number of earlier replies that could not be read. The messages state the
    format of a reply once more for each unreadable reply.
    """

    def __init__(self, dimension_names: Collection[str] = (), n_unreadable: int = 0) -> None:
        super().__init__(use_json_adapter_fallback=n_unreadable < MAX_REQUEST_REPEATS)
        self.dimension_names, self.n_unreadable = dimension_names, n_unreadable

    def _make_json_adapter_fallback(self) -> "JudgeAdapter":
        """Return the adapter that DSPy uses after a reply that could not be read."""
        return JudgeAdapter(self.dimension_names, self.n_unreadable + 1)

    def format(
        self, signature: SignatureMeta, demos: Sequence[ValuesByName], inputs: ValuesByName
    ) -> list[Message]:
        prompt = prompt_of(signature, demos)
        messages = prompt.messages(_input_texts(prompt, inputs))
        for _ in range(self.n_unreadable):
            messages = restate_format(prompt, messages)
        return messages

    def parse(self, signature: SignatureMeta, completion: str) -> dict[str, FieldValue]:
        try:
            prompt = prompt_of(signature)
            return read_reply(completion, prompt, dimension_names=self.dimension_names).values
        except NoScoreError as error:
            raise AdapterParseError("JudgeAdapter", signature, completion, str(error)) from error


def scoring_of(program: dspy.Module) -> Scoring | None:
    """Return the `Scoring` among a program's parameters; None if the program has none."""
    return next((item for item in program.parameters() if isinstance(item, Scoring)), None)


def prompt_of(signature: SignatureMeta, demos: Sequence[ValuesByName] = ()) -> Prompt:
    """Return the prompt with a signature's fields and instruction, and a predictor's demos.

    A demo without an answer to one of the questions is left out. Raises ValueError if a demo lacks
    a text or the judge's answer, or has an answer that is not one of the choices.
    """
    prompt = Prompt(instruction=signature.instructions, fields=_signature_fields(signature))
    full_demos = tuple(
        {field.name: _demo_value(demo_number, field, demo) for field in prompt.fields}
        for demo_number, demo in enumerate(demos)
        if all(demo.get(field.name) is not None for field in prompt.question_fields)
    )
    return replace(prompt, demos=full_demos)


def signature_of(prompt: Prompt) -> SignatureMeta:
    """Return the DSPy signature of a prompt; the type of a field with choices is a Literal."""
    typed_fields: dict[str, tuple[object, object]] = {}
    for field in prompt.fields:
        # Ratings are a Literal and not an int, since DSPy does not check the bounds of an int.
        field_type = Literal[field.choices] if field.choices else str
        make_dspy_field = dspy.InputField if field.role == "input" else dspy.OutputField
        typed_fields[field.name] = field_type, make_dspy_field(desc=field.description)
    return _signature(typed_fields, prompt.instruction)


@lru_cache(maxsize=256)
def _decision_signature(instruction: str, fields: tuple[Field, ...]) -> SignatureMeta:
    """Return the signature with which DSPy asks typed questions in the same words as a judge."""
    typed_fields: dict[str, tuple[object, object]] = {}
    for field in fields:
        if field.role == "input":
            typed_fields[field.name] = str, dspy.InputField(desc=break_markup(field.description))
        elif field.choices:
            question = typed_question(field)
            dspy_field = dspy.OutputField(desc=question.instructions)
            typed_fields[field.name] = _decision_type(question), dspy_field
    return _signature(typed_fields, break_markup(instruction))


def _decision_type(question: TypedQuestion) -> object:
    criteria = question.criteria or {}
    if isinstance(criteria, list):
        return Score[tuple(criteria)]
    if question.type == "noul":
        return Noul[tuple(zip((True, False), criteria.values(), strict=True))]
    return Choice[tuple(criteria.items())]


def _signature(fields: Mapping[str, tuple[object, object]], instruction: str) -> SignatureMeta:
    with warnings.catch_warnings():
        # A text called "schema" or "copy" hides a method of pydantic that nothing here uses.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
        return dspy.Signature(fields, instruction)


def demos_of(prompt: Prompt) -> list[dspy.Example]:
    input_names = [field.name for field in prompt.input_fields]
    return [dspy.Example(**demo).with_inputs(*input_names) for demo in prompt.demos]


@lru_cache(maxsize=256)
def _signature_fields(signature: SignatureMeta) -> tuple[Field, ...]:
    """Return a signature's fields; the cache is safe, since DSPy never edits a signature."""
    fields = []
    for name, field_info in signature.fields.items():
        schema_extra = field_info.json_schema_extra or {}
        description = str(schema_extra.get("desc") or name)
        if description == f"${{{name}}}":  # DSPy's default for a field without a description
            description = name
        annotation = field_info.annotation
        choices = get_args(annotation) if get_origin(annotation) is Literal else None
        role: Literal["input", "output"] = "input" if name in signature.input_fields else "output"
        fields.append(Field(name=name, description=description, role=role, choices=choices))
    return tuple(fields)


def _input_texts(prompt: Prompt, inputs: ValuesByName) -> dict[str, str]:
    """Return the texts that the prompt reads; raises ValueError if a text is missing."""
    # DSPy would render a missing text, None, as the word "None".
    text_names = [field.name for field in prompt.input_fields]
    if missing_names := [name for name in text_names if inputs.get(name) is None]:
        raise ValueError(f"missing texts that the judge reads: {', '.join(missing_names)}")
    return {name: str(inputs[name]) for name in text_names}


def choice_probabilities(value: object, choices: Sequence[FieldValue]) -> dict[FieldValue, float]:
    """Return the probability of each choice in a typed answer of DSPy; {} for any other value."""
    if isinstance(value, Noul | Score | Choice):
        value = value.model_dump(mode="json")  # as in a saved program
    if not isinstance(value, Mapping):
        return {}
    if "probability" in value:
        probabilities = [value["probability"], 1 - value["probability"]]
    else:
        option_keys = range(len(choices)) if "level" in value else choices
        probabilities = [value["probabilities"][str(option)] for option in option_keys]
    probability_sum = math.fsum(probabilities)
    return {choice: p / probability_sum for choice, p in zip(choices, probabilities, strict=True)}


def _likeliest_choice(value: object, field: Field) -> object:
    """Return the most likely choice of a typed answer; any other value is returned unchanged."""
    distribution = choice_probabilities(value, field.allowed_values)
    return max(distribution, key=distribution.__getitem__) if distribution else value


def _answer_number(value: object, field: Field) -> float:
    """Return an answer as a number, which is an expectation if the answer has probabilities."""
    number_by_choice = field.number_by_choice
    if distribution := choice_probabilities(value, field.allowed_values):
        return math.fsum(p * number_by_choice[choice] for choice, p in distribution.items())
    if isinstance(value, str | bool):
        return number_by_choice[value]
    return float(cast(float, value))


def _demo_value(demo_number: int, field: Field, demo: ValuesByName) -> FieldValue:
    """Return a field's value in a demo; raises ValueError if it is missing or is no choice."""
    value = demo.get(field.name)
    if not field.choices and value is not None:
        return str(value)
    if not field.choices and field.role == "output":
        return NOT_GIVEN_TEXT
    value = _likeliest_choice(value, field)
    # In a label file, 4.0 and "4" mean the rating 4; a mean such as 3.67 is refused.
    for choice in field.allowed_values:
        if value == choice or str(value).strip() == str(choice):
            return choice
    allowed_text = f"one of {', '.join(map(str, field.choices))}" if field.choices else "a text"
    raise ValueError(f"demo {demo_number} has {field.name} {value!r}; it must be {allowed_text}")
