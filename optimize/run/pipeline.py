"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from data.readers import is_constructed
from judges.inference.budget import Account, BudgetSpentError
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.items import Items
from optimize.run import run_folder, sampling_plans
from optimize.run.final_table import Cell, Scores, accuracy, cells_by_split, gain
from optimize.run.labels import Labels, PreparedRun
from optimize.run.models import RunModels, instruction_proposer, item_judge, open_models
from optimize.run.record_evidence import record_evidence
from optimize.run.search_budget import (
    PlanCost,
    SearchBudget,
    allow,
    left_for_probes,
    search_options,
)
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Budget, Evaluator
from optimize.search.finalists import SearchResult, affordable_documents
from optimize.search.gate import confirm, unmeasured
from optimize.search.objective import Level
from optimize.search.optimizers import search
from optimize.search.problem import SearchProblem
from optimize.search.trial_log import TrialLog
from optimize.statistics.bootstrap import stream

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa", "optuna")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalScores:
    """Both judges on every split."""

    seed: Mapping[str, Scores | None]
    tuned: Mapping[str, Scores | None]
    seed_row: Mapping[str, Cell | None]
    tuned_row: Mapping[str, Cell | None]
    gain: Cell


def measure_finally(
    evaluator: Evaluator,
    result: SearchResult,
    labels: Labels,
    level: Level,
    seed: int,
    dev: Items | None = None,
    *,
    test: bool = True,
) -> FinalScores:
    """Score both judges on test, once, after the choice; on dev, where the choice was made.

    There a judge that shows dev's labels is stood in for by versions that do not show them.
    `dev` says on which part of dev, where not on what both have been scored on. Without `test`
    only what is known already is told, and no model is asked.
    """
    base = Candidate(instruction=evaluator.seed.instruction)
    cross_fit = result.cross_fit
    if dev is None:
        dev = cross_fit.known(evaluator, result.tuned, evaluator.known(base, labels.dev))
    if not len(dev) and test:
        candidates = list({candidate.id: candidate for candidate in (base, result.tuned)}.values())
        dev = affordable_documents(evaluator, cross_fit, candidates, labels.dev, level)
    splits: dict[str, Items | None] = {
        "dev": dev or None,
        "test": labels.test if test else None,
        "test_unseen_systems": labels.unseen if test else None,
    }
    evaluator.budget = Budget(
        sum(
            cross_fit.cost(evaluator, candidate, part)
            for candidate in (base, result.tuned)
            for part in splits.values()
            if part
        )
    )
    scores_of_both = [
        {
            name: Scores(items=part, scores=cross_fit.scores(evaluator, candidate, part))
            if part
            else None
            for name, part in splits.items()
        }
        for candidate in (base, result.tuned)
    ]
    seed_scores, tuned_scores = scores_of_both[0]["test"], scores_of_both[1]["test"]
    return FinalScores(
        seed=scores_of_both[0],
        tuned=scores_of_both[1],
        seed_row=cells_by_split(scores_of_both[0], level, seed),
        tuned_row=cells_by_split(scores_of_both[1], level, seed),
        gain=gain(tuned_scores, seed_scores, level, seed) if seed_scores and tuned_scores else {},
    )


def summarize(
    prepared: PreparedRun,
    folder: Path,
    models: RunModels,
    result: SearchResult,
    measured: FinalScores,
    seconds: float,
) -> dict[str, Any]:
    """What summary.json holds. Calls, tokens and dollars are of the whole run, over all resumes.

    `cost_usd` holds an estimate for requests whose answer never came; where there were any,
    `cost_unconfirmed_usd` says how much of it.
    """
    settings = prepared.settings
    judge_usage, proposer_usage = models.judge.account, models.proposer.account
    summary: dict[str, Any] = {
        "dimension": prepared.subject.name,
        "lm": settings.lm,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "data": prepared.labels.counts(),
        "seed_judge": dict(measured.seed_row),
        "tuned_judge": dict(measured.tuned_row),
        "gain": {"test": measured.gain},
        "shipped": "tuned" if result.choice.ship else "seed",
        "why": result.choice.why,
        "stand_ins": result.cross_fit.note(result.tuned),
        "lm_calls": judge_usage.calls,
        "proposer_calls": proposer_usage.calls,
        "tokens": {
            "in": judge_usage.tokens_in + proposer_usage.tokens_in,
            "out": judge_usage.tokens_out + proposer_usage.tokens_out,
        },
        **_costs(judge_usage, proposer_usage),
        "seconds": round(seconds, 1),
    }
    test_scores = {"seed_judge": measured.seed["test"], "tuned_judge": measured.tuned["test"]}
    if prepared.settings.pairwise:
        summary["accuracy"] = {
            name: accuracy(scores) for name, scores in test_scores.items() if scores
        }
    return summary


