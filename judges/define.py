"""Read a user's own dimension or comparison from a YAML or Python file.

A YAML file holds one definition, or a list of them, or a mapping from names to them, that
FILE.yaml:name picks from:

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

A Python file is run, and FILE.py:NAME is a Dimension or Comparison that it defines.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from judges.dimension import (
    MAX_RATINGS,
    Comparison,
    Dimension,
    DimensionError,
    Subject,
    check_prompt,
    seed_prompt,
)
from judges.validation import InvalidDataError, Rating, Word, check_plain, converted, shortened

MAX_BYTES = 200_000

_SPEC = re.compile(r"(?P<file>.+\.(?P<suffix>ya?ml|py))(?::(?P<name>\w+))?", re.IGNORECASE)
Text = Annotated[str, Meta(pattern=r"\S")]


class _Definition(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a file may say of a dimension or a comparison."""

    name: Word
    definition: Text
    inputs: (
        Annotated[dict[Word, str], Meta(max_length=32)]
        | Annotated[list[Word], Meta(min_length=1, max_length=32)]
    )
    kind: Literal["rating", "pairwise"] = "rating"
    instruction: Text | UnsetType = UNSET
    source: str = ""

    def shared(self, instruction: str) -> dict[str, Any]:
        """What dimensions and comparisons have in common; `instruction` is for want of its own."""
        inputs = self.inputs
        return {
            "name": self.name,
            "definition": self.definition.strip(),
            "inputs": inputs if isinstance(inputs, dict) else {n: f"the {n}" for n in inputs},
            "instruction": self.instruction or instruction,
            "source": self.source,
        }


class _RatingDefinition(_Definition, kw_only=True):
    scale: Annotated[list[Rating], Meta(min_length=2, max_length=MAX_RATINGS)] | UnsetType = UNSET
    anchors: Annotated[dict[Rating, str], Meta(max_length=MAX_RATINGS)] | UnsetType = UNSET

    def dimension(self) -> Dimension:
        meanings = self.anchors or {}
        scale = self._scale()
        if outside := sorted(meanings.keys() - set(scale)):
            raise DimensionError(f"the anchors {outside} are not on the scale {scale}")
        instruction = (
            f"Judge the {self.name.replace('_', ' ')}: {_clause(self.definition)}. Read closely "
            f"what you are given and choose the rating from {scale[0]} (lowest) to {scale[-1]} "
            "(highest) that fits best."
        )
        anchors = {rating: meanings.get(rating, "") for rating in scale}
        return Dimension(**self.shared(instruction), anchors=anchors)

    def _scale(self) -> list[int]:
        """Every rating; two are the lowest and the highest."""
        ends = {min(self.anchors), max(self.anchors)} if self.anchors else set[int]()
        scale = self.scale or sorted(ends)
        if len(scale) < 2:
            raise DimensionError(
                "a rating needs a scale of two ratings or more, as in 'scale: [1, 5]'"
            )
        if scale != sorted(set(scale)):
            raise DimensionError(f"the scale {scale} must ascend")
        if len(scale) == 2:
            scale = list(range(scale[0], scale[1] + 1))
        if len(scale) > MAX_RATINGS:
            raise DimensionError(f"the scale has {len(scale)} ratings; use {MAX_RATINGS} at most")
        return scale


class _PairwiseDefinition(_Definition, kw_only=True):
    candidate: Word

    def comparison(self) -> Comparison:
        instruction = f"Decide between the two: {_clause(self.definition)}."
        return Comparison(**self.shared(instruction), candidate=self.candidate)


def _clause(definition: str) -> str:
    return definition.strip().rstrip(".")


def is_definition(spec: str) -> bool:
    """Whether this names a YAML or Python file, with or without :name."""
    return _SPEC.fullmatch(spec) is not None


def is_python(spec: str) -> bool:
    """Whether this names a file that is run to read it."""
    match = _SPEC.fullmatch(spec)
    return match is not None and match["suffix"].lower() == "py"


