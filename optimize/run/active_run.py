"""A run while its models are open: what is judged, on which labels, by what, for how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
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
from optimize.run.trial_log import TrialLog
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator, JudgeItems, Pricing, SearchProblem
from optimize.search.finalists import SearchResult, choose_on_dev


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
            budget=self.budget.search,
            pricing=self.budget.pricing
            or Pricing(per_call=1, calls=self.models.calls_per_item(self.judge)),
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
            record_trial=self.log.write,
            print_line=self.log.print_line,
        )
        # DSPy takes half a second.
        module = "gepa" if prepared.settings.optimizer == "gepa" else "rank_search"
        explore = import_module(f"optimize.search.{module}").explore
        return choose_on_dev(problem, explore(problem))
