"""`python -m data`: list the data sets that ship, show what a file holds, check a file."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from data.describe import (
    check_page,
    full_summary,
    list_page,
    problem_list,
    set_page,
    summary,
)
from data.flags import (
    Parser,
    add_version,
    join_scale,
    map_flags,
    map_option,
    read_mapping,
    read_values,
    scale_option,
    values_flags,
    values_option,
)
from data.next_step import NextStep, next_step
from data.ratings import ReadOptions
from data.readers import (
    SHIPPED_NAMES,
    check_either,
    check_pairs,
    refusal,
    starter,
    starter_pairs,
)
from data.splits import MIN_UNITS_TO_SPLIT, is_constant
from data.tables.formats import READ_ENDINGS
from data.tables.problems import DataError, Problem, Problems
from data.types import LabelError, LabelledPairs, LabelledSet
from data.values import Scale
from dspy_judges.commands import as_called


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 1 where a file has problems."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(join_scale(words))
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (head, less) has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # Reading says what is wrong as a problem; this is a result that found no room.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: stdout: {error.strerror or error}", file=sys.stderr)
        return 1
    except DataError as error:
        print(f"error: {as_called(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _list(options: argparse.Namespace) -> int:
    if options.file is not None:
        options.refuse(
            f"list takes no name; `python -m data show {options.file}` says what it holds"
        )
    records = [summary(labelled) for labelled in (starter(), starter_pairs())]
    print(json.dumps(records, indent=2) if options.json else list_page(records))
    return 0


def _show(options: argparse.Namespace) -> int:
    labelled, problems = _read(options)
    if labelled is None or problems:
        words = [*map_flags(read_mapping(options.map)), *values_flags(read_values(options.values))]
        raise refusal(problems, [options.file, *words])
    record = full_summary(labelled)
    print(json.dumps(record, indent=2) if options.json else set_page(record))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Print all problems, or what was read and what to know of it; 1 where there are problems."""
    labelled, problems = _read(options)
    notes: list[str] = []
    if labelled is not None and not problems:
        problems, notes = _check_set(labelled, options)
    if options.json:
        record = {
            "file": options.file,
            "n_problems": len(problems),
            "problems": [problem.record() for problem in problems],
            "notes": notes,
            "reading": None if labelled is None else asdict(labelled.reading),
        }
        print(json.dumps(record, indent=2))
    elif problems:
        print(as_called(problem_list(problems, every=options.all)))
    elif labelled is not None:
        print(check_page(labelled, notes, _next_step(labelled, options)))
    return 1 if problems else 0


def _check_set(
    labelled: LabelledSet | LabelledPairs, options: argparse.Namespace
) -> tuple[tuple[Problem, ...], list[str]]:
    """What no single row can be blamed for; a dimension that was asked for must rank something."""
    problems, notes = Problems(options.file), list(labelled.notes)
    if isinstance(labelled, LabelledSet):
        for name in filter(partial(is_constant, labelled), labelled.dimensions):
            notes.append(f"every rating on {name} is the same")
            if name in (options.dimension or ()):
                fault = "every rating is the same, so there is nothing to rank by"
                advice = "give outputs that people rated differently"
                problems.add("constant", fault, advice, field=name)
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT:
        notes.append(
            f"too few documents to tune on: {len(labelled.documents)}, and {MIN_UNITS_TO_SPLIT} "
            "are the least"
        )
    return tuple(problems), notes


def _read(
    options: argparse.Namespace,
) -> tuple[LabelledSet | LabelledPairs | None, tuple[Problem, ...]]:
    """Read a file, or a set that ships, as what it looks like."""
    shipped = SHIPPED_NAMES.get(options.file)
    path, mapping = shipped or options.file, read_mapping(options.map)
    labelled: LabelledSet | LabelledPairs | None
    if options.pairs:
        labelled, problems = check_pairs(
            path, map=mapping, texts=options.text, values=read_values(options.values)
        )
    else:
        read_options = ReadOptions(
            dimensions=options.dimension,
            scales=_scales(options),
            texts=options.text,
            values=read_values(options.values),
        )
        labelled, problems = check_either(
            path, map=mapping, options=read_options, annotations=options.annotations
        )
    if shipped is not None and labelled is not None:
        labelled = replace(labelled, name=options.file)
    return labelled, problems


def _scales(options: argparse.Namespace) -> dict[str, Scale]:
    """The scale of each dimension; LabelError where one has two."""
    scales: dict[str, Scale] = {}
    for name, scale in options.scale:
        if scales.setdefault(name, scale) != scale:
            dimension = "all dimensions" if name == "*" else name
            raise LabelError(f"--scale: {dimension} is given two scales; give one")
    return scales


