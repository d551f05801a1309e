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
from optimize.statistics.intervals import Figure, IntervalEstimate

Cell = dict[str, Any]
# The metadata of a field whose parts stand among the others.
FLAT = {"json": "flat"}


def json_number(value: float, digits: int | None = None) -> float | None:
    """For JSON, which has neither NaN nor infinity: what does not exist is null; -0 is 0."""
    if not math.isfinite(value):
        return None
    return (float(value) if digits is None else round(float(value), digits)) + 0.0


def to_json(result: Any, digits: int | None = DIGITS) -> Any:
    """A result as JSON has it: a dataclass is an object of its fields, or has a `to_json`.

    Numbers of dataclasses have six digits (None: all), and are null where they do not exist.
    """
    if hasattr(result, "to_json"):
        return result.to_json()
    if is_dataclass(result):
        return fields_json(result, digits=digits)
    if hasattr(result, "_asdict"):
        return result._asdict()
    if isinstance(result, Mapping):
        return {name: to_json(value, digits) for name, value in result.items()}
    return [to_json(v, digits) for v in result] if isinstance(result, list | tuple) else result


def fields_json(result: Any, *without: str, digits: int | None = DIGITS) -> Cell:
    """A dataclass' fields as JSON has them.

    An interval becomes its ends, null where it is None. The parts of a FLAT field stand among the
    others. A field that is None or False by default is left out where it still is.
    """
    cells: Cell = {}
    for each in fields(result):
        name, value = each.name, getattr(result, each.name)
        if name in without or (value is each.default and (value is None or value is False)):
            continue
        if name.endswith("interval"):
            for end in ("low", "high"):
                number = getattr(value, end, math.nan)
                cells[name.removesuffix("interval") + end] = json_number(number, digits)
        elif each.metadata == FLAT:
            cells |= to_json(value, digits)
        else:
            is_number = isinstance(value, float)
            cells[name] = json_number(value, digits) if is_number else to_json(value, digits)
    return cells


def figure_json(figure: Figure, digits: int | None = DIGITS) -> Cell:
    """A figure and the ends of its interval alone."""
    return fields_json(IntervalEstimate(figure.value, figure.interval), digits=digits)


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
