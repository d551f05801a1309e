"""The sampling plan as a choice: what one reply, several, or probabilities reach, and at what cost.

After the search, the judge that ships is scored on dev under every plan that the model allows: on
dev, since that is where choices are made, no demonstration shows its documents, and one of the
plans has been paid for there already. Chosen is the cheapest plan whose rho is not more than a
standard error (of the paired difference) below the best one's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges.inference.budget import BudgetSpentError
from judges.judge import Judge
from judges.models.prices import Price, estimate_tokens, find_price
from judges.protocol import FatalModelError
from judges.scoring import NoProbabilitiesError, SamplingPlan
from optimize.items import Items, Vector
from optimize.run.final_table import Scores, cell, correlation, gain
from optimize.run.models import RunModels
from optimize.run.search_budget import REPLY_TOKENS, PlanCost
from optimize.run.settings import Settings
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Budget, Evaluator, SearchBudgetSpentError
from optimize.search.finalists import CrossFit
from optimize.search.objective import Level, contrast, informative_documents, objective
from optimize.search.race import FEWEST_DOCUMENTS
from optimize.statistics.bootstrap import stream
from optimize.statistics.difference import Contrast

AUTO = "auto"
SAMPLES = (5, 20)
# Tokens written cost about so many times those read, where no price says how many.
WRITTEN = 4.0
TOO_DEAR_TO_SHIP = "measuring both judges on test would take more than half of the budget"
TOO_DEAR_TO_TRY = "the budget does not reach for enough documents to try it on"
ONE_A_REQUEST = (
    "the endpoint gives one reply a request, so a judgement takes {calls} calls and not the "
    "{planned} planned; --plan mean --samples N plans for them"
)
EvaluatorFor = Callable[[SamplingPlan], Evaluator]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """The plan to ship with, an evaluator that follows it, and the rows of summary.json.

    `dev` is what both judges are to be measured on under a plan that the search did not follow, and
    `gap` there the judge that was tried less the other one (None where the search followed it).
    """

    plan: SamplingPlan
    evaluator: Evaluator
    summary_rows: list[dict[str, Any]]
    dev: Items | None
    gap: Contrast | None
    calls: int


def plan_costs(
    settings: Settings, judge: Judge, models: RunModels, texts: Mapping[str, str]
) -> list[PlanCost]:
    """The plans to try, cheapest first.

    `texts` stand for what is judged, to tell how long a prompt is beside a reply.
    """
    temperature = 1.0 if settings.temperature is None else settings.temperature
    samples = SAMPLES if settings.samples is None else (settings.samples,)
    plans = [SamplingPlan(kind="one"), SamplingPlan(kind="weighted")]
    plans += [SamplingPlan(kind="mean", samples=n, temperature=temperature) for n in samples]
    price = find_price(settings.lm)
    read = float(estimate_tokens(judge.messages(texts)))
    written = REPLY_TOKENS * _written(price)
    costs = []
    for plan in plans:
        calls = replace(models, plan=plan).calls_per_item(judge)
        replies = plan.samples * (2 if judge.kind == "pairwise" else 1)
        single = (read + written) * (2 if judge.kind == "pairwise" else 1)
        cost = (read * calls + written * replies) / single
        costs.append(PlanCost(plan=plan, calls=calls, replies=replies, cost=round(cost, 3)))
    return sorted(costs, key=lambda plan_cost: (plan_cost.cost, plan_cost.plan.kind))


def _written(price: Price | None) -> float:
    if price is None or not price.per_token_in:
        return WRITTEN
    return price.per_token_out / price.per_token_in


def choose(
    plan_costs: Sequence[PlanCost],
    allowed: Sequence[PlanCost],
    *,
    shipping: Candidate,
    alternative: Candidate,
    cross_fit: CrossFit,
    dev: Items,
    level: Level,
    seed: int,
    search_plan: SamplingPlan,
    budget: Budget,
    evaluator_for: EvaluatorFor,
) -> PlanChoice:
    """Score `judge`, the one that ships, under each plan, within the budget.

    `search_plan` is the plan that the search followed; `alternative` has to be measured under the
    chosen one too. The final table could not be paid under plans that are not `allowed`.
    """
    evaluators = {plan_cost.plan: evaluator_for(plan_cost.plan) for plan_cost in plan_costs}
    for evaluator in evaluators.values():
        evaluator.budget = budget
    before = budget.spent
    reasons_left_out = {
        plan_cost.plan: TOO_DEAR_TO_SHIP for plan_cost in plan_costs if plan_cost not in allowed
    }
    for plan_cost in allowed:
        if plan_cost.plan == search_plan:
            continue
        if reason := _refusal(evaluators[plan_cost.plan], cross_fit, shipping, dev):
            reasons_left_out[plan_cost.plan] = reason
        elif (calls := evaluator_for(plan_cost.plan).price(Items(dev.items[:1]))) > plan_cost.calls:
            reasons_left_out[plan_cost.plan] = ONE_A_REQUEST.format(
                calls=calls, planned=plan_cost.calls
            )
    usable = [
        plan_cost
        for plan_cost in plan_costs
        if plan_cost.plan not in reasons_left_out or plan_cost.plan == search_plan
    ]
    part = _affordable(usable, evaluators, cross_fit, shipping, alternative, dev, level)
    while len(usable) > 1 and len(part.documents) < min(FEWEST_DOCUMENTS, len(dev.documents)):
        dearest = max(
            (plan_cost for plan_cost in usable if plan_cost.plan != search_plan),
            key=lambda plan_cost: plan_cost.cost,
        )
        reasons_left_out[dearest.plan] = TOO_DEAR_TO_TRY
        usable.remove(dearest)
        part = _affordable(usable, evaluators, cross_fit, shipping, alternative, dev, level)
    scores: dict[SamplingPlan, Vector] = {}
    for plan_cost in usable:
        try:
            scores[plan_cost.plan] = cross_fit.scores(evaluators[plan_cost.plan], shipping, part)
        except (BudgetSpentError, FatalModelError) as error:
            if plan_cost.plan == search_plan:
                raise
            reasons_left_out[plan_cost.plan] = _why(error)
    usable = [plan_cost for plan_cost in usable if plan_cost.plan in scores]
    chosen = cheapest_near_best(usable, scores, part, level)
    gap = None
    if chosen != search_plan:
        alternative_scores = cross_fit.scores(evaluators[chosen], alternative, part)
        gap = contrast(scores[chosen], alternative_scores, part, level)
    left_out = [
        {
            **_plan_row(plan_cost),
            "rho": None,
            "chosen": False,
            "left_out": reasons_left_out[plan_cost.plan],
        }
        for plan_cost in plan_costs
        if plan_cost not in usable
    ]
    return PlanChoice(
        plan=chosen,
        evaluator=evaluators[chosen],
        summary_rows=[*_summary_rows(usable, scores, part, level, seed, chosen), *left_out],
        dev=None if chosen == search_plan else part,
        gap=gap,
        calls=budget.spent - before,
    )


def cheapest_near_best(
    usable: Sequence[PlanCost], scores: Mapping[SamplingPlan, Vector], items: Items, level: Level
) -> SamplingPlan:
    """The cheapest whose rho is within a standard error of the best one's, document by document."""
    values = {plan: objective(plan_scores, items, level) for plan, plan_scores in scores.items()}
    values = {plan: -1.0 if math.isnan(value) else value for plan, value in values.items()}
    best = max(usable, key=lambda plan_cost: (values[plan_cost.plan], -plan_cost.cost)).plan
    near = []
    for plan_cost in usable:
        gap = contrast(scores[best], scores[plan_cost.plan], items, level)
        if len(gap.documents) < 2 or gap.value <= gap.error:
            near.append(plan_cost)
    return min(near, key=lambda plan_cost: (plan_cost.cost, -values[plan_cost.plan])).plan


