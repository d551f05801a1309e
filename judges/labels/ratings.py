"""Reads the ratings in a long or wide table of labels.

A long table has one row per annotator and dimension. A wide table has one column per dimension, one
column per annotator and dimension, or columns of objects {dimension: rating}.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judges.labels.cells import (
    KEY_SEPARATOR,
    as_object,
    is_blank,
    is_id_or_name,
    split_by_annotator,
    value_at,
)
from judges.labels.columns import ColumnTuple
from judges.labels.names import name_words
from judges.labels.options import ReadOptions
from judges.labels.rating_reader import RatingReader
from judges.labels.roles import Roles
from judges.labels.values import (
    NUMBER_BY_YES_NO_WORD,
    VERDICT_PAIRS,
    WordValues,
    is_missing_value,
    looks_like_number,
    normalize_word,
    parse_cell,
)
from judges.tables.problems import Problems, UnreadableError, excerpt, joined_names
from judges.tables.text import TableRow

# Matches the name of a dimension on which "yes" is probably bad, such as `has errors`.
_BAD_DIMENSION_NAME = re.compile(
    r"(?!.*\b(?:no|not|non|free|without|keine?)\b).*\b(?:bad\b|bugs?\b|harm(?!less)|halluc|toxi|"
    r"unsafe|danger|error|mistake|wrong|fail|fals|incorrect|inaccura|spam|offens|violat|abus|hate|"
    r"insult|inappropriate|bias|defect|leak|fabricat|problem|issue|flag|irrelevan|fehler|schädlich|"
    r"erreur|contresens|tóxic|peligro|dañin|nsfw|jailbreak|\bpii\b|misleading|\boff topic|reject|"
    r"penalty)"
)
# If a column's name has one of these words, 1 is usually its best rating.
_LOW_IS_BEST_WORDS = {
    *("rank", "ranking", "rang", "platz", "severity", "schweregrad"),
    *("note", "noten", "schulnote", "zensur"),
}
# Maps each annotator's name to their rating of an output. The key None stands for a rating without
# a name, which may be the mean of several annotators' ratings.
RatingsByAnnotator = dict[str | None, float]
# Maps each dimension to its cells in one row, by column.
CellsByDimension = dict[str, dict[str, object]]
# Maps each dimension to the ratings of one output on it, by annotator.
RatingsByDimension = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True)
class TableRatings:
    """The ratings in a table, by the id of the output.

    If the only ratings on a dimension are 1 and 0, `verdict_words` has the file's words for both.
    """

    roles: Roles
    by_output: dict[str, RatingsByDimension]
    verdict_words: dict[str, tuple[str, str]]


class RatingCell(NamedTuple):
    """One annotator's rating of an output, as written in the table; an annotator may be unnamed."""

    line: int
    output_id: str
    dimension: str
    column: str
    annotator: str | None
    value: object


def read_ratings(roles: Roles, problems: Problems) -> TableRatings:
    """Return a table's ratings, and add a problem for each cell that cannot be read.

    In a table with one annotator per row, annotators without a name get the numbers 1, 2, ... for
    each output, in the order of its rows.
    """
    cells_by_dimension: dict[str, list[RatingCell]] = defaultdict(list)
    for cell in _rating_cells(roles, problems):
        cells_by_dimension[cell.dimension].append(cell)
    ratings_by_output: dict[str, RatingsByDimension] = defaultdict(lambda: defaultdict(dict))
    verdict_words: dict[str, tuple[str, str]] = {}
    for dimension, cells in cells_by_dimension.items():
        reader = _make_reader(roles, dimension, [cell.value for cell in cells])
        ratings_by_annotator: dict[str, list[float]] = defaultdict(list)
        for cell in cells:
            with problems.collect(line=cell.line, field=cell.column):
                rating = reader.read(cell.value, roles.options.scale_of(dimension))
                if rating is not None:
                    rating_by_annotator = ratings_by_output[cell.output_id][dimension]
                    annotator = _annotator_name(roles, cell, rating_by_annotator)
                    rating_by_annotator[annotator] = rating
                    ratings_by_annotator[str(annotator)].append(rating)
        problems.notes += (f"{dimension}: {note}" for note in reader.notes())
        names = (dimension, *roles.rating_columns.get(dimension, ()))
        _check_scale_direction(roles.options.value_by_word, names, reader, problems)
        if words := reader.words_for_1_and_0:
            verdict_words[dimension] = words
        _check_scales(dimension, ratings_by_annotator, problems)
    if roles.has_row_per_annotator:
        # Sort the ratings by annotator, so that the order of the rows has no effect.
        for ratings in ratings_by_output.values():
            for dimension, rating_by_annotator in ratings.items():
                ratings[dimension] = dict(sorted(rating_by_annotator.items(), key=str))
    if not roles.columns.is_long:  # in a long table, --values may say who gave a tool's labels
        all_cells = itertools.chain.from_iterable(cells_by_dimension.values())
        _check_user_words(roles.options, all_cells, problems)
    return TableRatings(roles, ratings_by_output, verdict_words)


