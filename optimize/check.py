"""`check FILE`: what a label file holds, every problem at once, and the mapping as a file."""

import argparse
import json
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judges import catalog
from judges.cli.flags import mapping
from judges.dimension import NAME, Dimension
from judges.labels.columns import NESTED, is_known_text, map_flag
from judges.labels.flags import SCALE, VALUES, Parser, pop_scale, split_mapping
from judges.labels.ratings import ReadOptions
from judges.labels.readers import SHIPPED_NAMES, check_file, read_labels
from judges.labels.splits import MIN_UNITS_TO_SPLIT, split, with_ratings
from judges.labels.types import FileReading, LabelError, LabelledPairs, LabelledSet
from judges.labels.values import USUAL_SCALES, Scale
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import READ_ENDINGS
from judges.tables.problems import count
from judges.terminal import print_output, run_command
from optimize.inputs.flags import bounds_of, values_of

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

Labelled = LabelledSet | LabelledPairs


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
    bearing = {} if labelled is None or problems else _bearing(labelled, options)
    if labelled is not None and flags.write_map is not None and not problems:
        write_atomically(flags.write_map, map_file(labelled.reading, options).encode())
    if flags.json:
        record = {
            "file": flags.file,
            "n_problems": len(problems),
            "problems": [asdict(problem) for problem in problems],
            "notes": notes,
            "reading": None if labelled is None else asdict(labelled.reading),
            "bearing": bearing,
        }
        print_output(json.dumps(record, indent=2))
    elif problems or labelled is None:
        shown = Counter[tuple[str, str | None]]()
        for problem in problems:
            shown[problem.kind, problem.field] += 1
            if shown[problem.kind, problem.field] <= _MOST_OF_A_KIND:
                print_output(str(problem))
        more = sum(max(0, number - _MOST_OF_A_KIND) for number in shown.values())
        rest = f", of which {more:,} like these are left out here (--json has all)" if more else ""
        print_output(f"{count(len(problems), 'problem')}{rest}")
    else:
        told = [line for entry in bearing.items() for line in _entry(*entry)]
        lines = [*_page(flags.file, labelled, notes), "", *told]
        print_output("\n".join([*lines, *_next(labelled, flags, options)]))
    return 1 if problems else 0


def _options(flags: argparse.Namespace) -> ReadOptions:
    columns, values = split_mapping(mapping(flags.map), values_of(flags.values))
    kept = pop_scale(columns)
    scale = bounds_of(flags.scale) or kept
    return ReadOptions(
        map=columns,
        values=values,
        dimensions=[*_dimensions(flags)] or None,
        scales={} if scale is None else {"*": scale},
        annotations=flags.annotations,
    )


def _dimensions(flags: argparse.Namespace) -> dict[str, str]:
    """The dimensions that are named, as they are written: NAME, or NAME=DEFINITION."""
    return {word.partition("=")[0].strip(): word for word in flags.dimension or ()}


def _set_notes(labelled: Labelled) -> list[str]:
    """What no single row can be blamed for."""
    if isinstance(labelled, LabelledPairs):
        return []
    # Of words alone, all rows may be left out.
    names, own = sorted(labelled.words.keys() & {*labelled.dimensions}), len(labelled.notes)
    return [note for name in names for note in with_ratings(labelled, name).notes[own:]]


def map_file(reading: FileReading, options: ReadOptions) -> str:
    """How a file was read as YAML for `--map`: columns, words' values and the scale."""
    import yaml

    ratings = {name: many for name, many in reading.ratings.items() if name not in NESTED}
    lists = {**reading.rows, **ratings}.items()
    plain = {name: many[0] if len(many) == 1 else [*many] for name, many in lists}
    # A judge may read what is named here.
    texts = {name: c for name, c in reading.texts.items() if is_known_text(name)}
    content: dict[str, Any] = {**plain, **texts, **options.map}
    if options.values:
        content[VALUES] = {word: "" if n is None else n for word, n in options.values.items()}
    for low, high in options.scales.values():
        content[SCALE] = f"{low:g}:{high:g}"
    text: str = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    return text


