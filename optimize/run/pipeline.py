"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from data.readers import is_constructed
from judges.inference.budget import BudgetSpentError, Ledger
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.items import Items
from optimize.run import run_folder, sampling_plans
from optimize.run.final_table import Cell, Scores, accuracy, gain, row
from optimize.run.labels import Labels
from optimize.run.models import RunModels, judging, open_models, proposing
from optimize.run.prepare import PreparedRun
from optimize.run.record_evidence import record_evidence
from optimize.run.search_budget import PlanCost, SearchBudget, allow, left_for_probes, plan
from optimize.run.trial_log import TrialLog
from optimize.search.candidates import Candidate, Instruction
from optimize.search.evaluator import Budget, Evaluator
from optimize.search.finalists import affordable_documents
from optimize.search.gate import Choice, confirm
from optimize.search.objective import Level
from optimize.search.optimizers import search
from optimize.search.rank_search import SearchResult
from optimize.statistics.bootstrap import stream

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa", "optuna")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Both judges on every split."""

    seed: Mapping[str, Scores | None]
    tuned: Mapping[str, Scores | None]
    seed_row: Mapping[str, Cell | None]
    tuned_row: Mapping[str, Cell | None]
    gain: Cell


def measure_finally(
    evaluator: Evaluator,
    found: SearchResult,
    labels: Labels,
    level: Level,
    seed: int,
    dev: Items | None = None,
    *,
    test: bool = True,
) -> Measured:
    """Score both judges on test, once, after the choice; on dev, where the choice was made.

    There a judge that shows dev's labels is stood in for by versions that do not show them.
    `dev` says on which part of dev, where not on what both have been scored on. Without `test`
    only what is known already is told, and no model is asked.
    """
    base = Candidate(instruction=Instruction(text=evaluator.seed.instruction))
    cross_fit = found.cross_fit
    if dev is None:
        dev = cross_fit.known(evaluator, found.tuned, evaluator.known(base, labels.dev))
    if not len(dev) and test:
        both = list({one.id: one for one in (base, found.tuned)}.values())
        dev = affordable_documents(evaluator, cross_fit, both, labels.dev, level)
    splits: dict[str, Items | None] = {
        "dev": dev or None,
        "test": labels.test if test else None,
        "test_unseen_systems": labels.unseen if test else None,
    }
    evaluator.budget = Budget(
        sum(
            cross_fit.cost(evaluator, one, part)
            for one in (base, found.tuned)
            for part in splits.values()
            if part
        )
    )
    sides = [
        {
            name: Scores(items=part, scores=cross_fit.scores(evaluator, one, part))
            if part
            else None
            for name, part in splits.items()
        }
        for one in (base, found.tuned)
    ]
    ours, theirs = sides[0]["test"], sides[1]["test"]
    return Measured(
        seed=sides[0],
        tuned=sides[1],
        seed_row=row(sides[0], level, seed),
        tuned_row=row(sides[1], level, seed),
        gain=gain(theirs, ours, level, seed) if ours and theirs else {},
    )


def without_tuned(found: SearchResult, seed: Candidate) -> SearchResult:
    """The seed in the place of a tuned judge that the budget did not reach to measure on test."""
    why = (
        "the budget ended before the tuned judge had been measured on test, so the seed is kept; a "
        f"larger one and --resume go on from there (before that: {found.choice.why})"
    )
    return replace(found, tuned=seed, choice=Choice(best=None, ship=False, why=why))


