"""The command `panel`: join several judges, and compare the panel with the best single judge."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    sys.exit(start("optimize.panel:command"))  # before other imports; `start` says why

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from dspy_judges.errors import SettingsError
from judges.cli.flags import Parser, split_named_value
from judges.labels.splits import split
from judges.panel import AnyJudge, Member, Panel
from judges.tables.problems import count_text
from judges.terminal import print_note
from optimize.compare import add_judges_flags, open_run_and_ask
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json, to_json
from optimize.figures.as_text import (
    SPLIT_TITLES,
    command_text,
    cost_text,
    figure_text,
    interval_unit,
    number_text,
)
from optimize.figures.by_judge import HeldOut
from optimize.inputs.flags import CommandOutcome, run_and_print
from optimize.items import DataCounts, tuning_digests
from optimize.measuring.asking import JudgeEntry, Task, total_dollars
from optimize.measuring.comparison import figure_contrast, on_common_rows
from optimize.measuring.panel_learning import PanelFit, WeightedMember, learn_panel
from optimize.measuring.scored import ScoredItems, rows_scored_by_both, tuned_ids
from optimize.report.answer import ReportAnswer, ReportTable
from optimize.report.page import Section, write_page
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import random_generator
from optimize.statistics.verdict_rates import Rate
from optimize.task_flags import check_names, cost_lines, read_task
from optimize.tuning.folder import JUDGE_FILE, REPORT_FILE, SUMMARY_FILE, write_json

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

ScoredByName = Mapping[str, ScoredItems]
ADDS_NOTE = "adds: the panel's rho minus its rho without the member, ± the standard error."


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRun:
    """A run of `panel`: which judge ships, its held-out figures, and the costs of all judges."""

    command: str = "optimize.panel"
    dimension: str
    judge_kind: Literal["pairwise", "rating"] = field(metadata={"json": "kind"})
    optimizer: str = "panel"
    seed: int
    level: Level
    data_counts: DataCounts = field(metadata={"json": "data"})
    panel_fit: PanelFit = field(metadata=INLINED_IN_JSON)
    splits: HeldOut[Mapping[str, Rate]] = field(metadata=INLINED_IN_JSON)
    judge_entries: Sequence[JudgeEntry]
    seconds: float
    folder: str

    @property
    def figure_name(self) -> str:
        return "accuracy" if self.judge_kind == "pairwise" else f"{self.level}-level rho"

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each judge, by its name; 0 for a judge that does not ship."""
        weights = {member.name: member.weight for member in self.panel_fit.members}
        return {entry.name: weights.get(entry.name, 0.0) for entry in self.judge_entries}

    @property
    def why_no_judge(self) -> str | None:
        """Why no judge.json is written; None if all judges that ship can be asked."""
        askable = {entry.name for entry in self.judge_entries if entry.judge}
        names = [member.name for member in self.panel_fit.members if member.name not in askable]
        if not names:
            return None
        return (
            f"No judge.json was written: {', '.join(names)} cannot be asked. Name the judge itself "
            "in place of its recording, as JUDGE or JUDGE@MODEL."
        )

    def to_json(self) -> JsonObject:
        members = [
            {
                **entry.to_json(),
                "weight": to_json(self.weights[entry.name]),
                "alone": self.panel_fit.rho_alone.get(entry.name),
                "adds": to_json(self.panel_fit.rho_added.get(entry.name)),
                "passed_over": self.panel_fit.why_excluded.get(entry.name),
            }
            for entry in self.judge_entries
        ]
        askable = [entry for entry in self.judge_entries if entry.judge]
        shipped = [entry for entry in askable if self.weights[entry.name]]
        return {
            **fields_json(self, "judge_entries"),
            "members": members,
            "cost_per_1000_rows": total_dollars(one.usage.cost_per_1000_rows for one in shipped),
            "cost_usd": total_dollars(one.usage.cost_usd for one in askable),
            "why_no_judge": self.why_no_judge,
        }


