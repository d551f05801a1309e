"""The command `panel`: join several judges, and compare the panel with the best single judge."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # Before the other imports: a file in the working folder must not be imported as a library.
    sys.exit(start("optimize.panel:command"))

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from judges.cli.flags import split_named_value
from judges.labels.splits import split
from judges.panel import AnyJudge, Member, Panel
from judges.tables.problems import count_text
from judges.terminal import print_note
from optimize.compare import add_judges_flags, open_run_and_ask
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json, to_json
from optimize.figures.as_text import (
    SPLIT_TITLES,
    cost_text,
    figure_text,
    interval_unit,
    number_text,
    table_lines,
    wrap_lines,
)
from optimize.figures.by_judge import HeldOut
from optimize.inputs.flags import CommandOutcome, CommandParser, SettingsError, run_and_print
from optimize.items import DataCounts, tuning_digests
from optimize.measuring.asking import JudgeEntry, Task, total_dollars
from optimize.measuring.comparison import figure_contrast, on_common_rows
from optimize.measuring.panel_learning import PanelFit, WeightedMember, learn_panel
from optimize.measuring.recorded import judgement_of_score
from optimize.measuring.scored import ScoredItems, rows_scored_by_both, tuned_ids
from optimize.report.answer import ReportAnswer, ReportTable, Tile
from optimize.report.page import Section, page_html, save_page
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import random_generator
from optimize.statistics.verdict_rates import Rate
from optimize.task_flags import check_names, cost_lines, read_task
from optimize.tuning.folder import JUDGE_FILE, REPORT_FILE, SUMMARY_FILE, write_json

COMMAND_NAME = "dspy-judges panel"
ABOUT = """\
Join several judges in a panel, whose score is a weighted mean of its members'
scores. If the panel is not clearly better, the best single judge ships. Both
are measured on held-out documents. If a recording (--scores, --replies) gets a
weight, no judge.json is written: a saved panel needs judges that can be asked."""

EXAMPLES = """\
example:
  dspy-judges panel --data labels.jsonl relevance@embedded \\
      relevance@openai/gpt-4.1-mini --scores other.jsonl --max-cost 2

exit codes: 0 done; 1 failed; 2 wrong usage; 130 interrupted (run the
same command again to go on; it pays for no reply twice)"""

ADDS_NOTE = "adds: how much rho a panel loses without the member, ± the standard error."


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSplit:
    """Figures on one held-out split: the best single judge's, and the figures of what ships."""

    best: Rate = field(metadata={"json": "own"})
    panel: Rate
    difference: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRun:
    """A run of `panel`: what ships, held-out figures of both judges, and all judges' costs."""

    command: str = "optimize.panel"
    dimension: str
    kind: Literal["pairwise", "rating"]
    optimizer: str = "panel"
    seed: int
    level: Level
    data_counts: DataCounts = field(metadata={"json": "data"})
    fit: PanelFit = field(metadata=INLINED_IN_JSON)
    splits: HeldOut[PanelSplit] = field(metadata=INLINED_IN_JSON)
    entries: Sequence[JudgeEntry]
    seconds: float
    folder: str

    @property
    def figure_name(self) -> str:
        return "accuracy" if self.kind == "pairwise" else f"{self.level}-level rho"

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each judge, by its name; 0 for a judge that is no part of what ships."""
        weights = {member.name: member.weight for member in self.fit.members}
        return {entry.name: weights.get(entry.name, 0.0) for entry in self.entries}

    @property
    def why_no_judge(self) -> str | None:
        """Why no judge.json is written; None if all judges that ship can be asked."""
        recordings = {entry.name for entry in self.entries if not entry.judge}
        names = [member.name for member in self.fit.members if member.name in recordings]
        if not names:
            return None
        return (
            f"No judge.json was written: {', '.join(names)} cannot be asked. Name the judge itself "
            "in place of its recording, as JUDGE or JUDGE@MODEL."
        )

    @property
    def provenance(self) -> JsonObject:
        """What a panel's file says about its origin."""
        return fields_json(self, "entries", "seconds", "folder")

    def to_json(self) -> JsonObject:
        members = [
            {
                **entry.to_json(),
                "weight": to_json(self.weights[entry.name]),
                "alone": self.fit.rho_alone.get(entry.name),
                "adds": to_json(self.fit.rho_added.get(entry.name)),
                "passed_over": self.fit.why_excluded.get(entry.name),
            }
            for entry in self.entries
        ]
        judge_entries = [entry for entry in self.entries if entry.judge]
        shipped = [entry for entry in judge_entries if self.weights[entry.name]]
        return {
            **fields_json(self, "entries"),
            "members": members,
            "cost_per_1000_rows": total_dollars(each.usage.cost_per_1000_rows for each in shipped),
            "cost_usd": total_dollars(each.usage.cost_usd for each in judge_entries),
            "why_no_judge": self.why_no_judge,
        }


