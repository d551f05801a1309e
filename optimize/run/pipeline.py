"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import platform
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from data.readers import is_constructed
from judges.client import BudgetSpentError, Model, ModelError, is_embedded
from judges.judge import Judge
from judges.terminal import Progress
from optimize.injection import PROBES_NOT_REQUESTED, Probes, probe
from optimize.measuring.measure import order_figures, people_figures, scale_figures
from optimize.measuring.scored import Scored, labelled_in_order
from optimize.run import run_folder
from optimize.run.active_run import ActiveRun
from optimize.run.evidence import (
    RunEvidence,
    write_judgements,
)
from optimize.run.final_table import FinalTable, measure_finally
from optimize.run.labels import PreparedRun
from optimize.run.models import (
    PROBES,
    SEARCH,
    SEED,
    RunModels,
    make_item_scorer,
    open_models,
    unopened_models,
)
from optimize.run.run_budget import (
    CallTokens,
    RunBudget,
    dearer_note,
    divide_budget,
    left_for_probes,
    measured_tokens,
)
from optimize.run.run_estimate import RunEstimate, estimate_run
from optimize.run.spending import spending_summary
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator, Pricing
from optimize.search.gate import SearchResult, as_asked, reason_of, unmeasured
from optimize.search.trial_log import TrialLog

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa")


def estimate(prepared: PreparedRun) -> RunEstimate:
    """What a run is going to take; no model is opened, and nothing is written."""
    judge, models = prepared.seed_judge, unopened_models(prepared.settings)
    budget = _budget(prepared, judge, models)
    return estimate_run(prepared, judge, models.calls_per_item(judge), budget)


def _budget(
    prepared: PreparedRun, judge: Judge, models: RunModels, measured: CallTokens | None = None
) -> RunBudget:
    settings, labels = prepared.settings, prepared.labels
    calls, replies = models.calls_per_item(judge), models.replies_per_item(judge)
    return divide_budget(settings, labels, judge, calls, replies, measured)