def parser() -> Parser:
    command_parser = Parser(
        prog="dspy-judges panel",
        usage="%(prog)s --data FILE JUDGE ... [options]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add_judges_flags(command_parser, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    return run_and_print(parser(), arguments, join_judges)


def join_judges(flags: Namespace) -> CommandOutcome:
    """Join the members and write the run; with --dry-run, only estimate its cost."""
    start_time = time.monotonic()
    if flags.data is None:
        raise SettingsError(
            "--data FILE is needed: without labels nobody knows whether a panel is better than the "
            "best of its members"
        )
    task, judge_entries = read_task(flags, map(split_named_value, flags.judges), flags.lm or "")
    check_names(judge_entries)
    judges = {entry.name: entry.judge for entry in judge_entries if entry.judge}
    if judges:
        # If the judges cannot be joined or saved, this fails before anything is paid.
        _make_panel(judges, [WeightedMember(name, 1.0) for name in judges]).dumps()
    learning_ids, held_out_ids = split_held_out(task, judge_entries, flags.seed)
    ids = learning_ids.union(*held_out_ids.by_name.values())
    judge_entries = [replace(entry, items=entry.items.of_ids(ids)) for entry in judge_entries]
    if flags.dry_run:
        cost_texts = cost_lines(judge_entries, flags.price)
        return CommandOutcome(cost_texts, cost_texts)
    with open_run_and_ask(flags, "panel", task, judge_entries) as (folder, judge_entries):
        scored_by_name = on_common_rows(_scored_by_name(judge_entries))
        learning = {name: scored.of_ids(learning_ids) for name, scored in scored_by_name.items()}
        panel_fit = learn_panel(learning, random_generator(flags.seed, "panel"))
        any_scored = next(iter(scored_by_name.values()))
        panel_run = PanelRun(
            dimension=task.dimension,
            judge_kind="pairwise" if any_scored.is_pairwise else "rating",
            seed=flags.seed,
            level=task.level,
            data_counts=DataCounts.from_items(task.labels, any_scored.items),
            panel_fit=panel_fit,
            splits=held_out_ids.map(partial(_measure_split, scored_by_name, panel_fit)),
            judge_entries=judge_entries,
            seconds=round(time.monotonic() - start_time, 3),
            folder=str(folder),
        )
        if panel_run.why_no_judge is None:
            judge = _shipped_judge(task, panel_run, judges, learning_ids)
            judge.save(folder / JUDGE_FILE, overwrite=True)
        summary = to_json(panel_run)
        write_json(folder / SUMMARY_FILE, summary)
        answer = panel_answer(panel_run)
        section = Section(title="Members", tables=answer.tables)
        write_page(folder / REPORT_FILE, answer, [section])
    footer = f"{ADDS_NOTE}\nReport: {folder}/{REPORT_FILE}"
    return CommandOutcome(summary, answer.lines(footer=footer))


def _scored_by_name(judge_entries: Sequence[JudgeEntry]) -> ScoredByName:
    """Return the scores of each judge, by its name; raise SettingsError if a judge has none."""
    scored_by_name: dict[str, ScoredItems] = {}
    for entry in judge_entries:
        if entry.scored_items is None:
            raise SettingsError(
                f"{entry.name} has no scores: {entry.why_unscored}; run the same command again "
                "(with a larger limit) to go on, or leave this judge out"
            )
        scored_by_name[entry.name] = entry.scored_items
    return scored_by_name


def _shipped_judge(
    task: Task, panel_run: PanelRun, judges: Mapping[str, AnyJudge], learning_ids: frozenset[str]
) -> AnyJudge:
    """Return the panel with its provenance, or the best judge alone."""
    panel_fit, data_counts = panel_run.panel_fit, panel_run.data_counts
    if panel_fit.kind == "own":
        return judges[panel_fit.best_member]
    panel = _make_panel(judges, panel_fit.members)
    data_json = {**to_json(data_counts), "constructed": data_counts.is_constructed}
    tuned_on = tuning_digests(task.items(panel).of_ids(learning_ids), panel.subject)
    origin = fields_json(panel_run, "judge_entries", "seconds", "folder")
    return replace(panel, provenance={**origin, "data": data_json, "tuned_on": tuned_on})


def split_held_out(
    task: Task, judge_entries: Sequence[JudgeEntry], seed: int
) -> tuple[frozenset[str], HeldOut[frozenset[str]]]:
    """Return the ids of the rows to learn the panel from, and of the rows to measure it on.

    Rows that a member was tuned on are left out, since they would flatter that member.
    """
    tuned = set[str]()
    for entry in judge_entries:
        scored_items = entry.scored_items
        tuned |= scored_items.tuned_ids if scored_items else tuned_ids(entry.judge, entry.items)
    if tuned:
        print_note(f"note: {count_text(len(tuned), 'row')} left out, on which a member was tuned")
    ids = {item.id for item in task.labels.items} - tuned
    ids_by_split = split(task.labels.subset(ids), seed=seed).ids()
    held_out = HeldOut(ids_by_split["test"], ids_by_split.get("test_unseen_systems"))
    return frozenset(ids_by_split["train"] + ids_by_split["dev"]), held_out.map(frozenset[str])


def _measure_split(
    scored_by_name: ScoredByName, fit: PanelFit, ids: frozenset[str]
) -> dict[str, Rate]:
    """Compare the best single judge (`own`) with the judge that ships, on these outputs."""
    held_out = {name: scored.of_ids(ids) for name, scored in scored_by_name.items()}
    shipped, best = rows_scored_by_both(fit.score(held_out), held_out[fit.best_member])
    contrast = figure_contrast(shipped, best)
    difference = Rate(contrast.value, contrast.interval, contrast.contributions.size)
    return {
        "own": _agreement_rate(best),
        "panel": _agreement_rate(shipped),
        "difference": difference,
    }


def _agreement_rate(scored_items: ScoredItems) -> Rate:
    figure = scored_items.pairwise_accuracy if scored_items.is_pairwise else scored_items.rho
    return Rate(figure.value, figure.interval, figure.n_documents)


def _make_panel(judges: Mapping[str, Any], weighted_members: Sequence[WeightedMember]) -> Panel:
    members = [Member(judge=judges[member.name], **member._asdict()) for member in weighted_members]
    return Panel.join(members[0].judge.subject, members)


def panel_answer(panel_run: PanelRun) -> ReportAnswer:
    """Return the answer on a panel: what ships and why, held-out figures, and each member."""
    fit, unit = panel_run.panel_fit, interval_unit(panel_run.level)
    shipped_text, result_text = "a panel with learned weights", "does better"
    if fit.kind == "own":
        shipped_text = "the best single judge, and no panel"
        result_text = "does not clearly do better"
    sentences = [
        f"On {count_text(fit.gain.n_documents, 'document')}, each scored with weights learned on "
        f"the other documents, a panel {result_text} than the judge that is best on the other "
        f"documents: {number_text(fit.gain.value, signed=True)} rho ± "
        f"{number_text(fit.gain.standard_error)} (standard error)."
    ]
    for name, figures in panel_run.splits.by_name.items():
        difference, best = figures["difference"], figure_text(figures["own"])
        sentences.append(
            f"On {SPLIT_TITLES[name]} ({count_text(difference.n, unit)}), {panel_run.figure_name}: "
            f"best single judge {best}, chosen {figure_text(figures['panel'])}, difference "
            f"{figure_text(difference, signed=True)}."
        )
    sentences += [f"{name} is left out: it {reason}." for name, reason in fit.why_excluded.items()]
    score_command = command_text("score", panel_run.folder, data="rows.jsonl")
    return ReportAnswer(
        title=f"A panel for {panel_run.dimension}",
        headline=f"What ships is {shipped_text} ({fit.best_member} is the best alone).",
        reasons=[("", sentence) for sentence in sentences],
        tables=[_member_table(panel_run)],
        next_steps=[panel_run.why_no_judge or f"`{score_command}` judges your own rows."],
    )


def _member_table(panel_run: PanelRun) -> ReportTable:
    fit, weights, rows = panel_run.panel_fit, panel_run.weights, list[tuple[str, ...]]()
    entry_by_name = {entry.name: entry for entry in panel_run.judge_entries}
    for name in sorted(fit.rho_alone, key=lambda name: (-weights[name], -fit.rho_alone[name])):
        entry, gain = entry_by_name[name], fit.rho_added[name]
        dollars_text = cost_text(entry.usage.cost_per_1000_rows) if entry.judge else "recorded"
        gain_text = f"{number_text(gain.value, signed=True)} ± {number_text(gain.standard_error)}"
        rho_text = number_text(fit.rho_alone[name])
        rows.append((name, f"{weights[name]:.3f}", rho_text, gain_text, dollars_text))
    return ReportTable(("member", "weight", "alone", "adds", "1,000 rows"), rows, ADDS_NOTE)