def parser() -> argparse.ArgumentParser:
    command_parser = CommandParser(
        prog=COMMAND_NAME,
        usage=f"{COMMAND_NAME} --data FILE JUDGE ... [options]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add_judges_flags(command_parser, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Join the members and print what ships; returns the exit code."""
    return run_and_print(COMMAND_NAME, parser().parse_intermixed_args(arguments), join_judges)


def join_judges(flags: argparse.Namespace) -> CommandOutcome:
    """Join the members and write the run; with --dry-run, only estimate its cost."""
    start_time = time.monotonic()
    if flags.data is None:
        raise SettingsError(
            "--data FILE is needed: without labels nobody knows whether a panel is better than the "
            "best of its members"
        )
    task, entries = read_task(flags, map(split_named_value, flags.judges), flags.lm or "")
    check_names(entries)
    judges = {entry.name: entry.judge for entry in entries if entry.judge}
    if judges:
        # If the judges cannot be joined or saved, this fails before anything is paid.
        _make_panel(judges, [WeightedMember(name, 1.0) for name in judges]).dumps()
    learning_ids, held_out_ids = split_held_out(task, entries, flags.seed)
    ids = learning_ids.union(*held_out_ids.by_name.values())
    entries = [replace(entry, items=entry.items.of_ids(ids)) for entry in entries]
    if flags.dry_run:
        costs = cost_lines(entries, flags.price)
        return CommandOutcome(costs, costs)
    with open_run_and_ask(flags, "panel", task, entries) as (folder, entries):
        scored = on_common_rows(_scored_by_name(entries))
        fit = _learn(scored, learning_ids, flags.seed)
        first = next(iter(scored.values()))
        result = PanelRun(
            dimension=task.dimension,
            kind="pairwise" if first.is_pairwise else "rating",
            seed=flags.seed,
            level=task.level,
            data_counts=DataCounts.from_items(task.labelled_items, first.items),
            fit=fit,
            splits=held_out_ids.map(partial(_measure, scored, fit)),
            entries=entries,
            seconds=round(time.monotonic() - start_time, 3),
            folder=str(folder),
        )
        if result.why_no_judge is None:
            judge = _shipped_judge(task, result, judges, learning_ids)
            judge.save(folder / JUDGE_FILE, overwrite=True)
        write_json(folder / SUMMARY_FILE, to_json(result))
        write_report(folder / REPORT_FILE, result)
    return CommandOutcome(result, panel_lines(result))


def _scored_by_name(entries: Sequence[JudgeEntry]) -> dict[str, ScoredItems]:
    scored: dict[str, ScoredItems] = {}
    for entry in entries:
        if entry.scored_items is None:
            raise SettingsError(
                f"{entry.name} has no scores: {entry.why_unscored}; run the same command again "
                "(with a larger limit) to go on, or leave this judge out"
            )
        scored[entry.name] = entry.scored_items
    return scored


def _shipped_judge(
    task: Task, run: PanelRun, judges: Mapping[str, AnyJudge], learning_ids: frozenset[str]
) -> AnyJudge:
    """Return the panel with its provenance, or the best judge alone."""
    if run.fit.kind == "own":
        return judges[run.fit.best_member]
    panel = _make_panel(judges, run.fit.members)
    data_json = {**to_json(run.data_counts), "constructed": run.data_counts.is_constructed}
    tuned_on = tuning_digests(task.items(panel).of_ids(learning_ids), panel.subject)
    return replace(panel, provenance={**run.provenance, "data": data_json, "tuned_on": tuned_on})


def split_held_out(
    task: Task, entries: Sequence[JudgeEntry], seed: int
) -> tuple[frozenset[str], HeldOut[frozenset[str]]]:
    """Return the ids of the labels to learn from, and of those to measure the panel on.

    Rows that a member was tuned on are left out, since they would flatter that member.
    """
    tuned = set[str]()
    for entry in entries:
        tuned |= (
            entry.scored_items.tuned_ids
            if entry.scored_items
            else tuned_ids(entry.judge, entry.items)
        )
    if tuned:
        print_note(f"note: {count_text(len(tuned), 'row')} left out, on which a member was tuned")
    ids = {item.id for item in task.labelled_items.items} - tuned
    splits = split(task.labelled_items.subset(ids), seed=seed)
    train, dev, *held_out = map(frozenset, splits.ids().values())
    return train | dev, HeldOut(*held_out)


def _learn(scored: Mapping[str, ScoredItems], learning_ids: frozenset[str], seed: int) -> PanelFit:
    """Learn the panel from the scores of the outputs with these ids."""
    learning = {name: member.of_ids(learning_ids) for name, member in scored.items()}
    first = next(iter(learning.values()))
    return learn_panel(
        {name: member.scores for name, member in learning.items()},
        first.human,
        first.document_ids,
        first.system_ids,
        level=first.level,
        is_pairwise=first.is_pairwise,
        rng=random_generator(seed, "panel"),
    )


def _measure(scored: Mapping[str, ScoredItems], fit: PanelFit, ids: frozenset[str]) -> PanelSplit:
    """Compare what ships with the best single judge, on the outputs with these ids."""
    held_out = {name: member.of_ids(ids) for name, member in scored.items()}
    best = held_out[fit.best_member]
    scores = fit.scores({name: member.scores for name, member in held_out.items()}).tolist()
    judgements = [judgement_of_score(score, is_pairwise=best.is_pairwise) for score in scores]
    panel, best = rows_scored_by_both(replace(best, judgements=tuple(judgements)), best)
    figures = [each.pairwise_accuracy if each.is_pairwise else each.rho for each in (best, panel)]
    rates = [Rate(figure.value, figure.interval, figure.n_documents) for figure in figures]
    contrast = figure_contrast(panel, best)
    difference = Rate(contrast.value, contrast.interval, contrast.terms.size)
    return PanelSplit(best=rates[0], panel=rates[1], difference=difference)


def _make_panel(judges: Mapping[str, Any], weighted_members: Sequence[WeightedMember]) -> Panel:
    """Return the panel of these members, which judges what its first member judges."""
    members = [Member(judge=judges[each.name], **each._asdict()) for each in weighted_members]
    return Panel.join(members[0].judge.subject, members)


def panel_lines(run: PanelRun) -> list[str]:
    judge_line = run.why_no_judge or f"Judge: {run.folder}/{JUDGE_FILE}"
    table, sentences = table_lines(*_member_table(run)), wrap_lines(*_result_sentences(run))
    return [*sentences, "", *table, "", *wrap_lines(ADDS_NOTE, judge_line)]


def write_report(path: Path, run: PanelRun) -> None:
    header, rows = _member_table(run)
    next_step = f"`dspy-judges score {run.folder} --data rows.jsonl` judges your own rows."
    verdict, *sentences = _result_sentences(run)
    figure_name, test = run.figure_name, run.splits.test
    report_answer = ReportAnswer(
        title=f"A panel for {run.dimension}",
        headline=verdict,
        reasons=[("", sentence) for sentence in sentences],
        tiles=[
            Tile(f"{figure_name} of the best single judge", test.best),
            Tile(f"{figure_name} of what ships", test.panel),
        ],
        next_steps=[run.why_no_judge or next_step],
    )
    members = Section(title="Members", tables=[ReportTable(header, rows, ADDS_NOTE)])
    save_page(path, page_html(report_answer, [members]))


def _result_sentences(run: PanelRun) -> list[str]:
    fit, unit = run.fit, interval_unit(run.level)
    kind_text, result_text = "a panel with learned weights", "does better"
    if fit.kind == "own":
        kind_text = "no panel, but the best single judge"
        result_text = "does not clearly do better"
    return [
        f"{run.dimension}: {kind_text} ({fit.best_member} is the best alone).",
        f"On {count_text(fit.gain.n_documents, 'document')}, each scored with weights learned "
        f"on the other documents, a panel {result_text} than the judge that is best on the other "
        "documents: "
        f"{number_text(fit.gain.value, signed=True)} rho ± {number_text(fit.gain.standard_error)} "
        "(standard error).",
        *(
            f"On {SPLIT_TITLES[name]} ({count_text(split.difference.n, unit)}), "
            f"{run.figure_name}: best single judge {figure_text(split.best)}, chosen "
            f"{figure_text(split.panel)}, difference {figure_text(split.difference, signed=True)}."
            for name, split in run.splits.by_name.items()
        ),
        *(f"{name} is left out: it {reason}." for name, reason in fit.why_excluded.items()),
    ]


def _member_table(run: PanelRun) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    fit, rows = run.fit, list[tuple[str, ...]]()
    order = sorted(fit.rho_alone, key=lambda name: (-run.weights[name], -fit.rho_alone[name]))
    entry_by_name = {entry.name: entry for entry in run.entries}
    for name in order:
        entry, adds = entry_by_name[name], fit.rho_added[name]
        cost = cost_text(entry.usage.cost_per_1000_rows) if entry.judge else "recorded"
        adds_text = f"{number_text(adds.value, signed=True)} ± {number_text(adds.standard_error)}"
        weight, rho = f"{run.weights[name]:.3f}", number_text(fit.rho_alone[name])
        rows.append((name, weight, rho, adds_text, cost))
    return ("member", "weight", "alone", "adds", "1,000 rows"), rows
