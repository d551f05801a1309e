"""A run while its models are open: what is judged, on which labels, by what, for how much."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.run.labels import PreparedRun
from optimize.run.models import RunModels, instruction_proposer, make_item_scorer
from optimize.run.run_budget import RunBudget
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.search.finalists import SearchResult
from optimize.search.optimizers import search
from optimize.search.problem import SearchProblem
from optimize.search.trial_log import TrialLog


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """`judge` is the seed; `models.plan` the sampling plan followed now."""

    prepared: PreparedRun
    folder: Path
    judge: Judge
    models: RunModels
    budget: RunBudget
    log: TrialLog

    @cached_property
    def seed(self) -> Candidate:
        """The judge as it is before the search."""
        return Candidate(instruction=self.judge.prompt.instruction)

    def with_plan(self, plan: SamplingPlan) -> "ActiveRun":
        """The run under another sampling plan."""
        return replace(self, models=replace(self.models, plan=plan))

    def evaluator(self) -> Evaluator:
        """Scores candidates under the run's sampling plan, from the search's budget."""
        settings = self.prepared.settings
        return Evaluator(
            seed=self.judge.prompt,
            judge=make_item_scorer(
                self.judge, self.models, settings.seed, self.log.count_judgement
            ),
            calls_per_item=self.models.calls_per_item(self.judge),
            budget=self.budget.search,
        )

    def search(self, evaluator: Evaluator) -> SearchResult:
        """Search on train with the optimizer of the settings, and choose on dev."""
        prepared, settings = self.prepared, self.prepared.settings
        propose = instruction_proposer(self.judge, self.models, settings.seed, self.log.print_line)
        problem = SearchProblem(
            evaluator=evaluator,
            propose=propose,
            train=prepared.labels.train,
            dev=prepared.labels.dev,
            level=prepared.level,
            options=self.budget.options,
            log=self.log,
        )
        return search(settings.optimizer, problem)
