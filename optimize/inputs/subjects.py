"""Find what a judge judges: a dimension or comparison, by its name or made from people's labels."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dspy_judges.column_names import name_key
from dspy_judges.errors import option_name
from judges import loading
from judges.dimension import Subject, UnknownDimensionError
from judges.labels.cells import without_keys
from judges.labels.columns import ROW_NUMBER, ColumnNames
from judges.labels.conversations import ALL_TURNS, CONVERSATION
from judges.labels.names import (
    OUTPUTS,
    is_source_or_output,
    is_usual_text,
    judge_name,
    map_flag,
    only_text,
    source_name,
    usual_name,
)
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import NAME
from optimize.inputs.flags import SettingsError
from optimize.inputs.labelled import Labelled, LabelSource, read, scale_of, words_of

# A long word of letters and digits, which cannot be a text to compare an output with.
_DOCUMENT_ID = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:/-]{8,}", re.ASCII)
# If all problems of a file are of these kinds, the file has no labels on the dimension.
NO_SUCH_LABELS = {"no-rating", "no-column", "pairs"}


def find_subject(name: str) -> Subject | None:
    """The dimension or comparison with this name; None if neither catalogue nor file has it."""
    try:
        return loading.read_subject(name)
    except UnknownDimensionError:
        return None


def subject_of(
    spec: str, labels: LabelSource, *, pairwise: bool = False
) -> tuple[Subject, Labelled] | None:
    """Read labels and make a dimension or comparison from them.

    `spec` is NAME, or NAME=DEFINITION; ratings need a definition. Returns None if the labels are on
    outputs instead of pairs or the reverse, or have no dimension of this name. Raises SettingsError
    for an empty definition, or one without labels, and UnknownDimensionError if neither the
    catalogue nor the labels have the name, or ratings have no definition.
    """
    written_name, definition = _name_and_definition(spec, labels)
    name, unknown = judge_name(written_name), ""
    try:
        loading.read_subject(written_name)
    except UnknownDimensionError as error:
        unknown = str(error)  # suggests similar names
    if labels.data is None:
        advice = f"no --data FILE names labels, and {unknown}"
        if Path(written_name).is_file():
            advice = f"{written_name} is a file: did you mean --data {written_name}?"
        raise UnknownDimensionError(advice)
    if not NAME.match(name):
        return None
    columns = labels.map
    is_mapped = written_name in columns
    if name_key(name) != name_key(written_name) and not (pairwise or is_mapped):
        columns = {name: written_name, **columns}
    try:
        source = replace(labels, map=columns, scale=None)
        labelled = read(source, name, pairwise=pairwise)
    except LabelError as error:
        kinds = {problem.kind for problem in error.problems}
        if definition or not kinds <= NO_SUCH_LABELS:
            raise
        raise UnknownDimensionError(f"{unknown}; and in the labels: {error}") from error
    if pairwise != isinstance(labelled, LabelledPairs):
        return None
    if isinstance(labelled, LabelledSet) and name not in labelled.dimensions:
        return None
    return _subject_on(labelled, name, definition, labels.scale, columns), labelled


def _name_and_definition(spec: str, labels: LabelSource) -> tuple[str, str]:
    """Split NAME=DEFINITION; raises SettingsError for an empty one, and if labels name no data."""
    name, equals, definition = (part.strip() for part in spec.partition("="))
    if equals and (labels.data is None or not definition.strip(".…")):
        raise SettingsError(
            f"{name}=LINE defines labels of your own: write what earns a good label, and name the "
            f"labels by {option_name('data')}"
        )
    return name, definition


def _subject_on(
    labelled: Labelled,
    name: str,
    definition: str,
    scale: str | None,
    columns: Mapping[str, ColumnNames],
) -> Subject:
    if isinstance(labelled, LabelledPairs):
        texts = shared_texts(labelled)
        return loading.comparison_on(name, texts, labelled.candidate, definition)
    if name not in labelled.words and not definition:
        raise UnknownDimensionError(
            f"no judge {name!r} in the catalogue: say in one line what earns a high rating, "
            f"--dimension '{name}=...', or define it in FILE.yaml"
        )
    answers = words_of(labelled, name) or scale_of(labelled, name, scale)
    return loading.dimension_on(name, answers, judged_texts(labelled, columns), definition)


def shared_texts(pairs: LabelledPairs) -> list[str]:
    """The texts beside the two outputs of a pair that a new judge reads."""
    return _usable_texts(filter(is_source_or_output, pairs.reading.texts), pairs)


def judged_texts(labelled: LabelledSet, mapping: Mapping[str, object]) -> list[str]:
    """Choose the texts that a new judge reads; the judged output comes last.

    A judge reads the texts with a usual name and the texts that the user's mapping names, if every
    row has them. Other texts are left out, because they may give the label away. Raises LabelError
    if several texts may be the judged output.
    """
    columns = labelled.reading.texts
    outputs = [text for text in columns if usual_name(text) in OUTPUTS]
    if CONVERSATION in columns and (not outputs or ALL_TURNS in mapping.items()):
        return [CONVERSATION]
    judged = _judged_text(labelled, outputs, mapping)
    inputs = [
        text
        for text in columns
        if text in mapping or (is_usual_text(text) and not _holds_ids(text, labelled))
    ]
    return _usable_texts([*(text for text in inputs if text != judged), judged], labelled)


def _holds_ids(text: str, labelled: LabelledSet) -> bool:
    """Whether a source text is the id of a document, such as `cnn-test-404f85`, in every row."""
    texts = [output.texts.get(text, "") for output in labelled.outputs]
    return source_name([text]) is not None and all(map(_DOCUMENT_ID.fullmatch, texts))


def _judged_text(
    labelled: LabelledSet, outputs: Sequence[str], mapping: Mapping[str, object]
) -> str:
    """The only text that can be the judged output; raises LabelError if several can be.

    `outputs` are the texts with a name that is usual for outputs.
    """
    columns = labelled.reading.texts
    candidates = [text for text in outputs if text in mapping] or outputs or [*columns][:2]
    if len(candidates) == 1 and NAME.match(candidates[0]):
        return candidates[0]
    choices = [map_flag("output", [columns[text]]) for text in outputs or columns]
    if not outputs and len(columns) == 2:
        first, second = columns.values()
        choices = [
            f"{map_flag('output', [output])} {map_flag('input', [other])}"
            for output, other in ((first, second), (second, first))
        ]
    raise LabelError(f"{labelled.name}: say which text is judged: {' or '.join(choices)}")


def _usable_texts(texts: Iterable[str], labelled: Labelled) -> list[str]:
    """Keep the texts that every row has and whose names can be used in a prompt."""
    rows = [item.texts for item in labelled.items]
    return [text for text in texts if NAME.match(text) and all(text in row for row in rows)]


def input_flag(labelled: LabelledSet, texts: Collection[str]) -> str:
    """A flag with which a new judge reads one more text, if it reads none that was an input."""
    if source_name(texts):
        return ""
    further_texts = without_keys(labelled.reading.texts, texts)
    rows = [item.texts for item in labelled.items]
    complete = (c for name, c in further_texts.items() if all(name in row for row in rows))
    return map_flag("input", [column]) if (column := next(complete, "")) else ""


def unread_text(reading: FileReading, texts: Collection[str], *, is_new: bool = True) -> str:
    """The columns that a judge of these texts does not read, and the flags with which it would.

    Only a judge that `is_new` can read further texts. Empty if every column is read.
    """
    only_name = only_text(reading.texts, texts)
    unread_texts = without_keys(reading.texts, texts if only_name is None else [only_name])
    columns = [*unread_texts.values(), *reading.unread]
    if not columns:
        return ""
    names = {**dict.fromkeys(unread_texts.values(), "input"), **reading.likely_names}
    used_names = {name for name, headers in reading.rows.items() if headers != (ROW_NUMBER,)}
    if source_name(texts) or not is_new:
        used_names.add("input")
    flags: dict[str, str] = {}
    for column, name in names.items():
        if name not in used_names:
            flags.setdefault(name, map_flag(name, [column]))
    if is_new and not flags:
        flags["NAME"] = map_flag("NAME", ["COLUMN"])
    advice = f" (to use one, name it: {', '.join(flags.values())})" if flags else ""
    return f"{', '.join(columns)}{advice}"