def read_subject(spec: str) -> Subject:
    """Read a catalogue name, FILE.yaml, FILE.yaml:name, FILE.py or FILE.py:NAME.

    Raises DimensionError, which names file and field, or UnknownDimensionError for a name that the
    catalogue lacks.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        from judges.catalog import find

        return find(spec)
    path = Path(match["file"])
    if not path.is_file():
        problem = "not a regular file" if path.exists() else "no such file"
        raise DimensionError(f"{path}: {problem}")
    subjects = _from_python(path) if match["suffix"].lower() == "py" else _from_yaml(path)
    return _choose(path, subjects, match["name"])


def _choose(path: Path, subjects: Mapping[str, Subject], name: str | None) -> Subject:
    """The subject of this name, or the only one; DimensionError where there is none such."""
    if not subjects:
        raise DimensionError(f"{path}: defines no Dimension and no Comparison")
    if name is None and len(subjects) == 1:
        return next(iter(subjects.values()))
    names = f"{', '.join(subjects)}; pick one as {path}:{next(iter(subjects))}"
    if name is None:
        raise DimensionError(f"{path}: defines several: {names}")
    if name in subjects:
        return subjects[name]
    # A Python file's variable may be written differently from what it defines.
    for subject in subjects.values():
        if subject.name == name:
            return subject
    raise DimensionError(f"{path}: defines no {name!r}, but {names}")


def _from_yaml(path: Path) -> dict[str, Subject]:
    """The subjects that a YAML file defines, by name; raises DimensionError."""
    # Not needed by a judge in production, which must start fast.
    from judges.yaml_text import YamlTextError, read_yaml

    try:
        content = read_yaml(path, max_bytes=MAX_BYTES)
    except YamlTextError as error:
        raise DimensionError(f"{path}: {error}") from error
    if content is None:
        raise DimensionError(f"{path}: empty; it needs name, definition, inputs and scale")
    entries = content if isinstance(content, list) else [content]
    # In a mapping from names, each definition takes its name from its key.
    if isinstance(content, dict) and content and all(isinstance(v, dict) for v in content.values()):
        entries = [{"name": name, **entry} for name, entry in content.items()]
    subjects: dict[str, Subject] = {}
    for number, entry in enumerate(entries, start=1):
        where = f"{path}: definition {number}" if len(entries) > 1 else f"{path}: definition"
        subject = define(entry, where)
        if subject.name in subjects:
            raise DimensionError(f"{where}: the name {subject.name!r} is taken by an earlier one")
        subjects[subject.name] = subject
    return subjects


def define(entry: object, where: str = "definition") -> Subject:
    """Build a dimension or comparison from a decoded mapping; raises DimensionError."""
    try:
        check_plain(entry, where)
        subject: Subject
        if isinstance(entry, dict) and entry.get("kind") == "pairwise":
            subject = converted(entry, _PairwiseDefinition, where).comparison()
        else:
            subject = converted(entry, _RatingDefinition, where).dimension()
        check_prompt(subject, seed_prompt(subject))  # refuses names that would clash
    except (InvalidDataError, DimensionError) as error:
        message = shortened(error)
        if not message.startswith(where):
            message = f"{where}: {message}"
        raise DimensionError(message) from error
    return subject


def _from_python(path: Path) -> dict[str, Subject]:
    """Run the file; the dimensions and comparisons that it defines, by variable."""
    name = f"judges_definition_{abs(hash(os.path.realpath(path)))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DimensionError(f"{path}: cannot be run as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except DimensionError as error:
        raise DimensionError(f"{path}: {error}") from error
    except Exception as error:  # whatever a user's file may raise
        raise DimensionError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.modules.pop(name, None)
    return {
        variable: value
        for variable, value in vars(module).items()
        if isinstance(value, Dimension | Comparison)
    }
