"""python -m judges export: a judge in another ecosystem's format."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from data.tables.atomic_write import write_atomically
from judges.cli.arguments import JUDGE, add_plan_flags, add_quiet_flag, follow
from judges.cli.shell import print_error, print_note
from judges.inference.progress import visible
from judges.judge import Judge
from judges.loading import load
from judges.panel import Panel
from judges.protocol import is_embedded
from judges.scoring import PlanKind, SamplingPlan

# Other tools ask language models; a judge without a model of its own is written for this one.
DEFAULT_LM = "openai/gpt-4.1-mini"

ABOUT = """\
Write a judge in another ecosystem's format, as far as that can hold it.

{formats}

A frozen judge is written for its own model and plan. Any other is written for
--lm ({lm} unless named) and one reply, or the --plan given.
What a format cannot hold is refused, or named on stderr: a judge that asks
otherwise than it was measured is another judge.

examples:
  python -m judges export relevance --to mlflow --lm openai/gpt-4.1
  python -m judges export runs/relevance-001 --to openai-messages
  python -m judges export judge.json --to mlflow --out relevance_judge.py"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from judges.export import ALIASES, FORMATS

    lines = "\n".join(f"{name:<17}{form.about}" for name, form in FORMATS.items())
    parser = commands.add_parser(
        "export",
        help="a judge in another ecosystem's format",
        description=ABOUT.format(formats=lines, lm=DEFAULT_LM),
    )
    parser.add_argument("judge", metavar="JUDGE", help=JUDGE)
    parser.add_argument(
        "--to",
        required=True,
        choices=(*FORMATS, *ALIASES),
        metavar="FORMAT",
        help="one of those above; messages is the former name of openai-messages",
    )
    parser.add_argument(
        "--lm",
        metavar="NAME",
        help=f"the model to write it for (the frozen judge's own, else {DEFAULT_LM})",
    )
    parser.add_argument(
        "--api-base",
        metavar="URL",
        help="the OpenAI-compatible server that the tool asks (the provider's own; for the "
        "embedded model http://127.0.0.1:8000/v1, where python -m judges serve answers)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file (stdout)")
    add_plan_flags(parser)
    add_quiet_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from judges.export import ALIASES, FORMATS, ExportError

    form = FORMATS[ALIASES.get(args.to, args.to)]
    loaded = load(args.judge, api_base=args.api_base)
    if isinstance(loaded, Panel):
        raise ExportError(
            f"{args.judge} is a panel of several judges, and {args.to} holds one prompt: score "
            "with it here, or export one of its members"
        )
    judge = _settled(loaded, args, names_a_model=form.names_a_model)
    text = form.write(judge)
    for warning in form.lost(judge):
        print_error(f"warning: {warning}")
    if args.out is None:
        # Exact for a file or another program, and safe for a terminal.
        text = visible(text) if sys.stdout.isatty() else text
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_atomically(args.out, text.encode("utf-8"), overwrite=False)
    return 0


def _settled(judge: Judge, args: argparse.Namespace, *, names_a_model: bool) -> Judge:
    """The judge with a model and a plan; a frozen judge has both."""
    if judge.plan is None and args.lm is None:
        judge = replace(judge, lm=DEFAULT_LM)
        if names_a_model:
            print_note(
                f"note: {judge.name} has no model of its own, so this is written for {DEFAULT_LM}; "
                "--lm names another"
            )
    judge = follow(judge, args)
    kind: PlanKind = "weighted" if is_embedded(judge.lm) else "one"
    return judge if judge.plan else judge.with_plan(SamplingPlan(kind=kind))
