"""What was judged, row by row: people's rating beside each judge's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judges.judgement import AnyJudgement, Judgement
from optimize.items import Item

if TYPE_CHECKING:
    import pandas as pd


def judgement_rows(
    items: Sequence[Item],
    by_judge: Mapping[str, Sequence[AnyJudgement]],
    splits: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """People's mean rating (or margin for A) beside each judge's; NaN where a judge failed.

    A judge's columns are SCORE, SCORE_rating (one reply's, where it has one), SCORE_comment and
    SCORE_failure, with its name in place of SCORE. The texts it read stand last, as `text_NAME`.
    """
    texts = dict.fromkeys(name for item in items for name in item.texts)
    rows: list[dict[str, Any]] = []
    for index, (item, split) in enumerate(zip(items, splits or ("",) * len(items), strict=True)):
        row: dict[str, Any] = {"id": item.id, **({"split": split} if split else {})}
        row |= {"document_id": item.document_id, "system": item.system, "human": item.human}
        for name, judgements in by_judge.items():
            judgement = judgements[index]
            row[name] = judgement.score
            if isinstance(judgement, Judgement):
                row[f"{name}_rating"] = judgement.rating
                row[f"{name}_comment"] = judgement.rationale
            else:
                row[f"{name}_comment"] = judgement.comparison
            row[f"{name}_failure"] = judgement.failure
        rows.append(row | {f"text_{name}": item.texts.get(name) for name in texts})
    return rows


def judgements_frame(
    items: Sequence[Item], by_judge: Mapping[str, Sequence[AnyJudgement]]
) -> "pd.DataFrame":
    """`judgement_rows` as a DataFrame."""
    import pandas as pd

    return pd.DataFrame(judgement_rows(items, by_judge))
