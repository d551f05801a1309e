"""Reads labelled pairs, with people's votes, from a table."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from dspy_judges.column_names import name_key
from judges.labels.cells import is_blank, value_in
from judges.labels.columns import VOTE_COLUMNS, Columns, check_mapping
from judges.labels.names import tokens
from judges.labels.rating_columns import find_ratings
from judges.labels.ratings import ReadOptions
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledPair, LabelledPairs, Vote
from judges.labels.votes import VoteCells
from judges.tables.problems import Problems, count, joined_names

_ROLES = ("id", "group", "system_a", "system_b", "annotator")
_VOTE_NAMES = (*VOTE_COLUMNS, "gewinner", "gagnant", "ganador")
_FIRST_SIDE = re.compile(r"(.+?)([ _.-]?)(a|1)", re.IGNORECASE)
_RESPONSES = ("response_a", "response_b")
_OTHER_END = {"a": "b", "A": "B", "1": "2"}
_SYSTEM_WORDS = frozenset({"system", "model", "generator", "modell", "modèle", "modelo"})


class CandidateColumns(NamedTuple):
    """The two columns of candidates, and the word that their names have in common."""

    word: str
    columns: tuple[str, str]


def find_candidate_columns(columns: Columns) -> CandidateColumns | None:
    """Return the two columns of candidates, such as `answer_a` and `answer_b`, or None.

    Of several such columns, those with a usual name of a text are preferred.
    """
    first, second = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if first is not None and second is not None:
        return CandidateColumns("response", (first[0], second[0]))
    sides = []
    for match in filter(None, map(_FIRST_SIDE.fullmatch, columns.table.columns)):
        both = match[0], f"{match[1]}{match[2]}{_OTHER_END[match[3]]}"
        are_texts = columns.is_certain_text(name_key(match[1])) or not columns.of_kind(
            both, "rating"
        )
        are_free = columns.has(both[1]) and both[0] not in columns.comments
        if are_free and are_texts and _SYSTEM_WORDS.isdisjoint(tokens(match[1])):
            sides.append(CandidateColumns(name_key(match[1]), both))
    return min(sides, key=lambda side: not columns.is_certain_text(side.word), default=None)


def _find_vote_columns(columns: Columns) -> tuple[str, ...]:
    """The columns of votes: the mapped ones, else the first with a usual name."""
    mapped = next((columns.mapping[name] for name in VOTE_COLUMNS if name in columns.mapping), ())
    return tuple(filter(columns.has, mapped)) if mapped else columns.find_all(_VOTE_NAMES)[:1]


def holds_pairs(columns: Columns) -> bool:
    """Whether a table has two columns of candidates, and votes or at least no columns of ratings.

    A table with nested or long ratings never holds pairs.
    """
    if find_candidate_columns(columns) is None or columns.has_nested_or_long_ratings:
        return False
    return _find_vote_columns(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(columns: Columns, problems: Problems, options: ReadOptions) -> LabelledPairs:
    """Read the pairs that have a vote, or, from a file without labels, all pairs."""
    check_mapping(columns, problems)
    sides, all_vote_columns = find_candidate_columns(columns), _find_vote_columns(columns)
    vote_columns = all_vote_columns if options.labelled else ()
    _check_columns(columns, problems, sides, options)
    reader = RowReader(
        columns,
        problems,
        roles=_ROLES,
        rated={*all_vote_columns, *columns.find_all(VOTE_COLUMNS)},
        judged=options.texts,
        candidates=dict(zip(_RESPONSES, sides.columns, strict=True)) if sides else {},
    )
    pairs, notes = [], list[str]()
    if sides is not None:
        cells = {
            column: VoteCells(columns.values(column), options.values, sides.columns)
            for column in vote_columns
        }
        votes = _read_votes(columns, cells, problems)
        comments = read_comments(columns, lambda *_: ["votes"]) if options.labelled else {}
        for fields in reader.items():
            remarks = comments.get(fields.id, {}).get("votes", ())
            pairs.append(_pair(fields, votes[fields.id], remarks))
        notes += dict.fromkeys(note for reader in cells.values() for note in reader.notes())
    voted = [pair for pair in pairs if pair.votes or not options.labelled]
    if n_unvoted := len(pairs) - len(voted):
        notes.insert(0, f"left out for lack of a vote: {count(n_unvoted, 'pair')}")
    if options.labelled and not voted and not problems:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(voted),
        candidate=sides.word if sides else "response",
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes),
        reading=reader.reading({"votes": vote_columns}),
    )


def _check_columns(
    columns: Columns, problems: Problems, sides: CandidateColumns | None, options: ReadOptions
) -> None:
    """Add a problem if the columns of candidates or of votes are missing."""
    names = joined_names(columns.table.columns)
    if sides is None:
        advice = "name your columns with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two columns of candidates among {names}", advice)
    if options.labelled and not _find_vote_columns(columns):
        advice = "name your column with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there is no column of votes among {names}", advice)


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


def _read_votes(
    columns: Columns, readers: Mapping[str, VoteCells], problems: Problems
) -> dict[str, list[Vote]]:
    """Return the votes by the pair's id, from all of its rows; adds a problem for each bad cell."""
    votes: dict[str, list[Vote]] = defaultdict(list)
    for row in columns.table.rows:
        pair_votes = votes[columns.item_key(row)]
        names = (columns.cell(row, role) for role in ("system_a", "system_b"))
        name_a, name_b = (None if is_blank(name) else str(name) for name in names)
        for column, cells in readers.items():
            with problems.collect(line=row.line, field=column):
                pair_votes += cells.read(value_in(row, column), (name_a, name_b))
    return votes
