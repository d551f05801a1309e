"""The command `check`: print the content and the problems of a label file, and write a mapping."""

import argparse
import json
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, filterfalse, starmap
from pathlib import Path

from judges import catalog
from judges.cli.flags import Parser, mapping
from judges.dimension import Dimension
from judges.labels.cells import without_keys
from judges.labels.columns import NESTED_COLUMNS
from judges.labels.flags import ANY_SCALE, SCALE_KEY, VALUES_KEY
from judges.labels.names import is_source_or_output, judge_name, map_flag
from judges.labels.pairs import RESPONSES
from judges.labels.ratings import ReadOptions
from judges.labels.readers import SHIPPED_NAMES, check_file, read_labels, read_options
from judges.labels.splits import MIN_UNITS_TO_SPLIT, split, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import NAME
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READ_ENDINGS
from judges.tables.problems import Problem, count
from judges.terminal import print_output, run_command
from optimize.figures.as_text import WIDTH
from optimize.inputs.flags import (
    add_turns_flag,
    bounds_of,
    fitting_scale,
    scale_of_labels,
    values_of,
)
from optimize.inputs.labelled import Labelled, needs_any_scale
from optimize.inputs.subjects import input_flag, judged_texts, shared_texts, unread_text
from optimize.report.answer import Fact

# A line of the output: a title of one word, and a sentence or a command.
COMMAND = "next"  # this title marks a command, which stays on one line so that it can be copied
_MAX_PROBLEMS_OF_A_KIND = 10
ABOUT = f"""\
Print what a label file holds, and every problem in it. Files are
{READ_ENDINGS}, or hf:owner/name.

A row is one output: id, group (its document's id), system, the texts that a
judge reads (document, summary, ...), and one column of ratings per dimension,
or ratings: {{dimension: number}}. Pairs have response_a, response_b and votes."""
EXAMPLES = """\
examples:
  dspy-judges check labels.csv --map relevance=my_column --scale 1-5
  dspy-judges check labels.csv --map relevance=Anna,Ben --write-map map.yaml
  dspy-judges check labels.csv --map map.yaml"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `dspy-judges check`; returns the exit code, which is 1 if the file has problems."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = parser().parse_args(words[1:] if words[:1] == ["check"] else words)
    return run_command("dspy-judges check", lambda: _check(flags))


def parser() -> argparse.ArgumentParser:
    command = Parser(prog="dspy-judges check", description=ABOUT, epilog=EXAMPLES)
    add = command.add_argument
    add_list = partial(add, action="append", default=[])
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(SHIPPED_NAMES)}")
    help_text = "the column for a text, a rating, id, group or system; or FILE.yaml; repeatable"
    add_list("--map", metavar="NAME=COLUMN,...", help=help_text)
    add_turns_flag(command)
    help_text = (
        "the number that a word counts, as in up=1,down=0 or n/a= (no label), or a vote: left=A"
    )
    add_list("--values", metavar="WORD=NUMBER,...", help=help_text)
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
    return command


def _check(flags: argparse.Namespace) -> int:
    """Print the file's problems; without problems, print what was read and what labels can show.

    Returns the exit code, which is 1 if the file has problems.
    """
    options = _options(flags)
    labelled, problems = check_file(flags.file, options)
    notes = [] if labelled is None else [*labelled.notes, *_set_notes(labelled)]
    capacity: dict[str, str] = {}
    if labelled is not None and not problems:
        # A slow import that a file with problems does not need.
        from optimize.measuring.capacity import capacity_of

        measured_name = "margin for A"
        if isinstance(labelled, LabelledSet):
            measured_name = _dimensions_of(labelled, options)[0]
        capacity = capacity_of(labelled, measured_name)
        if flags.write_map is not None:
            write_atomically(flags.write_map, map_file(labelled.reading, options).encode())
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
        facts = [*_facts(labelled, options.map), *(("note", note) for note in notes)]
        last_facts = [*capacity.items(), *_next_facts(labelled, flags, options)]
        lines = [*textwrap.wrap(headline, WIDTH), *_lines(facts), "", *_lines(last_facts)]
        print_output("\n".join(lines))
    return 1 if problems else 0


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Lines for the first ten problems of each kind and column, and the number of all problems."""
    counts = Counter[tuple[str, str | None]]()
    lines = []
    for problem in problems:
        counts[problem.kind, problem.field] += 1
        if counts[problem.kind, problem.field] <= _MAX_PROBLEMS_OF_A_KIND:
            lines.append(str(problem))
    n_more = len(problems) - len(lines)
    remark = (
        f", of which {n_more:,} like these are left out here (--json has all)" if n_more else ""
    )
    return [*lines, f"{count(len(problems), 'problem')}{remark}"]


