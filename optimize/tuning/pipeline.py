"""A tuning run from its settings to its report: plan, search, measure once, write files."""

import math
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TextIO

from judges.catalog import JUDGES, candidate_questions
from judges.client import BudgetSpentError
from judges.dimension import Subject
from judges.judge import Judge
from judges.labels.readers import is_constructed
from judges.protocol import Model, ModelError, is_embedded
from judges.questions import MAX_QUESTIONS
from judges.tables.atomic_write import write_atomically
from judges.tables.in_memory import Rows, as_json_lines, rows_in_memory
from judges.terminal import Progress
from judges.true_rate import errors_by_document
from optimize.figures.as_json import DIGITS, JsonObject, as_json, judgement_rows, to_json
from optimize.inputs.labelled import PASS_FAIL, words_of
from optimize.items import DataCounts, Items, tuned_keys
from optimize.measuring.injection import ProbeResult, probe
from optimize.measuring.scorecard import PeopleFigures, Scorecard, scale_figures
from optimize.measuring.scored import Scored, labelled_in_order
from optimize.measuring.tuning_result import HeldOut, SplitResult, TuningResult
from optimize.search.candidates import Candidate
from optimize.search.evaluator import (
    ITEMS_MEASURED,
    Evaluator,
    JudgeItems,
    SearchBudget,
    SearchProblem,
)
from optimize.search.gate import figure_of
from optimize.search.optimizer import ByJudge, find_optimizer
from optimize.search.questions import losses
from optimize.search.two_fold_search import SearchResult, two_fold_search
from optimize.statistics.balanced import balanced_contrast
from optimize.statistics.contrasts import contrast_judges
from optimize.tuning import folder as run_folder
from optimize.tuning.budget import RunBudget, plan_budget, spending_summary
from optimize.tuning.folder import AnyPath, Trials, write_json
from optimize.tuning.models import PROBES, SEARCH, TEST, RunModels, item_scorer, open_models
from optimize.tuning.preparation import PreparedRun, prepare
from optimize.tuning.settings import Objective, Settings

VERSIONED_PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa")
PrintLine = Callable[[str], None]
# The judgements of the untuned and of the tuned judge on each held-out split.
ScoredSplits = ByJudge[HeldOut[Scored]]


