"""dspy-judges list and show: the judges there are, and their prompts."""

import argparse
import json
import re
import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

from judges.cli.flags import JUDGE, add_reasoning_flag, reasoning_as_asked
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.loading import load
from judges.panel import Panel
from judges.terminal import visible

# What a frozen judge's file calls the judge that ships, and those that were measured, in words.
SHIPPED = {
    "seed": "untuned judge",
    "tuned": "tuned judge",
    "own": "best single judge",
    "mean": "panel (mean)",
    "learned": "panel (learned weights)",
}
MEASURED = {
    "seed_judge": SHIPPED["seed"],
    "tuned_judge": SHIPPED["tuned"],
    "own_judge": SHIPPED["own"],
    "panel": "panel",
}
ABOUT_LIST = """\
List the judges that come with this package: the texts each reads, its scale,
and the paper that it follows. All can be scored, compared and tuned by name;
`dspy-judges show NAME` tells all about one."""
ABOUT_SHOW = """\
Print what a judge is, where it comes from, and the very messages that a model
gets; {{name}} is where a row's text goes. Nothing is asked.

examples:
  dspy-judges show relevance
  dspy-judges show runs/relevance-001
  dspy-judges show mine.yaml --json"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    listing = commands.add_parser(
        "list", help="the judges that come with this package", description=ABOUT_LIST
    )
    listing.add_argument("names", nargs="*", metavar="NAME", help="these alone (all)")
    listing.add_argument("--json", action="store_true", help="print as JSON, definitions too")
    listing.set_defaults(run=run_list)
    show = commands.add_parser(
        "show", help="what a judge is, and its prompt", description=ABOUT_SHOW
    )
    show.add_argument("judge", metavar="JUDGE", help=JUDGE)
    add_reasoning_flag(show)
    show.add_argument("--json", action="store_true", help="print the same as JSON")
    show.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    from judges import catalog

    subjects = [catalog.find(name) for name in args.names or catalog.names()]
    if args.json:
        print(json.dumps([_entry(subject) for subject in subjects], indent=1))
        return 0
    rows = [("name", "kind", "texts", "scale")]
    rows += [(s.name, str(_entry(s)["kind"]), _brief(s), _scale_words(s)) for s in subjects]
    sources = ["source", *(subject.source for subject in subjects)]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    room = shutil.get_terminal_size((80, 24)).columns - sum(widths)
    for row, source in zip(rows, sources, strict=True):
        cells = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(cells + _short_source(source, room))
    return 0


def run_show(args: argparse.Namespace) -> int:
    judge = reasoning_as_asked(load(args.judge), args.judge, args)
    if isinstance(judge, Panel):
        return _show_panel(judge, as_json=args.json)
    messages = judge.template()
    if args.json:
        print(json.dumps({**_entry(judge.subject), "messages": messages}, indent=1))
        return 0
    print(visible(_heading(judge)))
    for message in messages:
        print(visible(f"\n--- {message['role']} ---\n{message['content']}"))
    return 0


def _show_panel(panel: Panel, *, as_json: bool) -> int:
    """Print a panel's members and weights, and then what each of them asks."""
    if as_json:
        members = [
            {
                "name": member.name,
                "weight": member.weight,
                "lm": member.judge.lm,
                "messages": member.judge.template(),
                "map": {"inputs": member.map.inputs, "outputs": member.map.outputs},
            }
            for member in panel.members
        ]
        print(json.dumps({**_entry(panel.subject), "members": members}, indent=1))
        return 0
    print(visible(_heading(panel)))
    print(f"a panel of {len(panel.members)}; where a member gives no score, an output fails")
    for member in panel.members:
        print(visible(f"  {member.weight:.3f}  {member.name} (asks {member.judge.lm})"))
    for member in panel.members:
        for message in member.judge.template():
            print(visible(f"\n--- {member.name}: {message['role']} ---\n{message['content']}"))
    return 0


def _heading(judge: Judge) -> str:
    """Name, definition, texts, scale and origin of a judge, wrapped to 79 characters."""
    return "\n".join(line for text in describe(judge) for line in textwrap.wrap(text, 79))


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


def _short_source(source: str, room: int) -> str:
    """As much as fits: all of it, else the names without the papers' numbers."""
    if len(source) <= room:
        return source
    names = re.sub(r" \([^)]*\)", "", source)
    return textwrap.shorten(names, max(room, 12), placeholder=" ...")


def describe(judge: Judge) -> list[str]:
    """Name, definition, texts, scale and origin of a judge, a line each."""
    subject = judge.subject
    lines = [
        f"{judge.name}: {subject.definition}",
        f"kind: {judge.kind}; reads {', '.join(judge.texts)}; scale {_scale_words(subject)}",
    ]
    if subject.source:
        lines.append(f"source: {subject.source}")
    if judge.plan is not None:
        samples = f" of {judge.plan.samples}" if judge.plan.kind == "mean" else ""
        lines.append(f"frozen for {judge.lm}, plan {judge.plan.kind}{samples}")
    return lines + (_origin(judge.provenance) if judge.provenance else [])


def _origin(provenance: Mapping[str, Any]) -> list[str]:
    """Where a frozen judge comes from and what was measured, as far as its file says."""
    lines = []
    if data := provenance.get("data"):
        lines.append(
            f"{SHIPPED.get(provenance.get('shipped', 'tuned'), 'judge')} of optimizer "
            f"{provenance.get('optimizer', '?')}, seed {provenance.get('seed', '?')}, on "
            f"{data['name']} (sha256 {data['sha256'][:12]})"
        )
        if data.get("constructed"):
            lines.append("its labels were constructed, no person gave them")
    for side, name in MEASURED.items():
        for split, cell in (provenance.get(side) or {}).items():
            if isinstance(cell, dict) and isinstance(cell.get("value"), int | float):
                lines.append(f"{name} on {split}: {_cell(cell)}")
    return lines


def _cell(cell: Mapping[str, Any]) -> str:
    """One correlation with its interval, in words."""
    ends = [cell.get("low"), cell.get("high")]
    known = all(isinstance(end, int | float) for end in ends)
    interval = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if known else ""
    return (
        f"{cell.get('level', '')}-level {cell.get('coefficient', '')} {cell['value']:.3f}"
        f"{interval} n={cell.get('n_documents', '?')} documents"
    )


def _scale_words(subject: Subject) -> str:
    if isinstance(subject, Comparison):
        return "A/B"
    return f"{subject.scale[0]}-{subject.scale[-1]}"
