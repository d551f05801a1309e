"""A tuning run from its settings to its report: prepare, search, measure once, write files."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from dspy_judges.errors import option_name
from judges.catalog import SUBJECT_BY_NAME
from judges.client import BudgetSpentError
from judges.dimension import Subject
from judges.labels.roles import RESPONSE_NAMES
from judges.protocol import Model, ModelError, is_embedded
from judges.tables.atomic_write import write_atomically
from judges.tables.in_memory import Rows, as_json_lines, rows_in_memory
from judges.terminal import Progress
from optimize.figures.as_json import json_text, judgement_rows
from optimize.inputs.labelled import AnyPath
from optimize.inputs.subjects import unread_columns
from optimize.measuring.injection import ProbeResult, probe_judge
from optimize.measuring.tuning_result import TuningResult
from optimize.search.gate import metric_name
from optimize.search.two_fold_search import SearchResult
from optimize.tuning import folder as run_folder
from optimize.tuning.active_run import ActiveRun, PrintLine, ScoredSplits
from optimize.tuning.budget import plan_budget
from optimize.tuning.folder import write_json
from optimize.tuning.models import PROBES, PROPOSALS, SEARCH, make_item_judge, open_clients
from optimize.tuning.preparation import PreparedRun, prepare_run
from optimize.tuning.results import save_judges, summarize_run
from optimize.tuning.settings import Settings


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

    `out` is the run's folder, by default one in runs/. `rows` are labels in memory, which are saved
    in the folder. `opened_models` maps names to models. Progress is written to `stderr`, if given.
    """
    prepared_run = prepare_run(settings, subject, rows)
    subject, labelled_items = prepared_run.subject, prepared_run.labelled_items
    config = run_folder.run_config(prepared_run)
    with run_folder.open_run(out, subject.name, config, print_line) as folder:
        if rows is not None:
            json_lines = as_json_lines(rows_in_memory(rows))
            write_atomically(folder / run_folder.LABELS_FILE, json_lines, overwrite=True)
        assert prepared_run.splits
        splits = run_folder.splits_json(prepared_run.splits, settings.seed)
        write_json(folder / run_folder.SPLITS_FILE, splits)
        n_outputs = len(prepared_run.all_items)
        print_line(f"{folder}: {metric_name(prepared_run.goal)}, {n_outputs} outputs")
        is_new_judge = subject.name not in SUBJECT_BY_NAME
        # A file of pairs may name the two outputs otherwise than the comparison does.
        text_names = {*subject.texts, *(RESPONSE_NAMES if subject.is_pairwise else ())}
        reading = labelled_items.reading
        if unread_text := unread_columns(reading, text_names, is_new=is_new_judge):
            print_line(f"columns not read: {unread_text}")
        for note in labelled_items.notes:
            print_line(f"note: {note}")
        if subject.questions and is_new_judge and is_embedded(settings.lm):
            print_line(
                "note: the embedded model cannot answer the definition's questions, so they are "
                f"not tried; name a language model with {option_name('lm')}"
            )
        return folder, tune_and_save(prepared_run, folder, print_line, opened_models, stderr)


def tune_and_save(
    prepared_run: PreparedRun,
    folder: Path,
    print_line: PrintLine,
    opened_models: Mapping[str, Model] | None = None,
    stderr: TextIO | None = None,
) -> TuningResult:
    """Tune a judge, measure it and the untuned judge once, and write all files of the run."""
    start_time = time.monotonic()
    with open_clients(prepared_run.settings, folder, opened_models) as clients:
        account, proposer_account = clients.judge.account, clients.proposer.account
        budget = account.budget  # of both models

        def refresh(progress: Progress) -> None:
            purpose = PROPOSALS if proposer_account.total.open_calls else account.purpose
            progress.title, progress.n_done = purpose or progress.title, budget.calls

        plan = plan_budget(prepared_run, clients.judge.model.native_n)
        n_calls = plan.expected_total.calls if plan.expected_total else 0
        progress = Progress(SEARCH, n_calls, stderr, unit="calls", budget=budget, refresh=refresh)
        with progress:
            judge_items = make_item_judge(prepared_run, clients, progress)
            run = ActiveRun(plan, folder, clients, judge_items, print_line)
            search_result = run.search()
            scored_splits = run.measure(search_result)
            probe_result = _probe(run, search_result, scored_splits)
            progress.n_total = budget.calls  # so that the line ends at 100 %
        seconds = time.monotonic() - start_time
        tuning_result = summarize_run(run, search_result, scored_splits, seconds)
        if note := budget.total.cache_note:
            print_line(note)
    tuning_result = save_judges(run, search_result, scored_splits, tuning_result)
    _write_judgements(folder / run_folder.JUDGEMENTS_FILE, scored_splits)
    write_json(folder / run_folder.SUMMARY_FILE, tuning_result.to_json())
    prompts = search_result.judges.map(lambda judge: judge.prompt(prepared_run.untuned_prompt))
    # This import is slow, and a run that fails before its report does not need it.
    from optimize.report.page import write_run

    shipped_items = scored_splits.test.for_judge(search_result.shipped)
    write_run(folder / run_folder.REPORT_FILE, tuning_result, shipped_items, prompts, probe_result)
    return tuning_result


def _write_judgements(path: Path, scored_splits: ScoredSplits) -> None:
    rows = []
    for split_name, scored in scored_splits.by_name.items():
        judgements = {"seed": scored.untuned.judgements, "tuned": scored.tuned.judgements}
        rows += judgement_rows(scored.untuned.items.items, judgements, split_name)
    run_folder.write_text(path, "".join(json_text(row) + "\n" for row in rows))


def _probe(run: ActiveRun, search_result: SearchResult, scored_splits: ScoredSplits) -> ProbeResult:
    """Try injection attacks on the judge that ships, or return why this was not done."""
    seed, client = run.prepared_run.settings.seed, run.clients.judge
    if not any(row.purpose == PROBES for row in run.budget.expected_by_purpose):
        return ProbeResult(reason="the probes need further calls; add --probes to make them")
    test_items = scored_splits.test.for_judge(search_result.shipped)
    judge = run.freeze(search_result.judges.for_judge(search_result.shipped), {})
    try:
        with client.account.spending_on(PROBES):
            return probe_judge(judge, client, test_items.items, test_items.scores, seed=seed)
    except (ModelError, BudgetSpentError) as error:
        # The probes are an extra section of the report, so their failure does not end the run.
        return ProbeResult(reason=f"the probes could not be completed: {error}")
