"""How figures and judgements stand in JSON: what does not exist is null."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from judges.judgement import AnyJudgement, Judgement
from judges.prompt import encodable
from optimize.figures.as_text import DIGITS as DIGITS
from optimize.items import Item
from optimize.statistics.intervals import Figure

Cell = dict[str, Any]


def json_number(value: float, digits: int | None = None) -> float | None:
    """For JSON, which has neither NaN nor infinity: what does not exist is null; -0 is 0."""
    if not math.isfinite(value):
        return None
    return (float(value) if digits is None else round(float(value), digits)) + 0.0


def to_json(result: Any) -> Any:
    """A result as JSON has it: numbers to six digits, and null for what does not exist.

    A dataclass without a `to_json` of its own is an object of its fields.
    """
    if hasattr(result, "to_json"):
        return result.to_json()
    if is_dataclass(result):
        return fields_json(result)
    if isinstance(result, Mapping):
        return {name: to_json(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [to_json(value) for value in result]
    return json_number(result, DIGITS) if isinstance(result, float) else result


def fields_json(result: Any, *without: str) -> Cell:
    """A dataclass' fields as JSON has them; of its `interval` the ends, null where it is None."""
    cells: Cell = {}
    for name in (field.name for field in fields(result) if field.name not in without):
        value = getattr(result, name)
        if name == "interval":
            cells |= {"low": None, "high": None} if value is None else fields_json(value)
        else:
            cells[name] = to_json(value)
    return cells


def figure_json(figure: Figure, digits: int | None = DIGITS) -> Cell:
    """A figure and the ends of its interval alone; all digits where `digits` is None."""
    interval = figure.interval
    ends = {"low": interval.low, "high": interval.high} if interval else {}
    numbers = {"value": figure.value, "low": math.nan, "high": math.nan, **ends}
    return {name: json_number(number, digits) for name, number in numbers.items()}


def judgement_rows(
    items: Sequence[Item], by_judge: Mapping[str, Sequence[AnyJudgement]], split: str = ""
) -> list[Cell]:
    """A flat row an item: people's mean rating (or margin for A) beside each judge's.

    A judge's columns are SCORE, SCORE_rating (one reply's, where it has one), SCORE_comment and
    SCORE_failure, with its name in place of SCORE. The texts it read stand last, as `text_NAME`.
    """
    texts = dict.fromkeys(name for item in items for name in item.texts)
    rows = []
    for place, item in enumerate(items):
        row: Cell = {"id": item.id, **({"split": split} if split else {})}
        row |= {"document_id": item.document_id, "system": item.system, "human": item.human}
        for name, judgements in by_judge.items():
            judgement = judgements[place]
            row[name] = json_number(judgement.score)
            if isinstance(judgement, Judgement):
                row[f"{name}_rating"] = judgement.rating
                row[f"{name}_comment"] = judgement.rationale
            else:
                row[f"{name}_comment"] = judgement.comparison
            row[f"{name}_failure"] = judgement.failure
        rows.append(row | {f"text_{name}": item.texts.get(name) for name in texts})
    return rows


def as_json(value: object, indent: int | None = None) -> str:
    """JSON without NaN that UTF-8 can hold: a lone surrogate, as in some file names, is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    if encodable(text) == text:
        return text
    return json.dumps(value, indent=indent, allow_nan=False)
