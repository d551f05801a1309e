"""The command that tunes a judge on the labels of a file, as `check` prints it."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from judges import catalog
from judges.dimension import Dimension, Subject
from judges.labels.flags import ANY_SCALE
from judges.labels.names import judge_name, map_flag
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.ratings import ReadOptions
from judges.labels.readers import STARTER_FILE_BY_NAME, read_labels
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale
from judges.prompt import VALID_NAME
from optimize.inputs.flags import narrowest_usual_scale
from optimize.inputs.labelled import AnyLabels, needs_any_scale
from optimize.inputs.subjects import dimension_name, missing_input_flag, text_names_for_judge

# A title, and a sentence or command.
Fact = tuple[str, str]
# The title of a line with a command, which is not wrapped so that it can be copied.
COMMAND_TITLE = "next"


def dimension_specs(flags: argparse.Namespace) -> dict[str, str]:
    """Return the dimensions that --dimension names, each with its NAME or NAME=DEFINITION."""
    return {dimension_name(value): value for value in flags.dimension or ()}


def dimensions_to_tune(labelled: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """Return the dimensions that the user named, else all; those that need no definition first."""
    dimensions_in_map = [name for name in options.mapping if name in labelled.dimensions]
    names = options.dimensions or dimensions_in_map or labelled.dimensions
    catalog_names = catalog.judge_names()
    return sorted(names, key=lambda name: (name not in catalog_names, name not in labelled.words))


def next_step_facts(
    labelled: AnyLabels, flags: argparse.Namespace, options: ReadOptions
) -> Iterator[Fact]:
    """Yield the next command for these labels, or what the user has to define before tuning."""
    if len(labelled.documents) < MIN_DOCUMENTS_TO_SPLIT or flags.file in STARTER_FILE_BY_NAME:
        return
    if SWAP_SAMPLE_COLUMN in labelled.reading.unread:
        yield "swap", "two judges differ on these rows: verify --against OLD --changed takes them"
        return
    if isinstance(labelled, LabelledPairs):
        yield COMMAND_TITLE, _command("--pairwise", "preference=which response is better", flags)
        yield "define", "write your own definition there, or a comparison of `dspy-judges list`"
        return
    column = dimensions_to_tune(labelled, options)[0]
    ratings = with_ratings(labelled, column)
    if len({ratings.label(output, column) for output in ratings.outputs}) == 1:
        return  # a note says that all labels are the same
    spec = dimension_specs(flags).get(column, column)
    if column in catalog.judge_names() or spec != column:
        yield _tune_fact(column, spec, flags, options)
    else:
        yield from _facts_without_definition(labelled, column, flags, options)


def _facts_without_definition(
    labelled: LabelledSet, column: str, flags: argparse.Namespace, options: ReadOptions
) -> Iterator[Fact]:
    """Yield the command for a column that neither a catalogue judge nor a definition explains."""
    name, name_flag = judge_name(column), ""
    if not VALID_NAME.match(name):  # a judge cannot have the column's name
        name, name_flag = "quality", f" {map_flag('quality', [column])}"
        options = replace(options, columns_by_name={**options.columns_by_name, name: column})
    good_label = "a pass" if column in labelled.words else "a high rating"
    draft = f"{name}=one line that says what earns {good_label}"
    # A judge of pass or fail can be tuned without a definition.
    is_catalog_name = name in catalog.judge_names()
    needs_definition = bool(name_flag) or is_catalog_name or column not in labelled.words
    title, text = _tune_fact(name, draft if needs_definition else name, flags, options)
    if title != COMMAND_TITLE:
        yield title, text
        return
    yield title, text + name_flag
    advice = f"write --dimension {shlex.quote(draft)}"
    if needs_definition:
        advice = "write your own line there"
        if labelled.reading.texts.keys() >= {*catalog.find_subject("relevance").texts}:
            example = map_flag("relevance", [column])
            advice += f"; or say which judge's rating it is, as in {example}"
    yield "define", f"a definition is worth about as much as tuning; {advice}"


def _tune_fact(dimension: str, spec: str, flags: argparse.Namespace, options: ReadOptions) -> Fact:
    """Return the command that tunes a judge on a dimension, or why its labels cannot be split."""
    subject = catalog.find_subject(dimension) if dimension in catalog.judge_names() else None
    inputs = tuple(subject.inputs) if isinstance(subject, Dimension) else None
    try:
        # The judge may read fewer texts than `check` has read.
        outputs = read_labels(
            flags.file,
            map=options.mapping,
            dimensions=[dimension],
            texts=inputs,
            annotations=options.annotations,
            values=options.values,
        )
        split(outputs, seed=0)
        if subject is None:
            return COMMAND_TITLE, _new_judge_command(outputs, dimension, spec, flags, options)
    except LabelError as error:
        reason = error.problems[0] if error.problems else error
        inputs_text = f"{dimension} reads {' and '.join(inputs)}. " if inputs else ""
        return "judge", f"{inputs_text}{reason}"
    scale = options.scales.get("*") or _other_scale(outputs, subject)
    return COMMAND_TITLE, _command("--dimension", spec, flags, scale)


def _new_judge_command(
    outputs: LabelledSet, dimension: str, spec: str, flags: argparse.Namespace, options: ReadOptions
) -> str:
    scale, text_names = options.scales.get("*"), text_names_for_judge(outputs, options.mapping)
    command = [_command("--dimension", spec, flags, scale), missing_input_flag(outputs, text_names)]
    if not scale and needs_any_scale(outputs, dimension):
        command.append(f"--scale {ANY_SCALE}")
    return " ".join(filter(None, command))


def _other_scale(outputs: LabelledSet, subject: Subject) -> Scale | None:
    """Return a scale with all ratings if they exceed the scale of a catalogue judge."""
    rated_outputs = with_ratings(outputs, subject.name).outputs
    ratings = [rating for output in rated_outputs for rating in output.ratings[subject.name]]
    low, high = min(ratings), max(ratings)
    if subject.scale[0] <= low <= high <= subject.scale[-1]:
        return None
    return narrowest_usual_scale(ratings) or (low // 1, -(-high // 1))


def _command(
    subject_flag: str, subject: str, flags: argparse.Namespace, scale: Scale | None = None
) -> str:
    """Return a command that tunes this judge, and reads the labels as these flags do."""
    words = ["dspy-judges", "tune", subject_flag, subject, "--data", flags.file]
    if flags.annotations:
        words += ["--annotations", flags.annotations]
    for column in [str(flags.write_map)] if flags.write_map else flags.map:
        words += ["--map", column]
    for values in () if flags.write_map else flags.values:
        words += ["--values", values]
    if scale:
        words += ["--scale", f"{scale[0]:g}:{scale[1]:g}"]
    return shlex.join(words)
