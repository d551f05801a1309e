"""Describe outputs that a judge and people, or two judges, judge differently; the worst first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from judges.labels.types import LabelledOutput
from optimize.figures.as_json import JsonObject, fields_json
from optimize.items import judged_output_name
from optimize.measuring.scored import ScoredItems
from optimize.statistics.balanced import PASS_THRESHOLD
from optimize.statistics.coefficients import midranks
from optimize.statistics.intervals import Mask, Matrix

# "change" is an output on which two judges differ; all other kinds are errors of one judge.
MissKind = Literal["false pass", "false alarm", "too high", "too low", "wrong side", "change"]
# A rating is an error if its rank differs from people's by at least this share of all ranks.
MIN_RANK_DIFFERENCE = 0.25
# A score and a label that differ by less than this may look equal with two decimals.
MIN_VISIBLE_DIFFERENCE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An output on which the judge and people differ, or two judges, with its texts and comments.

    `label` and `verdict` are people's label and the judge's score as text; if two judges differ,
    `verdict` has the old and the new judge's, and `score` is the new judge's. `decided_by` has the
    answers to the judge's questions that moved its score most. `annotations` has pairs of an
    annotator's name, and the annotator's label and comment. `texts` are the texts that the judge
    read; `output_names` are the names of the output in `texts`, or of a pair's two outputs. For a
    rating, `ranks` says how people and the judge rank the output.
    """

    kind: MissKind = field(metadata={"json": "miss"})
    id: str
    document_id: str
    system: str | None
    label: str
    verdict: str
    score: float
    comment: str
    reason: str
    decided_by: str
    annotations: Sequence[tuple[str, str]]
    texts: Mapping[str, str]
    output_names: Sequence[str]
    ranks: str = ""

    @classmethod
    def from_row(cls, scored_items: ScoredItems, kind: MissKind, row: int) -> "Miss":
        item, judgement = scored_items.items[row], scored_items.judgements[row]
        output_names = [*item.texts][-2:]
        if not scored_items.is_pairwise:
            output_name = judged_output_name([*item.texts])
            output_names = [output_name] if output_name else []
        return cls(
            kind=kind,
            id=item.id,
            document_id=item.document_id,
            system=item.system,
            label=scored_items.label_text(item.human),
            verdict=scored_items.label_text(judgement.score),
            score=judgement.score,
            comment=item.comment,
            reason=judgement.rationale or "",
            decided_by=judgement.decided_by or "",
            annotations=_annotations(scored_items, row),
            texts=item.texts,
            output_names=output_names,
        )

    @property
    def output(self) -> str:
        """The output, or the second output of a pair; empty if the texts are not known."""
        return self.texts[self.output_names[-1]] if self.output_names else ""

    @property
    def text_by_key(self) -> JsonObject:
        """The output and the other texts, by their keys in JSON."""
        other_names = [name for name in self.texts if name not in self.output_names[-1:]]
        return {"output": self.output, **{f"text_{name}": self.texts[name] for name in other_names}}

    def to_json(self) -> JsonObject:
        excluded = "annotations", "texts", "output_names", "ranks"
        return {**fields_json(self, *excluded, decimals=None), **self.text_by_key}


def find_misses(
    scored_items: ScoredItems, max_per_kind: int | None = None
) -> dict[MissKind, list[Miss]]:
    """Return the misses of each kind, the worst first, and at most `max_per_kind` of each kind.

    A wrong verdict is the worse, the surer the judge was of it. A rating is a miss if its rank is
    wrong by `MIN_RANK_DIFFERENCE`. A pair is a miss if people prefer one of its outputs, and the
    judge does not prefer the same one.
    """
    scores, human, ranks = scored_items.scores, scored_items.human, [""] * len(scored_items.items)
    is_miss_by_kind: dict[MissKind, Mask]
    # A failed judgement is NaN, for which every comparison is false.
    if scored_items.has_verdicts:
        differences = scores - PASS_THRESHOLD
        is_miss_by_kind = {
            "false pass": (differences >= 0) & (human == 0),
            "false alarm": (differences < 0) & (human == 1),
        }
    elif scored_items.is_pairwise:
        differences = scores - human
        is_miss_by_kind = {"wrong side": (scores * human <= 0) & (human != 0)}
    else:
        shares = outranked_shares(scored_items)
        # Without rounding errors, equal differences are equally bad.
        differences = (shares[0] - shares[1]).round(9)
        others = "the document's other" if scored_items.level == "summary" else "the other"
        text = f"People rank it above {{1:.0%}} of {others} outputs, the judge above {{0:.0%}}."
        ranks = [text.format(*pair) for pair in shares.T]
        is_visible = np.abs(scores - human) >= MIN_VISIBLE_DIFFERENCE
        is_miss_by_kind = {
            "too high": is_visible & (differences >= MIN_RANK_DIFFERENCE),
            "too low": is_visible & (differences <= -MIN_RANK_DIFFERENCE),
        }
    worst_first = np.argsort(-np.abs(differences), kind="stable")
    return {
        kind: [
            replace(Miss.from_row(scored_items, kind, row), ranks=ranks[row])
            for row in worst_first[is_miss[worst_first]][:max_per_kind].tolist()
        ]
        for kind, is_miss in is_miss_by_kind.items()
    }


def outranked_shares(scored_items: ScoredItems) -> Matrix:
    """Return the shares of the other outputs above which the judge, and people, rank each output.

    The shape is (2, outputs). An output counts half of those that are tied with it. The shares are
    0 for an output without a score, and where people rate all outputs alike.
    """
    scores, human = scored_items.scores, scored_items.human
    shares = np.zeros((2, len(human)))
    for rows in scored_items.rows_ranked_together:
        scored_rows = rows[~np.isnan(scores[rows])]
        if np.unique(human[scored_rows]).size > 1:
            ranks = midranks(np.stack([scores[scored_rows], human[scored_rows]]))
            shares[:, scored_rows] = (ranks - 1) / (scored_rows.size - 1)
    return shares


def _annotations(scored_items: ScoredItems, row: int) -> list[tuple[str, str]]:
    """Return each annotator's name with the annotator's label and comment, where they are known."""
    item, dimension = scored_items.labelled_items[row], scored_items.dimension
    labels = [*map(scored_items.label_text, scored_items.items[row].ratings)]
    if isinstance(item, LabelledOutput):
        names, comments = item.annotators.get(dimension, ()), item.comments.get(dimension, ())
    else:
        names, comments = (), item.comments
    anonymous_comments = [("People", comment) for comment in comments]
    if len(labels) == 1 and not names:
        return anonymous_comments
    if len(names) != len(labels):
        names = tuple(map(str, range(1, len(labels) + 1)))
    annotators = [f"Annotator {name}" if name.isdigit() else name for name in names]
    if len(comments) != len(labels):
        return [*zip(annotators, labels, strict=True), *anonymous_comments]
    texts = [". ".join(filter(None, pair)) for pair in zip(labels, comments, strict=True)]
    return [*zip(annotators, texts, strict=True)]
