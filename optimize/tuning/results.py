"""The result of a tuning run: its figures for summary.json, and the judges that it saves."""

import platform
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from judges.client import endpoint_digest
from judges.labels.readers import is_constructed
from judges.true_rate import count_errors
from optimize.figures.as_json import JSON_DECIMALS, JsonObject, to_json
from optimize.figures.by_judge import ByJudge, HeldOut
from optimize.items import DataCounts, tuning_digests
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.search.questions import question_losses
from optimize.search.two_fold_search import SearchResult
from optimize.statistics.balanced import contrast_balanced_accuracy
from optimize.statistics.contrasts import contrast_judges
from optimize.tuning.active_run import ActiveRun, ScoredSplits
from optimize.tuning.folder import JUDGE_FILE, TUNED_FILE, first_start_time, read_summary
from optimize.tuning.models import spending_summary
from optimize.tuning.settings import Objective

VERSIONED_PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa")


def summarize_run(
    run: ActiveRun, search_result: SearchResult, scored_splits: ScoredSplits | None, seconds: float
) -> TuningResult:
    """Return the content of summary.json; `scored_splits` is None if no labels were held out."""
    prepared_run, settings = run.prepared_run, run.prepared_run.settings
    judge, proposer, decision = run.clients.judge, run.clients.proposer, search_result.decision
    split_results: HeldOut[SplitResult | None] = HeldOut(None)
    if scored_splits:
        objective = prepared_run.objective
        shipped_items = scored_splits.test.for_judge(search_result.shipped)
        split_results = scored_splits.map(
            lambda scored: _split_result(scored, objective, shipped_items)
        )
    limit, last_round = settings.max_cost or settings.max_calls, search_result.last_round
    limit_ended_rounds = bool(limit and last_round and not last_round.is_final)
    cost_per_1000_rows = None
    if settings.judge_model.price is not None and not run.budget.pricing.is_free:
        item_prices = search_result.judges.map(run.evaluator.item_price)
        cost_per_1000_rows = item_prices.map(lambda price: round(1000 * price, JSON_DECIMALS))
    request_changes = [*read_summary(run.folder).request_changes]
    for model in (judge.model, proposer.model):
        request_changes += [f"{model.name} takes {one}" for one in getattr(model, "changes", ())]
    answer_descriptions, candidate = None, search_result.tuned_candidate
    if candidate.weights:
        loss_by_question = question_losses(
            run.search_problem, candidate, prepared_run.train_and_dev
        )
        choice_fields = candidate.prompt(prepared_run.untuned_prompt).choices
        answer_descriptions = candidate.weights.describe(choice_fields, loss_by_question)
    return TuningResult(
        dimension=prepared_run.subject.name,
        lm=settings.lm,
        optimizer=settings.optimizer,
        seed=settings.seed,
        level=prepared_run.level,
        objective=prepared_run.objective,
        data_counts=DataCounts.from_items(prepared_run.labelled_items, prepared_run.all_items),
        n_passes=int((prepared_run.all_items.human == 1).sum()),
        test=split_results.test,
        unseen=split_results.unseen,
        shipped=search_result.shipped,
        why=decision.why,
        limit_reached=decision.limit_reached or limit_ended_rounds,
        risk=settings.risk,
        ship=settings.ship,
        lm_calls=judge.account.total.calls,
        proposer_calls=proposer.account.total.calls,
        cached_calls=judge.account.total.cached_calls + proposer.account.total.cached_calls,
        spending=spending_summary(judge.account, proposer.account),
        seconds=round(seconds, 1),
        last_round=last_round,
        max_cost=run.budget.limit_in_dollars,
        cost_per_1000_rows=cost_per_1000_rows,
        request_changes=list(dict.fromkeys(request_changes)) or None,
        answers=answer_descriptions,
    )