def _page(file: str, labelled: Labelled, notes: Sequence[str]) -> list[str]:
    """A file without problems: what was read, and what to know about it."""
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
    columns_by_name = {
        **reading.rows,
        **{f"text {name}": (column,) for name, column in reading.texts.items()},
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
    if reading.unread:
        advice = f"to use one, name it, as in {map_flag('system', reading.unread[:1])}"
        lines += _entry("not read", f"{', '.join(reading.unread)} ({advice})")
    return lines + [line for note in notes for line in _entry("note", note)]


def _ratings_text(labelled: LabelledSet, dimension: str) -> str:
    """The scale of a dimension's ratings, and who gave them."""
    rated = [output for output in labelled.outputs if dimension in output.ratings]
    ratings = [rating for output in rated for rating in output.ratings[dimension]]
    named = [names for output in rated if (names := output.annotators.get(dimension, ()))]
    number = len({name for names in named for name in names})
    share = f", {len(named):,} of them" if len(named) < len(rated) else ""
    by = f"{share} by {count(number, 'annotator')}" if named else ""
    told = f"{min(ratings):g} to {max(ratings):g}, {count(len(rated), 'output')} rated{by}"
    if dimension in labelled.words:
        labels = [labelled.label(output, dimension) for output in rated]
        good, bad = labelled.words[dimension]
        told += f": {labels.count(1.0):,} {good}, {labels.count(0.0):,} {bad}"
    return told


def _meant(labelled: LabelledSet, options: ReadOptions) -> Sequence[str]:
    """The dimensions that the user means, those of the catalogue and of two words first."""
    mapped = [name for name in options.map if name in labelled.dimensions]
    names = options.dimensions or mapped or labelled.dimensions
    return sorted(names, key=lambda n: (n not in catalog.names(), n not in labelled.words))


def _bearing(labelled: Labelled, options: ReadOptions) -> dict[str, str]:
    """What labels on the first dimension can bear, or those of pairs."""
    # Only here, since what is refused needs no statistics.
    from optimize.measuring.bearing import bearing_of

    if isinstance(labelled, LabelledPairs):
        return bearing_of(labelled, "margin for A")
    return bearing_of(labelled, _meant(labelled, options)[0])


def _next(labelled: Labelled, flags: argparse.Namespace, options: ReadOptions) -> list[str]:
    """The command that goes on from here, tried on the labels; else what it wants."""
    shipped = flags.file in SHIPPED_NAMES
    if len(labelled.documents) < MIN_UNITS_TO_SPLIT or shipped or options.annotations:
        return []
    if isinstance(labelled, LabelledPairs):
        return _entry("judge", "`dspy-judges list` names the comparisons")
    names, named = _meant(labelled, options), _dimensions(flags)
    known = (n for n in names if n in catalog.names() or "=" in named.get(n, ""))
    name, define = next(known, None), ""
    if name is None:
        # Two values may go without a definition.
        own = (n.lower().replace(" ", "_") for n in names if n in labelled.words)
        name = next((n for n in own if NAME.match(n) and n not in catalog.names()), None)
        earns = "a pass" if name else "a high rating"
        define = f"{name or names[0]}=one line that says what earns {earns}"
        define = f"a definition is worth about as much as tuning; write --dimension '{define}'"
    if name is None:
        advice = f"or say which judge's rating it is, as in --map relevance={names[0]}"
        return _entry("define", f"{define}; {advice}")
    dimension = catalog.find(name) if name in catalog.names() else None
    scale = _scale_for(labelled, dimension, options) if dimension else options.scales.get("*")
    inputs = tuple(dimension.inputs) if isinstance(dimension, Dimension) else None
    try:
        tried = read_labels(
            flags.file,
            map=options.map,
            values=options.values,
            dimensions=[name],
            texts=inputs,
        )
        split(tried, seed=0)
    except LabelError as error:
        wanting = str(error.problems[0] if error.problems else error)
        return _entry("judge", f"{name} reads {' and '.join(inputs or ())}. {wanting}")
    rated = with_ratings(tried, name)
    if len({rated.label(output, name) for output in rated.outputs}) == 1:
        return []
    given = [("--map", word) for word in flags.map] + [("--values", w) for w in flags.values]
    given = [("--map", str(flags.write_map))] if flags.write_map else given
    words = ["dspy-judges", "tune", "--dimension", named.get(name, name), "--data", flags.file]
    words += [word for pair in given for word in pair]
    words += [] if scale is None else ["--scale", f"{scale[0]:g}:{scale[1]:g}"]
    # On one line, so that it can be copied.
    return [f"next       {shlex.join(words)}", *(_entry("define", define) if define else ())]


def _scale_for(labelled: LabelledSet, dimension: Any, options: ReadOptions) -> Scale | None:
    """The scale to state: the user's, or a usual one where ratings lie off the judge's."""
    numbers = [n for output in labelled.outputs for n in output.ratings.get(dimension.name, ())]
    low, high = min(numbers), max(numbers)
    if options.scales or (dimension.scale[0] <= low and high <= dimension.scale[-1]):
        return options.scales.get("*")
    fitting = (scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1])
    return next(fitting, (low // 1, -(-high // 1)))


def _entry(name: str, text: str) -> list[str]:
    """A name and its text, wrapped to the page, as lines."""
    return textwrap.wrap(
        textwrap.shorten(text, 2000, placeholder=" ..."),
        _WIDTH,
        initial_indent=f"{name:<11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )
