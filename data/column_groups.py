"""Columns that belong together by their names: an annotator each, a system each, a choice each."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from data.cells import is_blank, value_in
from data.columns import OUTPUTS, ColumnNames, Columns, split_quoted
from data.tables.formats import Table
from data.tables.problems import Problems, joined_names
from data.tables.text import TableRow
from data.values import truth_of
from dspy_judges.column_names import name_key

_ANNOTATOR = (
    r"annotator|rater|coder|assessor|label+er|evaluator|reviewer|worker|judge|expert|participant|"
    r"person|user|turker|(?:be|aus)werter(?:in)?|gutachter(?:in)?|prüfer(?:in)?|beurteiler(?:in)?|"
    r"[ck]odierer(?:in)?|juror(?:in)?|expert(?:e|in)|annotat(?:eur|rice)|évaluat(?:eur|rice)|"
    r"evaluadora?|anotadora?"
)
_ANNOTATORS_COLUMN = re.compile(rf"(?:{_ANNOTATOR})(?:[ _.:-]+\S.*|\d+)|[ar]?\d+", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*\D)[ _.-]?\d+")
# Questions are numbered too, and are dimensions of their own.
_QUESTIONS = frozenset({"q", "question", "item", "frage", "pregunta", "f", "aspect", "criterion"})
_CHOICE = re.compile(r"(.+?)[._: -](model[_ ][ab]|[^._: -]+)")
_SIDE = {"a": "b", "1": "2", "links": "rechts", "left": "right"}
_COMMENTS = frozenset({"comment", "comments", "kommentar", "commentaire", "reason", "explanation"})
_TOKEN = re.compile(r"[^\W_]+")
# So many rows with one 1 each are no chance.
_MIN_CHOICE_ROWS = 4


def two_sides(columns: Columns) -> tuple[str, str] | None:
    """Two columns of texts whose names differ in one word alone, A and B, or 1 and 2."""
    texts = [column for column in columns.table.columns if not columns.is_numeric(column)]
    by_words = {tuple(_TOKEN.findall(column.casefold())): column for column in texts}
    for words, column in by_words.items():
        for place, word in enumerate(words):
            second = by_words.get((*words[:place], _SIDE.get(word, ""), *words[place + 1 :]))
            others = {*words} - {word}
            beside = others <= {"system", "model", "generator"} or not others.isdisjoint(_COMMENTS)
            if second is not None and not beside and columns.is_prose(column):
                return column, second
    return None


def ask_for_annotators(columns: Columns, rated: Sequence[str], problems: Problems) -> None:
    """Note columns of ratings that are surely no dimension each, and how to say what they are.

    Which dimension an annotator's column rates, no name of a column tells.
    """
    annotators = [column for column in rated if _ANNOTATORS_COLUMN.fullmatch(column)]
    grid = _grid(rated)
    if len(annotators) > 1:
        flags = [_flag("NAME", annotators)]
        fault = f"{joined_names(annotators)} look like one annotator each"
    elif grid:
        firsts, seconds = grid
        if any(all(_has_output_of(columns, name) for name in names) for names in grid):
            fault = f"{joined_names(rated)} rate the outputs of several systems in one row"
            advice = "write a row for each output, with the columns system, its text and its rating"
            problems.add("several-outputs", fault, advice)
            return
        if len(seconds) < 2:
            return
        flags = [_flag(name, columns_of) for name, columns_of in seconds.items()]
        other = " ".join(_flag(name, columns_of) for name, columns_of in firsts.items())
        fault = f"{joined_names(rated)} look like one annotator and dimension each"
        advice = f"say which rate what, as in {' '.join(flags)} (or {other})"
        problems.add("annotators", fault, advice)
        return
    else:
        numbered = _numbered(rated)
        if not numbered:
            return
        flags = [_flag(name, columns_of) for name, columns_of in numbered.items()]
        numbered_columns = [column for columns_of in numbered.values() for column in columns_of]
        fault = f"{joined_names(numbered_columns)} look like one annotator each"
    alone = f"--dimension {shlex.quote(rated[0] if rated[0].isprintable() else 'NAME')}"
    problems.add(
        "annotators", fault, f"say what they rate, as in {' '.join(flags)} (one alone: {alone})"
    )


def _flag(name: str, columns: Sequence[str]) -> str:
    words = [f'"{column}"' if "," in column else column for column in columns]
    pair = f"{name}={','.join(words)}"
    pair = pair if pair.isprintable() else "NAME=COLUMN,COLUMN"
    return f"--map {shlex.quote(pair)}"


def _numbered(rated: Sequence[str]) -> dict[str, list[str]]:
    """The columns whose names differ in their last number alone, by what stands before it."""
    groups: dict[str, list[str]] = {}
    for column in rated:
        if (match := _NUMBERED.fullmatch(column)) is not None:
            groups.setdefault(match[1].rstrip(" _.-"), []).append(column)
    return {
        stem: columns
        for stem, columns in groups.items()
        if len(columns) > 1 and stem and name_key(stem) not in _QUESTIONS
    }


def _grid(rated: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]] | None:
    """By first and by last word, where the columns' names join each of some to each of others."""
    pairs = {column: re.split(r"[ _.:/-]+", column) for column in rated}
    pairs = {column: parts for column, parts in pairs.items() if len(parts) == 2}
    firsts: dict[str, list[str]] = {}
    seconds: dict[str, list[str]] = {}
    for column, (first, second) in pairs.items():
        firsts.setdefault(first, []).append(column)
        seconds.setdefault(second, []).append(column)
    is_whole = len(pairs) == len(firsts) * len(seconds) == len(rated)
    several = len(firsts) > 1 and len(seconds) > 1
    if is_whole and several and not all(name.isdigit() for name in seconds):
        return firsts, seconds
    # Of one dimension, several systems' outputs.
    return (firsts, seconds) if is_whole and len(firsts) > 1 and len(seconds) == 1 else None


