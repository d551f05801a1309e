"""May one judge take the place of another: the difference held against a margin, and what changes.

Of judges that are worse by the margin at most 5 of 100 pass (benchmarks/swaps.py).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dspy_judges.errors import JudgesError
from optimize.figures.as_json import FLAT, Cell, fields_json, json_number
from optimize.figures.as_text import looks_text, short_name
from optimize.inputs.flags import MOST_FAILED
from optimize.measuring.asking import Entry, Task
from optimize.measuring.comparison import (
    ComparedJudge,
    Difference,
    JudgeComparison,
    compare_judges,
    contrast_of,
    held_out_from_all,
    on_common_rows,
)
from optimize.measuring.misses import comments_and_texts
from optimize.measuring.scored import Scored, with_both_scores
from optimize.statistics.balanced import FEWEST_FOR_INTERVAL, verdicts
from optimize.statistics.correlations import Mask, document_terms, midranks, read_rows
from optimize.statistics.floor import MOST_FURTHER
from optimize.statistics.intervals import Contrast, Interval, Vector, cautious_interval

Outcome = Literal["better", "not worse", "worse", "undecided"]
# So many changed rows stand in JSON.
MOST_CHANGED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Whether a new judge may take the old one's place.

    `difference` is the new judge's figure less the old one's, with its 90 % interval over documents
    (at system level over systems) in so many `looks`; None while no label tells it.
    """

    swap: Outcome
    margin: float
    looks: int
    difference: Difference | None

    @property
    def names(self) -> tuple[str, str]:
        """The new judge's name, and the old one's."""
        raise NotImplementedError

    @property
    def is_below(self) -> bool:
        """Whether the new judge is worse, be it by less than the margin."""
        interval = self.difference.interval if self.difference else None
        return interval is not None and interval.high < 0

    @property
    def obstacle(self) -> str:
        """Why these labels certify nothing, if that is not for the interval alone."""
        return ""

    @property
    def verdict(self) -> str:
        """What these labels certify, in a sentence."""
        if self.obstacle:
            return self.obstacle
        new, old = map(short_name, self.names)
        margin, outcome, looks = f"{self.margin:g}", self.swap, looks_text(self.looks)
        once = f" in any{looks}" if looks else ""
        by = "" if outcome == "better" else f" by more than {margin}"
        if outcome == "undecided":
            if self.is_below:
                return (
                    f"On documents like these {new} is worse than {old} (of judges no worse, at "
                    f"most 5% would look so{once}); these labels cannot tell whether{by}."
                )
            return f"These labels cannot tell whether {new} is worse than {old}{by}."
        claim = f"On documents like these {new} is {outcome} than {old}{by}."
        if outcome == "not worse" and self.is_below:
            claim = f"On documents like these {new} is worse than {old}, but by less than {margin}."
        wrong = {"better": "no better", "worse": f"worse by {margin} or less"}
        otherwise = wrong.get(outcome, f"worse by {margin}")
        return f"{claim} Of judges that are {otherwise}, at most 5% would get this verdict{once}."

    @property
    def is_undecided(self) -> bool:
        return self.swap == "undecided"

    @property
    def faults(self) -> list[str]:
        """The verdict where it keeps the new judge out, as a gate words it."""
        words = {"worse": "falls short", "undecided": "undecided"}
        return [f"{words[self.swap]}: {self.verdict}"] if self.swap in words else []


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapResult(Certificate):
    """The certificate of a swap; in `comparison` the new judge comes first, then the old one.

    `moved` and `people_side_with` count all changed rows; `changed` holds those that moved most.
    """

    comparison: JudgeComparison = field(metadata=FLAT)
    difference: Difference
    documents_to_decide: int | None
    n_changed: int
    moved: Counter[str]
    people_side_with: Counter[str]
    changed: Sequence[Mapping[str, Any]]

    @property
    def judges(self) -> Sequence[ComparedJudge]:
        return self.comparison.judges

    @property
    def names(self) -> tuple[str, str]:
        new, old = self.judges
        return new.name, old.name

    @property
    def unit(self) -> str:
        """What the interval is over."""
        return "system" if self.comparison.level == "system" else "document"

    def to_json(self) -> Cell:
        """All of it, and the verdict where it is the gate's."""
        short = [self.verdict] if self.swap == "worse" else []
        undecided = [self.verdict] if self.swap == "undecided" else []
        return {**fields_json(self), "short": short, "undecided": undecided}


def certificate(new: Entry, old: Entry, task: Task, margin: float, looks: int = 1) -> SwapResult:
    """The verdict, the difference that it rests on, and what changes (see `paired_scores`)."""
    a, b = paired_scores(new, old)
    comparison = compare_judges([new, old], task)
    judges = sorted(comparison.judges, key=lambda judge: judge.name != new.name)
    contrast, interval, least = difference_of(a, b, looks)
    outcome, needed, changed = outcome_of(interval, margin), None, changed_rows(a, b)
    if a.tuned_rows or b.tuned_rows:
        outcome = "undecided"  # and no number of labels like these would help
    elif interval and outcome == "undecided":
        needed = documents_to_decide(contrast.terms, least, margin, looks)
    n = contrast.terms.size
    return SwapResult(
        comparison=replace(comparison, judges=judges),
        swap=outcome,
        margin=margin,
        looks=looks,
        difference=Difference(value=contrast.value, interval=interval, n_documents=n),
        documents_to_decide=needed,
        n_changed=len(changed),
        moved=Counter(row["moved"] for row in changed),
        people_side_with=Counter(row["people_side_with"] for row in changed),
        changed=changed[:MOST_CHANGED],
    )