def _refusal(evaluator: Evaluator, cross_fit: CrossFit, judge: Candidate, dev: Items) -> str | None:
    """Why the model does not follow the plan, which for some only asking tells; None if it does."""
    try:
        cross_fit.scores(evaluator, judge, Items(dev.items[:1]))
    except (FatalModelError, SearchBudgetSpentError, BudgetSpentError) as error:
        return _why(error)
    return None


def _why(error: Exception) -> str:
    """Why a plan is passed over; what is no plan's fault, the search's own will run into, too."""
    if isinstance(error, NoProbabilitiesError):
        return "the model gives no log-probabilities"
    if isinstance(error, FatalModelError):
        return f"the model does not take it ({' '.join(str(error).split())})"
    return TOO_DEAR_TO_TRY


def _affordable(
    usable: Sequence[PlanCost],
    evaluators: Mapping[SamplingPlan, Evaluator],
    cross_fit: CrossFit,
    shipping: Candidate,
    alternative: Candidate,
    dev: Items,
    level: Level,
) -> Items:
    """The dev documents that all plans can be tried on, and the other judge measured on."""
    left = evaluators[usable[0].plan].budget.left
    documents: list[str] = []
    for document in informative_documents(dev, level):
        part = dev.of_documents([document])
        left -= sum(
            cross_fit.cost(evaluators[plan_cost.plan], shipping, part) for plan_cost in usable
        )
        left -= max(
            cross_fit.cost(evaluators[plan_cost.plan], alternative, part) for plan_cost in usable
        )
        if left < 0:
            break
        documents.append(document)
    return dev.of_documents(documents)


