"""Read recorded scores of any judge, in this project's own format.

The rows are `{"id", "dimension", "score"}`, or those that `dspy-judges score` or `winrate` wrote.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dspy_judges.errors import JudgesError
from judges.frozen import TUNED_ON_KEY
from judges.judgement import MAX_SCORE, AnyJudgement, Judgement, Preference, preferred_output
from judges.labels.cells import as_object, first_value, is_blank
from judges.labels.columns import ROW_NUMBER_COLUMN
from judges.labels.conversations import cells_with_texts
from judges.labels.names import judge_name
from judges.labels.types import AnyLabels
from judges.labels.values import (
    MISSING,
    NUMBER,
    NUMBER_BY_YES_NO_WORD,
    WordValues,
    looks_like_number,
    parse_cell,
)
from judges.tables.formats import read_table
from judges.tables.problems import Problems, RowsError, excerpt, joined_names
from judges.tables.text import Record
from optimize.items import MARGIN_OF_VOTE

JudgementsById = Mapping[str, AnyJudgement]
SAME_NAME = "use the same name in labels and scores"
# The words that are read as scores. "correct" is read as a label only, since a column of "correct"
# beside the scores may hold people's labels.
SCORE_BY_WORD = {
    word: NUMBER_BY_YES_NO_WORD[word] for word in ("yes", "true", "pass", "no", "false", "fail")
}
# If no column has the judge's name, the score is in the first of these columns that the file has.
# The command `winrate` writes an object `verdict`, or columns such as `verdict_margin`.
_USUAL_SCORE_COLUMNS = ("verdict_margin", "verdict_preferred", "score", "verdict", "preferred")


class RecordingError(JudgesError, ValueError):
    """Raised for an unusable file of replies or scores; the message has file, line and column."""


class Recording(NamedTuple):
    """A judge's judgements from a file, by the ids of its rows.

    `tuned_ids` are the rows that the judge was tuned on. `notes` and `warnings` say how the file
    was read.
    """

    judgement_by_id: JudgementsById
    tuned_ids: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def judgement_of_score(score: float, is_pairwise: bool, reason: str | None = None) -> AnyJudgement:
    """Return a judgement with this score (for a pair, this margin for A); NaN means failed."""
    if math.isnan(score):
        return (Preference if is_pairwise else Judgement).failed(reason or "no score")
    if not is_pairwise:
        return Judgement(score=score, rationale=reason)
    return Preference(margin=score, preferred=preferred_output(score) or "tie", comparison=reason)


def score_of_cell(cell: object, number_by_word: Mapping[str, float]) -> float | None:
    """Return the number that a cell stands for: NaN for a blank cell, None if it is not a score."""
    if is_blank(cell):
        return math.nan
    word = str(cell).strip().casefold()
    if word in number_by_word:
        return number_by_word[word]
    parsed_cell = parse_cell(cell)
    if parsed_cell.kind == MISSING:
        return math.nan
    if parsed_cell.kind != NUMBER or abs(parsed_cell.number) > MAX_SCORE:
        return None
    return parsed_cell.number


def recorded_rows(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield each row with its location: the file's name and the line."""
    problems = Problems(str(path))
    try:
        table = read_table(path, problems)
    except RowsError as error:
        raise RecordingError(str(error)) from error
    if problems or table is None:
        raise RecordingError(str(problems[0]))
    for row in table.rows:
        yield f"{path.name}, {problems.unit} {row.line}", row.cells


def rows_on_dimension(path: Path, dimension: str | None) -> Iterator[tuple[str, str, Record]]:
    """Yield location, id and cells of each row that does not name another dimension."""
    for location, row in recorded_rows(path):
        row_dimension = row.get("dimension")
        if isinstance(row_dimension, str) and dimension not in (None, row_dimension):
            continue
        if is_blank(row.get("id")):
            raise RecordingError(
                f"{location}: 'id' is missing; add a column id with the labels' ids or, if they "
                "have none, with their numbers: 1 for the first label"
            )
        yield location, str(row["id"]).strip(), row


