"""One command from its arguments to its exit code, and one line for whatever fails."""

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from data.tables.problems import DataError
from judges.cli import compare, export, score, show
from judges.cli.arguments import Parser, with_config
from judges.errors import JudgesError
from judges.models.redaction import Redactor

ABOUT = """\
Judge texts with rating judges and pairwise judges: from the catalogue, frozen
after tuning (python -m optimize), or defined in a file of your own. The
embedded model answers offline and for free unless --lm names another."""

EXAMPLES = """\
examples:
  python -m judges list
  python -m judges show relevance
  python -m judges score relevance --data rows.csv --out scored.csv
  python -m judges compare tldr_concise --data pairs.jsonl --out verdicts.jsonl

`python -m judges COMMAND --help` tells each command's flags. Keys are read
from the environment (OPENAI_API_KEY and its like) and written nowhere. A
command ends with 0, or 1 where it failed, 2 for wrong usage, 130 where it was
interrupted (--resume goes on)."""

INTERRUPTED = 130


def command(given: Sequence[str]) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    parser, commands = build_parser()
    args = argparse.Namespace()
    try:
        args = parser.parse_args(with_config(commands, given))
        with _telling(args):
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        return _end(str(error) or "interrupted", INTERRUPTED)
    except (JudgesError, DataError, OSError) as error:
        code = getattr(error, "exit_code", 1)
        if isinstance(error, OSError) and error.filename is None and error.errno == errno.ENOSPC:
            # Only stdout has no name; or its last words would be tried once more at the exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _end(f"stdout: {error.strerror}", 1)
        traced = code == 1 and getattr(args, "verbose", False)
        return _end(_told(error), code, error if traced else None)


def build_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and its commands' own by their names."""
    parser: argparse.ArgumentParser = Parser(
        prog="python -m judges",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show.add(commands)
    score.add(commands)
    compare.add(commands)
    export.add(commands)
    show.add_journal(commands)
    return parser, commands.choices


def _telling(args: argparse.Namespace) -> AbstractContextManager[None]:
    if not getattr(args, "verbose", False):
        return nullcontext()
    from judges.inference.progress import verbose_logging

    return verbose_logging()


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _end(message: str, code: int, error: BaseException | None = None) -> int:
    from judges.inference.progress import trace_of, visible

    if error is not None:
        print(trace_of(error), file=sys.stderr, end="")
    said = visible(Redactor().redact(" ".join(message.split())))
    print(f"judges: {said}", file=sys.stderr)
    return code
