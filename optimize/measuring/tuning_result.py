"""The result of a tuning run: which judge ships and why, both judges' figures, and the cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from judges.client import Spending
from judges.questions import AnswerShare
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json, figure_json, to_json
from optimize.figures.by_judge import ByJudge, HeldOut, JudgeName
from optimize.items import DataCounts
from optimize.measuring.scorecard import Scorecard
from optimize.search.optimizer import LastRound
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult(ByJudge[Scorecard]):
    """Both judges' scorecards on one held-out split, and the tuned judge's gain in rho.

    `balanced_gain`, the gain in balanced accuracy, is None if the judge was tuned for rho.
    """

    gain: Figure
    balanced_gain: Figure | None = None

    @property
    def objective_gain(self) -> Figure:
        """The gain in the figure that the judge was tuned for."""
        return self.balanced_gain or self.gain

    @property
    def is_gain_confirmed(self) -> bool:
        """Whether the gain's interval lies above 0, rounded to three decimals as printed."""
        interval = self.objective_gain.interval
        return interval is not None and round(interval.low, 3) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpending:
    """The tokens and dollars of a run, in total and by purpose.

    Dollars are None if a price is unknown. `cost_unconfirmed_usd` is the highest possible cost of
    unanswered requests, which `cost_usd` includes.
    """

    tokens: Mapping[str, int]
    cost_usd: float | None
    cost_unconfirmed_usd: float | None = None
    spending: Sequence[Spending]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """A finished tuning run. Calls, tokens and dollars are summed over all starts of the run.

    `n_passes` counts the passes among all labels, of which test has a share; JSON leaves it out.
    `unseen` has both judges' figures on systems that tuning did not see. `limit_reached` says that
    a limit on calls or cost ended the search, so that a larger limit may find a better judge.
    `lm_calls` does not count the calls that the reply cache answered. `request_changes` names the
    parameters that requests lack, because an endpoint refused them.
    """

    dimension: str
    lm: str
    optimizer: str
    seed: int
    level: Level
    objective: str
    data_counts: DataCounts = field(metadata={"json": "data"})
    n_passes: int
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
    spending: RunSpending = field(metadata=INLINED_IN_JSON)
    seconds: float
    last_round: LastRound | None = None
    max_cost: float | None = None
    cost_per_1000_rows: ByJudge[float] | None = None
    request_changes: Sequence[str] | None = None
    tuned_file: str | None = None
    answers: Sequence[AnswerShare] | None = None

    @property
    def splits(self) -> dict[str, SplitResult]:
        return HeldOut(self.test, self.unseen).by_name if self.test else {}

    @property
    def scorecard(self) -> Scorecard | None:
        return self.test.for_judge(self.shipped) if self.test else None

    @property
    def is_pairwise(self) -> bool:
        return bool(self.scorecard and self.scorecard.is_pairwise)

    @property
    def has_verdicts(self) -> bool:
        return bool(self.scorecard and self.scorecard.verdict_figures)

    @property
    def unit(self) -> str:
        return self.scorecard.unit if self.scorecard else "output"

    def to_json(self) -> JsonObject:
        def by_split(figures_of: Callable[[SplitResult], object]) -> JsonObject:
            return {name: to_json(figures_of(split)) for name, split in self.splits.items()}

        record = fields_json(self, "test", "unseen", "n_passes")
        record["shipped"] = {"untuned": "seed", "tuned": "tuned"}[self.shipped]  # JSON's names
        no_rhos, no_gain = {"test": None, "test_unseen_systems": None}, {"test": None}
        record["seed_judge"] = no_rhos | by_split(lambda split: split.untuned.rho)
        record["tuned_judge"] = no_rhos | by_split(lambda split: split.tuned.rho)
        record["gain"] = no_gain | by_split(lambda split: figure_json(split.gain))
        if not (self.test and (scorecard := self.scorecard)):
            return record
        record["order"] = by_split(lambda split: split.map(lambda card: card.pairwise_accuracy))
        record["scales"] = to_json(scorecard.scale_comparison)
        if scorecard.people_figures:
            record["people"] = to_json(scorecard.people_figures)
        if scorecard.verdict_figures:
            verdict_figures = by_split(lambda split: split.map(lambda card: card.verdict_figures))
            record["two_values"] = verdict_figures
        if scorecard.is_pairwise:
            record["accuracy"] = to_json(self.test.map(lambda card: card.pairwise_accuracy.value))
        if self.test.balanced_gain:
            record["balanced_gain"] = by_split(lambda split: figure_json(split.objective_gain))
        return record
