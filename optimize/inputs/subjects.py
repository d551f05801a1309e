"""Find what a judge judges (a dimension or comparison) by its name, or make it from labels."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dspy_judges.errors import SettingsError, option_name
from judges import loading
from judges.definition import make_comparison, make_dimension
from judges.dimension import Subject, UnknownDimensionError
from judges.labels.cells import without_keys
from judges.labels.columns import ROW_NUMBER_COLUMN
from judges.labels.conversations import CONVERSATION
from judges.labels.names import (
    is_output_name,
    is_source_or_output,
    is_text_name,
    judge_name,
    map_flag,
    name_key,
    only_text_name,
    source_name,
)
from judges.labels.options import ReadOptions
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from optimize.inputs.labelled import AnyLabels, LabelSource, new_judge_scale, verdict_words

# Matches a document's id, such as `cnn-test-404f85`: one long word of letters and digits.
DOCUMENT_ID_PATTERN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:/-]{8,}", re.ASCII)
# If all problems of a file are of these kinds, the file has no labels on the dimension.
MISSING_LABEL_PROBLEMS = {"no-rating", "no-column", "pairs"}


def find_subject(name: str) -> Subject | None:
    """Return the dimension or comparison of the catalogue or of FILE.yaml; None if unknown."""
    try:
        return loading.read_subject(name)
    except UnknownDimensionError:
        return None


def dimension_name(subject_text: str) -> str:
    """Return the name in an argument of --dimension: NAME, FILE.yaml or NAME=DEFINITION."""
    subject = find_subject(subject_text)
    return subject.name if subject else subject_text.partition("=")[0].strip()


def subject_from_labels(
    subject_text: str, label_source: LabelSource, *, is_pairwise: bool = False
) -> tuple[Subject, AnyLabels]:
    """Read labels and make a dimension or comparison from them.

    `subject_text` is NAME or NAME=DEFINITION; a judge of ratings needs the definition. Raises
    UnknownDimensionError if neither the catalogue nor the labels have the name.
    """
    written_name, definition = _split_definition(subject_text, label_source)
    name, options = judge_name(written_name), label_source.options
    if label_source.data is None and Path(written_name).is_file():
        advice = f"did you mean --data {written_name}?"
        raise UnknownDimensionError(f"{written_name} is a file: {advice}")
    if label_source.data is None:
        raise _unknown_name_error(written_name, "no --data FILE names labels")
    if not VALID_NAME.match(name):
        flag = map_flag("quality", [written_name])
        raise UnknownDimensionError(
            f"{written_name!r} cannot be a judge's name: name it in Latin letters, as in {flag}"
        )
    has_other_name = name_key(name) != name_key(written_name)
    if has_other_name and not is_pairwise and written_name not in options.columns_by_name:
        columns_by_name = {name: written_name, **options.columns_by_name}
        options = replace(options, columns_by_name=columns_by_name)
    unscaled_source = replace(label_source, options=options, scale=None)
    try:
        labelled_items = unscaled_source.read(name, None, is_pairwise=is_pairwise, texts=None)
    except LabelError as error:
        problem_kinds = {problem.kind for problem in error.problems}
        if definition or not problem_kinds <= MISSING_LABEL_PROBLEMS:
            raise
        raise _unknown_name_error(written_name, f"in the labels: {error}") from error
    if isinstance(labelled_items, LabelledPairs):
        text_names, output_name = shared_texts(labelled_items), labelled_items.candidate
        return make_comparison(name, text_names, output_name, definition), labelled_items
    answers: Sequence[int | str] | None = verdict_words(labelled_items, name)
    if answers is None:
        if not definition:
            raise UnknownDimensionError(
                f"no judge {name!r} in the catalogue: say in one line what earns a high rating, "
                + option_name("dimension", f"'{name}=...'")
                + ", or define it in FILE.yaml"
            )
        answers = new_judge_scale(labelled_items, name, label_source.scale)
    text_names = new_judge_texts(labelled_items, options)
    return make_dimension(name, answers, text_names, definition), labelled_items


def _unknown_name_error(name: str, reason: str) -> UnknownDimensionError:
    """Return the error for an unknown name, which lists similar names and adds the `reason`."""
    try:
        loading.read_subject(name)
    except UnknownDimensionError as error:
        reason = f"{error}; and {reason}"
    return UnknownDimensionError(reason)


def _split_definition(subject_text: str, label_source: LabelSource) -> tuple[str, str]:
    """Split NAME=DEFINITION; raises SettingsError if the definition or the file is missing."""
    name, equals, definition = (text.strip() for text in subject_text.partition("="))
    if equals and (label_source.data is None or not definition.strip(".…")):
        raise SettingsError(
            f"{name}=LINE is for labels of your own: instead of LINE, say what earns a good label, "
            f"and give the file of labels with {option_name('data')}"
        )
    return name, definition


def shared_texts(labelled_pairs: LabelledPairs) -> list[str]:
    """Return the names of the texts that a new judge reads beside the two outputs of a pair."""
    text_names = labelled_pairs.reading.texts
    return usable_texts(filter(is_source_or_output, text_names), labelled_pairs)


def new_judge_texts(labelled_set: LabelledSet, options: ReadOptions) -> list[str]:
    """Return the names of the texts that a new judge reads; the judged output comes last.

    A judge reads the texts with a usual name and the texts that --map names, if every row has them.
    Other texts are left out, because they may give the label away. Raises LabelError if several
    texts may be the judged output.
    """
    column_by_text = labelled_set.reading.texts
    output_names = [text for text in column_by_text if is_output_name(text)]
    if CONVERSATION in column_by_text and (not output_names or options.turns == "all"):
        return [CONVERSATION]
    output_name = _judged_output(labelled_set, output_names, options)
    input_names = []
    for name in without_keys(column_by_text, [output_name]):
        texts = [output.texts.get(name, "") for output in labelled_set.outputs]
        holds_ids = source_name([name]) and all(map(DOCUMENT_ID_PATTERN.fullmatch, texts))
        if name in options.columns_by_name or (is_text_name(name) and not holds_ids):
            input_names.append(name)
    return usable_texts([*input_names, output_name], labelled_set)


def _judged_output(
    labelled_set: LabelledSet, output_names: Sequence[str], options: ReadOptions
) -> str:
    """Return the name of the judged text; `output_names` are the texts named like outputs."""
    column_by_text = labelled_set.reading.texts
    possible_outputs = output_names or [*column_by_text]
    named_outputs = [text for text in output_names if text in options.columns_by_name]
    likely_outputs = named_outputs or possible_outputs
    if len(likely_outputs) == 1 and VALID_NAME.match(likely_outputs[0]):
        return likely_outputs[0]
    map_flags = [map_flag("output", [column_by_text[text]]) for text in possible_outputs]
    raise LabelError(f"{labelled_set.name}: say which text is judged: {' or '.join(map_flags)}")


def usable_texts(names: Iterable[str], labelled_items: AnyLabels) -> list[str]:
    """Return those names that a prompt can use, and for which every row has a text."""
    texts_by_row = [item.texts for item in labelled_items.items]
    valid_names = filter(VALID_NAME.match, names)
    return [name for name in valid_names if all(name in row_texts for row_texts in texts_by_row)]


def missing_input_flag(labelled_items: AnyLabels, text_names: Collection[str]) -> str:
    """Return " --map input=COLUMN" if a new judge would read no input text, else ""."""
    if source_name(text_names):
        return ""
    for name, column in without_keys(labelled_items.reading.texts, text_names).items():
        if all(name in item.texts for item in labelled_items.items):
            return f" {map_flag('input', [column])}"
    return ""


def unread_columns(reading: FileReading, texts: Collection[str], *, is_new: bool = True) -> str:
    """Return the columns that a judge does not read, and flags that let a new judge read them."""
    only_text = only_text_name(reading.texts, texts)
    unread_texts = without_keys(reading.texts, texts if only_text is None else [only_text])
    columns = [*unread_texts.values(), *reading.unread]
    name_by_column = {**dict.fromkeys(unread_texts.values(), "input"), **reading.likely_names}
    column_by_name: dict[str, str] = {}
    for column, name in name_by_column.items():
        column_by_name.setdefault(name, column)
    used_names = [name for name, headers in reading.rows.items() if headers != (ROW_NUMBER_COLUMN,)]
    if source_name(texts) or not is_new:
        used_names.append("input")
    unused_names = without_keys(column_by_name, used_names)
    if is_new and not unused_names:
        unused_names = {"NAME": "COLUMN"}
    flags_text = ", ".join(map_flag(name, [column]) for name, column in unused_names.items())
    advice = f" (to use one, name it: {flags_text})" if flags_text else ""
    return f"{', '.join(columns)}{advice}" if columns else ""
