"""Several judges on the same labelled rows: the figures of each, and its distance from the best."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dspy_judges.errors import JudgesError
from optimize.figures.as_json import FLAT
from optimize.items import DataCounts
from optimize.measuring.asking import Entry, JudgeUsage, Task, total_dollars
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import Scored
from optimize.statistics.balanced import balanced_contrast
from optimize.statistics.correlations import Level, contrast_judges
from optimize.statistics.intervals import Contrast, Interval, student_quantile
from optimize.statistics.plain import contrast_accuracy

Standing = Literal["best", "as good", "unclear", "worse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One judge's figure less another's on the same documents (at system level, the same systems).

    `error` is the standard error of `value`.
    """

    value: float
    interval: Interval | None
    error: float | None = None
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJudge:
    """One judge of a comparison, measured on the rows that all judges have judged.

    `standing` is "best"; or "as good" within one standard error of the best; or "worse" if the
    interval of the difference lies below 0; or else "unclear". The judge was tuned on `n_met` rows.
    These were left out of the figures unless `tuned_on_these_labels`. `n_given` of the measured
    rows are new outputs on documents that the judge was tuned on.
    """

    entry: Entry = field(metadata=FLAT)
    n_met: int
    n_given: int
    tuned_on_these_labels: bool
    card: Scorecard = field(metadata=FLAT)
    difference: Difference | None
    standing: Standing

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def usage(self) -> JudgeUsage:
        return self.entry.usage


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeComparison:
    """Judges side by side, the best (`reference`) first; `left_out` lists judges without figures.

    `n_labelled` outputs or pairs have labels; `data` counts those on which the judges are compared.
    """

    dimension: str
    kind: Literal["pairwise", "rating"]
    level: Level
    data: DataCounts
    n_labelled: int
    reference: str
    judges: Sequence[ComparedJudge]
    left_out: Sequence[Entry]
    cost_usd: float | None

    @property
    def card(self) -> Scorecard:
        return self.judges[0].card

    @property
    def figure_name(self) -> str:
        """The figure by which judges are ranked."""
        if self.card.two_values:
            return "balanced accuracy"
        return "accuracy" if self.card.is_pairs else "rho"


def compare_judges(entries: Sequence[Entry], task: Task) -> JudgeComparison:
    """Compare judges on the rows that all of them judged, without rows that one was tuned on.

    If too few rows would be left, rows that a judge was tuned on are compared, too. Raises
    JudgesError if nothing can be compared.
    """
    entries = [_without_score(entry) for entry in entries]
    on_shared_rows = on_common_rows({e.name: e.scored for e in entries if e.scored is not None})
    if not on_shared_rows:
        raise JudgesError("; ".join(f"{entry.name}: {entry.reason}" for entry in entries))
    held_out = held_out_from_all(on_shared_rows)
    # If one judge says pass or fail and another one rates, both are ranked by rho.
    is_binary = all(scored.is_binary for scored in held_out.values())
    cards = {name: Scorecard.of(scored, is_binary=is_binary) for name, scored in held_out.items()}
    values = {name: float(card.headline.value) for name, card in cards.items()}
    # Judges with equal figures stay in the order in which they were named.
    names = sorted(values, key=lambda name: np.nan_to_num(values[name], nan=-np.inf), reverse=True)
    by_name, best, judges = {entry.name: entry for entry in entries}, held_out[names[0]], []
    for name in names:
        scored = held_out[name]
        difference, standing = _difference_from_best(scored, best, len(names), is_binary=is_binary)
        judges.append(
            ComparedJudge(
                entry=by_name[name],
                n_met=len(on_shared_rows[name].tuned_rows),
                n_given=len(scored.tuned_documents - scored.tuned_rows),
                tuned_on_these_labels=bool(scored.tuned_rows),
                card=cards[name],
                difference=difference,
                standing=standing,
            )
        )
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


def _without_score(entry: Entry) -> Entry:
    """The entry, with a reason in place of scores if all of its judgements failed."""
    if entry.scored is None or len(entry.scored.failures) < len(entry.scored.items):
        return entry
    reason, n_of_reason = Counter(entry.scored.failures.values()).most_common(1)[0]
    n_items = len(entry.scored.items)
    message = f"none of {n_items:,} judgements has a score; {n_of_reason:,} of them: {reason}"
    return replace(entry, scored=None, reason=message)


def on_common_rows(scored_by_judge: Mapping[str, Scored]) -> dict[str, Scored]:
    """Every judge's scores on the items that all judges have judged, in one order.

    Raises JudgesError if there is no such item.
    """
    rows_by_judge = {
        name: {item.id: row for row, item in enumerate(scored.items.items)}
        for name, scored in scored_by_judge.items()
    }
    first = next(iter(rows_by_judge.values()), {})
    shared_ids = [
        item_id for item_id in first if all(item_id in rows for rows in rows_by_judge.values())
    ]
    if rows_by_judge and not shared_ids:
        raise JudgesError(
            f"no labelled output has a score by every judge: {', '.join(rows_by_judge)}"
        )
    return {
        name: scored.of_rows([rows_by_judge[name][item_id] for item_id in shared_ids])
        for name, scored in scored_by_judge.items()
    }


def held_out_from_all(scored_by_judge: Mapping[str, Scored]) -> dict[str, Scored]:
    """Scores on the items that no judge was tuned on; on all items if too few are left."""
    tuned_rows = frozenset[int]().union(*(scored.tuned_rows for scored in scored_by_judge.values()))
    return {name: scored.without(tuned_rows) for name, scored in scored_by_judge.items()}


def _difference_from_best(
    scored: Scored, best: Scored, n_judges: int, *, is_binary: bool
) -> tuple[Difference | None, Standing]:
    """A judge's figure less the best judge's, and its standing; the best itself has no difference.

    The best judge was chosen by these very figures. So the interval is wide enough to hold for all
    pairs of judges at once (see `student_quantile`).
    """
    if scored is best:
        return None, "best"
    contrast = contrast_of(scored, best, is_binary=is_binary)
    # The interval rests on n documents, at system level on n systems.
    value, interval, n = contrast.value, contrast.interval, contrast.terms.size
    standing: Standing = "as good" if abs(value) <= contrast.error < math.inf else "unclear"
    if interval is not None:
        wider = student_quantile(n - 1, math.comb(n_judges, 2)) / student_quantile(n - 1)
        low, high = (value + wider * (end - value) for end in (interval.low, interval.high))
        interval = Interval(float(low), float(high))
        standing = "worse" if high < 0 else standing
    n, error = len(contrast.documents), contrast.error
    return Difference(value=value, interval=interval, error=error, n_documents=n), standing


def contrast_of(a: Scored, b: Scored, *, is_binary: bool = False) -> Contrast:
    """Judge A's figure less judge B's, on the rows that both scored.

    The figure is balanced accuracy with `is_binary`, accuracy for pairs, and rho otherwise.
    """
    if is_binary:
        return balanced_contrast(a.passes, b.passes, a.human, a.documents)
    if a.is_pairs:
        return contrast_accuracy(a.scores, b.scores, a.human, a.documents)
    return contrast_judges(a.scores, b.scores, a.human, a.documents, a.systems, level=a.level)
