"""`check FILE`: what a label file holds, every problem at once, and the mapping as a file."""

import argparse
import json
import os
import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from data.columns import NESTED, OUTPUTS, SOURCES
from data.flags import (
    VALUES,
    Parser,
    add_version,
    join_scale,
    map_flags,
    map_option,
    read_mapping,
    read_values,
    scale_flags,
    scale_option,
    values_flags,
    values_option,
)
from data.ratings import ReadOptions
from data.readers import SHIPPED_NAMES, check_either, check_labels, read_options
from data.splits import MIN_UNITS_TO_SPLIT, default_by, is_constant, split
from data.tables.atomic_write import write_atomically
from data.tables.formats import READ_ENDINGS
from data.tables.problems import DataError, Problem, Problems, count
from data.types import LabelError, LabelledPairs, LabelledSet, Reading
from data.values import USUAL_SCALES, Scale
from dspy_judges.column_names import name_key

_WIDTH = 80
# So many problems of a kind are printed one by one, unless all are asked for.
_OF_A_KIND = 20
ABOUT = f"""\
Tell what a label file holds, and every problem that it has at once. Files are
{READ_ENDINGS}, a folder made by
Dataset.save_to_disk, or hf:owner/name (hf:owner/name:split).

A row is one output: id, group (its document's id), system, the texts that a
judge reads (document, summary, ...), and a column a dimension of ratings, or
ratings: {{dimension: number}}. Pairs have response_a, response_b and votes."""
EXAMPLES = """\
examples:
  python -m data check labels.csv --map relevance=my_column --scale 1-5
  python -m data check labels.csv --map relevance=Anna,Ben --write-map map.yaml
  python -m data check labels.csv --map map.yaml"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one file; the exit code is 1 where it has problems."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    words = words[1:] if words[:1] == ["check"] else words
    flags = parser().parse_args(join_scale(words))
    try:
        code = _check(flags)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (head, less) has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except FileExistsError as error:
        name = error.filename2 or error.filename or flags.write_map
        print(f"error: {name} exists already; name another file", file=sys.stderr)
        return 1
    except OSError as error:
        # Reading says what is wrong as a problem; this is a result that found no room.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        name = error.filename or "stdout"
        print(f"error: {name}: {error.strerror or error}", file=sys.stderr)
        return 1
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    command = Parser(prog="python -m data check", description=ABOUT, epilog=EXAMPLES)
    add_version(command)
    known = " or ".join(SHIPPED_NAMES)
    command.add_argument("file", metavar="FILE", help=f"a file, hf:owner/name, {known}")
    command.add_argument(
        "--map",
        type=map_option,
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="what a column holds, as in document=article or, with a column for each annotator, "
        "relevance=Anna,Ben; or a mapping file (FILE.yaml); repeatable",
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
        "--write-map",
        type=Path,
        metavar="FILE.yaml",
        help="write how the columns were read as a mapping file, which --map takes everywhere",
    )
    command.add_argument("--json", action="store_true", help="print as JSON, for machines")
    command.add_argument(
        "--all", action="store_true", help="print every problem (20 of a kind and field)"
    )
    return command


def _check(flags: argparse.Namespace) -> int:
    """Print all problems, or what was read and what to know of it; 1 where there are problems."""
    options = _options(flags)
    path = SHIPPED_NAMES.get(flags.file, flags.file)
    labelled, problems = check_either(path, options)
    notes: list[str] = []
    if labelled is not None and not problems:
        labelled = replace(labelled, name=flags.file) if path != flags.file else labelled
        problems, notes = _check_set(labelled, flags)
        if flags.write_map is not None and not problems:
            write_atomically(flags.write_map, map_file(labelled.reading, options).encode())
    if flags.json:
        record = {
            "file": flags.file,
            "n_problems": len(problems),
            "problems": [problem.record() for problem in problems],
            "notes": notes,
            "reading": None if labelled is None else asdict(labelled.reading),
        }
        print(json.dumps(record, indent=2))
    elif problems:
        print(problem_list(problems, every=flags.all))
    elif labelled is not None:
        print("\n".join([*_page(labelled, notes), *_next(labelled, flags, options)]))
    return 1 if problems else 0


def _options(flags: argparse.Namespace) -> ReadOptions:
    scales: dict[str, Scale] = {}
    for name, scale in flags.scale:
        if scales.setdefault(name, scale) != scale:
            dimension = "all dimensions" if name == "*" else name
            raise LabelError(f"--scale: {dimension} is given two scales; give one")
    try:
        mapping = read_mapping(flags.map)
    except ValueError as error:
        raise LabelError(f"--map: {error}") from None
    return read_options(
        map=mapping,
        values=read_values(flags.values),
        dimensions=flags.dimension,
        scales=scales,
        annotations=flags.annotations,
    )


def _check_set(
    labelled: LabelledSet | LabelledPairs, flags: argparse.Namespace
) -> tuple[tuple[Problem, ...], list[str]]:
    """What no single row can be blamed for; a dimension that was asked for must rank something."""
    problems, notes = Problems(flags.file), list(labelled.notes)
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            if is_constant(labelled, name):
                notes.append(f"every rating on {name} is the same")
                if name in (flags.dimension or ()):
                    fault = "every rating is the same, so there is nothing to rank by"
                    advice = "give outputs that people rated differently"
                    problems.add("constant", fault, advice, field=name)
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT:
        notes.append(
            f"too few documents to tune on: {len(labelled.documents)}, and {MIN_UNITS_TO_SPLIT} "
            "are the least"
        )
    return tuple(problems), notes


def map_file(reading: Reading, options: ReadOptions) -> str:
    """How a file was read as YAML, for `--map`: our names and its columns, and words' values."""
    import yaml

    many: Mapping[str, Sequence[str]] = {
        **reading.rows,
        **{name: (column,) for name, column in reading.texts.items()},
        **{name: columns for name, columns in reading.ratings.items() if name not in NESTED},
        **{name: [c] if isinstance(c, str) else c for name, c in options.map.items()},
    }
    content: dict[str, Any] = {
        name: columns[0] if len(columns) == 1 else [*columns] for name, columns in many.items()
    }
    if options.values:
        content[VALUES] = dict(options.values)
    text: str = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    return text


