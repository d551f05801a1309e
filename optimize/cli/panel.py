"""The command `panel`: several judges joined in one, measured beside the best of them."""

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from judges.dimension import Subject
from judges.judge import Judge
from judges.loading import read_subject
from judges.panel import Panel
from judges.terminal import DONE, print_error, print_lines, print_note, run_command
from optimize.cli.tool import INTERRUPTED_RUN, Parser, print_json
from optimize.compare import (
    add_judges_flags,
    asking_options,
    check_names,
    expectation_lines,
    read_judges,
    read_task,
)
from optimize.items import Items
from optimize.measuring.asking import Entry, ask_entries, on_labels_scale
from optimize.measuring.panel import (
    asking,
    learn,
    scores_nothing,
    split_for_panel,
    untuned_panel,
)
from optimize.report import charts
from optimize.report.answer import panel_answer
from optimize.report.page import Section, Table, write
from optimize.report.text import cell_text, cost_text, number_text, wrapped
from optimize.run import run_folder
from optimize.run.labels import Labelled, Labels
from optimize.run.run_folder import (
    JUDGE,
    MEMBER_SCORES,
    REPLIES,
    SPLITS,
    SUMMARY,
    write_json,
    write_text,
)
from optimize.run.settings import SettingsError
from optimize.search.trial_log import as_json

NAME = "dspy-judges panel"
ABOUT = """\
Several judges joined in one, whose score is a weighted mean of theirs. Weights
are learned on most documents; on the rest, which is looked at once, the panel
is compared with the best single judge. A frozen panel holds judges that can be
asked: where --scores or --replies have a part in it, no judge.json is written."""

EXAMPLES = """\
examples:
  dspy-judges panel --dimension relevance --data labels.jsonl \\
      relevance@embedded relevance@openai/gpt-4.1-mini --max-cost 2
  dspy-judges panel --dimension coherence --data labels.jsonl \\
      coherence@embedded --replies gpt4.jsonl --scores other.jsonl

Without --data it is the plain mean, untuned. It ends with 0; 1 where it failed;
2 for wrong usage; 130 where it was interrupted (the same command again goes on,
and pays nothing twice)."""


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} --dimension NAME JUDGE ... [options]",
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
        summary = PanelRun(flags).execute()
        if summary is not None and flags.json:
            print_json(summary)
        elif summary is not None:
            print_lines(lines(summary))
        return DONE

    return run_command(
        NAME,
        print_result,
        verbose=flags.verbose,
        quiet=flags.quiet,
        interrupted=INTERRUPTED_RUN,
    )


