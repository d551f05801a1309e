"""The command `check`: print the content and the problems of a label file, and write a mapping."""

import argparse
import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, filterfalse, starmap
from pathlib import Path

from judges import catalog
from judges.cli.flags import Parser, read_map_flags
from judges.dimension import Dimension
from judges.labels.cells import without_keys
from judges.labels.columns import NESTED_COLUMNS
from judges.labels.flags import ANY_SCALE, SCALE_KEY, VALUES_KEY
from judges.labels.names import is_source_or_output, judge_name, map_flag
from judges.labels.pairs import RESPONSE_NAMES
from judges.labels.ratings import ReadOptions
from judges.labels.readers import STARTER_FILE_BY_NAME, check_file, read_labels, read_options
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, split, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import VALID_NAME
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READABLE_ENDINGS
from judges.tables.problems import Problem, count
from judges.terminal import print_output, run_command
from optimize.figures.as_text import LINE_WIDTH
from optimize.inputs.flags import (
    add_turns_flag,
    narrowest_scale,
    scale_bounds,
    scale_of_labels,
    word_values,
)
from optimize.inputs.labelled import AnyLabels, needs_any_scale
from optimize.inputs.subjects import (
    missing_input_flag,
    shared_texts,
    text_names_for_judge,
    unread_columns,
)
from optimize.report.answer import Fact

# The title of a line with a command, which is not wrapped so that it can be copied.
COMMAND_TITLE = "next"
_MAX_PROBLEMS_OF_A_KIND = 10
# With a third of the rows in one of 150 documents, 95 % intervals of rates held in 85 % of draws.
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
    """Run `dspy-judges check`; returns the exit code, which is 1 if the file has problems."""
    flags = parser().parse_args(arguments)
    return run_command("dspy-judges check", lambda: _check(flags))


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(prog="dspy-judges check", description=ABOUT, epilog=EXAMPLES)
    add = command_parser.add_argument
    add_repeatable = partial(add, action="append", default=[])
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(STARTER_FILE_BY_NAME)}")
    help_text = "the column for a text, a rating, id, group or system; or FILE.yaml; repeatable"
    add_repeatable("--map", metavar="NAME=COLUMN,...", help=help_text)
    add_turns_flag(command_parser)
    help_text = (
        "the number that a word counts, as in up=1,down=0 or n/a= (no label), or a vote: left=A"
    )
    add_repeatable("--values", metavar="WORD=NUMBER,...", help=help_text)
    help_text = "read only labels on this dimension; there must be some; repeatable"
    add("--dimension", action="append", metavar="NAME", help=help_text)
    help_text = "the scale that people used, as in 1-5; a rating outside it is a problem (none)"
    add("--scale", metavar="LOW-HIGH", help=help_text)
    help_text = (
        "a long file (id, dimension, annotator, rating) whose ratings replace the file's own"
    )
    add("--annotations", metavar="FILE", help=help_text)
    help_text = "write how the columns were read as a mapping file, which --map takes everywhere"
    add("--write-map", type=Path, metavar="FILE.yaml", help=help_text)
    add("--json", action="store_true", help="print as JSON, for machines")
    return command_parser