def _annotator_name(roles: Roles, cell: RatingCell, ratings: RatingsByAnnotator) -> str | None:
    """Return the name or number of a cell's annotator; None if the annotator is unknown."""
    if not roles.has_row_per_annotator:
        return cell.annotator
    if cell.annotator in ratings:
        excerpts = map(excerpt, (cell.output_id, cell.dimension, cell.annotator))
        fault = "is a second rating of {} on {} by {}".format(*excerpts)
        raise UnreadableError("twice", fault, "keep one of the two ratings", cell.value)
    numbers = map(str, itertools.count(len(ratings) + 1))
    return cell.annotator or next(number for number in numbers if number not in ratings)


def _check_scales(
    dimension: str, ratings_by_annotator: Mapping[str, list[float]], problems: Problems
) -> None:
    """Add a note if one annotator's highest rating far exceeds another's, as on another scale."""
    # On one scale, the highest of five ratings or more is rarely below a fifth of another's.
    annotators = [(max(r), name) for name, r in ratings_by_annotator.items() if len(r) >= 5]
    low, low_name = min(annotators, default=(0, ""))
    high, high_name = max(annotators, default=(0, ""))
    if 0 < 5 * low < high:
        problems.notes.append(
            f"{dimension}: the highest rating by {excerpt(low_name)} is {low:g}, and by "
            f"{excerpt(high_name)} {high:g}; if they used different scales, convert one"
        )


def _check_user_words(
    options: ReadOptions, cells: Iterable[RatingCell], problems: Problems
) -> None:
    """Add a note if --values names no label in the file; also a problem if labels are words."""
    user_words = options.number_by_word.items() - NUMBER_BY_YES_NO_WORD.items()
    words = dict(user_words).keys() - options.judge_values
    labels = {normalize_word(cell.value) for cell in cells if not is_missing_value(cell.value)}
    if not (labels and words and words.isdisjoint(labels)):
        return
    fault = f"no label is {joined_names(sorted(words))}, which --values names"
    problems.notes.append(fault)
    # If the labels are numbers, the words may be those of a judge's recorded replies.
    if not any(map(looks_like_number, labels)):
        advice = f"correct --values, or leave it out; the labels are {joined_names(sorted(labels))}"
        problems.add("no-word", fault, advice)


def _make_reader(roles: Roles, dimension: str, values: Sequence[object]) -> RatingReader:
    value_by_word = roles.options.value_by_word
    min_rating, _ = roles.options.scale_of(dimension) or (0, 1)
    present_values = [value for value in values if not is_missing_value(value)]
    number_by_word = {normalize_word(value): parse_cell(value).number for value in present_values}
    # Unless the scale has negative numbers, -1 in a column of only 1 and -1 is thumbs down.
    if {*number_by_word.values()} == {1, -1} and min_rating >= 0:
        thumb_values = {word: max(number, 0) for word, number in number_by_word.items()}
        value_by_word = {**thumb_values, **value_by_word}
    has_semicolons = roles.columns.table.delimiter == ";"
    return RatingReader(values, value_by_word, may_have_decimal_commas=has_semicolons)


