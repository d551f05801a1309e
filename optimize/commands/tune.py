"""The command's outside: flags in, a scorecard out, one line and a code for whatever fails."""

import os
import sys
from collections.abc import Sequence

from data.errors import DataError
from judges.engine.ledger import BudgetSpentError
from judges.engine.telling import trace_of, visible
from judges.errors import JudgesError, UsageError
from judges.loading_time import loading_time
from judges.models.secrets import Secrets
from judges.tables.landing import InUseError
from optimize.commands.flags import parser
from optimize.run.run_folder import as_json

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# What a user can mend, told in one line; anything else is our fault and shows its traceback.
EXPECTED = (JudgesError, DataError, OSError)


def one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def end(name: str, error: Exception, way_out: str = "") -> int:
    """Say what was wrong, in one line; return the exit code."""
    say(f"{name}: {one_line(error)}{way_out}")
    return error.exit_code if isinstance(error, JudgesError) else FAILED


def show(text: str) -> None:
    """Print a result; a reader that leaves early (head, less) has seen enough."""
    try:
        sys.stdout.write(visible(text) + "\n")
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"stdout: {error.strerror}")
            raise SystemExit(FAILED) from error


def say(text: str) -> None:
    sys.stderr.write(visible(Secrets().blot(text)) + "\n")
    sys.stderr.flush()


def command(arguments: Sequence[str]) -> int:
    """Run `python -m optimize` with these arguments."""
    flags = vars(parser().parse_args(arguments))
    with loading_time():
        # Only now, since flags are refused without loading all this.
        from optimize.run.work import Work

    work = Work(say)
    try:
        summary = work.do(flags)
        # Drawing takes matplotlib, which a run that fails early need not load.
        from optimize.report.run_report import write_report_at_end

        write_report_at_end(work.path)
    except EXPECTED as error:
        work.clear()
        if flags.get("verbose") and not isinstance(error, UsageError):
            say(trace_of(error).rstrip())
        way_out = ""
        if isinstance(error, OSError) and not isinstance(error, InUseError) and work.begun:
            way_out = f"; python -m optimize --resume --out {work.folder} goes on from here"
        if isinstance(error, BudgetSpentError) and work.folder and work.folder.exists():
            way_out = f" (--resume --out {work.folder}, with the larger limit)"
        return end("python -m optimize", error, way_out)
    except KeyboardInterrupt:
        where = f" --out {work.folder}" if work.folder else ""
        say(f"interrupted: python -m optimize --resume{where} goes on from here")
        return INTERRUPTED
    if flags.get("json"):
        show(as_json(summary, indent=1))
    else:
        from optimize.run.scorecard import scorecard

        show(scorecard(summary, str(work.folder)))
    return DONE
