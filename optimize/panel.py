"""The command `panel`: several judges joined in one, measured beside the best of them."""

import sys

from dspy_judges.startup import run

if __name__ == "__main__":
    # First, so that no file of the working folder is imported in a library's place.
    sys.exit(run("optimize.panel:command"))

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import data
from data.types import LabelError, LabelledPairs
from judges.judge import Judge
from judges.panel import Member, Panel
from judges.terminal import DONE, print_lines, print_note, run_command
from optimize.compare import (
    add_judges_flags,
    asking_options,
    check_names,
    expectation_lines,
    read_judges,
    read_task,
)
from optimize.figures import DIGITS, Cell, json_number, value_cell
from optimize.flags import INTERRUPTED_RUN, Parser, print_json
from optimize.items import Items, Vector, data_counts, items_of, text_key
from optimize.measuring.asking import Entry, Task, ask_entries
from optimize.measuring.panel_learning import Gain, Kind, PanelFit, learn_panel
from optimize.measuring.scored import Scored, rows_met
from optimize.report.page import Section, Table, write
from optimize.report.text import (
    SPLITS,
    cell_text,
    cost_text,
    counted,
    number_text,
    table_lines,
    wrapped,
)
from optimize.run.folder import JUDGE, REPLIES, REPORT, SUMMARY, open_run, started_at, write_json
from optimize.run.run import versions
from optimize.run.settings import SettingsError
from optimize.statistics.correlations import (
    Correlation,
    Level,
    contrast_judges,
    dataset_level,
    summary_level,
    system_level,
)
from optimize.statistics.intervals import stream
from optimize.statistics.plain import PairAccuracy, contrast_accuracy, pair_accuracy

NAME = "dspy-judges panel"
ABOUT = """\
Several judges joined in one, whose score is a weighted mean of theirs. Weights
are learned on most documents. On the rest, which is looked at once, the panel
is compared with the best single judge, which ships where joining does not
clearly help. A frozen panel holds judges that can be asked: where --scores or
--replies have a part in it, no judge.json is written."""

EXAMPLES = """\
examples:
  dspy-judges panel --data labels.jsonl relevance@embedded \\
      relevance@openai/gpt-4.1-mini --max-cost 2
  dspy-judges panel --dimension coherence --data labels.jsonl \\
      coherence@embedded --replies gpt4.jsonl --scores other.jsonl

It ends with 0; 1 where it failed; 2 for wrong usage; 130 where it was
interrupted (the same command again goes on, and pays nothing twice)."""

