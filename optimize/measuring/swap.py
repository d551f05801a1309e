"""Decide whether a new judge may replace an old one, and list the rows that change.

The interval of the new judge's figure minus the old judge's is compared with a margin. Of 100 new
judges that are worse by the margin, at most 5 pass as not worse (benchmarks/swaps.py).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dspy_judges.errors import JudgesError
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, json_number
from optimize.measuring.asking import JudgeEntry, Task
from optimize.measuring.comparison import (
    Difference,
    JudgeComparison,
    compare_judges,
    figure_contrast,
    on_common_rows,
    without_tuned_rows,
)
from optimize.measuring.misses import Miss
from optimize.measuring.scored import ScoredItems, rows_scored_by_both
from optimize.search.problem import MAX_FAILED_SHARE
from optimize.statistics.balanced import MIN_OUTPUTS_FOR_INTERVAL, verdicts
from optimize.statistics.coefficients import midranks
from optimize.statistics.correlations import rho_contributions
from optimize.statistics.floor import MAX_FURTHER_LABELS
from optimize.statistics.intervals import Contrast, Interval, Mask, Vector, cautious_interval

SwapOutcome = Literal["better", "not worse", "worse", "undecided"]
Side = Literal["neither", "new", "old"]
# JSON lists at most this many changed rows.
MAX_CHANGED_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapDecision:
    """The decision whether a new judge may replace an old one.

    `difference` is the new judge's figure minus the old judge's; it is None if there are no labels
    yet. Its 90 % interval is widened so that it holds at each of `looks` looks at a growing set of
    labels.
    """

    new_judge: str = field(metadata={"json": "new"})
    old_judge: str = field(metadata={"json": "old"})
    outcome: SwapOutcome = field(metadata={"json": "swap"})
    margin: float
    looks: int
    difference: Difference | None

    @property
    def is_interval_negative(self) -> bool:
        """Whether the interval lies below 0, so that the new judge is worse by some amount."""
        interval = self.difference.interval if self.difference else None
        return interval is not None and interval.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row to which two judges give different verdicts, preferences or ranks.

    `change` describes the row as a miss. Its `verdict` has the verdicts of both judges.
    """

    change: Miss
    direction: Literal["up", "down"]
    people_side_with: Side
    old_score: float
    human: float

    def to_json(self) -> JsonObject:
        return {
            "id": self.change.id,
            "moved": self.direction,
            "people_side_with": self.people_side_with,
            "new": json_number(self.change.score),
            "old": json_number(self.old_score),
            "human": json_number(self.human),
            "comment": self.change.comment,
            "reason": self.change.reason,
            "decided_by": self.change.decided_by,
            **self.change.text_by_key,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapResult(SwapDecision):
    """The decision whether to swap judges, by labels on a random sample of outputs.

    The new judge comes first in `comparison`. `documents_to_decide` is the total number of
    documents that would decide, or None if that number is too large. `changed_rows` has the
    rows whose verdict, preferred output or rank changed most.
    """

    comparison: JudgeComparison = field(metadata=INLINED_IN_JSON)
    difference: Difference
    documents_to_decide: int | None
    n_changed: int
    n_by_direction: Counter[str] = field(metadata={"json": "moved"})
    n_by_side: Counter[str] = field(metadata={"json": "people_side_with"})
    changed_rows: Sequence[ChangedRow] = field(metadata={"json": "changed"})


def decide_swap(
    new_judge: JudgeEntry, old_judge: JudgeEntry, task: Task, margin: float, looks: int = 1
) -> SwapResult:
    """Decide whether the new judge may replace the old one, by the rows that both have scored."""
    new_scored, old_scored = paired_scores(new_judge, old_judge)
    comparison = compare_judges([new_judge, old_judge], task)
    judges = sorted(comparison.judges, key=lambda judge: judge.name != new_judge.name)
    contrast, possible_contribution = judge_contrast(new_scored, old_scored)
    contributions, interval, n_needed = contrast.contributions, None, None
    if possible_contribution is not None:
        interval = cautious_interval(contributions, possible_contribution, looks)
    outcome = swap_outcome(interval, margin)
    if comparison.judges_tuned_on_labels:
        outcome = "undecided"  # more labels like these would not help
    elif interval and possible_contribution is not None and outcome == "undecided":
        n_needed = documents_needed(contributions, possible_contribution, margin, looks)
    rows = list_changed_rows(new_scored, old_scored)
    return SwapResult(
        new_judge=new_judge.name,
        old_judge=old_judge.name,
        comparison=replace(comparison, judges=judges),
        outcome=outcome,
        margin=margin,
        looks=looks,
        difference=Difference(
            value=contrast.value, interval=interval, n_documents=contributions.size
        ),
        documents_to_decide=n_needed,
        n_changed=len(rows),
        n_by_direction=Counter(row.direction for row in rows),
        n_by_side=Counter(row.people_side_with for row in rows),
        changed_rows=rows[:MAX_CHANGED_ROWS],
    )


def paired_scores(new_judge: JudgeEntry, old_judge: JudgeEntry) -> tuple[ScoredItems, ScoredItems]:
    """Return both judges' scores on the rows that both scored and that neither was tuned on."""
    scores_by_name: dict[str, ScoredItems] = {}
    for entry in (new_judge, old_judge):
        if (scored_items := entry.scored_items) is None:
            raise JudgesError(f"{entry.name}: {entry.why_unscored}")
        n_missing = len(scored_items.failures) + scored_items.n_unjudged
        n_labels = len(scored_items.items) + scored_items.n_unjudged
        if n_missing > MAX_FAILED_SHARE * n_labels:
            raise JudgesError(
                f"no decision: {entry.name} has no score for {n_missing:,} of {n_labels:,} labels; "
                f"at most {MAX_FAILED_SHARE:.0%} may fail or be missing"
            )
        scores_by_name[entry.name] = scored_items
    return rows_scored_by_both(*without_tuned_rows(on_common_rows(scores_by_name)).values())


def judge_contrast(
    new_scored: ScoredItems, old_scored: ScoredItems
) -> tuple[Contrast, float | None]:
    """Return the difference between the judges, and how much one document could contribute to it.

    The second number is None if the difference can have no interval.
    """
    has_verdicts = new_scored.has_verdicts and old_scored.has_verdicts
    contrast = figure_contrast(new_scored, old_scored, has_verdicts=has_verdicts)
    document_ids, human = new_scored.document_ids, new_scored.human
    n_documents = contrast.contributions.size
    possible_contribution: float | None = 0.0
    if has_verdicts:
        labels, counts = np.unique(human, return_counts=True)
        is_rarer = human == labels[counts.argmin()]
        possible_contribution = None
        if is_rarer.sum() >= MIN_OUTPUTS_FOR_INTERVAL:
            possible_contribution = n_documents / 2 * _share_of_document(document_ids, is_rarer)
    elif contrast.interval is None and np.unique(contrast.contributions).size > 1:
        # Only equal contributions have a cautious interval without a Student's t interval.
        possible_contribution = None
    elif new_scored.is_pairwise:
        possible_contribution = n_documents * _share_of_document(document_ids, human != 0)
    elif new_scored.level != "system" and n_documents:
        possible_contribution = _loss_of_document(old_scored)
    return contrast, possible_contribution


def _share_of_document(document_ids: Sequence[str], is_counted: Mask) -> float:
    """Return the share of counted outputs that have the same document as a random one of them."""
    # A judge may err on all outputs of a document at once.
    n_by_document = np.unique(np.asarray(document_ids)[is_counted], return_counts=True)[1]
    shares = n_by_document / n_by_document.sum()
    return float(shares @ shares)


def _loss_of_document(old_scored: ScoredItems) -> float:
    """Return how much the old judge's rho falls if one document's outputs are ranked at random."""
    # The loss is the document's contribution to rho, here as the 90 % quantile over documents. A
    # random order of k outputs is right in one of k! cases, and then nothing is lost. So the
    # quantile is divided by the chance of a loss.
    rows = old_scored.rows
    n_outputs = rows.scores.size / rows.n_documents if old_scored.level == "summary" else math.inf
    chance_of_loss = max(0.5, 1 - math.exp(-math.lgamma(n_outputs + 1)))
    return float(np.nanquantile(rho_contributions(rows, old_scored.level), 0.9)) / chance_of_loss


def documents_needed(
    contributions: Vector, possible_contribution: float, margin: float, looks: int
) -> int | None:
    """Return how many documents like these would decide about the swap; None for too many."""
    for n_copies in range(2, MAX_FURTHER_LABELS // contributions.size + 1):
        copies = np.tile(contributions, n_copies)
        interval = cautious_interval(copies, possible_contribution, looks)
        if swap_outcome(interval, margin) != "undecided":
            return int(copies.size)
    return None


def swap_outcome(interval: Interval | None, margin: float) -> SwapOutcome:
    """Return the outcome for the interval of the new judge's figure minus the old judge's.

    The new judge is not worse if the interval lies above -margin, and better if it lies above 0.
    """
    if interval is None or interval.low <= -margin <= interval.high:
        return "undecided"
    if interval.high < -margin:
        return "worse"
    return "better" if interval.low > 0 else "not worse"


def list_changed_rows(new_scored: ScoredItems, old_scored: ScoredItems) -> list[ChangedRow]:
    """Return the rows on which the judges differ: in verdict, preferred output, or else rank.

    The largest changes come first. Of equal changes, those away from people's labels come first.
    """
    scores = np.stack([new_scored.scores, old_scored.scores, new_scored.human])
    if new_scored.has_verdicts and old_scored.has_verdicts:
        positions = verdicts(scores)
    elif new_scored.is_pairwise:
        positions = np.sign(scores)
    else:
        positions = np.zeros(scores.shape)
        for rows in new_scored.rows_ranked_together:
            positions[:, rows] = midranks(scores[:, rows]) / rows.size
    new_positions, old_positions, human_positions = positions
    moves = new_positions - old_positions
    # How much closer to people the new judge is than the old judge; negative if it is farther.
    gains = np.abs(old_positions - human_positions) - np.abs(new_positions - human_positions)
    side_by_sign: dict[int, Side] = {0: "neither", 1: "new", -1: "old"}
    # Scores are shown as verdicts only if both judges give verdicts.
    text_source = old_scored if new_scored.has_verdicts else new_scored
    changed_rows = []
    for row in np.lexsort((gains, -np.abs(moves))).tolist():
        if not moves[row]:
            break
        new_text, old_text, people_text = map(text_source.label_text, scores[:, row])
        change = replace(
            Miss.from_row(new_scored, "change", row),
            label=people_text,
            verdict=f"{old_text} → {new_text}",
        )
        changed_row = ChangedRow(
            change=change,
            direction="up" if moves[row] > 0 else "down",
            people_side_with=side_by_sign[int(np.sign(gains[row]))],
            old_score=old_scored.scores[row],
            human=new_scored.human[row],
        )
        changed_rows.append(changed_row)
    return changed_rows
