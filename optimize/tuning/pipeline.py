"""One run from its settings to its report: plan, search, choose, measure once, write."""

import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from judges.catalog import JUDGES, candidate_questions
from judges.client import BudgetSpentError
from judges.dimension import Subject
from judges.judge import Judge
from judges.labels.readers import is_constructed
from judges.prompt import Field
from judges.protocol import Model, ModelError, is_embedded
from judges.questions import MAX_QUESTIONS, AnswerShare
from judges.tables.atomic_write import write_atomically
from judges.tables.in_memory import Rows, as_json_lines, rows_in_memory
from judges.terminal import Progress
from judges.true_rate import errors_by_document
from optimize.figures.as_json import DIGITS, as_json, judgement_rows
from optimize.inputs.labelled import PASS_FAIL, words_of
from optimize.items import DataCounts, n_tied_of, tuned_keys
from optimize.measuring.injection import Probes, probe
from optimize.measuring.scorecard import PeopleFigures, Scorecard, scale_figures
from optimize.measuring.scored import Scored, labelled_in_order
from optimize.measuring.tuning_result import JudgeName, SplitResult, TuningResult
from optimize.search.candidates import Candidate
from optimize.search.evaluator import (
    ITEMS_MEASURED,
    Evaluator,
    JudgeItems,
    SearchBudget,
    SearchProblem,
)
from optimize.search.gate import figure_of, ship_anyway, untuned_reason
from optimize.search.halves import SearchResult, search_halves
from optimize.search.optimizer import LastRound, find_optimizer
from optimize.search.questions import losses
from optimize.statistics.balanced import balanced_contrast
from optimize.statistics.correlations import contrast_judges
from optimize.tuning.budget import RunBudget, measured_tokens, plan_budget, spending_summary
from optimize.tuning.folder import (
    JUDGE,
    JUDGEMENTS,
    LABELS,
    REPORT,
    SPLITS,
    SUMMARY,
    TRIALS,
    TUNED,
    AnyPath,
    RunFolderError,
    Trials,
    open_run,
    read_summary,
    run_config,
    started_at,
    write_json,
    write_text,
)
from optimize.tuning.models import PROBES, SEARCH, TEST, RunModels, item_scorer, open_models
from optimize.tuning.parts import PreparedRun, prepare
from optimize.tuning.settings import Settings

PACKAGES = ("dspy-judges", "dspy", "numpy", "scipy", "gepa")
PrintLine = Callable[[str], None]
# What the judges "seed" (untuned) and "tuned" gave on each held-out split.
ScoredSplits = Mapping[str, Mapping[str, Scored]]


