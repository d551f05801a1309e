"""A judge in DSPy: three modules that send and read the same as a frozen judge."""

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

from judges.decisions import decision_state, question
from judges.dimension import Subject
from judges.judgement import Judgement, NoScoreError
from judges.prompt import NOT_GIVEN, Field, Prompt, Value, neutralise, restated, words_of
from judges.protocol import FRESH_ASKS, Message
from judges.questions import AnswerWeights, QuestionError, number_of
from judges.reading import read

Values = Mapping[str, object]


class Scoring(Parameter):
    """How the answers of a program that asks questions make its score.

    DSPy's `save` and `load` keep the weights and the threshold, which are those of a `Judge`; its
    optimizers leave them alone. `choices` are the questions' fields, then the answer's.
    """

    def __init__(
        self, choices: Sequence[Field], weights: AnswerWeights | None = None, threshold: float = 0.5
    ) -> None:
        self.choices, self.weights, self.threshold = choices, weights, threshold

    def scored(self, prediction: dspy.Prediction) -> dspy.Prediction:
        """A copy of the prediction with its `score`; the original is in DSPy's trace."""
        answers = {each.name: _number(prediction[each.name], each) for each in self.choices}
        judgement = Judgement(score=answers[self.choices[-1].name], answers=answers)
        judgement = judgement.rescored(self.choices, self.weights, self.threshold)
        scored = prediction.copy(score=judgement.score)
        scored._completions = prediction.completions
        return scored

    def reset(self) -> None:
        """Keep the weights, because no optimizer of DSPy would learn others."""

    def dump_state(self, json_mode: bool = True) -> object:
        return msgspec.to_builtins({"weights": self.weights, "threshold": self.threshold})

    def load_state(self, state: Values) -> None:
        weights = msgspec.convert(state["weights"], AnswerWeights | None)
        if weights and (problem := weights.problem(self.choices)):
            raise QuestionError(f"the saved program has {problem}")
        self.weights, self.threshold = weights, msgspec.convert(state["threshold"], float)


class ScoredProgram(dspy.Module):
    """A program of DSPy whose predictions have a `score`, which is made of all their answers."""

    def __init__(self, program: dspy.Module, scoring: Scoring) -> None:
        super().__init__()
        self.program, self.scoring = program, scoring

    def forward(self, **inputs: object) -> dspy.Prediction:
        return self.scoring.scored(self.program(**inputs))

    async def aforward(self, **inputs: object) -> dspy.Prediction:
        return self.scoring.scored(await self.program.acall(**inputs))


class JudgeModule(dspy.Module):
    """A module with one predictor, `judge`, whose adapter is `JudgeAdapter`.

    An LM that is asked typed questions gets those that the judge asks a decision model.
    `prompt` replaces the subject's own. `own_lm` makes the LM that is asked where neither DSPy nor
    the predictor has one; `save` does not write it. `weights` and `threshold` are a judge's.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        prompt: Prompt | None = None,
        own_lm: Callable[[], dspy.LM] | None = None,
        weights: AnswerWeights | None = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__()
        prompt = prompt or subject.prompt()
        self.subject, self.own_lm = subject, own_lm
        # The judge whose program it is, if any.
        self.source: object = None
        self.judge = dspy.Predict(signature_of(prompt))
        # The rating or the margin alone has neither weights nor a threshold.
        scoring = Scoring(prompt.choices, weights=weights, threshold=threshold)
        self.scoring = scoring if prompt.questions or words_of(prompt.answer.choices) else None

    def forward(self, **texts: object) -> dspy.Prediction:
        with self._settings():
            return self._scored(self.judge(**self._arguments(texts)))

    async def aforward(self, **texts: object) -> dspy.Prediction:
        with self._settings():
            return self._scored(await self.judge.acall(**self._arguments(texts)))

    def load_state(self, state: Values, **options: object) -> None:
        """Load a saved state; one without a threshold leaves the module's own."""
        own = {"scoring": self.scoring.dump_state()} if self.scoring else {}
        super().load_state({**own, **state}, **options)

    def _arguments(self, texts: Values) -> Values:
        """The predictor's arguments, with typed questions if its LM is asked those."""
        lm = texts.get("lm") or self.judge.lm or dspy.settings.lm
        if not getattr(lm, "supports_decision_requests", False):
            return texts
        demos = cast(Sequence[Values], texts.get("demos", self.judge.demos))
        prompt = prompt_of(self.judge.signature, demos)
        return {
            **texts,
            **{name: neutralise(text) for name, text in _texts(prompt, texts).items()},
            "signature": _decision_signature(prompt.instruction, prompt.fields),
            "demos": decision_state(prompt).get("demos", []),
        }

    def _scored(self, prediction: dspy.Prediction) -> dspy.Prediction:
        choices = prompt_of(self.judge.signature).choices
        scored = (self.scoring or Scoring(choices)).scored(prediction)
        for field in choices:
            scored[field.name] = _likeliest(scored[field.name], field)
        return scored

    @contextmanager
    def _settings(self) -> Iterator[None]:
        lm = dspy.settings.lm
        if self.own_lm is not None and lm is None and self.judge.lm is None:
            lm = self.own_lm()
        with dspy.context(adapter=JudgeAdapter([self.subject.name]), lm=lm):
            yield