def problem_list(problems: Sequence[Problem], *, every: bool) -> str:
    """All problems in the order of the file, those past a kind's share as a number."""
    lines, n_of_kind = [], dict[tuple[str, str | None], int]()
    for problem in problems:
        kind = (problem.kind, problem.field)
        n_of_kind[kind] = n_of_kind.get(kind, 0) + 1
        if every or n_of_kind[kind] <= _OF_A_KIND:
            lines.append(str(problem))
    for (_, field), number in n_of_kind.items():
        if number > _OF_A_KIND and not every:
            where = f" in field {field!r}" if field else ""
            lines.append(f"... and {number - _OF_A_KIND:,} more of the same kind{where} (--all)")
    lines.append(count(len(problems), "problem"))
    return "\n".join(lines)


def _page(labelled: LabelledSet | LabelledPairs, notes: Sequence[str]) -> list[str]:
    """A file without problems: what was read, and what to know about it."""
    noun = "pair" if isinstance(labelled, LabelledPairs) else "output"
    holds = f"{count(len(labelled.items), noun)} for {count(len(labelled.documents), 'document')}"
    if labelled.systems:
        holds += f" by {count(len(labelled.systems), 'system')}"
    lines = textwrap.wrap(f"{labelled.name}: no problem in {holds}", _WIDTH)
    lines += _entry("documents", f"by {labelled.grouped_by}")
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            lines += _entry("ratings", f"{_plain(name)}: {_ratings_text(labelled, name)}")
    else:
        votes = [vote for pair in labelled.pairs for vote in pair.votes]
        counts = ", ".join(f"{votes.count(vote):,} for {vote}" for vote in ("A", "B"))
        ties = count(votes.count("tie"), "tie")
        lines += _entry("votes", f"{counts}, and {ties}, which count half for each side")
    lines += reading_lines(labelled)
    return lines + [line for note in notes for line in _entry("note", _plain(note))]


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """The scale of a dimension's ratings, and who gave them."""
    rated = [output for output in labelled.outputs if dimension in output.ratings]
    ratings = [rating for output in rated for rating in output.ratings[dimension]]
    names = {name for output in rated for name in output.annotators.get(dimension, ())}
    by = f" by {count(len(names), 'annotator')}" if names else ""
    return f"{min(ratings):g} to {max(ratings):g}, {count(len(rated), 'output')} rated{by}"