def _options(flags: argparse.Namespace) -> ReadOptions:
    options = read_options(mapping(flags.map), values_of(flags.values))
    bounds = bounds_of(scale_of_labels(flags))
    return replace(
        options,
        dimensions=[*_dimension_values(flags)] or None,
        scales={"*": bounds} if bounds else {},
        annotations=flags.annotations,
    )


def _dimension_values(flags: argparse.Namespace) -> dict[str, str]:
    """The dimensions that --dimension names, each with the flag's value NAME or NAME=DEFINITION."""
    return {value.partition("=")[0].strip(): value for value in flags.dimension or ()}


def _set_notes(labelled: Labelled) -> list[str]:
    """Notes on all labels of a dimension together: some are left out, or all are equal."""
    if isinstance(labelled, LabelledPairs):
        return []
    # `with_ratings` adds such notes only to labels with two values.
    dimensions = sorted(labelled.words.keys() & {*labelled.dimensions})
    n_before = len(labelled.notes)
    return [note for name in dimensions for note in with_ratings(labelled, name).notes[n_before:]]


def map_file(reading: FileReading, options: ReadOptions) -> str:
    """The YAML text of a mapping file for --map: columns, the meaning of words, and the scale."""
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


def _counts_text(labelled: Labelled) -> str:
    noun = "pair" if isinstance(labelled, LabelledPairs) else "output"
    text = f"{count(len(labelled.items), noun)} for {count(len(labelled.documents), 'document')}"
    return f"{text} by {count(len(labelled.systems), 'system')}" if labelled.systems else text


def _facts(labelled: Labelled, mapping: Mapping[str, object]) -> Iterator[Fact]:
    """Yield lines on what was read from a file without problems, and what was not."""
    yield "documents", labelled.grouped_by
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            yield "ratings", f"{name}: {_ratings_text(labelled, name)}"
    else:
        n_by_vote = Counter(vote for pair in labelled.pairs for vote in pair.votes)
        ties = f"{count(n_by_vote['tie'], 'tie')}, which count half for each side"
        yield "votes", f"{n_by_vote['A']:,} for A, {n_by_vote['B']:,} for B, and {ties}"
    reading = labelled.reading
    texts = reading.texts
    # A judge without a definition only reads some texts, unless it is unclear which one is judged.
    with suppress(LabelError):
        if isinstance(labelled, LabelledSet):
            read_names = judged_texts(labelled, mapping)
        else:
            read_names = [*shared_texts(labelled), *RESPONSES]
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
    if unread := unread_text(reading, texts):
        yield "not read", unread


def _reading_text(name: str, columns: tuple[str, ...]) -> str:
    return name if columns == (name,) else f"{name} from {' and '.join(columns)}"


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """A phrase on a dimension: its range of ratings, its rated outputs, and its annotators."""
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
    """The dimensions that the user named, else all; those that can be tuned at once come first."""
    dimensions_in_map = [name for name in options.map if name in labelled.dimensions]
    names = options.dimensions or dimensions_in_map or labelled.dimensions
    return sorted(names, key=lambda name: (name not in catalog.names(), name not in labelled.words))