def run(
    prepared: PreparedRun,
    folder: Path,
    print_line: Callable[[str], None],
    opened: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> tuple[dict[str, Any], RunEvidence]:
    """From the first question to what summary.json holds, and the evidence for a report.

    `opened` are models that are open already, by their names; the progress line goes to `stderr`,
    where that is given.
    """
    start, judge = time.monotonic(), prepared.seed_judge
    with (
        open_models(prepared.settings, folder, opened) as models,
        TrialLog(folder / run_folder.TRIALS, print_line) as log,
        ExitStack() as stack,
    ):
        budget = _budget(prepared, judge, models)
        estimated = estimate_run(prepared, judge, models.calls_per_item(judge), budget)
        if not is_embedded(prepared.settings.lm):
            for line in estimated.summary_lines():
                print_line(line)
        if stderr is not None:
            progress = stack.enter_context(_progress(models, estimated, log, stderr))
            log.counted = progress.step
        if budget.pricing is not None:
            budget = _budget_by_seed(prepared, judge, models, budget.pricing, print_line)
        budget.search.set_aside = lambda cost: models.budget.set_aside(*budget.to_hold(cost))
        budget.search.set_aside(0)
        active = ActiveRun(
            prepared=prepared, folder=folder, judge=judge, models=models, budget=budget, log=log
        )
        measured = _search_and_measure(active, start)
        if stderr is not None:
            progress.name = "done"
        cache = models.judge.cache or models.proposer.cache
        if cache is not None and cache.note:
            print_line(cache.note)
        return measured


def _budget_by_seed(
    prepared: PreparedRun,
    judge: Judge,
    models: RunModels,
    expected: Pricing,
    print_line: Callable[[str], None],
) -> RunBudget:
    """The budget again, by the tokens that the untuned judge's first judgements took."""
    scorer = make_item_scorer(judge, models, prepared.settings.seed, purpose_of=lambda *_: SEED)
    tokens = measured_tokens(scorer, judge, prepared.labels.train)
    budget = _budget(prepared, judge, models, tokens)
    tokens = CallTokens(expected.tokens_in, expected.tokens_out)
    if budget.pricing and (note := dearer_note(budget.pricing, tokens, budget.search.unit)):
        print_line(f"note: {note}")
    return budget


def _search_and_measure(run: ActiveRun, start: float) -> tuple[dict[str, Any], RunEvidence]:
    """Search, choose on dev, measure and write the run's files; as `run`.

    A judge that has been paid for is written before its measurement, whatever becomes of that.
    """
    settings = run.prepared.settings
    evaluator = run.evaluator()
    result = run.search(evaluator)
    if settings.ship == "tuned" and result.tuned.id != run.seed.id:
        result = replace(result, choice=as_asked(result.choice))
    table = measure_finally(run, evaluator, result, test=False)
    write_finalists(run, result)
    write = partial(_write_result, run, start, result.tuned)
    write(result, table)
    run.models.budget.set_aside()
    try:
        table = measure_finally(run, evaluator, result)
    except BudgetSpentError:
        if result.tuned.id == run.seed.id:
            raise
        result = replace(result, tuned=run.seed, choice=unmeasured(result.choice))
        table = measure_finally(run, evaluator, result)
    write(result, table)
    spent = result.calls + evaluator.budget.calls
    evidence = collect_evidence(run, evaluator, result, left_for_probes(settings, spent))
    write_judgements(run.folder, evidence)
    shipped = "tuned" if result.choice.ship else "seed"
    people = people_figures(evidence.judged[shipped]["test"])
    plain = {
        "order": {
            split: {
                f"{judge}_judge": order_figures(by_split[split])
                for judge, by_split in evidence.judged.items()
            }
            for split in evidence.judged["seed"]
        },
        "scales": scale_figures(evidence.judged[shipped]["test"]),
        **({"people": people} if people else {}),
    }
    # Once more, with the calls that the probes took.
    return write(result, table, plain), evidence


def _write_result(
    run: ActiveRun,
    start: float,
    candidate: Candidate,
    result: SearchResult,
    table: FinalTable,
    plain: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Freeze the judge and write the summary, with whatever has been measured.

    `candidate` is what the search chose, also where the budget ended before its measurement.
    """
    summary = summarize(run, result, table, time.monotonic() - start) | dict(plain or {})
    judge = shipped_judge_with_provenance(run, result, summary)
    judge.save(run.folder / run_folder.JUDGE, overwrite=True)
    if candidate.id != run.seed.id:
        _save_tuned(run, candidate, result, judge)
    run_folder.write_json(run.folder / run_folder.SUMMARY, summary)
    return summary


def _progress(models: RunModels, expected: RunEstimate, log: TrialLog, stderr: TextIO) -> Progress:
    """The line for all of a run: what is asked for, of how many calls, for how much, how long."""

    def refresh(progress: Progress) -> None:
        progress.name = models.purpose or progress.name
        progress.done, progress.failed = models.budget.calls, log.n_failed
        progress.total = progress.done + expected.calls_left(models.spending, progress.name)

    return Progress(
        SEARCH,
        expected.expected.calls,
        stderr,
        unit="calls",
        budget=models.budget,
        refresh=refresh,
    )


def summarize(
    run: ActiveRun, result: SearchResult, table: FinalTable, seconds: float
) -> dict[str, Any]:
    """What summary.json holds. Calls, tokens and dollars are of the whole run, over all its starts.

    `cached_calls` were answered by the reply cache, and are among none of these. `request_changes`
    lists what the endpoints did not take as it was asked for, if anything. `limit_reached` stands
    where a larger limit goes on with the run.
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
        "gain": {"test": {}, **table.gain},
        "shipped": "tuned" if result.choice.ship else "seed",
        "why": result.choice.why,
        **({"limit_reached": True} if result.choice.limit_reached else {}),
        "risk": settings.risk,
        "ship": settings.ship,
        "lm_calls": judge_usage.calls,
        "proposer_calls": proposer_usage.calls,
        "cached_calls": run.models.cached_calls,
        **spending_summary(judge_usage, proposer_usage),
        "seconds": round(seconds, 1),
    }
    earlier = run_folder.read_summary(run.folder).get("request_changes", [])
    if changes := list(dict.fromkeys([*earlier, *run.models.request_changes])):
        summary["request_changes"] = changes
    if settings.pairwise:
        summary["accuracy"] = table.accuracy
    has_tuned = result.tuned.id != run.seed.id or (run.folder / run_folder.TUNED).exists()
    if not result.choice.ship and has_tuned:
        summary["tuned_file"] = run_folder.TUNED
    return summary


def shipped_judge_with_provenance(
    run: ActiveRun, result: SearchResult, summary: Mapping[str, Any]
) -> Judge:
    """The tuned judge where the gate ships it, else the untuned one, with where it comes from."""
    provenance = {
        **_origin(run),
        "shipped": summary["shipped"],
        "why": summary["why"],
        "risk": summary["risk"],
        "ship": summary["ship"],
        "candidates_tried": result.n_tried,
        "budget": {
            "lm_calls": summary["lm_calls"],
            "proposer_calls": summary["proposer_calls"],
            "cost_usd": summary["cost_usd"],
        },
        "seed_judge": summary["seed_judge"],
        "tuned_judge": summary["tuned_judge"],
        "gain": summary["gain"],
    }
    return replace(shipped_judge(run, result), provenance=provenance)


def write_finalists(run: ActiveRun, result: SearchResult) -> None:
    """Freeze each candidate that met dev and shows none of its labels: these a panel may join."""
    (run.folder / run_folder.TUNED).unlink(missing_ok=True)
    folder = run.folder / run_folder.FINALISTS
    for candidate in result.on_dev:
        if candidate.id != run.seed.id and not result.cross_fit.is_needed_for(candidate):
            folder.mkdir(exist_ok=True)
            origin = {**_origin(run), "why": "a finalist of the search"}
            _save(run, candidate, folder / f"{candidate.id}.json", origin)


def _save_tuned(run: ActiveRun, candidate: Candidate, result: SearchResult, shipped: Judge) -> None:
    """Freeze the tuned judge in a file of its own, for a user who takes it unshipped.

    Where it did not ship it has no `shipped`: "seed" would say that it learned from no labels.
    """
    provenance = dict(shipped.provenance or {})
    if not result.choice.ship:
        del provenance["shipped"]
        provenance["why"] = f"tuned, but not shipped: {reason_of(result.choice)}"
    if candidate.id != result.tuned.id:
        # The figures are those of the untuned judge in its place.
        del provenance["tuned_judge"], provenance["gain"]
    _save(run, candidate, run.folder / run_folder.TUNED, provenance)


def _save(run: ActiveRun, candidate: Candidate, path: Path, provenance: Mapping[str, Any]) -> None:
    """Freeze a candidate with the run's plan."""
    prompt = candidate.prompt(run.judge.prompt)
    judge = replace(run.judge, prompt=prompt, plan=run.models.plan, provenance=provenance)
    judge.save(path, overwrite=True)


def _origin(run: ActiveRun) -> dict[str, Any]:
    """The provenance of whatever the run makes: its labels, models, settings and versions."""
    settings, labels, models = run.prepared.settings, run.prepared.labels, run.models
    return {
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
        "versions": versions(),
        "started": run_folder.started_at(run.folder),
    }


def shipped_judge(run: ActiveRun, result: SearchResult) -> Judge:
    """The judge that ships, with the run's plan."""
    candidate = result.tuned if result.choice.ship else run.seed
    return replace(run.judge, prompt=candidate.prompt(run.judge.prompt), plan=run.models.plan)


def versions() -> dict[str, str]:
    """Python's version and those of the packages that figures depend on, where installed."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


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
    judged = {
        name: {
            split: Scored(
                judge=name,
                dimension=subject.name,
                split=split,
                level=prepared.level,
                items=items,
                judgements=evaluator.judgements(candidate, items),
                scale=subject.scale,
                labelled=labelled_in_order(labels.labelled, items),
            )
            for split, items in labels.measured.items()
        }
        for name, candidate in candidates.items()
    }
    prompts = {name: candidate.prompt(run.judge.prompt) for name, candidate in candidates.items()}
    shipped = "tuned" if result.choice.ship else "seed"
    return RunEvidence(
        prompts=prompts,
        judged=judged,
        probes=_probe(run, shipped_judge(run, result), judged[shipped]["test"], max_probe_calls),
    )


def _probe(run: ActiveRun, judge: Judge, test: Scored, max_probe_calls: int | None) -> Probes:
    """The probes of the judge on test; empty, with the reason, where not all were run."""
    settings, client = run.prepared.settings, run.models.judge
    if not is_embedded(client.model.endpoint) and not settings.probes:
        return PROBES_NOT_REQUESTED
    try:
        with client.account.spending_on(PROBES):
            return probe(
                judge,
                client,
                test.items,
                test.scores,
                seed=settings.seed,
                max_probe_calls=max_probe_calls,
            )
    except (ModelError, BudgetSpentError) as error:
        # They add to a report; what is known without them is worth keeping.
        return Probes(reason=f"they could not be run to their end: {error}")
