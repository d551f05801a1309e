"""Infers what each column of a table holds: ids, texts, ratings, votes or comments.

The user's choice of columns (`--map`) decides first, then the column's name, then its cells.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from judges.labels.cells import KEY_SEPARATOR, is_id_or_name, value_at, without_keys
from judges.labels.columns import (
    COMMENT_NAME,
    OUTPUT_ROLES,
    PAIR_ROLES,
    ROLE_NAMES,
    ROW_NUMBER_COLUMN,
    VOTE_COLUMNS,
    Columns,
    ColumnTuple,
)
from judges.labels.names import (
    OUTPUT_NAMES,
    is_comment_name,
    is_id_name,
    is_reference_name,
    is_source_or_output,
    is_text_name,
    map_flag,
    name_key,
    name_words,
)
from judges.labels.options import ReadOptions
from judges.labels.rating_columns import find_rating_columns
from judges.tables.formats import Table
from judges.tables.problems import Problem, Problems, UnreadableError, joined_names
from judges.tables.text import TableRow

# What the rows of a table are read as. For "", the table's columns decide.
ItemKind = Literal["outputs", "pairs", ""]
RESPONSE_NAMES = ("response_a", "response_b")
_VOTE_COLUMN_NAMES = (*VOTE_COLUMNS, "vote", "gewinner", "gagnant", "ganador")
# Matches the name of the first of two columns of outputs, such as `answer_a` or `Output 1`.
_COLUMN_A_NAME = re.compile(r"(.+?)([ _.-]?)(a|1)", re.IGNORECASE)
_SUFFIX_B_BY_SUFFIX_A = {"a": "b", "A": "B", "1": "2"}
# Columns with one of these words in their names, such as `model_a`, hold the names of systems.
_SYSTEM_WORDS = frozenset({"system", "model", "generator", "modell", "modèle", "modelo"})
# The comments in a column such as `llm_feedback` were written by a model and not by a person.
_MODEL_WORDS = frozenset({"llm", "gpt", "model", "judge", "ai", "claude", "gemini", "auto"})


class ResponseColumns(NamedTuple):
    """The columns of a pair's two outputs, and the part of their names that is the same in both."""

    shared_name: str
    columns: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What each column of a table holds, as far as its name and its cells tell.

    Attributes:
        names: The roles of columns other than texts and comments: `id`, `group` and so on.
        look_like_pairs: Whether two columns hold outputs, and there are votes or no ratings.
        is_pairwise: Whether each row is read as a pair.
        rating_columns: Maps each dimension, or `votes`, to its columns: one, or one per annotator.
        label_columns: The columns with a rating or a vote in each cell.
        comments: The columns of people's comments on their labels.
        texts: Maps the name of each text to its column.
        certain_columns: The columns that the user or their names call texts.
        id_by_number: Maps the number of each row to the id of its output or pair.
    """

    columns: Columns
    names: ColumnTuple
    responses: ResponseColumns | None
    look_like_pairs: bool
    is_pairwise: bool
    rating_columns: Mapping[str, ColumnTuple]
    label_columns: Collection[str]
    comments: ColumnTuple
    texts: Mapping[str, str]
    certain_columns: Collection[str]
    id_by_number: Mapping[int, str]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple[TableRow, ...]:
        return self.columns.table.rows

    @property
    def options(self) -> ReadOptions:
        return self.columns.options

    def item_id(self, row: TableRow) -> str:
        """Return the id of the output or pair in a row."""
        return self.id_by_number[row.number]

    @property
    def has_no_id_column(self) -> bool:
        """Whether the rows' numbers are the ids: the user says id=#row, or no column holds ids."""
        return self.columns.find("id") is None

    @property
    def has_row_per_annotator(self) -> bool:
        """Whether the labels in a row are one annotator's, as in a long table."""
        return self.columns.is_long or self.columns.find("annotator") is not None

    @property
    def all_rating_columns(self) -> dict[str, ColumnTuple]:
        """Maps each dimension to its columns, and each column of objects to itself, for `check`."""
        if self.columns.is_long and not self.is_pairwise:
            return {"rating": self.columns.find_all(["rating"])}
        object_columns = () if self.is_pairwise else self.columns.nested
        return {name: (name,) for name in object_columns} | dict(self.rating_columns)

    @property
    def nested_dimensions(self) -> dict[str, str]:
        """Maps each dimension in objects {dimension: rating} to its path: `ratings.fluency`."""
        paths = [path for path in self.columns.rating_paths if path not in self.comments]
        return {path.partition(KEY_SEPARATOR)[2]: path for path in paths}


