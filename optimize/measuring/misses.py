"""List the outputs on which a judge and people differ: by kind of difference, worst first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from judges.labels.types import LabelledOutput
from judges.terminal import LINE_WIDTH
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json
from optimize.figures.as_text import short_name
from optimize.items import judged_output_name
from optimize.measuring.scored import ScoredItems
from optimize.statistics.balanced import PASS_THRESHOLD
from optimize.statistics.coefficients import midranks
from optimize.statistics.intervals import Mask, Vector

NamedTexts = list[tuple[str, str]]
MissKind = Literal["false pass", "false alarm", "too high", "too low", "wrong side", "change"]
# A judge's rating is a miss if its rank differs from people's by at least this share of all ranks.
MIN_RANK_DIFFERENCE = 0.25
# A score and a label that differ by less than this may look equal with two decimals.
MIN_VISIBLE_DIFFERENCE = 0.005
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What people and the judge wrote about an output, with the texts that the judge read.

    `decided_by` has the answers to the judge's questions that moved its score most. `people` has
    each annotator's label and comment by the annotator's name. `output_names` has the key of the
    output in `texts`, or the keys of a pair's two outputs.
    """

    comment: str
    reason: str
    decided_by: str
    people: NamedTexts
    texts: Mapping[str, str]
    output_names: Sequence[str]

    @classmethod
    def from_row(cls, scored_items: ScoredItems, row: int) -> "Remarks":
        judgement, texts = scored_items.judgements[row], scored_items.items[row].texts
        output_name = judged_output_name([*texts])
        output_names = [*texts][-2:] if scored_items.is_pairwise else [output_name or ""]
        return cls(
            comment=scored_items.items[row].comment,
            reason=judgement.rationale or "",
            decided_by=judgement.decided_by or "",
            people=_annotator_texts(scored_items, row),
            texts=texts,
            output_names=[name for name in output_names if name in texts],
        )

    @property
    def output(self) -> str:
        """The output, or the second output of a pair; empty if the texts are not known."""
        return self.texts[self.output_names[-1]] if self.output_names else ""

    def to_json(self) -> JsonObject:
        texts = {f"text_{name}": text for name, text in self.texts.items()}
        for name in self.output_names[-1:]:
            del texts[f"text_{name}"]
        remarks = fields_json(self, "people", "texts", "output_names")
        return {**remarks, "output": self.output, **texts}

    def as_line(self, title: str, item_id: str) -> str:
        """Return one line with excerpts of the output, the comment and the judge's reason."""
        prefix = f"{title} {short_name(item_id, 16)}: "
        reason = self.decided_by or self.reason
        texts = {"": self.output, "people: ": self.comment, "judge: ": reason}
        remarks = [name + " ".join(text.split()) for name, text in texts.items() if text.strip()]
        width = (LINE_WIDTH - len(prefix) - 3 * (len(remarks) - 1)) // max(len(remarks), 1)
        excerpts = [text if len(text) <= width else f"{text[: width - 1]}…" for text in remarks]
        return prefix + " | ".join(excerpts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An output on which the judge and people differ: its label, its score and remarks on it."""

    kind: MissKind = field(metadata={"json": "miss"})
    id: str
    document_id: str | None = ""
    system: str | None = ""
    label: str
    verdict: str
    score: float
    remarks: Remarks = field(metadata=INLINED_IN_JSON)

    @classmethod
    def from_row(cls, scored_items: ScoredItems, kind: MissKind, row: int) -> "Miss":
        item, score = scored_items.items[row], scored_items.scores[row]
        return cls(
            kind=kind,
            id=item.id,
            document_id=item.document_id,
            system=item.system,
            label=scored_items.label_text(item.human),
            verdict=scored_items.label_text(score),
            score=score,
            remarks=Remarks.from_row(scored_items, row),
        )

    def to_json(self) -> JsonObject:
        return fields_json(self, decimals=None)


def rows_by_miss_kind(scored_items: ScoredItems) -> dict[MissKind, list[int]]:
    """Return the rows of each kind of miss, the worst first.

    A wrong verdict is the worse, the surer the judge was of it. A rating is a miss if its rank is
    wrong by `MIN_RANK_DIFFERENCE`. A pair is a miss if people prefer one of its outputs, and the
    judge does not prefer the same one.
    """
    scores, human, verdicts = scored_items.scores, scored_items.human, scored_items.verdicts
    mask_by_kind: dict[MissKind, Mask]
    # A failed judgement is NaN, for which every comparison is false.
    if scored_items.has_verdicts:
        differences = scores - PASS_THRESHOLD
        mask_by_kind = {
            "false pass": (verdicts == 1) & (human == 0),
            "false alarm": (verdicts == 0) & (human == 1),
        }
    elif scored_items.is_pairwise:
        differences = scores - human
        mask_by_kind = {"wrong side": (scores * human <= 0) & (human != 0)}
    else:
        differences = rank_differences(scored_items)
        is_visible = np.abs(scores - human) >= MIN_VISIBLE_DIFFERENCE
        mask_by_kind = {
            "too high": is_visible & (differences >= MIN_RANK_DIFFERENCE),
            "too low": is_visible & (differences <= -MIN_RANK_DIFFERENCE),
        }
    sorted_rows = np.argsort(-np.abs(differences), kind="stable")
    return {kind: sorted_rows[mask[sorted_rows]].tolist() for kind, mask in mask_by_kind.items()}


def rank_differences(scored_items: ScoredItems) -> Vector:
    """Return each output's rank by the judge minus its rank by people, as a share of all ranks.

    The difference is 0 for an output without a score, and where people rate all outputs alike.
    """
    scores, human = scored_items.scores, scored_items.human
    differences = np.zeros(len(human))
    for rows in scored_items.rows_ranked_together:
        scored_rows = rows[~np.isnan(scores[rows])]
        if np.unique(human[scored_rows]).size > 1:
            judge_ranks, human_ranks = midranks(np.stack([scores[scored_rows], human[scored_rows]]))
            differences[scored_rows] = (judge_ranks - human_ranks) / (scored_rows.size - 1)
    return differences


def list_misses(scored_items: ScoredItems, max_per_kind: int | None = None) -> list[Miss]:
    """Return the misses of all kinds, at most `max_per_kind` of each kind."""
    return [
        Miss.from_row(scored_items, kind, row)
        for kind, rows in rows_by_miss_kind(scored_items).items()
        for row in rows[:max_per_kind]
    ]


def _annotator_texts(scored_items: ScoredItems, row: int) -> NamedTexts:
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
