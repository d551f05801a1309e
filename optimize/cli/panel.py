"""The command `panel`: several judges joined in one, measured beside the best of them."""

import argparse
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any

from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.loading import read_subject
from judges.panel import Panel
from judges.terminal import print_error, print_lines, print_note
from optimize.answer import panel_answer
from optimize.cli.compare import (
    JudgesRun,
    add_common_flags,
    check_entries,
)
from optimize.cli.tool import Parser
from optimize.items import Items
from optimize.measuring.entries import Entry
from optimize.measuring.measure import on_labels_scale
from optimize.measuring.panel import (
    asking,
    learn,
    scores_nothing,
    split_for_panel,
    untuned_panel,
)
from optimize.report.run_report import write_report_at_end
from optimize.report.text import WIDTH, number_text
from optimize.run import run_folder
from optimize.run.labels import Labelled, Labels
from optimize.run.run_folder import (
    JUDGE,
    MEMBER_SCORES,
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
    judges = command_parser.add_argument_group("judges (each may be NAME=...) and labels")
    judges.add_argument("judges", nargs="*", metavar="JUDGE", help="or JUDGE@MODEL; repeatable")
    add_common_flags(command_parser, judges, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Join the members and print what ships."""
    flags = parser().parse_intermixed_args(arguments)
    # As the run over several judges has them: here every model is a judge's.
    flags.lm = []
    _, code = PanelRun(flags).run_command(NAME, lambda summary: "\n".join(lines(summary)))
    return code


class PanelRun(JudgesRun):
    """One panel from flags to its frozen judge."""

    command = "optimize.panel"
    run_name = "panel"
    _labels_split: Labels | None = None

    def execute(self) -> dict[str, Any] | None:
        """What --json prints; None after --dry-run, which prints what to expect alone."""
        flags, started = self.flags, time.monotonic()
        if bool(flags.dimension) == bool(flags.pairwise):
            raise SettingsError(
                "say what is judged: --dimension NAME, or --pairwise NAME for pairs"
            )
        subject = self.subject()
        if flags.data is None:
            return self._untuned(subject)
        entries, labelled = self.entries()
        check_entries(entries, flags)
        live = {entry.name: judge for entry in entries if (judge := asking(entry)) is not None}
        labels = self.labels(labelled, list(live.values()))
        if live:
            # Refused before anything is paid for where they cannot be joined, or written down.
            untuned_panel(subject, live).dumps()
        if flags.dry_run:
            print_lines(self.expectation_lines(entries))
            return None
        with self.open_run(entries, labelled) as folder:
            write_json(folder / SPLITS, labels.split)
            outcomes = self.ask(entries, folder)
            for outcome in outcomes:
                if outcome.scored is None:
                    raise SettingsError(
                        f"{outcome.entry.name} has no scores: {outcome.reason}; the same command "
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
            usages = [outcome.usage for outcome in outcomes if not outcome.entry.in_process]
            costs = [usage["cost_usd"] for usage in usages]
            summary |= {
                "lm_calls": sum(usage["lm_calls"] for usage in usages),
                "cached_calls": sum(usage["cached_calls"] for usage in usages),
                "cost_usd": None if None in costs else round(sum(costs), 6),
                "seconds": round(time.monotonic() - started, 3),
                "folder": str(folder),
            }
            write_json(folder / SUMMARY, summary)
            from optimize.report.panel_report import panel_page

            write_report_at_end(folder, lambda: panel_page(summary))
        return summary

    def labels(self, labelled: Labelled, judges: Sequence[Judge]) -> Labels:
        """What weights are learned from, and what is looked at once; split when first asked for."""
        if self._labels_split is None:
            self._labels_split, notes = split_for_panel(
                labelled, self.subject().name, self.flags.seed, judges
            )
            for note in notes:
                print_note(f"note: {note}")
        return self._labels_split

    def items_to_judge(self, items: Items, labelled: Labelled, judges: Sequence[Judge]) -> Items:
        """What is learned from or measured on: no other reply is paid for."""
        labels = self.labels(labelled, judges)
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

    def recordings(self, labelled: Labelled) -> list[Entry]:
        """As compare reads them; what has no record counts as failed."""
        entries = super().recordings(labelled)
        for entry in entries:
            assert entry.scored is not None
            if reason := scores_nothing(entry.scored.judgements):
                print_error(f"warning: {entry.name} gives no labelled output a score ({reason})")
        return entries

    def _untuned(self, subject: Subject) -> dict[str, Any]:
        """Freeze the plain mean, which takes no labels and asks nothing."""
        flags = self.flags
        if flags.scores or flags.replies:
            raise SettingsError(
                "--scores and --replies: a frozen panel holds judges to ask, and without "
                "--data nothing is measured; leave them out"
            )
        self.pairwise = isinstance(subject, Comparison)
        entries = self._judges()
        check_entries(entries, flags)
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
        member["name"]
        for member in summary["members"]
        if member["weight"] and member["source"] in ("scores", "replies")
    ]
    are = "is a recording" if len(recorded) == 1 else "are recordings"
    return (
        f"No judge.json was written: {', '.join(recorded)} {are}, and a frozen panel holds judges "
        "that can be asked. Name the judges themselves, as JUDGE or JUDGE@MODEL"
    )


def lines(summary: Mapping[str, Any]) -> list[str]:
    """What the terminal shows of a panel."""
    answer = panel_answer(summary) if "panel" in summary else []
    lead = [textwrap.fill(sentence, WIDTH) for sentence in answer]
    shipped = f"{summary['dimension']}: shipped {SHIPPED[summary['shipped']]}"
    text = [*lead, *([""] if lead else []), shipped, textwrap.fill(summary["why"], WIDTH), ""]
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
    text += ["", textwrap.fill(why, WIDTH) if why else f"judge: {summary['folder']}/{JUDGE}"]
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
