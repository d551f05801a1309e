"""The command `panel`: several judges joined in one, measured beside the best of them."""

import sys

from dspy_judges.startup import run as start

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(start("optimize.panel:command"))

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from judges.cli.flags import split_name
from judges.labels.readers import is_constructed
from judges.labels.splits import split
from judges.labels.types import LabelledPairs
from judges.panel import AnyJudge, Member, Panel
from judges.terminal import print_lines, print_note
from optimize.compare import (
    add_judges_flags,
    ask_all,
    check_names,
    contrast_of,
    expectation_lines,
    on_common_rows,
    read_judges,
    read_task,
)
from optimize.figures.as_json import DIGITS, Cell, cell, value_cell
from optimize.figures.as_text import (
    SPLITS,
    cell_text,
    cost_text,
    counted,
    number_text,
    table_lines,
    wrapped,
)
from optimize.inputs.flags import Parser, SettingsError, run
from optimize.items import Items, data_counts, tuned_keys
from optimize.measuring.asking import Entry, Task, from_numbers, total_usage
from optimize.measuring.measure import order_figures, rho
from optimize.measuring.panel_learning import Kind, PanelFit, Part, learn_panel
from optimize.measuring.scored import Scored, rows_met
from optimize.report.page import Section, Table, write
from optimize.statistics.intervals import stream
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
    "half": "a panel, half the best single judge and half the mean of all",
    "learned": "a panel with learned weights",
}
TERMS = "adds: the rho that a panel loses without the member ± its standard error."


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
    return run(NAME, parser().parse_intermixed_args(arguments), join, panel_lines)


