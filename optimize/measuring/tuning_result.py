"""The result of a tuning run: which judge ships and why, both judges' figures, and the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from judges.questions import AnswerShare
from optimize.figures.as_json import FLAT, JsonObject, fields_json, figure_json, to_json
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard
from optimize.search.optimizer import JudgeName, LastRound
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Figure

# The fields of summary.json that come before the figures, and those that come last.
FIRST_FIELDS = ["dimension", "lm", "optimizer", "seed", "level", "objective", "data"]
LAST_FIELDS = ["request_changes", "tuned_file", "answers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """Both judges on one held-out split, and the tuned judge's figure less the untuned one's.

    `gain` is the gain in rho. `balanced_gain` is that in balanced accuracy; None if the judge was
    tuned for another objective.
    """

    untuned: Scorecard
    tuned: Scorecard
    gain: Figure
    balanced_gain: Figure | None = None

    def card(self, judge: JudgeName) -> Scorecard:
        return self.tuned if judge == "tuned" else self.untuned

    @property
    def cards(self) -> dict[str, Scorecard]:
        """Both scorecards by the judges' names in texts for people."""
        return {"untuned": self.untuned, "tuned": self.tuned}

    @property
    def objective_gain(self) -> Figure:
        """The gain in the figure that the judge was tuned for."""
        return self.balanced_gain or self.gain

    @property
    def is_gain_confirmed(self) -> bool:
        """Whether the gain's interval lies above 0, in the three decimals that people read."""
        interval = self.objective_gain.interval
        return interval is not None and round(interval.low, 3) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """A finished tuning run. Calls, tokens and dollars are summed over all starts of the run.

    Attributes:
        test: Both judges on the test split; None if nothing was held out. The scorecard of the
            judge that ships also has figures on people and scales.
        unseen: The same on systems that tuning did not see; None if there are none.
        shipped: The judge that ships.
        why: The reason for that.
        limit_reached: Whether a limit ended the run; with a larger one it would go on.
        risk: The accepted chance that a judge ships which is no better.
        ship: The setting that says when a tuned judge ships.
        cached_calls: Calls that the reply cache answered; `lm_calls` does not count them.
        spending: Tokens and dollars, in the form that summary.json has.
        last_round: The last round of the search, as a mean over the searches on both halves.
        max_cost: The limit in dollars; None if no model is paid.
        request_changes: What was changed in requests because an endpoint did not accept it.
        tuned_file: The file of a tuned judge that did not ship.
        answers: How the questions of a tuned judge were answered, if it asks any.
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
        """Dollars at list price; None if a model's price is unknown."""
        cost: float | None = self.spending["cost_usd"]
        return cost

    @property
    def splits(self) -> dict[str, SplitResult]:
        """The held-out splits, by their names in files."""
        named = {"test": self.test, "test_unseen_systems": self.unseen}
        return {name: split for name, split in named.items() if split}

    @property
    def card(self) -> Scorecard | None:
        """The shipped judge's figures on test."""
        return self.test.card(self.shipped) if self.test else None

    @property
    def is_pairs(self) -> bool:
        return bool(self.card and self.card.is_pairs)

    @property
    def is_binary(self) -> bool:
        return bool(self.card and self.card.two_values)

    @property
    def unit(self) -> str:
        """The noun for what was judged, in the plural."""
        return "pairs" if self.is_pairs else "outputs"

    def to_json(self) -> JsonObject:
        """The content of summary.json."""
        record = fields_json(self, "test", "unseen")
        first = {name: record[name] for name in FIRST_FIELDS}
        last = {name: record.pop(name) for name in LAST_FIELDS if name in record}
        splits = {"test": self.test, "test_unseen_systems": self.unseen}
        rhos = {
            f"{judge}_judge": {
                name: to_json(split and split.card(judge).rho) for name, split in splits.items()
            }
            for judge in get_args(JudgeName)
        }
        gains = {"test": None} | {
            name: figure_json(split.gain) for name, split in self.splits.items()
        }
        return {**first, **rhos, "gain": gains, **record, **self._on_test(), **last}

    def _on_test(self) -> JsonObject:
        """The figures other than rho: order, scales, annotators, pass and fail, accuracy."""
        if not (card := self.card):
            return {}
        gains = {
            name: split.balanced_gain for name, split in self.splits.items() if split.balanced_gain
        }
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

    def _of_both(self, name: str) -> JsonObject:
        """One field of both judges' scorecards, by split."""
        return {
            split: {
                "seed_judge": to_json(getattr(result.untuned, name)),
                "tuned_judge": to_json(getattr(result.tuned, name)),
            }
            for split, result in self.splits.items()
        }
