"""A judge in DSPy: its two modules, and the same prompt and strict parser as a frozen judge's."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError

from judges.client.protocol import Message
from judges.dimension import Comparison, Dimension
from judges.judgement import NoScoreError
from judges.prompt import NOT_GIVEN, Field, Prompt, Value
from judges.reading import read


class _Judge(dspy.Module):  # type: ignore[misc]
    """One predictor, `judge`, that is asked and read by `JudgeAdapter`."""

    judge: dspy.Predict
    names: tuple[str, ...] = ()

    def forward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter(names=self.names)):
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with dspy.context(adapter=JudgeAdapter(names=self.names)):
            return await self.judge.acall(**texts)


class RatingJudge(_Judge):
    """Rates one output: `judge(document=..., summary=...).rating`.

    `prompt` replaces the dimension's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(self, dimension: Dimension, *, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.dimension = dimension
        self.names = (dimension.name,)
        self.judge = dspy.Predict(signature_of(prompt or dimension.prompt()))


class PairwiseJudge(_Judge):
    """Prefers one of two outputs: `judge(post=..., summary_a=..., summary_b=...).preferred`.

    `prompt` replaces the comparison's own, as for a tuned judge (its demos are the predictor's).
    """

    def __init__(self, comparison: Comparison, *, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.comparison = comparison
        self.judge = dspy.Predict(signature_of(prompt or comparison.prompt()))


class JudgeAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """Renders safely, parses strictly, and never asks again in another format.

    `names` are what the dimension is called, where that is known.
    """

    def __init__(
        self, callbacks: list[BaseCallback] | None = None, *, names: Collection[str] = ()
    ) -> None:
        super().__init__(callbacks=callbacks, use_json_adapter_fallback=False)
        self.names = names

    def format(
        self,
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[Message]:
        prompt = prompt_of(signature, demos)
        # None, which DSPy would render as the word "None", is a missing text.
        missing = [field.name for field in prompt.inputs if inputs.get(field.name) is None]
        if missing:
            raise ValueError(f"the judge reads {', '.join(missing)}; not given")
        texts = {field.name: str(inputs[field.name]) for field in prompt.inputs}
        return prompt.messages(texts)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        try:
            outputs = prompt_of(signature).outputs
            return dict(read(completion, outputs, names=self.names).values)
        except NoScoreError as error:
            raise AdapterParseError(
                adapter_name="JudgeAdapter",
                signature=signature,
                lm_response=completion,
                message=str(error),
            ) from error


def prompt_of(signature: type[dspy.Signature], demos: Sequence[Mapping[str, Any]] = ()) -> Prompt:
    """Read a judge's prompt off its signature and the demos of its predictor.

    A demo needs every text read and every choice made; free text that it lacks, as labelled
    examples lack a rationale, is shown as not given. Other keys (`augmented`, labels) are ignored.
    """
    fields = _fields(signature)  # type: ignore[arg-type]
    return Prompt(
        instruction=signature.instructions,
        fields=fields,
        demos=tuple(_demo(number, demo, fields) for number, demo in enumerate(demos)),
    )


def signature_of(prompt: Prompt) -> type[dspy.Signature]:
    """The inverse: every input is text, every choice exactly one of its values."""
    kinds = {"input": dspy.InputField, "output": dspy.OutputField}
    fields = {
        # Literal, because DSPy shows ge/le to the model but accepts a 7.
        field.name: (
            Literal[field.choices] if field.choices else str,
            kinds[field.role](desc=field.description),
        )
        for field in prompt.fields
    }
    with warnings.catch_warnings():
        # A text called "schema" or "copy" hides a method of pydantic's that nothing here uses.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
        signature: type[dspy.Signature] = dspy.Signature(fields, prompt.instruction)
    return signature


def demos_of(prompt: Prompt) -> list[dspy.Example]:
    """A prompt's demos as DSPy keeps them."""
    names = [field.name for field in prompt.inputs]
    return [dspy.Example(**demo).with_inputs(*names) for demo in prompt.demos]


@lru_cache(maxsize=256)
def _fields(signature: Any) -> tuple[Field, ...]:
    """Cached by class: DSPy makes a new one for changed fields, and may change instructions."""
    inputs, outputs = signature.input_fields, signature.output_fields
    return (
        *(_field(name, info, "input") for name, info in inputs.items()),
        *(_field(name, info, "output") for name, info in outputs.items()),
    )


def _field(name: str, info: Any, role: Literal["input", "output"]) -> Field:
    description = str((info.json_schema_extra or {}).get("desc") or name)
    choices = get_args(info.annotation) if get_origin(info.annotation) is Literal else None
    if description == f"${{{name}}}":  # as DSPy describes a field that nobody has
        description = name
    return Field(name=name, description=description, role=role, choices=choices)


def _demo(number: int, demo: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Value]:
    """The demo with one value a field; ValueError names the inputs or the answer it lacks."""
    missing = [
        field.name
        for field in fields
        if demo.get(field.name) is None and (field.role == "input" or field.choices)
    ]
    if missing:
        raise ValueError(
            f"demo {number} lacks {', '.join(missing)}; a demo holds every text the judge reads "
            "and its answer"
        )
    return {field.name: _demo_value(number, field, demo.get(field.name)) for field in fields}


def _demo_value(number: int, field: Field, value: Any) -> Value:
    """A field's value as text, or as the choice it is equal to; ValueError where it is none."""
    if not field.choices:
        return NOT_GIVEN if value is None else str(value)
    # A label file's 4.0 and "4" mean the rating 4; a mean of 3.67 means none of the ratings.
    for choice in field.choices:
        if value == choice or str(value).strip() == str(choice):
            return choice
    raise ValueError(
        f"demo {number} has {field.name} {value!r}; it must be one of "
        f"{', '.join(str(choice) for choice in field.choices)}"
    )
