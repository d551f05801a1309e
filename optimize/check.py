"""The command `check`: print what a label file holds and what is wrong with it."""

import shlex
import textwrap
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain, filterfalse
from pathlib import Path

from dspy_judges.errors import JudgesError
from judges import catalog
from judges.cli.flags import READING_FLAGS, Parser, add_flags
from judges.labels.cells import without_keys
from judges.labels.columns import NESTED_COLUMNS
from judges.labels.names import is_source_or_output, judge_name, map_flag
from judges.labels.options import ANY_SCALE, SCALE_KEY, VALUES_KEY, ReadOptions
from judges.labels.preparation import SWAP_SAMPLE_COLUMN
from judges.labels.readers import STARTER_FILE_BY_NAME, check_file
from judges.labels.roles import RESPONSE_NAMES
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READABLE_ENDINGS
from judges.tables.problems import Problem, count_text, problem_lines
from judges.terminal import DONE_EXIT_CODE, FAILED_EXIT_CODE, wrap_lines
from optimize.figures.as_json import to_json
from optimize.figures.as_text import command_text
from optimize.inputs.flags import CommandOutcome, parse_scale, run_and_print, usual_scale
from optimize.inputs.labelled import AnyLabels, LabelSource, ratings_on
from optimize.inputs.subjects import (
    dimension_name,
    missing_input_flag,
    new_judge_texts,
    shared_texts,
    unread_columns,
)

# A titled line: its title, and a sentence or a command.
TitledLine = tuple[str, str]
# The title of a line with a command. Such a line is not wrapped, so that it can be copied.
COMMAND_TITLE = "next"
# If one of 150 documents has a third of the rows, 95 % intervals of rates have 85 % coverage.
MAX_DOCUMENT_SHARE = 0.2
ABOUT = f"""\
Print what a label file holds, and every problem in it. Files are
{READABLE_ENDINGS}, or hf:owner/name.

A row is one output: id, group (its document's id), system, the texts that a
judge reads (document, summary, ...), and one column of ratings per dimension,
or ratings: {{dimension: number}}. Pairs have response_a, response_b and votes."""
EXAMPLES = """\
examples:
  dspy-judges check labels.csv --map relevance=my_column --scale 1-5
  dspy-judges check labels.csv --map relevance=Anna,Ben --write-map map.yaml
  dspy-judges check labels.csv --map map.yaml"""


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, _check)


def parser() -> Parser:
    command_parser = Parser(prog="dspy-judges check", description=ABOUT, epilog=EXAMPLES)
    add = command_parser.add_argument
    add("data", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(STARTER_FILE_BY_NAME)}")
    add_flags(command_parser, *READING_FLAGS, "--annotations", "--json")
    help_text = "read only labels on this dimension, which the file must have; repeatable"
    add_flags(command_parser, "--dimension", action="append", help=help_text)
    help_text = "the scale that people used, as in 1-5 (default: any); ratings outside are problems"
    add_flags(command_parser, "--scale", help=help_text)
    help_text = "write how the columns were read to this file, which every --map takes"
    add("--write-map", type=Path, metavar="FILE.yaml", help=help_text)
    return command_parser