def _costs(*accounts: Account) -> dict[str, float | None]:
    """Dollars at list price; None where the price of a model that was asked is unknown."""
    used = [account for account in accounts if account.calls]
    costs_known = [account.cost for account in used if account.cost is not None]
    if len(costs_known) < len(used):
        return {"cost_usd": None}
    likely_cost = sum(account.cost_likely or 0.0 for account in used)
    unconfirmed = likely_cost - sum(costs_known)
    costs: dict[str, float | None] = {"cost_usd": round(likely_cost, 6)}
    return costs | ({"cost_unconfirmed_usd": round(unconfirmed, 6)} if unconfirmed > 0 else {})


def freeze_shipped(
    prepared: PreparedRun,
    judge: Judge,
    models: RunModels,
    result: SearchResult,
    summary: Mapping[str, Any],
    folder: Path,
) -> Judge:
    """The judge to freeze: the tuned one where the gate allowed it, else the seed."""
    chosen = result.tuned.prompt(judge.prompt) if result.choice.ship else judge.prompt
    settings, labels = prepared.settings, prepared.labels
    provenance = {
        "data": {
            "name": labels.name,
            "sha256": labels.sha256,
            "constructed": is_constructed(labels.sha256),
        },
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        "model": models.judge.model.name,
        "endpoint": models.judge.model.endpoint,
        "proposer": models.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared.level,
        "shipped": summary["shipped"],
        "why": summary["why"],
        "candidates_tried": result.n_tried,
        "budget": {
            "lm_calls": summary["lm_calls"],
            "proposer_calls": summary["proposer_calls"],
            "cost_usd": summary["cost_usd"],
        },
        "seed_judge": summary["seed_judge"],
        "tuned_judge": summary["tuned_judge"],
        "gain": summary["gain"],
        "versions": {"python": platform.python_version(), **_versions()},
        "started": run_folder.started(folder),
    }
    return replace(judge, prompt=chosen, plan=models.plan, provenance=provenance)


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def run(prepared: PreparedRun, folder: Path, print_line: Callable[[str], None]) -> dict[str, Any]:
    """From the first question to the evidence for a report; returns what summary.json holds."""
    began = time.monotonic()
    settings, labels = prepared.settings, prepared.labels
    judge = Judge.of(prepared.subject, lm=settings.lm)
    with (
        open_models(settings, folder) as models,
        TrialLog(folder / run_folder.TRIALS, print_line) as trial_log,
    ):
        plan_costs = _plan_costs(prepared, judge, models)
        search_budget = allow(settings, labels, judge, models.calls_per_item(judge), plan_costs)
        evaluator = _evaluator(prepared, judge, models, search_budget, trial_log)
        search_budget.budget.hold = lambda calls: models.budget.hold(*search_budget.held(calls))
        search_budget.budget.hold(0)
        result = _search(prepared, evaluator, judge, models, trial_log)
        print_line(result.choice.why)
        choice = None
        if plan_costs:
            try:
                choice = _choose_plan(
                    prepared, evaluator, result, judge, models, search_budget, plan_costs, trial_log
                )
            except BudgetSpentError:
                print_line(
                    "plan: the budget ended before the plans had been tried; the search's is kept"
                )
        if choice:
            print_line(sampling_plans.line(choice.summary_rows))
            if choice.gap is not None:
                rng = stream(settings.seed, "gate", "plan")
                confirmed = confirm(
                    result.choice, choice.gap, sampling_plans.name(choice.plan), rng
                )
                result = replace(result, choice=confirmed)
                print_line(confirmed.why)
            models, evaluator = replace(models, plan=choice.plan), choice.evaluator
        dev = choice.dev if choice else None

        def measure(*, test: bool) -> FinalScores:
            level, seed = prepared.level, settings.seed
            return measure_finally(evaluator, result, labels, level, seed, dev, test=test)

        def settle(measured: FinalScores) -> dict[str, Any]:
            """Freeze the judge and write the summary, with whatever has been measured."""
            seconds = time.monotonic() - began
            summary = summarize(prepared, folder, models, result, measured, seconds)
            if choice:
                summary["plans"] = choice.summary_rows
            shipped = freeze_shipped(prepared, judge, models, result, summary, folder)
            # A run that has found its judge writes it, whatever its texts hold.
            shipped, notes = shipped.without_secrets()
            if notes:
                summary["left_out"] = list(notes)
            shipped.save(folder / run_folder.JUDGE, overwrite=True)
            run_folder.write_json(folder / run_folder.SUMMARY, summary)
            return summary

        # A judge that has been paid for is kept whatever becomes of its measurement.
        settle(measure(test=False))
        models.budget.hold()
        try:
            measured = measure(test=True)
        except BudgetSpentError:
            seed = Candidate(instruction=judge.prompt.instruction)
            if result.tuned.id == seed.id:
                raise
            result = replace(result, tuned=seed, choice=unmeasured(result.choice))
            print_line(result.choice.why)
            measured = measure(test=True)
        settle(measured)
        spent = result.calls + evaluator.budget.spent + (choice.calls if choice else 0)
        left = left_for_probes(settings, spent)
        record_evidence(prepared, folder, evaluator, result, judge, models, left)
        # Once more, with the calls that the probes took.
        return settle(measured)