def read_own_scores(
    path: Path, dimension: str, value_by_word: WordValues | None = None, is_pairwise: bool = False
) -> Recording:
    """Read the scores on a dimension; an empty score becomes NaN.

    `value_by_word` has the score or vote that each word stands for. The score of a pair is its
    margin: 1 or "A", -1 or "B", 0 or "tie".
    """
    number_by_word = _number_by_word(value_by_word or {}, is_pairwise)
    judgement_by_id: dict[str, AnyJudgement] = {}
    tuned_ids, numeric_scores = set[str](), set[float]()
    for location, item_id, row in rows_on_dimension(path, dimension):
        if (record := _record_on_dimension(row, dimension)) is None:
            continue
        if (column := _score_column(record, dimension)) not in record:
            columns_text = joined_names(list(row))
            raise RecordingError(f"{location}: {column!r} is not among {columns_text}; {SAME_NAME}")
        cell = record[column]
        is_margin = column == "verdict_margin" or isinstance(cell, dict)
        if isinstance(cell, dict):
            cell = cell.get("margin", cell.get("preferred", cell))
        if (score := score_of_cell(cell, number_by_word)) is None:
            raise RecordingError(
                f'{location}: expected {{"id", "dimension", "score"}}, with a number as '
                f"score, at most {MAX_SCORE:g}, or one of the labels' words, and not "
                f"{excerpt(cell)}; give other words a number, as in --values pass=1,fail=0"
            )
        if item_id in judgement_by_id:
            raise RecordingError(f"{location}: {item_id!r:.60} has two scores")
        judgement_by_id[item_id] = judgement_of_score(score, is_pairwise)
        if not is_margin and looks_like_number(cell) and not math.isnan(score):
            numeric_scores.add(score)
        # The commands `score` and `winrate` mark the rows that the judge was tuned on.
        prefix = column.removesuffix("_preferred").removesuffix("_margin")
        mark_columns = TUNED_ON_KEY, f"{column}.{TUNED_ON_KEY}", f"{prefix}_{TUNED_ON_KEY}"
        if str(first_value(record, mark_columns)).casefold() == "true":
            tuned_ids.add(item_id)
    if not judgement_by_id:
        raise RecordingError(f"{path.name}: no score on {dimension!r}; {SAME_NAME}")
    # Some margins must be negative, since some pairs have the better output as B.
    if is_pairwise and len(numeric_scores) > 1 and (lowest := min(numeric_scores)) >= 0:
        raise RecordingError(
            f"{path.name}: scores of pairs are margins: positive for A, negative for B, 0 for tie; "
            f"these are {lowest:g} to {max(numeric_scores):g}: write 1, -1 and 0, or A, B and tie"
        )
    return Recording(judgement_by_id, frozenset(tuned_ids))


def _number_by_word(value_by_word: WordValues, is_pairwise: bool) -> dict[str, float]:
    margin_by_vote = MARGIN_OF_VOTE if is_pairwise else {}
    number_by_word = {vote.casefold(): margin for vote, margin in margin_by_vote.items()}
    for word, value in value_by_word.items():
        number = MARGIN_OF_VOTE[value] if isinstance(value, str) else value
        # --values may replace a number in the labels; a score that is a number is never replaced.
        if not looks_like_number(word):
            number_by_word[word.casefold()] = math.nan if number is None else number
    return number_by_word


def _record_on_dimension(row: Record, dimension: str) -> Mapping[str, object] | None:
    """Return the row, or its entry in `judgements` for the dimension; None if there is no entry."""
    if (judgements := as_object(row.get("judgements"))) is None:
        return row
    return as_object(judgements.get(dimension, judgements.get(judge_name(dimension))))


def _score_column(record: Mapping[str, object], dimension: str) -> str:
    """Return the name of the column with the score; without such a column, the dimension's."""
    # `dspy-judges score` writes NAME and NAME_failure, where NAME is the judge's name. If people's
    # ratings are in a column NAME, it writes NAME_judge and NAME_judge_failure.
    for name in (dimension, judge_name(dimension)):
        for column in (f"{name}_judge", name):
            if f"{column}_failure" in record:
                return column
    return next((column for column in _USUAL_SCORE_COLUMNS if column in record), dimension)


def ids_are_numbers(labels: AnyLabels) -> bool:
    """Return whether the labels have numbers as ids, which mean nothing in another file."""
    return labels.reading.rows.get("id") == (ROW_NUMBER_COLUMN,)


def check_numbers(path: Path, labels: AnyLabels) -> str:
    """Check that each row belongs to the label with its number, and return a note.

    The note is empty if texts were compared. Raises RecordingError if a row has another text than
    its label, or if no text can be compared and the ids are not exactly the labels' numbers.
    """
    texts_by_id = {item.id: item.texts for item in labels.items}
    numbers, has_texts = list[str](), False
    for location, row in recorded_rows(path):
        cells, number = cells_with_texts(row), str(row.get("id")).strip()
        numbers.append(number)
        for name, text in texts_by_id.get(number, {}).items():
            column = labels.reading.texts.get(name, name)
            if not isinstance(cell := cells.get(column), str):
                continue
            has_texts = True
            if cell.split() != text.split():
                raise RecordingError(
                    f"{location}: {column!r} is not the text of label number {number}; the labels "
                    "have no ids, so score the labelled file itself, or give both files the same "
                    "ids (--map id=COLUMN)"
                )
    if has_texts:
        return ""
    if {*numbers} != texts_by_id.keys():
        raise RecordingError(
            f"{path.name}: {len(numbers):,} rows, the first with the id {numbers[0]}; the "
            f"{len(texts_by_id):,} labels have no ids and are numbered from 1; give both files the "
            "same ids (--map id=COLUMN)"
        )
    return f"{path.name}: joined to the labels, which have no ids, by their numbers"
