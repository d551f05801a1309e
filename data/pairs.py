"""From a table to labelled pairs and the votes of people."""

import re
from collections.abc import Mapping

from data.cells import is_blank, value_in
from data.columns import VOTES, Columns, check_mapping, tokens
from data.documents import document_notes, how_grouped
from data.labels import reading_of, required_texts, with_line_numbers
from data.ratings import ReadOptions, find_ratings
from data.rows import RowReader, check_repeats, item_key, merge_rows
from data.tables.problems import CellError, Problems, count, joined_names
from data.tables.text import TableRow
from data.types import LabelledPair, LabelledPairs, Vote
from data.votes import VoteCells
from dspy_judges.column_names import name_key

_ROLES = ("id", "group", "system_a", "system_b", "annotator")
_CHOICES = (*VOTES, "gewinner", "gagnant", "ganador")
_SIDE = re.compile(r"(.*?)([ _.-]?)(a|1)", re.IGNORECASE)
_OTHER = {"a": "b", "A": "B", "1": "2"}
_SYSTEMS = frozenset({"system", "model", "generator", "modell", "modèle", "modelo"})


def find_sides(columns: Columns) -> tuple[str, str, str] | None:
    """Return the candidate's word and the two columns that hold the candidates."""
    first, second = columns.mapping.get("response_a"), columns.mapping.get("response_b")
    if first is not None and second is not None:
        return "response", first[0], second[0]
    sides = []
    for column in columns.table.columns:
        match = _SIDE.fullmatch(column)
        other = "" if match is None else f"{match[1]}{match[2]}{_OTHER[match[3]]}"
        if match is None or other not in columns.table.columns or not match[1]:
            continue
        words = {*tokens(match[1])}
        texts = columns.is_judged(name_key(match[1])) or not any(
            columns.is_numeric(side) or columns.is_truth(side) for side in (column, other)
        )
        if texts and column not in columns.comments and words.isdisjoint(_SYSTEMS):
            sides.append((name_key(match[1]), column, other))
    sides.sort(key=lambda side: not columns.is_judged(side[0]))
    return sides[0] if sides else None


def _find_choices(columns: Columns) -> tuple[str, ...]:
    """The columns that hold votes: those mapped, before any that is called so."""
    for name in VOTES:
        if name in columns.mapping:
            return tuple(column for column in columns.mapping[name] if columns.has(column))
    choices = (column for name in _CHOICES if (column := columns.find(name)) is not None)
    return tuple(choices)[:1]


def holds_pairs(columns: Columns) -> bool:
    """Whether a table holds two candidates and a choice (or nothing but them), and no ratings."""
    if find_sides(columns) is None or columns.holds_ratings:
        return False
    return _find_choices(columns) != () or not find_ratings(columns, None).flat


