"""Columns of numbers that nobody named: an annotator each, a dimension each, or no ratings."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from data.columns import Columns, map_flag, tokens
from data.rows import FOOTER
from data.tables.problems import Problems, joined_names
from dspy_judges.column_names import name_key
from dspy_judges.commands import catalogue_texts

_MARKERS = (
    r"annotator|rater|coder|assessor|label+er|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"évaluador|evaluador|evaluadora|anotador|anotadora"
)
_MARKED = re.compile(rf"(.*?\w)[\W_]+(?:{_MARKERS})(?:in)?(?:[\W_]|\d).*", re.IGNORECASE)
_MARKER = re.compile(rf"(?:{_MARKERS})(?:in)?")
_MORE = re.compile(rf"{_MARKER.pattern}|\d+|[a-z]")
# No usual scale goes further; fewer rows may well have no two ratings alike.
_MAX_RATING, _MIN_ROWS = 100, 6


def annotator_groups(candidates: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Columns such as `relevance (annotator 1)` by their dimension, where there are several."""
    groups: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for column in candidates:
        if (match := _MARKED.fullmatch(column)) is not None:
            name = names.setdefault(name_key(match[1]), match[1])
            groups.setdefault(name, []).append(column)
    return {name: tuple(columns) for name, columns in groups.items() if len(columns) > 1}


def ask_about_numbers(
    columns: Columns, guessed: Sequence[str], problems: Problems, *, n_known: int
) -> None:
    """Note columns of numbers which nobody said to be ratings, and how to say what they are.

    One alone is a rating where its numbers are like ratings; so are those of the catalogue's names.
    `n_known` dimensions are told by their columns.
    """
    alone = len(guessed) == 1 and not n_known
    if alone and _are_like_ratings(columns.plain_numbers(guessed[0])):
        return
    if not alone and all(catalogue_texts(name.casefold()) for name in guessed):
        return
    if _rate_several_outputs(columns, guessed):
        fault = f"{joined_names(guessed)} rate the outputs of several systems in one row"
        advice = "write a row for each output, with the columns system, its text and its rating"
        problems.add("several-outputs", fault, advice)
        return
    # What numbers the rows is no annotator, nor is a mean.
    likely = [
        name
        for name in guessed
        if _are_like_ratings(columns.plain_numbers(name))
        and not any(map(FOOTER.fullmatch, tokens(name)))
    ] or guessed
    each = " ".join(f"--dimension {shlex.quote(name)}" for name in likely if name.isprintable())
    noun = "holds" if len(guessed) == 1 else "hold"
    fault = f"{joined_names(guessed)} {noun} numbers that nobody said to be ratings"
    advice = f"name what is rated, as in {each}"
    if len(likely) > 1:
        flags = " ".join(map_flag(name, group) for name, group in _alike(likely).items())
        advice += f"; where each column is an annotator's, give them to their dimension: {flags}"
    problems.add("annotators", fault, advice)


def ask_for_annotators(
    columns: Columns, dimension: str, found: Sequence[str], candidates: Collection[str]
) -> tuple[str, str] | None:
    """Fault and advice where other columns may be further annotators of a dimension; else None."""
    words, n_words = tokens(dimension), len(tokens(dimension))
    alike = [
        column for column in candidates if column not in found and {*words} < {*tokens(column)}
    ]
    if found and len(alike) == 1:
        # `relevance_2` beside `relevance`, but not `relevance_confidence`.
        alike = [column for column in alike if all(map(_MORE.fullmatch, tokens(column)[n_words:]))]
    group = [*found, *alike]
    if len(group) < 2 or not alike or _rate_several_outputs(columns, group):
        return None
    flag = map_flag(dimension, group)
    only = map_flag(dimension, group[:1])
    return (
        f"{joined_names(group)} may be one annotator's each",
        f"take them all by {flag}, or one alone by {only}",
    )


def _are_like_ratings(numbers: Sequence[float]) -> bool:
    """Whether numbers may be ratings: on a usual scale, and no numbering of the rows."""
    if any(abs(number) > _MAX_RATING for number in numbers):
        return False
    whole = all(number.is_integer() for number in numbers)
    return not whole or len(numbers) < _MIN_ROWS or len({*numbers}) < len(numbers)


def _alike(names: Sequence[str]) -> Mapping[str, list[str]]:
    """The columns by what their names share, the first words or the last; else all as NAME."""
    for end in (slice(1, None), slice(None, -1)):
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault("_".join(tokens(name)[end]), []).append(name)
        groups = {"NAME" if _MARKER.fullmatch(stem) else stem: g for stem, g in groups.items()}
        if "" not in groups and all(len(group) > 1 for group in groups.values()):
            return groups
    return {"NAME": [*names]}


def _rate_several_outputs(columns: Columns, rated: Sequence[str]) -> bool:
    """Whether columns of texts and of numbers differ in the same words, as systems' names do."""
    texts = [tokens(column) for column in columns.table.columns if columns.is_prose(column)]
    for place, first in enumerate(texts):
        for second in texts[place + 1 :]:
            pairs = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
            if len(first) == len(second) and len(pairs) == 1:
                sides = [{word for name in rated for word in tokens(name)} & {w} for w in pairs[0]]
                if all(sides):
                    return True
    return False
