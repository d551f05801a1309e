"""The command `check`: print what a label file holds and what is wrong with it."""

import argparse
import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain, filterfalse, starmap
from pathlib import Path

from judges.cli.flags import Parser, read_map_flags
from judges.labels.cells import without_keys
from judges.labels.columns import NESTED_COLUMNS
from judges.labels.flags import SCALE_KEY, VALUES_KEY
from judges.labels.names import is_source_or_output
from judges.labels.pairs import RESPONSE_NAMES
from judges.labels.ratings import ReadOptions
from judges.labels.readers import STARTER_FILE_BY_NAME, check_file, read_options
from judges.labels.splits import MIN_DOCUMENTS_TO_SPLIT, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READABLE_ENDINGS
from judges.tables.problems import Problem, count_text
from judges.terminal import DONE_EXIT_CODE, FAILED_EXIT_CODE, print_output, run_command
from optimize.figures.as_text import LINE_WIDTH, wrap_lines
from optimize.inputs.flags import (
    ANNOTATIONS_HELP,
    add_reading_flags,
    find_label_scale,
    parse_label_scale,
    read_word_values,
)
from optimize.inputs.labelled import AnyLabels
from optimize.inputs.subjects import (
    shared_texts,
    text_names_for_judge,
    unread_columns,
)
from optimize.inputs.tune_command import (
    COMMAND_TITLE,
    Fact,
    dimension_specs,
    dimensions_to_tune,
    next_step_facts,
)

_MAX_PROBLEMS_OF_A_KIND = 10
# With a third of the rows in one of 150 documents, 95 % intervals of rates have 85 % coverage.
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
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(STARTER_FILE_BY_NAME)}")
    add_reading_flags(command_parser)
    help_text = "read only labels on this dimension, which the file must have; repeatable"
    add("--dimension", action="append", metavar="NAME", help=help_text)
    help_text = "the scale that people used, as in 1-5; a rating outside it is a problem (none)"
    add("--scale", metavar="LOW-HIGH", help=help_text)
    add("--annotations", metavar="FILE", help=ANNOTATIONS_HELP)
    help_text = "write how the columns were read as a mapping file, which --map takes everywhere"
    add("--write-map", type=Path, metavar="FILE.yaml", help=help_text)
    add("--json", action="store_true", help="print as JSON, for machines")
    return command_parser


def _check(flags: argparse.Namespace) -> int:
    """Print the file's problems, or else what was read and what labels can show."""
    options = _read_options(flags)
    labelled, problems = check_file(flags.file, options)
    notes, capacity = list[str](), dict[str, str]()
    if labelled is not None:
        notes = [*labelled.notes, *_dimension_notes(labelled), *_document_notes(labelled)]
    if labelled is not None and not problems:
        # A slow import that a file with problems does not need.
        from optimize.measuring.capacity import capacity_texts

        name = "margin for A"
        if isinstance(labelled, LabelledSet):
            name = dimensions_to_tune(labelled, options)[0]
        capacity = capacity_texts(labelled, name)
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
        facts = [*_reading_facts(labelled, options.mapping), *(("note", note) for note in notes)]
        last_facts = [*capacity.items(), *next_step_facts(labelled, flags, options)]
        lines = [*wrap_lines(headline), *_fact_lines(facts), "", *_fact_lines(last_facts)]
        print_output("\n".join(lines))
    return FAILED_EXIT_CODE if problems else DONE_EXIT_CODE


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
    return [*lines, f"{count_text(len(problems), 'problem')}{remark}"]


def _read_options(flags: argparse.Namespace) -> ReadOptions:
    options = read_options(read_map_flags(flags.map), read_word_values(flags.values))
    bounds = parse_label_scale(find_label_scale(flags))
    return replace(
        options,
        dimensions=[*dimension_specs(flags)] or None,
        scales={"*": bounds} if bounds else {},
        annotations=flags.annotations,
    )


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
                f"{n:,} of {count_text(len(labelled.items), 'row')} are of document {document!r}, "
                "which makes intervals too narrow; if these are several documents, give each a "
                "group"
            )


