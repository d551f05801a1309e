"""How figures and judgements stand in JSON: what does not exist is null."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from judges.judgement import AnyJudgement, Judgement
from judges.prompt import encodable
from optimize.items import Item
from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import Interval

Cell = dict[str, Any]
# To which JSON files round figures.
DIGITS = 6


def json_number(value: float, digits: int | None = None) -> float | None:
    """For JSON, which has neither NaN nor infinity: what does not exist is null; -0 is 0."""
    if not math.isfinite(value):
        return None
    return (float(value) if digits is None else round(float(value), digits)) + 0.0


def interval_cell(interval: Interval | None, digits: int | None = None) -> Cell:
    """`low` and `high`, null where the interval is withheld."""
    if interval is None:
        return {"low": None, "high": None}
    return {name: json_number(getattr(interval, name), digits) for name in ("low", "high")}


def value_cell(value: float, interval: Interval | None, digits: int | None = None) -> Cell:
    """A figure and the ends of its interval."""
    return {"value": json_number(value, digits), **interval_cell(interval, digits)}


def cell(statistic: Correlation) -> Cell:
    """A correlation, the convention that it is by, and how many documents count 0 by that."""
    return {
        "coefficient": statistic.coefficient,
        "level": statistic.level,
        **value_cell(statistic.value, statistic.interval, DIGITS),
        "n_outputs": statistic.n_outputs,
        "n_documents": statistic.n_documents,
        "n_undefined": statistic.n_undefined,
        "n_failed": statistic.n_failed,
        "n_zero": statistic.n_zero,
        "undefined": statistic.undefined,
    }


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
