"""The outputs that a judge passes and people fail, or the other way round, one by one."""

from typing import Any

import numpy as np

from optimize.figures.as_json import json_number
from optimize.items import output_name
from optimize.measuring.scored import Scored

FALSE_PASS, FALSE_ALARM = "false pass", "false alarm"
_NAMES = "miss id document_id system label verdict score comment reason decided_by output"
MISS_COLUMNS = tuple(_NAMES.split())


def misses(scored: Scored) -> dict[str, list[int]]:
    """The rows of both kinds; those of which the judge was surest come first."""
    # NaN, a failed judgement, is neither.
    passes, fails, people = scored.passes == 1, scored.passes == 0, scored.human == 1
    kinds = {FALSE_PASS: passes & ~people, FALSE_ALARM: fails & people}
    sure = -np.abs(scored.scores - 0.5)
    return {
        kind: sorted(np.flatnonzero(rows).tolist(), key=sure.__getitem__)
        for kind, rows in kinds.items()
    }


def miss_rows(scored: Scored, most: int | None = None) -> list[dict[str, Any]]:
    """A flat row a miss, of each kind the first `most`: what people and judge wrote, then texts."""
    rows = []
    for kind, places in misses(scored).items():
        for row in places[:most]:
            item = scored.items.items[row]
            rows.append(
                {
                    "miss": kind,
                    "id": item.id,
                    "document_id": item.document_id,
                    "system": item.system,
                    "label": scored.word(scored.human[row]),
                    "verdict": scored.word(scored.passes[row]),
                    "score": json_number(scored.scores[row]),
                    **said_of(scored, row),
                }
            )
    return rows


def said_of(scored: Scored, row: int) -> dict[str, Any]:
    """What people and judge wrote about an output, then the texts."""
    texts = dict(scored.texts(row))
    return {
        "comment": scored.items.items[row].comment,
        "reason": scored.comment(row),
        "decided_by": scored.judgements[row].decided_by or "",
        "output": texts.pop(output_name(tuple(texts)) or "", ""),
        **{f"text_{name}": text for name, text in texts.items()},
    }