def tune_in_folder(
    settings: Settings,
    out: AnyPath | None = None,
    *,
    print_line: PrintLine,
    subject: Subject | None = None,
    rows: Rows | None = None,
    opened: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> tuple[Path, TuningResult]:
    """A run's folder, and what the run ends with; the report is drawn at the end.

    `out` names the folder, which goes on where its run has not ended (None: see `open_run`).
    `subject` stands for a definition in no file, and `rows` for labels in none: the folder then
    holds them. `opened` are models that are open already, by their names; the progress line goes to
    `stderr`, where that is given.
    """
    prepared = prepare(settings, subject, rows)
    labelled = prepared.labels.labelled
    config = run_config(prepared)
    with open_run(out, prepared.subject.name, config, print_line) as folder:
        if rows is not None:
            content = as_json_lines(rows_in_memory(rows))
            write_atomically(folder / LABELS, content, overwrite=True)
        write_json(folder / SPLITS, prepared.labels.split)
        n_outputs = len(prepared.labels.everything)
        print_line(f"{folder}: {figure_of(prepared.goal)}, {n_outputs} outputs")
        if unread := ", ".join(labelled.reading.unread):
            print_line(f"columns not read: {unread}")
        for note in labelled.notes:
            print_line(f"note: {note}")
        is_own = prepared.subject.name not in JUDGES
        if prepared.subject.questions and is_own and is_embedded(settings.lm):
            print_line(
                "note: the questions of the definition are not tried with the embedded model; name "
                "a language model with --lm"
            )
        return folder, run(prepared, folder, print_line, opened, stderr)


def run(
    prepared: PreparedRun,
    folder: Path,
    print_line: PrintLine,
    opened: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> TuningResult:
    """From the first question to the last file: what the run ends with."""
    started = time.monotonic()
    with (
        open_models(prepared.settings, folder, opened) as models,
        _progress(prepared, models, stderr) as step,
    ):
        with models.judge.account.spending_on(SEARCH):
            scorer = item_scorer(prepared.untuned_judge, models, prepared.settings.seed, step)
            active = ActiveRun(
                prepared=prepared,
                folder=folder,
                models=models,
                budget=measure_budget(prepared, models, scorer, print_line),
                trials=Trials(folder / TRIALS),
                scorer=scorer,
                print_line=print_line,
            )
            result = active.search()
        with models.judge.account.spending_on(TEST):
            measured = active.measure(result)
        probes = _probe(active, result, measured)
        outcome = summarize(active, result, measured, time.monotonic() - started)
        if (cache := models.judge.cache or models.proposer.cache) and cache.note:
            print_line(cache.note)
    outcome = _freeze(active, result, measured, outcome)
    rows = [
        as_json(row) + "\n"
        for split, scored in measured["seed"].items()
        for row in judgement_rows(
            scored.items.items, {name: measured[name][split].judgements for name in measured}, split
        )
    ]
    write_text(folder / JUDGEMENTS, "".join(rows))
    write_json(folder / SUMMARY, outcome.to_json())
    both = {"seed": result.untuned, "tuned": result.tuned}
    prompts = {name: judge.prompt(active.judge.prompt) for name, judge in both.items()}
    try:
        # A run that fails early need not load what draws.
        from optimize.report.page import write_run

        write_run(folder / REPORT, outcome, measured, prompts, probes)
    except OSError:
        raise
    except Exception as error:  # whatever it is, the run has its judge
        raise RunFolderError(
            f"{folder / REPORT} could not be drawn ({type(error).__name__}: {error}); {JUDGE} and "
            f"{SUMMARY} are whole. The same command again draws it, and asks nothing again"
        ) from error
    return outcome


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A run while its models are open; `scorer` judges items with any prompt of the search's.

    Without `new_questions` candidates ask what the untuned judge asks.
    """

    prepared: PreparedRun
    folder: Path
    models: RunModels
    budget: RunBudget
    trials: Trials
    scorer: JudgeItems
    print_line: PrintLine
    new_questions: bool = True

    @property
    def judge(self) -> Judge:
        """The untuned judge."""
        return self.prepared.untuned_judge

    @cached_property
    def evaluator(self) -> Evaluator:
        """Where candidates meet items, within the search's budget."""
        return Evaluator(
            untuned=self.judge.prompt,
            judge=self.scorer,
            budget=self.budget.search,
            pricing=self.budget.pricing,
        )

    @cached_property
    def problem(self) -> SearchProblem:
        """The task of the optimizer."""
        prepared = self.prepared
        return SearchProblem(
            evaluator=self.evaluator,
            proposer=self.models.language_proposer,
            questions=self._questions() if self.new_questions else (),
            new_questions=self.new_questions,
            train=prepared.labels.train,
            dev=prepared.labels.dev,
            goal=prepared.goal,
            options=self.budget.options,
            record_trial=self.trials.record,
            print_line=self.print_line,
        )

    def search(self) -> SearchResult:
        """What the optimizer of the settings finds on train, and the gate's decision."""
        prepared = self.prepared
        result = search_halves(find_optimizer(prepared.settings.optimizer), self.problem)
        if prepared.settings.ship == "tuned" and result.tuned.id != result.untuned.id:
            result = replace(result, decision=ship_anyway(result.decision))
        return result

    def _questions(self) -> tuple[Field, ...]:
        """Questions that candidates may ask; none of the embedded model, which counts facets."""
        if is_embedded(self.prepared.settings.lm):
            return ()
        questions = candidate_questions(self.prepared.subject, MAX_QUESTIONS)
        return tuple(question.field for question in questions)

    def measure(self, result: SearchResult) -> ScoredSplits:
        """Both judges on what is held out, once, after the choice."""
        # Its share was kept for it; what it takes beyond is the models' own budget's to refuse.
        self.models.budget.set_aside()
        self.evaluator.budget = SearchBudget(math.inf)
        return {
            "seed": self._measured("untuned judge", result.untuned),
            "tuned": self._measured("tuned judge", result.tuned),
        }

    def _measured(self, name: str, candidate: Candidate) -> dict[str, Scored]:
        """A judge's judgements of each held-out split."""
        prepared, scored = self.prepared, {}
        choices = candidate.prompt(self.judge.prompt).choices
        for split, items in prepared.labels.measured.items():
            self.evaluator.scores(candidate, items)
            scored[split] = Scored(
                judge=name,
                dimension=prepared.subject.name,
                level=prepared.level,
                items=items,
                judgements=tuple(
                    each.rescored(choices, candidate.weights, candidate.threshold)
                    for each in self.evaluator.judgements(candidate, items)
                ),
                scale=prepared.subject.scale,
                labelled=labelled_in_order(prepared.labels.labelled, items),
                n_tied=n_tied_of(prepared.labels.labelled),
                words=words_of(prepared.labels.labelled, prepared.subject.name) or PASS_FAIL,
            )
        return scored

    def frozen(self, candidate: Candidate, provenance: Mapping[str, Any]) -> Judge:
        """A candidate as a judge with the run's plan, and where it comes from."""
        prompt = candidate.prompt(self.judge.prompt)
        judge = replace(self.judge, prompt=prompt, plan=self.models.plan, provenance=provenance)
        return replace(judge, weights=candidate.weights, threshold=candidate.threshold)


def measure_budget(
    prepared: PreparedRun, models: RunModels, scorer: JudgeItems, print_line: PrintLine
) -> RunBudget:
    """The plan of what the run spends, with its search's part set aside.

    A paid model judges a few labelled rows first (`measured_tokens`). The plan rests on what these
    take, and is printed. Free judgements need no plan.
    """
    native_n = models.judge.model.native_n
    budget = plan_budget(prepared, native_n=native_n)
    if budget.search.unit != "calls":
        began = time.monotonic()
        tokens = measured_tokens(scorer, prepared.untuned_judge.prompt, prepared.labels.train)
        waves = math.ceil(ITEMS_MEASURED * budget.pricing.calls / prepared.settings.concurrency)
        seconds = (time.monotonic() - began) / waves
        budget = plan_budget(prepared, tokens, native_n, seconds)
        print_line(budget.heading())
    for note in budget.notes():
        print_line(f"note: {note}")
    budget.search.set_aside = lambda cost: models.budget.set_aside(*budget.reservation(cost))
    budget.search.set_aside(0)
    return budget


@contextmanager
def _progress(
    prepared: PreparedRun, models: RunModels, stderr: TextIO | None
) -> Iterator[Callable[[bool], object]]:
    """Show the line for all of a run: what is asked for, of how many calls, for how much.

    Yields what counts a judgement, and whether it failed.
    """
    if stderr is None:
        yield lambda failed: None
        return

    def refresh(progress: Progress) -> None:
        progress.name = models.purpose or progress.name
        progress.n_done = models.budget.calls

    planned, budget = plan_budget(prepared).planned.calls, models.budget
    line = Progress(SEARCH, planned, stderr, unit="calls", budget=budget, refresh=refresh)
    with line as progress:
        yield lambda failed: progress.step(failed=failed)
        progress.total = budget.calls  # what was planned beyond it was not needed


def _probe(run: ActiveRun, result: SearchResult, measured: ScoredSplits) -> Probes:
    """The probes of the judge that ships, on test; empty, with the reason, where there are none."""
    settings, client = run.prepared.settings, run.models.judge
    if not is_embedded(client.model.endpoint) and not settings.probes:
        return Probes(reason="they cost calls to a paid model; --probes asks for them")
    if not any(row.purpose == PROBES for row in run.budget.rows):
        return Probes(reason="the limit leaves no calls for them")
    scored = measured["tuned" if result.decision.ship else "seed"]["test"]
    judge = run.frozen(_shipped(result), {})
    try:
        with client.account.spending_on(PROBES):
            return probe(judge, client, scored.items, scored.scores, seed=settings.seed)
    except (ModelError, BudgetSpentError) as error:
        # They add to a report; what is known without them is worth keeping.
        return Probes(reason=f"they could not be run to their end: {error}")


def summarize(
    run: ActiveRun, result: SearchResult, measured: ScoredSplits, seconds: float
) -> TuningResult:
    """What the run ends with; `measured` is empty where nothing was held out."""
    settings, labels, models = run.prepared.settings, run.prepared.labels, run.models
    shipped: JudgeName = "tuned" if result.decision.ship else "seed"
    judge, proposer = models.judge.account, models.proposer.account
    splits = _split_results(measured, shipped, run.prepared.objective)
    is_paid = run.budget.search.unit == "dollars"
    candidates: dict[JudgeName, Candidate] = {"seed": result.untuned, "tuned": result.tuned}
    changes = [
        *read_summary(run.folder).get("request_changes", []),
        *(
            f"{client.model.name} takes {change}"
            for client in (models.judge, models.proposer)
            for change in getattr(client.model, "changes", ())
        ),
    ]
    return TuningResult(
        dimension=run.prepared.subject.name,
        lm=settings.lm,
        optimizer=settings.optimizer,
        seed=settings.seed,
        level=run.prepared.level,
        objective=run.prepared.objective,
        data=DataCounts.of(labels.labelled, labels.everything),
        test=splits.get("test"),
        unseen=splits.get("test_unseen_systems"),
        shipped=shipped,
        why=result.decision.why,
        limit_reached=result.decision.limit_reached,
        risk=settings.risk,
        ship=settings.ship,
        lm_calls=judge.total.calls,
        proposer_calls=proposer.total.calls,
        cached_calls=judge.total.cached + proposer.total.cached,
        spending=spending_summary(judge, proposer),
        seconds=round(seconds, 1),
        last_round=_last_round(result.last_rounds),
        max_cost=run.budget.at_most if is_paid else None,
        cost_per_1000_rows={
            f"{name}_judge": round(1000 * run.evaluator.item_cost(candidate), DIGITS)
            for name, candidate in candidates.items()
        }
        if is_paid
        else None,
        request_changes=list(dict.fromkeys(changes)) or None,
        answers=_answers(run, result.tuned),
    )


def _answers(run: ActiveRun, candidate: Candidate) -> list[AnswerShare] | None:
    """The answers of a candidate that asks questions, by their weights; None for any other."""
    if not candidate.weights:
        return None
    loss_of = losses(run.problem, candidate, run.prepared.labels.learned)
    return candidate.weights.describe(candidate.prompt(run.judge.prompt).choices, loss_of)


def _last_round(rounds: Sequence[LastRound]) -> LastRound | None:
    """The last rounds of both halves as one: means, and what they cost together."""
    if not rounds:
        return None
    return LastRound(
        gain=sum(each.gain for each in rounds) / len(rounds),
        error=sum(each.error for each in rounds) / len(rounds),
        cost=sum(each.cost for each in rounds),
        is_final=all(each.is_final for each in rounds),
    )


def _split_results(
    measured: ScoredSplits, shipped: JudgeName, objective: str
) -> dict[str, SplitResult]:
    """Both judges on each split; on test, with people and scales for the judge that ships."""
    if not measured:
        return {}
    on_test, results = measured[shipped]["test"], {}
    for name, untuned in measured["seed"].items():
        tuned = measured["tuned"][name]
        cards = {
            judge: Scorecard.brief(scored, is_binary=on_test.is_binary)
            for judge, scored in (("seed", untuned), ("tuned", tuned))
        }
        if name == "test":
            scales, people = scale_figures(on_test), PeopleFigures.of(on_test)
            cards[shipped] = replace(cards[shipped], scales=scales, people=people)
        results[name] = SplitResult(
            untuned=cards["seed"],
            tuned=cards["tuned"],
            gain=contrast_judges(
                tuned.scores,
                untuned.scores,
                untuned.human,
                untuned.documents,
                untuned.systems,
                level=untuned.level,
            ),
            # Each judge's verdicts are by its own threshold.
            balanced_gain=balanced_contrast(
                tuned.passes, untuned.passes, untuned.human, untuned.documents
            )
            if objective == "balanced"
            else None,
        )
    return results


def _shipped(result: SearchResult) -> Candidate:
    return result.tuned if result.decision.ship else result.untuned


def _tested(scored: Scored) -> dict[str, Any]:
    """Of two values, the judge's verdicts on test beside people's: how `score` knows its errors."""
    if not scored.is_binary:
        return {}
    return {"tested": errors_by_document(scored.passes, scored.human, scored.documents)}


def _freeze(
    run: ActiveRun, result: SearchResult, measured: ScoredSplits, outcome: TuningResult
) -> TuningResult:
    """Write the judge that ships, and the tuned one that does not; the result names its file.

    `tuned_on` is what teaches and chooses, rows and documents: others like them flatter the judge.
    """
    settings, labels, models = run.prepared.settings, run.prepared.labels, run.models
    shown = ("shipped", "why", "risk", "ship", "seed_judge", "tuned_judge", "gain")
    summary = outcome.to_json()
    provenance = {
        "data": {
            "name": labels.labelled.name,
            "sha256": labels.labelled.sha256,
            "constructed": is_constructed(labels.labelled.sha256),
        },
        "tuned_on": tuned_keys(labels.learned, run.prepared.subject),
        "split": {"by": labels.split["by"], "sha256": labels.split["sha256"]},
        "model": models.judge.model.name,
        "endpoint": models.judge.model.endpoint,
        "proposer": models.proposer.model.name,
        "optimizer": settings.optimizer,
        "seed": settings.seed,
        "level": run.prepared.level,
        "versions": versions(),
        "started": started_at(run.folder),
        **{name: summary[name] for name in shown},
        "candidates_tried": result.n_tried,
        "budget": {name: summary[name] for name in ("lm_calls", "proposer_calls", "cost_usd")},
    }
    answers = {"answers": summary["answers"]} if "answers" in summary else {}
    if outcome.shipped == "tuned":
        provenance |= answers
    provenance |= _tested(measured[outcome.shipped]["test"])
    run.frozen(_shipped(result), provenance).save(run.folder / JUDGE, overwrite=True)
    (run.folder / TUNED).unlink(missing_ok=True)
    if result.tuned.id == _shipped(result).id:
        return outcome
    why = f"tuned, but not shipped: {untuned_reason(result.decision)}"
    # "seed" would say that it learned from no labels.
    tuned = {name: value for name, value in provenance.items() if name != "shipped"}
    tuned |= {"why": why, **answers, **_tested(measured["tuned"]["test"])}
    run.frozen(result.tuned, tuned).save(run.folder / TUNED, overwrite=True)
    return replace(outcome, tuned_file=TUNED)


def versions() -> dict[str, str]:
    """Python's version and those of the packages that figures depend on, where installed."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