def mapping_yaml(reading: FileReading, options: ReadOptions) -> str:
    """Return a mapping file for --map as YAML: columns, meaning of words, and scale."""
    import yaml

    content: dict[str, object] = {}
    for name, columns in {**reading.rows, **without_keys(reading.ratings, NESTED_COLUMNS)}.items():
        content[name] = columns[0] if len(columns) == 1 else [*columns]
    # A judge reads every text that a mapping names, so texts without a usual name are left out.
    unusual_texts = [*filterfalse(is_source_or_output, reading.texts)]
    content |= {**without_keys(reading.texts, unusual_texts), **options.mapping}
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
    documents = count_text(len(labelled.documents), "document")
    text = f"{count_text(len(labelled.items), noun)} for {documents}"
    return f"{text} by {count_text(len(labelled.systems), 'system')}" if labelled.systems else text


def _reading_facts(labelled: AnyLabels, mapping: Mapping[str, object]) -> Iterator[Fact]:
    """Yield lines on what was read from a file without problems, and what was not."""
    yield "documents", labelled.grouped_by
    reading, texts = labelled.reading, labelled.reading.texts
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            yield "ratings", f"{name}: {_ratings_text(labelled, name)}"
    else:
        n_by_vote = Counter(vote for pair in labelled.pairs for vote in pair.votes)
        ties = f"{count_text(n_by_vote['tie'], 'tie')}, which count half for each side"
        yield "votes", f"{n_by_vote['A']:,} for A, {n_by_vote['B']:,} for B, and {ties}"
    # List the texts that a judge without a definition reads, or all texts if several may be the
    # judged output.
    with suppress(LabelError):
        if isinstance(labelled, LabelledSet):
            read_names = text_names_for_judge(labelled, mapping)
        else:
            read_names = [*shared_texts(labelled), *RESPONSE_NAMES]
        texts = {name: texts[name] for name in texts if name in read_names}
    phrases = [
        *starmap(_columns_text, reading.rows.items()),
        *(f"text {_columns_text(name, (column,))}" for name, column in texts.items()),
        *(f"ratings {_columns_text(*entry)}" for entry in reading.ratings.items()),
    ]
    yield "read", "; ".join(phrases)
    if reading.comments:
        comment_columns = ", ".join(reading.comments)
        yield "comments", f"{comment_columns}: what people wrote on their labels; tuning uses it"
    if unread := unread_columns(reading, texts):
        yield "not read", unread


def _columns_text(name: str, columns: tuple[str, ...]) -> str:
    """Return "NAME from COLUMNS", or only the name if it is the column's name, too."""
    return name if columns == (name,) else f"{name} from {' and '.join(columns)}"


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """Return a phrase with the range of ratings, and the numbers of outputs and annotators."""
    outputs = [output for output in labelled.outputs if dimension in output.ratings]
    ratings = [rating for output in outputs for rating in output.ratings[dimension]]
    annotators_by_output = [output.annotators.get(dimension, ()) for output in outputs]
    n_outputs, n_known = len(outputs), sum(map(bool, annotators_by_output))
    text = f"{min(ratings):g} to {max(ratings):g}, {count_text(n_outputs, 'output')} rated"
    if n_known:
        share_text = f", {n_known:,} of them" if n_known < n_outputs else ""
        n_annotators = count_text(len({*chain.from_iterable(annotators_by_output)}), "annotator")
        text += f"{share_text} by {n_annotators}"
    if dimension in labelled.words:
        labels = [labelled.label(output, dimension) for output in outputs]
        counts = zip((labels.count(1.0), labels.count(0.0)), labelled.words[dimension], strict=True)
        # If the words are 1 and 0, write "12 times 1", because "12 1" would be unclear.
        phrases = (f"{n:,} {'times ' * word.isdigit()}{word}" for n, word in counts)
        text += f": {', '.join(phrases)}"
    return text


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