def paired_scores(new: Entry, old: Entry) -> tuple[Scored, Scored]:
    """Both judges on the rows that both scored and, unless few are left, neither was tuned on.

    Raises JudgesError where a judge has no score for more than a tenth of the labels.
    """
    scores: dict[str, Scored] = {}
    for name, scored, reason in ((each.name, each.scored, each.reason) for each in (new, old)):
        if scored is None:
            raise JudgesError(f"{name}: {reason}")
        failed, n = len(scored.failures) + scored.n_unjudged, len(scored.items) + scored.n_unjudged
        if failed > MOST_FAILED * n:
            raise JudgesError(
                f"no verdict: {name} has no score for {failed:,} of {n:,} labels; at most "
                f"{MOST_FAILED:.0%} may fail or be missing"
            )
        scores[name] = scored
    return with_both_scores(*held_out_from_all(on_common_rows(scores)).values())


def difference_of(
    new: Scored, old: Scored, looks: int = 1
) -> tuple[Contrast, Interval | None, float]:
    """The new judge's figure less the old one's, its 90 % interval, and the `least` of that."""
    binary = new.is_binary and old.is_binary
    contrast = contrast_of(new, old, is_binary=binary)
    n, least = contrast.terms.size, 0.0  # what a document may add
    if binary:
        labels, counts = np.unique(new.human, return_counts=True)
        if counts.min() < FEWEST_FOR_INTERVAL:
            return contrast, None, least
        least = n / 2 * _share_of_document(new.documents, new.human == labels[counts.argmin()])
    elif contrast.interval is None and np.unique(contrast.terms).size > 1:
        return contrast, None, least
    elif new.is_pairs:
        least = n * _share_of_document(new.documents, new.human != 0)
    elif new.level != "system" and n:
        least = _loss_of_document(old)
    return contrast, cautious_interval(contrast.terms, least, looks), least


def _share_of_document(documents: Sequence[str], chosen: Mask) -> float:
    """Of the chosen outputs the share on one's document, on average over the outputs."""
    counts = np.unique(np.asarray(documents)[chosen], return_counts=True)[1]
    shares = counts / counts.sum()  # whole documents, as a judge may err on all outputs of one
    return float(shares @ shares)


def _loss_of_document(old: Scored) -> float:
    """What a judge like the old one loses where it comes to rank a document's outputs at random.

    It loses what the document adds to its rho, here the 90 % quantile over documents. Within a
    document one of the k! orders of k outputs is the right one, and the loss does not show.
    """
    rows = read_rows(old.scores, old.human, old.documents)
    outputs = rows.judge.size / rows.n_documents if old.level == "summary" else math.inf
    shown = max(0.5, 1 - math.exp(-math.lgamma(outputs + 1)))
    return float(np.nanquantile(document_terms(rows, old.level), 0.9)) / shown


def documents_to_decide(terms: Vector, least: float, margin: float, looks: int) -> int | None:
    """How many documents in all decide, if further ones repeat these; None for too many."""
    for times in range(2, MOST_FURTHER // terms.size + 1):
        interval = cautious_interval(np.tile(terms, times), least, looks)
        if outcome_of(interval, margin) != "undecided":
            return times * int(terms.size)
    return None


def outcome_of(interval: Interval | None, margin: float) -> Outcome:
    """Better, not worse (by the margin), worse (by more), or undecided."""
    if interval is None or interval.low <= -margin <= interval.high:
        return "undecided"
    if interval.high < -margin:
        return "worse"
    return "better" if interval.low > 0 else "not worse"


def changed_rows(new: Scored, old: Scored) -> list[Cell]:
    """The rows on which the judges differ in verdict, side, or else in rank among the others.

    Those that moved most come first; of these, those on which people side with the old judge.
    """
    binary, scores = new.is_binary and old.is_binary, (new.scores, old.scores, new.human)
    places = np.stack([verdicts(side) if binary else np.sign(side) for side in scores])
    for rows in [] if binary or new.is_pairs else new.ranked_rows:
        places[:, rows] = midranks(np.stack([side[rows] for side in scores])) / rows.size
    now, before, people = places
    nearer = np.abs(before - people) - np.abs(now - people)
    order = np.lexsort((nearer, -np.abs(now - before)))
    return [
        {
            "id": new.items.items[row].id,
            "moved": "up" if now[row] > before[row] else "down",
            "people_side_with": ("neither", "new", "old")[int(np.sign(nearer[row]))],
            "new": json_number(new.scores[row]),
            "old": json_number(old.scores[row]),
            "human": json_number(new.human[row]),
            **comments_and_texts(new, row),
        }
        for row in order[now[order] != before[order]].tolist()
    ]