def _check(flags: argparse.Namespace) -> int:
    """Print the file's problems; without problems, print what was read and what labels can show.

    Returns the exit code, which is 1 if the file has problems.
    """
    options = _read_options(flags)
    labelled, problems = check_file(flags.file, options)
    notes = list[str]()
    if labelled is not None:
        notes = [*labelled.notes, *_dimension_notes(labelled), *_document_notes(labelled)]
    capacity: dict[str, str] = {}
    if labelled is not None and not problems:
        # A slow import that a file with problems does not need.
        from optimize.measuring.capacity import capacity_texts

        measured_name = "margin for A"
        if isinstance(labelled, LabelledSet):
            measured_name = _dimensions_of(labelled, options)[0]
        capacity = capacity_texts(labelled, measured_name)
        if flags.write_map is not None:
            write_atomically(flags.write_map, mapping_yaml(labelled.reading, options).encode())
    if flags.json:
        record = {
            "file": flags.file,
            "n_problems": len(problems),
            "problems": [asdict(problem) for problem in problems],
            "notes": notes,
            "reading": None if labelled is None else asdict(labelled.reading),
            "bearing": capacity,
        }
        print_output(json.dumps(record, indent=2))
    elif problems or labelled is None:
        print_output("\n".join(_problem_lines(problems)))
    else:
        headline = f"{Path(flags.file).stem}: no problem in {_counts_text(labelled)}"
        facts = [*_reading_facts(labelled, options.map), *(("note", note) for note in notes)]
        last_facts = [*capacity.items(), *_next_facts(labelled, flags, options)]
        head_lines = textwrap.wrap(headline, LINE_WIDTH)
        lines = [*head_lines, *_fact_lines(facts), "", *_fact_lines(last_facts)]
        print_output("\n".join(lines))
    return 1 if problems else 0


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Return lines for ten problems of each kind and column, and the number of all problems."""
    counts = Counter[tuple[str, str | None]]()
    lines = []
    for problem in problems:
        counts[problem.kind, problem.field] += 1
        if counts[problem.kind, problem.field] <= _MAX_PROBLEMS_OF_A_KIND:
            lines.append(str(problem))
    n_more = len(problems) - len(lines)
    remark = f", of which {n_more:,} like these are left out here (--json has all)" * bool(n_more)
    return [*lines, f"{count(len(problems), 'problem')}{remark}"]


def _read_options(flags: argparse.Namespace) -> ReadOptions:
    options = read_options(read_map_flags(flags.map), word_values(flags.values))
    bounds = scale_bounds(scale_of_labels(flags))
    return replace(
        options,
        dimensions=[*_dimension_values(flags)] or None,
        scales={"*": bounds} if bounds else {},
        annotations=flags.annotations,
    )


def _dimension_values(flags: argparse.Namespace) -> dict[str, str]:
    """Return the dimensions that --dimension names, each with its NAME or NAME=DEFINITION."""
    return {value.partition("=")[0].strip(): value for value in flags.dimension or ()}


def _dimension_notes(labelled: AnyLabels) -> list[str]:
    """Return notes on labels of two values: some are left out, or all are equal."""
    if isinstance(labelled, LabelledPairs):
        return []
    # `with_ratings` adds such notes only to labels with two values.
    dimensions = sorted(labelled.words.keys() & {*labelled.dimensions})
    n_before = len(labelled.notes)
    return [note for name in dimensions for note in with_ratings(labelled, name).notes[n_before:]]


def _document_notes(labelled: AnyLabels) -> Iterator[str]:
    """Yield a note if one document has so many rows that intervals are too narrow."""
    n_rows = Counter(item.document_id for item in labelled.items)
    for document, n in n_rows.most_common(1):
        if n > MAX_DOCUMENT_SHARE * len(labelled.items) and len(n_rows) >= MIN_DOCUMENTS_TO_SPLIT:
            yield (
                f"{n:,} of {count(len(labelled.items), 'row')} are of document {document!r}, which "
                "makes intervals too narrow; if they are of several documents, give each its group"
            )


def mapping_yaml(reading: FileReading, options: ReadOptions) -> str:
    """Return a mapping file for --map as YAML: columns, meaning of words, and scale."""
    import yaml

    content: dict[str, object] = {}
    for name, columns in {**reading.rows, **without_keys(reading.ratings, NESTED_COLUMNS)}.items():
        content[name] = columns[0] if len(columns) == 1 else [*columns]
    # A judge reads every text that a mapping names, so texts without a usual name are left out.
    unusual_texts = [*filterfalse(is_source_or_output, reading.texts)]
    content |= {**without_keys(reading.texts, unusual_texts), **options.map}
    if options.values:
        content[VALUES_KEY] = {
            word: "" if value is None else value for word, value in options.values.items()
        }
    for low, high in options.scales.values():
        content[SCALE_KEY] = f"{low:g}:{high:g}"
    yaml_text: str = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    return yaml_text


def _counts_text(labelled: AnyLabels) -> str:
    noun = "pair" if isinstance(labelled, LabelledPairs) else "output"
    text = f"{count(len(labelled.items), noun)} for {count(len(labelled.documents), 'document')}"
    return f"{text} by {count(len(labelled.systems), 'system')}" if labelled.systems else text


def _reading_facts(labelled: AnyLabels, mapping: Mapping[str, object]) -> Iterator[Fact]:
    """Yield lines on what was read from a file without problems, and what was not."""
    yield "documents", labelled.grouped_by
    reading, texts = labelled.reading, labelled.reading.texts
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            yield "ratings", f"{name}: {_ratings_text(labelled, name)}"
    else:
        n_by_vote = Counter(vote for pair in labelled.pairs for vote in pair.votes)
        ties = f"{count(n_by_vote['tie'], 'tie')}, which count half for each side"
        yield "votes", f"{n_by_vote['A']:,} for A, {n_by_vote['B']:,} for B, and {ties}"
    # A judge without a definition only reads some texts, unless it is unclear which one is judged.
    with suppress(LabelError):
        if isinstance(labelled, LabelledSet):
            read_names = text_names_for_judge(labelled, mapping)
        else:
            read_names = [*shared_texts(labelled), *RESPONSE_NAMES]
        texts = {name: texts[name] for name in texts if name in read_names}
    phrases = [
        *starmap(_reading_text, reading.rows.items()),
        *(f"text {_reading_text(name, (column,))}" for name, column in texts.items()),
        *(f"ratings {_reading_text(*entry)}" for entry in reading.ratings.items()),
    ]
    yield "read", "; ".join(phrases)
    if reading.comments:
        comment_columns = ", ".join(reading.comments)
        yield "comments", f"{comment_columns}: what people wrote on their labels; tuning uses it"
    if unread := unread_columns(reading, texts):
        yield "not read", unread


def _reading_text(name: str, columns: tuple[str, ...]) -> str:
    return name if columns == (name,) else f"{name} from {' and '.join(columns)}"


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """Return a phrase with the range of ratings, and the numbers of outputs and annotators."""
    outputs = [output for output in labelled.outputs if dimension in output.ratings]
    ratings = [rating for output in outputs for rating in output.ratings[dimension]]
    annotators_by_output = [output.annotators.get(dimension, ()) for output in outputs]
    n_outputs, n_known = len(outputs), sum(map(bool, annotators_by_output))
    text = f"{min(ratings):g} to {max(ratings):g}, {count(n_outputs, 'output')} rated"
    if n_known:
        share_text = f", {n_known:,} of them" if n_known < n_outputs else ""
        n_annotators = count(len({*chain.from_iterable(annotators_by_output)}), "annotator")
        text += f"{share_text} by {n_annotators}"
    if dimension in labelled.words:
        labels = [labelled.label(output, dimension) for output in outputs]
        counts = zip((labels.count(1.0), labels.count(0.0)), labelled.words[dimension], strict=True)
        # If the words are 1 and 0, write "12 times 1", because "12 1" would be unclear.
        phrases = (f"{n:,} {'times ' * word.isdigit()}{word}" for n, word in counts)
        text += f": {', '.join(phrases)}"
    return text


def _dimensions_of(labelled: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """Return the dimensions that the user named, else all; those that need no definition first."""
    dimensions_in_map = [name for name in options.map if name in labelled.dimensions]
    names = options.dimensions or dimensions_in_map or labelled.dimensions
    return sorted(names, key=lambda name: (name not in catalog.names(), name not in labelled.words))


def _next_facts(
    labelled: AnyLabels, flags: argparse.Namespace, options: ReadOptions
) -> Iterator[Fact]:
    """Yield the next command for these labels, or what the user has to define before tuning."""
    if len(labelled.documents) < MIN_DOCUMENTS_TO_SPLIT or flags.file in STARTER_FILE_BY_NAME:
        return
    if isinstance(labelled, LabelledPairs):
        words = ["--pairwise", "preference=which response is better", "--data", flags.file]
        words += _reading_flags(flags, None)
        yield COMMAND_TITLE, shlex.join(["dspy-judges", "tune", *words])
        yield "define", "write your own definition there, or a comparison of `dspy-judges list`"
        return
    dimensions, flag_values = _dimensions_of(labelled, options), _dimension_values(flags)
    defined = [
        name for name in dimensions if name in catalog.names() or "=" in flag_values.get(name, "")
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
        ratings = chain(*(output.ratings.get(name, ()) for output in labelled.outputs))
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


def _fact_lines(facts: Iterable[Fact]) -> Iterator[str]:
    for title, text in facts:
        if title == COMMAND_TITLE:
            yield f"{title:<11}{text}"
        else:
            yield from textwrap.wrap(
                textwrap.shorten(text, 2000, placeholder=" ..."),
                LINE_WIDTH,
                initial_indent=f"{title:<11}",
                subsequent_indent=" " * 11,
                break_on_hyphens=False,
            )