class PanelRun:
    """One panel from flags to its frozen judge."""

    command = "optimize.panel"
    _labels_split: Labels | None = None

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.pairwise = bool(flags.pairwise)

    def execute(self) -> dict[str, Any] | None:
        """What --json prints; None after --dry-run, which prints what to expect alone."""
        flags, started = self.flags, time.monotonic()
        if bool(flags.dimension) == bool(flags.pairwise):
            raise SettingsError(
                "say what is judged: --dimension NAME, or --pairwise NAME for pairs"
            )
        subject = self.subject()
        judges = read_judges(flags.judges, flags.scale, flags.lm, flags.api_base)
        for entry in judges:
            assert entry.judge is not None
            self.check_subject(entry.name, entry.judge)
        if flags.data is None:
            return self._untuned(subject, judges)
        task, entries = read_task(flags, judges, any_subject=True)
        check_names(entries)
        live = {entry.name: judge for entry in entries if (judge := asking(entry)) is not None}
        labels = self.labels(task.labelled, list(live.values()))
        entries = [
            entry.about(self.items_to_judge(entry.items, labels), flags.price)
            if entry.judge
            else entry
            for entry in entries
        ]
        for entry in entries:
            if entry.scored is not None and (why := scores_nothing(entry.scored.judgements)):
                print_error(f"warning: {entry.name} gives no labelled output a score ({why})")
        if live:
            # Refused before anything is paid for where they cannot be joined, or written down.
            untuned_panel(subject, live).dumps()
        if flags.dry_run:
            print_lines(expectation_lines(entries))
            return None
        with self.open_run(entries, task.labelled) as folder:
            write_json(folder / SPLITS, labels.split)
            options = {**asking_options(flags), "store": folder / REPLIES}
            outcomes = ask_entries(entries, task, print_note, seed=flags.seed, **options)
            for outcome in outcomes:
                if outcome.scored is None:
                    raise SettingsError(
                        f"{outcome.name} has no scores: {outcome.reason}; the same command "
                        "again goes on (with a larger limit), or leave it out"
                    )
            panel = learn(
                subject,
                outcomes,
                labels,
                level=None if flags.level == "auto" else flags.level,
                seed=flags.seed,
                started=run_folder.started_at(folder),
            )
            summary = dict(panel.summary)
            if panel.judge is None:
                summary["why_no_judge"] = _why_no_judge(summary)
            else:
                panel.judge.save(folder / JUDGE, overwrite=True)
            write_text(folder / MEMBER_SCORES, "".join(as_json(row) + "\n" for row in panel.rows))
            # What is answered here, for free, is no call of the run.
            usages = [outcome.usage for outcome in outcomes if not outcome.in_process]
            costs = [usage["cost_usd"] for usage in usages]
            summary |= {
                "lm_calls": sum(usage["lm_calls"] for usage in usages),
                "cost_usd": None if None in costs else round(sum(costs), 6),
                "seconds": round(time.monotonic() - started, 3),
                "folder": str(folder),
            }
            write_json(folder / SUMMARY, summary)
            write_page(folder / run_folder.REPORT, summary)
        return summary

    def open_run(
        self, entries: Sequence[Entry], labelled: Labelled | None
    ) -> AbstractContextManager[Path]:
        """The run's folder, begun or gone on with."""
        config = {
            "command": self.command,
            "settings": {"dimension": self.subject().name, "seed": self.flags.seed},
            "data": {"name": labelled.name, "sha256": labelled.sha256} if labelled else {},
            "judges": [entry.name for entry in entries],
        }
        return run_folder.open_run(self.flags.out, "panel", config, print_note)

    def labels(self, labelled: Labelled, judges: Sequence[Judge]) -> Labels:
        """What weights are learned from, and what is looked at once; split when first asked for."""
        if self._labels_split is None:
            self._labels_split, notes = split_for_panel(
                labelled, self.subject().name, self.flags.seed, judges
            )
            for note in notes:
                print_note(f"note: {note}")
        return self._labels_split

    def items_to_judge(self, items: Items, labels: Labels) -> Items:
        """What is learned from or measured on: no other reply is paid for."""
        parts = (labels.learned, *labels.measured.values())
        ids = {item.id for part in parts for item in part.items}
        return Items(tuple(item for item in items.items if item.id in ids))

    def subject(self) -> Subject:
        """What is judged, on the labels' scale."""
        name = self.flags.dimension or self.flags.pairwise
        return on_labels_scale(Judge.of(read_subject(name)), self.flags.scale).subject

    def check_subject(self, name: str, judge: Judge) -> None:
        """Whether they can be joined the panel itself tells; a panel is none of its members."""
        if isinstance(judge, Panel):
            raise SettingsError(f"{name} is a panel itself; join its members instead")
        if (judge.kind == "pairwise") != self.pairwise:
            pairs = judge.kind == "pairwise"
            task = "compares two outputs" if pairs else "rates one output"
            flag = "--pairwise" if pairs else "--dimension"
            raise SettingsError(f"{name} {task}, and this panel does not ({flag} NAME joins such)")

    def _untuned(self, subject: Subject, entries: Sequence[Entry]) -> dict[str, Any]:
        """Freeze the plain mean, which takes no labels and asks nothing."""
        flags = self.flags
        if flags.scores or flags.replies:
            raise SettingsError(
                "--scores and --replies: a frozen panel holds judges to ask, and without "
                "--data nothing is measured; leave them out"
            )
        check_names(entries)
        judges = {entry.name: judge for entry in entries if (judge := asking(entry)) is not None}
        panel = untuned_panel(subject, judges)
        summary: dict[str, Any] = {
            "command": self.command,
            "dimension": subject.name,
            "kind": panel.kind,
            "shipped": "untuned",
            "why": "equal weights, untuned: there are no labels to learn from",
            "members": [
                {"name": name, "weight": 1 / len(judges), "lm": judge.lm}
                for name, judge in judges.items()
            ],
        }
        with self.open_run(entries, None) as folder:
            panel.save(folder / JUDGE, overwrite=True)
            summary["folder"] = str(folder)
            write_json(folder / SUMMARY, summary)
        return summary