def infer_roles(table: Table, options: ReadOptions, item_kind: ItemKind = "") -> Roles:
    """Return what each column of a table of outputs or pairs holds.

    Raises UnreadableError if the table is to be read as pairs, but lacks outputs or votes.
    """
    columns, problems = Columns(table, options), Problems(table.file)
    comments, votes = _comment_columns(columns), _vote_columns(columns)
    responses = _response_columns(columns, comments)
    look_like_pairs = (
        responses is not None
        and not (columns.is_long or columns.nested)
        and (votes != () or not find_rating_columns(columns))
    )
    is_pairwise = item_kind == "pairs" or (not item_kind and look_like_pairs)
    _check_user_columns(columns, problems)
    response_texts = dict[str, str]()
    rating_columns: Mapping[str, ColumnTuple]
    if is_pairwise:
        text_columns = _checked_responses(columns, responses, votes).columns
        response_texts = dict(zip(RESPONSE_NAMES, text_columns, strict=True))
        role_names, rating_columns = PAIR_ROLES, {"votes": votes}
        label_columns = {*votes, *columns.find_all(VOTE_COLUMNS)}
    else:
        long_roles = ("dimension", "rating") if columns.is_long else ()
        is_asked = options.reads_labels and options.annotations is None
        question_problems = problems if is_asked else None
        rating_columns = find_rating_columns(columns, options.dimensions, question_problems)
        role_names = (*OUTPUT_ROLES, *long_roles)
        label_columns = {*chain(*rating_columns.values()), *columns.find_all(long_roles[1:])}
    used_columns = columns.in_use(role_names).union(response_texts.values(), comments)
    texts = _find_texts(columns, used_columns, label_columns) | response_texts
    certain_texts = {*columns.by_name, *response_texts, *filter(columns.must_hold_text, texts)}
    return Roles(
        columns=columns,
        names=role_names,
        responses=responses,
        look_like_pairs=look_like_pairs,
        is_pairwise=is_pairwise,
        rating_columns=rating_columns,
        label_columns=label_columns,
        comments=comments,
        texts=texts,
        certain_columns={column for name, column in texts.items() if name in certain_texts},
        id_by_number=_item_ids(columns, comments),
        problems=tuple(problems),
        notes=tuple(problems.notes),
    )


def _comment_columns(columns: Columns) -> ColumnTuple:
    """Return the columns, and keys of objects, that hold comments on labels."""
    # A model's comments may be the rated text, but are hidden while people have yet to label.
    model_words = _MODEL_WORDS if columns.options.reads_labels else frozenset()
    excluded_names = columns.user_columns | {*(columns.options.texts or ())}
    comment_columns = [
        name
        for name in filter(is_comment_name, (*columns.table.columns, *columns.rating_paths))
        if name not in excluded_names and model_words.isdisjoint(name_words(name))
    ]
    user_columns = columns.by_name.get(COMMENT_NAME, ())
    return (*user_columns, *columns.of_kind(comment_columns, "text", "label", "name"))


def _vote_columns(columns: Columns) -> ColumnTuple:
    """Return the columns that the user names as votes, else the first one such as `winner`."""
    for name in VOTE_COLUMNS:
        if name in columns.by_name:
            return tuple(filter(columns.has, columns.by_name[name]))
    return columns.find_all(_VOTE_COLUMN_NAMES)[:1]


