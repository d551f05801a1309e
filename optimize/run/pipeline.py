"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from data.readers import is_constructed
from judges.dimension import Dimension
from judges.inference.budget import Account, BudgetSpentError
from judges.judge import Judge
from judges.protocol import ModelError, is_embedded
from optimize.injection import PROBES_NOT_REQUESTED, Probes, probe
from optimize.run import run_folder, sampling_plans
from optimize.run.active_run import ActiveRun
from optimize.run.evidence import (
    JudgedSplit,
    PromptParts,
    RunEvidence,
    labelled_in_order,
    write_evidence,
)
from optimize.run.final_table import FinalTable, measure_finally
from optimize.run.labels import PreparedRun
from optimize.run.models import open_models
from optimize.run.run_budget import divide_budget, left_for_probes, plan_costs_of
from optimize.search.evaluator import Evaluator
from optimize.search.finalists import SearchResult
from optimize.search.gate import confirm, unmeasured
from optimize.search.trial_log import TrialLog
from optimize.statistics.bootstrap import stream

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa", "optuna")


def run(prepared: PreparedRun, folder: Path, print_line: Callable[[str], None]) -> dict[str, Any]:
    """From the first question to the evidence for a report; returns what summary.json holds."""
    began = time.monotonic()
    settings, labels = prepared.settings, prepared.labels
    judge = Judge.of(prepared.subject, lm=settings.lm)
    with (
        open_models(settings, folder) as models,
        TrialLog(folder / run_folder.TRIALS, print_line) as log,
    ):
        plan_costs = plan_costs_of(settings, judge, models, labels)
        calls_per_item = models.calls_per_item(judge)
        budget = divide_budget(settings, labels, judge, calls_per_item, plan_costs)
        budget.search.set_aside = lambda calls: models.budget.set_aside(*budget.to_hold(calls))
        budget.search.set_aside(0)
        active = ActiveRun(
            prepared=prepared, folder=folder, judge=judge, models=models, budget=budget, log=log
        )
        evaluator = active.evaluator()
        result = active.search(evaluator)
        print_line(result.choice.why)
        plan_choice = sampling_plans.choose(active, evaluator, result)
        if plan_choice.gap is not None:
            rng, plan = stream(settings.seed, "gate", "plan"), sampling_plans.name(plan_choice.plan)
            result = replace(result, choice=confirm(result.choice, plan_choice.gap, plan, rng))
            print_line(result.choice.why)
        active, evaluator = active.with_plan(plan_choice.plan), plan_choice.evaluator

        def settle(table: FinalTable) -> dict[str, Any]:
            """Freeze the judge and write the summary, with whatever has been measured."""
            summary = summarize(active, result, table, time.monotonic() - began)
            if plan_choice.summary_rows:
                summary["plans"] = plan_choice.summary_rows
            # A run that has found its judge writes it, whatever its texts hold.
            shipped, notes = shipped_judge_with_provenance(
                active, result, summary
            ).without_secrets()
            if notes:
                summary["left_out"] = list(notes)
            shipped.save(folder / run_folder.JUDGE, overwrite=True)
            run_folder.write_json(folder / run_folder.SUMMARY, summary)
            return summary

        # A judge that has been paid for is kept whatever becomes of its measurement.
        settle(measure_finally(active, evaluator, result, plan_choice.dev, test=False))
        models.budget.set_aside()
        try:
            table = measure_finally(active, evaluator, result, plan_choice.dev)
        except BudgetSpentError:
            if result.tuned.id == active.seed.id:
                raise
            result = replace(result, tuned=active.seed, choice=unmeasured(result.choice))
            print_line(result.choice.why)
            table = measure_finally(active, evaluator, result, plan_choice.dev)
        settle(table)
        spent = result.calls + plan_choice.calls + evaluator.budget.spent
        evidence = collect_evidence(active, evaluator, result, left_for_probes(settings, spent))
        write_evidence(folder, evidence)
        # Once more, with the calls that the probes took.
        return settle(table)