def _summary_rows(
    usable: Sequence[PlanCost],
    scores: Mapping[SamplingPlan, Vector],
    part: Items,
    level: Level,
    seed: int,
    chosen: SamplingPlan,
) -> list[dict[str, Any]]:
    """What summary.json holds: each plan's rho, its distance to the best, what its cost brings."""
    cells = {
        plan_cost.plan: cell(
            correlation(
                _scored(part, scores[plan_cost.plan]), level, stream(seed, "interval", "plan")
            )
        )
        for plan_cost in usable
    }
    value = {
        plan: -1.0 if cell_of_plan["value"] is None else cell_of_plan["value"]
        for plan, cell_of_plan in cells.items()
    }
    first, best = (
        usable[0],
        max(usable, key=lambda plan_cost: (value[plan_cost.plan], -plan_cost.cost)).plan,
    )
    return [
        {
            **_plan_row(plan_cost),
            "rho": cells[plan_cost.plan],
            "less_than_best": gain(
                _scored(part, scores[plan_cost.plan]), _scored(part, scores[best]), level, seed
            ),
            "gain_per_cost": _per_cost(
                value[plan_cost.plan] - value[first.plan], plan_cost.cost - first.cost
            ),
            "chosen": plan_cost.plan == chosen,
        }
        for plan_cost in usable
    ]


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


def _scored(part: Items, scores: Vector) -> Scores:
    return Scores(items=part, scores=scores)


def _per_cost(gained: float, cost: float) -> float | None:
    """Rho gained on the cheapest plan for each further reply's worth of cost."""
    return round(gained / cost, 6) if cost > 0 else None


def name(plan: SamplingPlan) -> str:
    return {"one": "one reply", "weighted": "weighted"}.get(plan.kind, f"mean of {plan.samples}")


def line(rows: Sequence[Mapping[str, Any]]) -> str:
    """The choice in a line of progress."""
    tried = [row for row in rows if row["rho"] is not None]
    chosen = next(row for row in rows if row["chosen"])
    rest = ", ".join(f"{row['plan']} {_value(row)}" for row in tried)
    return f"plan: {chosen['plan']} ({rest})"


def _value(row: Mapping[str, Any]) -> str:
    value = row["rho"]["value"]
    return "undefined" if value is None else f"{value:.3f}"
