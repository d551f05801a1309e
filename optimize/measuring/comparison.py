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
    """One judge's figure minus another judge's on the same documents, with its standard error."""

    value: float
    interval: Interval | None
    standard_error: float | None = field(default=None, metadata={"json": "error"})
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJudge:
    """One judge's figures on the rows that all judges judged, and its difference from the best."""

    judge_entry: JudgeEntry = field(metadata=INLINED_IN_JSON)
    overlap: TuningOverlap = field(metadata=INLINED_IN_JSON)
    scorecard: Scorecard = field(metadata=INLINED_IN_JSON)
    difference: Difference | None

    @property
    def name(self) -> str:
        return self.judge_entry.name

    @property
    def relation_to_best(self) -> RelationToBest:
        """Whether the judge is best, "as good" (within one standard error), or clearly worse."""
        if (difference := self.difference) is None:
            return "best"
        if difference.interval and difference.interval.high < 0:
            return "worse"
        return "as good" if abs(difference.value) <= (difference.standard_error or 0) else "unclear"

    def to_json(self) -> JsonObject:
        return fields_json(self) | {"standing": self.relation_to_best}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeComparison:
    """Several judges with their figures, the best judge first; `reference` is the best one's name.

    `data_counts` are the counts of the rows on which all judges are compared. In all, `n_labelled`
    rows have labels. The judges in `left_out` have no figures.
    """

    dimension: str
    kind: Literal["pairwise", "rating"]
    level: Level
    data_counts: DataCounts = field(metadata={"json": "data"})
    n_labelled: int
    reference: str
    judges: Sequence[ComparedJudge]
    left_out: Sequence[JudgeEntry]
    cost_usd: float | None

    @property
    def scorecard(self) -> Scorecard:
        """The best judge's scorecard."""
        return self.judges[0].scorecard

    @property
    def judges_tuned_on_labels(self) -> list[str]:
        """The names of the judges that were tuned on these labels, which therefore flatter them."""
        return [judge.name for judge in self.judges if judge.overlap.tuned_on_these_labels]


def compare_judges(judge_entries: Sequence[JudgeEntry], task: Task) -> JudgeComparison:
    """Compare judges on the rows that all of them judged, and that none of them was tuned on.

    If too few such rows remain, judges are compared on all rows that all of them judged.
    """
    entry_by_name = {entry.name: _without_failed_scores(entry) for entry in judge_entries}
    entries = entry_by_name.values()
    all_scores = {entry.name: entry.scored_items for entry in entries if entry.scored_items}
    if not all_scores:
        raise JudgesError("; ".join(f"{entry.name}: {entry.why_unscored}" for entry in entries))
    scores_by_name = on_common_rows(all_scores)
    rows_by_name = without_tuned_rows(scores_by_name)
    # If some judges say pass or fail and others give ratings, all are compared by rho.
    has_verdicts = all(scores.has_verdicts for scores in rows_by_name.values())
    judges = [
        ComparedJudge(
            judge_entry=entry_by_name[name],
            overlap=TuningOverlap.from_scores(scores_by_name[name], scores),
            scorecard=Scorecard.from_scores(scores, has_verdicts=has_verdicts),
            difference=None,
        )
        for name, scores in rows_by_name.items()
    ]
    # The sort is stable: judges with equal figures keep the order of the command line.
    judges.sort(key=lambda judge: -np.nan_to_num(judge.scorecard.headline.value, nan=-np.inf))
    best_scores = rows_by_name[judges[0].name]
    for index, judge in enumerate(judges[1:], start=1):
        contrast = figure_contrast(rows_by_name[judge.name], best_scores, has_verdicts=has_verdicts)
        judges[index] = replace(judge, difference=_difference_from_best(contrast, len(judges)))
    return JudgeComparison(
        dimension=task.dimension,
        kind="pairwise" if best_scores.is_pairwise else "rating",
        level=task.level,
        data_counts=DataCounts.from_items(task.labels, best_scores.items),
        n_labelled=len(task.items()),
        reference=judges[0].name,
        judges=judges,
        left_out=[entry for entry in entries if entry.scored_items is None],
        cost_usd=total_dollars(entry.usage.cost_usd for entry in judge_entries if entry.judge),
    )


def _without_failed_scores(judge_entry: JudgeEntry) -> JudgeEntry:
    scores = judge_entry.scored_items
    if scores is None or len(scores.failures) < len(scores.items):
        return judge_entry
    reason, n_alike = Counter(scores.failures.values()).most_common(1)[0]
    message = f"none of {len(scores.items):,} judgements has a score; {n_alike:,} of them: {reason}"
    return replace(judge_entry, scored_items=None, why_unscored=message)


def on_common_rows(scores_by_name: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return every judge's scores on the items that all judges have judged."""
    shared_ids = set.intersection(*(scores.ids for scores in scores_by_name.values()))
    if not shared_ids:
        raise JudgesError(f"no output has a score by every judge: {', '.join(scores_by_name)}")
    return {name: scores.of_ids(shared_ids) for name, scores in scores_by_name.items()}


def without_tuned_rows(scores_by_name: Mapping[str, ScoredItems]) -> dict[str, ScoredItems]:
    """Return the scores without rows that any judge was tuned on, if enough rows remain."""
    tuned_ids = set[str]().union(*(scores.tuned_ids for scores in scores_by_name.values()))
    return {
        name: scores.without_ids_if_enough_remain(tuned_ids)
        for name, scores in scores_by_name.items()
    }


def _difference_from_best(contrast: Contrast, n_judges: int) -> Difference:
    """Return a judge's difference from the best judge, with a widened interval.

    The best judge was chosen by these figures, so intervals hold for all pairs of judges at once.
    """
    value, interval = contrast.value, contrast.interval
    if interval is not None:
        freedom, n_pairs = contrast.contributions.size - 1, math.comb(n_judges, 2)
        widening = student_quantile(freedom, n_pairs) / student_quantile(freedom)
        low, high = (value + widening * (end - value) for end in (interval.low, interval.high))
        interval = Interval(float(low), float(high))
    return Difference(
        value=value,
        interval=interval,
        standard_error=contrast.error,
        n_documents=len(contrast.documents),
    )


def figure_contrast(
    judge: ScoredItems, reference: ScoredItems, *, has_verdicts: bool = False
) -> Contrast:
    """Return a judge's balanced accuracy, accuracy on pairs or rho, minus the reference judge's."""
    scores, labels, documents = (judge.scores, reference.scores), judge.human, judge.document_ids
    if has_verdicts:
        return contrast_balanced_accuracy(judge.verdicts, reference.verdicts, labels, documents)
    if judge.is_pairwise:
        return contrast_pair_accuracy(*scores, labels, documents)
    return contrast_judges(*scores, labels, documents, judge.system_ids, level=judge.level)
