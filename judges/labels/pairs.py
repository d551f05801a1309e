"""Reads labelled pairs and people's votes from a table."""

import re
from collections.abc import Mapping

from dspy_judges.column_names import name_key
from judges.labels.cells import is_blank, value_in
from judges.labels.columns import VOTES, Columns, check_mapping, tokens
from judges.labels.ratings import ReadOptions, find_ratings
from judges.labels.rows import RowReader, item_key, read_comments
from judges.labels.types import LabelledPair, LabelledPairs, Vote
from judges.labels.votes import VoteCells
from judges.tables.problems import Problems, UnreadableError, count, joined_names

_ROLES = ("id", "group", "system_a", "system_b", "annotator")
_CHOICES = (*VOTES, "gewinner", "gagnant", "ganador")
_SIDE = re.compile(r"(.+?)([ _.-]?)(a|1)", re.IGNORECASE)
_OTHER = {"a": "b", "A": "B", "1": "2"}
_SYSTEMS = frozenset({"system", "model", "generator", "modell", "modèle", "modelo"})


def find_sides(columns: Columns) -> tuple[str, str, str] | None:
    """Return the file's word for a candidate and the two columns of candidates; None without."""
    first, second = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if first is not None and second is not None:
        return "response", first[0], second[0]
    sides = []
    for match in filter(None, map(_SIDE.fullmatch, columns.table.columns)):
        column, other = match[0], f"{match[1]}{match[2]}{_OTHER[match[3]]}"
        if columns.has(other) and column not in columns.comments:
            is_rated = "rating" in (columns.kind(column), columns.kind(other))
            is_text = columns.is_judged(name_key(match[1]))
            if (is_text or not is_rated) and _SYSTEMS.isdisjoint(tokens(match[1])):
                sides.append((not is_text, name_key(match[1]), column, other))
    return min(sides, key=lambda side: side[0])[1:] if sides else None


def _find_choices(columns: Columns) -> tuple[str, ...]:
    """The columns of votes: by the mapping, else the first with a usual name."""
    for name in VOTES:
        if name in columns.mapping:
            return tuple(column for column in columns.mapping[name] if columns.has(column))
    return columns.find_all(_CHOICES)[:1]


def holds_pairs(columns: Columns) -> bool:
    """Whether a table has two candidates, no ratings, and votes (or at least no numbers)."""
    if find_sides(columns) is None or columns.holds_ratings:
        return False
    return _find_choices(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(columns: Columns, problems: Problems, options: ReadOptions) -> LabelledPairs:
    """Read every pair with a vote; of unlabelled files every pair."""
    check_mapping(columns, problems)
    sides, voted_in = find_sides(columns), _find_choices(columns)
    choices = voted_in if options.labelled else ()
    names = joined_names(columns.table.columns)
    if sides is None:
        advice = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two candidates in {names}", advice)
    if options.labelled and not choices:
        advice = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {names}", advice)
    word, first, second = sides or ("response", "response_a", "response_b")
    reader = RowReader(
        columns,
        problems,
        roles=_ROLES,
        rated={*voted_in, *columns.find_all(VOTES)},
        judged=options.texts,
        candidates={"response_a": first, "response_b": second} if sides else {},
    )
    cells = {
        column: VoteCells(columns.values(column), options.values, (first, second))
        for column in choices
    }
    votes = _read_votes(columns, cells, problems) if sides else {}
    comments = read_comments(columns, lambda column, row: ["votes"]) if options.labelled else {}
    pairs, n_without = [], 0
    for fields in reader.items() if votes else ():
        texts = dict(fields.texts)
        response_a, response_b = texts.pop("response_a"), texts.pop("response_b")
        pair_votes = votes[fields.id]
        if options.labelled and not pair_votes:
            n_without += 1
            continue
        pairs.append(
            LabelledPair(
                id=fields.id,
                document_id=fields.document_id,
                texts=texts,
                response_a=response_a,
                response_b=response_b,
                system_a=fields.systems[0],
                system_b=fields.systems[1],
                votes=tuple(pair_votes),
                comments=comments.get(fields.id, {}).get("votes", ()),
            )
        )
    if options.labelled and not pairs and not problems:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    notes = [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    notes += dict.fromkeys(note for of_column in cells.values() for note in of_column.notes())
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(pairs),
        candidate=word,
        grouped_by=reader.grouped_by,
        notes=(*columns.table.notes, *reader.notes, *notes),
        reading=reader.reading({"votes": choices}),
    )


def _read_votes(
    columns: Columns, choices: Mapping[str, VoteCells], problems: Problems
) -> dict[str, list[Vote]]:
    """The votes on every pair, by its id, from all of its rows; adds a problem for bad cells."""
    votes: dict[str, list[Vote]] = {}
    id_in, systems = columns.find("id"), [columns.find(role) for role in ("system_a", "system_b")]
    for row in columns.table.rows:
        of_pair = votes.setdefault(item_key(row, id_in), [])
        names = [row.cells.get(column or "") for column in systems]
        name_a, name_b = (None if is_blank(name) else str(name) for name in names)
        for column, cells in choices.items():
            try:
                of_pair += cells.read(value_in(row, column), (name_a, name_b))
            except UnreadableError as error:
                problems.add_error(error, line=row.line, field=column)
    return votes