class RatingJudge(JudgeModule):
    """A DSPy module that rates one output: `module(document=..., summary=...).rating`."""


class VerdictJudge(JudgeModule):
    """A DSPy module that gives one of two words: `module(input=..., output=...).verdict`."""


class PairwiseJudge(JudgeModule):
    """A DSPy module that prefers "A" or "B": `module(post=..., summary_a=...).preferred`."""


class JudgeAdapter(dspy.ChatAdapter):
    """Renders prompts and reads replies as a judge does, and asks again as a judge does.

    `names` are the names of the dimension, which count as labels of the answer. After `n_unread`
    replies that could not be read, the messages say so as often.
    """

    def __init__(self, names: Collection[str] = (), n_unread: int = 0) -> None:
        super().__init__(use_json_adapter_fallback=n_unread < FRESH_ASKS)
        self.names, self.n_unread = names, n_unread

    def _make_json_adapter_fallback(self) -> "JudgeAdapter":
        """The adapter that DSPy asks with after a reply that could not be read."""
        return JudgeAdapter(self.names, self.n_unread + 1)

    def format(
        self, signature: SignatureMeta, demos: Sequence[Values], inputs: Values
    ) -> list[Message]:
        prompt = prompt_of(signature, demos)
        messages = prompt.messages(_texts(prompt, inputs))
        for _ in range(self.n_unread):
            messages = restated(prompt, messages)
        return messages

    def parse(self, signature: SignatureMeta, completion: str) -> dict[str, Value]:
        try:
            outputs = prompt_of(signature).outputs
            return dict(read(completion, outputs, names=self.names).values)
        except NoScoreError as error:
            name = type(self).__name__
            raise AdapterParseError(name, signature, completion, str(error)) from error


def scoring_of(program: dspy.Module) -> Scoring | None:
    """How a program makes its score of several answers; None if it asks no questions."""
    return next((each for each in program.parameters() if isinstance(each, Scoring)), None)


def prompt_of(signature: SignatureMeta, demos: Sequence[Values] = ()) -> Prompt:
    """The prompt of a signature and the demos of its predictor.

    A demo without a free text, such as a labelled example without a rationale, shows it as not
    given. A demo that leaves a question unanswered is left out. Raises ValueError for any other
    missing or impossible value.
    """
    fields = _fields(signature)
    prompt = Prompt(instruction=signature.instructions, fields=fields)
    questions = [field.name for field in prompt.questions]
    return replace(
        prompt,
        demos=tuple(
            {field.name: _demo_value(number, field, demo.get(field.name)) for field in fields}
            for number, demo in enumerate(demos)
            if all(demo.get(name) is not None for name in questions)
        ),
    )


def signature_of(prompt: Prompt) -> SignatureMeta:
    """The signature of a prompt, with a Literal of its values for every choice."""
    kinds = {"input": dspy.InputField, "output": dspy.OutputField}
    fields = {
        # DSPy shows ge and le to the model, but accepts a 7 all the same.
        field.name: (
            Literal[field.choices] if field.choices else str,
            kinds[field.role](desc=field.description),
        )
        for field in prompt.fields
    }
    return _signature(fields, prompt.instruction)


