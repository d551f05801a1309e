"""What a tuning run ends with: what ships and why, both judges on held-out labels, and the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optimize.figures.as_json import figure_json, to_json
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard
from optimize.search.optimizer import LastRound
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Figure

# JSON's names of the untuned and the tuned judge.
JudgeName = Literal["seed", "tuned"]


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
    that did not ship.
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
    spending: Mapping[str, Any]
    seconds: float
    last_round: LastRound | None = None
    max_cost: float | None = None
    cost_per_1000_rows: Mapping[JudgeName, float] | None = None
    request_changes: Sequence[str] = ()
    tuned_file: str | None = None

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

    def to_json(self) -> dict[str, Any]:
        """What summary.json holds."""
        cells = {
            "dimension": self.dimension,
            "lm": self.lm,
            "optimizer": self.optimizer,
            "seed": self.seed,
            "level": self.level,
            "objective": self.objective,
            "data": self.data.to_json(),
            "seed_judge": self._rhos("seed"),
            "tuned_judge": self._rhos("tuned"),
            "gain": {"test": None} | {n: figure_json(s.gain) for n, s in self.splits.items()},
            "shipped": self.shipped,
            "why": self.why,
            "limit_reached": self.limit_reached or None,
            "risk": self.risk,
            "ship": self.ship,
            "lm_calls": self.lm_calls,
            "proposer_calls": self.proposer_calls,
            "cached_calls": self.cached_calls,
            **self.spending,
            "seconds": self.seconds,
            "last_round": to_json(self.last_round),
            "max_cost": self.max_cost,
            "cost_per_1000_rows": self.cost_per_1000_rows
            and {f"{name}_judge": cost for name, cost in self.cost_per_1000_rows.items()},
            **self._on_test(),
            "request_changes": list(self.request_changes) or None,
            "tuned_file": self.tuned_file,
        }
        always = ("cost_usd", "scales")
        return {name: cell for name, cell in cells.items() if cell is not None or name in always}

    def _rhos(self, judge: JudgeName) -> dict[str, Any]:
        splits = {"test": self.test, "test_unseen_systems": self.unseen}
        return {n: to_json(split and split.card(judge).rho) for n, split in splits.items()}

    def _on_test(self) -> dict[str, Any]:
        """What stands beside rho: pairs ordered alike, means, annotators, verdicts, accuracy."""
        if not (card := self.card):
            return {}
        gains = {n: s.balanced_gain for n, s in self.splits.items() if s.balanced_gain}
        card_json, order = card.to_json(), self._of_both("order")
        accuracy = {name: cell["value"] for name, cell in order["test"].items()}
        return {
            "balanced_gain": {name: figure_json(gain) for name, gain in gains.items()} or None,
            "order": order,
            "scales": card_json["scales"],
            "people": card_json.get("people"),
            "two_values": self._of_both("two_values") if card.two_values else None,
            "accuracy": accuracy if card.is_pairs else None,
        }

    def _of_both(self, name: str) -> dict[str, dict[str, Any]]:
        """One part of both judges' scorecards, by split."""
        return {
            split: {
                "seed_judge": to_json(getattr(result.untuned, name)),
                "tuned_judge": to_json(getattr(result.tuned, name)),
            }
            for split, result in self.splits.items()
        }
