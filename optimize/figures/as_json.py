"""Turn figures and judgements into values for JSON; undefined numbers become null."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

from judges.judgement import AnyJudgement, Judgement
from judges.prompt import utf8_text
from optimize.figures.as_text import JSON_DECIMALS as JSON_DECIMALS
from optimize.items import Item
from optimize.statistics.intervals import Figure, IntervalEstimate

JsonObject = dict[str, object]
# A dataclass field with the metadata {"json": KEY} is written under KEY. A field with the metadata
# INLINED_IN_JSON holds a dataclass, whose own fields are written in place of the field.
INLINED_IN_JSON = {"json": ""}


def json_number(value: float, decimals: int | None = None) -> float | None:
    """Return the number for JSON: None in place of NaN and infinity, 0 in place of -0."""
    if not math.isfinite(value):
        return None
    return (float(value) if decimals is None else round(float(value), decimals)) + 0.0


def to_json(result: object, decimals: int | None = JSON_DECIMALS) -> Any:
    """Return the result as values for JSON, by its method `to_json` if it has one.

    Numbers are rounded to `decimals` decimals (None: not rounded), and undefined numbers are null.
    `decimals` has no effect on a result that has a method `to_json`.
    """
    if hasattr(result, "to_json"):
        return result.to_json()
    if is_dataclass(result):
        return fields_json(result, decimals=decimals)
    if isinstance(result, Mapping):
        return {name: to_json(value, decimals) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [to_json(item, decimals) for item in result]
    return json_number(result, decimals) if isinstance(result, float) else result


def fields_json(result: Any, *excluded: str, decimals: int | None = JSON_DECIMALS) -> JsonObject:
    """Return a dataclass' fields as values for JSON, without the fields named in `excluded`.

    An interval is written under two keys, such as `low` and `high`, which are null if there is no
    interval. A field is left out if it has its default None or False.
    """
    record: JsonObject = {}
    for field in fields(result):
        value, key = getattr(result, field.name), field.metadata.get("json", field.name)
        is_unset = value is field.default and (value is None or value is False)
        if field.name in excluded or is_unset:
            continue
        if key.endswith("interval"):
            for end in ("low", "high"):
                end_key = key.removesuffix("interval") + end
                record[end_key] = json_number(getattr(value, end, math.nan), decimals)
        elif key:
            record[key] = to_json(value, decimals)
        else:
            record |= to_json(value, decimals)
    return record


def figure_json(figure: Figure, decimals: int | None = JSON_DECIMALS) -> JsonObject:
    return fields_json(IntervalEstimate(figure.value, figure.interval), decimals=decimals)


def judgement_rows(
    items: Sequence[Item], judgements_by_name: Mapping[str, Sequence[AnyJudgement]], split: str = ""
) -> list[JsonObject]:
    """Return a flat row for each item, with people's mean rating and the judges' scores.

    For a pair, people's rating is their mean margin in favour of A. A judge called NAME has the
    columns NAME (its score), NAME_rating (the rating, if one reply gave the score), NAME_comment
    and NAME_failure. The last columns hold the texts that were judged, such as text_output.
    """
    text_names = dict.fromkeys(chain.from_iterable(item.texts for item in items))
    rows = []
    for index, item in enumerate(items):
        row: JsonObject = {"id": item.id, **({"split": split} if split else {})}
        row |= {"document_id": item.document_id, "system": item.system, "human": item.human}
        for name, judgements in judgements_by_name.items():
            judgement = judgements[index]
            row[name] = json_number(judgement.score)
            if isinstance(judgement, Judgement):
                row[f"{name}_rating"] = judgement.rating
            row[f"{name}_comment"] = judgement.rationale
            row[f"{name}_failure"] = judgement.failure
        rows.append(row | {f"text_{name}": item.texts.get(name) for name in text_names})
    return rows


def json_text(value: object, indent: int | None = None) -> str:
    """Return the value as JSON text; a lone surrogate, as in some file names, is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    if utf8_text(text) == text:
        return text
    return json.dumps(value, indent=indent, allow_nan=False)