def summarize(
    prepared: PreparedRun,
    folder: Path,
    asked: RunModels,
    found: SearchResult,
    measured: Measured,
    seconds: float,
) -> dict[str, Any]:
    """What summary.json holds. Calls, tokens and dollars are of the whole run, over all resumes.

    `cost_usd` holds an estimate for requests whose answer never came; where there were any,
    `cost_unconfirmed_usd` says how much of it.
    """
    settings = prepared.settings
    judged, proposed = asked.judge.ledger, asked.proposer.ledger
    whole: dict[str, Any] = {
        "dimension": prepared.subject.name,
        "lm": settings.lm,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "data": prepared.labels.counts(),
        "seed_judge": dict(measured.seed_row),
        "tuned_judge": dict(measured.tuned_row),
        "gain": {"test": measured.gain},
        "shipped": "tuned" if found.choice.ship else "seed",
        "why": found.choice.why,
        "stand_ins": found.cross_fit.note(found.tuned),
        "lm_calls": judged.calls,
        "proposer_calls": proposed.calls,
        "tokens": {
            "in": judged.tokens_in + proposed.tokens_in,
            "out": judged.tokens_out + proposed.tokens_out,
        },
        **_costs(judged, proposed),
        "seconds": round(seconds, 1),
    }
    sides = {"seed_judge": measured.seed["test"], "tuned_judge": measured.tuned["test"]}
    if prepared.settings.pairwise:
        whole["accuracy"] = {name: accuracy(one) for name, one in sides.items() if one}
    return whole


def _costs(*ledgers: Ledger) -> dict[str, float | None]:
    """Dollars at list price; None where the price of a model that was asked is unknown."""
    asked = [one for one in ledgers if one.calls]
    known = [one.cost for one in asked if one.cost is not None]
    if len(known) < len(asked):
        return {"cost_usd": None}
    expected_gain = sum(one.cost_likely or 0.0 for one in asked)
    unconfirmed = expected_gain - sum(known)
    costs: dict[str, float | None] = {"cost_usd": round(expected_gain, 6)}
    return costs | ({"cost_unconfirmed_usd": round(unconfirmed, 6)} if unconfirmed > 0 else {})


