"""What a set holds, in numbers, words and tables of at most 80 columns."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from data.tables.problems import Problem, count
from data.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionSummary:
    """The ratings on one dimension.

    `n_constant` counts documents whose outputs all have the same rating, which rank nothing, and
    `n_single` those with one rated output. `annotators` is the most that rated one output, 0 where
    only means are known.
    """

    low: float
    high: float
    mean: float
    n_rated: int
    n_documents: int
    n_constant: int
    n_single: int
    annotators: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What both kinds of sets hold; `texts` gives each text's median length in words."""

    name: str
    sha256: str
    n_items: int
    n_documents: int
    per_document: tuple[int, int]
    systems: tuple[str, ...]
    texts: Mapping[str, float]
    grouped_by: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsSummary:
    """The votes on pairs; `n_level` counts pairs with as many for A as for B."""

    votes: Mapping[str, int]
    per_pair: tuple[int, int]
    n_level: int


def describe(labelled: LabelledSet | LabelledPairs) -> Summary:
    """Count what a set holds, leaving ratings and votes aside."""
    if isinstance(labelled, LabelledPairs):
        items: Sequence[tuple[str, Mapping[str, str]]] = [
            (pair.document_id, {**pair.texts, labelled.candidate: pair.response_a})
            for pair in labelled.pairs
        ]
    else:
        items = [(output.document_id, output.texts) for output in labelled.outputs]
    sizes: dict[str, int] = {}
    words: dict[str, list[int]] = {}
    for document, texts in items:
        sizes[document] = sizes.get(document, 0) + 1
        for name, text in texts.items():
            words.setdefault(name, []).append(len(text.split()))
    return Summary(
        name=labelled.name,
        sha256=labelled.sha256,
        n_items=len(items),
        n_documents=len(sizes),
        per_document=(min(sizes.values()), max(sizes.values())),
        systems=labelled.systems,
        texts={name: median(numbers) for name, numbers in words.items()},
        grouped_by=labelled.grouped_by,
        notes=labelled.notes,
    )


def describe_dimension(labelled: LabelledSet, dimension: str) -> DimensionSummary:
    """Count the ratings on one dimension; at least one output must have one."""
    rated = [output for output in labelled.outputs if dimension in output.ratings]
    by_document: dict[str, list[float]] = {}
    for output in rated:
        by_document.setdefault(output.document_id, []).append(output.rating(dimension))
    means = [mean for ratings in by_document.values() for mean in ratings]
    return DimensionSummary(
        low=min(means),
        high=max(means),
        mean=fmean(means),
        n_rated=len(rated),
        n_documents=len(by_document),
        n_constant=sum(len(one) > 1 and len(set(one)) == 1 for one in by_document.values()),
        n_single=sum(len(one) == 1 for one in by_document.values()),
        annotators=max(_annotators(output, dimension) for output in rated),
    )


def describe_votes(labelled: LabelledPairs) -> PairsSummary:
    """Count the votes; at least one pair must be there."""
    votes = [vote for pair in labelled.pairs for vote in pair.votes]
    sizes = [len(pair.votes) for pair in labelled.pairs]
    return PairsSummary(
        votes={choice: votes.count(choice) for choice in ("A", "B", "tie")},
        per_pair=(min(sizes), max(sizes)),
        n_level=sum(pair.margin == 0 for pair in labelled.pairs),
    )


def _annotators(output: LabelledOutput, dimension: str) -> int:
    return len(output.annotators.get(dimension, ()))


_WIDTH = 80
# So many problems of a kind are told one by one, unless all are asked for.
_OF_A_KIND = 20


def kind_of_set(labelled: LabelledSet | LabelledPairs) -> str:
    """What a set holds, in one word."""
    return "pairs" if isinstance(labelled, LabelledPairs) else "outputs"


def table_of_sets(sets: Sequence[LabelledSet | LabelledPairs]) -> str:
    """The data sets that ship, one a line."""
    lines = [f"{'name':<16}{'holds':>14}{'documents':>11}{'systems':>9}  texts"]
    for labelled in sets:
        one = describe(labelled)
        holds = count(one.n_items, kind_of_set(labelled)[:-1])
        lines.append(
            f"{one.name:<16}{holds:>14}{one.n_documents:>11}{len(one.systems):>9}"
            f"  {', '.join(one.texts)}"
        )
    lines.append("Their ratings and votes are constructed, nobody's; show NAME tells more.")
    return "\n".join(lines)


def outputs_page(summary: Summary, dimensions: Mapping[str, DimensionSummary]) -> str:
    """What a set of outputs holds."""
    lines = _head(summary, "output")
    lines.append("")
    lines.append(
        f"{'dimension':<24}{'low':>7}{'high':>7}{'mean':>7}{'rated':>9}{'annotators':>12}"
        f"{'constant':>10}"
    )
    for name, one in dimensions.items():
        annotators = str(one.annotators) if one.annotators else "mean"
        lines.append(
            f"{_plain(name)[:23]:<24}{one.low:>7.4g}{one.high:>7.4g}{one.mean:>7.3g}"
            f"{one.n_rated:>9}{annotators:>12}{one.n_constant:>10}"
        )
    lines.append("")
    lines += _wrapped(
        "constant: documents whose outputs all have the same rating and so rank nothing; "
        "mean: only the mean of the annotators is known"
    )
    single = max((one.n_single for one in dimensions.values()), default=0)
    if single:
        lines += _wrapped(f"one rated output alone: up to {count(single, 'document')}")
    return "\n".join(lines + _notes(summary.notes))


