"""python -m judges list, show and journal: the judges there are, their prompts, recordings."""

import argparse
import json
import re
import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path

from judges.cli.arguments import JUDGE, add_reasoning_flag, reasoning_as_asked
from judges.dimension import Comparison, Subject
from judges.errors import JudgesError
from judges.export import describe, scale_words
from judges.inference.progress import visible
from judges.judge import Judge
from judges.loading import load
from judges.panel import Panel

ABOUT_LIST = """\
List the judges that come with this package: the texts each reads, its scale,
and the paper that it follows. All can be scored, compared and tuned by name;
`python -m judges show NAME` tells all about one."""
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
    listing.add_argument("names", nargs="*", metavar="NAME", help="these alone (all)")
    listing.add_argument("--json", action="store_true", help="print as JSON, definitions too")
    listing.set_defaults(run=run_list)
    show = commands.add_parser(
        "show", help="what a judge is, and its prompt", description=ABOUT_SHOW
    )
    show.add_argument("judge", metavar="JUDGE", help=JUDGE)
    add_reasoning_flag(show)
    show.add_argument(
        "--rationale", action="store_true", help="the former name of --reasoning brief"
    )
    show.add_argument("--json", action="store_true", help="print the same as JSON")
    show.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    from judges import catalog

    subjects = [catalog.find(name) for name in args.names or catalog.names()]
    if args.json:
        print(json.dumps([_entry(subject) for subject in subjects], indent=1))
        return 0
    rows = [("name", "kind", "texts", "scale")]
    rows += [(s.name, str(_entry(s)["kind"]), _brief(s), scale_words(s)) for s in subjects]
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
                "lm": member.judge and member.judge.lm,
                "messages": member.judge and member.judge.template(),
                "map": {"inputs": member.map.inputs, "outputs": member.map.outputs},
            }
            for member in panel.members
        ]
        print(json.dumps({**_entry(panel.subject), "members": members}, indent=1))
        return 0
    print(visible(_heading(panel)))
    rest = "fails" if panel.missing == "fail" else "has the others' weights"
    print(f"a panel of {len(panel.members)}; where a member gives no score, an output {rest}")
    for member in panel.members:
        asks = "recorded" if member.judge is None else f"asks {member.judge.lm}"
        print(visible(f"  {member.weight:.3f}  {member.name} ({asks})"))
    for member in panel.members:
        for message in member.judge.template() if member.judge else ():
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
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a journal, or a run's folder; it is only read"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=show_journal)


def show_journal(args: argparse.Namespace) -> int:
    from judges.models.journal import describe

    file = args.file / "replies.jsonl" if args.file.is_dir() else args.file
    contents = describe(file)
    if contents.n_bytes and not contents.n_requests:
        raise JudgesError(f"{file}: holds no reply that could be read; is it a journal?")
    print(json.dumps(asdict(contents), indent=1) if args.json else visible(str(contents)))
    return 0
