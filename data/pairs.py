"""From a table to labelled pairs, with every problem and every note on the way."""

import re
from collections.abc import Collection, Iterator, Mapping

from data.columns import (
    LINE,
    OUTPUTS,
    Columns,
    Fault,
    cell,
    check_mapping,
    is_blank,
    is_known_text,
    read_json,
)
from data.ratings import find_ratings, fold, has_annotator_rows, holds_ratings, identify
from data.rows import RowReader, document_notes, how_grouped, required_texts
from data.tables.problems import Problems, count, joined_names
from data.tables.text import TableRow
from data.types import LabelledPair, LabelledPairs, Reading, Vote

_SIDES = (("_a", "_b"), ("_A", "_B"), ("_1", "_2"))
_CHOICES = ("votes", "preferred", "preference", "winner")
_NAMES = ("id", "group", "system_a", "system_b", "annotator", *_CHOICES, "response_a", "response_b")
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
    # Chatbot Arena's words.
    "model_a": "A",
    "model_b": "B",
    "tie (bothbad)": "tie",
}
_ADVICE = "write A, B or tie (or 1, 2 and 1.5)"


def find_sides(columns: Columns) -> tuple[str, str, str] | None:
    """Return the candidate's word and the two columns that hold the candidates."""
    mapped = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if mapped[0] is not None and mapped[1] is not None:
        return "response", mapped[0][0], mapped[1][0]
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
    """Whether a table holds two candidates and a choice (or nothing but them), and no ratings."""
    if find_sides(columns) is None or holds_ratings(columns):
        return False
    return _find_choices(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(
    columns: Columns, problems: Problems, needed: Collection[str] | None = None
) -> LabelledPairs:
    """Read every pair that somebody voted on; every row has the texts `needed` (all usual ones)."""
    check_mapping(columns, problems)
    sides, choices = find_sides(columns), _find_choices(columns)
    _check(columns, problems, sides is not None, choices != ())
    word, first, second = sides or ("response", "response_a", "response_b")
    taken = columns.taken(_NAMES) | {first, second, *choices}
    texts = columns.texts(taken)
    reading = _reading(columns, texts, (first, second), choices)
    notes: list[str] = []
    votes_of: dict[int, tuple[Vote, ...] | None] = {}
    if sides and choices:
        columns, votes_of = _join_rows(columns, problems, texts, sides, choices, notes)
        texts = {name: column for name, column in texts.items() if columns.has(column)}
    required = required_texts(columns, problems, texts, needed)
    reader = RowReader(columns, problems, texts, required, candidates=(first, second))
    if sides is not None:
        reader.check("give what both candidates answer, as in prompt, document, post or query")
    systems = columns.find("system_a"), columns.find("system_b")
    pairs, n_without = [], 0
    for row in columns.table.rows if sides and choices else ():
        common = reader.read(row)
        left, right = (reader.text(row, column, column) for column in (first, second))
        names = tuple(reader.name(row, column) for column in systems)
        votes = votes_of[row.line]
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
    notes += [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    notes += reader.notes()
    if not pairs and not problems:
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
        reading=reading,
    )


def _join_rows(
    columns: Columns,
    problems: Problems,
    texts: Mapping[str, str],
    sides: tuple[str, str, str],
    choices: tuple[str, ...],
    notes: list[str],
) -> tuple[Columns, dict[int, tuple[Vote, ...] | None]]:
    """One row a pair, where each annotator has a row, and the votes by row."""
    word, first, second = sides
    known = {name: column for name, column in texts.items() if is_known_text(name)}
    known |= {f"{word}_a": first, f"{word}_b": second}
    columns = identify(columns, problems, known, of="pair")
    votes = {row.line: _read_votes(row, choices, problems) for row in columns.table.rows}
    item = columns.find("id")
    if item is None or not has_annotator_rows(columns):
        return columns, votes
    joined: dict[object, tuple[int, tuple[Vote, ...] | None]] = {}
    for row in columns.table.rows:
        own = row.cells.get(item)
        # What is no name is nobody's, and refused when the row is read.
        key = str(own) if isinstance(own, str | int) else row.line
        line, before = joined.get(key, (row.line, ()))
        given = votes[row.line]
        joined[key] = line, None if before is None or given is None else before + given
    spent = {*choices, columns.find("annotator")}
    folded = fold(columns, problems, spent=spent, texts=known.values(), notes=notes)
    return folded, dict(joined.values())


def _reading(
    columns: Columns,
    texts: Mapping[str, str],
    sides: tuple[str, str],
    choices: tuple[str, ...],
) -> Reading:
    read: dict[str, tuple[str, ...]] = {}
    for name in ("id", "group", "system_a", "system_b", "annotator"):
        column = columns.find(name)
        if name == "id" and columns.mapping.get("id") == (LINE,):
            several = has_annotator_rows(columns)
            read[name] = ("the first line of each pair",) if several else ("the line's number",)
        elif column is not None:
            read[name] = (column,)
    whole = {**texts, "response_a": sides[0], "response_b": sides[1]}
    used = {column for names in read.values() for column in names} | {*whole.values(), *choices}
    return Reading(
        rows=read,
        texts=whole,
        ratings={"votes": choices},
        unread=tuple(column for column in columns.table.columns if column not in used),
    )


def _find_choices(columns: Columns) -> tuple[str, ...]:
    """The columns that hold votes: those mapped, before any that is called so."""
    for name in _CHOICES:
        if name in columns.mapping:
            return tuple(column for column in columns.mapping[name] if columns.has(column))
    found = next((found for name in _CHOICES if (found := columns.find(name)) is not None), None)
    return () if found is None else (found,)


def _check(columns: Columns, problems: Problems, sides: bool, choice: bool) -> None:
    known = joined_names(columns.table.columns)
    if not sides:
        advice = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two candidates in {known}", advice)
    if not choice:
        advice = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {known}", advice)


def _read_votes(
    row: TableRow, columns: tuple[str, ...], problems: Problems
) -> tuple[Vote, ...] | None:
    """Return a row's votes, none where nobody voted; None where one is a fault."""
    votes: list[Vote] = []
    for column, value in ((one, value) for one in columns for value in _votes_in(cell(row, one))):
        if isinstance(value, Fault):
            what, shown_value = value.what, value.value
        elif is_blank(value):
            continue
        else:
            vote = None if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
            if vote is not None:
                votes.append(vote)
                continue
            what, shown_value = "is no vote", value
        problems.add("no-vote", what, _ADVICE, line=row.line, field=column, value=shown_value)
        return None
    return tuple(votes)


def _votes_in(value: object) -> Iterator[object]:
    """Every vote of a cell: a list, a JSON list, words with separators, or one vote."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json(value)
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, str) and value.strip().lower() in _WORDS:
        yield value
    elif isinstance(value, str):
        yield from re.split(r"[,;|\s]+", value.strip()) if not is_blank(value) else ()
    else:
        yield value
