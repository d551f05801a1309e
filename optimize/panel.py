"""The command `panel`: several judges joined in one, measured beside the best of them."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(start("optimize.panel:command"))

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from judges.cli.flags import split_name
from judges.labels.splits import split
from judges.labels.types import LabelledPairs
from judges.panel import AnyJudge, Member, Panel
from judges.terminal import print_lines, print_note
from optimize.compare import add_judges_flags, ask_all
from optimize.figures.as_json import DIGITS, FLAT, Cell, to_json
from optimize.figures.as_text import (
    SPLITS,
    cost_text,
    counted,
    figure_text,
    number_text,
    table_lines,
    wrapped,
)
from optimize.inputs.flags import Outcome, Parser, SettingsError, run
from optimize.items import DataCounts, Items, tuned_keys
from optimize.measuring.asking import Entry, Task, from_numbers, total_dollars
from optimize.measuring.comparison import contrast_of, on_common_rows
from optimize.measuring.panel_learning import Kind, PanelFit, Part, learn_panel
from optimize.measuring.request import check_names, expectation_lines, read_judges, read_task
from optimize.measuring.scorecard import order_figures, rho
from optimize.measuring.scored import Scored, tuned_rows, with_both_scores
from optimize.report.lead import Lead, figure_tile
from optimize.report.page import Page, Section, write
from optimize.report.sentences import Table
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import stream
from optimize.statistics.two_values import Rate
from optimize.tuning.folder import JUDGE, REPORT, SUMMARY, write_json

NAME = "dspy-judges panel"
ABOUT = """\
Several judges joined in one, whose score is a weighted mean of theirs. The best
single judge ships where joining does not clearly help. Both are measured on
documents that are looked at once. Where --scores or --replies have a part, no
judge.json is written: a frozen panel holds judges that can be asked."""

EXAMPLES = """\
example:
  dspy-judges panel --data labels.jsonl relevance@embedded \\
      relevance@openai/gpt-4.1-mini --scores other.jsonl --max-cost 2

It ends with 0; 1 where it failed; 2 for wrong usage; 130 where it was
interrupted (the same command again goes on, and pays nothing twice)."""

KINDS: Mapping[Kind, str] = {
    "own": "no panel, but the best single judge",
    "learned": "a panel with learned weights",
}
TERMS = "adds: the rho that a panel loses without the member ± its standard error."


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSplit:
    """What ships (`panel`) beside the best single judge (`own`) on one held-out split."""

    own: Rate
    panel: Rate
    difference: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLabels:
    """The ids of the labels that teach a panel, and of those that measure it, by split."""

    learning: frozenset[str]
    measuring: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFigures:
    """What a panel has learned from labels, and its figures on held-out splits by name."""

    command: str = "optimize.panel"
    dimension: str
    kind: Literal["pairwise", "rating"]
    optimizer: str = "panel"
    seed: int
    level: Level
    data: DataCounts
    fit: PanelFit = field(metadata=FLAT)
    splits: Mapping[str, PanelSplit] = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRun:
    """A panel's run; `why_no_judge` is empty where its folder holds a judge.json."""

    figures: PanelFigures
    members: Sequence[Entry]
    seconds: float
    folder: Path
    why_no_judge: str

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each member in what ships; one without a part has none."""
        return {part.name: part.weight for part in self.figures.fit.parts}

    def to_json(self) -> Cell:
        shipped = [entry for entry in self.members if entry.name in self.weights and entry.judge]
        per_1000_rows = (entry.usage.cost_per_1000_rows for entry in shipped)
        cells = {
            **to_json(self.figures),
            "members": [self._member_json(entry) for entry in self.members],
            "cost_per_1000_rows": total_dollars(per_1000_rows),
            "cost_usd": total_dollars(e.usage.cost_usd for e in self.members if e.judge),
            "seconds": self.seconds,
            "folder": str(self.folder),
        }
        return cells | ({"why_no_judge": self.why_no_judge} if self.why_no_judge else {})

    def _member_json(self, entry: Entry) -> Cell:
        """A member's weight in what ships (0: none), and what it adds to a panel."""
        fit = self.figures.fit
        return {
            **entry.to_json(),
            "weight": round(self.weights.get(entry.name, 0.0), DIGITS),
            "alone": fit.alone.get(entry.name),
            "adds": fit.adds[entry.name]._asdict() if entry.name in fit.adds else None,
            "passed_over": fit.passed_over.get(entry.name),
        }


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} --data FILE JUDGE ... [options]",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    add_judges_flags(command_parser, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Join the members and print what ships."""
    return run(NAME, parser().parse_intermixed_args(arguments), join)