def _split_result(
    scored_by_judge: ByJudge[ScoredItems], objective: Objective, shipped_items: ScoredItems
) -> SplitResult:
    """Return both judges' scorecards and the gain; only the shipped judge has figures on people."""
    untuned_items, tuned_items = scored_by_judge.untuned, scored_by_judge.tuned
    human, document_ids, balanced_gain = untuned_items.human, untuned_items.document_ids, None
    if objective == "balanced":
        # Each judge's verdicts are decided at its own threshold.
        verdicts = tuned_items.verdicts, untuned_items.verdicts
        balanced_gain = contrast_balanced_accuracy(*verdicts, human, document_ids)
    scores, system_ids = (tuned_items.scores, untuned_items.scores), untuned_items.system_ids
    gain = contrast_judges(*scores, human, document_ids, system_ids, level=untuned_items.level)
    scorecards = scored_by_judge.map(
        lambda scored: Scorecard.from_scores(
            scored, has_verdicts=shipped_items.has_verdicts, with_people=scored is shipped_items
        )
    )
    return SplitResult(
        untuned=scorecards.untuned, tuned=scorecards.tuned, gain=gain, balanced_gain=balanced_gain
    )


def save_judges(
    run: ActiveRun,
    search_result: SearchResult,
    scored_splits: ScoredSplits,
    tuning_result: TuningResult,
) -> TuningResult:
    """Save the shipped judge, and the tuned judge in a file of its own if it is not shipped."""
    prepared_run, settings, clients = run.prepared_run, run.prepared_run.settings, run.clients
    labelled_items, splits = prepared_run.labelled_items, prepared_run.splits
    assert splits
    copied_keys = ("shipped", "why", "risk", "ship", "seed_judge", "tuned_judge", "gain")
    summary_json = tuning_result.to_json()
    provenance = {
        "data": {
            "name": labelled_items.name,
            "sha256": labelled_items.sha256,
            "constructed": is_constructed(labelled_items.sha256),
        },
        # By these digests, `verify` recognises the labels that this judge was tuned on.
        "tuned_on": tuning_digests(prepared_run.train_and_dev, prepared_run.subject),
        "split": {"by": splits.by, "sha256": splits.sha256},
        "model": clients.judge.model.name,
        "endpoint": endpoint_digest(clients.judge.model.endpoint),
        "proposer": clients.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": prepared_run.level,
        "versions": package_versions(),
        "started": first_start_time(run.folder),
        **{key: summary_json[key] for key in copied_keys},
        "candidates_tried": search_result.n_tried,
        "budget": {key: summary_json[key] for key in ("lm_calls", "proposer_calls", "cost_usd")},
    }
    answers_entry = {"answers": to_json(tuning_result.answers)} if tuning_result.answers else {}
    own_provenance = ByJudge(
        untuned=_errors_on_test(scored_splits.test.untuned),
        tuned=answers_entry | _errors_on_test(scored_splits.test.tuned),
    )
    shipped_judge = search_result.judges.for_judge(search_result.shipped)
    judge = run.freeze(shipped_judge, provenance | own_provenance.for_judge(search_result.shipped))
    judge.save(run.folder / JUDGE_FILE, overwrite=True)
    (run.folder / TUNED_FILE).unlink(missing_ok=True)
    if search_result.tuned_candidate.id == shipped_judge.id:
        return tuning_result
    del provenance["shipped"]  # the value "seed" would say that this judge is untuned
    provenance["why"] = f"tuned, but not shipped: {search_result.decision.reason}"
    judge = run.freeze(search_result.tuned_candidate, provenance | own_provenance.tuned)
    judge.save(run.folder / TUNED_FILE, overwrite=True)
    return replace(tuning_result, tuned_file=TUNED_FILE)


def _errors_on_test(test: ScoredItems) -> JsonObject:
    """Return a verdict judge's errors on test, by which `score` corrects its rate of passes."""
    if not test.has_verdicts:
        return {}
    return {"tested": count_errors(test.verdicts, test.human, test.document_ids)}


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which a run's figures depend."""
    version_by_package = {"python": platform.python_version()}
    for name in VERSIONED_PACKAGES:
        with suppress(PackageNotFoundError):
            version_by_package[name] = version(name)
    return version_by_package