KINDS: Mapping[Kind, str] = {
    "own": "the best single judge",
    "half": "a panel, half the best single judge and half the mean of all",
    "learned": "a panel with learned weights",
}
TERMS = (
    "alone: the member's rho on the labels that weights were learned from; adds: the rho that the "
    "panel loses without it, on documents that taught no weights, with its standard error"
)


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} --data FILE JUDGE ... [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )
    add_judges_flags(command_parser, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Join the members and print what ships."""
    flags = parser().parse_intermixed_args(arguments)

    def print_result() -> int:
        summary = join(flags)
        if summary is not None and flags.json:
            print_json(summary)
        elif summary is not None:
            print_lines(panel_lines(summary))
        return DONE

    return run_command(
        NAME,
        print_result,
        verbose=flags.verbose,
        quiet=flags.quiet,
        interrupted=INTERRUPTED_RUN,
    )


def join(flags: argparse.Namespace) -> dict[str, Any] | None:
    """What --json prints; None after --dry-run, which prints what to expect alone."""
    began = time.monotonic()
    if flags.data is None:
        raise SettingsError(
            "--data FILE is needed: without labels nobody knows whether a panel is better than the "
            "best of its members"
        )
    specs = read_judges(flags.judges, flags.scale, flags.lm, flags.api_base)
    task, entries = read_task(flags, specs)
    check_names(entries)
    judges = {entry.name: entry.judge for entry in entries if entry.judge}
    if judges:
        # Refused before anything is paid for where they cannot be joined, or written down.
        _panel([Member(name=name, weight=1, judge=judge) for name, judge in judges.items()]).dumps()
    parts, split = split_unmet(task, list(judges.values()), flags.seed)
    ids = {item.id for items in parts.values() for item in items.items}
    entries = [
        entry.about(_with_ids(entry.items, ids), flags.price) if entry.judge else entry
        for entry in entries
    ]
    if flags.dry_run:
        print_lines(expectation_lines(entries))
        return None
    config = {
        "command": "optimize.panel",
        "settings": {"dimension": task.dimension, "seed": flags.seed},
        "data": {"name": task.labelled.name, "sha256": task.labelled.sha256},
        "judges": [entry.name for entry in entries],
    }
    with open_run(flags.out, "panel", config, print_note) as folder:
        for line in expectation_lines(entries):
            print_note(line)
        options = {**asking_options(flags), "store": folder / REPLIES}
        entries = ask_entries(entries, task, print_note, seed=flags.seed, **options)
        for entry in entries:
            if entry.scored is None:
                raise SettingsError(
                    f"{entry.name} has no scores: {entry.reason}; the same command again goes on "
                    "(with a larger limit), or leave it out"
                )
        scored = {entry.name: entry.scored for entry in entries if entry.scored}
        fit, summary = learn_and_measure(task, scored, parts, flags.seed)
        costs = {entry.name: _cost(entry) for entry in entries}
        summary["members"] = [_member(entry, fit) for entry in entries]
        summary["cost_per_1000_rows"] = json_number(sum(costs[part.name] for part in fit.parts))
        paid = [entry.usage["cost_usd"] for entry in entries if not entry.in_process]
        summary["cost_usd"] = None if None in paid else round(math.fsum(paid), DIGITS)
        recorded = [part.name for part in fit.parts if part.name not in judges]
        if recorded:
            summary["why_no_judge"] = (
                f"No judge.json was written: {', '.join(recorded)} cannot be asked. Name the "
                "judge itself in place of its recording, as JUDGE or JUDGE@MODEL."
            )
        else:
            provenance = {
                "data": {"name": task.labelled.name, "sha256": task.labelled.sha256},
                "split": split,
                "optimizer": "panel",
                **{k: summary[k] for k in ("seed", "level", "shipped", "own", "gain", "test")},
                "versions": versions(),
                "started": started_at(folder),
            }
            judge = _shipped(fit, judges, task, parts["learned"], provenance)
            judge.save(folder / JUDGE, overwrite=True)
        summary |= {"seconds": round(time.monotonic() - began, 3), "folder": str(folder)}
        write_json(folder / SUMMARY, summary)
        write_page(folder / REPORT, summary)
    return summary


def split_unmet(
    task: Task, judges: Sequence[Judge], seed: int
) -> tuple[dict[str, Items], dict[str, Any]]:
    """The labels to learn from ("learned") and to measure on, by name; and which split it is.

    Rows that a member was tuned on would flatter that member: they are in no part. Raises
    LabelError where too few are left.
    """
    met = {
        items.items[row].id
        for judge in judges
        for items in [task.items(judge)]
        for row in rows_met(judge, items)
    }
    rest: Any = task.labelled
    if met:
        print_note(f"note: {counted(len(met), 'row')} left out, on which a member was tuned")
        rest = task.without(met)
    try:
        splits = data.split(rest, seed=seed)
    except LabelError as error:
        if not met:
            raise
        raise LabelError(
            f"{rest.name}: {counted(len(met), 'row')} are left out, on which a member was tuned, "
            "and the others are too few to split: give other labels, or leave the member out"
        ) from error
    learned = (items_of(part, task.dimension).items for part in (splits.train, splits.dev))
    parts = {"learned": Items(tuple(item for items in learned for item in items))}
    parts["test"] = items_of(splits.test, task.dimension)
    if splits.test_unseen_systems is not None:
        parts["test_unseen_systems"] = items_of(splits.test_unseen_systems, task.dimension)
    return parts, {"by": splits.by, "sha256": splits.sha256}


def learn_and_measure(
    task: Task, scored: Mapping[str, Scored], parts: Mapping[str, Items], seed: int
) -> tuple[PanelFit, dict[str, Any]]:
    """The panel, and the figures that --json prints of it."""
    pairs, items = isinstance(task.labelled, LabelledPairs), parts["learned"]
    by_part = {
        split: {name: _scores_on(each, part) for name, each in scored.items()}
        for split, part in parts.items()
    }
    fit = learn_panel(
        by_part["learned"],
        items.human,
        items.document_ids,
        items.system_ids,
        level=task.level,
        pairs=pairs,
        rng=stream(seed, "panel"),
    )
    held_out = {
        split: compare_with_own(
            fit.scores(by_part[split]), by_part[split][fit.own], part, task.level, pairs=pairs
        )
        for split, part in parts.items()
        if split != "learned"
    }
    everything = Items(tuple(item for part in parts.values() for item in part.items))
    return fit, {
        "command": "optimize.panel",
        "dimension": task.dimension,
        "kind": "pairwise" if pairs else "rating",
        "optimizer": "panel",
        "seed": seed,
        "level": task.level,
        "data": data_counts(task.labelled, everything),
        "own": fit.own,
        "shipped": fit.kind,
        "gain": _gain_cell(fit.gain),
        **held_out,
    }


def compare_with_own(
    panel: Vector, own: Vector, items: Items, level: Level, *, pairs: bool
) -> dict[str, Cell]:
    """What ships beside the best single judge, on the outputs that both scored.

    Of pairs the figures are accuracies, else rho.
    """
    failed = np.isnan(panel) | np.isnan(own)
    panel, own = (np.where(failed, np.nan, scores) for scores in (panel, own))
    human, documents, systems = items.human, items.document_ids, items.system_ids

    def figure(scores: Vector) -> Correlation | PairAccuracy:
        if pairs:
            return pair_accuracy(scores, human, documents)
        if level == "system":
            return system_level(scores, human, systems, documents)
        return (summary_level if level == "summary" else dataset_level)(scores, human, documents)

    if pairs:
        contrast = contrast_accuracy(panel, own, human, documents)
    else:
        contrast = contrast_judges(panel, own, human, documents, systems, level=level)
    figures = {"own": figure(own), "panel": figure(panel)}
    difference = value_cell(contrast.value, contrast.interval, DIGITS)
    return {
        **{
            name: {**value_cell(each.value, each.interval, DIGITS), "n": each.n_documents}
            for name, each in figures.items()
        },
        "difference": {**difference, "n": len(contrast.documents)},
    }


def _scores_on(scored: Scored, items: Items) -> Vector:
    """A score for each item; NaN where the judge failed or has no record."""
    by_id = dict(zip((item.id for item in scored.items.items), scored.scores, strict=True))
    return np.array([by_id.get(item.id, np.nan) for item in items.items], float)


def _with_ids(items: Items, ids: set[str]) -> Items:
    return Items(tuple(item for item in items.items if item.id in ids))


def _panel(members: Sequence[Member], provenance: Mapping[str, object] | None = None) -> Panel:
    return Panel.join(members[0].judge.subject, members, provenance=provenance)


def _shipped(
    fit: PanelFit,
    judges: Mapping[str, Judge],
    task: Task,
    learned: Items,
    provenance: Mapping[str, Any],
) -> Judge:
    """What ships as a judge to save: the best single judge, or the panel with what it met."""
    if fit.kind == "own":
        return judges[fit.own]
    members = [
        Member(
            name=part.name,
            weight=part.weight,
            judge=judges[part.name],
            slope=part.slope,
            intercept=part.intercept,
        )
        for part in fit.parts
    ]
    ids = {item.id for item in learned.items}
    met = _with_ids(task.items(_panel(members)), ids)
    return _panel(members, {**provenance, "tuned_on": [text_key(i.texts) for i in met.items]})


def _cost(entry: Entry) -> float:
    """US dollars for 1,000 rows: nothing of what is recorded or asked here; NaN: unknown."""
    cost = 0.0 if entry.in_process else entry.usage["cost_per_1000_rows"]
    return math.nan if cost is None else float(cost)


def _gain_cell(gain: Gain) -> Cell:
    return {
        "value": json_number(gain.value, DIGITS),
        "error": json_number(gain.error, DIGITS),
        "n": gain.n_documents,
    }


def _member(entry: Entry, fit: PanelFit) -> dict[str, Any]:
    """A member in summary.json: its weight in what ships (0: none), and what it adds to a panel."""
    weights = {part.name: part.weight for part in fit.parts}
    known = next((member for member in fit.members if member.name == entry.name), None)
    return {
        **entry.described(),
        "weight": round(weights.get(entry.name, 0.0), DIGITS),
        "alone": known and json_number(known.alone, DIGITS),
        "adds": known and _gain_cell(known.adds),
        "passed_over": fit.passed_over.get(entry.name),
        "cost_per_1000_rows": json_number(_cost(entry)),
    }


def panel_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the terminal shows of a panel."""
    head, rows = _table(summary)
    judge = summary.get("why_no_judge") or f"Judge: {summary['folder']}/{JUDGE}"
    return [*wrapped(*_answer(summary)), "", *table_lines(head, rows), "", *wrapped(judge)]


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
            Section(title="Members", tables=[Table(head=head, rows=rows, caption=f"{TERMS}.")]),
        ],
    )


def _answer(summary: Mapping[str, Any]) -> list[str]:
    """What ships and why, and how it agrees with people on what was held out."""
    gain, own = summary["gain"], summary["own"]
    better = "does better" if summary["shipped"] != "own" else "does not clearly do better"
    reason = "are too few to compare a panel with the best single judge"
    if gain["error"] is not None:
        reason = (
            f"that taught no weights a panel {better} than {own}, the best single judge: "
            f"{number_text(gain['value'], signed=True)} rho, standard error "
            f"{number_text(gain['error'])}"
        )
    symbol = "accuracy" if summary["kind"] == "pairwise" else f"{summary['level']}-level rho"
    return [
        f"{summary['dimension']}: shipped {KINDS[summary['shipped']]}.",
        f"On {counted(gain['n'], 'document')} {reason}.",
        *(
            f"On {title} ({counted(cells['own']['n'], 'document')}), {symbol}: best single judge "
            f"{cell_text(cells['own'])}, what ships {cell_text(cells['panel'])}, difference "
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
            cost_text(row["cost_per_1000_rows"]),
        )
        for row in sorted(members, key=lambda row: (-row["weight"], -row["alone"]))
    ]
