"""python -m judges journal: what a file of replies holds."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from judges.engine.telling import visible
from judges.errors import JudgesError

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
        "journal",
        help="what a file of replies holds",
        description=ABOUT_JOURNAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a journal; it is only read")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=show_journal)


def show_journal(args: argparse.Namespace) -> int:
    from judges.engine.contents import describe

    contents = describe(args.file)
    if contents.n_bytes and not contents.n_requests:
        raise JudgesError(f"{args.file}: holds no reply that could be read; is it a journal?")
    print(json.dumps(asdict(contents), indent=1) if args.json else visible(str(contents)))
    return 0