def _response_columns(columns: Columns, comments: ColumnTuple) -> ResponseColumns | None:
    """Return the columns of pairs' outputs, such as `answer_a` and `answer_b`; None without any."""
    if columns.by_name.keys() >= {*RESPONSE_NAMES}:
        column_a, column_b = (columns.by_name[name][0] for name in RESPONSE_NAMES)
        return ResponseColumns("response", (column_a, column_b))
    unusual_pair: ResponseColumns | None = None
    for match in filter(None, map(_COLUMN_A_NAME.fullmatch, columns.table.columns)):
        shared_name, separator, suffix_a = match.groups()
        column_b = f"{shared_name}{separator}{_SUFFIX_B_BY_SUFFIX_A[suffix_a]}"
        pair = ResponseColumns(name_key(shared_name), (match[0], column_b))
        if not columns.has(column_b):
            continue
        if columns.must_hold_text(pair.shared_name):
            return pair
        names_systems = not _SYSTEM_WORDS.isdisjoint(name_words(shared_name))
        holds_ratings = "rating" in map(columns.kind_of, pair.columns)
        if not (names_systems or holds_ratings or match[0] in comments):
            unusual_pair = unusual_pair or pair
    return unusual_pair


def _checked_responses(
    columns: Columns, responses: ResponseColumns | None, votes: ColumnTuple
) -> ResponseColumns:
    """Return the columns of responses.

    Raises UnreadableError if there are no such columns, no votes, or votes that rate only output A.
    """
    names_text = joined_names(columns.table.columns)
    if responses is None:
        fault = f"no two columns hold a pair's outputs among {names_text}"
        advice = (
            "name your columns with --map response_a=COLUMN --map response_b=COLUMN; if each row "
            "has one output, use --dimension NAME (in Python, read_labels)"
        )
        raise UnreadableError("no-column", fault, advice)
    if columns.options.reads_labels and not votes:
        fault = f"there is no column of votes among {names_text}"
        advice = "name your column with --map votes=COLUMN, or --map preferred=COLUMN"
        raise UnreadableError("no-column", fault, advice)
    for column in votes if columns.options.reads_labels else ():
        # A column such as `rank_a` rates output A alone. If `rank_b` has the same rank, they tie.
        other_column = re.sub("_a$", "_b", column)
        if other_column in columns.table.columns and other_column not in votes:
            fault = f"rates only output A of each pair, and {other_column} rates output B"
            advice = "make one column of votes from both: A, B or, if they are equal, tie"
            raise UnreadableError("no-vote", fault, advice, column)
    return responses


def _find_texts(
    columns: Columns, used_columns: Collection[str], label_columns: Collection[str]
) -> dict[str, str]:
    """Map the name of each text to the column that holds it.

    `used_columns` have another role, as those of ids and comments do. A column that the user names
    with --map is a text, unless it holds labels or the user maps it to one of `ROLE_NAMES`.
    """
    user_texts, other_texts = dict[str, str](), dict[str, str]()
    for name, (column, *_) in without_keys(columns.by_name, ROLE_NAMES).items():
        holds_strings = columns.kind_of(column) in ("text", "label", "name")
        if column not in label_columns and (holds_strings or is_source_or_output(name)):
            user_texts[name] = column
    # A text by which the user groups the outputs, such as their source, is still a text.
    group_texts = columns.of_kind(columns.by_name.get("group", ()), "text")
    role_columns = {*used_columns}.difference(group_texts)
    outer_columns = {*map(columns.outer_name, (*used_columns, *label_columns))}
    for column in columns.except_for(role_columns.union(label_columns)):
        name = _text_name(columns, column)
        # If the objects in a column hold ids or labels, the column itself is not a text.
        is_unused = is_text_name(column) or column not in outer_columns
        if is_unused and _holds_texts(columns, column) and name not in columns.by_name:
            other_texts[name] = column
    # Beside longer texts, short repeated values may reveal which system wrote the output.
    if columns.of_kind((*other_texts.values(), *user_texts.values()), "text"):
        other_texts = {n: c for n, c in other_texts.items() if not columns.column(c).is_category}
    return other_texts | user_texts