def summarize(
    run: ActiveRun, result: SearchResult, table: FinalTable, seconds: float
) -> dict[str, Any]:
    """What summary.json holds. Calls, tokens and dollars are of the whole run, over all resumes.

    `cost_usd` holds an estimate for requests whose answer never came; where there were any,
    `cost_unconfirmed_usd` says how much of it.
    """
    settings = run.prepared.settings
    judge_usage, proposer_usage = run.models.judge.account, run.models.proposer.account
    summary: dict[str, Any] = {
        "dimension": run.prepared.subject.name,
        "lm": settings.lm,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": run.prepared.level,
        "data": run.prepared.labels.counts(),
        "seed_judge": table.seed,
        "tuned_judge": table.tuned,
        "gain": {"test": table.gain},
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
    if settings.pairwise:
        summary["accuracy"] = table.accuracy
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


def shipped_judge_with_provenance(
    run: ActiveRun, result: SearchResult, summary: Mapping[str, Any]
) -> Judge:
    """The tuned judge where the gate ships it, else the seed, with where it comes from."""
    settings, labels, models = run.prepared.settings, run.prepared.labels, run.models
    provenance = {
        "data": {
            "name": labels.labelled.name,
            "sha256": labels.labelled.sha256,
            "constructed": is_constructed(labels.labelled.sha256),
        },
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        "model": models.judge.model.name,
        "endpoint": models.judge.model.endpoint,
        "proposer": models.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": run.prepared.level,
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
        "started": run_folder.started(run.folder),
    }
    return replace(shipped_judge(run, result), provenance=provenance)


def shipped_judge(run: ActiveRun, result: SearchResult) -> Judge:
    """The seed judge, with the tuned prompt where the gate allowed it, and the run's plan."""
    candidate = result.tuned if result.choice.ship else run.seed
    return replace(run.judge, prompt=candidate.prompt(run.judge.prompt), plan=run.models.plan)


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def collect_evidence(
    run: ActiveRun, evaluator: Evaluator, result: SearchResult, max_probe_calls: int | None
) -> RunEvidence:
    """The prompts of both judges, their judgements of test, and the shipped one's injection probes.

    Both have been measured on test, so that no judgement is asked for anew. The embedded model is
    always probed, another only where the settings ask for it (`probes`), and none with more than
    `max_probe_calls` calls (None: no bound).
    """
    prepared, labels, subject = run.prepared, run.prepared.labels, run.prepared.subject
    candidates = {"seed": run.seed, "tuned": result.tuned}
    splits = {"test": labels.test, "test_unseen_systems": labels.unseen}
    judged = {
        name: {
            split: JudgedSplit(
                dimension=subject.name,
                split=split,
                level=prepared.level,
                items=items,
                judgements=evaluator.judgements(candidate, items),
                scale=subject.scale if isinstance(subject, Dimension) else (),
                labelled=labelled_in_order(labels.labelled, items),
            )
            for split, items in splits.items()
            if items is not None
        }
        for name, candidate in candidates.items()
    }
    prompts = {name: candidate.prompt(run.judge.prompt) for name, candidate in candidates.items()}
    shipped = "tuned" if result.choice.ship else "seed"
    return RunEvidence(
        definition=subject.definition,
        prompts={
            name: PromptParts(instruction=prompt.instruction, demos=prompt.demos)
            for name, prompt in prompts.items()
        },
        judged=judged,
        probes=_probe(run, shipped_judge(run, result), judged[shipped]["test"], max_probe_calls),
    )


def _probe(run: ActiveRun, judge: Judge, test: JudgedSplit, max_probe_calls: int | None) -> Probes:
    """The probes of the judge on test; empty, with the reason, where not all were run."""
    settings, runner = run.prepared.settings, run.models.judge
    if not is_embedded(runner.model.endpoint) and not settings.probes:
        return PROBES_NOT_REQUESTED
    try:
        return probe(
            judge,
            runner,
            test.items,
            test.scores,
            seed=settings.seed,
            max_probe_calls=max_probe_calls,
        )
    except (ModelError, BudgetSpentError) as error:
        # They add to a report; what is known without them is worth keeping.
        return Probes(reason=f"they could not be run to their end: {error}")
