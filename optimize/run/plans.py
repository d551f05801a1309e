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

from judges.engine.ledger import BudgetSpentError
from judges.engine.prices import Price, estimate_tokens, find_price
from judges.judge import Judge
from judges.models.protocol import LastingError
from judges.scoring import NoProbabilitiesError, SamplingPlan
from optimize.run.models_asked import Asked
from optimize.run.settings import Settings
from optimize.run.table import Scores, cell, correlation, gain
from optimize.search.allowance import REPLY_TOKENS, Toll
from optimize.search.bench import Bench, Budget, OutOfCallsError
from optimize.search.candidates import Candidate
from optimize.search.chance import stream
from optimize.search.crossing import Crossing
from optimize.search.items import Items, Vector
from optimize.search.objective import Level, contrast, objective, tells
from optimize.search.race import FEWEST_DOCUMENTS
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
BenchOf = Callable[[SamplingPlan], Bench]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoice:
    """The plan to ship with, the bench that follows it, and what summary.json tells of the choice.

    `dev` is what both judges are to be measured on under a plan that the search did not follow, and
    `gap` there the judge that was tried less the other one (None where the search followed it).
    """

    plan: SamplingPlan
    bench: Bench
    told: list[dict[str, Any]]
    dev: Items | None
    gap: Contrast | None
    calls: int


def tolls(settings: Settings, judge: Judge, asked: Asked, texts: Mapping[str, str]) -> list[Toll]:
    """The plans to try, cheapest first.

    `texts` stand for what is judged, to tell how long a prompt is beside a reply.
    """
    warm = 1.0 if settings.temperature is None else settings.temperature
    samples = SAMPLES if settings.samples is None else (settings.samples,)
    plans = [SamplingPlan(kind="one"), SamplingPlan(kind="weighted")]
    plans += [SamplingPlan(kind="mean", samples=n, temperature=warm) for n in samples]
    price = find_price(settings.lm)
    read = float(estimate_tokens(judge.messages(texts)))
    written = REPLY_TOKENS * _written(price)
    found = []
    for plan in plans:
        calls = replace(asked, plan=plan).calls_per_item(judge)
        replies = plan.samples * (2 if judge.kind == "pairwise" else 1)
        single = (read + written) * (2 if judge.kind == "pairwise" else 1)
        cost = (read * calls + written * replies) / single
        found.append(Toll(plan=plan, calls=calls, replies=replies, cost=round(cost, 3)))
    return sorted(found, key=lambda toll: (toll.cost, toll.plan.kind))


def _written(price: Price | None) -> float:
    if price is None or not price.per_token_in:
        return WRITTEN
    return price.per_token_out / price.per_token_in


def choose(
    tolls: Sequence[Toll],
    allowed: Sequence[Toll],
    *,
    judge: Candidate,
    other: Candidate,
    crossing: Crossing,
    dev: Items,
    level: Level,
    seed: int,
    own: SamplingPlan,
    budget: Budget,
    bench_of: BenchOf,
) -> PlanChoice:
    """Score `judge`, the one that ships, under each plan, within the budget.

    `own` is the plan that the search followed; `other` has to be measured under the chosen one too.
    The final table could not be paid under plans that are not `allowed`.
    """
    benches = {toll.plan: bench_of(toll.plan) for toll in tolls}
    for bench in benches.values():
        bench.budget = budget
    before = budget.spent
    out = {toll.plan: TOO_DEAR_TO_SHIP for toll in tolls if toll not in allowed}
    for toll in allowed:
        if toll.plan == own:
            continue
        if why := _refusal(benches[toll.plan], crossing, judge, dev):
            out[toll.plan] = why
        elif (calls := bench_of(toll.plan).price(Items(dev.items[:1]))) > toll.calls:
            out[toll.plan] = ONE_A_REQUEST.format(calls=calls, planned=toll.calls)
    able = [toll for toll in tolls if toll.plan not in out or toll.plan == own]
    part = _affordable(able, benches, crossing, judge, other, dev, level)
    while len(able) > 1 and len(part.documents) < min(FEWEST_DOCUMENTS, len(dev.documents)):
        dearest = max((toll for toll in able if toll.plan != own), key=lambda toll: toll.cost)
        out[dearest.plan] = TOO_DEAR_TO_TRY
        able.remove(dearest)
        part = _affordable(able, benches, crossing, judge, other, dev, level)
    scores: dict[SamplingPlan, Vector] = {}
    for toll in able:
        try:
            scores[toll.plan] = crossing.scores(benches[toll.plan], judge, part)
        except (BudgetSpentError, LastingError) as error:
            if toll.plan == own:
                raise
            out[toll.plan] = _why(error)
    able = [toll for toll in able if toll.plan in scores]
    chosen = cheapest_near_best(able, scores, part, level)
    gap = None
    if chosen != own:
        theirs = crossing.scores(benches[chosen], other, part)
        gap = contrast(scores[chosen], theirs, part, level)
    left_out = [
        {**_takes(toll), "rho": None, "chosen": False, "left_out": out[toll.plan]}
        for toll in tolls
        if toll not in able
    ]
    return PlanChoice(
        plan=chosen,
        bench=benches[chosen],
        told=[*_told(able, scores, part, level, seed, chosen), *left_out],
        dev=None if chosen == own else part,
        gap=gap,
        calls=budget.spent - before,
    )


