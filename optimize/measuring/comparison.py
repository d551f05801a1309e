"""Several judges on the same labelled rows: each one's figures, and how far it is from the best."""

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
    """One judge's figure less another's on the same documents (at system level, systems)."""

    value: float
    interval: Interval | None
    error: float | None = None
    n_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJudge:
    """One judge of a comparison, on rows that all judges have.

    `standing`: "as good" as the best within one standard error, "worse" by the interval of the
    difference, else "unclear", or itself the "best". It was tuned on `n_met` rows, which are set
    apart unless `tuned_on_these_labels`, and on documents of `n_given` of the rows measured.
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
    """Judges side by side, the best (`reference`) first; `left_out` are those without a figure.

    `n_labelled` outputs or pairs have labels; `data` counts those that are compared.
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
        """What judges are ranked by."""
        if self.card.two_values:
            return "balanced accuracy"
        return "accuracy" if self.card.is_pairs else "rho"


def compare_judges(entries: Sequence[Entry], task: Task) -> JudgeComparison:
    """Compare judges on the rows that all have and, unless few are left, none was tuned on.

    Raises JudgesError where nothing can be compared.
    """
    entries = [_without_score(entry) for entry in entries]
    common = on_common_rows({e.name: e.scored for e in entries if e.scored is not None})
    if not common:
        raise JudgesError("; ".join(f"{entry.name}: {entry.reason}" for entry in entries))
    scored = held_out_from_all(common)
    # A judge of pass and fail beside one that rates: both are ranked by rho.
    binary = all(each.is_binary for each in scored.values())
    cards = {name: Scorecard.of(each, is_binary=binary) for name, each in scored.items()}
    values = {name: float(card.headline.value) for name, card in cards.items()}
    # Of equals, the one that was named first comes first.
    names = sorted(values, key=lambda name: np.nan_to_num(values[name], nan=-np.inf), reverse=True)
    by_name, best, judges = {entry.name: entry for entry in entries}, scored[names[0]], []
    for name in names:
        own = scored[name]
        difference, standing = _beside_best(own, best, len(names), is_binary=binary)
        judges.append(
            ComparedJudge(
                entry=by_name[name],
                n_met=len(common[name].tuned_rows),
                n_given=len(own.tuned_documents - own.tuned_rows),
                tuned_on_these_labels=bool(own.tuned_rows),
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
    """The entry; with a reason in place of scores where all of its judgements have failed."""
    if entry.scored is None or len(entry.scored.failures) < len(entry.scored.items):
        return entry
    reason, count = Counter(entry.scored.failures.values()).most_common(1)[0]
    number = len(entry.scored.items)
    why = f"none of {number:,} judgements has a score; {count:,} of them: {reason}"
    return replace(entry, scored=None, reason=why)


def on_common_rows(measured: Mapping[str, Scored]) -> dict[str, Scored]:
    """Every judge's scores on the items that all have, in one order; raises JudgesError."""
    places = {
        name: {item.id: row for row, item in enumerate(scored.items.items)}
        for name, scored in measured.items()
    }
    first = next(iter(places.values()), {})
    shared = [name for name in first if all(name in other for other in places.values())]
    if places and not shared:
        raise JudgesError(f"no labelled output has a score by every judge: {', '.join(places)}")
    return {
        name: scored.of_rows([places[name][each] for each in shared])
        for name, scored in measured.items()
    }


def held_out_from_all(common: Mapping[str, Scored]) -> dict[str, Scored]:
    """Scores on the items that no judge was tuned on; on all of them if few are left."""
    tuned_rows = frozenset[int]().union(*(each.tuned_rows for each in common.values()))
    return {name: each.without(tuned_rows) for name, each in common.items()}


def _beside_best(
    scored: Scored, best: Scored, n_judges: int, *, is_binary: bool
) -> tuple[Difference | None, Standing]:
    """A judge less the best, with an interval that holds for every two judges together.

    The best one was chosen by the figures themselves, so that every two judges count as compared
    (see `student_quantile`).
    """
    if scored is best:
        return None, "best"
    contrast = contrast_of(scored, best, is_binary=is_binary)
    # What the interval rests on: documents, at system level systems.
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
    """Judge A's figure less judge B's, where both have a score.

    It is rho, of pairs accuracy, with `is_binary` balanced accuracy.
    """
    if is_binary:
        return balanced_contrast(a.passes, b.passes, a.human, a.documents)
    if a.is_pairs:
        return contrast_accuracy(a.scores, b.scores, a.human, a.documents)
    return contrast_judges(a.scores, b.scores, a.human, a.documents, a.systems, level=a.level)
