"""`check FILE`: prints what a label file holds and every problem in it, and writes its mapping."""

import argparse
import json
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from judges import catalog
from judges.cli.flags import Parser, mapping
from judges.dimension import Dimension
from judges.labels.columns import NESTED
from judges.labels.flags import SCALE, VALUES, pop_scale, split_mapping
from judges.labels.names import is_known_text, is_usual_text, map_flag
from judges.labels.ratings import ReadOptions
from judges.labels.readers import SHIPPED_NAMES, check_file, read_labels
from judges.labels.splits import MIN_UNITS_TO_SPLIT, split, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.prompt import NAME
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READ_ENDINGS
from judges.tables.problems import Problem, count
from judges.terminal import print_output, run_command
from optimize.inputs.flags import bounds_of, fitting_scale, values_of

Labelled = LabelledSet | LabelledPairs
_WIDTH = 80
_MOST_OF_A_KIND = 10
ABOUT = f"""\
Print what a label file holds, and every problem in it. Files are
{READ_ENDINGS}, or hf:owner/name.

A row is one output: id, group (its document's id), system, the texts that a
judge reads (document, summary, ...), and a column a dimension of ratings, or
ratings: {{dimension: number}}. Pairs have response_a, response_b and votes."""
EXAMPLES = """\
examples:
  dspy-judges check labels.csv --map relevance=my_column --scale 1-5
  dspy-judges check labels.csv --map relevance=Anna,Ben --write-map map.yaml
  dspy-judges check labels.csv --map map.yaml"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one file; the exit code is 1 where it has problems."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = parser().parse_args(words[1:] if words[:1] == ["check"] else words)
    return run_command("dspy-judges check", lambda: _check(flags))


def parser() -> argparse.ArgumentParser:
    command = Parser(prog="dspy-judges check", description=ABOUT, epilog=EXAMPLES)
    add = command.add_argument
    many: dict[str, Any] = {"action": "append", "default": []}
    add("file", metavar="FILE", help=f"a file, hf:owner/name, {' or '.join(SHIPPED_NAMES)}")
    about = "the column of a text, a rating, id, group or system; or FILE.yaml; repeatable"
    add("--map", metavar="NAME=COLUMN,...", help=about, **many)
    about = "of conversations: turn or conversation (turn)"
    add("--judge", dest="map", metavar="PART", type="judge={}".format, help=about, **many)
    about = "what words count, as in up=1,down=0, n/a= (nothing) or, of pairs, left=A,right=B"
    add("--values", metavar="WORD=NUMBER,...", help=about, **many)
    about = "read this one alone; it must be rated; repeatable"
    add("--dimension", action="append", metavar="NAME", help=about)
    about = "the scale that people were given, as in 1-5; a rating off it is a problem (none)"
    add("--scale", metavar="LOW-HIGH", help=about)
    about = "a long file (id, dimension, annotator, rating) whose ratings replace the file's own"
    add("--annotations", metavar="FILE", help=about)
    about = "write how the columns were read as a mapping file, which --map takes everywhere"
    add("--write-map", type=Path, metavar="FILE.yaml", help=about)
    add("--json", action="store_true", help="print as JSON, for machines")
    return command


def _check(flags: argparse.Namespace) -> int:
    """Print all problems, or what was read and what to know of it; 1 where there are problems."""
    options = _options(flags)
    labelled, problems = check_file(flags.file, options)
    notes = [] if labelled is None else [*labelled.notes, *_set_notes(labelled)]
    limits: dict[str, str] = {}
    if labelled is not None and not problems:
        # Imported here, since a file with problems needs no statistics.
        from optimize.measuring.capacity import capacity_of

        name = "margin for A"
        if isinstance(labelled, LabelledSet):
            name = _dimensions_of(labelled, options)[0]
        limits = capacity_of(labelled, name)
        if flags.write_map is not None:
            write_atomically(flags.write_map, map_file(labelled.reading, options).encode())
    if flags.json:
        record = {
            "file": flags.file,
            "n_problems": len(problems),
            "problems": [asdict(problem) for problem in problems],
            "notes": notes,
            "reading": None if labelled is None else asdict(labelled.reading),
            "bearing": limits,
        }
        print_output(json.dumps(record, indent=2))
    elif problems or labelled is None:
        print_output("\n".join(_problem_lines(problems)))
    else:
        lines = [*_page(flags.file, labelled, notes, options.map), ""]
        lines += [line for entry in limits.items() for line in _entry(*entry)]
        print_output("\n".join([*lines, *_next(labelled, flags, options)]))
    return 1 if problems else 0


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    """The first ten problems of each kind and column, and how many there are in all."""
    kinds = Counter[tuple[str, str | None]]()
    lines = []
    for problem in problems:
        kinds[problem.kind, problem.field] += 1
        if kinds[problem.kind, problem.field] <= _MOST_OF_A_KIND:
            lines.append(str(problem))
    n_more = len(problems) - len(lines)
    more = f", of which {n_more:,} like these are left out here (--json has all)" if n_more else ""
    return [*lines, f"{count(len(problems), 'problem')}{more}"]


def _options(flags: argparse.Namespace) -> ReadOptions:
    columns, values = split_mapping(mapping(flags.map), values_of(flags.values))
    file_scale = pop_scale(columns)
    scale = bounds_of(flags.scale) or file_scale
    return ReadOptions(
        map=columns,
        values=values,
        dimensions=[*_dimensions(flags)] or None,
        scales={} if scale is None else {"*": scale},
        annotations=flags.annotations,
    )


def _dimensions(flags: argparse.Namespace) -> dict[str, str]:
    """The dimensions of the flags with what the user wrote: NAME, or NAME=DEFINITION."""
    return {word.partition("=")[0].strip(): word for word in flags.dimension or ()}


def _set_notes(labelled: Labelled) -> list[str]:
    """Notes on the labels of each dimension as a whole."""
    if isinstance(labelled, LabelledPairs):
        return []
    # Only these may have ties that are left out, or one label alone.
    names, own = sorted(labelled.words.keys() & {*labelled.dimensions}), len(labelled.notes)
    return [note for name in names for note in with_ratings(labelled, name).notes[own:]]


def map_file(reading: FileReading, options: ReadOptions) -> str:
    """Return the mapping file for `--map`, as YAML: columns, what words count, and the scale."""
    import yaml

    ratings = {name: many for name, many in reading.ratings.items() if name not in NESTED}
    lists = {**reading.rows, **ratings}.items()
    plain = {name: many[0] if len(many) == 1 else [*many] for name, many in lists}
    # A judge reads every text of a mapping, so leave out those without a usual name.
    texts = {name: c for name, c in reading.texts.items() if is_known_text(name)}
    content: dict[str, Any] = {**plain, **texts, **options.map}
    if options.values:
        content[VALUES] = {word: "" if n is None else n for word, n in options.values.items()}
    for low, high in options.scales.values():
        content[SCALE] = f"{low:g}:{high:g}"
    text: str = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    return text


def _page(
    file: str, labelled: Labelled, notes: Sequence[str], mapping: Collection[str]
) -> list[str]:
    """The lines on a file without problems: what was read from it, and the notes."""
    noun = "pair" if isinstance(labelled, LabelledPairs) else "output"
    holds = f"{count(len(labelled.items), noun)} for {count(len(labelled.documents), 'document')}"
    if labelled.systems:
        holds += f" by {count(len(labelled.systems), 'system')}"
    lines = textwrap.wrap(f"{Path(file).stem}: no problem in {holds}", _WIDTH)
    lines += _entry("documents", f"by {labelled.grouped_by}")
    if isinstance(labelled, LabelledSet):
        for name in labelled.dimensions:
            lines += _entry("ratings", f"{name}: {_ratings_text(labelled, name)}")
    else:
        n = Counter(vote for pair in labelled.pairs for vote in pair.votes)
        votes = f"{n['A']:,} for A, {n['B']:,} for B, and {count(n['tie'], 'tie')}"
        lines += _entry("votes", f"{votes}, which count half for each side")
    reading = labelled.reading
    # Without a definition a judge reads no text of another name, unless the user names it.
    usual = {n: c for n, c in reading.texts.items() if is_usual_text(n) or n in mapping}
    texts = reading.texts if isinstance(labelled, LabelledPairs) else usual or reading.texts
    columns_by_name = {
        **reading.rows,
        **{f"text {name}": (column,) for name, column in texts.items()},
        **{f"ratings {name}": columns for name, columns in reading.ratings.items()},
    }
    parts = (
        name if columns == (name.split()[-1],) else f"{name} from {' and '.join(columns)}"
        for name, columns in columns_by_name.items()
    )
    lines += _entry("read", "; ".join(parts))
    if reading.comments:
        names = ", ".join(reading.comments)
        lines += _entry("comments", f"{names}: what people said of their labels, which teaches")
    others = [column for name, column in reading.texts.items() if name not in texts]
    if unread := [*others, *reading.unread]:
        advice = f"to use one, name it, as in {map_flag('system', unread[:1])}"
        lines += _entry("not read", f"{', '.join(unread)} ({advice})")
    return lines + [line for note in notes for line in _entry("note", note)]


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """The scale of a dimension's ratings, and who gave them."""
    outputs = [output for output in labelled.outputs if dimension in output.ratings]
    ratings = [rating for output in outputs for rating in output.ratings[dimension]]
    names = [own for output in outputs if (own := output.annotators.get(dimension, ()))]
    share = f", {len(names):,} of them" if len(names) < len(outputs) else ""
    by = f"{share} by {count(len({*chain(*names)}), 'annotator')}" if names else ""
    text = f"{min(ratings):g} to {max(ratings):g}, {count(len(outputs), 'output')} rated{by}"
    if dimension in labelled.words:
        labels = [labelled.label(output, dimension) for output in outputs]
        good, bad = labelled.words[dimension]
        text += f": {labels.count(1.0):,} {good}, {labels.count(0.0):,} {bad}"
    return text


