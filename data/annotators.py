"""Columns of numbers that nobody named: an annotator each, a dimension each, or no ratings."""

import re
import shlex
from collections.abc import Collection, Iterable, Sequence

from data.columns import Columns, map_flag, tokens
from data.rows import FOOTER
from data.tables.problems import Problems, joined_names
from dspy_judges.column_names import name_key
from dspy_judges.commands import catalogue_texts

_MARKED = re.compile(
    r"(.*?\w)[\W_]+(?:annotator|rater|coder|evaluator|reviewer|worker|expert|participant|"
    r"(?:be|aus)werter|gutachter|prüfer|annotateur|annotatrice|évaluateur|évaluatrice|"
    r"evaluador|evaluadora|anotador|anotadora)(?:in)?(?:[\W_]|\d).*",
    re.IGNORECASE,
)
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
    columns: Columns, guessed: Sequence[str], problems: Problems, *, alone: bool
) -> None:
    """Note columns of numbers which nobody said to be ratings, and how to say what they are.

    One alone is a rating where its numbers are like ratings; so are those of the catalogue's names.
    """
    like = [name for name in guessed if _are_like_ratings(columns.plain_numbers(name))]
    if alone and len(guessed) == 1:
        sure = bool(like)
    else:
        sure = all(catalogue_texts(name.casefold()) for name in guessed)
    if sure:
        return
    # What numbers the rows is no annotator, nor is a mean.
    likely = [name for name in like if not any(map(FOOTER.fullmatch, tokens(name)))] or guessed
    each = " ".join(f"--dimension {shlex.quote(name)}" for name in likely if name.isprintable())
    fault = f"nobody said whether {joined_names(guessed)} are ratings"
    advice = f"name what is rated, as in {each}"
    if len(likely) > 1:
        advice += f"; where each is one annotator's, join them: {map_flag('NAME', likely)}"
    problems.add("annotators", fault, advice)


def ask_for_annotators(
    dimension: str, taken: Sequence[str], candidates: Collection[str], problems: Problems
) -> None:
    """Note other columns whose names have the dimension's words: they may be annotators of it."""
    words = {*tokens(dimension)}
    more = [c for c in candidates if c not in taken and words and words < {*tokens(c)}]
    group = [*taken, *more]
    if more and len(group) > 1:
        fault = f"{joined_names(group)} may be one annotator's each"
        advice = f"take them all by {map_flag(dimension, group)}, or one alone by "
        problems.add("annotators", fault, advice + map_flag(dimension, group[:1]), field=dimension)


def _are_like_ratings(numbers: Sequence[float]) -> bool:
    """Whether numbers may be ratings: on a usual scale, and no numbering of the rows."""
    if any(abs(number) > _MAX_RATING for number in numbers):
        return False
    whole = all(number.is_integer() for number in numbers)
    return not whole or len(numbers) < _MIN_ROWS or len({*numbers}) < len(numbers)
