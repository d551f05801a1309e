"""A tuning run while its models are open: plan the budget, search, and measure once."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from judges.catalog import candidate_questions
from judges.judge import Judge
from judges.protocol import is_embedded
from judges.questions import MAX_QUESTIONS
from optimize.figures.by_judge import ByJudge, HeldOut
from optimize.items import Items
from optimize.measuring.scored import ScoredItems
from optimize.search.budget import SearchBudget
from optimize.search.candidates import Candidate
from optimize.search.evaluator import ITEMS_FOR_MEAN_COST, Evaluator, JudgeItems
from optimize.search.optimizer import find_optimizer
from optimize.search.problem import SearchProblem
from optimize.search.two_fold_search import SearchResult, two_fold_search
from optimize.tuning.budget import RunBudget, plan_budget
from optimize.tuning.budget_text import planned_line, tuning_notes
from optimize.tuning.folder import TRIALS_FILE, Trials
from optimize.tuning.models import SEARCH, TEST, RunClients

PrintLine = Callable[[str], None]
# The judgements of the untuned and of the tuned judge on each held-out split.
ScoredSplits = HeldOut[ByJudge[ScoredItems]]


class ActiveRun:
    """A tuning run while its models are open: the steps from the plan to the frozen judge.

    `budget` is the plan that was made before any call, and `judge_items` is a function that judges
    items with a given prompt. Only the methods `search` and `measure` make calls.
    """

    def __init__(
        self,
        budget: RunBudget,
        folder: Path,
        clients: RunClients,
        judge_items: JudgeItems,
        print_line: PrintLine,
        *,
        may_add_questions: bool = True,
    ) -> None:
        self.budget, self.folder, self.clients = budget, folder, clients
        self.print_line, self.may_add_questions = print_line, may_add_questions
        self.trials = Trials(folder / TRIALS_FILE)
        self.prepared_run = budget.run
        self.evaluator = Evaluator(
            untuned_prompt=budget.run.untuned_prompt,
            judge_items=judge_items,
            budget=budget.search_budget,
        )

    def _measure_price(self) -> None:
        """Judge a few items with the untuned judge, and plan the budget again with their price."""
        train = self.prepared_run.train
        stride = max(1, len(train) // ITEMS_FOR_MEAN_COST)
        items = Items(train.items[::stride][:ITEMS_FOR_MEAN_COST])
        untuned = Candidate(instruction=self.prepared_run.untuned_prompt.instruction)
        # The run pays for these items, even if its limit leaves nothing for the search.
        self.evaluator.budget = SearchBudget(math.inf, self.budget.pricing)
        tokens = self.evaluator.mean_tokens(untuned, items)
        self.budget = plan_budget(self.prepared_run, self.clients.judge.model.native_n, tokens)
        self.evaluator.budget = self.budget.search_budget
        for _ in items:
            self.evaluator.budget.charge_judgement(self.budget.pricing.untuned_price)
        self.print_line(planned_line(self.budget))

    @cached_property
    def search_problem(self) -> SearchProblem:
        """What the optimizer gets: labels, questions, models and budget."""
        prepared_run = self.prepared_run
        # The embedded model is no language model, and cannot answer questions.
        may_ask = self.may_add_questions and not is_embedded(prepared_run.settings.lm)
        questions = candidate_questions(prepared_run.subject, MAX_QUESTIONS) if may_ask else ()
        return SearchProblem(
            evaluator=self.evaluator,
            proposer=self.clients.language_proposer,
            questions=tuple(question.field for question in questions),
            may_add_questions=self.may_add_questions,
            train=prepared_run.train,
            dev=prepared_run.dev,
            goal=prepared_run.goal,
            options=self.budget.search_options,
            add_record=self.trials.record,
            print_line=self.print_line,
        )

    def search(self) -> SearchResult:
        """Search with the optimizer in the settings, and decide whether the tuned judge ships."""
        settings, account = self.prepared_run.settings, self.clients.judge.account
        for note in tuning_notes(self.budget):  # before the first call is paid for
            self.print_line(f"note: {note}")
        with account.spending_on(SEARCH):
            if not self.budget.pricing.is_free:
                self._measure_price()
            set_aside, reservation = account.budget.set_aside, self.budget.reservation
            self.evaluator.budget.on_reserve = lambda cost: set_aside(*reservation(cost))
            self.evaluator.budget.on_reserve(0)
            result = two_fold_search(find_optimizer(settings.optimizer), self.search_problem)
        tuning_changed_judge = result.tuned_candidate.id != result.untuned_candidate.id
        if settings.ship == "tuned" and tuning_changed_judge and not result.decision.ships:
            decision = replace(result.decision, ships=True, is_forced=True)
            result = replace(result, decision=decision)
        return result

    def measure(self, search_result: SearchResult) -> ScoredSplits:
        """Judge every held-out split with the tuned and the untuned judge, after the decision."""
        # The search left calls and money in reserve for these judgements. The reserve ends here.
        # If the judgements cost more than the run's limit, the judge's client raises an error.
        self.clients.judge.account.budget.set_aside()
        self.evaluator.budget = SearchBudget(math.inf, self.budget.pricing)

        def score_both(items: Items) -> ByJudge[ScoredItems]:
            return ByJudge(
                untuned=self._score_split("untuned judge", search_result.untuned_candidate, items),
                tuned=self._score_split("tuned judge", search_result.tuned_candidate, items),
            )

        with self.clients.judge.account.spending_on(TEST):
            return self.prepared_run.held_out.map(score_both)

    def _score_split(self, judge_name: str, candidate: Candidate, items: Items) -> ScoredItems:
        prepared_run, evaluator = self.prepared_run, self.evaluator
        subject = prepared_run.subject
        choice_fields = candidate.prompt(prepared_run.untuned_prompt).choices
        return ScoredItems(
            judge_name=judge_name,
            dimension=subject.name,
            level=prepared_run.level,
            labels=prepared_run.labelled_items,
            items=items,
            judgements=tuple(
                judgement.rescored(choice_fields, candidate.weights, candidate.threshold)
                for judgement in evaluator.judgements(candidate, items)
            ),
            scale=subject.scale,
        )

    def freeze(self, candidate: Candidate, provenance: Mapping[str, object]) -> Judge:
        """Return a candidate as a judge, with the run's sampling plan and this `provenance`."""
        prepared_run = self.prepared_run
        return Judge(
            subject=prepared_run.subject,
            prompt=candidate.prompt(prepared_run.untuned_prompt),
            lm=prepared_run.settings.lm,
            plan=self.clients.sampling_plan,
            provenance=provenance,
            weights=candidate.weights,
            threshold=candidate.threshold,
        )
