"""dspy-judges list, show and export: the judges there are, their prompts, and these elsewhere."""

import argparse
import json
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.tables.atomic_write import write_atomically
from dspy_judges.errors import UsageError
from judges import catalog
from judges.cli.flags import DEFAULT_LM, follow, reasoning_as_asked
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.loading import load
from judges.panel import Panel
from judges.prompt import SLOT
from judges.scoring import SamplingPlan, sampling_of
from judges.terminal import print_error, print_output, visible

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


def show_list(args: argparse.Namespace) -> int:
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
        # Where it does not fit, without the papers' numbers.
        shown = source if len(source) <= room else re.sub(r" \([^)]*\)", "", source)
        print(cells + textwrap.shorten(shown, max(room, 12), placeholder=" ..."))
    return 0


def show_judge(args: argparse.Namespace) -> int:
    """Print a judge, and what it asks; of a panel its members, and what each of them asks."""
    judge = reasoning_as_asked(load(args.judge), args.judge, args)
    members = judge.members if isinstance(judge, Panel) else ()
    if args.json:
        record = _entry(judge.subject)
        if members:
            record["members"] = [
                {
                    "name": member.name,
                    "weight": member.weight,
                    "lm": member.judge.lm,
                    "messages": member.judge.template(),
                }
                for member in members
            ]
        else:
            record["messages"] = judge.template()
        print(json.dumps(record, indent=1))
        return 0
    lines = [line for text in describe(judge) for line in textwrap.wrap(text, 79)]
    if members:
        lines.append(f"a panel of {len(members)}; where a member gives no score, an output fails")
    lines += [f"  {m.weight:.3f}  {m.name} (asks {m.judge.lm})" for m in members]
    prompts = [(f"{m.name}: ", m.judge.template()) for m in members] or [("", judge.template())]
    for name, messages in prompts:
        for message in messages:
            lines += ["", f"--- {name}{message['role']} ---", message["content"]]
    print_output("\n".join(lines))
    return 0


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


def export(args: argparse.Namespace) -> int:
    """Write a judge as a chat request with {{slots}}, or as the state of a DSPy module."""
    judge = load(args.judge)
    if isinstance(judge, Panel):
        raise UsageError(f"{args.judge} is a panel: export its members' judges one by one")
    if not judge.is_frozen:
        judge = replace(judge, lm=DEFAULT_LM)
    judge = follow(judge, args)
    if judge.plan is None:
        judge = judge.with_plan(SamplingPlan(kind="one"))
    text, lost = _dspy_state(judge) if args.to == "dspy" else _chat_request(judge)
    print_error(f"warning: {lost}")
    if args.out is not None:
        write_atomically(args.out, text.encode("utf-8"))
    else:
        # A terminal would obey control characters; a file or a program gets the exact text.
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    return 0


def _chat_request(judge: Judge) -> tuple[str, str]:
    """The JSON of a chat-completions request, and what it does not hold."""
    from judges.client.openai import Spelling

    messages, plan = judge.template(), judge.resolved_plan()
    *shown, last = (message["content"] for message in messages)
    if any("{{" in text for text in (*shown, SLOT.sub("", last))):
        raise UsageError(
            f"{judge.name}: its prompt has double braces, which a template takes for slots; "
            "use --to dspy"
        )
    spelling = Spelling(judge.lm.removeprefix("openai/"))
    request = {"n": 1, **spelling.body(messages, sampling_of(plan, judge.prompt))}
    lost = (
        f"texts are put in as they are, and the plan {plan.kind} is yours to apply to the replies"
    )
    if judge.kind == "pairwise":
        lost += "; the judge asks in both orders, and counts a choice that flips as a tie"
    return json.dumps(request, indent=1, ensure_ascii=False) + "\n", lost


def _dspy_state(judge: Judge) -> tuple[str, str]:
    """What `RatingJudge(...).load(path)` or `PairwiseJudge(...)` takes; and what it lacks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        judge.program().save(path)
        lost = f"it holds no scale, plan or model; judges.load({judge.name!r}).program() loads it"
        return path.read_text(encoding="utf-8"), lost
