"""What a tuning run ends with: what ships and why, both judges on held-out labels, and the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from judges.questions import AnswerShare
from optimize.figures.as_json import FLAT, Cell, fields_json, figure_json, to_json
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard
from optimize.search.optimizer import JudgeName, LastRound
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Figure

# What stands in summary.json before the figures, and what stands last.
FIRST = ["dimension", "lm", "optimizer", "seed", "level", "objective", "data"]
LAST = ["request_changes", "tuned_file", "answers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """Both judges on one held-out split, and the tuned judge's figure less the untuned one's.

    `gain` is of rho. `balanced_gain`, of balanced accuracy, is there where that was the objective.
    """

    untuned: Scorecard
    tuned: Scorecard
    gain: Figure
    balanced_gain: Figure | None = None

    def card(self, judge: JudgeName) -> Scorecard:
        return self.tuned if judge == "tuned" else self.untuned

    @property
    def cards(self) -> dict[str, Scorecard]:
        """Both scorecards by the words that people read."""
        return {"untuned": self.untuned, "tuned": self.tuned}

    @property
    def objective_gain(self) -> Figure:
        """The gain in the figure that the judge was tuned for."""
        return self.balanced_gain or self.gain


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """A finished run. Calls, tokens and dollars are of the whole run, over all its starts.

    `test` and `unseen` (systems that tuning did not see) are None where nothing was held out; on
    test, the card of the judge that ships has people and scales, too. `cached_calls` were answered
    by the reply cache, and are among no others. `limit_reached`: a larger limit goes on with the
    run. `last_round` is the mean of both halves' searches. `spending` has tokens and dollars as
    summary.json does. `request_changes` is what the endpoints did not take as it was asked for.
    `max_cost` is the cap in dollars, None where no model is paid. `tuned_file` holds a tuned judge
    that did not ship. `answers` are those of a tuned judge that asks questions.
    """

    dimension: str
    lm: str
    optimizer: str
    seed: int
    level: Level
    objective: str
    data: DataCounts
    test: SplitResult | None = None
    unseen: SplitResult | None = None
    shipped: JudgeName
    why: str
    limit_reached: bool = False
    risk: float
    ship: str
    lm_calls: int
    proposer_calls: int
    cached_calls: int
    spending: Mapping[str, Any] = field(metadata=FLAT)
    seconds: float
    last_round: LastRound | None = None
    max_cost: float | None = None
    cost_per_1000_rows: Mapping[str, float] | None = None
    request_changes: Sequence[str] | None = None
    tuned_file: str | None = None
    answers: Sequence[AnswerShare] | None = None

    @property
    def cost_usd(self) -> float | None:
        """Dollars at list price; None where a model's price is unknown."""
        cost: float | None = self.spending["cost_usd"]
        return cost

    @property
    def splits(self) -> dict[str, SplitResult]:
        """The splits that were held out, by their names in files."""
        named = {"test": self.test, "test_unseen_systems": self.unseen}
        return {name: split for name, split in named.items() if split}

    @property
    def card(self) -> Scorecard | None:
        """The figures on test of the judge that ships."""
        return self.test.card(self.shipped) if self.test else None

    @property
    def is_pairs(self) -> bool:
        return bool(self.card and self.card.is_pairs)

    @property
    def is_binary(self) -> bool:
        return bool(self.card and self.card.two_values)

    @property
    def unit(self) -> str:
        """What was judged, in the plural."""
        return "pairs" if self.is_pairs else "outputs"

    def to_json(self) -> Cell:
        """What summary.json holds."""
        cells = fields_json(self, "test", "unseen")
        first = {name: cells[name] for name in FIRST}
        last = {name: cells.pop(name) for name in LAST if name in cells}
        splits = {"test": self.test, "test_unseen_systems": self.unseen}
        rhos = {
            f"{judge}_judge": {n: to_json(s and s.card(judge).rho) for n, s in splits.items()}
            for judge in get_args(JudgeName)
        }
        gains = {"test": None} | {n: figure_json(split.gain) for n, split in self.splits.items()}
        return {**first, **rhos, "gain": gains, **cells, **self._on_test(), **last}

    def _on_test(self) -> Cell:
        """What stands beside rho: pairs ordered alike, means, annotators, verdicts, accuracy."""
        if not (card := self.card):
            return {}
        gains = {n: s.balanced_gain for n, s in self.splits.items() if s.balanced_gain}
        details, order = card.to_json(), self._of_both("order")
        accuracy = {name: cell["value"] for name, cell in order["test"].items()}
        balanced = {name: figure_json(gain) for name, gain in gains.items()}
        return {
            **({"balanced_gain": balanced} if gains else {}),
            "order": order,
            "scales": details["scales"],
            **({"people": details["people"]} if card.people else {}),
            **({"two_values": self._of_both("two_values")} if card.two_values else {}),
            **({"accuracy": accuracy} if card.is_pairs else {}),
        }

    def _of_both(self, name: str) -> Cell:
        """One part of both judges' scorecards, by split."""
        return {
            split: {
                "seed_judge": to_json(getattr(result.untuned, name)),
                "tuned_judge": to_json(getattr(result.tuned, name)),
            }
            for split, result in self.splits.items()
        }
