"""Read a user's own dimension or comparison from a YAML file, one definition a file.

    name: groundedness                  # lower-case letters, digits, underscores
    definition: whether the reply uses the fact it was given
    inputs:                             # the texts it is judged from, in this order ...
      fact: the fact the speaker was given
      response: the reply to judge      # ... or a plain list: [fact, response]
    scale: [0, 1]                       # lowest and highest rating, and/or:
    anchors: {0: ignores the fact, 1: rests on the fact}
    instruction: |                      # optional; what an optimizer may rewrite
      Judge whether the reply makes use of the fact.
    source: where it comes from         # optional

A comparison has `kind: pairwise`, no scale, and a `candidate`: the word for what is compared. Its
two texts are then called `{candidate}_a` and `{candidate}_b`:

    kind: pairwise
    name: kinder
    definition: which reply is kinder to the writer
    inputs: {query: what the user wrote}
    candidate: response
"""

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

from judges.dimension import (
    MAX_RATINGS,
    Comparison,
    Dimension,
    DimensionError,
    Subject,
    check_prompt,
    seed_prompt,
)
from judges.validation import Rating, Text, Word, shortened

MAX_BYTES = 200_000


class _Definition(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a file may say of a dimension or a comparison."""

    name: Word
    definition: Text
    inputs: dict[Word, str] | list[Word]
    kind: Literal["rating", "pairwise"] = "rating"
    scale: list[Rating] = []
    anchors: dict[Rating, str] = {}
    candidate: Word | None = None
    instruction: Text | None = None
    source: str = ""

    def subject(self) -> Subject:
        inputs = self.inputs
        definition = self.definition.strip()
        clause = definition.rstrip(".")
        shared: dict[str, Any] = {
            "name": self.name,
            "definition": definition,
            "inputs": inputs if isinstance(inputs, dict) else {n: f"the {n}" for n in inputs},
            "source": self.source,
        }
        if self.kind == "pairwise":
            if self.candidate is None or self.scale or self.anchors:
                raise DimensionError("a pairwise definition has a candidate, and no scale")
            instruction = self.instruction or f"Decide between the two: {clause}."
            return Comparison(**shared, instruction=instruction, candidate=self.candidate)
        if self.candidate is not None:
            raise DimensionError("a candidate is for kind: pairwise")
        scale = self._scale()
        instruction = self.instruction or (
            f"Judge the {self.name.replace('_', ' ')}: {clause}. Read closely what you are given "
            f"and choose the rating from {scale[0]} (lowest) to {scale[-1]} (highest) that fits "
            "best."
        )
        anchors = {rating: self.anchors.get(rating, "") for rating in scale}
        return Dimension(**shared, instruction=instruction, anchors=anchors)

    def _scale(self) -> list[int]:
        """Every rating, ascending; two are the lowest and the highest."""
        scale = self.scale or sorted({min(self.anchors), max(self.anchors)} if self.anchors else ())
        if len(scale) == 2:
            scale = list(range(scale[0], scale[1] + 1))
        if not 2 <= len(scale) <= MAX_RATINGS or scale != sorted(set(scale)):
            raise DimensionError(
                f"a scale has 2 to {MAX_RATINGS} ascending ratings, as in 'scale: [1, 5]', not "
                f"{self.scale}"
            )
        if outside := sorted(self.anchors.keys() - set(scale)):
            raise DimensionError(f"the anchors {outside} are not on the scale {scale}")
        return scale


def is_definition(spec: str) -> bool:
    """Whether this names a YAML file."""
    return spec.lower().endswith((".yaml", ".yml"))


def read_subject(spec: str) -> Subject:
    """The dimension or comparison of a catalogue name or FILE.yaml.

    Raises DimensionError, which names file and field, or UnknownDimensionError for a name that the
    catalogue lacks.
    """
    if not is_definition(spec):
        from judges.catalog import find

        return find(spec)
    # Not needed by a judge in production, which must start fast.
    from judges.yaml_text import read_yaml

    try:
        subject = convert(read_yaml(Path(spec), max_bytes=MAX_BYTES), _Definition).subject()
        check_prompt(subject, seed_prompt(subject))  # refuses names that would clash
    except ValueError as error:  # YamlTextError, msgspec.ValidationError, DimensionError
        raise DimensionError(f"{spec}: {shortened(error)}") from error
    return subject