def join(flags: argparse.Namespace) -> Outcome | None:
    """Join the members and write the run; None after --dry-run, which only prints its cost."""
    began = time.monotonic()
    if flags.data is None:
        raise SettingsError(
            "--data FILE is needed: without labels nobody knows whether a panel is better than the "
            "best of its members"
        )
    specs = map(split_name, flags.judges)
    loaded = read_judges(flags, specs, flags.lm or "")
    task, entries = read_task(flags, loaded)
    check_names(entries)
    judges = {entry.name: entry.judge for entry in entries if entry.judge}
    if judges:
        # Refused before anything is paid for where they cannot be joined, or written down.
        _join(judges, [Part(name, 1.0) for name in judges]).dumps()
    labels = split_held_out(task, list(judges.values()), flags.seed)
    ids = labels.learning.union(*labels.measuring.values())
    entries = [
        entry.with_items(_with_ids(entry.items, ids), flags.price) if entry.judge else entry
        for entry in entries
    ]
    if flags.dry_run:
        print_lines(expectation_lines(entries))
        return None
    with ask_all(flags, "panel", task, entries) as (folder, entries):
        scored = {entry.name: entry.scored for entry in entries if entry.scored}
        if missing := next((entry for entry in entries if entry.name not in scored), None):
            raise SettingsError(
                f"{missing.name} has no scores: {missing.reason}; the same command again goes on "
                "(with a larger limit), or leave it out"
            )
        figures = learn_and_measure(task, scored, labels, flags.seed)
        result = PanelRun(
            figures=figures,
            members=entries,
            seconds=round(time.monotonic() - began, 3),
            folder=folder,
            why_no_judge=_save(task, figures, entries, labels, folder),
        )
        write_json(folder / SUMMARY, result.to_json())
        write_page(folder / REPORT, result)
    return Outcome(result, panel_lines(result))


def _save(
    task: Task, figures: PanelFigures, entries: Sequence[Entry], labels: PanelLabels, folder: Path
) -> str:
    """Write judge.json; returns why there is none, empty where there is."""
    fit, judges = figures.fit, {entry.name: entry.judge for entry in entries if entry.judge}
    if recorded := [part.name for part in fit.parts if part.name not in judges]:
        return (
            f"No judge.json was written: {', '.join(recorded)} cannot be asked. Name the "
            "judge itself in place of its recording, as JUDGE or JUDGE@MODEL."
        )
    judge: AnyJudge = judges[fit.own]
    if fit.kind != "own":
        joined = _join(judges, fit.parts)
        provenance = to_json(figures)
        provenance["data"]["constructed"] = figures.data.is_constructed
        items = _with_ids(task.items(joined), labels.learning)
        provenance["tuned_on"] = tuned_keys(items, joined.subject)
        judge = replace(joined, provenance=provenance)
    judge.save(folder / JUDGE, overwrite=True)
    return ""


def split_held_out(task: Task, judges: Sequence[AnyJudge], seed: int) -> PanelLabels:
    """The labels without those that a member was tuned on, which would flatter it.

    Raises LabelError where too few are left.
    """
    tuned_ids = set()
    for judge in judges:
        items = task.items(judge)
        tuned_ids |= {items.items[row].id for row in tuned_rows(judge, items)}
    if tuned_ids:
        print_note(f"note: {counted(len(tuned_ids), 'row')} left out, on which a member was tuned")
    labelled: Any = task.labelled
    field = "pairs" if isinstance(labelled, LabelledPairs) else "outputs"
    held_out = tuple(item for item in labelled.items if item.id not in tuned_ids)
    splits = split(replace(labelled, **{field: held_out}), seed=seed)
    parts = {name: frozenset(ids) for name, ids in splits.ids().items()}
    return PanelLabels(learning=parts.pop("train") | parts.pop("dev"), measuring=parts)


def learn_and_measure(
    task: Task, scored: Mapping[str, Scored], labels: PanelLabels, seed: int
) -> PanelFigures:
    """Learn the panel on one part of the labels, and measure it on the others."""
    scored = on_common_rows(scored)
    first = next(iter(scored.values()))
    ids = [item.id for item in first.items.items]

    def rows_of(part: frozenset[str]) -> list[int]:
        return [row for row, name in enumerate(ids) if name in part]

    learning = {name: each.of_rows(rows_of(labels.learning)) for name, each in scored.items()}
    people = next(iter(learning.values()))
    fit = learn_panel(
        {name: each.scores for name, each in learning.items()},
        people.human,
        people.documents,
        people.systems,
        level=task.level,
        pairs=first.is_pairs,
        rng=stream(seed, "panel"),
    )
    numbers = fit.scores({name: each.scores for name, each in scored.items()})
    joined = from_numbers(zip(ids, numbers.tolist(), strict=True), pairwise=first.is_pairs)
    panel = task.scored("panel", joined, None)
    splits = {
        name: _beside(panel.of_rows(rows_of(part)), scored[fit.own].of_rows(rows_of(part)))
        for name, part in labels.measuring.items()
    }
    return PanelFigures(
        dimension=task.dimension,
        kind="pairwise" if first.is_pairs else "rating",
        seed=seed,
        level=task.level,
        data=DataCounts.of(task.labelled, first.items),
        fit=fit,
        splits=splits,
    )


