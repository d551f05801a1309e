"""Find the subject of a judge by its name, or make it from people's labels."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dspy_judges.column_names import name_key
from dspy_judges.errors import option_name
from judges import loading
from judges.definition import make_comparison, make_dimension
from judges.dimension import Subject, UnknownDimensionError
from judges.labels.cells import without_keys
from judges.labels.columns import ROW_NUMBER_COLUMN, TURNS_KEY, ColumnNames
from judges.labels.conversations import CONVERSATION
from judges.labels.names import (
    OUTPUT_NAMES,
    is_source_or_output,
    is_text_name,
    judge_name,
    map_flag,
    only_text_name,
    source_name,
    usual_name,
)
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from optimize.inputs.flags import SettingsError
from optimize.inputs.labelled import (
    AnyLabels,
    LabelSource,
    read_any_labels,
    scale_for_new_judge,
    verdict_words,
)

# A long word of letters and digits, which cannot be a text to compare an output with.
_DOCUMENT_ID = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:/-]{8,}", re.ASCII)
# If a file has only problems of these kinds, it has no labels on the dimension.
MISSING_LABEL_PROBLEMS = {"no-rating", "no-column", "pairs"}


def find_subject(name: str) -> Subject | None:
    """Return the dimension or comparison of the catalogue or of FILE.yaml; None if unknown."""
    try:
        return loading.read_subject(name)
    except UnknownDimensionError:
        return None


def dimension_name(spec: str) -> str:
    """Return the name in a value of --dimension: NAME, FILE.yaml or NAME=DEFINITION."""
    subject = find_subject(spec)
    return subject.name if subject else spec.partition("=")[0].strip()


def subject_from_labels(
    spec: str, label_source: LabelSource, *, pairwise: bool = False
) -> tuple[Subject, AnyLabels]:
    """Read labels and make a dimension or comparison from them.

    `spec` is NAME, or NAME=DEFINITION; ratings need a definition. Raises SettingsError for an empty
    definition, or if no labels have the defined name. Raises UnknownDimensionError if neither the
    catalogue nor the labels have the name, or if ratings have no definition.
    """
    written_name, definition = _name_and_definition(spec, label_source)
    name, unknown_message = judge_name(written_name), ""
    try:
        loading.read_subject(written_name)
    except UnknownDimensionError as error:
        unknown_message = str(error)  # suggests similar names
    if label_source.data is None:
        advice = f"no --data FILE names labels, and {unknown_message}"
        if Path(written_name).is_file():
            advice = f"{written_name} is a file: did you mean --data {written_name}?"
        raise UnknownDimensionError(advice)
    if not VALID_NAME.match(name):
        raise UnknownDimensionError(unknown_message)
    columns = label_source.columns_by_name
    if name_key(name) != name_key(written_name) and not (pairwise or written_name in columns):
        columns = {name: written_name, **columns}
    try:
        on_any_scale = replace(label_source, columns_by_name=columns, scale=None)
        labelled = read_any_labels(on_any_scale, name, pairwise=pairwise)
    except LabelError as error:
        problem_kinds = {problem.kind for problem in error.problems}
        if definition or not problem_kinds <= MISSING_LABEL_PROBLEMS:
            raise
        raise UnknownDimensionError(f"{unknown_message}; and in the labels: {error}") from error
    return _make_subject(labelled, name, definition, label_source.scale, columns), labelled


def _name_and_definition(spec: str, label_source: LabelSource) -> tuple[str, str]:
    """Split NAME=DEFINITION; raises SettingsError if the definition is empty or has no labels."""
    name, equals, definition = (part.strip() for part in spec.partition("="))
    if equals and (label_source.data is None or not definition.strip(".…")):
        raise SettingsError(
            f"{name}=LINE is for labels of your own: instead of LINE, say what earns a good label, "
            f"and give the file of labels with {option_name('data')}"
        )
    return name, definition


def _make_subject(
    labelled: AnyLabels,
    name: str,
    definition: str,
    scale: str | None,
    columns: Mapping[str, ColumnNames],
) -> Subject:
    if isinstance(labelled, LabelledPairs):
        texts = shared_texts(labelled)
        return make_comparison(name, texts, labelled.candidate, definition)
    if name not in labelled.words and not definition:
        raise UnknownDimensionError(
            f"no judge {name!r} in the catalogue: say in one line what earns a high rating, "
            f"--dimension '{name}=...', or define it in FILE.yaml"
        )
    answers = verdict_words(labelled, name) or scale_for_new_judge(labelled, name, scale)
    return make_dimension(name, answers, text_names_for_judge(labelled, columns), definition)


def shared_texts(pairs: LabelledPairs) -> list[str]:
    """Return the texts beside the two outputs of a pair that a new judge reads."""
    return usable_texts(filter(is_source_or_output, pairs.reading.texts), pairs)


def text_names_for_judge(labelled: LabelledSet, mapping: Mapping[str, object]) -> list[str]:
    """Return the names of the texts that a new judge reads; the judged output comes last.

    A judge reads the texts with a usual name and the texts that the user's mapping names, if every
    row has them. Other texts are left out, because they may give the label away. Raises LabelError
    if several texts may be the judged output.
    """
    columns = labelled.reading.texts
    outputs = [text for text in columns if usual_name(text) in OUTPUT_NAMES]
    if CONVERSATION in columns and (not outputs or mapping.get(TURNS_KEY) == "all"):
        return [CONVERSATION]
    output = _judged_output(labelled, outputs, mapping)
    further_texts = without_keys(columns, [output])
    inputs = [
        text
        for text in further_texts
        if text in mapping or (is_text_name(text) and not _holds_ids(text, labelled))
    ]
    return usable_texts([*inputs, output], labelled)


def _holds_ids(text: str, labelled: LabelledSet) -> bool:
    """Return whether a source text is a document's id, such as `cnn-test-404f85`, in every row."""
    texts = [output.texts.get(text, "") for output in labelled.outputs]
    return source_name([text]) is not None and all(map(_DOCUMENT_ID.fullmatch, texts))