def _plan_costs(prepared: PreparedRun, judge: Judge, models: RunModels) -> list[PlanCost]:
    """What the sampling plans to try take; none where the plan is told."""
    if prepared.settings.plan != sampling_plans.AUTO:
        return []
    return sampling_plans.plan_costs(
        prepared.settings, judge, models, prepared.labels.train.items[0].texts
    )


def _evaluator(
    prepared: PreparedRun,
    judge: Judge,
    models: RunModels,
    search_budget: SearchBudget,
    trial_log: TrialLog,
) -> Evaluator:
    return Evaluator(
        seed=judge.prompt,
        judge=item_judge(judge, models, prepared.settings.seed, trial_log.count_judgement),
        calls_per_item=models.calls_per_item(judge),
        budget=search_budget.budget,
    )


def _choose_plan(
    prepared: PreparedRun,
    evaluator: Evaluator,
    result: SearchResult,
    judge: Judge,
    models: RunModels,
    search_budget: SearchBudget,
    plan_costs: list[PlanCost],
    trial_log: TrialLog,
) -> sampling_plans.PlanChoice:
    """Try the plans on the judge that ships, and write every one down as a trial."""
    seed = Candidate(instruction=judge.prompt.instruction)
    shipping = result.tuned if result.choice.ship else seed

    def evaluator_for(plan: SamplingPlan) -> Evaluator:
        if plan == models.plan:
            return evaluator
        return _evaluator(prepared, judge, replace(models, plan=plan), search_budget, trial_log)

    choice = sampling_plans.choose(
        plan_costs,
        search_budget.plan_costs,
        shipping=shipping,
        alternative=seed if result.choice.ship else result.tuned,
        cross_fit=result.cross_fit,
        dev=prepared.labels.dev,
        level=prepared.level,
        seed=prepared.settings.seed,
        search_plan=models.plan,
        budget=Budget(search_budget.plans + evaluator.budget.left),
        evaluator_for=evaluator_for,
    )
    for plan_row in choice.summary_rows:
        trial_log.write("plan", candidate=shipping.id, **plan_row)
    return choice


def _search(
    prepared: PreparedRun,
    evaluator: Evaluator,
    judge: Judge,
    models: RunModels,
    trial_log: TrialLog,
) -> SearchResult:
    settings = prepared.settings
    return search(
        settings.optimizer,
        SearchProblem(
            evaluator=evaluator,
            propose=instruction_proposer(judge, models, settings.seed, trial_log.print_line),
            train=prepared.labels.train,
            dev=prepared.labels.dev,
            level=prepared.level,
            options=search_options(settings),
            log=trial_log,
        ),
    )