def _next_step(
    labelled: LabelledSet | LabelledPairs, options: argparse.Namespace
) -> NextStep | None:
    """How to go on from here, with the user's own flags; None where it is no way."""
    mapping = read_mapping(options.map)
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT or options.file in SHIPPED_NAMES:
        return None
    if isinstance(labelled, LabelledPairs):
        words = ["python", "-m", "optimize", "--pairwise", "NAME", "--data", options.file]
        words += [*map_flags(mapping), *values_flags(read_values(options.values))]
        return NextStep(words, "`python -m judges list` names the comparisons; NAME is one of them")
    mapped = [name for name in mapping if name in labelled.dimensions]
    rated = sorted(
        labelled.dimensions,
        key=lambda name: -sum(name in output.ratings for output in labelled.outputs),
    )
    dimension = (options.dimension or mapped or rated)[0]
    scales = _scales(options)
    return next_step(
        labelled,
        options.file,
        dimension=dimension,
        mapping=mapping,
        values=read_values(options.values),
        scale=scales.get(dimension, scales.get("*")),
        annotations=options.annotations,
    )


ABOUT = f"""\
Look at label files: what the ones that ship hold, what one of yours holds,
and every problem that it has. Files are {READ_ENDINGS},
a folder made by Dataset.save_to_disk, or hf:owner/name (hf:owner/name:split).

A row is one output: id, group (its document's id), system, the texts that a
judge reads (document, summary, ...), and ratings: {{dimension: number}} or
annotations: {{dimension: [one per annotator]}}, or a column a dimension. Pairs
have response_a, response_b and votes or preferred."""
EXAMPLES = """\
examples:
  python -m data list
  python -m data show starter
  python -m data check labels.csv --map relevance=my_column --scale 1-5
  python -m data check labels.jsonl --annotations marks.csv --json

`python -m judges` runs judges, `python -m optimize` tunes them (also: .verify,
.compare, .panel, .estimate, .alternative, .report)."""
COMMANDS = {
    "list": (
        "the data sets that ship with the project",
        "List the data sets that ship with the project, one a line.",
    ),
    "show": (
        "what a file or data set holds",
        "Tell how many outputs, documents and systems a file holds, and how every\n"
        "dimension is rated. A file with problems is refused: see check.",
    ),
    "check": (
        "every problem of a file, at once",
        "Tell every problem of a file with its line, field, value and the way out.\n"
        "Ends with 1 where there is one, with 0 otherwise.",
    ),
}


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(prog="python -m data", description=ABOUT, epilog=EXAMPLES)
    add_version(command_parser)
    commands = command_parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for run, name in ((_list, "list"), (_show, "show"), (_check, "check")):
        summary_line, about = COMMANDS[name]
        command = commands.add_parser(name, help=summary_line, description=about)
        command.set_defaults(run=run)
        command.add_argument("--json", action="store_true", help="print as JSON, for machines")
        if run is _list:
            command.add_argument("file", nargs="?", help=argparse.SUPPRESS)
            command.set_defaults(refuse=command.error)
        else:
            _add_reading(command)
        if run is _check:
            command.add_argument(
                "--all", action="store_true", help="print every problem (20 of a kind and field)"
            )
    return command_parser


def _add_reading(command: argparse.ArgumentParser) -> None:
    known = " or ".join(SHIPPED_NAMES)
    command.add_argument("file", metavar="FILE", help=f"a file, hf:owner/name, {known}")
    command.add_argument(
        "--map",
        type=map_option,
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="what a column holds, as in document=article or relevance=my_column; repeatable; a "
        "dimension (or votes) given several columns (NAME=A,B) has one annotator in each",
    )
    command.add_argument(
        "--values",
        type=values_option,
        action="append",
        default=[],
        metavar="WORD=NUMBER,...",
        help="what words count, as in up=1,down=0, n/a= (nothing) or, of pairs, left=A,right=B",
    )
    command.add_argument(
        "--dimension",
        action="append",
        metavar="NAME",
        help="read this one alone; it must be rated; repeatable",
    )
    command.add_argument(
        "--text",
        action="append",
        metavar="NAME",
        help="a text that a judge reads, which every row must have and no other; repeatable (every "
        "text of a usual name)",
    )
    command.add_argument(
        "--scale",
        type=scale_option,
        action="append",
        default=[],
        metavar="[NAME=]LOW-HIGH",
        help="the scale that people were given, as in 1-5 or relevance=0-100; what is off it is a "
        "problem (any number will do)",
    )
    command.add_argument(
        "--annotations",
        metavar="FILE",
        help="a long file (id, dimension, annotator, rating) whose ratings replace the file's own",
    )
    command.add_argument(
        "--pairs", action="store_true", help="read the file as pairs (told by its columns)"
    )
