"""The last lines of `check`: the command that tunes a judge on the labels of the file."""

import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dspy_judges.errors import JudgesError
from judges import catalog
from judges.labels.names import judge_name, map_flag
from judges.labels.options import ANY_SCALE, ReadOptions
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import STARTER_FILE_BY_NAME
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT
from judges.labels.types import LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from optimize.figures.as_text import command_text
from optimize.inputs.flags import usual_scale
from optimize.inputs.labelled import AnyLabels, ratings_on
from optimize.inputs.subjects import dimension_name, missing_input_flag

# A titled line that `check` prints: its title, and a sentence or a command.
TitledLine = tuple[str, str]
# The title of a line with a command. Such a line is not wrapped, so that it can be copied.
COMMAND_TITLE = "next"


def arguments_by_dimension(flags: Namespace) -> dict[str, str]:
    """Map each dimension that --dimension names to its argument: NAME or NAME=DEFINITION."""
    return {dimension_name(subject_text): subject_text for subject_text in flags.dimension or ()}


def dimensions_to_tune(labelled_set: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """Return the dimensions that flags name, else all; those that need no definition are first."""
    mapped_names = [name for name in options.mapping if name in labelled_set.dimensions]
    dimension_names = options.dimensions or mapped_names or labelled_set.dimensions
    known_names, words = catalog.SUBJECT_BY_NAME, labelled_set.words
    return sorted(dimension_names, key=lambda name: (name not in known_names, name not in words))


def next_step_lines(
    labelled_items: AnyLabels, flags: Namespace, options: ReadOptions
) -> Iterator[TitledLine]:
    """Yield the next command for these labels, or why no judge can be tuned on them yet."""
    if len(labelled_items.documents) < MIN_DOCUMENTS_TO_SPLIT or flags.data in STARTER_FILE_BY_NAME:
        return
    if SWAP_SAMPLE_COLUMN in labelled_items.reading.unread:
        yield "swap", "two judges differ on these rows: use verify --against OLD --changed FILE"
        return
    if isinstance(labelled_items, LabelledPairs):
        subject_text = "preference=which response is better"
        yield COMMAND_TITLE, _tune_command_text("pairwise", subject_text, flags)
        yield "define", "replace the definition by yours, or name a judge of `dspy-judges list`"
        return
    dimension = dimensions_to_tune(labelled_items, options)[0]
    ratings = ratings_on(labelled_items, dimension)
    if len({*ratings}) < 2:
        return  # no judge can be tuned, and `check` prints a note that says so
    argument, name, map_text = (
        arguments_by_dimension(flags).get(dimension, dimension),
        dimension,
        "",
    )
    is_defined = dimension in catalog.SUBJECT_BY_NAME or argument != dimension
    is_verdict = dimension in labelled_items.words
    if not (is_defined or VALID_NAME.match(judge_name(dimension))):
        # A judge's name must have Latin letters, so the command has another name for the column.
        name, map_text = "quality", f" {map_flag('quality', [dimension])}"
        columns_by_name = {**options.columns_by_name, name: dimension}
        options = replace(options, columns_by_name=columns_by_name)
    draft = f"{name}=one line that says what earns {'a pass' if is_verdict else 'a high rating'}"
    # A judge of pass or fail can do without a definition.
    needs_draft = not is_defined and (name != dimension or not is_verdict)
    try:
        command = _tune_command(draft if needs_draft else argument, ratings, flags, options)
    except JudgesError as error:
        yield "judge", str(error)
        return
    yield COMMAND_TITLE, command + map_text
    if not is_defined:
        advice = "your own line there" if needs_draft else f"--dimension {shlex.quote(draft)}"
        yield "define", f"a definition is worth about as much as tuning; write {advice}"


def _tune_command(
    subject_text: str, ratings: Sequence[float], flags: Namespace, options: ReadOptions
) -> str:
    """Return a command that can start a run; raises JudgesError if no run can start."""
    # These imports are slow, and a file with problems does not need them.
    from optimize.tuning.preparation import prepare_run
    from optimize.tuning.settings import Settings

    fitting_scale, errors = usual_scale(ratings), list[JudgesError]()
    given_scales = [f"{lowest:g}:{highest:g}" for lowest, highest in options.scales.values()]
    fitting_text = f"{fitting_scale[0]}:{fitting_scale[1]}" if fitting_scale else ANY_SCALE
    for scale in given_scales or (None, fitting_text, ANY_SCALE):
        settings = Settings(
            dimension=subject_text,
            data=flags.data,
            map=options.mapping,
            values=options.values,
            annotations=flags.annotations,
            scale=scale,
        )
        try:
            run = prepare_run(settings)
        except JudgesError as error:
            errors.append(error)
            continue
        command = _tune_command_text("dimension", subject_text, flags, scale)
        if subject_text not in catalog.SUBJECT_BY_NAME:
            command += missing_input_flag(run.labelled_items, run.subject.texts)
        return command
    raise errors[0]


def _tune_command_text(
    subject_flag: str, subject_text: str, flags: Namespace, scale: str | None = None
) -> str:
    """Return a command that tunes a judge, with the flags by which `check` read the labels."""
    # The mapping file that --write-map writes has the arguments of --map and --values.
    values = {
        subject_flag: subject_text,
        "data": flags.data,
        "annotations": flags.annotations,
        "map": str(flags.write_map) if flags.write_map else flags.map,
        "values": None if flags.write_map else flags.values,
        "scale": scale,
    }
    return command_text("tune", **values)