def reading_lines(labelled: LabelledSet | LabelledPairs) -> list[str]:
    """How the columns were understood."""
    reading = labelled.reading
    columns_by_name = {
        **reading.rows,
        **{f"text {name}": (column,) for name, column in reading.texts.items()},
        **{
            f"ratings {name}" if name != "votes" else name: columns
            for name, columns in reading.ratings.items()
        },
    }
    parts = (
        _plain(name)
        if columns == (name.split()[-1],)
        else f"{_plain(name)} from {' and '.join(map(_plain, columns))}"
        for name, columns in columns_by_name.items()
    )
    lines = _entry("read", "; ".join(parts)) if columns_by_name else []
    if reading.comments:
        names = ", ".join(map(_plain, reading.comments))
        lines += _entry("comments", f"{names}: what people said of their labels; no judge reads it")
    if reading.unread:
        lines += _entry("not read", ", ".join(map(_plain, reading.unread)))
    return lines


def _next(
    labelled: LabelledSet | LabelledPairs, flags: argparse.Namespace, options: ReadOptions
) -> list[str]:
    """The command that goes on from here, tried on the labels; else what it wants."""
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT or flags.file in SHIPPED_NAMES:
        return []
    if isinstance(labelled, LabelledPairs):
        return _entry("judge", "`python -m judges list` names the comparisons")
    mapped = [name for name in options.map if name in labelled.dimensions]
    names = flags.dimension or mapped or labelled.dimensions
    catalogue = import_module("judges.catalog")
    known = [name for name in names if name in catalogue.names()]
    if not known:
        advice = (
            "map ratings to one that is there, as in --map relevance=COLUMN, or define your own"
        )
        called = ", ".join(map(_plain, names))
        return _entry("judge", f"no judge of the catalogue is called {called}: {advice}")
    dimension = catalogue.find(known[0])
    texts_map = _texts_for(labelled, tuple(dimension.inputs))
    mapping = {**options.map, **texts_map}
    scales = _scale_for(labelled, dimension, options)
    tried = replace(
        options, map=mapping, dimensions=known[:1], scales=scales, texts=tuple(dimension.inputs)
    )
    again, problems = check_labels(flags.file, tried)
    wanting = str(problems[0]) if problems else ""
    if again is not None and not problems and not options.annotations:
        try:
            split(again, by=default_by(again), seed=0)
        except LabelError as error:
            wanting = str(error)
    if wanting or is_constant(labelled, known[0]):
        return _entry("judge", f"{known[0]} reads {' and '.join(dimension.inputs)}. {wanting}")
    words = ["python", "-m", "optimize", "--dimension", known[0]]
    if options.annotations:
        words = ["python", "-m", "optimize.verify", known[0], "--annotations", options.annotations]
    words += ["--data", flags.file]
    for word in [str(flags.write_map)] if flags.write_map else flags.map:
        words += ["--map", word]
    words += map_flags(texts_map)
    words += [] if flags.write_map else values_flags(read_values(flags.values))
    words += scale_flags(dict.fromkeys("*", *scales.values()) if scales else {})
    # On one line, so that it can be copied.
    return [f"next       {_plain(shlex.join(words))}"]


def _texts_for(labelled: LabelledSet, wanted: Sequence[str]) -> dict[str, str]:
    """The columns of texts under other names: the one source, and the one output."""
    columns = {}
    for names in (SOURCES, OUTPUTS):
        missing = [name for name in wanted if name in names and name not in labelled.reading.texts]
        others = [c for name, c in labelled.reading.texts.items() if name_key(name) in names]
        if len(missing) == len(others) == 1:
            columns[missing[0]] = others[0]
    return columns


def _scale_for(labelled: LabelledSet, dimension: Any, options: ReadOptions) -> dict[str, Scale]:
    """The scale to state: the user's, or a usual one where ratings lie off the judge's."""
    given = options.scales.get(dimension.name, options.scales.get("*"))
    if given is not None:
        return {dimension.name: given}
    numbers = [n for output in labelled.outputs for n in output.ratings.get(dimension.name, ())]
    low, high = min(numbers), max(numbers)
    if dimension.scale[0] <= low and high <= dimension.scale[-1]:
        return {}
    fitting = (scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1])
    return {dimension.name: next(fitting, (low // 1, -(-high // 1)))}


def _entry(name: str, text: str) -> list[str]:
    """A name and its text, wrapped to the page, as lines."""
    return textwrap.wrap(
        textwrap.shorten(text, 2000, placeholder=" ..."),
        _WIDTH,
        initial_indent=f"{name:<11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """A file's own word, without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
