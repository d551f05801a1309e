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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from judges import schema
from judges.dimension import MOST_RATINGS, NAME, Comparison, Dimension, DimensionError
from judges.judge import Judge

MOST_BYTES = 200_000

_SPEC = re.compile(r"(?P<file>.+\.(?P<suffix>ya?ml|py))(?::(?P<name>\w+))?", re.IGNORECASE)
_WORD = schema.text(64, pattern=NAME)
_WORDS = schema.text(20_000)
_RATING = schema.whole(-1000, 1000)
_INPUTS = schema.either(
    schema.named(schema.text(20_000, empty=True), name=_WORD, most=32),
    schema.list_of(_WORD, least=1, most=32),
)
_REQUIRED = {"name": _WORD, "definition": _WORDS, "inputs": _INPUTS}
_OPTIONAL = {
    "kind": schema.one_of("rating", "pairwise"),
    "instruction": _WORDS,
    "source": schema.text(20_000, empty=True),
}
_SCALED = {
    "scale": schema.list_of(_RATING, least=2, most=MOST_RATINGS),
    "anchors": schema.named(schema.text(20_000, empty=True), name=_RATING, most=MOST_RATINGS),
}
_RATING_FORM = schema.keys(_REQUIRED, {**_OPTIONAL, **_SCALED})
_PAIRWISE_FORM = schema.keys({**_REQUIRED, "candidate": _WORD}, _OPTIONAL)


def is_definition(spec: str) -> bool:
    """Whether this names a YAML or Python file, with or without :name."""
    return _SPEC.fullmatch(spec) is not None


def is_python(spec: str) -> bool:
    """Whether this names a file that is run to read it."""
    match = _SPEC.fullmatch(spec)
    return match is not None and match["suffix"].lower() == "py"


def read_subject(spec: str) -> Dimension | Comparison:
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
        why = "no regular file, which alone is read" if path.exists() else "no such file"
        raise DimensionError(f"{path}: {why}")
    if match["suffix"].lower() == "py":
        return _choose(path, _from_python(path), match["name"])
    return _choose(path, _from_yaml(path), match["name"])


def _choose(
    path: Path, subjects: Mapping[str, Dimension | Comparison], name: str | None
) -> Dimension | Comparison:
    if not subjects:
        raise DimensionError(f"{path}: defines no Dimension and no Comparison")
    if name is None and len(subjects) == 1:
        return next(iter(subjects.values()))
    known = f"{', '.join(subjects)}; pick one as {path}:{next(iter(subjects))}"
    if name is None:
        raise DimensionError(f"{path}: defines several: {known}")
    if name in subjects:
        return subjects[name]
    # A Python file's variable may be written differently from what it defines.
    for subject in subjects.values():
        if subject.name == name:
            return subject
    raise DimensionError(f"{path}: defines no {name!r}, but {known}")


def _from_yaml(path: Path) -> dict[str, Dimension | Comparison]:
    # Not needed by a judge in production, which must start fast.
    from judges.yaml_text import YamlTextError, read_yaml

    try:
        read = read_yaml(path, most_bytes=MOST_BYTES)
    except YamlTextError as error:
        raise DimensionError(f"{path}: {error}") from error
    if read is None:
        raise DimensionError(f"{path}: empty; it needs name, definition, inputs and scale")
    entries = _entries(read)
    subjects: dict[str, Dimension | Comparison] = {}
    for number, entry in enumerate(entries, start=1):
        where = f"{path}: definition {number}" if len(entries) > 1 else f"{path}: definition"
        subject = define(entry, where)
        if subject.name in subjects:
            raise DimensionError(f"{where}: the name {subject.name!r} is taken by an earlier one")
        subjects[subject.name] = subject
    return subjects


def _entries(read: object) -> list[object]:
    """The definitions of a file; in a mapping from names, each takes its name from its key."""
    if isinstance(read, list):
        return read
    if isinstance(read, dict) and read and all(isinstance(value, dict) for value in read.values()):
        return [{"name": name, **entry} for name, entry in read.items()]
    return [read]


def define(entry: object, where: str = "definition") -> Dimension | Comparison:
    """Build a dimension or comparison from a decoded mapping; raises DimensionError."""
    pairwise = isinstance(entry, dict) and entry.get("kind") == "pairwise"
    try:
        (_PAIRWISE_FORM if pairwise else _RATING_FORM)(entry, where)
    except schema.ShapeError as error:
        raise DimensionError(schema.shortened(error)) from error
    form: Mapping[str, Any] = entry  # type: ignore[assignment]
    inputs = form["inputs"]
    shared = {
        "name": form["name"],
        "definition": form["definition"].strip(),
        "inputs": inputs if isinstance(inputs, dict) else {name: f"the {name}" for name in inputs},
        "source": form.get("source", ""),
    }
    try:
        subject = _comparison(form, shared) if pairwise else _dimension(form, shared, where)
        Judge.of(subject)  # refuses names that would clash
    except DimensionError as error:
        told = schema.shortened(error)
        raise DimensionError(told if told.startswith(where) else f"{where}: {told}") from error
    return subject


def _comparison(form: Mapping[str, Any], shared: Mapping[str, Any]) -> Comparison:
    instruction = form.get("instruction") or _pairwise_instruction(form)
    return Comparison(**shared, candidate=form["candidate"], instruction=instruction)


def _dimension(form: Mapping[str, Any], shared: Mapping[str, Any], where: str) -> Dimension:
    anchors = _anchors(form, where)
    instruction = form.get("instruction") or _rating_instruction(form, list(anchors))
    return Dimension(**shared, anchors=anchors, instruction=instruction)


def _anchors(form: Mapping[str, Any], where: str) -> dict[int, str]:
    """Every rating of the scale with its anchor, which may be empty."""
    said: dict[int, str] = form.get("anchors") or {}
    scale: list[int] = form.get("scale") or sorted({min(said), max(said)} if said else ())
    if len(scale) < 2:
        raise DimensionError(
            f"{where}: a rating needs a scale of two ratings or more, as in 'scale: [1, 5]'"
        )
    if scale != sorted(set(scale)):
        raise DimensionError(f"{where}: the scale {scale} must ascend")
    if len(scale) == 2:
        scale = list(range(scale[0], scale[1] + 1))
    if len(scale) > MOST_RATINGS:
        raise DimensionError(
            f"{where}: the scale has {len(scale)} ratings; use {MOST_RATINGS} at most"
        )
    if outside := sorted(said.keys() - set(scale)):
        raise DimensionError(f"{where}: the anchors {outside} are not on the scale {scale}")
    return {rating: said.get(rating, "") for rating in scale}


def _rating_instruction(form: Mapping[str, Any], scale: Sequence[int]) -> str:
    return (
        f"Judge the {form['name'].replace('_', ' ')}: {_clause(form['definition'])}. Read closely "
        f"what you are given and choose the rating from {scale[0]} (lowest) to {scale[-1]} "
        "(highest) that fits best."
    )


def _pairwise_instruction(form: Mapping[str, Any]) -> str:
    return (
        f"Decide between the two: {_clause(form['definition'])}. First compare them in one "
        "sentence that says which you prefer and why, then name the preferred one."
    )


def _clause(definition: str) -> str:
    return definition.strip().rstrip(".")


def _from_python(path: Path) -> dict[str, Dimension | Comparison]:
    """Run the file and collect what it defines, by variable."""
    return {
        variable: value
        for variable, value in vars(_run(path)).items()
        if isinstance(value, Dimension | Comparison)
    }


def _run(path: Path) -> ModuleType:
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
    return module
