"""From a table to labelled pairs, with every problem and every note on the way."""

import re
from collections.abc import Iterator

from data.columns import OUTPUTS, Columns, cell, check_mapping
from data.grouping import document_notes, how_grouped
from data.numbers import Fault, is_blank, read_json
from data.problems import Problems, count, listed
from data.ratings import holds_ratings
from data.rows import RowReader
from data.tables import Row
from data.types import LabelledPair, LabelledPairs, Vote

_SIDES = (("_a", "_b"), ("_A", "_B"), ("_1", "_2"))
_CHOICES = ("votes", "preferred", "preference")
_NAMES = ("id", "group", "system_a", "system_b", *_CHOICES, "response_a", "response_b")
_WORDS: dict[str, Vote] = {
    "a": "A",
    "b": "B",
    "tie": "tie",
    # AlpacaEval's numbers.
    "1": "A",
    "2": "B",
    "1.5": "tie",
    "1.0": "A",
    "2.0": "B",
}
_WAY_OUT = "write A, B or tie (or 1, 2 and 1.5)"


def find_sides(columns: Columns) -> tuple[str, str, str] | None:
    """Return the candidate's word and the two columns that hold the candidates."""
    mapped = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if mapped[0] is not None and mapped[1] is not None:
        return "response", mapped[0], mapped[1]
    known = set(columns.table.columns)
    for word in ("response", *OUTPUTS):
        for first, second in _SIDES:
            if {word + first, word + second} <= known:
                return word, word + first, word + second
    for column in columns.table.columns:
        word = column[:-2]
        other = {"_a": "_b", "_1": "_2"}.get(column[-2:])
        if other and f"{word}{other}" in known and word not in ("system", "model", "generator"):
            return word, column, f"{word}{other}"
    return None


def holds_pairs(columns: Columns) -> bool:
    """Whether a table holds two candidates and a choice, and no ratings."""
    return (
        find_sides(columns) is not None
        and _find_choice(columns) is not None
        and not holds_ratings(columns)
    )


def read_pair_rows(columns: Columns, problems: Problems) -> LabelledPairs:
    """Read every pair that somebody voted on."""
    check_mapping(columns, problems)
    sides, choice = find_sides(columns), _find_choice(columns)
    _check(columns, problems, sides is not None, choice is not None)
    word, first, second = sides or ("response", "response_a", "response_b")
    taken = columns.taken(_NAMES) | {first, second}
    texts = columns.texts(taken)
    reader = RowReader(columns, problems, texts, candidates=(first, second))
    if sides is not None:
        reader.check("give what both candidates answer, as in prompt, document, post or query")
    systems = columns.find("system_a"), columns.find("system_b")
    pairs, n_without = [], 0
    for row in columns.table.rows if sides and choice else ():
        common = reader.read(row)
        left, right = (reader.text(row, column, column) for column in (first, second))
        names = tuple(reader.name(row, column) for column in systems)
        votes = _read_votes(row, choice or "", problems)
        if votes == ():
            n_without += 1
        if common is None or left is None or right is None or not votes:
            continue
        pairs.append(
            LabelledPair(
                id=common.id,
                document_id=common.document_id,
                texts=common.texts,
                response_a=left,
                response_b=right,
                system_a=names[0],
                system_b=names[1],
                votes=votes,
            )
        )
    notes = [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    notes += reader.notes()
    if not pairs and not problems.found:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    if reader.group is not None:
        notes += document_notes(pairs)
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(pairs),
        candidate=word,
        grouped_by=how_grouped(reader.group, texts),
        notes=tuple(notes),
    )


def _find_choice(columns: Columns) -> str | None:
    return next((found for name in _CHOICES if (found := columns.find(name)) is not None), None)


def _check(columns: Columns, problems: Problems, sides: bool, choice: bool) -> None:
    known = listed(columns.table.columns)
    if not sides:
        way_out = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two candidates in {known}", way_out)
    if not choice:
        way_out = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {known}", way_out)


def _read_votes(row: Row, column: str, problems: Problems) -> tuple[Vote, ...] | None:
    """Return a row's votes, none where nobody voted; None where one is a fault."""
    votes: list[Vote] = []
    for value in _spread(cell(row, column)):
        if isinstance(value, Fault):
            what, given = value.what, value.value
        elif is_blank(value):
            continue
        else:
            vote = None if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
            if vote is not None:
                votes.append(vote)
                continue
            what, given = "is no vote", value
        problems.add("no-vote", what, _WAY_OUT, line=row.line, field=column, value=given)
        return None
    return tuple(votes)


def _spread(value: object) -> Iterator[object]:
    """Every vote of a cell: a list, a JSON list, words with separators, or one vote."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json(value)
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, str):
        yield from re.split(r"[,;|\s]+", value.strip()) if not is_blank(value) else ()
    else:
        yield value