def _check_scale_direction(
    user_values: WordValues, names: ColumnTuple, reader: RatingReader, problems: Problems
) -> None:
    """Add a problem or a note if the lowest value may be the best one."""
    number_by_word = reader.number_by_word
    for good, bad in VERDICT_PAIRS:
        # NaN, for a word that the column does not have, is never <= another number.
        good_number = number_by_word.get(good, math.nan)
        bad_number = number_by_word.get(bad, math.nan)
        if good_number <= bad_number:
            meanings = f"{good!r} counts {good_number:g} and {bad!r} {bad_number:g}"
            fault = f"{meanings} by --values, but the good word must count more"
            advice = "leave --values out: then TNR is the share of failures that a judge finds"
            problems.add("turned", fault, advice)
    bad_names = [name for name in names if _BAD_DIMENSION_NAME.match(" ".join(name_words(name)))]
    if verdict_words := reader.words_for_1_and_0:
        user_decides = not user_values.keys().isdisjoint(verdict_words)
        if bad_names and verdict_words not in VERDICT_PAIRS and not user_decides:
            yes, no = verdict_words
            advice = f"say --values {yes}=0,{no}=1 ({yes} is a fail) or --values {yes}=1,{no}=0"
            fault = "may be the name of something bad"
            problems.add("which-word", fault, advice, value=bad_names[0])
    elif bad_names or any(map(_LOW_IS_BEST_WORDS.intersection, map(name_words, names))):
        problems.notes.append(
            f"{names[0]}: a higher rating is read as the better one; if low ratings are better, "
            f"reverse them{reader.reversal_text}"
        )


def _rating_cells(roles: Roles, problems: Problems) -> Iterator[RatingCell]:
    """Yield each rating in the table, also from lists and objects with a rating per annotator."""
    options = roles.options
    for row in roles.rows if options.reads_labels else ():
        output_id, row_annotator = roles.item_id(row), roles.columns.cell(row, "annotator")
        read_cells = _cells_of_long_row if roles.columns.is_long else _cells_of_wide_row
        cells_by_dimension = read_cells(roles, row, problems)
        for dimension, cell_by_column in cells_by_dimension.items():
            if not options.includes_dimension(dimension):
                continue
            for column, value in cell_by_column.items():
                with problems.collect(line=row.line, field=column):
                    for annotator, rating in split_by_annotator(value):
                        if len(cell_by_column) > 1:
                            annotator = column
                        elif not is_blank(row_annotator):
                            annotator = str(row_annotator).strip()
                        yield RatingCell(row.line, output_id, dimension, column, annotator, rating)


def _cells_of_long_row(roles: Roles, row: TableRow, problems: Problems) -> CellsByDimension:
    """Return the cell with a row's rating; adds a problem if the row has no id or no dimension."""
    columns = roles.columns
    item_id, dimension, rating = (columns.cell(row, role) for role in ("id", "dimension", "rating"))
    if is_blank(dimension) and is_blank(rating):
        return {}  # an output without a label
    if not (is_id_or_name(dimension) and is_id_or_name(item_id)):
        advice = "give every rating the id of its output and a dimension"
        problems.add("no-name", "has no id, or no dimension", advice, line=row.line)
        return {}
    column = str(columns.find("rating"))
    return {roles.options.dimension_in(dimension): {column: rating}}


def _cells_of_wide_row(roles: Roles, row: TableRow, problems: Problems) -> CellsByDimension:
    """Return a row's cells with ratings, without comments and keys that --map uses otherwise."""
    columns, cells_by_dimension = roles.columns, CellsByDimension()
    excluded_paths = {*columns.user_columns, *roles.comments}
    for column in columns.nested:
        value = value_at(row.cells, column)
        ratings = as_object(value)
        if ratings is None and not is_missing_value(value):
            fault, advice = "is not an object", "write an object {dimension: rating}"
            problems.add("no-object", fault, advice, line=row.line, field=column, value=value)
        for dimension, rating in (ratings or {}).items():
            key_path = f"{column}{KEY_SEPARATOR}{dimension}"
            if key_path not in excluded_paths and not is_missing_value(rating):
                cells_by_dimension[str(dimension)] = {key_path: rating}
    # If a dimension has ratings in objects and in columns, the objects count, unless the user named
    # the columns.
    for dimension, names in roles.rating_columns.items():
        if dimension in columns.by_name or dimension not in cells_by_dimension:
            cells_by_dimension[dimension] = {name: value_at(row.cells, name) for name in names}
    return cells_by_dimension