@lru_cache(maxsize=256)
def _decision_signature(instruction: str, fields: tuple[Field, ...]) -> SignatureMeta:
    """The signature by which DSPy asks the questions of a decision model, in the same words."""
    typed_fields: dict[str, tuple[object, object]] = {}
    for field in fields:
        if field.role == "input":
            typed_fields[field.name] = str, dspy.InputField(desc=neutralise(field.description))
        elif field.choices:
            entry = question(field)
            kind, criteria = entry["type"], entry["criteria"]
            if kind == "score":
                annotation = Score[tuple(criteria)]
            elif kind == "noul":
                annotation = Noul[(True, criteria["true"]), (False, criteria["false"])]
            else:
                annotation = Choice[tuple(criteria.items())]
            typed_fields[field.name] = annotation, dspy.OutputField(desc=entry["instructions"])
    return _signature(typed_fields, neutralise(instruction))


def _signature(fields: Mapping[str, tuple[object, object]], instruction: str) -> SignatureMeta:
    with warnings.catch_warnings():
        # A text called "schema" or "copy" hides a method of pydantic that nothing here uses.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
        return dspy.Signature(fields, instruction)


def demos_of(prompt: Prompt) -> list[dspy.Example]:
    """The demos of a prompt as DSPy's examples."""
    names = [field.name for field in prompt.inputs]
    return [dspy.Example(**demo).with_inputs(*names) for demo in prompt.demos]


@lru_cache(maxsize=256)
def _fields(signature: SignatureMeta) -> tuple[Field, ...]:
    """The fields of a signature; cached by class, since DSPy makes a new class for new fields."""
    fields = []
    for name, info in signature.fields.items():
        extra = info.json_schema_extra or {}
        description = str(extra.get("desc") or name)
        if description == f"${{{name}}}":  # DSPy's own default
            description = name
        choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else None
        role: Literal["input", "output"] = "input" if name in signature.input_fields else "output"
        fields.append(Field(name=name, description=description, role=role, choices=choices))
    return tuple(fields)


def _texts(prompt: Prompt, inputs: Values) -> dict[str, str]:
    """The texts that the prompt reads; ValueError for one that is missing."""
    # DSPy would render a missing text, None, as the word "None".
    missing = [field.name for field in prompt.inputs if inputs.get(field.name) is None]
    if missing:
        raise ValueError(f"the judge reads {', '.join(missing)}, which is missing")
    return {field.name: str(inputs[field.name]) for field in prompt.inputs}


def probabilities(value: object, choices: Sequence[Value]) -> dict[Value, float] | None:
    """The probability of each choice, in their order, by DSPy's decision; None for other values."""
    if isinstance(value, Noul | Score | Choice):
        value = value.model_dump(mode="json")  # as in a saved program
    if not isinstance(value, Mapping):
        return None
    if "probability" in value:
        ps = [value["probability"], 1 - value["probability"]]
    else:
        keys = range(len(choices)) if "level" in value else choices
        ps = [value["probabilities"][str(key)] for key in keys]
    return {choice: p / math.fsum(ps) for choice, p in zip(choices, ps, strict=True)}


def _likeliest(value: object, field: Field) -> object:
    """The likeliest choice of a decision; any other value as it is."""
    by_choice = probabilities(value, field.options)
    return max(by_choice, key=by_choice.__getitem__) if by_choice else value


def _number(value: object, field: Field) -> float:
    """The number of an answer, or its expectation; a user's program may rate in fractions."""
    choices = field.options
    if by_choice := probabilities(value, choices):
        return math.fsum(p * number_of(each, choices) for each, p in by_choice.items())
    if isinstance(value, str | bool):
        return number_of(value, choices)
    return float(cast(float, value))


def _demo_value(number: int, field: Field, value: object) -> Value:
    """A demo's value as text, or as the choice that it equals; ValueError if it is neither."""
    if not field.choices and (value is not None or field.role == "output"):
        return NOT_GIVEN if value is None else str(value)
    value = _likeliest(value, field)
    # 4.0 and "4" of a label file are the rating 4; a mean of 3.67 is no rating.
    for choice in field.options:
        if value == choice or str(value).strip() == str(choice):
            return choice
    allowed = f"one of {', '.join(map(str, field.choices))}" if field.choices else "a text"
    raise ValueError(f"demo {number} has {field.name} {value!r}; it must be {allowed}")
