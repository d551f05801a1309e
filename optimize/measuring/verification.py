"""What a verification finds out about one judge: its figures, and on which labels they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimize.figures.as_json import FLAT
from optimize.inputs.labelled import Labelled
from optimize.items import DataCounts
from optimize.measuring.associations import Associations
from optimize.measuring.misses import miss_rows
from optimize.measuring.scorecard import Scorecard, rho
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import Correlation, Level

# So many false passes and false alarms stand in the result; a report has all.
MOST_MISSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Which floors hold, and a reason for each that falls short or is undecided.

    `gate` sums them up, None without floors and faults. There are faults, too, where there is no
    figure to hold to a floor. Intervals are those of so many `looks` at labels that grow.
    """

    gate: str | None
    looks: int
    held: Sequence[str]
    short: Sequence[str]
    undecided: Sequence[str]
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge beside people's labels, on rows that it was not tuned on where there are enough.

    `n_met` rows were set apart because the judge was tuned on them, and `on_met` is its rho there.
    With `tuned_on_these_labels` there were too few others, and the figures are of all. `n_given` of
    the rows measured are on documents that it was tuned on. `n_unjudged` labels have no record.
    """

    judge: str
    dimension: str
    data: DataCounts
    level: Level
    n_unjudged: int
    n_met: int
    on_met: Correlation | None
    n_given: int
    tuned_on_these_labels: bool
    card: Scorecard = field(metadata=FLAT)
    associations: Associations
    misses: Sequence[Mapping[str, Any]] | None = None
    words: tuple[str, str] | None
    gate: Gate | None = field(default=None, metadata=FLAT)

    @classmethod
    def of(cls, scored: Scored, held_out: Scored, labelled: Labelled) -> "Verification":
        """The figures of `held_out`, the rows of `scored` that count."""
        tuned, flatters = sorted(scored.tuned_rows), bool(held_out.tuned_rows)
        return cls(
            judge=scored.judge,
            dimension=scored.dimension,
            data=DataCounts.of(labelled, held_out.items),
            level=scored.level,
            n_unjudged=scored.n_unjudged,
            n_met=len(tuned),
            on_met=rho(scored.of_rows(tuned)) if tuned and not flatters else None,
            n_given=len(held_out.tuned_documents - held_out.tuned_rows),
            tuned_on_these_labels=flatters,
            card=Scorecard.of(held_out),
            associations=Associations.of(held_out),
            misses=miss_rows(held_out, MOST_MISSES) if held_out.is_binary else None,
            words=getattr(labelled, "words", {}).get(scored.dimension),
        )

    @property
    def faults(self) -> list[str]:
        """What the gate says of figures that do not hold."""
        if not self.gate:
            return []
        short = [f"falls short: {reason}" for reason in self.gate.short]
        return [*short, *(f"undecided: {reason}" for reason in self.gate.undecided)]

    @property
    def is_undecided(self) -> bool:
        """Whether the labels cannot tell if the judge holds its floors."""
        return self.gate is not None and self.gate.gate == "undecided"