def _beside(panel: Scored, own: Scored) -> PanelSplit:
    """What ships beside the best single judge, where both scored: rho, or accuracy of pairs."""
    panel, own = with_both_scores(panel, own)
    figures = [order_figures(s) if s.is_pairs else rho(s) for s in (own, panel)]
    rates = [Rate(figure.value, figure.interval, figure.n_documents) for figure in figures]
    gap = contrast_of(panel, own)
    difference = Rate(gap.value, gap.interval, gap.terms.size)
    return PanelSplit(own=rates[0], panel=rates[1], difference=difference)


def _with_ids(items: Items, ids: frozenset[str]) -> Items:
    return Items(tuple(item for item in items.items if item.id in ids))


def _join(judges: Mapping[str, Any], parts: Sequence[Part]) -> Panel:
    """The members as one judge, on the first member's subject."""
    members = [Member(judge=judges[part.name], **part._asdict()) for part in parts]
    return Panel.join(members[0].judge.subject, members)


def panel_lines(run: PanelRun) -> list[str]:
    """What the terminal shows of a panel."""
    head, rows = _table(run)
    judge = run.why_no_judge or f"Judge: {run.folder}/{JUDGE}"
    return [*wrapped(*_answer(run)), "", *table_lines(head, rows), "", *wrapped(TERMS, judge)]


def write_page(path: Path, run: PanelRun) -> None:
    """Write the page of a panel's run."""
    head, rows = _table(run)
    step = f"`dspy-judges score {run.folder} --data rows.jsonl` judges your own rows."
    verdict, *sentences = _answer(run)
    split = run.figures.splits["test"]
    figure = "accuracy" if run.figures.kind == "pairwise" else f"{run.figures.level}-level rho"
    pair = {"of the best single judge": split.own, "of what ships": split.panel}
    write(
        path,
        Page(
            title=f"A panel for {run.figures.dimension}",
            lead=Lead(
                verdict=verdict,
                sentences=sentences[:1],
                tiles=[figure_tile(own, f"{figure} {of}") for of, own in pair.items()],
                step=run.why_no_judge or step,
            ),
            sections=[
                Section(title="Figures", sentences=sentences[1:]),
                Section(title="Members", tables=[Table(head, rows, TERMS)]),
            ],
        ),
    )


def _answer(run: PanelRun) -> list[str]:
    """What ships and why, and how it agrees with people on what was held out."""
    figures, fit = run.figures, run.figures.fit
    better = "does better" if fit.kind != "own" else "does not clearly do better"
    unit = "system" if figures.level == "system" else "document"
    symbol = "accuracy" if figures.kind == "pairwise" else f"{figures.level}-level rho"
    return [
        f"{figures.dimension}: {KINDS[fit.kind]} ({fit.own} is the best alone).",
        f"On {counted(fit.gain.n, 'document')}, each scored by what the others taught, a panel "
        f"{better} than the single judge that they show as best: "
        f"{number_text(fit.gain.value, signed=True)} rho ± {number_text(fit.gain.error)} (standard "
        "error).",
        *(
            f"On {title} ({counted(split.difference.n, unit)}), {symbol}: best single "
            f"judge {figure_text(split.own)}, chosen {figure_text(split.panel)}, difference "
            f"{figure_text(split.difference, signed=True)}."
            for name, title in SPLITS.items()
            if (split := figures.splits.get(name))
        ),
        *(f"{name} has no part: it {why}." for name, why in fit.passed_over.items()),
    ]


def _table(run: PanelRun) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Each member by weight: what it does alone, adds, and costs."""
    fit, weights = run.figures.fit, run.weights
    members = [entry for entry in run.members if entry.name in fit.adds]
    members.sort(key=lambda e: (-round(weights.get(e.name, 0.0), DIGITS), -fit.alone[e.name]))
    return ("member", "weight", "alone", "adds", "1,000 rows"), [
        (
            entry.name,
            f"{weights.get(entry.name, 0.0):.3f}",
            number_text(fit.alone[entry.name]),
            f"{number_text(fit.adds[entry.name].value, signed=True)} ± "
            f"{number_text(fit.adds[entry.name].error)}",
            cost_text(entry.usage.cost_per_1000_rows) if entry.judge else "recorded",
        )
        for entry in members
    ]
