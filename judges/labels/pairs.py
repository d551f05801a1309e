"""Reads labelled pairs and people's votes from a table."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from dspy_judges.column_names import name_key
from judges.labels.cells import value_in
from judges.labels.columns import VOTES, Columns, check_mapping
from judges.labels.names import tokens
from judges.labels.rating_columns import find_ratings
from judges.labels.ratings import ReadOptions
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledPair, LabelledPairs, Vote
from judges.labels.values import Values, word_of
from judges.labels.votes import read_votes
from judges.tables.problems import Problems, UnreadableError, count, joined_names

_ROLES = ("id", "group", "system_a", "system_b", "annotator")
_CHOICES = (*VOTES, "gewinner", "gagnant", "ganador")
_SIDE = re.compile(r"(.+?)([ _.-]?)(a|1)", re.IGNORECASE)
_RESPONSES = ("response_a", "response_b")
_OTHER = {"a": "b", "A": "B", "1": "2"}
_SYSTEMS = frozenset({"system", "model", "generator", "modell", "modèle", "modelo"})


class Sides(NamedTuple):
    """The file's word for a candidate, and the two columns of candidates."""

    word: str
    columns: tuple[str, str]


def find_sides(columns: Columns) -> Sides | None:
    """Return the two columns of candidates, those with a text's name first; None without."""
    first, second = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if first is not None and second is not None:
        return Sides("response", (first[0], second[0]))
    sides = []
    for match in filter(None, map(_SIDE.fullmatch, columns.table.columns)):
        both = match[0], f"{match[1]}{match[2]}{_OTHER[match[3]]}"
        are_texts = columns.is_judged(name_key(match[1])) or not columns.of_kind(both, "rating")
        is_free = columns.has(both[1]) and both[0] not in columns.comments
        if is_free and are_texts and _SYSTEMS.isdisjoint(tokens(match[1])):
            sides.append(Sides(name_key(match[1]), both))
    return min(sides, key=lambda side: not columns.is_judged(side.word), default=None)


def _find_choices(columns: Columns) -> tuple[str, ...]:
    """The columns of votes: by the mapping, else the first with a usual name."""
    named = next((columns.mapping[name] for name in VOTES if name in columns.mapping), ())
    return tuple(filter(columns.has, named)) if named else columns.find_all(_CHOICES)[:1]


def holds_pairs(columns: Columns) -> bool:
    """Whether a table has two candidates, no ratings, and votes (or at least no numbers)."""
    if find_sides(columns) is None or columns.holds_ratings:
        return False
    return _find_choices(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(columns: Columns, problems: Problems, options: ReadOptions) -> LabelledPairs:
    """Read every pair with a vote; of unlabelled files every pair.

    Raises UnreadableError where there are no two columns of candidates.
    """
    check_mapping(columns, problems)
    names = joined_names(columns.table.columns)
    if (sides := find_sides(columns)) is None:
        advice = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        raise UnreadableError("no-column", f"there are no two candidates in {names}", advice)
    voted_in = _find_choices(columns)
    choices = voted_in if options.labelled else ()
    if options.labelled and not choices:
        advice = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {names}", advice)
    reader = RowReader(
        columns,
        problems,
        roles=_ROLES,
        rated={*voted_in, *columns.find_all(VOTES)},
        judged=options.texts,
        candidates=dict(zip(_RESPONSES, sides.columns, strict=True)),
    )
    votes = _votes_by_pair(columns, choices, sides, options.values, problems)
    comments = read_comments(columns, lambda *_: ["votes"]) if options.labelled else {}
    pairs = [
        _pair(fields, votes[fields.id], comments.get(fields.id, {}).get("votes", ()))
        for fields in reader.items()
    ]
    voted = [pair for pair in pairs if pair.votes or not options.labelled]
    n_without = len(pairs) - len(voted)
    notes = [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    if not voted and not problems:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(voted),
        candidate=sides.word,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes),
        reading=reader.reading({"votes": choices}),
    )


def _pair(fields: ItemFields, votes: list[Vote], comments: tuple[str, ...]) -> LabelledPair:
    texts = dict(fields.texts)
    response_a, response_b = (texts.pop(name) for name in _RESPONSES)
    system_a, system_b = fields.systems
    return LabelledPair(
        id=fields.id,
        document_id=fields.document_id,
        texts=texts,
        response_a=response_a,
        response_b=response_b,
        system_a=system_a,
        system_b=system_b,
        votes=tuple(votes),
        comments=comments,
    )


def _votes_by_pair(
    columns: Columns, choices: Iterable[str], sides: Sides, values: Values, problems: Problems
) -> dict[str, list[Vote]]:
    """The votes on every pair, by its id, from all of its rows; adds a problem for bad cells."""
    votes: dict[str, list[Vote]] = defaultdict(list)
    words = {word_of(word): meaning for word, meaning in values.items()}
    for row in columns.table.rows:
        a, b = (str(columns.cell(row, role) or "") for role in ("system_a", "system_b"))
        for column in choices:
            with problems.collect(line=row.line, field=column):
                cell = value_in(row, column)
                votes[columns.item_key(row)] += read_votes(cell, words, (a, b), sides.columns)
    return votes