def freeze_shipped(
    prepared: PreparedRun,
    judge: Judge,
    asked: RunModels,
    found: SearchResult,
    whole: Mapping[str, Any],
    folder: Path,
) -> Judge:
    """The judge to freeze: the tuned one where the gate allowed it, else the seed."""
    chosen = found.tuned.prompt(judge.prompt) if found.choice.ship else judge.prompt
    settings, labels = prepared.settings, prepared.labels
    provenance = {
        "data": {
            "name": labels.name,
            "sha256": labels.sha256,
            "constructed": is_constructed(labels.sha256),
        },
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        "model": asked.judge.model.name,
        "endpoint": asked.judge.model.endpoint,
        "proposer": asked.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "shipped": whole["shipped"],
        "why": whole["why"],
        "candidates_tried": found.n_tried,
        "budget": {
            "lm_calls": whole["lm_calls"],
            "proposer_calls": whole["proposer_calls"],
            "cost_usd": whole["cost_usd"],
        },
        "seed_judge": whole["seed_judge"],
        "tuned_judge": whole["tuned_judge"],
        "gain": whole["gain"],
        "versions": {"python": platform.python_version(), **_versions()},
        "started": run_folder.started(folder),
    }
    return replace(judge, prompt=chosen, plan=asked.plan, provenance=provenance)


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def run(prepared: PreparedRun, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """From the first question to the evidence for a report; returns what summary.json holds."""
    began = time.monotonic()
    settings, labels = prepared.settings, prepared.labels
    judge = Judge.of(prepared.subject, lm=settings.lm)
    with open_models(settings, folder) as asked, TrialLog(folder, say) as trial_log:
        plan_costs = _plan_costs(prepared, judge, asked)
        search_budget = allow(settings, labels, judge, asked.calls_per_item(judge), plan_costs)
        evaluator = _evaluator(prepared, judge, asked, search_budget, trial_log)
        search_budget.budget.hold = lambda calls: asked.budget.hold(*search_budget.held(calls))
        search_budget.budget.hold(0)
        found = _search(prepared, evaluator, judge, asked, trial_log)
        say(found.choice.why)
        choice = None
        if plan_costs:
            try:
                choice = _choose_plan(
                    prepared, evaluator, found, judge, asked, search_budget, plan_costs, trial_log
                )
            except BudgetSpentError:
                say("plan: the budget ended before the plans had been tried; the search's is kept")
        if choice:
            say(sampling_plans.line(choice.told))
            if choice.gap is not None:
                rng = stream(settings.seed, "gate", "plan")
                confirmed = confirm(found.choice, choice.gap, sampling_plans.name(choice.plan), rng)
                found = replace(found, choice=confirmed)
                say(confirmed.why)
            asked, evaluator = replace(asked, plan=choice.plan), choice.evaluator
        dev = choice.dev if choice else None

        def measure(*, test: bool) -> Measured:
            level, seed = prepared.level, settings.seed
            return measure_finally(evaluator, found, labels, level, seed, dev, test=test)

        def settle(measured: Measured) -> dict[str, Any]:
            """Freeze the judge and write the summary, with whatever has been measured."""
            seconds = time.monotonic() - began
            summary = summarize(prepared, folder, asked, found, measured, seconds)
            if choice:
                summary["plans"] = choice.told
            shipped = freeze_shipped(prepared, judge, asked, found, summary, folder)
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
            found = without_tuned(found, seed)
            say(found.choice.why)
            measured = measure(test=True)
        settle(measured)
        spent = found.calls + evaluator.budget.spent + (choice.calls if choice else 0)
        left = left_for_probes(settings, spent)
        record_evidence(prepared, folder, evaluator, found, judge, asked, left)
        # Once more, with the calls that the probes took.
        return settle(measured)


def _plan_costs(prepared: PreparedRun, judge: Judge, asked: RunModels) -> list[PlanCost]:
    """What the sampling plans to try take; none where the plan is told."""
    if prepared.settings.plan != sampling_plans.AUTO:
        return []
    return sampling_plans.plan_costs(
        prepared.settings, judge, asked, prepared.labels.train.items[0].texts
    )


def _evaluator(
    prepared: PreparedRun,
    judge: Judge,
    asked: RunModels,
    search_budget: SearchBudget,
    trial_log: TrialLog,
) -> Evaluator:
    return Evaluator(
        seed=judge.prompt,
        judge=judging(judge, asked, prepared.settings.seed, trial_log.step),
        calls_per_item=asked.calls_per_item(judge),
        budget=search_budget.budget,
        weight=search_budget.weight,
        proposal=search_budget.proposal,
    )


def _choose_plan(
    prepared: PreparedRun,
    evaluator: Evaluator,
    found: SearchResult,
    judge: Judge,
    asked: RunModels,
    search_budget: SearchBudget,
    plan_costs: list[PlanCost],
    trial_log: TrialLog,
) -> sampling_plans.PlanChoice:
    """Try the plans on the judge that ships, and write every one down as a trial."""
    seed = Candidate(instruction=Instruction(text=judge.prompt.instruction))
    ships = found.tuned if found.choice.ship else seed

    def bench_of(plan: SamplingPlan) -> Evaluator:
        if plan == asked.plan:
            return evaluator
        return _evaluator(prepared, judge, replace(asked, plan=plan), search_budget, trial_log)

    choice = sampling_plans.choose(
        plan_costs,
        search_budget.plan_costs,
        judge=ships,
        other=seed if found.choice.ship else found.tuned,
        cross_fit=found.cross_fit,
        dev=prepared.labels.dev,
        level=prepared.level,
        seed=prepared.settings.seed,
        own=asked.plan,
        budget=Budget(search_budget.plans + evaluator.budget.left),
        bench_of=bench_of,
    )
    for one in choice.told:
        trial_log.tried_plan(ships.id, one)
    return choice


def _search(
    prepared: PreparedRun, evaluator: Evaluator, judge: Judge, asked: RunModels, trial_log: TrialLog
) -> SearchResult:
    settings = prepared.settings
    return search(
        settings.optimizer,
        evaluator=evaluator,
        propose=proposing(judge, asked, settings.seed, trial_log.say),
        train=prepared.labels.train,
        dev=prepared.labels.dev,
        level=prepared.level,
        plan=plan(settings),
        record=trial_log.record,
    )