def pairs_page(summary: Summary, votes: PairsSummary) -> str:
    """What a set of pairs holds."""
    lines = _head(summary, "pair")
    votes_text = ", ".join(f"{choice} {number:,}" for choice, number in votes.votes.items())
    lines += _entry("votes", f"{votes_text}; {_range(votes.per_pair)} for each pair")
    lines += _entry("level", f"{count(votes.n_level, 'pair')} with as many votes for A as for B")
    return "\n".join(lines + _notes(summary.notes))


def problem_list(problems: Sequence[Problem], *, every: bool) -> str:
    """All problems in the order of the file, those past a kind's share as a number."""
    lines, seen = [], dict[tuple[str, str | None], int]()
    for problem in problems:
        kind = (problem.kind, problem.field)
        seen[kind] = seen.get(kind, 0) + 1
        if every or seen[kind] <= _OF_A_KIND:
            lines.append(str(problem))
    for (_, field), number in seen.items():
        if number > _OF_A_KIND and not every:
            where = f" in field {field!r}" if field else ""
            lines.append(f"... and {number - _OF_A_KIND:,} more of the same kind{where} (--all)")
    lines.append(count(len(problems), "problem"))
    return "\n".join(lines)


def reading(labelled: LabelledSet | LabelledPairs) -> list[str]:
    """How the columns were understood, and the first row as it was read."""
    read = labelled.reading
    lines = []
    columns_by_name = {
        **read.rows,
        **{f"text {name}": (column,) for name, column in read.texts.items()},
        **{f"ratings {name}" if name != "votes" else name: c for name, c in read.ratings.items()},
    }
    if columns_by_name:
        parts = (_from(name, columns) for name, columns in columns_by_name.items())
        lines += _entry("read", "; ".join(parts))
    if read.unread:
        lines += _entry("not read", ", ".join(map(_plain, read.unread)))
    if isinstance(labelled, LabelledPairs):
        items: Sequence[LabelledOutput | LabelledPair] = labelled.pairs
    else:
        # The first that somebody rated says more.
        items = [one for one in labelled.outputs if one.ratings] or labelled.outputs
    return lines + (_entry("first", _sample(items[0])) if items else [])


def _from(name: str, columns: Sequence[str]) -> str:
    last = name.split()[-1]
    if tuple(columns) == (last,):
        return _plain(name)
    return f"{_plain(name)} from {' and '.join(map(_plain, columns))}"


def _sample(item: LabelledOutput | LabelledPair) -> str:
    """One row as it was read: texts cut short, every rating."""
    texts = dict(item.texts)
    if isinstance(item, LabelledPair):
        texts |= {"response_a": item.response_a, "response_b": item.response_b}
        given = [f"votes {', '.join(item.votes)}"]
    else:
        given = [
            f"{name} {', '.join(f'{rating:g}' for rating in ratings)}"
            + (f" by {', '.join(item.annotators[name])}" if name in item.annotators else "")
            for name, ratings in item.ratings.items()
        ]
    parts = [f"id {item.id}, document {item.document_id}"]
    if isinstance(item, LabelledOutput) and item.system is not None:
        parts.append(f"system {item.system}")
    parts += [f'{name} "{textwrap.shorten(text, 50)}"' for name, text in texts.items()]
    return _plain("; ".join([*parts, *(given or ["no rating"])]))


def soundness_page(
    summary: Summary,
    labelled: LabelledSet | LabelledPairs,
    notes: Sequence[str],
    go_on: Sequence[str] = (),
) -> str:
    """A file without problems: what was read, what to know about it, the command that goes on."""
    what = f"{count(summary.n_items, kind_of_set(labelled)[:-1])} for "
    what += count(summary.n_documents, "document")
    if summary.systems:
        what += f" by {count(len(summary.systems), 'system')}"
    if isinstance(labelled, LabelledSet):
        what += ", rated on " + ", ".join(
            f"{_plain(name)} ({one.low:g} to {one.high:g})"
            for name in labelled.dimensions
            for one in (describe_dimension(labelled, name),)
        )
    lines = _wrapped(f"{summary.name}: no problem in {what}")
    lines += _entry("documents", f"by {summary.grouped_by}")
    lines += reading(labelled) + _notes(notes)
    # On one line, so that it can be copied.
    return "\n".join([*lines, *([f"next       {_plain(shlex.join(go_on))}"] if go_on else [])])


def _head(summary: Summary, word: str) -> list[str]:
    lines = [_plain(summary.name)]
    lines += _entry("sha256", summary.sha256)
    each = f"{_range(summary.per_document)} for each document"
    lines += _entry(f"{word}s", f"{summary.n_items:,}, {each}")
    lines += _entry("documents", f"{summary.n_documents:,}, by {summary.grouped_by}")
    names = ", ".join(map(_plain, summary.systems)) or "none named"
    lines += _entry("systems", f"{len(summary.systems)}: {names}")
    texts = ", ".join(f"{_plain(name)} ({words:.0f})" for name, words in summary.texts.items())
    return lines + _entry("texts", f"{texts} (median words)")


def _range(bounds: tuple[int, int]) -> str:
    return f"{bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _entry(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        textwrap.shorten(text, 2000, placeholder=" ..."),
        _WIDTH,
        initial_indent=f"{name:<11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _notes(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in _entry("note", _plain(note))]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)


def _plain(text: str) -> str:
    """A file's own word, without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
