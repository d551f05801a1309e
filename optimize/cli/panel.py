"""The outside of optimize.panel: which judges are joined, on what labels, and what ships."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, get_args

from data.tables.text import read_json_file
from data.types import LabelError
from judges.cli.arguments import count, read_recordings
from judges.cli.shell import DONE, print_error, print_output, run_command
from judges.define import read_subject
from judges.dimension import Comparison, Subject
from judges.frozen import Missing
from judges.inference.progress import verbose_logging
from judges.judge import Judge
from judges.judgement import AnyJudgement
from judges.panel import Panel
from optimize.cli.compare import (
    JudgesRun,
    add_common_flags,
    check_entries,
    letters_by_name,
    remove_unanswered,
    repeatable,
)
from optimize.cli.tool import Parser
from optimize.figures import number_text
from optimize.items import items_of
from optimize.measuring.entries import Entry, Source, expectation_lines
from optimize.measuring.measure import on_labels_scale
from optimize.measuring.panel import asking, learn, scores_nothing, split_for_panel, untuned_panel
from optimize.measuring.sources import score_items
from optimize.panel.learn import Prefer
from optimize.report.run_report import write_report_at_end
from optimize.run.labels import Labelled
from optimize.run.run_folder import (
    CONFIG,
    JUDGE,
    SPLITS,
    SUMMARY,
    check_fresh,
    open_fresh,
    write_json,
    write_text,
)
from optimize.run.settings import SettingsError
from optimize.search.trial_log import as_json

NAME = "python -m optimize.panel"
MEMBER_SCORES = "members.jsonl"
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
    who = command_parser.add_argument_group("who is joined (each may be NAME=...)")
    who.add_argument(
        "--members",
        nargs="+",
        action="extend",
        default=[],
        metavar="JUDGE",
        help="JUDGE or JUDGE@MODEL, one or more",
    )
    repeatable(who, "--scores", "FILE", "any judge's numbers, as optimize.verify reads them")
    repeatable(
        who, "--replies", "FILE", "any judge's raw replies; of several prompts, each is a member"
    )
    who.add_argument(
        "--own", metavar="NAME", help="the member to beat: yours (the one that agrees best)"
    )
    how = command_parser.add_argument_group("how they are joined")
    how.add_argument("--max-members", type=count, metavar="N", help="at most N of them (all)")
    how.add_argument(
        "--prefer",
        choices=get_args(Prefer),
        default="accuracy",
        help="cost: the cheapest panel within a standard error of the best (accuracy)",
    )
    how.add_argument(
        "--missing",
        choices=get_args(Missing),
        default="fail",
        help="where a member gives no score: the panel fails, or the others' weights are "
        "renormalised (fail)",
    )
    how.add_argument(
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
    run = PanelRun(flags)

    def print_result() -> int:
        with verbose_logging(flags.verbose):
            result = run.execute()
        if result is None:
            return DONE
        if flags.json:
            print_output(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            print_output("\n".join(lines(result)))
        return DONE

    def interrupted() -> str:
        where = f" --out {run.folder}" if run.folder else ""
        return f"interrupted: the same command with --resume{where} goes on from here"

    return run_command(
        NAME, print_result, verbose=flags.verbose, quiet=flags.quiet, interrupted=interrupted
    )


class PanelRun(JudgesRun):
    """One panel from flags to its frozen judge."""

    command = "optimize.panel"
    run_name = "panel"

    def execute(self) -> dict[str, Any] | None:
        """What --json prints; None after --dry-run, which prints what to expect alone."""
        flags, started = self.flags, time.monotonic()
        word = flags.dimension or flags.pairwise
        if word is None or (flags.dimension and flags.pairwise):
            raise SettingsError(
                "say what is judged: --dimension NAME, or --pairwise NAME for pairs"
            )
        subject = on_labels_scale(Judge.of(read_subject(word)), flags.scale).subject
        if flags.data is None:
            return self._untuned(subject)
        entries, labelled = self.entries()
        check_entries(entries, flags, flags.own, "--own")
        splits = split_for_panel(labelled, subject.name, flags.split, flags.seed)
        # Refused before anything is paid for where they cannot be joined.
        untuned_panel(subject, {entry.name: asking(entry) for entry in entries}).freeze()
        if flags.dry_run:
            print_output("\n".join(expectation_lines(entries, None, flags.seed, self.limits())))
            return None
        with ExitStack() as stack:
            folder = self.folder = self.open_folder(stack, entries, labelled)
            write_json(folder / SPLITS, splits.record)
            try:
                outcomes = self.ask(entries, folder)
                panel = learn(
                    subject,
                    outcomes,
                    labelled,
                    splits,
                    own=flags.own,
                    level=None if flags.level == "auto" else flags.level,
                    seed=flags.seed,
                    max_members=flags.max_members,
                    prefer=flags.prefer,
                    missing=flags.missing,
                    letters=self._letters([entry.name for entry in entries]),
                    started=str(read_json_file(folder / CONFIG)["started"]),
                )
            except Exception:
                if not flags.resume:
                    remove_unanswered(folder)
                raise
            judge, notes = panel.judge.without_secrets()
            judge.save(folder / JUDGE, overwrite=True)
            write_text(folder / MEMBER_SCORES, "".join(as_json(row) + "\n" for row in panel.rows))
            # What is answered here, for free, is no call of the run.
            paid = [o for o in outcomes if o.entry.judge is not None and not o.entry.in_process]
            spent = [outcome.use for outcome in paid]
            costs = [use["cost_usd"] for use in spent]
            summary = {
                **panel.summary,
                **({"left_out": list(notes)} if notes else {}),
                "lm_calls": sum(use["lm_calls"] for use in spent),
                "cached_calls": sum(use["cached_calls"] for use in spent),
                "cost_usd": None if None in costs else round(sum(costs), 6),
                "seconds": round(time.monotonic() - started, 3),
                "folder": str(folder),
            }
            write_json(folder / SUMMARY, summary)
            write_report_at_end(folder)
        return summary

    def check_subject(self, name: str, judge: Judge) -> None:
        """Whether they can be joined the panel itself tells; a panel is none of its members."""
        if isinstance(judge, Panel):
            raise SettingsError(f"{name} is a panel itself; join its members instead")
        if (judge.kind == "pairwise") != self.pairwise:
            does = "compares two outputs" if judge.kind == "pairwise" else "rates one output"
            right = "--pairwise" if judge.kind == "pairwise" else "--dimension"
            raise SettingsError(f"{name} {does}, and this panel does not ({right} NAME joins such)")

    def recordings(self, labelled: Labelled) -> list[Entry]:
        items = items_of(labelled, self.dimension)
        entries = []
        for name, (source, judgements) in self._recordings().items():
            try:
                scored = score_items(items, judgements)
            except LabelError as error:
                raise LabelError(f"{name}: {error}") from error
            if reason := scores_nothing(scored.judgements):
                print_error(f"note: {name} gives no labelled output a score ({reason})")
            if scored.n_unjudged:
                print_error(
                    f"note: {name}: {scored.n_unjudged:,} labelled outputs have no record, which "
                    "count as failed"
                )
            entries.append(Entry(name=name, source=source, scored=scored))
        return entries

    def _recordings(self) -> dict[str, tuple[Source, Mapping[str, AnyJudgement]]]:
        """Every recorded member's judgements by id; of a file that is no member, an error."""
        flags = self.flags
        word = flags.dimension or flags.pairwise
        subject = on_labels_scale(Judge.of(read_subject(word)), flags.scale).subject
        sources: tuple[tuple[Source, Any], ...] = (
            ("scores", {"scores": flags.scores, "replies": []}),
            ("replies", {"scores": [], "replies": flags.replies}),
        )
        recorded: dict[str, tuple[Source, Mapping[str, AnyJudgement]]] = {}
        for source, files in sources:
            found = read_recordings(subject, **files, letters=letters_by_name(flags), tie=flags.tie)
            for name, judgements in found.items():
                if name in recorded:
                    raise SettingsError(f"two members are called {name}: name one, as in X=FILE")
                recorded[name] = (source, judgements)
        return recorded

    def _letters(self, names: Sequence[str]) -> dict[str, str]:
        """The letters of each member whose replies are letters."""
        given = letters_by_name(self.flags)
        by_name = {
            name: given.get(name) or given.get(name.partition(":")[0]) or given.get("", "")
            for name in names
        }
        return {name: letters for name, letters in by_name.items() if letters}

    def _untuned(self, subject: Subject) -> dict[str, Any]:
        """Freeze the plain mean, which takes no labels and asks nothing."""
        flags = self.flags
        self.pairwise = isinstance(subject, Comparison)
        members: dict[str, Judge | None] = {}
        for name, _, judge, lm in self._judges():
            if name in members:
                raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")
            members[name] = asking(
                Entry(name=name, source="judge", judge=judge, options={"lm": lm})
            )
        for name in self._recordings():
            if name in members:
                raise SettingsError(f"two judges are called {name}: name one, as in NAME={name}")
            members[name] = None
        if len(members) < 2:
            raise SettingsError("name two judges or more: --members, --scores, --replies")
        panel, _ = untuned_panel(subject, members, missing=flags.missing).without_secrets()
        folder = self.folder = open_fresh(flags.out, self.run_name)
        check_fresh(folder)
        summary = {
            "command": self.command,
            "dimension": subject.name,
            "kind": panel.kind,
            "shipped": "untuned",
            "why": "equal weights, untuned: there are no labels to learn from",
            "missing": flags.missing,
            "members": [
                {
                    "name": member.name,
                    "weight": member.weight,
                    "lm": member.judge and member.judge.lm,
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
    text = [f"{summary['dimension']}: shipped {SHIPPED[summary['shipped']]}", summary["why"], ""]
    width = max(len(member["name"]) for member in summary["members"])
    for member in sorted(summary["members"], key=lambda member: -member["weight"]):
        alone = member.get("test")
        rho = f"  test rho alone {number_text(alone['value'])}" if alone else ""
        cost = member.get("cost_per_1000_rows")
        dollars = "" if not cost else f"  ${cost:.4f} for 1,000 rows"
        text.append(f"  {member['name']:<{width}}  weight {member['weight']:.3f}{rho}{dollars}")
    if "own_judge" in summary:
        text.append("")
        for who, name in ((f"own judge ({summary['own']})", "own_judge"), ("panel", "panel")):
            for split, found in summary[name].items():
                if found is not None:
                    text.append(f"  {who}, {split.replace('_', ' ')}: {_figure(found)}")
        for split, gain in summary["gain"].items():
            ends = ", ".join(number_text(gain[end]) for end in ("low", "high"))
            text.append(
                f"  panel less own judge, {split.replace('_', ' ')}: "
                f"{number_text(gain['value'])} [{ends}]"
            )
    text += ["", f"judge: {summary['folder']}/{JUDGE}"]
    return text


SHIPPED = {
    "own": "the own judge",
    "mean": "the plain mean",
    "learned": "the learned weights",
    "untuned": "the plain mean, untuned",
}


def _figure(found: Mapping[str, Any]) -> str:
    ends = ", ".join(number_text(found[end]) for end in ("low", "high"))
    return (
        f"{found['level']}-level rho {number_text(found['value'])} [{ends}] "
        f"n={found['n_documents']} documents ({found['n_undefined']} undefined, "
        f"{found['n_failed']} failed)"
    )