def _check(flags: Namespace) -> CommandOutcome:
    """Read the file, and return its problems; if it has none, what was read and what to do next."""
    options = _read_options(flags)
    labels, problems = check_file(flags.data, options)
    notes, capacity_by_heading = list[str](), dict[str, str]()
    lines: Iterable[str] = _problem_lines(problems)
    if labels is not None:
        notes = [*labels.notes, *_dimension_notes(labels), *_document_notes(labels)]
    if labels is not None and not problems:
        # This import is slow, and a file with problems does not need it.
        from optimize.report.capacity import capacity_texts

        label_name = "margin for A"
        if isinstance(labels, LabelledSet):
            label_name = dimensions_to_tune(labels, options)[0]
        capacity_by_heading = capacity_texts(labels, label_name)
        if flags.write_map is not None:
            write_atomically(flags.write_map, mapping_yaml(labels.reading, options).encode())
        reading_lines = [*_reading_lines(labels, options), *(("note", note) for note in notes)]
        next_lines = next_step_lines(labels, flags, options)
        lines = chain(
            wrap_lines(f"{Path(flags.data).stem}: no problem in {_counts_text(labels)}"),
            _wrap_titled_lines(reading_lines),
            [""],
            _wrap_titled_lines(chain(capacity_by_heading.items(), next_lines)),
        )
    json_report = {
        "file": flags.data,
        "n_problems": len(problems),
        "problems": [asdict(problem) for problem in problems],
        "notes": notes,
        "reading": None if labels is None else asdict(labels.reading),
        "bearing": capacity_by_heading,
    }
    exit_code = FAILED_EXIT_CODE if problems else DONE_EXIT_CODE
    return CommandOutcome(to_json(json_report, None), lines, exit_code=exit_code)


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem, with the rows that have it, and the number of problems."""
    lines, n_text = problem_lines(problems), count_text(len(problems), "problem")
    return [*lines, n_text if len(lines) == len(problems) else f"{n_text}; --json prints each row"]


def _read_options(flags: Namespace) -> ReadOptions:
    label_source = LabelSource.from_flags(flags)
    dimensions, scale = [*arguments_by_dimension(flags)] or None, parse_scale(label_source.scale)
    scales = {"*": scale} if scale else {}
    return replace(label_source.options, dimensions=dimensions, scales=scales)


def _dimension_notes(labels: AnyLabels) -> Iterator[str]:
    """Yield notes on dimensions with labels of two values, if some are left out or all equal."""
    if isinstance(labels, LabelledSet):
        for dimension in sorted(labels.words.keys() & {*labels.dimensions}):
            yield from with_ratings(labels, dimension).notes[len(labels.notes) :]


def _document_notes(labels: AnyLabels) -> Iterator[str]:
    """Yield a note if one document has so many rows that intervals are too narrow."""
    n_all_rows = len(labels.items)
    n_rows_by_document = Counter(item.document_id for item in labels.items)
    for document, n_rows in n_rows_by_document.most_common(1):
        has_large_share = n_rows > MAX_DOCUMENT_SHARE * n_all_rows
        if has_large_share and len(n_rows_by_document) >= MIN_DOCUMENTS_TO_SPLIT:
            yield (
                f"{n_rows:,} of {count_text(n_all_rows, 'row')} are of document {document!r}, so "
                "intervals are too narrow; if it is several documents, give each of them a group"
            )


def mapping_yaml(reading: FileReading, options: ReadOptions) -> str:
    """Return the text of a mapping file for --map: columns, values of words, and the scale."""
    import yaml

    mapping: dict[str, object] = {}
    ratings = without_keys(reading.ratings, NESTED_COLUMNS)
    for name, columns in {**reading.rows, **ratings}.items():
        mapping[name] = columns[0] if len(columns) == 1 else [*columns]
    # A judge reads every text in a mapping, so texts without a usual name are not in the mapping.
    unusual_texts = [*filterfalse(is_source_or_output, reading.texts)]
    mapping |= {**without_keys(reading.texts, unusual_texts), **options.mapping}
    if options.values:
        word_values = options.values.items()
        mapping[VALUES_KEY] = {word: "" if value is None else value for word, value in word_values}
    for lowest, highest in options.scales.values():
        mapping[SCALE_KEY] = f"{lowest:g}:{highest:g}"
    return str(yaml.safe_dump(mapping, allow_unicode=True, sort_keys=False))


def _counts_text(labels: AnyLabels) -> str:
    n_items, n_documents, n_systems = map(len, (labels.items, labels.documents, labels.systems))
    item_noun = "pair" if labels.is_pairwise else "output"
    text = f"{count_text(n_items, item_noun)} for {count_text(n_documents, 'document')}"
    return f"{text} by {count_text(n_systems, 'system')}" if n_systems else text


def _reading_lines(labels: AnyLabels, options: ReadOptions) -> Iterator[TitledLine]:
    """Yield lines on the labels and columns that were read, and on the columns that were not."""
    yield "documents", labels.grouped_by
    reading = labels.reading
    read_texts = [*reading.texts]
    if isinstance(labels, LabelledSet):
        for dimension in labels.dimensions:
            yield "ratings", f"{dimension}: {_ratings_text(labels, dimension)}"
        with suppress(LabelError):  # it is not clear which text is judged, so all are listed
            read_texts = new_judge_texts(labels, options)
    else:
        read_texts = [*shared_texts(labels), *RESPONSE_NAMES]
        n_by_vote = Counter(vote for pair in labels.pairs for vote in pair.votes)
        ties_text = f"{count_text(n_by_vote['tie'], 'tie')}, which count half for each side"
        yield "votes", f"{n_by_vote['A']:,} for A, {n_by_vote['B']:,} for B, and {ties_text}"
    texts = {name: column for name, column in reading.texts.items() if name in read_texts}
    column_phrases = [_columns_text(name, columns) for name, columns in reading.rows.items()]
    column_phrases += [f"text {_columns_text(name, [column])}" for name, column in texts.items()]
    column_phrases += [f"ratings {_columns_text(*ratings)}" for ratings in reading.ratings.items()]
    yield "read", "; ".join(column_phrases)
    if reading.comments:
        comment_columns = ", ".join(reading.comments)
        yield "comments", f"{comment_columns}: people's comments on their labels; tuning uses them"
    if unread_text := unread_columns(reading, texts):
        yield "not read", unread_text


def _columns_text(name: str, columns: Sequence[str]) -> str:
    """Return "NAME from COLUMNS", or only "NAME" if the only column has this name."""
    return name if [*columns] == [name] else f"{name} from {' and '.join(columns)}"


def _ratings_text(labelled_set: LabelledSet, dimension: str) -> str:
    """Return a phrase with the range of ratings, and the numbers of outputs and annotators."""
    ratings = ratings_on(labelled_set, dimension)
    rated_outputs = [output for output in labelled_set.outputs if dimension in output.ratings]
    text = f"{min(ratings):g} to {max(ratings):g}, {count_text(len(rated_outputs), 'output')} rated"
    annotators_by_output = [output.annotators.get(dimension, ()) for output in rated_outputs]
    if n_with_annotators := sum(map(bool, annotators_by_output)):
        if n_with_annotators < len(rated_outputs):
            text += f", {n_with_annotators:,} of them"
        annotators = {*chain.from_iterable(annotators_by_output)}
        text += f" by {count_text(len(annotators), 'annotator')}"
    if dimension not in labelled_set.words:
        return text
    labels = [labelled_set.label(output, dimension) for output in rated_outputs]
    count_phrases = []
    for label, word in zip((1.0, 0.0), labelled_set.words[dimension], strict=True):
        # If the words are 1 and 0, write "12 times 1", because "12 1" would be unclear.
        times_text = "times " if word.isdigit() else ""
        count_phrases.append(f"{labels.count(label):,} {times_text}{word}")
    return f"{text}: {', '.join(count_phrases)}"


def _wrap_titled_lines(titled_lines: Iterable[TitledLine]) -> Iterator[str]:
    """Yield lines for the terminal: the titles on the left, and the wrapped texts beside them."""
    for title, text in titled_lines:
        if title == COMMAND_TITLE:
            yield f"{title:<11}{text}"
        else:
            short_text = textwrap.shorten(text, 2000, placeholder=" ...")
            yield from wrap_lines(short_text, title=f"{title:<11}")


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
    argument = arguments_by_dimension(flags).get(dimension, dimension)
    name, map_text = dimension, ""
    is_defined = dimension in catalog.SUBJECT_BY_NAME or argument != dimension
    is_verdict = dimension in labelled_items.words
    if not (is_defined or VALID_NAME.match(judge_name(dimension))):
        # A judge's name must have Latin letters, so the command has another name for the column.
        name, map_text = "quality", f" {map_flag('quality', [dimension])}"
        columns_by_name = {**options.columns_by_name, name: dimension}
        options = replace(options, columns_by_name=columns_by_name)
    best_label = "a pass" if is_verdict else "a high rating"
    placeholder = f"{name}=one line that says what earns {best_label}"
    # A judge of pass or fail can do without a definition.
    needs_definition = not is_defined and (name != dimension or not is_verdict)
    try:
        subject_text = placeholder if needs_definition else argument
        command = _tune_command(subject_text, ratings, flags, options)
    except JudgesError as error:
        yield "judge", str(error)
        return
    yield COMMAND_TITLE, command + map_text
    if not is_defined:
        flag_text = f"--dimension {shlex.quote(placeholder)}"
        advice = "your own line there" if needs_definition else flag_text
        yield "define", f"a definition is worth about as much as tuning; write {advice}"


def _tune_command(
    subject_text: str, ratings: Sequence[float], flags: Namespace, options: ReadOptions
) -> str:
    """Return a command that can start a run; raises JudgesError if no run can start."""
    # These imports are slow, and a file with problems does not need them.
    from optimize.tuning.preparation import prepare_run
    from optimize.tuning.settings import Settings

    labels_scale, errors = usual_scale(ratings), list[JudgesError]()
    user_scales = [f"{lowest:g}:{highest:g}" for lowest, highest in options.scales.values()]
    usual_scale_text = f"{labels_scale[0]}:{labels_scale[1]}" if labels_scale else ANY_SCALE
    for scale in user_scales or (None, usual_scale_text, ANY_SCALE):
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