def tune_in_folder(
    settings: Settings,
    out: AnyPath | None = None,
    *,
    print_line: PrintLine,
    subject: Subject | None = None,
    rows: Rows | None = None,
    opened_models: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> tuple[Path, TuningResult]:
    """Tune a judge, save all results in a run folder, and return the folder and the result.

    An unfinished run in the folder `out` continues; `open_run` describes the default, and `prepare`
    describes `subject` and `rows`. Labels in memory are also saved in the folder. `opened_models`
    are models that are already open, by name. `stderr` shows the progress line, if it is given.
    """
    prepared = prepare(settings, subject, rows)
    subject, labels = prepared.subject, prepared.labels
    with run_folder.open_run(
        out, subject.name, run_folder.run_config(prepared), print_line
    ) as folder:
        if rows is not None:
            content = as_json_lines(rows_in_memory(rows))
            write_atomically(folder / run_folder.LABELS, content, overwrite=True)
        assert labels.splits
        write_json(folder / run_folder.SPLITS, run_folder.splits_json(labels.splits, settings.seed))
        print_line(f"{folder}: {figure_of(prepared.goal)}, {len(labels.everything)} outputs")
        if unread := ", ".join(labels.labelled.reading.unread):
            print_line(f"columns not read: {unread}")
        for note in labels.labelled.notes:
            print_line(f"note: {note}")
        if subject.questions and subject.name not in JUDGES and is_embedded(settings.lm):
            print_line(
                "note: the questions of the definition are not tried with the embedded model; name "
                "a language model with --lm"
            )
        return folder, run(prepared, folder, print_line, opened_models, stderr)


def run(
    prepared: PreparedRun,
    folder: Path,
    print_line: PrintLine,
    opened_models: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> TuningResult:
    """Do a prepared run: search, measure both judges, and write all files to its folder."""
    started = time.monotonic()
    with open_models(prepared.settings, folder, opened_models) as models:
        budget = plan_budget(prepared, models.judge.model.native_n)
        with _progress(models, budget.expected.calls, stderr) as progress:
            scorer = item_scorer(prepared.untuned_judge, models, prepared.settings.seed, progress)
            active_run = ActiveRun(
                prepared=prepared,
                folder=folder,
                models=models,
                trials=Trials(folder / run_folder.TRIALS),
                scorer=scorer,
                budget=reserve_budget(budget, models, scorer, print_line),
                print_line=print_line,
            )
            search_result = active_run.search()
            scored_splits = active_run.measure(search_result)
            probes = _probe(active_run, search_result, scored_splits)
            if progress:
                progress.total = models.budget.calls  # so that the line ends at 100 %
        seconds = time.monotonic() - started
        tuning_result = summarize(active_run, search_result, scored_splits, seconds)
        if (cache := models.judge.cache or models.proposer.cache) and cache.note:
            print_line(cache.note)
    tuning_result = _freeze(active_run, search_result, scored_splits, tuning_result)
    tuned_splits = scored_splits.tuned.by_name
    rows = [
        as_json(row) + "\n"
        for split, scored in scored_splits.untuned.by_name.items()
        for row in judgement_rows(
            scored.items.items,
            {"seed": scored.judgements, "tuned": tuned_splits[split].judgements},
            split,
        )
    ]
    run_folder.write_text(folder / run_folder.JUDGEMENTS, "".join(rows))
    write_json(folder / run_folder.SUMMARY, tuning_result.to_json())
    untuned = prepared.untuned_judge.prompt
    prompts = search_result.judges.map(lambda judge: judge.prompt(untuned))
    # Imported only here, because the import is slow, and a run may fail before its report.
    from optimize.report.page import write_run

    write_run(folder / run_folder.REPORT, tuning_result, scored_splits, prompts, probes)
    return tuning_result


def reserve_budget(
    budget: RunBudget, models: RunModels, scorer: JudgeItems, print_line: PrintLine
) -> RunBudget:
    """The planned budget, after reserving the cost of the final measurement.

    If the judge's model is paid, it first judges a few labelled rows. The budget is then planned
    from the measured cost of these judgements, and printed.
    """
    if budget.search.unit != "calls":
        prepared, start_time = budget.prepared, time.monotonic()
        stride = max(1, len(prepared.labels.train) // ITEMS_MEASURED)
        items = prepared.labels.train.items[::stride][:ITEMS_MEASURED]
        with models.judge.account.spending_on(SEARCH):
            judgements = list(scorer(prepared.untuned_judge.prompt, items))
        n_waves = math.ceil(ITEMS_MEASURED * budget.pricing.calls / prepared.settings.concurrency)
        # Some endpoints report no token counts; one token is assumed for them.
        measured = (
            max(1.0, sum(each.tokens_in for each in judgements) / len(items)),
            max(1.0, sum(each.tokens_out for each in judgements) / len(items)),
        )
        call_seconds = (time.monotonic() - start_time) / n_waves
        budget = plan_budget(prepared, models.judge.model.native_n, measured, call_seconds)
        print_line(budget.heading())
    for note in budget.notes():
        print_line(f"note: {note}")
    set_aside = models.budget.set_aside
    budget.search.set_aside = lambda cost: set_aside(*budget.reservation(cost))
    budget.search.set_aside(0)
    return budget


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A tuning run while its models are open: the steps from the plan to the frozen judge.

    `scorer` judges items with any prompt of the search, and `budget` is what `reserve_budget`
    planned. `new_questions` says whether candidates may ask questions that the untuned judge does
    not ask.
    """

    prepared: PreparedRun
    folder: Path
    models: RunModels
    trials: Trials
    scorer: JudgeItems
    budget: RunBudget
    print_line: PrintLine
    new_questions: bool = True

    @cached_property
    def problem(self) -> SearchProblem:
        """The search problem that the optimizer gets: labels, questions, models and budget."""
        prepared = self.prepared
        # The embedded model computes features of the texts, and cannot answer questions.
        can_ask = self.new_questions and not is_embedded(prepared.settings.lm)
        questions = candidate_questions(prepared.subject, MAX_QUESTIONS) if can_ask else ()
        return SearchProblem(
            evaluator=Evaluator(
                untuned=prepared.untuned_judge.prompt,
                judge=self.scorer,
                budget=self.budget.search,
                pricing=self.budget.pricing,
            ),
            proposer=self.models.language_proposer,
            questions=tuple(question.field for question in questions),
            new_questions=self.new_questions,
            train=prepared.labels.train,
            dev=prepared.labels.dev,
            goal=prepared.goal,
            options=self.budget.options,
            record_trial=self.trials.record,
            print_line=self.print_line,
        )

    def search(self) -> SearchResult:
        """Search with the optimizer that the settings name, and decide which judge ships."""
        settings = self.prepared.settings
        with self.models.judge.account.spending_on(SEARCH):
            result = two_fold_search(find_optimizer(settings.optimizer), self.problem)
        tuning_changed_judge = result.tuned.id != result.untuned.id
        if settings.ship == "tuned" and tuning_changed_judge and not result.decision.ship:
            decision = replace(result.decision, ship=True, is_forced=True)
            result = replace(result, decision=decision)
        return result

    def measure(self, result: SearchResult) -> ScoredSplits:
        """Judge every held-out split once, with the untuned and with the tuned judge.

        The held-out splits are judged after the decision which judge ships, so they cannot bias it.
        """
        # The reserve was made for these judgements. If they cost more than the run's limit leaves,
        # the models' own budget ends the run.
        self.models.budget.set_aside()
        self.problem.evaluator.budget = SearchBudget(math.inf)
        with self.models.judge.account.spending_on(TEST):
            held_out = self.prepared.labels.measured
            return ByJudge(
                untuned=held_out.map(partial(self._judge, "untuned judge", result.untuned)),
                tuned=held_out.map(partial(self._judge, "tuned judge", result.tuned)),
            )

    def _judge(self, name: str, candidate: Candidate, items: Items) -> Scored:
        """Judge the items of a held-out split with a candidate, which reports call `name`."""
        prepared, evaluator = self.prepared, self.problem.evaluator
        labelled, subject = prepared.labels.labelled, prepared.subject
        choices = candidate.prompt(prepared.untuned_judge.prompt).choices
        return Scored(
            judge=name,
            dimension=subject.name,
            level=prepared.level,
            items=items,
            judgements=tuple(
                each.rescored(choices, candidate.weights, candidate.threshold)
                for each in evaluator.judgements(candidate, items)
            ),
            scale=subject.scale,
            labelled=labelled_in_order(labelled, items),
            n_tied=labelled.n_tied,
            words=words_of(labelled, subject.name) or PASS_FAIL,
        )

    def frozen(self, candidate: Candidate, provenance: Mapping[str, object]) -> Judge:
        """The judge made from a candidate, with the run's sampling plan and this provenance."""
        untuned_judge = self.prepared.untuned_judge
        return replace(
            untuned_judge,
            prompt=candidate.prompt(untuned_judge.prompt),
            plan=self.models.plan,
            provenance=provenance,
            weights=candidate.weights,
            threshold=candidate.threshold,
        )


def _progress(
    models: RunModels, n_expected: int, stderr: TextIO | None
) -> AbstractContextManager[Progress | None]:
    """The progress line of a run, which counts calls; None if there is no stream to show it."""
    if stderr is None:
        return nullcontext()

    def refresh(progress: Progress) -> None:
        progress.name = models.purpose or progress.name
        progress.n_done = models.budget.calls

    budget = models.budget
    return Progress(SEARCH, n_expected, stderr, unit="calls", budget=budget, refresh=refresh)


def _probe(run: ActiveRun, search_result: SearchResult, scored_splits: ScoredSplits) -> ProbeResult:
    """Attack the judge that ships on the outputs of test, or return why this was not done."""
    settings, client = run.prepared.settings, run.models.judge
    if not any(row.purpose == PROBES for row in run.budget.rows):
        return ProbeResult(reason="the probes cost calls; --probes asks for them")
    scored = scored_splits.of(search_result.shipped).test
    judge = run.frozen(search_result.judges.of(search_result.shipped), {})
    try:
        with client.account.spending_on(PROBES):
            return probe(judge, client, scored.items, scored.scores, seed=settings.seed)
    except (ModelError, BudgetSpentError) as error:
        # The probes are an extra section of the report, so their failure does not end the run.
        return ProbeResult(reason=f"the probes could not be completed: {error}")


def summarize(
    run: ActiveRun, search_result: SearchResult, scored_splits: ScoredSplits | None, seconds: float
) -> TuningResult:
    """The content of summary.json; `scored_splits` is None if no labels were held out."""
    prepared, models = run.prepared, run.models
    settings, labels = prepared.settings, prepared.labels
    judge_account, proposer_account = models.judge.account, models.proposer.account
    split_results: dict[str, SplitResult] = {}
    if scored_splits:
        shipped = scored_splits.of(search_result.shipped).test
        tuned_splits = scored_splits.tuned.by_name
        split_results = {
            name: _split_result(untuned, tuned_splits[name], shipped, prepared.objective)
            for name, untuned in scored_splits.untuned.by_name.items()
        }
    cost_per_1000_rows = search_result.judges.map(
        lambda judge: round(1000 * run.problem.evaluator.item_cost(judge), DIGITS)
    )
    request_changes = [
        *run_folder.read_summary(run.folder).request_changes,
        *(
            f"{client.model.name} takes {change}"
            for client in (models.judge, models.proposer)
            for change in getattr(client.model, "changes", ())
        ),
    ]
    tuned, answers = search_result.tuned, None
    if tuned.weights:
        loss_of = losses(run.problem, tuned, labels.learned)
        choices = tuned.prompt(prepared.untuned_judge.prompt).choices
        answers = tuned.weights.describe(choices, loss_of)
    return TuningResult(
        dimension=prepared.subject.name,
        lm=settings.lm,
        optimizer=settings.optimizer,
        seed=settings.seed,
        level=prepared.level,
        objective=prepared.objective,
        data=DataCounts.of(labels.labelled, labels.everything),
        test=split_results.get("test"),
        unseen=split_results.get("test_unseen_systems"),
        shipped=search_result.shipped,
        why=search_result.decision.why,
        limit_reached=search_result.decision.limit_reached,
        risk=settings.risk,
        ship=settings.ship,
        lm_calls=judge_account.total.calls,
        proposer_calls=proposer_account.total.calls,
        cached_calls=judge_account.total.cached + proposer_account.total.cached,
        spending=spending_summary(judge_account, proposer_account),
        seconds=round(seconds, 1),
        last_round=search_result.last_round,
        max_cost=run.budget.limit_in_dollars,
        cost_per_1000_rows=cost_per_1000_rows if run.budget.limit_in_dollars else None,
        request_changes=list(dict.fromkeys(request_changes)) or None,
        answers=answers,
    )


def _split_result(
    untuned: Scored, tuned: Scored, shipped: Scored, objective: Objective
) -> SplitResult:
    """The scorecards of both judges on a split, and the tuned judge's gain over the untuned one.

    `shipped` has the judgements on test of the judge that ships.
    """
    human, documents, balanced_gain = untuned.human, untuned.documents, None
    if objective == "balanced":
        # The verdicts of each judge are decided at that judge's own threshold.
        balanced_gain = balanced_contrast(tuned.passes, untuned.passes, human, documents)
    gain = contrast_judges(
        tuned.scores, untuned.scores, human, documents, untuned.systems, level=untuned.level
    )
    return SplitResult(
        untuned=_card(untuned, shipped),
        tuned=_card(tuned, shipped),
        gain=gain,
        balanced_gain=balanced_gain,
    )


def _card(scored: Scored, shipped: Scored) -> Scorecard:
    """A judge's scorecard on a split; `shipped` gets figures on annotators and scales as well."""
    card = Scorecard.brief(scored, is_binary=shipped.is_binary)
    if scored is not shipped:
        return card
    return replace(card, scales=scale_figures(scored), people=PeopleFigures.of(scored))


def _test_errors(scored: Scored) -> JsonObject:
    """A binary judge's errors on test, for its provenance; {} if the judge gives ratings.

    With these errors, the command `score` corrects the rate of passes that the judge gives.
    """
    if not scored.is_binary:
        return {}
    return {"tested": errors_by_document(scored.passes, scored.human, scored.documents)}


def _freeze(
    run: ActiveRun,
    search_result: SearchResult,
    scored_splits: ScoredSplits,
    tuning_result: TuningResult,
) -> TuningResult:
    """Save the judge that ships, and also the tuned judge if the untuned one ships.

    `tuned_on` in the provenance has digests of the rows and documents that the judge was tuned on.
    By these digests, the command `verify` recognises labels that would flatter the judge. Returns
    the result; if the untuned judge ships, the result also names the tuned judge's file.
    """
    settings, labels, models = run.prepared.settings, run.prepared.labels, run.models
    assert labels.splits
    copied_names = ("shipped", "why", "risk", "ship", "seed_judge", "tuned_judge", "gain")
    summary = tuning_result.to_json()
    provenance = {
        "data": {
            "name": labels.labelled.name,
            "sha256": labels.labelled.sha256,
            "constructed": is_constructed(labels.labelled.sha256),
        },
        "tuned_on": tuned_keys(labels.learned, run.prepared.subject),
        "split": {"by": labels.splits.by, "sha256": labels.splits.sha256},
        "model": models.judge.model.name,
        "endpoint": models.judge.model.endpoint,
        "proposer": models.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": run.prepared.level,
        "versions": versions(),
        "started": run_folder.started_at(run.folder),
        **{name: summary[name] for name in copied_names},
        "candidates_tried": search_result.n_tried,
        "budget": {name: summary[name] for name in ("lm_calls", "proposer_calls", "cost_usd")},
    }
    answers = {"answers": to_json(tuning_result.answers)} if tuning_result.answers else {}
    own_provenance = ByJudge(
        untuned=_test_errors(scored_splits.untuned.test),
        tuned=answers | _test_errors(scored_splits.tuned.test),
    )
    shipped = search_result.judges.of(search_result.shipped)
    judge = run.frozen(shipped, provenance | own_provenance.of(search_result.shipped))
    judge.save(run.folder / run_folder.JUDGE, overwrite=True)
    (run.folder / run_folder.TUNED).unlink(missing_ok=True)
    if search_result.tuned.id == shipped.id:
        return tuning_result
    del provenance["shipped"]  # the value "seed" would say that this judge is untuned
    provenance["why"] = f"tuned, but not shipped: {search_result.decision.reason}"
    judge = run.frozen(search_result.tuned, provenance | own_provenance.tuned)
    judge.save(run.folder / run_folder.TUNED, overwrite=True)
    return replace(tuning_result, tuned_file=run_folder.TUNED)


def versions() -> dict[str, str]:
    """The versions of Python and of those installed packages on which a run's figures depend."""
    versions_by_name = {"python": platform.python_version()}
    for name in VERSIONED_PACKAGES:
        with suppress(PackageNotFoundError):
            versions_by_name[name] = version(name)
    return versions_by_name