def _why_no_judge(summary: Mapping[str, Any]) -> str:
    recorded = [
        member["name"] for member in summary["members"] if member["weight"] and member["lm"] is None
    ]
    are = "is a recording" if len(recorded) == 1 else "are recordings"
    return (
        f"No judge.json was written: {', '.join(recorded)} {are}, and a frozen panel holds judges "
        "that can be asked. Name the judges themselves, as JUDGE or JUDGE@MODEL"
    )


def lines(summary: Mapping[str, Any]) -> list[str]:
    """What the terminal shows of a panel."""
    answer = panel_answer(summary) if "panel" in summary else []
    lead = [line for _, sentence in answer for line in wrapped(sentence)]
    shipped = f"{summary['dimension']}: shipped {SHIPPED[summary['shipped']]}"
    text = [*lead, *([""] if lead else []), shipped, *wrapped(summary["why"]), ""]
    width = max(len(member["name"]) for member in summary["members"])
    for member in sorted(summary["members"], key=lambda member: -member["weight"]):
        test = member.get("test")
        rho = f"  test rho alone {number_text(test['value'])}" if test else ""
        cost = member.get("cost_per_1000_rows")
        dollars = "" if not cost else f"  ${cost:.4f} for 1,000 rows"
        text.append(f"  {member['name']:<{width}}  weight {member['weight']:.3f}{rho}{dollars}")
    if "own_judge" in summary:
        text.append("")
        for title, name in ((f"best judge ({summary['own']})", "own_judge"), ("panel", "panel")):
            for split, rho in summary[name].items():
                if rho is not None:
                    text.append(f"  {title}, {split.replace('_', ' ')}: {_rho_text(rho)}")
        for split, gain in summary["gain"].items():
            ends = ", ".join(number_text(gain[end]) for end in ("low", "high"))
            text.append(
                f"  panel less best judge, {split.replace('_', ' ')}: "
                f"{number_text(gain['value'])} [{ends}]"
            )
    why = summary.get("why_no_judge")
    text += ["", *(wrapped(why) if why else [f"judge: {summary['folder']}/{JUDGE}"])]
    return text


SHIPPED = {
    "own": "the best single judge",
    "mean": "the plain mean",
    "learned": "the learned weights",
    "untuned": "the plain mean, untuned",
}


def _rho_text(rho: Mapping[str, Any]) -> str:
    ends = ", ".join(number_text(rho[end]) for end in ("low", "high"))
    return f"rho {number_text(rho['value'])} [{ends}] n={rho['n_documents']} documents"


def write_page(path: Path, summary: Mapping[str, Any]) -> None:
    """Write the page of a panel: how what ships agrees with people, and what each member adds."""
    shares = {
        f"{title}{where}": summary["order"][split][judge]
        for split, where in (("test", ""), ("test_unseen_systems", ", unseen systems"))
        if split in summary["order"]
        for judge, title in (("panel", "what ships"), ("own_judge", "best single judge"))
    }
    members = [
        (
            member["name"],
            f"{member['weight']:.3f}",
            number_text(member["rho_alone"]),
            number_text(member["adds"], signed=True),
            cost_text(member["cost_per_1000"]),
        )
        for member in summary["composition"]["members"]
    ]
    alone = [(member["name"], cell_text(member["test"])) for member in summary["members"]]
    write(
        path,
        f"A panel for {summary['dimension']}",
        [
            Section(
                title="Answer",
                said=[("Shipped", SHIPPED[summary["shipped"]]), *panel_answer(summary)],
            ),
            Section(title="In a picture", charts=[charts.shares(shares)]),
            Section(title="What to do next", steps=[summary["why"]]),
            Section(
                title="Figures",
                tables=[
                    Table(
                        head=("judge", "weight", "rho alone", "adds", "1,000 rows"),
                        rows=members,
                        caption="adds: the rho that the panel loses without this judge.",
                    ),
                    Table(head=("judge", "rho on test"), rows=alone),
                ],
            ),
        ],
    )
