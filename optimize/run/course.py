"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from judges.engine.ledger import BudgetSpentError
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.run import outcome, plans, run_folder
from optimize.run.models_asked import Asked, judging, open_models, proposing
from optimize.run.prepare import Prepared
from optimize.run.record_evidence import record_evidence
from optimize.run.trail import Trail
from optimize.search.allowance import Allowance, Toll, allow, left_for_probes, plan
from optimize.search.bench import Bench, Budget
from optimize.search.candidates import Candidate, Instruction
from optimize.search.chance import stream
from optimize.search.gate import confirm
from optimize.search.loop import Found
from optimize.search.optimizers import search


def run(prepared: Prepared, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """From the first question to the evidence for a report; returns what summary.json holds."""
    began = time.monotonic()
    settings, labels = prepared.settings, prepared.labels
    judge = Judge.of(prepared.subject, lm=settings.lm)
    with open_models(settings, folder) as asked, Trail(folder, say) as trail:
        tolls = _tolls(prepared, judge, asked)
        allowance = allow(settings, labels, judge, asked.calls_per_item(judge), tolls)
        bench = _bench(prepared, judge, asked, allowance, trail)
        allowance.budget.hold = lambda calls: asked.budget.hold(*allowance.held(calls))
        allowance.budget.hold(0)
        found = _search(prepared, bench, judge, asked, trail)
        say(found.choice.why)
        choice = None
        if tolls:
            try:
                choice = _choose_plan(prepared, bench, found, judge, asked, allowance, tolls, trail)
            except BudgetSpentError:
                say("plan: the budget ended before the plans had been tried; the search's is kept")
        if choice:
            say(plans.line(choice.told))
            if choice.gap is not None:
                rng = stream(settings.seed, "gate", "plan")
                confirmed = confirm(found.choice, choice.gap, plans.name(choice.plan), rng)
                found = replace(found, choice=confirmed)
                say(confirmed.why)
            asked, bench = replace(asked, plan=choice.plan), choice.bench
        dev = choice.dev if choice else None

        def measure(*, test: bool) -> outcome.Measured:
            level, seed = prepared.level, settings.seed
            return outcome.measure_finally(bench, found, labels, level, seed, dev, test=test)

        def settle(measured: outcome.Measured) -> dict[str, Any]:
            """Freeze the judge and write the summary, with whatever has been measured."""
            seconds = time.monotonic() - began
            summary = outcome.summarize(prepared, folder, asked, found, measured, seconds)
            if choice:
                summary["plans"] = choice.told
            shipped = outcome.freeze_shipped(prepared, judge, asked, found, summary, folder)
            # A run that has found its judge writes it, whatever its texts hold.
            shipped, notes = shipped.without_secrets()
            if notes:
                summary["left_out"] = list(notes)
            shipped.save(folder / run_folder.JUDGE, overwrite=True)
            run_folder.write_json(folder / run_folder.SUMMARY, summary)
            return summary

        # A judge that has been paid for is kept whatever becomes of its measurement.
        settle(measure(test=False))
        asked.budget.hold()
        try:
            measured = measure(test=True)
        except BudgetSpentError:
            seed = Candidate(instruction=Instruction(text=judge.prompt.instruction))
            if found.tuned.id == seed.id:
                raise
            found = outcome.without_tuned(found, seed)
            say(found.choice.why)
            measured = measure(test=True)
        settle(measured)
        spent = found.calls + bench.budget.spent + (choice.calls if choice else 0)
        left = left_for_probes(settings, spent)
        record_evidence(prepared, folder, bench, found, judge, asked, left)
        # Once more, with the calls that the probes took.
        return settle(measured)


def _tolls(prepared: Prepared, judge: Judge, asked: Asked) -> list[Toll]:
    """What the sampling plans to try take; none where the plan is told."""
    if prepared.settings.plan != plans.AUTO:
        return []
    return plans.tolls(prepared.settings, judge, asked, prepared.labels.train.items[0].texts)


def _bench(
    prepared: Prepared, judge: Judge, asked: Asked, allowance: Allowance, trail: Trail
) -> Bench:
    return Bench(
        seed=judge.prompt,
        judge=judging(judge, asked, prepared.settings.seed, trail.step),
        calls_per_item=asked.calls_per_item(judge),
        budget=allowance.budget,
        weight=allowance.weight,
        proposal=allowance.proposal,
    )


def _choose_plan(
    prepared: Prepared,
    bench: Bench,
    found: Found,
    judge: Judge,
    asked: Asked,
    allowance: Allowance,
    tolls: list[Toll],
    trail: Trail,
) -> plans.PlanChoice:
    """Try the plans on the judge that ships, and write every one down as a trial."""
    seed = Candidate(instruction=Instruction(text=judge.prompt.instruction))
    ships = found.tuned if found.choice.ship else seed

    def bench_of(plan: SamplingPlan) -> Bench:
        if plan == asked.plan:
            return bench
        return _bench(prepared, judge, replace(asked, plan=plan), allowance, trail)

    choice = plans.choose(
        tolls,
        allowance.tolls,
        judge=ships,
        other=seed if found.choice.ship else found.tuned,
        crossing=found.crossing,
        dev=prepared.labels.dev,
        level=prepared.level,
        seed=prepared.settings.seed,
        own=asked.plan,
        budget=Budget(allowance.plans + bench.budget.left),
        bench_of=bench_of,
    )
    for one in choice.told:
        trail.tried_plan(ships.id, one)
    return choice


def _search(prepared: Prepared, bench: Bench, judge: Judge, asked: Asked, trail: Trail) -> Found:
    settings = prepared.settings
    return search(
        settings.optimizer,
        bench=bench,
        propose=proposing(judge, asked, settings.seed, trail.say),
        train=prepared.labels.train,
        dev=prepared.labels.dev,
        level=prepared.level,
        plan=plan(settings),
        record=trail.record,
    )