def joined_choices(
    table: Table, mapping: Mapping[str, ColumnNames], dimensions: Collection[str]
) -> tuple[Table, dict[str, ColumnNames]]:
    """The table with one column for each group of which every row chose one; and the mapping.

    As crowd platforms export a question: `Answer.relevance.1` to `.5`, one of them true. A column
    that somebody names alone stays what it is.
    """
    groups: dict[str, dict[str, str]] = {}
    for column in table.columns:
        if (match := _CHOICE.fullmatch(column)) is not None:
            groups.setdefault(match[1], {})[match[2]] = column
    own_mapping = dict(mapping)
    parts_by_name = {name: _parts(columns, table) for name, columns in mapping.items()}
    named = {part for parts in parts_by_name.values() for part in parts}
    for stem, choices in groups.items():
        parts = [*choices.values()]
        chosen = _chosen(table, choices) if len(parts) > 2 and stem not in table.columns else None
        whole = [name for name, named_parts in parts_by_name.items() if {*parts} == named_parts]
        if chosen is None or ({*parts} & {*named, *dimensions} and not whole):
            continue
        own_mapping |= dict.fromkeys(whole, stem)
        rows = tuple(
            TableRow(row.line, {**_without(row.cells, parts), stem: choice})
            for row, choice in zip(table.rows, chosen, strict=True)
        )
        columns_left = [column for column in table.columns if column not in parts]
        note = f"{stem!r} is read from {joined_names(parts)}: which of them is chosen"
        table = replace(table, columns=(*columns_left, stem), rows=rows, notes=(*table.notes, note))
    return table, own_mapping


def _parts(columns: ColumnNames, table: Table) -> set[str]:
    """The columns that a mapping names, those between commas too."""
    written = [columns] if isinstance(columns, str) else columns
    return {
        part
        for column in written
        for part in ([column] if column in table.columns else split_quoted(column))
    }


def _without(cells: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    dropped = {*names}
    return {name: value for name, value in cells.items() if name not in dropped}


def _chosen(table: Table, choices: Mapping[str, str]) -> list[str | None] | None:
    """Each row's choice, None where it has none; None where the columns are no choice of one."""
    chosen: list[str | None] = []
    for row in table.rows:
        values = {name: value_in(row, column) for name, column in choices.items()}
        truths = {name: truth_of(value) for name, value in values.items() if not is_blank(value)}
        if None in truths.values():
            return None
        true = [name for name, truth in truths.items() if truth]
        if len(true) > 1:
            return None
        chosen.append(true[0] if true else None)
    n_chosen = sum(choice is not None for choice in chosen)
    enough = n_chosen >= _MIN_CHOICE_ROWS and 2 * n_chosen > len(chosen)
    return chosen if enough and len({*chosen} - {None}) > 1 else None


def _has_output_of(columns: Columns, system: str) -> bool:
    """Whether a column holds the outputs of this system, as `summary_gpt4` does."""
    keys = {name_key(column) for column in columns.table.columns if columns.is_prose(column)}
    own = name_key(system)
    return not keys.isdisjoint(
        {own, *(name for word in OUTPUTS for name in (word + own, own + word))}
    )
