"""dspy-judges export: a judge as a chat request or as DSPy's state."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from data.tables.atomic_write import write_atomically
from judges.cli.flags import JUDGE, add_plan_flags, follow
from judges.loading import load
from judges.panel import Panel
from judges.scoring import SamplingPlan
from judges.terminal import print_error, visible

# A judge without a model of its own is written for this one.
DEFAULT_LM = "openai/gpt-4.1-mini"

ABOUT = f"""\
Write a judge for use elsewhere.

messages  a chat-completions request with {{{{slots}}}} for the texts
dspy      the state that dspy.Module.load takes

A frozen judge is written with its own model and plan. Any other is written
for {DEFAULT_LM} and one reply, unless --lm and --plan say otherwise.
What the format does not hold is named on stderr.

examples:
  dspy-judges export relevance --to messages --lm openai/gpt-4.1
  dspy-judges export runs/relevance-001 --to dspy --out state.json"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "export", help="a judge as a chat request or DSPy's state", description=ABOUT
    )
    parser.add_argument("judge", metavar="JUDGE", help=JUDGE)
    parser.add_argument(
        "--to", required=True, choices=("messages", "dspy"), help="the format; see above"
    )
    parser.add_argument(
        "--lm",
        metavar="NAME",
        help=f"the model to write it for (the frozen judge's own, else {DEFAULT_LM})",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file (stdout)")
    add_plan_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from judges.export import FORMATS, ExportError, left_out

    judge = load(args.judge)
    if isinstance(judge, Panel):
        raise ExportError(
            f"{args.judge} is a panel of several judges, and a format holds one prompt: export its "
            "members' judges one by one"
        )
    if not judge.is_frozen:
        judge = replace(judge, lm=DEFAULT_LM)
    judge = follow(judge, args)
    if judge.plan is None:
        judge = judge.with_plan(SamplingPlan(kind="one"))
    text = FORMATS[args.to](judge)
    for warning in left_out(judge, args.to):
        print_error(f"warning: {warning}")
    if args.out is not None:
        write_atomically(args.out, text.encode("utf-8"))
    else:
        # A terminal would obey control characters; a file or a program gets the exact text.
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    return 0
