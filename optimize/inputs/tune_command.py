"""The last lines of `check`: the command that tunes a judge on the labels of the file."""

import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace

from judges import catalog
from judges.dimension import Dimension
from judges.labels.flags import ANY_SCALE
from judges.labels.names import judge_name, map_flag
from judges.labels.options import ReadOptions
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import STARTER_FILE_BY_NAME, read_labels
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.labels.values import Scale
from judges.prompt import VALID_NAME
from optimize.inputs.flags import usual_scale
from optimize.inputs.labelled import AnyLabels, ratings_on
from optimize.inputs.subjects import dimension_name, missing_input_flag, new_judge_texts

# A titled line that `check` prints: its title, and a sentence or a command.
TitledLine = tuple[str, str]
# The title of a line with a command, which is not wrapped so that it can be copied.
COMMAND_TITLE = "next"


def arguments_by_dimension(flags: Namespace) -> dict[str, str]:
    """Map each dimension that --dimension names to its argument: NAME or NAME=DEFINITION."""
    return {dimension_name(subject_text): subject_text for subject_text in flags.dimension or ()}


def dimensions_to_tune(labelled_set: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """Return the dimensions that the user named, else all; those that need no definition first."""
    mapped_names = [name for name in options.mapping if name in labelled_set.dimensions]
    names = options.dimensions or mapped_names or labelled_set.dimensions
    known_names, words = catalog.SUBJECT_BY_NAME, labelled_set.words
    return sorted(names, key=lambda name: (name not in known_names, name not in words))


def next_step_lines(
    labelled_items: AnyLabels, flags: Namespace, options: ReadOptions
) -> Iterator[TitledLine]:
    """Yield the next command for these labels, or what the user has to define before tuning."""
    if len(labelled_items.documents) < MIN_DOCUMENTS_TO_SPLIT or flags.file in STARTER_FILE_BY_NAME:
        return
    if SWAP_SAMPLE_COLUMN in labelled_items.reading.unread:
        yield "swap", "two judges differ on these rows: verify --against OLD --changed takes them"
        return
    if isinstance(labelled_items, LabelledPairs):
        subject_text = "preference=which response is better"
        yield COMMAND_TITLE, _command_text("--pairwise", subject_text, flags)
        yield "define", "write your own definition there, or a comparison of `dspy-judges list`"
        return
    dimension = dimensions_to_tune(labelled_items, options)[0]
    rated_set = with_ratings(labelled_items, dimension)
    if len({rated_set.label(output, dimension) for output in rated_set.outputs}) == 1:
        return  # a note says that all labels are the same
    subject_text = arguments_by_dimension(flags).get(dimension, dimension)
    if dimension in catalog.SUBJECT_BY_NAME or subject_text != dimension:
        yield _tune_line(dimension, subject_text, flags, options)
    else:
        yield from _lines_without_definition(labelled_items, dimension, flags, options)


def _lines_without_definition(
    labelled_set: LabelledSet, column: str, flags: Namespace, options: ReadOptions
) -> Iterator[TitledLine]:
    """Yield the command for a column with the name of no catalogue judge and no definition."""
    name, map_flag_text = judge_name(column), ""
    if not VALID_NAME.match(name):  # a judge cannot have the column's name
        name, map_flag_text = "quality", f" {map_flag('quality', [column])}"
        options = replace(options, columns_by_name={**options.columns_by_name, name: column})
    has_verdicts = column in labelled_set.words
    draft = f"{name}=one line that says what earns {'a pass' if has_verdicts else 'a high rating'}"
    # Only a judge of pass or fail can be tuned without a definition, under the column's name.
    needs_definition = bool(map_flag_text) or name in catalog.SUBJECT_BY_NAME or not has_verdicts
    title, text = _tune_line(name, draft if needs_definition else name, flags, options)
    if title != COMMAND_TITLE:
        yield title, text
        return
    yield title, text + map_flag_text
    own_line = "your own line there" if needs_definition else f"--dimension {shlex.quote(draft)}"
    yield "define", f"a definition is worth about as much as tuning; write {own_line}"


def _tune_line(name: str, subject_text: str, flags: Namespace, options: ReadOptions) -> TitledLine:
    """Return the command that tunes a judge on a dimension, or why its labels cannot be split."""
    subject = catalog.SUBJECT_BY_NAME.get(name)
    input_names = tuple(subject.inputs) if isinstance(subject, Dimension) else None
    scale, further_flags = options.scales.get("*"), ""
    try:
        # The judge may read fewer texts than `check` has read.
        labelled_set = read_labels(
            flags.file,
            map=options.mapping,
            dimensions=[name],
            texts=input_names,
            annotations=options.annotations,
            values=options.values,
        )
        split(labelled_set, seed=0)
        ratings = ratings_on(labelled_set, name)
        if subject is None:
            text_names = new_judge_texts(labelled_set, options.mapping)
            further_flags = missing_input_flag(labelled_set, text_names)
            if not (scale or name in labelled_set.words or usual_scale(ratings)):
                further_flags += f" --scale {ANY_SCALE}"
    except LabelError as error:
        reason = error.problems[0] if error.problems else error
        inputs_text = f"{name} reads {' and '.join(input_names)}. " if input_names else ""
        return "judge", f"{inputs_text}{reason}"
    lowest, highest = min(ratings), max(ratings)
    if subject and not (scale or subject.scale[0] <= lowest <= highest <= subject.scale[-1]):
        # The ratings exceed the scale of the catalogue's judge.
        scale = usual_scale(ratings) or (lowest // 1, -(-highest // 1))
    return COMMAND_TITLE, _command_text("--dimension", subject_text, flags, scale) + further_flags


def _command_text(
    subject_flag: str, subject_text: str, flags: Namespace, scale: Scale | None = None
) -> str:
    """Return a command that tunes this judge, and reads the labels as these flags do."""
    command = ["dspy-judges", "tune", subject_flag, subject_text, "--data", flags.file]
    if flags.annotations:
        command += ["--annotations", flags.annotations]
    # The mapping file that --write-map writes has the columns and the values.
    for map_argument in [str(flags.write_map)] if flags.write_map else flags.map:
        command += ["--map", map_argument]
    for values_argument in [] if flags.write_map else flags.values:
        command += ["--values", values_argument]
    if scale:
        command += ["--scale", f"{scale[0]:g}:{scale[1]:g}"]
    return shlex.join(command)
