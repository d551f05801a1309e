"""The sampling plan as a choice: what one reply, several, or probabilities reach, and at what cost.

After the search, the judge that ships is scored on dev under every plan that the model allows: on
dev, since that is where choices are made, no demonstration shows its documents, and one of the
plans has been paid for there already. Chosen is the cheapest plan whose rho is not more than a
standard error (of the paired difference) below the best one's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.inference.budget import BudgetSpentError
from judges.protocol import FatalModelError
from judges.scoring import NoProbabilitiesError, SamplingPlan
from optimize.figures import cell, number_text
from optimize.items import Items, Vector
from optimize.run.active_run import ActiveRun
from optimize.run.final_table import gain
from optimize.run.models import PLANS
from optimize.run.run_budget import PlanCost
from optimize.search.evaluator import Evaluator, SearchBudgetSpentError
from optimize.search.finalists import SearchResult, affordable_part
from optimize.search.objective import (
    Level,
    contrast,
    correlation,
    informative_documents,
    objective,
)
from optimize.search.race import FEWEST_DOCUMENTS
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Contrast

TOO_DEAR_TO_SHIP = "measuring both judges on test would take more than half of the budget"
TOO_DEAR_TO_TRY = "the budget does not reach for enough documents to try it on"
ONE_A_REQUEST = (
    "the endpoint gives one reply a request, so a judgement takes {calls} calls and not the "
    "{planned} planned; --plan mean --samples N plans for them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """The plan to ship with, an evaluator that follows it, and the rows of summary.json.

    `dev` is what both judges are to be measured on under a plan that the search did not follow, and
    `gap` there the judge that was tried less the other one (None where the search followed it).
    """

    plan: SamplingPlan
    evaluator: Evaluator
    summary_rows: Sequence[Mapping[str, Any]] = ()
    dev: Items | None = None
    gap: Contrast | None = None
    calls: int = 0


def choose(run: ActiveRun, evaluator: Evaluator, result: SearchResult) -> PlanChoice:
    """Try the run's plans on the judge that ships, and write every one down as a trial.

    The search's plan (`evaluator` follows it) where there are none to try, or where the budget ends
    before they have been.
    """
    choice = PlanChoice(plan=run.models.plan, evaluator=evaluator)
    if not run.budget.plan_costs:
        return choice
    try:
        trials = PlanTrials(run, evaluator, result)
        with run.models.judge.account.spending_on(PLANS):
            choice = trials.choose()
    except BudgetSpentError:
        run.log.print_line(
            "plan: the budget ended before the plans had been tried; the search's is kept"
        )
        return choice
    for row in choice.summary_rows:
        run.log.write("plan", candidate=trials.shipping.id, **row)
    run.log.print_line(_line(choice.summary_rows))
    return choice


class PlanTrials:
    """The run's plans on dev: `shipping` is the judge that ships, `alternative` the other one.

    The alternative has to be measured under the chosen plan too.
    """

    def __init__(self, run: ActiveRun, evaluator: Evaluator, result: SearchResult) -> None:
        self.run, self.cross_fit = run, result.cross_fit
        self.shipping, self.alternative = (
            (result.tuned, run.seed) if result.choice.ship else (run.seed, result.tuned)
        )
        self.dev, self.level = run.prepared.labels.dev, run.prepared.level
        self.search_plan = run.models.plan
        self.budget = evaluator.budget.renewed(run.budget.plan_budget + evaluator.budget.left)
        self.evaluators = {
            plan_cost.plan: evaluator
            if plan_cost.plan == self.search_plan
            else run.with_plan(plan_cost.plan).evaluator()
            for plan_cost in run.budget.plan_costs
        }
        for plan_evaluator in self.evaluators.values():
            plan_evaluator.budget = self.budget

    def choose(self) -> PlanChoice:
        """Score dev by each plan that the budget allows, and choose by `cheapest_near_best`."""
        plan_costs = self.run.budget.plan_costs
        left_out = {
            plan_cost.plan: reason
            for plan_cost in plan_costs
            if plan_cost.plan != self.search_plan and (reason := self._refusal(plan_cost))
        }
        usable = [plan_cost for plan_cost in plan_costs if plan_cost.plan not in left_out]
        part = self._affordable(usable)
        while len(usable) > 1 and len(part.documents) < min(
            FEWEST_DOCUMENTS, len(self.dev.documents)
        ):
            dearest = max(
                (plan_cost for plan_cost in usable if plan_cost.plan != self.search_plan),
                key=lambda plan_cost: plan_cost.cost,
            )
            left_out[dearest.plan] = TOO_DEAR_TO_TRY
            usable.remove(dearest)
            part = self._affordable(usable)
        scores: dict[SamplingPlan, Vector] = {}
        for plan_cost in usable:
            plan = plan_cost.plan
            try:
                scores[plan] = self.cross_fit.scores(self.evaluators[plan], self.shipping, part)
            except (BudgetSpentError, FatalModelError) as error:
                if plan == self.search_plan:
                    raise
                left_out[plan] = _reason(error)
        usable = [plan_cost for plan_cost in usable if plan_cost.plan in scores]
        chosen = cheapest_near_best(usable, scores, part, self.level)
        gap = None
        if chosen != self.search_plan:
            evaluator = self.evaluators[chosen]
            alternative_scores = self.cross_fit.scores(evaluator, self.alternative, part)
            gap = contrast(scores[chosen], alternative_scores, part, self.level)
        rows = self._summary_rows(usable, scores, part, chosen)
        rows += [
            {
                **_plan_row(plan_cost),
                "rho": None,
                "chosen": False,
                "left_out": left_out[plan_cost.plan],
            }
            for plan_cost in plan_costs
            if plan_cost not in usable
        ]
        return PlanChoice(
            plan=chosen,
            evaluator=self.evaluators[chosen],
            summary_rows=rows,
            dev=None if chosen == self.search_plan else part,
            gap=gap,
            calls=self.budget.calls,
        )

    def _refusal(self, plan_cost: PlanCost) -> str | None:
        """Why a plan cannot be tried, which for some only asking the model tells."""
        if plan_cost not in self.run.budget.affordable_plans:
            return TOO_DEAR_TO_SHIP
        first = Items(self.dev.items[:1])
        try:
            self.cross_fit.scores(self.evaluators[plan_cost.plan], self.shipping, first)
        except (FatalModelError, SearchBudgetSpentError, BudgetSpentError) as error:
            return _reason(error)
        # Known now that the model has been asked.
        calls = self.run.with_plan(plan_cost.plan).evaluator().calls(first)
        if calls > plan_cost.calls:
            return ONE_A_REQUEST.format(calls=calls, planned=plan_cost.calls)
        return None

    def _affordable(self, usable: Sequence[PlanCost]) -> Items:
        """The dev documents that all plans can be tried on, and the other judge measured on."""
        evaluators = [self.evaluators[plan_cost.plan] for plan_cost in usable]

        def cost(part: Items) -> float:
            tried = sum(self.cross_fit.cost(each, self.shipping, part) for each in evaluators)
            return tried + max(
                self.cross_fit.cost(each, self.alternative, part) for each in evaluators
            )

        documents = informative_documents(self.dev, self.level)
        return affordable_part(self.dev, documents, self.budget.left, cost)

    def _summary_rows(
        self,
        usable: Sequence[PlanCost],
        scores: Mapping[SamplingPlan, Vector],
        part: Items,
        chosen: SamplingPlan,
    ) -> list[dict[str, Any]]:
        """Each plan's rho, its distance to the best, and what its cost brings."""
        level, seed = self.level, self.run.prepared.settings.seed
        cells = {
            plan: cell(correlation(plan_scores, part, level, stream(seed, "interval", "plan")))
            for plan, plan_scores in scores.items()
        }
        value = {
            plan: -1.0 if plan_cell["value"] is None else plan_cell["value"]
            for plan, plan_cell in cells.items()
        }
        best = _best(usable, value)
        cheapest = usable[0]
        return [
            {
                **_plan_row(plan_cost),
                "rho": cells[plan_cost.plan],
                "less_than_best": gain(scores[plan_cost.plan], scores[best], part, level, seed),
                # Rho gained on the cheapest plan for each further reply's worth of cost.
                "gain_per_cost": round(
                    (value[plan_cost.plan] - value[cheapest.plan])
                    / (plan_cost.cost - cheapest.cost),
                    6,
                )
                if plan_cost.cost > cheapest.cost
                else None,
                "chosen": plan_cost.plan == chosen,
            }
            for plan_cost in usable
        ]