def _next_facts(
    labelled: Labelled, flags: argparse.Namespace, options: ReadOptions
) -> Iterator[Fact]:
    """Yield the next command for these labels, or what the user has to define before tuning."""
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT or flags.file in SHIPPED_NAMES:
        return
    if isinstance(labelled, LabelledPairs):
        words = ["--pairwise", "preference=which response is better", "--data", flags.file]
        yield COMMAND, shlex.join(["dspy-judges", "tune", *words, *_reading_flags(flags, None)])
        yield "define", "write your own definition there, or a comparison of `dspy-judges list`"
        return
    dimensions, flag_values = _dimensions_of(labelled, options), _dimension_values(flags)
    defined = [
        name for name in dimensions if name in catalog.names() or "=" in flag_values.get(name, "")
    ]
    two_valued = _names_without_definition(labelled, dimensions)
    if names := defined or two_valued:
        fact = _tune_fact(labelled, names[0], flag_values.get(names[0], names[0]), flags, options)
        advice = f"write --dimension {shlex.quote(_definition(names[0], 'a pass'))}"
    else:
        column = dimensions[0]
        name, name_flag, earned = judge_name(column), "", "a high rating"
        if not NAME.match(name):  # a judge cannot have the column's name
            name, name_flag = "quality", f" {map_flag('quality', [column])}"
            options = replace(options, map={**options.map, name: column})
        if column in labelled.words:
            earned = "a pass"
        fact = _tune_fact(labelled, name, _definition(name, earned), flags, options)
        if fact and fact[0] == COMMAND:
            fact = COMMAND, f"{fact[1]}{name_flag}"
        advice = f"write your own line there{_catalogue_advice(labelled, column)}"
    if fact:
        yield fact
        if fact[0] == COMMAND and not defined:
            yield "define", f"a definition is worth about as much as tuning; {advice}"


def _definition(name: str, earned: str) -> str:
    """The value of --dimension that defines a judge, for the user to complete."""
    return f"{name}=one line that says what earns {earned}"


def _catalogue_advice(labelled: LabelledSet, name: str) -> str:
    """How to use a catalogue judge for the ratings; "" if the file lacks its texts."""
    if not labelled.reading.texts.keys() >= {*catalog.find("relevance").texts}:
        return ""
    return f"; or say which judge's rating it is, as in {map_flag('relevance', [name])}"


def _names_without_definition(labelled: LabelledSet, names: Sequence[str]) -> list[str]:
    """Names for judges of labels with two values; these can be tuned without a definition."""
    judge_names = [judge_name(name) for name in names if name in labelled.words]
    return [name for name in judge_names if NAME.match(name) and name not in catalog.names()]


def _tune_fact(
    labelled: LabelledSet, name: str, spec: str, flags: argparse.Namespace, options: ReadOptions
) -> Fact | None:
    """The command that tunes a judge on these labels, or why the labels cannot be split.

    Returns None if all labels are the same, because a note already says so.
    """
    dimension = catalog.find(name) if name in catalog.names() else None
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
        scale = _scale_beyond(dimension.scale, [*ratings])
    command_words = ["dspy-judges", "tune", "--dimension", spec, "--data", flags.file]
    command = shlex.join([*command_words, *_reading_flags(flags, scale)])
    if dimension is None:
        try:
            flag = input_flag(outputs, judged_texts(outputs, options.map))
        except LabelError as error:
            return "judge", str(error)
        command += f" {flag}" if flag else ""
        if not scale and needs_any_scale(outputs, name):
            command += f" --scale {ANY_SCALE}"
    return COMMAND, command


def _scale_beyond(scale: Sequence[int], ratings: Sequence[float]) -> tuple[float, float] | None:
    """A scale that fits ratings outside the judge's scale; None if all ratings are on it."""
    low, high = min(ratings), max(ratings)
    if scale[0] <= low and high <= scale[-1]:
        return None
    return fitting_scale(ratings) or (low // 1, -(-high // 1))


def _reading_flags(flags: argparse.Namespace, scale: tuple[float, float] | None) -> list[str]:
    """The flags with which another command reads the labels in the same way."""
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


def _lines(facts: Iterable[Fact]) -> Iterator[str]:
    for title, text in facts:
        if title == COMMAND:
            yield f"{title:<11}{text}"
        else:
            yield from textwrap.wrap(
                textwrap.shorten(text, 2000, placeholder=" ..."),
                WIDTH,
                initial_indent=f"{title:<11}",
                subsequent_indent=" " * 11,
                break_on_hyphens=False,
            )