def read_pair_rows(
    columns: Columns, problems: Problems, options: ReadOptions | None = None
) -> LabelledPairs:
    """Read every pair that somebody voted on."""
    options = options or ReadOptions()
    check_mapping(columns, problems)
    notes: list[str] = []
    file_columns = columns
    if columns.makes_ids:
        columns = with_line_numbers(columns)
        notes.append("no column holds ids: each is the number of its row")
    sides, choices = find_sides(columns), _find_choices(columns)
    known = joined_names(columns.table.columns)
    if sides is None:
        advice = "name yours with --map response_a=COLUMN --map response_b=COLUMN"
        problems.add("no-column", f"there are no two candidates in {known}", advice)
    if not choices:
        advice = "name yours with --map votes=COLUMN, or --map preferred=COLUMN"
        problems.add("no-column", f"there are no votes in {known}", advice)
    word, first, second = sides or ("response", "response_a", "response_b")
    used = columns.used((*_ROLES, *VOTES, "response_a", "response_b"))
    texts = columns.texts(used | {first, second, *choices})
    sides_in = {"response_a": first, "response_b": second}
    reading = reading_of(columns, _ROLES, {**texts, **sides_in}, {"votes": choices})
    votes: dict[str | int, tuple[Vote, ...] | None] = {}
    id_in = columns.find("id") if columns.has_annotator_rows else None
    comments = _read_comments(columns, id_in)
    if sides and choices:
        own_texts = {name: column for name, column in texts.items() if columns.is_judged(name)}
        own_texts |= {f"{word}_a": first, f"{word}_b": second}
        check_repeats(file_columns, problems, own_texts, noun="pair")
        cells = {
            column: VoteCells(columns.values(column), options.values, (first, second))
            for column in choices
        }
        votes = _read_votes(columns, cells, problems, id_in)
        vote_notes = dict.fromkeys(note for reader in cells.values() for note in reader.notes())
        if id_in is not None:
            columns, more_notes = merge_rows(
                columns, problems, rated=choices, texts=own_texts.values()
            )
            notes += more_notes
            texts = {name: column for name, column in texts.items() if columns.has(column)}
        notes += vote_notes
    required = required_texts(columns, problems, texts, options)
    row_reader = RowReader(columns, problems, texts, required, candidates=(first, second))
    if sides is not None:
        row_reader.check("give what both candidates answer, as in prompt, document, post or query")
    system_a, system_b = columns.find("system_a"), columns.find("system_b")
    pairs, n_without = [], 0
    for row in columns.table.rows if votes else ():
        fields = row_reader.read(row)
        response_a, response_b = (
            row_reader.text(row, column, column) for column in (first, second)
        )
        name_a, name_b = row_reader.name(row, system_a), row_reader.name(row, system_b)
        key = item_key(row, id_in)
        pair_votes = votes[key]
        n_without += pair_votes == ()
        if fields is None or response_a is None or response_b is None or not pair_votes:
            continue
        pairs.append(
            LabelledPair(
                id=fields.id,
                document_id=fields.document_id,
                texts=fields.texts,
                response_a=response_a,
                response_b=response_b,
                system_a=name_a,
                system_b=name_b,
                votes=pair_votes,
                comments=comments.get(key, ()),
            )
        )
    notes += [f"{count(n_without, 'pair')} left out for want of a vote"] if n_without else []
    notes += row_reader.notes()
    if not pairs and not problems:
        problems.add("no-vote", "no pair has a vote", "give people's choices in votes or preferred")
    notes += document_notes(pairs) if row_reader.group is not None else []
    return LabelledPairs(
        name=columns.table.name,
        sha256=columns.table.sha256,
        pairs=tuple(pairs),
        candidate=word,
        grouped_by=how_grouped(row_reader.group, row_reader.source),
        notes=(*columns.table.notes, *notes),
        reading=reading,
    )


def _read_comments(columns: Columns, id_in: str | None) -> dict[str | int, tuple[str, ...]]:
    """What people said of their choices, by pair."""
    found: dict[str | int, tuple[str, ...]] = {}
    for row in columns.table.rows:
        for column in columns.comments:
            comment = row.cells.get(column)
            if isinstance(comment, str) and not is_blank(comment):
                key = item_key(row, id_in)
                found[key] = (*found.get(key, ()), comment.strip())
    return found


def _read_votes(
    columns: Columns, choices: Mapping[str, VoteCells], problems: Problems, id_in: str | None
) -> dict[str | int, tuple[Vote, ...] | None]:
    """The votes of every pair, of all rows of an id if there is a column; None for a fault."""
    votes: dict[str | int, tuple[Vote, ...] | None] = {}
    for row in columns.table.rows:
        key = item_key(row, id_in)
        row_votes, before = _row_votes(columns, row, choices, problems), votes.setdefault(key, ())
        votes[key] = None if before is None or row_votes is None else before + row_votes
    return votes


def _row_votes(
    columns: Columns, row: TableRow, choices: Mapping[str, VoteCells], problems: Problems
) -> tuple[Vote, ...] | None:
    """The votes in one row's columns; None, and a problem, where a cell cannot be read."""
    votes: list[Vote] = []
    systems = [row.cells.get(columns.find(name) or "") for name in ("system_a", "system_b")]
    name_a, name_b = (None if is_blank(name) else str(name) for name in systems)
    for column, cells in choices.items():
        try:
            votes += cells.read(value_in(row, column), (name_a, name_b))
        except CellError as error:
            problems.add_cell(error, line=row.line, field=column)
            return None
    return tuple(votes)