def _dimensions_of(labelled: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """The user's dimensions, else all; those of the catalogue and with two values come first."""
    in_map = [name for name in options.map if name in labelled.dimensions]
    names = options.dimensions or in_map or labelled.dimensions
    return sorted(names, key=lambda n: (n not in catalog.names(), n not in labelled.words))


def _next(labelled: Labelled, flags: argparse.Namespace, options: ReadOptions) -> list[str]:
    """The next command for these labels, or what is needed before there is one."""
    is_shipped = flags.file in SHIPPED_NAMES
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT or is_shipped:
        return []
    if isinstance(labelled, LabelledPairs):
        return _entry("judge", "`dspy-judges list` names the comparisons")
    names, specs = _dimensions_of(labelled, options), _dimensions(flags)
    defined = [name for name in names if name in catalog.names() or "=" in specs.get(name, "")]
    # Labels with two values can do without a definition.
    own = [name.lower().replace(" ", "_") for name in names if name in labelled.words]
    own = [name for name in own if NAME.match(name) and name not in catalog.names()]
    earned = "a pass" if own else "a high rating"
    what = f"{(own or names)[0]}=one line that says what earns {earned}"
    define = f"a definition is worth about as much as tuning; write --dimension '{what}'"
    if not (defined or own):
        advice = f"or say which judge's rating it is, as in --map relevance={names[0]}"
        return _entry("define", f"{define}; {advice}")
    name = (defined or own)[0]
    lines = _tune_lines(labelled, name, specs.get(name, name), flags, options)
    has_command = lines[:1] and lines[0].startswith("next")
    return [*lines, *_entry("define", define)] if has_command and not defined else lines


def _tune_lines(
    labelled: LabelledSet, name: str, spec: str, flags: argparse.Namespace, options: ReadOptions
) -> list[str]:
    """The command that tunes a judge, or why these labels cannot be split for it."""
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
        return _entry("judge", f"{name} reads {' and '.join(inputs or ())}. {reason}")
    subset = with_ratings(outputs, name)
    if len({subset.label(output, name) for output in subset.outputs}) == 1:
        return []
    scale = options.scales.get("*")
    if dimension and not scale:
        ratings = list(chain(*(output.ratings.get(name, ()) for output in labelled.outputs)))
        low, high = min(ratings), max(ratings)
        if low < dimension.scale[0] or dimension.scale[-1] < high:
            scale = fitting_scale(ratings) or (low // 1, -(-high // 1))
    options_of = {
        "--annotations": [flags.annotations] if flags.annotations else [],
        "--map": [str(flags.write_map)] if flags.write_map else flags.map,
        "--values": [] if flags.write_map else flags.values,
        "--scale": [f"{scale[0]:g}:{scale[1]:g}"] if scale else [],
    }
    words = ["dspy-judges", "tune", "--dimension", spec, "--data", flags.file]
    words += [word for flag, own in options_of.items() for value in own for word in (flag, value)]
    # On one line, so that it can be copied.
    return [f"next       {shlex.join(words)}"]


def _entry(name: str, text: str) -> list[str]:
    """The lines of a name and its text, wrapped to the width of the page."""
    return textwrap.wrap(
        textwrap.shorten(text, 2000, placeholder=" ..."),
        _WIDTH,
        initial_indent=f"{name:<11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )
