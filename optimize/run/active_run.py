"""A run while its models are open: what is judged, on which labels, by what, for how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from judges.client import is_embedded
from judges.judge import Judge
from judges.prompt import Prompt
from optimize.items import Item
from optimize.run.labels import PreparedRun
from optimize.run.models import (
    DEV,
    SEARCH,
    SEED,
    TEST,
    RunModels,
    make_item_scorer,
)
from optimize.run.run_budget import RunBudget
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator, JudgeItems
from optimize.search.gate import SearchResult, search
from optimize.search.problem import SearchProblem
from optimize.search.trial_log import TrialLog


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """`judge` is the untuned one."""

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

    def item_scorer(self) -> JudgeItems:
        """Scores items by the judge with a prompt, under the run's sampling plan."""
        seed, step = self.prepared.settings.seed, self.log.count_judgement
        return make_item_scorer(self.judge, self.models, seed, step, self.purpose_of)

    def evaluator(self, scorer: JudgeItems | None = None) -> Evaluator:
        """Scores candidates, by the judge unless otherwise, from the search's budget."""
        return Evaluator(
            seed=self.judge.prompt,
            judge=scorer or self.item_scorer(),
            calls_per_item=self.models.calls_per_item(self.judge),
            budget=self.budget.search,
            pricing=self.budget.pricing,
        )

    def purpose_of(self, prompt: Prompt, items: Sequence[Item]) -> str:
        """What scoring these items, all of one split, by this prompt is for."""
        split = self._split_of.get(items[0].id, SEARCH) if items else SEARCH
        return SEED if split == SEARCH and prompt == self.judge.prompt else split

    @cached_property
    def _split_of(self) -> dict[str, str]:
        """What scoring each item is for; train's are left out."""
        labels = self.prepared.labels
        return {item.id: DEV for item in labels.dev.items} | {
            item.id: TEST for items in labels.measured.values() for item in items.items
        }

    def search(self, evaluator: Evaluator) -> SearchResult:
        """Search on train with the optimizer of the settings, and choose on dev."""
        prepared = self.prepared
        if prepared.settings.proposer_lm and is_embedded(prepared.settings.lm):
            self.log.print_line(
                f"{prepared.settings.proposer_lm} is not asked: demonstrations alone tune the "
                "embedded model"
            )
        problem = SearchProblem(
            evaluator=evaluator,
            proposer=self.models.language_proposer,
            train=prepared.labels.train,
            dev=prepared.labels.dev,
            level=prepared.level,
            options=self.budget.options,
            log=self.log,
        )
        return search(prepared.settings.optimizer, problem)
