"""One run: search on train, choose on dev, measure once on test, freeze, and write it all down."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.dimension import Comparison
from judges.judge import Judge, Subject
from optimize.run import outcome, run_folder
from optimize.run.gathering import gather
from optimize.run.labels import Labels
from optimize.run.labels import read as read_split
from optimize.run.models_asked import Asked, judging, open_models, proposing
from optimize.run.settings import Settings, SettingsError
from optimize.run.subject import read as read_subject
from optimize.run.trail import Trail
from optimize.search.allowance import allow, left_for_probes, plan
from optimize.search.bench import Bench
from optimize.search.loop import Found
from optimize.search.objective import Level, choose_level
from optimize.search.optimizers import search


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run before its first question to a model: all that can be checked without one has been."""

    settings: Settings
    subject: Subject
    labels: Labels
    level: Level


def prepare(settings: Settings) -> Prepared:
    """Read what is judged and the labels; raises what the user has to mend."""
    subject = read_subject(settings)
    pairwise = isinstance(subject, Comparison)
    labels = read_split(settings, subject)
    level = choose_level(labels.train) if settings.level == "auto" else settings.level
    if pairwise and settings.level not in ("auto", "dataset"):
        raise SettingsError(f"--level {level}: pairs have one margin each; only dataset fits them")
    return Prepared(
        settings=settings,
        subject=subject,
        labels=labels,
        level="dataset" if pairwise else level,
    )


def run(prepared: Prepared, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything from the first question to the report; returns what summary.json holds."""
    began = time.monotonic()
    settings, labels = prepared.settings, prepared.labels
    judge = Judge.of(prepared.subject, lm=settings.lm)
    with open_models(settings, folder) as asked, Trail(folder, say) as trail:
        each = asked.calls_per_item(judge)
        allowance = allow(settings, labels, judge, each)
        bench = Bench(
            seed=judge.prompt,
            judge=judging(judge, asked, settings.seed, trail.step),
            calls_per_item=each,
            budget=allowance.budget,
            weight=allowance.weight,
            proposal=allowance.proposal,
        )
        found = _search(prepared, bench, judge, asked, trail)
        say(found.choice.why)
        measured = outcome.measure(bench, found, labels, prepared.level, settings.seed)
        most = left_for_probes(settings, found.calls + bench.budget.spent)
        gather(prepared, folder, bench, found, judge, asked, most)
    summary = outcome.summary(prepared, folder, asked, found, measured, time.monotonic() - began)
    shipped = outcome.shipped(prepared, judge, asked, found, summary, folder)
    shipped.save(folder / run_folder.JUDGE, overwrite=True)
    run_folder.write_json(folder / run_folder.SUMMARY, summary)
    outcome.write_report(folder)
    return summary


def _search(prepared: Prepared, bench: Bench, judge: Judge, asked: Asked, trail: Trail) -> Found:
    settings = prepared.settings
    return search(
        settings.optimizer,
        bench=bench,
        propose=proposing(judge, asked, settings.seed),
        train=prepared.labels.train,
        dev=prepared.labels.dev,
        level=prepared.level,
        plan=plan(settings),
        record=trail.record,
    )