def cheapest_near_best(
    usable: Sequence[PlanCost], scores: Mapping[SamplingPlan, Vector], items: Items, level: Level
) -> SamplingPlan:
    """The cheapest whose rho is within a standard error of the best one's, document by document."""
    values = {plan: objective(plan_scores, items, level) for plan, plan_scores in scores.items()}
    values = {plan: -1.0 if math.isnan(value) else value for plan, value in values.items()}
    best = _best(usable, values)
    near = []
    for plan_cost in usable:
        gap = contrast(scores[best], scores[plan_cost.plan], items, level)
        if len(gap.documents) < 2 or gap.value <= gap.error:
            near.append(plan_cost)
    return min(near, key=lambda plan_cost: (plan_cost.cost, -values[plan_cost.plan])).plan


def _best(usable: Sequence[PlanCost], values: Mapping[SamplingPlan, float]) -> SamplingPlan:
    return max(usable, key=lambda plan_cost: (values[plan_cost.plan], -plan_cost.cost)).plan


def _reason(error: Exception) -> str:
    """Why a plan is passed over; what is no plan's fault, the search's own will run into, too."""
    if isinstance(error, NoProbabilitiesError):
        return "the model gives no log-probabilities"
    if isinstance(error, FatalModelError):
        return f"the model does not take it ({' '.join(str(error).split())})"
    return TOO_DEAR_TO_TRY


def _plan_row(plan_cost: PlanCost) -> dict[str, Any]:
    """What a judgement takes under a plan."""
    return {
        "plan": name(plan_cost.plan),
        "samples": plan_cost.plan.samples,
        "temperature": plan_cost.plan.temperature,
        "calls": plan_cost.calls,
        "replies": plan_cost.replies,
        "cost": plan_cost.cost,
    }


def name(plan: SamplingPlan) -> str:
    return {"one": "one reply", "weighted": "weighted"}.get(plan.kind, f"mean of {plan.samples}")


def _line(rows: Sequence[Mapping[str, Any]]) -> str:
    """The choice in a line of progress."""
    chosen = next(row for row in rows if row["chosen"])
    tried = ", ".join(
        f"{row['plan']} {number_text(row['rho']['value'])}"
        for row in rows
        if row["rho"] is not None
    )
    return f"plan: {chosen['plan']} ({tried})"
