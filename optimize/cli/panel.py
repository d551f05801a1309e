"""The outside of optimize.panel: which judges are joined, on what labels, and what ships."""

import argparse
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from data.types import LabelError
from judges.cli.arguments import count, read_recordings
from judges.cli.shell import print_error, print_lines, print_note
from judges.define import read_subject
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.panel import Panel
from optimize.answer import panel_answer
from optimize.cli.compare import (
    JudgesRun,
    add_common_flags,
    add_recording_flags,
    check_entries,
    check_names,
    has_replies,
)
from optimize.cli.tool import Parser
from optimize.figures import WIDTH, number_text
from optimize.items import Items, items_of
from optimize.measuring.entries import Entry, Source
from optimize.measuring.measure import on_labels_scale
from optimize.measuring.panel import (
    asking,
    learn,
    scores_nothing,
    split_for_panel,
    untuned_panel,
)
from optimize.measuring.sources import score_items
from optimize.panel.learn import Prefer
from optimize.report.run_report import write_report_at_end
from optimize.run import run_folder
from optimize.run.labels import Labelled, Labels
from optimize.run.run_folder import (
    CONFIG,
    JUDGE,
    MEMBER_SCORES,
    SPLITS,
    SUMMARY,
    check_fresh,
    open_fresh,
    write_json,
    write_text,
)
from optimize.run.settings import SettingsError, values_of
from optimize.search.trial_log import as_json

NAME = "python -m optimize.panel"
ABOUT = """\
Several judges joined in one frozen judge, whose score is a weighted mean of
theirs. Judges that err differently are often better together than the best of
them; how much, and with which weights, your labels say.

A member is a JUDGE (a catalogue name, a frozen judge's file, a run folder) by
its own model or as JUDGE@MODEL by another, or what any judge gave before:
--scores and --replies, called by the file's stem. Members may be of other
dimensions on the same scale. Weights are learned on most documents; on the
rest, which is looked at once, the panel is compared with your own judge
(--own). It ships the own judge, the plain mean or the learned weights, by what
holds on documents and systems that no weight was learned from."""

EXAMPLES = """\
examples:
  python -m optimize.panel --dimension relevance --data labels.jsonl \\
      --members relevance@embedded relevance@openai/gpt-4.1-mini --max-cost 2
  python -m optimize.panel --dimension coherence --data labels.jsonl \\
      --members coherence@embedded --replies gpt4.jsonl --scores other.jsonl \\
      --own gpt4
  python -m optimize.verify runs/panel-001 --data new.jsonl \\
      --replies gpt4.jsonl --scores other.jsonl

Without --data it is the plain mean, untuned. It ends with 0; 1 where it failed;
2 for wrong usage; 130 where it was interrupted (the same command with --resume
goes on, and pays nothing twice)."""


def parser() -> argparse.ArgumentParser:
    command_parser = Parser(
        prog=NAME,
        usage=f"{NAME} --dimension NAME --members JUDGE ... [options]",
        description=ABOUT,
        epilog=EXAMPLES,
        allow_abbrev=False,
    )
    members = command_parser.add_argument_group("who is joined (each may be NAME=...)")
    members.add_argument(
        "--members",
        nargs="+",
        action="extend",
        default=[],
        metavar="JUDGE",
        help="JUDGE or JUDGE@MODEL, one or more",
    )
    add_recording_flags(members)
    members.add_argument(
        "--own", metavar="NAME", help="the member to beat: yours (the one that agrees best)"
    )
    joining = command_parser.add_argument_group("how they are joined")
    joining.add_argument("--max-members", type=count, metavar="N", help="at most N of them (all)")
    joining.add_argument(
        "--prefer",
        choices=get_args(Prefer),
        default="accuracy",
        help="cost: the cheapest panel within a standard error of the best (accuracy)",
    )
    joining.add_argument(
        "--split",
        choices=("document", "system", "both"),
        help="what is held out for the test (both, where there are systems enough)",
    )
    add_common_flags(command_parser, "panel")
    return command_parser