def join(flags: argparse.Namespace) -> dict[str, Any] | None:
    """What --json prints; None after --dry-run, which prints what to expect alone."""
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
    parts = split_unmet(task, list(judges.values()), flags.seed)
    ids = {name for part in parts.values() for name in part}
    entries = [
        entry.about(_with_ids(entry.items, ids), flags.price) if entry.judge else entry
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
        fit, figures = learn_and_measure(task, scored, parts, flags.seed)
        shipped = [entry for entry in entries if entry.name in {part.name for part in fit.parts}]
        summary = {
            **figures,
            "members": [_member(entry, fit) for entry in entries],
            "cost_per_1000_rows": total_usage(shipped, "cost_per_1000_rows"),
            "cost_usd": total_usage(entries, "cost_usd"),
            "seconds": round(time.monotonic() - began, 3),
            "folder": str(folder),
        }
        if recorded := [entry.name for entry in shipped if not entry.judge]:
            summary["why_no_judge"] = (
                f"No judge.json was written: {', '.join(recorded)} cannot be asked. Name the "
                "judge itself in place of its recording, as JUDGE or JUDGE@MODEL."
            )
        elif fit.kind == "own":
            judges[fit.own].save(folder / JUDGE, overwrite=True)
        else:
            joined = _join(judges, fit.parts)
            met = _with_ids(task.items(joined), parts["learned"])
            provenance = {
                **figures,
                "data": {**figures["data"], "constructed": is_constructed(task.labelled.sha256)},
                "tuned_on": tuned_keys(met, joined.subject),
            }
            replace(joined, provenance=provenance).save(folder / JUDGE, overwrite=True)
        write_json(folder / SUMMARY, summary)
        write_page(folder / REPORT, summary)
    return summary


def split_unmet(task: Task, judges: Sequence[AnyJudge], seed: int) -> dict[str, set[str]]:
    """The ids of the labels to learn from ("learned"), and of those to measure on by name.

    Rows that a member was tuned on would flatter it: they are in no part. Raises LabelError where
    too few are left.
    """
    met = set()
    for judge in judges:
        items = task.items(judge)
        met |= {items.items[row].id for row in rows_met(judge, items)}
    if met:
        print_note(f"note: {counted(len(met), 'row')} left out, on which a member was tuned")
    labelled: Any = task.labelled
    field = "pairs" if isinstance(labelled, LabelledPairs) else "outputs"
    unmet = tuple(item for item in labelled.items if item.id not in met)
    splits = split(replace(labelled, **{field: unmet}), seed=seed)
    parts = {name: set(ids) for name, ids in splits.ids().items()}
    return {"learned": parts.pop("train") | parts.pop("dev"), **parts}


def learn_and_measure(
    task: Task, scored: Mapping[str, Scored], parts: Mapping[str, set[str]], seed: int
) -> tuple[PanelFit, dict[str, Any]]:
    """The panel, and the figures that --json prints of it."""
    scored = on_common_rows(scored)
    first = next(iter(scored.values()))
    ids = [item.id for item in first.items.items]
    rows = {
        split: [row for row, name in enumerate(ids) if name in part]
        for split, part in parts.items()
    }
    learned = first.of_rows(rows["learned"])
    fit = learn_panel(
        {name: each.scores[rows["learned"]] for name, each in scored.items()},
        learned.human,
        learned.documents,
        learned.systems,
        level=task.level,
        pairs=first.is_pairs,
        rng=stream(seed, "panel"),
    )
    numbers = fit.scores({name: each.scores for name, each in scored.items()})
    joined = from_numbers(dict(zip(ids, numbers, strict=True)), pairwise=first.is_pairs)
    panel = task.scored("panel", joined, None)
    return fit, {
        "command": "optimize.panel",
        "dimension": task.dimension,
        "kind": "pairwise" if first.is_pairs else "rating",
        "optimizer": "panel",
        "seed": seed,
        "level": task.level,
        "data": data_counts(task.labelled, first.items),
        "own": fit.own,
        "shipped": fit.kind,
        "gain": fit.gain._asdict(),
        **{
            split: _beside(panel.of_rows(rows[split]), scored[fit.own].of_rows(rows[split]))
            for split in parts
            if split != "learned"
        },
    }


def _beside(panel: Scored, own: Scored) -> dict[str, Cell]:
    """What ships beside the best single judge, where both scored: rho, or accuracy of pairs."""
    both = np.flatnonzero(~np.isnan(panel.scores + own.scores)).tolist()
    panel, own = panel.of_rows(both), own.of_rows(both)

    def figure(scored: Scored) -> Cell:
        each = order_figures(scored) if scored.is_pairs else cell(rho(scored))
        return {**{key: each[key] for key in ("value", "low", "high")}, "n": each["n_documents"]}

    gap = contrast_of(panel, own)
    difference = {**value_cell(gap.value, gap.interval, DIGITS), "n": gap.terms.size}
    return {"own": figure(own), "panel": figure(panel), "difference": difference}


def _with_ids(items: Items, ids: set[str]) -> Items:
    return Items(tuple(item for item in items.items if item.id in ids))


def _join(judges: Mapping[str, Any], parts: Sequence[Part]) -> Panel:
    """The members as one judge, on the first member's subject."""
    members = [Member(judge=judges[part.name], **part._asdict()) for part in parts]
    return Panel.join(members[0].judge.subject, members)


def _member(entry: Entry, fit: PanelFit) -> dict[str, Any]:
    """A member in summary.json: its weight in what ships (0: none), and what it adds to a panel."""
    weights = {part.name: part.weight for part in fit.parts}
    return {
        **entry.described(),
        "weight": round(weights.get(entry.name, 0.0), DIGITS),
        "alone": fit.alone.get(entry.name),
        "adds": fit.adds[entry.name]._asdict() if entry.name in fit.adds else None,
        "passed_over": fit.passed_over.get(entry.name),
    }


def panel_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the terminal shows of a panel."""
    head, rows = _table(summary)
    judge = summary.get("why_no_judge") or f"Judge: {summary['folder']}/{JUDGE}"
    return [*wrapped(*_answer(summary)), "", *table_lines(head, rows), "", *wrapped(TERMS, judge)]


def write_page(path: Path, summary: Mapping[str, Any]) -> None:
    """Write the page of a panel's run."""
    head, rows = _table(summary)
    step = f"`dspy-judges score {summary['folder']} --data rows.jsonl` judges your own rows."
    write(
        path,
        f"A panel for {summary['dimension']}",
        [
            Section(title="Answer", sentences=_answer(summary)),
            Section(title="What to do next", steps=[summary.get("why_no_judge", step)]),
            Section(title="Members", tables=[Table(head=head, rows=rows, caption=TERMS)]),
        ],
    )


def _answer(summary: Mapping[str, Any]) -> list[str]:
    """What ships and why, and how it agrees with people on what was held out."""
    gain, own = summary["gain"], summary["own"]
    better = "does better" if summary["shipped"] != "own" else "does not clearly do better"
    unit = "system" if summary["level"] == "system" else "document"
    symbol = "accuracy" if summary["kind"] == "pairwise" else f"{summary['level']}-level rho"
    return [
        f"{summary['dimension']}: {KINDS[summary['shipped']]} ({own} is the best alone).",
        f"On {counted(gain['n'], 'document')}, each scored by what the others taught, a panel "
        f"{better} than the single judge that they show as best: "
        f"{number_text(gain['value'], signed=True)} rho ± {number_text(gain['error'])} (standard "
        "error).",
        *(
            f"On {title} ({counted(cells['difference']['n'], unit)}), {symbol}: best single judge "
            f"{cell_text(cells['own'])}, chosen {cell_text(cells['panel'])}, difference "
            f"{cell_text(cells['difference'], signed=True)}."
            for split, title in SPLITS.items()
            if (cells := summary.get(split))
        ),
        *(
            f"{row['name']} has no part: it {row['passed_over']}."
            for row in summary["members"]
            if row["passed_over"]
        ),
    ]


def _table(summary: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Each member by weight: what it does alone, adds, and costs."""
    members = [row for row in summary["members"] if row["adds"]]
    return ("member", "weight", "alone", "adds", "1,000 rows"), [
        (
            row["name"],
            f"{row['weight']:.3f}",
            number_text(row["alone"]),
            f"{number_text(row['adds']['value'], signed=True)} ± "
            f"{number_text(row['adds']['error'])}",
            cost_text(row["cost_per_1000_rows"]) if row["lm"] else "recorded",
        )
        for row in sorted(members, key=lambda row: (-row["weight"], -row["alone"]))
    ]
