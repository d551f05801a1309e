"""Compare several judges on the same labelled rows: each judge's figures, and who is best."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dspy_judges.errors import JudgesError
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json
from optimize.items import DataCounts
from optimize.measuring.asking import JudgeEntry, Task, total_dollars
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems, TuningOverlap
from optimize.statistics.balanced import contrast_balanced_accuracy
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Contrast, Interval, student_quantile
from optimize.statistics.plain_agreement import contrast_pair_accuracy

RelationToBest = Literal["best", "as good", "unclear", "worse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One judge's figure minus another's, with the standard error, on the same documents."""

    value: float
    interval: Interval | None
    error: float | None = None
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJudge:
    """One judge's figures on the rows that all judges judged, and its difference from the best."""

    entry: JudgeEntry = field(metadata=INLINED_IN_JSON)
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    card: Scorecard = field(metadata=INLINED_IN_JSON)
    difference: Difference | None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def relation_to_best(self) -> RelationToBest:
        """How the judge stands to the best; "as good" allows for one standard error."""
        if (difference := self.difference) is None:
            return "best"
        if difference.interval and difference.interval.high < 0:
            return "worse"
        return "as good" if abs(difference.value) <= (difference.error or 0) else "unclear"

    def to_json(self) -> JsonObject:
        return fields_json(self) | {"standing": self.relation_to_best}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeComparison:
    """Several judges with their figures, the best (`reference`) first.

    `data` counts the rows on which judges are compared, of `n_labelled` rows. The judges in
    `left_out` have no figures.
    """

    dimension: str
    kind: Literal["pairwise", "rating"]
    level: Level
    data: DataCounts
    n_labelled: int
    reference: str
    judges: Sequence[ComparedJudge]
    left_out: Sequence[JudgeEntry]
    cost_usd: float | None

    @property
    def card(self) -> Scorecard:
        """The best judge's scorecard."""
        return self.judges[0].card


def compare_judges(entries: Sequence[JudgeEntry], task: Task) -> JudgeComparison:
    """Compare judges on the rows that all of them judged.

    Rows that any of these judges was tuned on are left out, unless too few rows would remain.
    Raises JudgesError if no judge has scores, or if no row has a score by every judge.
    """
    entries = [_without_failed_scores(entry) for entry in entries]
    scored_by_judge = {entry.name: entry.scored for entry in entries if entry.scored}
    if not scored_by_judge:
        raise JudgesError("; ".join(f"{entry.name}: {entry.why_unscored}" for entry in entries))
    scored_by_judge = on_common_rows(scored_by_judge)
    held_out = without_tuned_rows(scored_by_judge)
    # If some judges say pass or fail and others rate, rho ranks all of them.
    has_verdicts = all(scored.has_verdicts for scored in held_out.values())
    cards = {
        name: Scorecard.of(scored, has_verdicts=has_verdicts) for name, scored in held_out.items()
    }
    # The sort is stable: judges with equal figures keep the order of the command line.
    names = sorted(cards, key=lambda name: -np.nan_to_num(cards[name].headline.value, nan=-np.inf))
    best, entry_by_name = held_out[names[0]], {entry.name: entry for entry in entries}
    judges = [
        ComparedJudge(
            entry=entry_by_name[name],
            overlap=TuningOverlap.of(scored_by_judge[name], held_out[name]),
            card=cards[name],
            difference=_difference_from_best(
                held_out[name], best, len(names), has_verdicts=has_verdicts
            ),
        )
        for name in names
    ]
    return JudgeComparison(
        dimension=task.dimension,
        kind="pairwise" if best.is_pairs else "rating",
        level=task.level,
        data=DataCounts.of(task.labelled, best.items),
        n_labelled=len(task.items()),
        reference=names[0],
        judges=judges,
        left_out=[entry for entry in entries if entry.scored is None],
        cost_usd=total_dollars(entry.usage.cost_usd for entry in entries if entry.judge),
    )


def _without_failed_scores(entry: JudgeEntry) -> JudgeEntry:
    """Return the entry; if all of its judgements failed, a reason replaces the scores."""
    if entry.scored is None or len(entry.scored.failures) < len(entry.scored.items):
        return entry
    reason, n_with_reason = Counter(entry.scored.failures.values()).most_common(1)[0]
    n_items = len(entry.scored.items)
    message = f"none of {n_items:,} judgements has a score; {n_with_reason:,} of them: {reason}"
    return replace(entry, scored=None, why_unscored=message)


def on_common_rows(scored_by_judge: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return every judge's scores on the items that all judges have judged."""
    shared_ids = set.intersection(*(scored.ids for scored in scored_by_judge.values()))
    if not shared_ids:
        raise JudgesError(
            f"no labelled output has a score by every judge: {', '.join(scored_by_judge)}"
        )
    return {name: scored.of_ids(shared_ids) for name, scored in scored_by_judge.items()}


def without_tuned_rows(scored_by_judge: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return the scores without rows that any judge was tuned on, if enough rows remain."""
    tuned_ids = frozenset[str]().union(*(scored.tuned_ids for scored in scored_by_judge.values()))
    return {name: scored.without(tuned_ids) for name, scored in scored_by_judge.items()}


def _difference_from_best(
    scored: ScoredItems, best_scored: ScoredItems, n_judges: int, *, has_verdicts: bool
) -> Difference | None:
    """Return a judge's difference from the best judge; None for the best judge itself.

    The best judge was chosen by these very figures. So the interval is widened to hold for all
    pairs of judges at once (see `student_quantile`).
    """
    if scored is best_scored:
        return None
    contrast = figure_contrast(scored, best_scored, has_verdicts=has_verdicts)
    value, interval, n_terms = contrast.value, contrast.interval, contrast.terms.size
    if interval is not None:
        n_pairs, freedom = math.comb(n_judges, 2), n_terms - 1
        factor = student_quantile(freedom, n_pairs) / student_quantile(freedom)
        low, high = (value + factor * (end - value) for end in (interval.low, interval.high))
        interval = Interval(float(low), float(high))
    return Difference(
        value=value,
        interval=interval,
        error=contrast.error,
        n_documents=len(contrast.documents),
    )


def figure_contrast(a: ScoredItems, b: ScoredItems, *, has_verdicts: bool = False) -> Contrast:
    """Return judge A's balanced accuracy, accuracy on pairs or rho, minus judge B's."""
    if has_verdicts:
        return contrast_balanced_accuracy(a.passes, b.passes, a.human, a.documents)
    if a.is_pairs:
        return contrast_pair_accuracy(a.scores, b.scores, a.human, a.documents)
    return contrast_judges(a.scores, b.scores, a.human, a.documents, a.systems, level=a.level)
