"""python -m judges journal: what a file of replies holds."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "journal",
        help="what a file of replies holds",
        description="Say what a journal of replies holds: requests, tokens, models, damage.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from judges.engine.contents import describe

    contents = describe(args.file)
    print(json.dumps(asdict(contents), indent=1) if args.json else contents)
    return 0