def _judged_output(
    labelled: LabelledSet, outputs: Sequence[str], mapping: Mapping[str, object]
) -> str:
    """Return the name of the judged output; `outputs` are the texts with a usual name for it."""
    columns = labelled.reading.texts
    possible_outputs = [text for text in outputs if text in mapping]
    if not possible_outputs:
        possible_outputs = [*outputs] or [*columns][:2]
    if len(possible_outputs) == 1 and VALID_NAME.match(possible_outputs[0]):
        return possible_outputs[0]
    choices = [map_flag("output", [columns[text]]) for text in outputs or columns]
    if not outputs and len(columns) == 2:
        first, second = columns.values()
        choices = [
            f"{map_flag('output', [output])} {map_flag('input', [other])}"
            for output, other in ((first, second), (second, first))
        ]
    raise LabelError(f"{labelled.name}: say which text is judged: {' or '.join(choices)}")


def usable_texts(names: Iterable[str], labelled: AnyLabels) -> list[str]:
    """Return the names that every row has a text for, and that can be used in a prompt."""
    names_by_row = [item.texts.keys() for item in labelled.items]
    return [
        name
        for name in names
        if VALID_NAME.match(name) and all(name in row for row in names_by_row)
    ]


def missing_input_flag(labelled: LabelledSet, texts: Collection[str]) -> str:
    """Return the flag that gives a new judge an input text; "" if the judge reads one already."""
    if source_name(texts):
        return ""
    further_texts = without_keys(labelled.reading.texts, texts)
    rows = [item.texts for item in labelled.items]
    for name, column in further_texts.items():
        if all(name in row for row in rows):
            return map_flag("input", [column])
    return ""


def unread_columns(reading: FileReading, texts: Collection[str], *, is_new: bool = True) -> str:
    """Return the columns that a judge does not read, and flags with which a new judge would."""
    only_name = only_text_name(reading.texts, texts)
    unread_texts = without_keys(reading.texts, texts if only_name is None else [only_name])
    columns = [*unread_texts.values(), *reading.unread]
    if not columns:
        return ""
    names = {**dict.fromkeys(unread_texts.values(), "input"), **reading.likely_names}
    used_names = {name for name, headers in reading.rows.items() if headers != (ROW_NUMBER_COLUMN,)}
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
