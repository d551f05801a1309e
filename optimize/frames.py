"""What was judged, as a pandas DataFrame: one row an output or a pair."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from judges.judgement import AnyJudgement, Judgement
from optimize.items import Item

if TYPE_CHECKING:
    import pandas as pd

LABEL_COLUMNS = ("id", "split", "document_id", "system", "human")


def judgements_frame(
    items: Sequence[Item],
    by_judge: Mapping[str, Sequence[AnyJudgement]],
    splits: Iterable[str] = (),
) -> "pd.DataFrame":
    """People's mean rating (or margin for A) beside each judge's; NaN where a judge failed.

    A judge's columns are SCORE, SCORE_rating (one reply's, where it has one), SCORE_comment and
    SCORE_failure, with its name in place of SCORE. The texts it read stand last, as `text_NAME`.
    """
    import pandas as pd

    labels = [
        (item.id, split, item.document_id, item.system, item.human)
        for item, split in zip(items, splits or ("",) * len(items), strict=True)
    ]
    columns: dict[str, Sequence[object]] = dict(
        zip(LABEL_COLUMNS, map(list, zip(*labels, strict=True)), strict=False)
    ) or {name: [] for name in LABEL_COLUMNS}
    if not any(columns["split"]):
        del columns["split"]
    for name, judgements in by_judge.items():
        columns[name] = [judgement.score for judgement in judgements]
        if any(isinstance(judgement, Judgement) for judgement in judgements):
            columns[f"{name}_rating"] = [getattr(j, "rating", None) for j in judgements]
        columns[f"{name}_comment"] = [_comment(judgement) for judgement in judgements]
        columns[f"{name}_failure"] = [judgement.failure for judgement in judgements]
    texts = dict.fromkeys(name for item in items for name in item.texts)
    for name in texts:
        columns[f"text_{name}"] = [item.texts.get(name) for item in items]
    return pd.DataFrame(columns)


def _comment(judgement: AnyJudgement) -> str | None:
    return judgement.rationale if isinstance(judgement, Judgement) else judgement.comparison