def cheapest_near_best(
    able: Sequence[Toll], scores: Mapping[SamplingPlan, Vector], items: Items, level: Level
) -> SamplingPlan:
    """The cheapest whose rho is within a standard error of the best one's, document by document."""
    values = {plan: objective(one, items, level) for plan, one in scores.items()}
    values = {plan: -1.0 if math.isnan(value) else value for plan, value in values.items()}
    best = max(able, key=lambda toll: (values[toll.plan], -toll.cost)).plan
    near = []
    for toll in able:
        gap = contrast(scores[best], scores[toll.plan], items, level)
        if len(gap.documents) < 2 or gap.value <= gap.error:
            near.append(toll)
    return min(near, key=lambda toll: (toll.cost, -values[toll.plan])).plan


def _refusal(bench: Bench, crossing: Crossing, judge: Candidate, dev: Items) -> str | None:
    """Why the model does not follow the plan, which for some only asking tells; None if it does."""
    try:
        crossing.scores(bench, judge, Items(dev.items[:1]))
    except (LastingError, OutOfCallsError, BudgetSpentError) as error:
        return _why(error)
    return None


def _why(error: Exception) -> str:
    """Why a plan is passed over; what is no plan's fault, the search's own will run into, too."""
    if isinstance(error, NoProbabilitiesError):
        return "the model gives no log-probabilities"
    if isinstance(error, LastingError):
        return f"the model does not take it ({' '.join(str(error).split())})"
    return TOO_DEAR_TO_TRY


def _affordable(
    able: Sequence[Toll],
    benches: Mapping[SamplingPlan, Bench],
    crossing: Crossing,
    judge: Candidate,
    other: Candidate,
    dev: Items,
    level: Level,
) -> Items:
    """The dev documents that all plans can be tried on, and the other judge measured on."""
    left = benches[able[0].plan].budget.left
    kept: list[str] = []
    for document in tells(dev, level):
        part = dev.of_documents([document])
        left -= sum(crossing.cost(benches[toll.plan], judge, part) for toll in able)
        left -= max(crossing.cost(benches[toll.plan], other, part) for toll in able)
        if left < 0:
            break
        kept.append(document)
    return dev.of_documents(kept)


def _told(
    able: Sequence[Toll],
    scores: Mapping[SamplingPlan, Vector],
    part: Items,
    level: Level,
    seed: int,
    chosen: SamplingPlan,
) -> list[dict[str, Any]]:
    """What summary.json holds: each plan's rho, its distance to the best, what its cost brings."""
    cells = {
        toll.plan: cell(
            correlation(_scored(part, scores[toll.plan]), level, stream(seed, "interval", "plan"))
        )
        for toll in able
    }
    value = {plan: -1.0 if one["value"] is None else one["value"] for plan, one in cells.items()}
    first, best = able[0], max(able, key=lambda toll: (value[toll.plan], -toll.cost)).plan
    return [
        {
            **_takes(toll),
            "rho": cells[toll.plan],
            "less_than_best": gain(
                _scored(part, scores[toll.plan]), _scored(part, scores[best]), level, seed
            ),
            "gain_per_cost": _per_cost(
                value[toll.plan] - value[first.plan], toll.cost - first.cost
            ),
            "chosen": toll.plan == chosen,
        }
        for toll in able
    ]


def _takes(toll: Toll) -> dict[str, Any]:
    """What a judgement takes under a plan."""
    return {
        "plan": name(toll.plan),
        "samples": toll.plan.samples,
        "temperature": toll.plan.temperature,
        "calls": toll.calls,
        "replies": toll.replies,
        "cost": toll.cost,
    }


def _scored(part: Items, scores: Vector) -> Scores:
    return Scores(items=part, scores=scores)


def _per_cost(gained: float, cost: float) -> float | None:
    """Rho gained on the cheapest plan for each further reply's worth of cost."""
    return round(gained / cost, 6) if cost > 0 else None


def name(plan: SamplingPlan) -> str:
    return {"one": "one reply", "weighted": "weighted"}.get(plan.kind, f"mean of {plan.samples}")


def line(told: Sequence[Mapping[str, Any]]) -> str:
    """The choice in a line of progress."""
    tried = [one for one in told if one["rho"] is not None]
    chosen = next(one for one in told if one["chosen"])
    rest = ", ".join(f"{one['plan']} {_value(one)}" for one in tried)
    return f"plan: {chosen['plan']} ({rest})"


def _value(one: Mapping[str, Any]) -> str:
    value = one["rho"]["value"]
    return "undefined" if value is None else f"{value:.3f}"
