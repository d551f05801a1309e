"""What a verification finds out about one judge: its figures, and on which labels they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimize.figures.as_json import to_json
from optimize.inputs.labelled import Labelled
from optimize.items import DataCounts
from optimize.measuring.misses import miss_rows
from optimize.measuring.scorecard import Scorecard, rho
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import Correlation, Level

# So many false passes and false alarms stand in the result; a report has all.
MOST_MISSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Which floors hold, and a reason for each that falls short or is undecided.

    `short` and `undecided` are not empty either where there are no figures to hold to a floor.
    """

    held: Sequence[str]
    short: Sequence[str]
    undecided: Sequence[str]
    has_floors: bool

    @property
    def passes(self) -> bool:
        return not (self.short or self.undecided)

    @property
    def faults(self) -> list[str]:
        return [
            *(f"falls short: {reason}" for reason in self.short),
            *(f"undecided: {reason}" for reason in self.undecided),
        ]

    @property
    def outcome(self) -> str | None:
        """None without floors and faults."""
        if self.short:
            return "falls short"
        if self.undecided:
            return "undecided"
        return "holds" if self.has_floors else None

    def to_json(self) -> dict[str, Any]:
        return {
            "gate": self.outcome,
            "held": self.held,
            "short": self.short,
            "undecided": self.undecided,
            "passed": self.passes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One judge beside people's labels, on rows that it was not tuned on where there are enough.

    `n_met` rows were set apart because the judge was tuned on them, and `on_met` is its rho there;
    with `is_on_met` there were too few others, and the figures are of all. `n_given` of the rows
    measured are on documents that it was tuned on. `n_unjudged` labels have no record.
    """

    judge: str
    dimension: str
    data: DataCounts
    level: Level
    n_unjudged: int
    n_met: int
    on_met: Correlation | None
    n_given: int
    is_on_met: bool
    card: Scorecard
    misses: Sequence[Mapping[str, Any]]
    words: tuple[str, str] | None
    gate: Gate | None = None

    @classmethod
    def of(cls, scored: Scored, unmet: Scored, labelled: Labelled) -> "Verification":
        """The figures of `unmet`, the rows of `scored` that count."""
        met, is_on_met = sorted(scored.met), bool(unmet.met)
        is_apart = bool(met) and not is_on_met
        return cls(
            judge=scored.judge,
            dimension=scored.dimension,
            data=DataCounts.of(labelled, unmet.items),
            level=scored.level,
            n_unjudged=scored.n_unjudged,
            n_met=len(met),
            on_met=rho(scored.of_rows(met)) if is_apart else None,
            n_given=len(unmet.given - unmet.met),
            is_on_met=is_on_met,
            card=Scorecard.of(unmet),
            misses=miss_rows(unmet, MOST_MISSES) if unmet.is_binary else (),
            words=getattr(labelled, "words", {}).get(scored.dimension),
        )

    @property
    def faults(self) -> list[str]:
        """What the gate says of figures that do not hold."""
        return self.gate.faults if self.gate else []

    @property
    def is_undecided(self) -> bool:
        """Whether the labels cannot tell if the judge holds its floors."""
        return self.gate is not None and self.gate.outcome == "undecided"

    def to_json(self) -> dict[str, Any]:
        """What `dspy-judges verify --json` prints."""
        return {
            "judge": self.judge,
            "dimension": self.dimension,
            "data": self.data.to_json(),
            "level": self.level,
            "n_unjudged": self.n_unjudged,
            "n_met": self.n_met,
            "on_met": to_json(self.on_met),
            "n_given": self.n_given,
            "tuned_on_these_labels": self.is_on_met,
            **self.card.to_json(),
            **({"misses": self.misses} if self.card.two_values else {}),
            "words": self.words,
            **(self.gate.to_json() if self.gate else {}),
        }