def command(arguments: Sequence[str]) -> int:
    """Join the members and print what ships."""
    flags = parser().parse_args(arguments)
    # As the run over several judges has them, all of which are members here.
    flags.judges, flags.lm = flags.members, []
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
            if flags.resume:
                raise SettingsError("--resume: without --data nothing is asked; leave it out")
            return self._untuned(subject)
        entries, labelled = self.entries()
        check_entries(entries, flags, flags.own, "--own")
        labels = self.labels(labelled, [entry.judge for entry in entries if entry.judge])
        # Refused before anything is paid for where they cannot be joined, or written down.
        live = {entry.name: judge for entry in entries if (judge := asking(entry)) is not None}
        if live:
            untuned_panel(subject, live).dumps()
        if flags.prefer == "cost":
            for entry in entries:
                if entry.expected_cost is None:
                    raise SettingsError(
                        f"--prefer cost: the price of {entry.lm} is not known; give --price "
                        f"{entry.name}=IN,OUT"
                    )
        if flags.dry_run:
            print_lines(self.expectation_lines(entries))
            return None
        with self.running(entries, labelled) as folder:
            write_json(folder / SPLITS, labels.split)
            outcomes = self.ask(entries, folder)
            for outcome in outcomes:
                if outcome.scored is None:
                    resume = "go on with --resume" if has_replies(folder) else "start again"
                    raise SettingsError(
                        f"{outcome.entry.name} has no scores: {outcome.reason}; {resume} and a "
                        "larger limit, or leave it out and start anew"
                    )
            panel = learn(
                subject,
                outcomes,
                labels,
                own=flags.own,
                level=None if flags.level == "auto" else flags.level,
                seed=flags.seed,
                max_members=flags.max_members,
                prefer=flags.prefer,
                started=run_folder.started(folder),
            )
            if panel.judge is not None:
                panel.judge.save(folder / JUDGE, overwrite=True)
            write_text(folder / MEMBER_SCORES, "".join(as_json(row) + "\n" for row in panel.rows))
            # What is answered here, for free, is no call of the run.
            usages = [outcome.usage for outcome in outcomes if not outcome.entry.in_process]
            costs = [usage["cost_usd"] for usage in usages]
            summary = {
                **panel.summary,
                "lm_calls": sum(usage["lm_calls"] for usage in usages),
                "cached_calls": sum(usage["cached_calls"] for usage in usages),
                "cost_usd": None if None in costs else round(sum(costs), 6),
                "seconds": round(time.monotonic() - started, 3),
                "folder": str(folder),
            }
            write_json(folder / SUMMARY, summary)
            write_report_at_end(folder)
        return summary

    def labels(self, labelled: Labelled, judges: Sequence[Judge]) -> Labels:
        """What weights are learned from, and what is looked at once; split when first asked for."""
        if self._labels_split is None:
            flags = self.flags
            self._labels_split, notes = split_for_panel(
                labelled, self.subject().name, flags.split, flags.seed, judges
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
        items = items_of(labelled, self.dimension)
        entries = []
        for name, (source, judgements) in self._recordings().items():
            try:
                scored = score_items(items, judgements)
            except LabelError as error:
                raise LabelError(f"{name}: {error}") from error
            if reason := scores_nothing(scored.judgements):
                print_error(f"warning: {name} gives no labelled output a score ({reason})")
            if scored.n_unjudged:
                print_error(
                    f"warning: {name}: {scored.n_unjudged:,} labelled outputs have no record, and "
                    "count as failed"
                )
            entries.append(Entry(name=name, source=source, scored=scored))
        return entries

    def _recordings(self) -> dict[str, tuple[Source, Mapping[str, AnyJudgement]]]:
        """Every recorded member's judgements by id."""
        flags, subject = self.flags, self.subject()
        recorded: dict[str, tuple[Source, Mapping[str, AnyJudgement]]] = {}
        by_source: tuple[tuple[Source, dict[str, dict[str, AnyJudgement]]], ...] = (
            ("scores", read_recordings(subject, flags.scores, [])),
            (
                "replies",
                read_recordings(subject, [], flags.replies, values=values_of(flags.values)),
            ),
        )
        for source, recordings in by_source:
            for name, judgements in recordings.items():
                if name in recorded:
                    raise SettingsError(f"two members are called {name}: name one, as in X=FILE")
                recorded[name] = (source, judgements)
        return recorded

    def _untuned(self, subject: Subject) -> dict[str, Any]:
        """Freeze the plain mean, which takes no labels and asks nothing."""
        flags = self.flags
        self.pairwise = isinstance(subject, Comparison)
        if flags.scores or flags.replies:
            raise SettingsError(
                "--scores and --replies need --data: a panel asks its judges, and recordings can "
                "only be measured against labels"
            )
        entries = self._judges()
        check_names([entry.name for entry in entries], "--members")
        judges = {entry.name: judge for entry in entries if (judge := asking(entry)) is not None}
        panel = untuned_panel(subject, judges)
        folder = self.folder = open_fresh(flags.out, self.run_name)
        check_fresh(folder)
        summary = {
            "command": self.command,
            "dimension": subject.name,
            "kind": panel.kind,
            "shipped": "untuned",
            "why": "equal weights, untuned: there are no labels to learn from",
            "members": [
                {
                    "name": member.name,
                    "weight": member.weight,
                    "lm": member.judge.lm,
                }
                for member in panel.members
            ],
            "folder": str(folder),
        }
        write_json(folder / CONFIG, {"command": self.command, "dimension": subject.name})
        panel.save(folder / JUDGE)
        write_json(folder / SUMMARY, summary)
        return summary


def lines(summary: Mapping[str, Any]) -> list[str]:
    """What the terminal shows of a panel."""
    answer = panel_answer(summary) if "panel" in summary else []
    lead = [textwrap.fill(sentence, WIDTH) for sentence in answer]
    shipped = f"{summary['dimension']}: shipped {SHIPPED[summary['shipped']]}"
    text = [*lead, *([""] if lead else []), shipped, summary["why"], ""]
    width = max(len(member["name"]) for member in summary["members"])
    for member in sorted(summary["members"], key=lambda member: -member["weight"]):
        test = member.get("test")
        rho = f"  test rho alone {number_text(test['value'])}" if test else ""
        cost = member.get("cost_per_1000_rows")
        dollars = "" if not cost else f"  ${cost:.4f} for 1,000 rows"
        text.append(f"  {member['name']:<{width}}  weight {member['weight']:.3f}{rho}{dollars}")
    if "own_judge" in summary:
        text.append("")
        for title, name in ((f"own judge ({summary['own']})", "own_judge"), ("panel", "panel")):
            for split, rho in summary[name].items():
                if rho is not None:
                    text.append(f"  {title}, {split.replace('_', ' ')}: {_rho_text(rho)}")
        for split, gain in summary["gain"].items():
            ends = ", ".join(number_text(gain[end]) for end in ("low", "high"))
            text.append(
                f"  panel less own judge, {split.replace('_', ' ')}: "
                f"{number_text(gain['value'])} [{ends}]"
            )
    recordings = [
        member["name"]
        for member in summary["members"]
        if member["weight"] and member.get("source", "judge") in ("scores", "replies")
    ]
    if recordings:
        text += [
            "",
            "no judge is written: a frozen judge asks its members, and "
            f"{', '.join(recordings)} cannot be asked",
            f"scores: {summary['folder']}/{MEMBER_SCORES}",
        ]
    else:
        text += ["", f"judge: {summary['folder']}/{JUDGE}"]
    return text


SHIPPED = {
    "own": "the own judge",
    "mean": "the plain mean",
    "learned": "the learned weights",
    "untuned": "the plain mean, untuned",
}


def _rho_text(rho: Mapping[str, Any]) -> str:
    ends = ", ".join(number_text(rho[end]) for end in ("low", "high"))
    return (
        f"{rho['level']}-level rho {number_text(rho['value'])} [{ends}] "
        f"n={rho['n_documents']} documents ({rho['n_undefined']} undefined, "
        f"{rho['n_failed']} failed)"
    )
