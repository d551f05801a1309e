"""JudgeAdapter: DSPy's way to the same prompt and the same strict parser that frozen judges use."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import dspy
from dspy.utils.exceptions import AdapterParseError

from judges.judgement import NoScoreError
from judges.models.protocol import Message
from judges.prompt import Field, Prompt
from judges.reply import parse_fields


def prompt_of(signature: type[dspy.Signature], demos: Sequence[Mapping[str, Any]] = ()) -> Prompt:
    """Read a judge's prompt off its signature; a demo that lacks a field is refused."""
    fields = tuple(
        Field(name=name, description=_description(name, field), role=role, choices=_choices(field))
        for role, group in (("input", signature.input_fields), ("output", signature.output_fields))
        for name, field in group.items()
    )
    names = [field.name for field in fields]
    for number, demo in enumerate(demos):
        missing = [name for name in names if demo.get(name) is None]
        if missing:
            raise ValueError(f"demo {number} lacks {', '.join(missing)}")
    return Prompt(
        instruction=signature.instructions,
        fields=fields,
        demos=tuple({name: demo[name] for name in names} for demo in demos),
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
    return dspy.Signature(fields, prompt.instruction)


def _description(name: str, field: Any) -> str:
    described = str((field.json_schema_extra or {}).get("desc") or name)
    return name if described == f"${{{name}}}" else described


def _choices(field: Any) -> tuple[str | int, ...] | None:
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else None


class JudgeAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """Renders safely, parses strictly, and never asks again in another format."""

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def format(
        self,
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[Message]:
        return prompt_of(signature, demos).messages({k: str(v) for k, v in inputs.items()})

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        try:
            return dict(parse_fields(completion, prompt_of(signature).outputs))
        except NoScoreError as error:
            raise AdapterParseError(
                adapter_name="JudgeAdapter",
                signature=signature,
                lm_response=completion,
                message=str(error),
            ) from error
