"""python -m judges list, show and journal: the judges there are, their prompts, recordings."""

import argparse
import json
import re
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judges.cli.arguments import JUDGE, with_rationale
from judges.dimension import Comparison, Subject
from judges.errors import JudgesError
from judges.inference.progress import visible
from judges.judge import STARTER, Judge, load

ABOUT_LIST = """\
List the judges that come with this package: the texts each reads, its scale,
and the paper that it follows. All can be scored, compared and tuned by name."""
ABOUT_SHOW = """\
Print what a judge is, where it comes from, and the very messages that a model
gets; {{name}} is where a row's text goes. Nothing is asked.

examples:
  python -m judges show relevance
  python -m judges show runs/relevance-001
  python -m judges show mine.yaml --json"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    listing = commands.add_parser(
        "list", help="the judges that come with this package", description=ABOUT_LIST
    )
    listing.add_argument("--json", action="store_true", help="print as JSON, definitions too")
    listing.set_defaults(run=run_list)
    show = commands.add_parser(
        "show", help="what a judge is, and its prompt", description=ABOUT_SHOW
    )
    show.add_argument("judge", metavar="JUDGE", help=JUDGE)
    show.add_argument(
        "--rationale", action="store_true", help="as it would ask for a sentence of reasons first"
    )
    show.add_argument("--json", action="store_true", help="print the same as JSON")
    show.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    from judges import catalog

    subjects = [catalog.find(name) for name in catalog.names()]
    if args.json:
        print(json.dumps([_entry(subject) for subject in subjects], indent=1))
        return 0
    rows = [("name", "kind", "texts", "scale")]
    rows += [(s.name, str(_entry(s)["kind"]), _brief(s), _scale(s)) for s in subjects]
    sources = ["source", *(subject.source for subject in subjects)]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    room = shutil.get_terminal_size((80, 24)).columns - sum(widths)
    for row, source in zip(rows, sources, strict=True):
        cells = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(cells + _short_source(source, room))
    return 0


def run_show(args: argparse.Namespace) -> int:
    judge = load(args.judge)
    if args.rationale:
        judge = with_rationale(judge, args.judge)
    messages = judge.template()
    if args.json:
        print(json.dumps({**_entry(judge.subject), "messages": messages}, indent=1))
        return 0
    print(visible(_heading(judge)))
    for message in messages:
        print(visible(f"\n--- {message['role']} ---\n{message['content']}"))
    return 0


def _heading(judge: Judge) -> str:
    """Name, definition, texts, scale and origin of a judge, wrapped to 79 characters."""
    subject = judge.subject
    lines = [
        f"{judge.name}: {subject.definition}",
        f"kind: {judge.kind}; reads {', '.join(judge.texts)}; scale {_scale(subject)}",
    ]
    if subject.source:
        lines.append(f"source: {subject.source}")
    if judge.plan is not None:
        samples = f" of {judge.plan.samples}" if judge.plan.kind == "mean" else ""
        lines.append(f"frozen for {judge.lm}, plan {judge.plan.kind}{samples}")
    if judge.provenance:
        lines += origin(judge.provenance)
    return "\n".join(line for text in lines for line in textwrap.wrap(text, 79))


def origin(provenance: Mapping[str, Any]) -> list[str]:
    """Where a frozen judge comes from and what was measured, as far as its file says."""
    lines = []
    if "data" in provenance:
        data = provenance["data"]
        lines.append(
            f"{provenance.get('shipped', 'tuned')} judge of optimizer "
            f"{provenance.get('optimizer', '?')}, seed {provenance.get('seed', '?')}, on "
            f"{data['name']} (sha256 {data['sha256'][:12]})"
        )
        if data.get("constructed", data["name"] in STARTER):
            lines.append("its labels were constructed, no person gave them")
    for side in ("seed_judge", "tuned_judge"):
        for split, cell in (provenance.get(side) or {}).items():
            if isinstance(cell, dict) and cell.get("value") is not None:
                lines.append(f"{side.replace('_', ' ')} on {split}: {_cell(cell)}")
    return lines


def _cell(cell: Mapping[str, Any]) -> str:
    """One correlation with its interval, in words."""
    ends = [cell.get("low"), cell.get("high")]
    interval = "" if None in ends else f" [{ends[0]:.3f}, {ends[1]:.3f}]"
    return (
        f"{cell.get('level', '')}-level {cell.get('coefficient', '')} {cell['value']:.3f}"
        f"{interval} n={cell.get('n_documents', '?')} documents"
    )


def _entry(subject: Subject) -> dict[str, object]:
    """What --json prints of a judge."""
    return {
        "name": subject.name,
        "kind": "pairwise" if isinstance(subject, Comparison) else "rating",
        "texts": list(subject.texts),
        "scale": ["A", "B"] if isinstance(subject, Comparison) else list(subject.scale),
        "definition": subject.definition,
        "source": subject.source,
    }


def _brief(subject: Subject) -> str:
    sides = [f"2 x {subject.candidate}"] if isinstance(subject, Comparison) else []
    return ", ".join([*subject.inputs, *sides])


def _scale(subject: Subject) -> str:
    if isinstance(subject, Comparison):
        return "A/B"
    return f"{subject.scale[0]}-{subject.scale[-1]}"


def _short_source(source: str, room: int) -> str:
    """As much as fits: all of it, else the names without the papers' numbers."""
    if len(source) <= room:
        return source
    names = re.sub(r" \([^)]*\)", "", source)
    return textwrap.shorten(names, max(room, 12), placeholder=" ...")


ABOUT_JOURNAL = """\
Say what a journal of replies holds: requests, replies, tokens, by which
models, when, and lines that a crash has damaged. Journals are written beside
a score's output (OUT.replies.jsonl) and in a run's folder (replies.jsonl);
they hold replies and counts, no prompt and no key. --lm replay:FILE answers
from one.

example:
  python -m judges journal runs/relevance-001/replies.jsonl"""


def add_journal(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "journal", help="what a file of replies holds", description=ABOUT_JOURNAL
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a journal; it is only read")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=show_journal)


def show_journal(args: argparse.Namespace) -> int:
    from judges.models.journal import describe

    contents = describe(args.file)
    if contents.n_bytes and not contents.n_requests:
        raise JudgesError(f"{args.file}: holds no reply that could be read; is it a journal?")
    print(json.dumps(asdict(contents), indent=1) if args.json else visible(str(contents)))
    return 0
