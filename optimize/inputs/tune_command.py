"""The command that tunes a judge on the labels of a file, as `check` prints it."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from judges import catalog
from judges.dimension import Dimension
from judges.labels.flags import ANY_SCALE
from judges.labels.names import judge_name, map_flag
from judges.labels.preparation import SWAP_COLUMN
from judges.labels.ratings import ReadOptions
from judges.labels.readers import STARTER_FILE_BY_NAME, read_labels
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from optimize.inputs.flags import narrowest_scale
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
    dimensions_in_map = [name for name in options.map if name in labelled.dimensions]
    names = options.dimensions or dimensions_in_map or labelled.dimensions
    return sorted(names, key=lambda name: (name not in catalog.names(), name not in labelled.words))


def next_step_facts(
    labelled: AnyLabels, flags: argparse.Namespace, options: ReadOptions
) -> Iterator[Fact]:
    """Yield the next command for these labels, or what the user has to define before tuning."""
    if len(labelled.documents) < MIN_DOCUMENTS_TO_SPLIT or flags.file in STARTER_FILE_BY_NAME:
        return
    if SWAP_COLUMN in labelled.reading.unread:
        yield "swap", "two judges differ on these rows: verify --against OLD --changed takes them"
        return
    if isinstance(labelled, LabelledPairs):
        words = ["--pairwise", "preference=which response is better", "--data", flags.file]
        words += _reading_flags(flags, None)
        yield COMMAND_TITLE, shlex.join(["dspy-judges", "tune", *words])
        yield "define", "write your own definition there, or a comparison of `dspy-judges list`"
        return
    dimensions, flag_values = dimensions_to_tune(labelled, options), dimension_specs(flags)
    defined = [
        name
        for name in dimensions
        if name in catalog.names() or flag_values.get(name, name) != name
    ]
    if names := defined or _names_without_definition(labelled, dimensions):
        fact = _tune_fact(labelled, names[0], flag_values.get(names[0], names[0]), flags, options)
        advice = f"write --dimension {shlex.quote(_draft_spec(names[0], 'a pass'))}"
    else:
        column = dimensions[0]
        name, name_flag = judge_name(column), ""
        good_label = "a pass" if column in labelled.words else "a high rating"
        if not VALID_NAME.match(name):  # a judge cannot have the column's name
            name, name_flag = "quality", f" {map_flag('quality', [column])}"
            options = replace(options, map={**options.map, name: column})
        fact = _tune_fact(labelled, name, _draft_spec(name, good_label), flags, options)
        if fact and fact[0] == COMMAND_TITLE:
            fact = COMMAND_TITLE, f"{fact[1]}{name_flag}"
        advice = f"write your own line there{_catalogue_advice(labelled, column)}"
    if fact:
        yield fact
        if fact[0] == COMMAND_TITLE and not defined:
            yield "define", f"a definition is worth about as much as tuning; {advice}"


def _draft_spec(name: str, good_label: str) -> str:
    """Return a value of --dimension with a definition that the user is to complete."""
    return f"{name}=one line that says what earns {good_label}"


def _catalogue_advice(labelled: LabelledSet, name: str) -> str:
    """Return how to use a catalogue judge for the ratings; "" if the file lacks its texts."""
    if not labelled.reading.texts.keys() >= {*catalog.find_subject("relevance").texts}:
        return ""
    return f"; or say which judge's rating it is, as in {map_flag('relevance', [name])}"


def _names_without_definition(labelled: LabelledSet, names: Sequence[str]) -> list[str]:
    """Return names for judges of pass or fail, which can be tuned without a definition."""
    judge_names = [judge_name(name) for name in names if name in labelled.words]
    return [name for name in judge_names if VALID_NAME.match(name) and name not in catalog.names()]


def _tune_fact(
    labelled: LabelledSet, name: str, spec: str, flags: argparse.Namespace, options: ReadOptions
) -> Fact | None:
    """Return the command that tunes a judge on these labels, or why they cannot be split.

    Returns None if all labels are the same, because a note already says so.
    """
    dimension = catalog.find_subject(name) if name in catalog.names() else None
    inputs = tuple(dimension.inputs) if isinstance(dimension, Dimension) else None
    try:
        outputs = read_labels(
            flags.file,
            map=options.map,
            dimensions=[name],
            texts=inputs,
            annotations=options.annotations,
            values=options.values,
        )
        split(outputs, seed=0)
    except LabelError as error:
        reason = error.problems[0] if error.problems else error
        inputs_text = f"{name} reads {' and '.join(inputs)}. " if inputs else ""
        return "judge", f"{inputs_text}{reason}"
    labelled_outputs = with_ratings(outputs, name)
    if len({labelled_outputs.label(output, name) for output in labelled_outputs.outputs}) == 1:
        return None
    scale = options.scales.get("*")
    if dimension and not scale:
        ratings = chain(*(output.ratings[name] for output in labelled_outputs.outputs))
        scale = _wider_scale(dimension.scale, [*ratings])
    command_words = ["dspy-judges", "tune", "--dimension", spec, "--data", flags.file]
    command = shlex.join([*command_words, *_reading_flags(flags, scale)])
    if dimension is None:
        try:
            input_flag = missing_input_flag(outputs, text_names_for_judge(outputs, options.map))
        except LabelError as error:
            return "judge", str(error)
        command += f" {input_flag}" if input_flag else ""
        if not scale and needs_any_scale(outputs, name):
            command += f" --scale {ANY_SCALE}"
    return COMMAND_TITLE, command


def _wider_scale(scale: Sequence[int], ratings: Sequence[float]) -> tuple[float, float] | None:
    """Return a scale that fits ratings outside the judge's scale; None if all are on it."""
    low, high = min(ratings), max(ratings)
    if scale[0] <= low and high <= scale[-1]:
        return None
    return narrowest_scale(ratings) or (low // 1, -(-high // 1))


def _reading_flags(flags: argparse.Namespace, scale: tuple[float, float] | None) -> list[str]:
    """Return the flags with which another command reads the labels in the same way."""
    values_by_flag = {
        "--annotations": [flags.annotations] if flags.annotations else [],
        "--map": [str(flags.write_map)] if flags.write_map else flags.map,
        "--values": [] if flags.write_map else flags.values,
        "--scale": [f"{scale[0]:g}:{scale[1]:g}"] if scale else [],
    }
    return [
        word
        for flag, values in values_by_flag.items()
        for value in values
        for word in (flag, value)
    ]
