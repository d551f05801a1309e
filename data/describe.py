"""What a set holds: a record for machines, and pages of at most 80 columns for people."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from data.next_step import NextStep
from data.tables.problems import Problem, count
from data.types import Item, LabelledOutput, LabelledPair, LabelledPairs, LabelledSet
from dspy_judges.commands import as_called

_WIDTH = 80
# So many problems of a kind are printed one by one, unless all are asked for.
_OF_A_KIND = 20

Record = dict[str, Any]


def summary(labelled: LabelledSet | LabelledPairs) -> Record:
    """What `list --json` prints: everything but ratings and votes.

    `texts` gives each text's median length in words, `per_document` the fewest and most items.
    """
    sizes: dict[str, int] = {}
    words: dict[str, list[int]] = {}
    for item in labelled.items:
        sizes[item.document_id] = sizes.get(item.document_id, 0) + 1
        texts = dict(item.texts)
        if isinstance(item, LabelledPair) and isinstance(labelled, LabelledPairs):
            texts[labelled.candidate] = item.response_a
        for name, text in texts.items():
            words.setdefault(name, []).append(len(text.split()))
    return {
        "kind": "pairs" if isinstance(labelled, LabelledPairs) else "outputs",
        "name": labelled.name,
        "sha256": labelled.sha256,
        "n_items": len(labelled.items),
        "n_documents": len(sizes),
        "per_document": (min(sizes.values()), max(sizes.values())),
        "systems": labelled.systems,
        "texts": {name: median(numbers) for name, numbers in words.items()},
        "grouped_by": labelled.grouped_by,
        "notes": labelled.notes,
    }


def full_summary(labelled: LabelledSet | LabelledPairs) -> Record:
    """What `show --json` prints; `n_level` counts pairs with as many votes for A as for B."""
    if isinstance(labelled, LabelledSet):
        dimensions = {name: _dimension(labelled, name) for name in labelled.dimensions}
        return {**summary(labelled), "dimensions": dimensions}
    votes = [vote for pair in labelled.pairs for vote in pair.votes]
    sizes = [len(pair.votes) for pair in labelled.pairs]
    return {
        **summary(labelled),
        "votes": {choice: votes.count(choice) for choice in ("A", "B", "tie")},
        "per_pair": (min(sizes), max(sizes)),
        "n_level": sum(pair.margin == 0 for pair in labelled.pairs),
    }


def _dimension(labelled: LabelledSet, dimension: str) -> Record:
    """The ratings on a dimension that some output is rated on.

    `n_constant` counts documents whose outputs all have the same rating, which rank nothing, and
    `n_single` those with one rated output. `annotators` is the most that rated one output, 0 where
    only means are known.
    """
    by_document: dict[str, list[float]] = {}
    n_annotators = 0
    for output in labelled.outputs:
        if dimension in output.ratings:
            by_document.setdefault(output.document_id, []).append(output.rating(dimension))
            n_annotators = max(n_annotators, len(output.annotators.get(dimension, ())))
    means = [mean for ratings in by_document.values() for mean in ratings]
    return {
        "low": min(means),
        "high": max(means),
        "mean": fmean(means),
        "n_rated": len(means),
        "n_documents": len(by_document),
        "n_constant": sum(
            len(ratings) > 1 and len(set(ratings)) == 1 for ratings in by_document.values()
        ),
        "n_single": sum(len(ratings) == 1 for ratings in by_document.values()),
        "annotators": n_annotators,
    }


def list_page(records: Sequence[Record]) -> str:
    """The data sets that ship, one a line."""
    lines = [f"{'name':<16}{'holds':>14}{'documents':>11}{'systems':>9}  texts"]
    for record in records:
        holds = count(record["n_items"], record["kind"][:-1])
        lines.append(
            f"{record['name']:<16}{holds:>14}{record['n_documents']:>11}"
            f"{len(record['systems']):>9}  {', '.join(record['texts'])}"
        )
    lines.append("Their ratings and votes are constructed, nobody's; show NAME tells more.")
    return "\n".join(lines)


def set_page(record: Record) -> str:
    """What a set holds, from its full summary."""
    systems, texts = record["systems"], record["texts"]
    names = ", ".join(map(_plain, systems)) or "none named"
    words = ", ".join(f"{_plain(name)} ({words:.0f})" for name, words in texts.items())
    each = f"{_range(record['per_document'])} for each document"
    lines = [
        _plain(record["name"]),
        *_entry("sha256", record["sha256"]),
        *_entry(record["kind"], f"{record['n_items']:,}, {each}"),
        *_entry("documents", f"{record['n_documents']:,}, by {record['grouped_by']}"),
        *_entry("systems", f"{len(systems)}: {names}"),
        *_entry("texts", f"{words} (median words)"),
    ]
    lines += _dimension_lines(record["dimensions"]) if "dimensions" in record else []
    if "votes" in record:
        votes = ", ".join(f"{choice} {number:,}" for choice, number in record["votes"].items())
        lines += _entry("votes", f"{votes}; {_range(record['per_pair'])} for each pair")
        level = count(record["n_level"], "pair")
        lines += _entry("level", f"{level} with as many votes for A as for B")
    return "\n".join(lines + _notes(record["notes"]))


def _dimension_lines(dimensions: Mapping[str, Record]) -> list[str]:
    """A table with a line for each dimension, and what its columns mean."""
    lines = [
        "",
        f"{'dimension':<24}{'low':>7}{'high':>7}{'mean':>7}{'rated':>9}{'annotators':>12}"
        f"{'constant':>10}",
    ]
    for name, rated in dimensions.items():
        lines.append(
            f"{_plain(name)[:23]:<24}{rated['low']:>7.4g}{rated['high']:>7.4g}"
            f"{rated['mean']:>7.3g}{rated['n_rated']:>9}{rated['annotators'] or 'mean':>12}"
            f"{rated['n_constant']:>10}"
        )
    lines.append("")
    lines += textwrap.wrap(
        "constant: documents whose outputs all have the same rating and so rank nothing; "
        "mean: only the mean of the annotators is known",
        _WIDTH,
    )
    n_single = max((rated["n_single"] for rated in dimensions.values()), default=0)
    if n_single:
        lines.append(f"one rated output alone: up to {count(n_single, 'document')}")
    return lines


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


def check_page(
    labelled: LabelledSet | LabelledPairs, notes: Sequence[str], step: NextStep | None = None
) -> str:
    """A file without problems: what was read, what to know about it, the command that goes on."""
    record = full_summary(labelled)
    holds = f"{count(record['n_items'], record['kind'][:-1])} for "
    holds += count(record["n_documents"], "document")
    if labelled.systems:
        holds += f" by {count(len(labelled.systems), 'system')}"
    if "dimensions" in record:
        holds += ", rated on " + ", ".join(
            f"{_plain(name)} ({rated['low']:g} to {rated['high']:g})"
            for name, rated in record["dimensions"].items()
        )
    lines = textwrap.wrap(f"{labelled.name}: no problem in {holds}", _WIDTH)
    lines += _entry("documents", f"by {labelled.grouped_by}")
    lines += reading_lines(labelled) + _notes(notes)
    if step is not None:
        lines += _entry("judge", _plain(step.note)) if step.note else []
        lines += [f"{'':<13}{_plain(line)}" for line in step.definition]
        # On one line, so that it can be copied.
        lines.append(f"next       {as_called(_plain(shlex.join(step.command)))}")
    return "\n".join(lines)


def reading_lines(labelled: LabelledSet | LabelledPairs) -> list[str]:
    """How the columns were understood, and the first row as it was read."""
    reading = labelled.reading
    columns_by_name = {
        **reading.rows,
        **{f"text {name}": (column,) for name, column in reading.texts.items()},
        **{
            f"ratings {name}" if name != "votes" else name: columns
            for name, columns in reading.ratings.items()
        },
    }
    lines = []
    if columns_by_name:
        parts = (
            _plain(name)
            if columns == (name.split()[-1],)
            else f"{_plain(name)} from {' and '.join(map(_plain, columns))}"
            for name, columns in columns_by_name.items()
        )
        lines += _entry("read", "; ".join(parts))
    if reading.unread:
        lines += _entry("not read", ", ".join(map(_plain, reading.unread)))
    if labelled.items:
        # Outputs that somebody rated say more.
        rated = [item for item in labelled.items if getattr(item, "ratings", True)]
        for name, item in zip(("first", "second"), rated or labelled.items, strict=False):
            lines += _entry(name, _plain(_sample(item)))
    return lines


def _sample(item: Item) -> str:
    """One row as it was read: texts cut short, every rating."""
    parts = [f"id {item.id}, document {item.document_id}"]
    texts = dict(item.texts)
    if isinstance(item, LabelledOutput):
        parts += [f"system {item.system}"] if item.system is not None else []
        labels = [
            f"{name} {', '.join(f'{rating:g}' for rating in ratings)}"
            + (f" by {', '.join(item.annotators[name])}" if name in item.annotators else "")
            for name, ratings in item.ratings.items()
        ]
    else:
        texts |= {"response_a": item.response_a, "response_b": item.response_b}
        labels = [f"votes {', '.join(item.votes)}"]
    parts += [f'{name} "{textwrap.shorten(text, 50)}"' for name, text in texts.items()]
    return "; ".join([*parts, *(labels or ["no rating"])])


def _range(bounds: tuple[int, int]) -> str:
    return f"{bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _entry(name: str, text: str) -> list[str]:
    """A name and its text, wrapped to the page, as lines."""
    return textwrap.wrap(
        textwrap.shorten(as_called(text), 2000, placeholder=" ..."),
        _WIDTH,
        initial_indent=f"{name:<11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _notes(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in _entry("note", _plain(note))]


def _plain(text: str) -> str:
    """A file's own word, without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
