"""A judge in DSPy: three modules that send and read the same as a frozen judge."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

import dspy
from dspy.utils.exceptions import AdapterParseError

from judges.dimension import Subject
from judges.judgement import NoScoreError
from judges.prompt import NOT_GIVEN, Field, Prompt, Value
from judges.protocol import Message
from judges.reading import read


class _Judge(dspy.Module):  # type: ignore[misc]
    """A module with one predictor, `judge`, whose adapter is `JudgeAdapter`.

    `prompt` replaces the subject's own. `own_lm` makes the LM that is asked where neither DSPy nor
    the predictor has one; `save` does not write it.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        prompt: Prompt | None = None,
        own_lm: Callable[[], dspy.LM] | None = None,
    ) -> None:
        super().__init__()
        self.subject, self.own_lm = subject, own_lm
        self.judge = dspy.Predict(signature_of(prompt or subject.prompt()))

    def forward(self, **texts: str) -> dspy.Prediction:
        with self._settings():
            return self.judge(**texts)

    async def aforward(self, **texts: str) -> dspy.Prediction:
        with self._settings():
            return await self.judge.acall(**texts)

    def _settings(self) -> Any:
        """DSPy's settings for one call."""
        lm = dspy.settings.lm
        if self.own_lm is not None and lm is None and self.judge.lm is None:
            lm = self.own_lm()
        return dspy.context(adapter=JudgeAdapter([self.subject.name]), lm=lm)


class RatingJudge(_Judge):
    """A DSPy module that rates one output: `module(document=..., summary=...).rating`."""


class VerdictJudge(_Judge):
    """A DSPy module that gives one of two words: `module(input=..., output=...).verdict`."""


class PairwiseJudge(_Judge):
    """A DSPy module that prefers "A" or "B": `module(post=..., summary_a=...).preferred`."""


class JudgeAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """Renders prompts and reads replies as a judge does, without a fallback to another format.

    `names` are the names of the dimension, which count as labels of the answer.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        super().__init__(use_json_adapter_fallback=False)
        self.names = names

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[Message]:
        prompt = prompt_of(signature, demos)
        # DSPy would render a missing text, None, as the word "None".
        missing = [field.name for field in prompt.inputs if inputs.get(field.name) is None]
        if missing:
            raise ValueError(f"the judge reads {', '.join(missing)}, which is missing")
        return prompt.messages({field.name: str(inputs[field.name]) for field in prompt.inputs})

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        try:
            outputs = prompt_of(signature).outputs
            return dict(read(completion, outputs, names=self.names).values)
        except NoScoreError as error:
            name = type(self).__name__
            raise AdapterParseError(name, signature, completion, str(error)) from error


def prompt_of(signature: type[dspy.Signature], demos: Sequence[Mapping[str, Any]] = ()) -> Prompt:
    """The prompt of a signature and the demos of its predictor.

    A demo without a free text, such as a labelled example without a rationale, shows it as not
    given. Raises ValueError for any other missing or impossible value.
    """
    fields = _fields(signature)  # type: ignore[arg-type]
    return Prompt(
        instruction=signature.instructions,
        fields=fields,
        demos=tuple(
            {field.name: _demo_value(number, field, demo.get(field.name)) for field in fields}
            for number, demo in enumerate(demos)
        ),
    )


def signature_of(prompt: Prompt) -> type[dspy.Signature]:
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
    with warnings.catch_warnings():
        # A text called "schema" or "copy" hides a method of pydantic that nothing here uses.
        warnings.filterwarnings("ignore", message="Field name .* shadows an attribute")
        signature: type[dspy.Signature] = dspy.Signature(fields, prompt.instruction)
    return signature


def demos_of(prompt: Prompt) -> list[dspy.Example]:
    """The demos of a prompt as DSPy's examples."""
    names = [field.name for field in prompt.inputs]
    return [dspy.Example(**demo).with_inputs(*names) for demo in prompt.demos]


@lru_cache(maxsize=256)
def _fields(signature: Any) -> tuple[Field, ...]:
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


def _demo_value(number: int, field: Field, value: Any) -> Value:
    """A demo's value as text, or as the choice that it equals; ValueError if it is neither."""
    if not field.choices and (value is not None or field.role == "output"):
        return NOT_GIVEN if value is None else str(value)
    # 4.0 and "4" of a label file are the rating 4; a mean of 3.67 is no rating.
    for choice in field.choices or ():
        if value == choice or str(value).strip() == str(choice):
            return choice
    allowed = f"one of {', '.join(map(str, field.choices))}" if field.choices else "a text"
    raise ValueError(f"demo {number} has {field.name} {value!r}; it must be {allowed}")
