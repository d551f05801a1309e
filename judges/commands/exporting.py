"""python -m judges export: a judge in another ecosystem's format."""

import argparse
from pathlib import Path

from judges.commands.options import JUDGE
from judges.loading import load
from judges.tables.landing import write_whole

ABOUT = """\
Write a judge in another ecosystem's format, as far as that can hold it.

{formats}

What a format cannot hold is refused, or named on stderr: a judge that asks
otherwise than it was measured is another judge.

examples:
  python -m judges export runs/relevance-001 --to messages
  python -m judges export judge.json --to mlflow --out relevance_judge.py"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from judges.export import FORMATS

    lines = "\n".join(f"{name:<15}{form.about}" for name, form in FORMATS.items())
    parser = commands.add_parser(
        "export",
        help="a judge in another ecosystem's format",
        description=ABOUT.format(formats=lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("judge", metavar="JUDGE", help=JUDGE)
    parser.add_argument(
        "--to", required=True, choices=tuple(FORMATS), metavar="FORMAT", help="one of those above"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file (stdout)")
    parser.add_argument("--force", action="store_true", help="write over an existing --out")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import sys

    from judges.export import FORMATS

    judge = load(args.judge)
    form = FORMATS[args.to]
    text = form.write(judge)
    for warning in form.lost(judge):
        print(f"note: {warning}", file=sys.stderr)
    if args.out is None:
        print(text, end="" if text.endswith("\n") else "\n")
    else:
        write_whole(args.out, text.encode("utf-8"), overwrite=args.force)
    return 0