def _holds_texts(columns: Columns, column: str) -> bool:
    """Return whether a column holds long texts, or short ones that cannot be labels."""
    # A short reference answer, such as the cells of `ground truth`, may be the label.
    may_be_label = is_reference_name(column) or not columns.options.reads_labels
    return columns.kind_of(column) in (("text",) if may_be_label else ("text", "label"))


def _text_name(columns: Columns, column: str) -> str:
    """Return the name of a column's text, such as `user_input` for the column `User Input`."""
    column_key, standard_name = name_key(column), "_".join(name_words(column))
    if not is_text_name(column) or columns.exact_name(column_key) != column:
        return column
    if standard_name.isascii():
        return standard_name
    return "output" if column_key in OUTPUT_NAMES else "input"


def _item_ids(columns: Columns, comments: ColumnTuple) -> dict[int, str]:
    """Map the number of each row to the id of its output or pair.

    Without a column of ids, the id is the row's number. If rows then name annotators, all rows with
    the same texts have the number of the first one.
    """
    id_column, rows = columns.find("id"), columns.table.rows
    if id_column is not None:
        ids = {row.number: value_at(row.cells, id_column) for row in rows}
        # `RowReader` adds the problem for an invalid id. Here the row gets an id of its own.
        return {
            number: str(cell).strip() if is_id_or_name(cell) else f"{ROW_NUMBER_COLUMN} {number}"
            for number, cell in ids.items()
        }
    annotator_column = columns.find("annotator")
    if annotator_column is None:
        return {row.number: str(row.number) for row in rows}
    other_columns = columns.except_for(comments)
    compared_columns = [
        *columns.find_all(("group", "system", "system_a", "system_b")),
        *filter(is_text_name, other_columns),
        *columns.of_kind(other_columns, "text"),
    ]
    # A column such as `task_id` identifies outputs if an id stands in the rows of several
    # annotators, and rarely twice in the rows of one. Other ids then mean other outputs.
    for name in filter(is_id_name, other_columns):
        id_cells, annotators = columns.column(name).cells, columns.column(annotator_column).cells
        ids_by_annotators = {*zip(map(str, annotators), map(str, id_cells), strict=True)}
        if columns.column(name).n_distinct < len(ids_by_annotators) > len(rows) / 2:
            compared_columns.append(name)
    return {
        row.number: str(same_rows[0].number)
        for same_rows in group_rows(rows, compared_columns)
        for row in same_rows
    }


def group_rows(rows: Sequence[TableRow], columns: Sequence[str]) -> list[list[TableRow]]:
    """Return groups of rows. The rows of a group have equal cells in these columns."""
    rows_by_cells: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        cells = tuple(str(value_at(row.cells, column)) for column in columns)
        rows_by_cells[cells].append(row)
    return [*rows_by_cells.values()]


def _check_user_columns(columns: Columns, problems: Problems) -> None:
    """Add a problem for each name that --map maps to a missing column, or to too many columns."""
    for name, user_columns in columns.by_name.items():
        for column in user_columns:
            are_numbers = (name, column) == ("id", ROW_NUMBER_COLUMN)
            is_known = column in columns.table.columns or are_numbers
            if not is_known and all(cell is None for cell in columns.column(column).cells):
                add_missing_column(columns, problems, column, name)
        has_one_column = is_source_or_output(name) or name in ROLE_NAMES.difference(VOTE_COLUMNS)
        if has_one_column and len(user_columns) > 1:
            fault = f"is mapped to {len(user_columns)} columns ({joined_names(user_columns)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            problems.add("two-columns", fault, advice, field=name)


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Add the problem that the column for `name` is missing or holds no texts."""
    column_exists = columns.has(column) and None not in columns.column(column).cells
    fault = "this column is not read as a text" if column_exists else "there is no such column"
    fault += f"{reason}; the columns are {columns.names_text}"
    advice = f"name your column with {map_flag(name, ['COLUMN'])}"
    problems.add("no-column", fault, advice, field=column)
